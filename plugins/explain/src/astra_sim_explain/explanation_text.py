"""Explanations as text: a summary of ten lines, then tables."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any

from astra_sim.commands import Column, Screen, Table
from astra_sim.display import DisplayUnit
from astra_sim.errors import printable
from astra_sim.records import POINT_TO_POINT

from astra_sim_explain.explanation import BOTH_WAYS, SEND, PathExplanation, PathRow, Sensitivity

SHOWN = 10
"""Rows of a table, unless all are wanted."""
_LONGEST_NAME = 30
_GAINS = 3
_LEAST_GAIN = 0.0005
"""Percent below which the first lines do not speak of a gain."""


def print_explanation(explanation: PathExplanation, screen: Screen) -> None:
    """Print the parts of a run."""
    unit = screen.time_unit(explanation.finish_ns)
    _print_headline(explanation, unit, screen)
    _print_tables(_tables(explanation, unit, screen), screen)


def print_difference(a: PathExplanation, b: PathExplanation, screen: Screen) -> None:
    """Print the differences of two runs."""
    unit = screen.time_unit(max(a.finish_ns, b.finish_ns))
    change = b.finish_ns - a.finish_ns
    share = f" ({100 * change / a.finish_ns:+.2f}{Screen.NO_BREAK}%)" if a.finish_ns else ""
    for letter, run in (("A", a), ("B", b)):
        screen.text(f"{letter}: {printable(run.run_name)}: {unit(run.finish_ns)} on {run.npus} NPUs")
    screen.text(f"B - A: {'+' if change >= 0 else ''}{unit(change)}{share}; on the critical paths:")
    changes = difference(a, b)
    for row in changes["kind"][:5]:
        percent = "" if row["percent"] is None else f" ({row['percent']:+.2f}{Screen.NO_BREAK}%)"
        screen.text(f"{row['kind']}: {'+' if row['change_ns'] >= 0 else ''}{unit(row['change_ns'])}{percent}", "  ")
    _print_tables((_changes(name, rows, unit, screen) for name, rows in changes.items()), screen)


def _print_tables(tables: Iterator[Table], screen: Screen) -> None:
    for table in tables:
        if table.rows:
            screen.text("")
            screen.table(table)


def _first(title: str, columns: list[Column], rows: list[list[str]], screen: Screen) -> Table:
    """A table of the first rows, unless all are wanted."""
    shown = rows if screen.every else rows[:SHOWN]
    note = f"... and {len(rows) - len(shown)} more (--all)" if len(shown) < len(rows) else ""
    return Table(columns, shown, title, note, indent=2)


# -- the first lines ---------------------------------------------------------------------------------------------------


def _print_headline(explanation: PathExplanation, unit: DisplayUnit, screen: Screen) -> None:
    """Print a description of the run's time by cause."""
    total = explanation.finish_ps
    screen.text(
        f"{printable(explanation.run_name)}: {unit(explanation.finish_ns)} on {explanation.npus} NPUs. On its critical path:", prose=True
    )
    if not total:
        screen.text("nothing takes time.", "  ")
        return
    kinds = [(kind, ps) for kind, ps in explanation.by(lambda row: row.kind).items() if ps >= total / 1000][:5]
    with_times = "; ".join(f"{kind} {_percent(ps, total)} ({unit(ps / 1000)})" for kind, ps in kinds)
    shares = "; ".join(f"{kind} {_percent(ps, total)}" for kind, ps in kinds)
    screen.text(with_times if len(with_times) + 2 <= screen.prose else shares, "  ", prose=True)
    contributors = explanation.by(lambda row: (row.collective or row.kind, row.group, row.dimension))
    for number, (what, ps) in enumerate(list(contributors.items())[:3], 1):
        words, most = _contributor(what, explanation)
        line = f"{number}. {_percent(ps, total):>7}  {words}"
        screen.text(line + most if len(line + most) + 2 <= screen.prose else line, "  ", " " * 14, prose=True)
    for line in (_gains(explanation), _bounds_line(explanation, unit), _others_line(explanation, unit)):
        if line:
            screen.text(line, "  ", prose=True)


def _contributor(what: tuple[str, str, int | None], explanation: PathExplanation) -> tuple[str, str]:
    """Describe the shares of the time, with details of the layer that takes most of it."""
    name, group, dimension = what
    rows = [row for row in explanation.path if (row.collective or row.kind, row.group, row.dimension) == what]
    layers: dict[str, int] = {}
    for row in rows:
        layers[row.layer] = layers.get(row.layer, 0) + row.ps
    layer, most = max(layers.items(), key=lambda item: item[1])
    words = printable(name)
    if name == SEND and group == POINT_TO_POINT:
        words = f"{POINT_TO_POINT} messages"
    elif group:
        words += f" of {'group ' if group.isdecimal() else ''}{_named(group)}"
    if dimension is not None:
        words += f" in dimension {dimension} ({explanation.dimensions[dimension]})"
    if layer and len(layers) > 1 and most < sum(layers.values()):
        return words, f", most for {_named(layer)}: {_percent(most, explanation.finish_ps)}"
    return words, ""


