"""Results as tables for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from astra_sim.graph import Pass
from astra_sim.report.amounts import byte_unit, to_ns
from astra_sim.report.figures import figures_table, parts_table, scalar_figures
from astra_sim.report.layout import Column, Table
from astra_sim.report.repeated_layers import Folded, fold
from astra_sim.report.screen import Screen

if TYPE_CHECKING:
    from astra_sim.report.attribution import Attribution, LayerPass
    from astra_sim.report.result import LayerFigures, Result

SHOWN = 10
"""Layers of a table, unless all are wanted."""
_LIKE = 0.05
"""Share by which the compute times of layers differ that count as repetitions."""
_PASSES = {Pass.FORWARD: "fwd", Pass.INPUT_GRADIENT: "ig", Pass.WEIGHT_GRADIENT: "wg"}
_LEGEND = "comm: issue to end; fwd, ig, wg: passes"


def print_result(result: Result, screen: Screen | None = None) -> None:
    """Print the figures of the run, those of its workload, and those of its layers and dimensions; times in the units of the screen.

    Of a run without layers, or if all tables are wanted, those of all NPUs, too, if the run has kept their times.
    """
    out = Screen() if screen is None else screen
    out.table(_summary(result, out))
    scalars = scalar_figures(result.shown)
    if scalars:
        out.table(figures_table(list(scalars.values()), out.units))
    for name, figure in result.shown.items():
        if name not in scalars:
            out.table(parts_table(figure, "#" if out.is_ascii else "█", out.units))
    if result.layers:
        out.table(layers_table(result.layers, out, result.attribution))
    if result.has_npu_tables and (out.every or not result.layers):
        from astra_sim.report.npu_tables import print_npu_tables

        print_npu_tables(result.npu_tables(out.every), out)
    out.table(_dimensions(result, out))


def _summary(result: Result, screen: Screen) -> Table:
    """The table of total times, bytes, cost and NPUs of a run."""
    unit, sent = screen.time_unit(result.finish_ns), result.network["payload_bytes"]
    times = {"total": result.finish_ns, "compute": result.compute_ns, **_without_compute(result)}
    rows = [[label, unit.number(time), unit.name] for label, time in times.items()]
    payload = byte_unit(sent)
    rows.append(["payload", payload.number(sent), f"{payload.name} sent by each NPU (as NPU 0)"])
    if result.network.get("cost_usd") is not None:
        rows.append(["network cost", f"{result.network['cost_usd']:.0f}", "USD"])
    reason = f": {result.every_npu_reason}" if result.every_npu_reason else ""
    rows.append(["NPUs", str(result.npus), f"({result.simulated_npus} simulated{reason})"])
    rows.append(["messages", str(result.messages), f"(network: {result.network['plugin']})"])
    rows += _compute(result)
    rows += [
        ["algorithm", chosen.algorithm, f"(auto, {chosen.collective} in dimension {chosen.dimension})"]
        for chosen in result.algorithms
        if ":" in chosen.reason
    ]
    rows.append(["wall time", f"{result.wall_s * 1000:.1f}", "ms"])
    return Table((Column("", "word"), Column(""), Column("", "text")), rows, result.run_name, headed=False, indent=1)


def _without_compute(result: Result) -> dict[str, float]:
    """The parts of the time in which NPU 0 does not compute (ns)."""
    spent = result.attribution
    if spent is None:
        return {"waiting": result.exposed_comm_ns}
    results = {"exposed communication": to_ns(spent.exposed_ps), "memory": to_ns(spent.memory_ps), "idle": to_ns(spent.idle_ps)}
    return {name: time for name, time in results.items() if time or name == "exposed communication"}


def _compute(result: Result) -> list[list[str]]:
    """The device and the software whose times these are, and how well they are known."""
    results, rows = result.compute, []
    if "device" in results:
        origin = "of the platform" if results.get("device_from") == "platform" else ""
        fit = "" if results.get("calibrated", True) else "not calibrated"
        rows.append(["device", str(results["device"]), _bracketed(origin, fit)])
    if "stack" in results:
        error, lines = results.get("held_out_error"), results.get("held_out_lines")
        known = "" if error is None else f"error {error:.1%} on {lines} held-out iterations" if lines else f"held-out error {error:.1%}"
        origin = "the newest of the device" if results.get("stack_from") == "auto" else ""
        rows.append(["stack", str(results["stack"]), _bracketed(origin, known)])
    taken = results.get("workload_options", {})
    if taken:
        options = ", ".join(f"{name}={_shown(value)}" for name, value in taken.items())
        rows.append(["of the stack", str(len(taken)), f"options of the workload: {options}"])
    return rows


def _bracketed(*words: str) -> str:
    text = ", ".join(word for word in words if word)
    return f"({text})" if text else ""


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# -- layers ------------------------------------------------------------------------------------------------------------


def layers_table(layers: Sequence[LayerFigures], screen: Screen, attribution: Attribution | None = None) -> Table:
    """A row for each layer, or for layers that repeat, with the sum of their times. Unless all are wanted, the `SHOWN` that expose most.

    Exposed times are those of the attribution, if there is one; work without a layer has a row of its own.
    """
    lines = [Folded(layer.name, [place]) for place, layer in enumerate(layers)]
    exposed = {} if attribution is None else attribution.exposed_by
    each = [_times(layer) if attribution is None else _attributed(_times(layer), place, exposed) for place, layer in enumerate(layers)]
    title, legend = "Layers", [_LEGEND]
    if not screen.every:
        lines = fold([layer.name for layer in layers], lambda first, other: _repeats(each[first], each[other]))
        if len(lines) < len(layers):
            legend.append("n x: sum of n layers")
        if len(lines) > SHOWN:
            lines.sort(key=lambda line: _sum(each, line)[2::-1], reverse=True)
            others = [place for line in lines[SHOWN:] for place in line.places]
            lines = [*lines[:SHOWN], Folded(f"{len(others)} others", others)]
            title = f"Layers that expose most, {len(layers) - len(others)} of {len(layers)}"
        if len(lines) < len(layers):
            legend.append("--all: all layers")
    rows = [(line.label, _sum(each, line)) for line in lines]
    of_none = _attributed([0.0] * len(each[0]), -1, exposed)
    if of_none[2]:
        rows.append(("no layer", of_none))
    unit = screen.time_unit(max(max(times) for _, times in rows))
    figures = ("compute", "comm", "exposed")
    columns = [
        Column("layer", "name"),
        *(Column(f"{name} ({unit.name})", rank=rank) for name, rank in zip(figures, (1, 2, 0), strict=True)),
    ]
    for name in _PASSES.values():
        columns += [Column(f"{name} {figure} ({unit.name})", rank=rank) for figure, rank in zip(figures, (4, 5, 3), strict=True)]
    return Table(columns, [[name, *map(unit.number, times)] for name, times in rows], title, "; ".join(legend))


def _times(layer: LayerFigures) -> list[float]:
    """Computing, communicating and exposing of a layer in all, and for each pass (ns)."""
    passes = [layer.of(each) for each in _PASSES]
    by_pass = [[each.compute_ns, each.total_comm_ns, each.exposed_comm_ns] for each in passes]
    return [sum(column) for column in zip(*by_pass, strict=True)] + [time for times in by_pass for time in times]


def _attributed(times: Sequence[float], layer: int, exposed: Mapping[LayerPass, int]) -> list[float]:
    """The times of a layer (-1: of work without one) with its exposed time by an attribution."""
    result = list(times)
    for place, training_pass in enumerate(_PASSES):
        result[5 + 3 * place] = to_ns(exposed.get((layer, training_pass.value), 0))
    result[2] = to_ns(sum(time for (number, _), time in exposed.items() if number == layer))
    return result


def _sum(times: Sequence[Sequence[float]], line: Folded) -> list[float]:
    """The times of the layers that a line represents, added up."""
    return [sum(column) for column in zip(*(times[place] for place in line.places), strict=True)]


def _repeats(first: Sequence[float], other: Sequence[float]) -> bool:
    """Whether layers compute for as long in each pass, and communicate in the same passes."""
    return all(abs(a - b) <= _LIKE * max(a, b) for a, b in zip(first[3::3], other[3::3], strict=True)) and all(
        (a > 0) == (b > 0) for a, b in zip(first[4::3], other[4::3], strict=True)
    )


# -- dimensions --------------------------------------------------------------------------------------------------------


def _dimensions(result: Result, screen: Screen) -> Table:
    """The table of use, latency and bytes of each dimension."""
    latencies = [dimension.average_chunk_latency_ns for dimension in result.dimensions]
    unit = screen.time_unit(max((latency for latency in latencies if latency is not None), default=0.0))
    sent = byte_unit(max((dimension.bytes for dimension in result.dimensions), default=0))
    columns = (
        Column("dimension", "word"),
        Column("topology", "word", 1),
        Column("NPUs", rank=1),
        Column("utilisation (%)"),
        Column(f"mean chunk latency ({unit.name})"),
        Column(f"sent ({sent.name})"),
    )
    rows = [
        [
            str(index),
            dimension.topology,
            str(dimension.size),
            f"{100 * dimension.utilisation:.1f}",
            "-" if latency is None else unit.number(latency),
            sent.number(dimension.bytes),
        ]
        for index, (dimension, latency) in enumerate(zip(result.dimensions, latencies, strict=True))
    ]
    return Table(columns, rows, "Dimensions")
