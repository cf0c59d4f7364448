"""Results as tables for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from astra_sim.errors import printable
from astra_sim.graph import Pass
from astra_sim.report.breakdown import MOST_OPERATIONS
from astra_sim.report.figures import figures_table, parts_table, scalar_figures
from astra_sim.report.result import Result
from astra_sim.units import MIB

_PIPE_WIDTH = 160
_SHOWN = 10
"""Rows of a table of all NPUs, unless all are wanted."""

Rows = Sequence[Mapping[str, Any]]


def console() -> Console:
    """A console; where the output is no terminal, one wide enough for the tables."""
    made = Console(markup=False, emoji=False, highlight=False)
    if not made.is_terminal:
        made.width = _PIPE_WIDTH
    return made


def print_result(result: Result, every: bool = False) -> None:
    """Print the figures of the run, those of its workload, and those of its layers and dimensions.

    Of a run without layers, or with `every` row, tables of all NPUs, too, whose times the run must have kept; else ten rows of each.
    """
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
    if every or not result.layers:
        print_npu_tables(out, result.npu_tables(every), every)
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


# -- all NPUs ----------------------------------------------------------------------------------------------------------


def print_npu_tables(out: Console, tables: Mapping[str, Rows], every: bool) -> None:
    """Print where the time of all NPUs goes. Links come with `every` table alone, and so does what takes long to make."""
    if "npu_times" not in tables:
        out.print(f"More than {MOST_OPERATIONS:,} operations: --all makes tables of them, of NPUs and of groups.")
    for name, make in _NPU_TABLES.items():
        rows = tables.get(name, [])
        if rows and (every or name != "links"):
            out.print(make(rows if every else rows[:_SHOWN], len(rows)))


def _operations(rows: Rows, count: int) -> Table:
    """What operations take, a mean over the NPUs that do them."""
    title = "Operations that expose most: times and their sums (us) on each NPU that does them"
    table = _table(title, ("operation", "kind", "group"), ("NPUs", "times", "time", "exposed"), len(rows), count)
    for row in rows:
        table.add_row(*(printable(row[name]) for name in ("operation", "kind", "group")), str(row["npus"]), *_of_each(row))
    return table


def _groups(rows: Rows, count: int) -> Table:
    """The same of groups, with bytes."""
    title = "Groups: operations, their sums (us) and bytes on each NPU that communicates in them"
    table = _table(title, ("group",), ("NPUs", "times", "time", "exposed", "MiB"), len(rows), count)
    for row in rows:
        alike = f" ({row['alike']} groups)" if row["alike"] > 1 else ""
        mib = f"{row['bytes'] / row['npus'] / MIB:.3f}"
        table.add_row(printable(row["group"]) + alike, str(row["npus"]), *_of_each(row), mib)
    return table


def _of_each(row: Mapping[str, Any]) -> list[str]:
    """How often each NPU does something, and how long it takes in all and exposed."""
    return [f"{row['count'] / row['npus']:.4g}", _us(row["total_ns"] / row["npus"]), _us(row["exposed_ns"] / row["npus"])]


def _npus(rows: Rows, count: int) -> Table:
    """What NPUs spend their time on."""
    title = "NPUs (us): compute + exposed + memory + idle = finish"
    table = _table(title, ("NPUs",), ("count", "finish", "compute", "comm", "exposed", "memory", "idle"), len(rows), count)
    names = ("finish_ns", "compute_ns", "communication_ns", "exposed_ns", "memory_ns", "idle_ns")
    for row in rows:
        table.add_row(row["npus"], str(row["count"]), *(_us(row[name]) for name in names))
    return table


def _links(rows: Rows, count: int) -> Table:
    """What links have carried."""
    table = _table("Links, the busiest first", ("dimension", "from", "to"), ("sent (MiB)", "utilisation (%)"), len(rows), count)
    for row in rows:
        ends = printable(row["source"]), printable(row["target"])
        table.add_row(str(row["dimension"]), *ends, f"{row['bytes'] / MIB:.6f}", f"{100 * row['utilisation']:.1f}")
    return table


_NPU_TABLES: Mapping[str, Callable[[Rows, int], Table]] = {
    "operations": _operations,
    "npu_times": _npus,
    "groups": _groups,
    "links": _links,
}


def _table(title: str, names: Sequence[str], numbers: Sequence[str], shown: int, count: int) -> Table:
    """A table with headings, that says how many rows it leaves out."""
    more = f" ({count - shown} more: --all)" if shown < count else ""
    table = Table(title=title + more, title_justify="left")
    for name in names:
        table.add_column(name, no_wrap=True, overflow="fold")
    for name in numbers:
        table.add_column(name, justify="right")
    return table