def _gains(explanation: PathExplanation) -> str:
    """Describe the gain of 1 % more of the most important parameter, and of 1 % less of the largest cost."""
    smooth = [each for each in explanation.sensitivities if each.layer is None and each.method != "re-runs, kink"]
    considerable = [each for each in smooth if abs(each.percent) >= _LEAST_GAIN]
    largest = sorted(considerable, key=lambda each: -abs(each.percent))[:_GAINS]
    gains = [f"{'more' if each.percent < 0 else 'less'} {_parameter(each)} {abs(each.percent):.3f}{Screen.NO_BREAK}%" for each in largest]
    return f"1{Screen.NO_BREAK}% of these makes it faster: {'; '.join(gains)}." if gains else ""


def _parameter(each: Sensitivity) -> str:
    where = "" if each.dimension is None else f" of dimension {each.dimension}"
    return f"{each.parameter}{where}"


def _bounds_line(explanation: PathExplanation, unit: DisplayUnit) -> str:
    """Describe the distance of the run from its bounds."""
    largest = explanation.largest_bound()
    if largest is None:
        return ""
    wires = sorted((bound for bound in explanation.bounds if bound.kind == "wire" and bound.ns), key=lambda bound: -bound.ns)
    compute = next(bound for bound in explanation.bounds if bound.kind == "compute")
    known = [f"compute {unit(compute.ns)}"] if compute.ns else []
    known += [f"wire of dimension {bound.dimension} {unit(bound.ns)}" for bound in wires[:1]]
    times = explanation.finish_ns / largest.ns
    text = f"Bounds: {', '.join(known)}; the run takes {times:.2f} times the largest."
    if times < 1:
        where = explanation.dimensions[largest.dimension] if largest.dimension is not None else ""
        why = f"a message has the bandwidth of both directions ({BOTH_WAYS})" if BOTH_WAYS in where else ""
        text += f" Faster than the wire: {why or 'messages of this network never wait'}."
    return text


def _others_line(explanation: PathExplanation, unit: DisplayUnit) -> str:
    """Describe how long the busiest NPU waits for compute of others, if it matters."""
    others = explanation.compute_of_others_ns
    if others < 0.001 * explanation.finish_ns:
        return ""
    return f"Other NPUs compute for {unit(others)} ({_percent(others, explanation.finish_ns)}) while the busiest waits."


# -- tables ------------------------------------------------------------------------------------------------------------


def _tables(explanation: PathExplanation, unit: DisplayUnit, screen: Screen) -> Iterator[Table]:
    """The tables of an explanation."""
    total = explanation.finish_ps
    figures = [Column(f"time ({unit.name})"), Column("share (%)")]

    def times(ps: int) -> list[str]:
        return [unit.number(ps / 1000), f"{100 * ps / total:.1f}" if total else "-"]

    kinds = [[kind, *times(ps)] for kind, ps in explanation.by(lambda row: row.kind).items()]
    yield Table([Column("kind", "name"), *figures], kinds, "By kind", indent=2)
    layers = explanation.by(lambda row: row.layer)
    computing = explanation.by(lambda row: row.layer if row.kind == "compute" else None)
    rows = [[layer or "-", unit.number(computing.get(layer, 0) / 1000), *times(ps)] for layer, ps in layers.items()]
    yield _first("By layer", [Column("layer", "name"), Column(f"compute ({unit.name})", rank=1), *figures], rows, screen)
    for title, name, key in _OTHERS:
        shares = {each: ps for each, ps in explanation.by(key).items() if each not in ("", None)}
        rows = [[_where(title, each, explanation), *times(ps)] for each, ps in shares.items()]
        yield _first(title, [Column(name, "name"), *figures], rows, screen)
    yield _sensitivities(explanation, screen)
    bounds = [
        [
            f"{each.kind}{'' if each.dimension is None else f' of dimension {each.dimension}'}",
            unit.number(each.ns),
            _times(explanation, each.ns),
        ]
        for each in explanation.bounds
    ]
    yield Table([Column("bound", "word"), Column(f"time ({unit.name})"), Column("run / bound")], bounds, "Lower bounds", indent=2)
    if explanation.network_error is not None:
        yield _network_error(explanation.network_error, screen)


def _network_error(error: Mapping[str, Any], screen: Screen) -> Table:
    """Describe the bounds of the makespan of a network such as `auto`, by parts of the run."""
    unit = screen.time_unit(max((part["ns"] for part in error["parts"]), default=0))
    columns = [Column("part", "text"), Column("count"), *(Column(f"{name} ({unit.name})") for name in ("time", "from", "to"))]
    rows = [
        [part["name"], str(part["count"]), *(unit.number(part[key]) for key in ("ns", "lower_ns", "upper_ns")), part["basis"]]
        for part in error["parts"]
    ]
    proved = "proved" if error["proved"] else "estimated"
    title = f"Network error: {error['width']:.2%} of the time, against the whole run on {error['target']}, {proved}"
    return Table([*columns, Column("basis", "word")], rows, title, indent=2)


