"""Results as tables for people."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from astra_sim.errors import printable
from astra_sim.graph import Pass
from astra_sim.report.figures import figures_table, parts_table, scalar_figures
from astra_sim.report.result import Result
from astra_sim.units import MIB

_PIPE_WIDTH = 160


def console() -> Console:
    """A console; where the output is no terminal, one wide enough for the tables."""
    made = Console(markup=False, emoji=False, highlight=False)
    if not made.is_terminal:
        made.width = _PIPE_WIDTH
    return made


def print_result(result: Result) -> None:
    """Print the figures of the run, those of its workload, and those of its layers and dimensions."""
    out = console()
    out.print(_summary(result))
    scalars = scalar_figures(result.shown)
    if scalars:
        out.print(figures_table(list(scalars.values())))
    for name, figure in result.shown.items():
        if name not in scalars:
            out.print(f"{figure.label} ({figure.note})" if figure.note else figure.label)
            out.print(parts_table(figure, "#" if out.options.ascii_only else "█"))
    if result.layers:
        out.print(_layers(result))
    out.print(_dimensions(result))


def _us(nanoseconds: float) -> str:
    return f"{nanoseconds / 1000:.3f}"


def _summary(result: Result) -> Table:
    table = Table(title=printable(result.run_name), title_justify="left", show_header=False, box=None)
    table.add_column()
    table.add_column(justify="right")
    table.add_column()
    table.add_row("total", _us(result.finish_ns), "us")
    table.add_row("compute", _us(result.compute_ns), "us")
    table.add_row("exposed communication", _us(result.exposed_comm_ns), "us")
    table.add_row("payload", f"{result.network['payload_bytes'] / MIB:.6f}", "MiB sent by each NPU (as NPU 0)")
    if result.network.get("cost_usd") is not None:
        table.add_row("network cost", f"{result.network['cost_usd']:.0f}", "USD")
    table.add_row("NPUs", str(result.npus), f"({result.simulated_npus} simulated)")
    table.add_row("messages", str(result.messages), f"(network: {result.network['plugin']})")
    for chosen in result.algorithms:
        if ":" in chosen.reason:
            table.add_row("algorithm", chosen.algorithm, f"(auto, {chosen.collective} in dimension {chosen.dimension})")
    table.add_row("wall time", f"{result.wall_s * 1000:.1f}", "ms")
    return table


def _layers(result: Result) -> Table:
    title = "Layers (us), forward (fwd), input gradient (ig) and weight gradient (wg): computing, communication from issue to end, exposed"
    table = Table(title=title, title_justify="left")
    table.add_column("layer", no_wrap=True, overflow="fold")
    for name in ("fwd", "ig", "wg"):
        for figure in ("compute", "comm", "exposed"):
            table.add_column(f"{name}\n{figure}", justify="right")
    for layer in result.layers:
        cells = []
        for training_pass in Pass:
            figures = layer.of(training_pass)
            cells += [_us(figures.compute_ns), _us(figures.total_comm_ns), _us(figures.exposed_comm_ns)]
        table.add_row(printable(layer.name), *cells)
    return table


def _dimensions(result: Result) -> Table:
    table = Table(title="Dimensions", title_justify="left")
    table.add_column("")
    table.add_column("topology")
    for name in ("NPUs", "utilisation (%)", "mean chunk latency (us)", "sent (MiB)"):
        table.add_column(name, justify="right")
    for index, dimension in enumerate(result.dimensions):
        latency = dimension.average_chunk_latency_ns
        table.add_row(
            str(index),
            dimension.topology,
            str(dimension.size),
            f"{100 * dimension.utilisation:.1f}",
            "-" if latency is None else _us(latency),
            f"{dimension.bytes / MIB:.6f}",
        )
    return table
