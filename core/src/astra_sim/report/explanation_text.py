"""Explanations as text: what an expert would say in ten lines, then tables. Plain, and at most 80 columns wide."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from astra_sim.errors import printable
from astra_sim.report.explanation import SEND, Explanation, PathRow, Sensitivity
from astra_sim.report.labels import POINT_TO_POINT

WIDTH = 80
SHOWN = 10
"""Rows of a table, unless all are wanted."""
_LONGEST_NAME = 30
_SPACE = "\N{NO-BREAK SPACE}"
_GAINS = 3
_LEAST_GAIN = 0.0005
"""Percent below which the first lines do not speak of a gain."""
_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns"))


@attrs.frozen
class Unit:
    """A unit of time: its nanoseconds and its name."""

    ns: float
    name: str

    def number(self, ns: float) -> str:
        """A time in the unit, to its thousandth."""
        return f"{ns / self.ns:.3f}"

    def __call__(self, ns: float) -> str:
        """A time with its unit."""
        return f"{self.number(ns)}{_SPACE}{self.name}"


def unit_for(ns: float) -> Unit:
    """The largest unit of which a time is at least one."""
    return next((Unit(size, name) for size, name in _UNITS if ns >= size), Unit(1.0, "ns"))


def explanation_text(explanation: Explanation, every: bool = False) -> str:
    """What makes up a run, as text. With `every` the tables have all rows."""
    unit = unit_for(explanation.finish_ns)
    blocks = ["\n".join(_headline(explanation, unit)), *_tables(explanation, unit, every)]
    return "\n\n".join(block for block in blocks if block).replace(_SPACE, " ")


# -- the first lines ---------------------------------------------------------------------------------------------------


def _headline(explanation: Explanation, unit: Unit) -> Iterator[str]:
    total = explanation.finish_ps
    yield f"{printable(explanation.run_name)}: {unit(explanation.finish_ns)} on {explanation.npus} NPUs. On its critical path:"
    if not total:
        yield "  nothing takes time."
        return
    kinds = [(kind, ps) for kind, ps in explanation.by(lambda row: row.kind).items() if ps >= total / 1000][:5]
    with_times = "  " + "; ".join(f"{kind} {_percent(ps, total)} ({unit(ps / 1000)})" for kind, ps in kinds)
    shares = "; ".join(f"{kind} {_percent(ps, total)}" for kind, ps in kinds)
    yield from [with_times] if len(with_times) <= WIDTH else _filled("  ", shares)
    contributors = explanation.by(lambda row: (row.collective or row.kind, row.group, row.dimension))
    for number, (what, ps) in enumerate(list(contributors.items())[:3], 1):
        words, most = _contributor(what, explanation)
        line = f"  {number}. {_percent(ps, total):>7}  {words}"
        yield from _filled("", line + most if len(line + most) <= WIDTH else line, " " * 14)
    yield from _filled("  ", _gains(explanation))
    yield from _filled("  ", _bounds_line(explanation, unit))
    yield from _filled("  ", _bubble_line(explanation, unit))


def _contributor(what: tuple[str, str, int | None], explanation: Explanation) -> tuple[str, str]:
    """What spends time, in words, and more words for the layer that spends most of it."""
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
        words += f" of {'group ' if group.isdecimal() else ''}{_short(group)}"
    if dimension is not None:
        words += f" in dimension {dimension} ({explanation.dimensions[dimension]})"
    if layer and len(layers) > 1 and most < sum(layers.values()):
        return words, f", most for {_short(layer)}: {_percent(most, explanation.finish_ps)}"
    return words, ""


def _gains(explanation: Explanation) -> str:
    """What 1 % more of what matters most gives, and 1 % less of what costs time."""
    smooth = [each for each in explanation.sensitivities if each.layer is None and each.method != "re-runs, kink"]
    found = [each for each in smooth if abs(each.percent) >= _LEAST_GAIN]
    largest = sorted(found, key=lambda each: -abs(each.percent))[:_GAINS]
    gains = [f"{'more' if each.percent < 0 else 'less'} {_parameter(each)} {abs(each.percent):.3f}{_SPACE}%" for each in largest]
    return f"1{_SPACE}% of these makes it faster: {'; '.join(gains)}." if gains else ""


def _parameter(each: Sensitivity) -> str:
    where = "" if each.dimension is None else f" of dimension {each.dimension}"
    return f"{each.parameter}{where}"


def _bounds_line(explanation: Explanation, unit: Unit) -> str:
    """How far the run is from its bounds."""
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
        text += " Faster than the wire: messages of this network never wait."
    return text


def _bubble_line(explanation: Explanation, unit: Unit) -> str:
    """What a pipeline leaves idle, where that counts."""
    bubble = explanation.bubble_ns
    if bubble < 0.001 * explanation.finish_ns:
        return ""
    return f"Bubble: {unit(bubble)} ({_percent(bubble, explanation.finish_ns)}), in which other NPUs compute and the busiest waits."


# -- tables ------------------------------------------------------------------------------------------------------------


def _tables(explanation: Explanation, unit: Unit, every: bool) -> Iterator[str]:
    total = explanation.finish_ps
    count = None if every else SHOWN

    def times(ps: int) -> list[str]:
        return [unit.number(ps / 1000), _percent(ps, total)]

    heading = [unit.name, "share"]
    yield _table("By kind", ["kind", *heading], [[kind, *times(ps)] for kind, ps in explanation.by(lambda row: row.kind).items()], 1)
    layers = explanation.by(lambda row: row.layer)
    computing = explanation.by(lambda row: row.layer if row.kind == "compute" else None)
    rows = [[_short(layer) or "-", unit.number(computing.get(layer, 0) / 1000), *times(ps)] for layer, ps in layers.items()]
    yield _table("By layer", ["layer", "compute", *heading], rows, 1, count)
    for title, name, key in _OTHERS:
        found = {each: ps for each, ps in explanation.by(key).items() if each not in ("", None)}
        words = [[_short(_named(title, each, explanation)), *times(ps)] for each, ps in found.items()]
        yield _table(title, [name, *heading], words, 1, count)
    yield _sensitivities(explanation, count)
    bounds = [
        [
            f"{bound.kind}{'' if bound.dimension is None else f' of dimension {bound.dimension}'}",
            unit.number(bound.ns),
            _times(explanation, bound.ns),
        ]
        for bound in explanation.bounds
    ]
    yield _table("Lower bounds", ["bound", unit.name, "run / bound"], bounds, 1)


_OTHERS: tuple[tuple[str, str, Callable[[PathRow], Hashable]], ...] = (
    ("By collective", "collective", lambda row: row.collective),
    ("By dimension", "dimension", lambda row: row.dimension),
    ("By group", "group", lambda row: row.group),
)


def _named(title: str, key: Any, explanation: Explanation) -> str:
    return f"{key} ({explanation.dimensions[key]})" if title == "By dimension" else str(key)


def _sensitivities(explanation: Explanation, count: int | None) -> str:
    rows = []
    unit = unit_for(max((abs(each.derivative_ns) for each in explanation.sensitivities), default=0) / 100)
    for each in explanation.sensitivities:
        where = "-" if each.dimension is None else str(each.dimension)
        name = each.parameter if each.layer is None else f"compute of {_short(each.layer)}"
        rows.append([name, where, f"{each.percent:+.4f} %", unit.number(each.derivative_ns / 100), each.method, _range(each)])
    kept = [row for row in rows if not row[0].startswith("compute of ")]
    kept += [row for row in rows if row[0].startswith("compute of ")][:count]
    heading = ["of", "dimension", "time", unit.name, "found by"]
    if all(each.range is None for each in explanation.sensitivities):
        kept = [row[:-1] for row in kept]
    else:  # instead of the time of 1 %, for which a line has no room
        heading, kept = ["of", "dim.", "time", "found by", "holds from"], [[*row[:3], *row[4:]] for row in kept]
    return _table("What 1 % more changes", heading, kept, 1)


def _range(each: Sensitivity) -> str:
    """By how much a parameter may change, in words: to half and double, where the range does not end before."""
    if each.range is None:
        return "not known"
    low = f"{each.range.low_percent:+.1f}{_SPACE}%" if each.range.low_ends else "half"
    high = f"{each.range.high_percent:+.1f}{_SPACE}%" if each.range.high_ends else "double"
    return f"{low} to {high}"


def _times(explanation: Explanation, ns: float) -> str:
    return f"{explanation.finish_ns / ns:.2f}" if ns else "-"


def _percent(part: float, total: float) -> str:
    return f"{100 * part / total:.1f}{_SPACE}%" if total else "-"


def _short(name: str) -> str:
    """A name that leaves room for numbers."""
    text = printable(name)
    return text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 3]}..."


def _filled(indent: str, text: str, further: str | None = None) -> list[str]:
    """Lines of a text, each behind an indent; a number and its unit stay together."""
    lines = textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent if further is None else further)
    return [line.replace(_SPACE, " ") for line in lines]


def _table(title: str, heading: Sequence[str], rows: Sequence[Sequence[str]], names: int, count: int | None = None) -> str:
    """A table of `count` rows at most; its first columns are `names`, the others numbers. Nothing where there are no rows."""
    if not rows:
        return ""
    shown = rows if count is None else rows[:count]
    widths = [max(len(row[column]) for row in (heading, *shown)) for column in range(len(heading))]
    lines = [title]
    for row in (heading, *shown):
        cells = [
            cell.ljust(width) if column < names else cell.rjust(width) for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  " + "  ".join(cells).rstrip())
    if len(shown) < len(rows):
        lines.append(f"  ... and {len(rows) - len(shown)} more (--all)")
    return "\n".join(lines)


# -- two runs ----------------------------------------------------------------------------------------------------------


def difference(a: Explanation, b: Explanation) -> dict[str, list[dict[str, Any]]]:
    """What of the paths of two runs differs, by kind, layer, collective, dimension and group, in nanoseconds; the largest first."""
    found: dict[str, list[dict[str, Any]]] = {}
    before, after = a.totals(), b.totals()
    for name, first in before.items():
        rows = [_changed(name, key, first, after[name]) for key in dict.fromkeys([*first, *after[name]])]
        found[name] = sorted((row for row in rows if row["change_ns"]), key=lambda row: -abs(row["change_ns"]))
    return found


def _changed(name: str, key: Any, before: Mapping[Any, float], after: Mapping[Any, float]) -> dict[str, Any]:
    first, second = before.get(key, 0), after.get(key, 0)
    return {
        name: key,
        "a_ns": first,
        "b_ns": second,
        "change_ns": second - first,
        "percent": 100 * (second - first) / first if first else None,
    }


def difference_text(a: Explanation, b: Explanation, every: bool = False) -> str:
    """What differs between two runs, as text."""
    unit = unit_for(max(a.finish_ns, b.finish_ns))
    change = b.finish_ns - a.finish_ns
    share = f" ({100 * change / a.finish_ns:+.2f} %)" if a.finish_ns else ""
    lines = [
        f"A: {printable(a.run_name)}: {unit(a.finish_ns)} on {a.npus} NPUs",
        f"B: {printable(b.run_name)}: {unit(b.finish_ns)} on {b.npus} NPUs",
        f"B - A: {'+' if change >= 0 else ''}{unit(change)}{share}; on the critical paths:",
    ]
    found = difference(a, b)
    lines += [f"  {row['kind']}: {'+' if row['change_ns'] >= 0 else ''}{unit(row['change_ns'])}{_of(row)}" for row in found["kind"][:5]]
    blocks = ["\n".join(lines)]
    for name, rows in found.items():
        cells = [
            [
                _short(str(row[name])),
                unit.number(row["a_ns"]),
                unit.number(row["b_ns"]),
                f"{row['change_ns'] / unit.ns:+.3f}",
                "-" if row["percent"] is None else f"{row['percent']:+.2f} %",
            ]
            for row in rows
        ]
        blocks.append(_table(f"By {name} ({unit.name})", [name, "A", "B", "B - A", "change"], cells, 1, None if every else SHOWN))
    return "\n\n".join(block for block in blocks if block).replace(_SPACE, " ")


def _of(row: Mapping[str, Any]) -> str:
    return "" if row["percent"] is None else f" ({row['percent']:+.2f} %)"