_OTHERS: tuple[tuple[str, str, Callable[[PathRow], Hashable]], ...] = (
    ("By collective", "collective", lambda row: row.collective),
    ("By dimension", "dimension", lambda row: row.dimension),
    ("By group", "group", lambda row: row.group),
)


def _where(title: str, key: Any, explanation: PathExplanation) -> str:
    return f"{key} ({explanation.dimensions[key]})" if title == "By dimension" else str(key)


def _sensitivities(explanation: PathExplanation, screen: Screen) -> Table:
    """Describe the effect of 1 % more of each parameter; of the layers the most sensitive ones."""
    unit = screen.time_unit(max((abs(each.derivative_ns) for each in explanation.sensitivities), default=0) / 100)
    has_ranges = any(each.range is not None for each in explanation.sensitivities)
    rows: list[list[str]] = []
    of_layers: list[list[str]] = []
    for each in explanation.sensitivities:
        where = "-" if each.dimension is None else str(each.dimension)
        name = each.parameter if each.layer is None else f"compute of {each.layer}"
        row = [name, where, f"{each.percent:+.4f}", unit.number(each.derivative_ns / 100), each.method, *_range(each, has_ranges)]
        (rows if each.layer is None else of_layers).append(row)
    columns = [Column("of", "name"), Column("dimension", "word"), Column("time (%)"), Column(f"time ({unit.name})", rank=2)]
    columns += [Column("found by", "word", 3), *([Column("holds from", "word", 1)] if has_ranges else [])]
    return Table(
        columns,
        rows + (of_layers if screen.every else of_layers[:SHOWN]),
        "Effect of 1 % more",
        f"... and {len(of_layers) - SHOWN} more (--all)" if len(of_layers) > SHOWN and not screen.every else "",
        indent=2,
    )


def _range(each: Sensitivity, has_ranges: bool) -> list[str]:
    """Describe the range of a parameter: to half and double unless it ends before. [] if it was not searched."""
    if not has_ranges:
        return []
    if each.range is None:
        return ["not known"]
    low = f"{each.range.low_percent:+.1f}{Screen.NO_BREAK}%" if each.range.low_ends else "half"
    high = f"{each.range.high_percent:+.1f}{Screen.NO_BREAK}%" if each.range.high_ends else "double"
    return [f"{low} to {high}"]


def _times(explanation: PathExplanation, ns: float) -> str:
    return f"{explanation.finish_ns / ns:.2f}" if ns else "-"


def _percent(part: float, total: float) -> str:
    return f"{100 * part / total:.1f}{Screen.NO_BREAK}%" if total else "-"


def _named(name: str) -> str:
    """A name that leaves room for numbers in a line."""
    return Screen.shortened(printable(name), _LONGEST_NAME)


# -- two runs ----------------------------------------------------------------------------------------------------------


def difference(a: PathExplanation, b: PathExplanation) -> dict[str, list[dict[str, Any]]]:
    """The differences of the paths of two runs, by kind, layer, collective, dimension and group, in nanoseconds; the largest first."""
    result: dict[str, list[dict[str, Any]]] = {}
    before, after = a.totals(), b.totals()
    for name, first in before.items():
        rows = [_changed(name, key, first, after[name]) for key in dict.fromkeys([*first, *after[name]])]
        result[name] = sorted((row for row in rows if row["change_ns"]), key=lambda row: -abs(row["change_ns"]))
    return result


def _changed(name: str, key: Any, before: Mapping[Any, float], after: Mapping[Any, float]) -> dict[str, Any]:
    first, second = before.get(key, 0), after.get(key, 0)
    return {
        name: key,
        "a_ns": first,
        "b_ns": second,
        "change_ns": second - first,
        "percent": 100 * (second - first) / first if first else None,
    }


def _changes(name: str, rows: list[dict[str, Any]], unit: DisplayUnit, screen: Screen) -> Table:
    """The differences by one way to divide the paths."""
    cells = [
        [
            str(row[name]),
            unit.number(row["a_ns"]),
            unit.number(row["b_ns"]),
            f"{'+' if row['change_ns'] >= 0 else ''}{unit.number(row['change_ns'])}",
            "-" if row["percent"] is None else f"{row['percent']:+.2f}",
        ]
        for row in rows
    ]
    times = [Column(f"A ({unit.name})", rank=1), Column(f"B ({unit.name})", rank=1), Column(f"B - A ({unit.name})")]
    return _first(f"By {name}", [Column(name, "name"), *times, Column("change (%)", rank=2)], cells, screen)
