"""Figures of a table of results: lines, the cells of a heat map, a Pareto front."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from astra_sim.errors import InputError

from astra_sim_report.tables import Cell, ResultTable

_MOST_NAMED = 4


class ReportLine(NamedTuple):
    """Points that belong together: their name, and their coordinates by x."""

    label: str
    xs: Sequence[Any]
    ys: Sequence[float]


class ReportGrid(NamedTuple):
    """The cells of a heat map: values of its axes in order, and a row of numbers for each of `ys` (None: there is no such row)."""

    xs: Sequence[Cell]
    ys: Sequence[Cell]
    cells: Sequence[Sequence[float | None]]


def in_order(cells: Collection[Cell]) -> list[Cell]:
    """Values of a column, each once: numbers by size, others in the order in which they come."""
    distinct = list(dict.fromkeys(cells))
    if all(isinstance(cell, (int, float)) and not isinstance(cell, bool) for cell in distinct):
        return sorted(distinct)  # type: ignore[type-var]
    return distinct


def shown(cell: Cell) -> str:
    """A cell as text."""
    if isinstance(cell, bool) or cell is None:
        return {True: "true", False: "false", None: "-"}[cell]
    return f"{cell:,}" if isinstance(cell, int) else f"{cell:.6g}" if isinstance(cell, float) else cell


def lines(table: ResultTable, x: str, y: str, hue: str | None) -> list[ReportLine]:
    """A line for each value of the column `hue`: numbers `y` against `x`. Raises InputError if rows of a line share an x."""
    xs, ys = table.column(x, "--x"), table.numbers(y, "--y")
    hues: Sequence[Cell] = [None] * len(table) if hue is None else table.column(hue, "--hue")
    places = _places(table, (xs, hues), (x, hue), y)
    order = in_order(xs)
    result = []
    for value in in_order(hues):
        points = [(each, places[each, value]) for each in order if (each, value) in places]
        result.append(ReportLine("" if hue is None else shown(value), [each for each, _ in points], [ys[place] for _, place in points]))
    return result


def grid(table: ResultTable, x: str, y: str, hue: str) -> ReportGrid:
    """The numbers of the column `hue` over `x` and `y`. Raises InputError if rows share both."""
    xs, ys, values = table.column(x, "--x"), table.column(y, "--y"), table.numbers(hue, "--hue")
    places = _places(table, (xs, ys), (x, y), hue)
    across, up = in_order(xs), in_order(ys)
    return ReportGrid(across, up, [[values[places[one, other]] if (one, other) in places else None for one in across] for other in up])


def _places(table: ResultTable, columns: Sequence[Sequence[Cell]], names: Sequence[str | None], of: str) -> dict[tuple[Cell, ...], int]:
    """The row for each pair of values; rows that share both have to agree on the column `of`."""
    rows: dict[tuple[Cell, ...], list[int]] = {}
    for place, pair in enumerate(zip(*columns, strict=True)):
        rows.setdefault(pair, []).append(place)
    for pair, own in rows.items():
        if len({table.columns[of][place] for place in own}) == 1:
            continue
        differ = [name for name in table.parameters if name not in names and len({table.columns[name][place] for place in own}) > 1]
        text = " and ".join(f"{name} = {shown(cell)}" for name, cell in zip(names, pair, strict=True) if name is not None)
        which = f", which differ in {', '.join(differ[:_MOST_NAMED])}" if differ else ""
        choose = f"choose with --where {differ[0] if differ else 'COLUMN'}=VALUE, or tell them apart by --hue"
        raise InputError(f"{len(own)} rows of {table.name} have {text}{which}; expected one: {choose}")
    return {pair: own[0] for pair, own in rows.items()}


def front(xs: Sequence[float], ys: Sequence[float]) -> list[int]:
    """The places of the points that no other is as good as in both coordinates and better in one, by x; less is better."""
    result: list[int] = []
    for place in sorted(range(len(xs)), key=lambda place: (xs[place], ys[place], place)):
        if not result or ys[place] < ys[result[-1]]:
            result.append(place)
    return result
