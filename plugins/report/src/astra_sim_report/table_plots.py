"""Figures of tables of results for papers, drawn by matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import attrs
import numpy as np
from astra_sim.errors import InputError
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from astra_sim_report.colours import series
from astra_sim_report.column_names import column_name
from astra_sim_report.studies import front, grid, lines, shown
from astra_sim_report.tables import Cell, ResultTable

_MARKERS = "osD^vP*X"
_MOST_NUMBERS = 100
"""Cells of a heat map up to which each has its number written in it."""
_MOST_TICKS = 16
_LIGHT = 0.6
"""The share of the scale of colours above which a colour is light."""


@attrs.frozen
class PlotAxes:
    """The axes of a figure of a table: columns, which of the three are logarithmic, and of which more is better."""

    x: str | None = None
    y: str | None = None
    hue: str | None = None
    log: Sequence[str] = ()
    maximize: Sequence[str] = ()

    def needed(self, name: str, kind: str) -> str:
        """The column of an option. Raises InputError if it was not given."""
        value: str | None = getattr(self, name)
        if value is None:
            raise InputError(f"--{name} is missing; expected a column of the table for {kind}")
        return value


def draw_table(kind: str, table: ResultTable, axes: PlotAxes) -> Figure:
    """A figure of a table; `kind` is one of `kinds.TABLE_KINDS`. Raises InputError if columns are missing or hold no numbers."""
    axes.needed("x", kind), axes.needed("y", kind)
    if axes.maximize and kind != "pareto":
        raise InputError(f"--maximize has no effect on {kind}; expected it with pareto alone")
    for name in axes.maximize:
        if name not in (axes.x, axes.y):
            raise InputError(f"--maximize is {name!r}; expected --x or --y: {axes.x} or {axes.y}")
    return _DRAWN[kind](table, axes)


def _is_number(cell: Cell) -> bool:
    return isinstance(cell, (int, float)) and not isinstance(cell, bool)


def _tick(value: float) -> str:
    """A number at an axis; large ones in thousands, millions or billions, so that they have room."""
    for size, letter, least in ((1e9, "G", 1e9), (1e6, "M", 1e6), (1e3, "k", 1e4)):
        if abs(value) >= least:
            return f"{value / size:,.6g} {letter}"
    return f"{value:,.6g}"


class _Along:
    """An axis of a column: numbers by their size, in their unit, anything else at places 0, 1, ..."""

    def __init__(self, name: str, cells: Sequence[Cell], option: str, axes: PlotAxes, columns: Iterable[str]) -> None:
        self.name = name
        self.log = option in axes.log
        self.is_numeric = all(map(_is_number, cells))
        numbers: list[float] = [cell for cell in cells if isinstance(cell, (int, float))] if self.is_numeric else []
        if self.log and (not self.is_numeric or min(numbers) <= 0):
            raise InputError(f"--log {option}: {name} is not above 0 in all rows; expected numbers above 0")
        self.called = column_name(name, numbers, list(columns))
        self.unit = self.called.unit
        self._distinct = sorted({number / self.unit.ns for number in numbers})
        self.names: list[Cell] = [] if self.is_numeric else list(dict.fromkeys(cells))

    def at(self, cells: Sequence[Cell]) -> list[float]:
        """The positions of cells."""
        if not self.is_numeric:
            return [float(self.names.index(cell)) for cell in cells]
        return [cell / self.unit.ns for cell in cells]  # type: ignore[operator]

    def apply(self, axis: Any, of: Any, set_scale: Callable[[str], None]) -> None:
        """Give an axis of a figure its scale, label and ticks."""
        of(self.called.label)
        if not self.is_numeric:
            axis.set_ticks(range(len(self.names)), [shown(cell) for cell in self.names])
        elif not self.log:
            axis.set_major_formatter(FuncFormatter(lambda at, _: _tick(at)))
        else:
            set_scale("log")
            if len(self._distinct) <= _MOST_TICKS // 2:
                axis.set_ticks(self._distinct, [_tick(value) for value in self._distinct])
                axis.set_minor_locator(NullLocator())


def _axes_of(figure: Figure, along: _Along, up: _Along) -> Any:
    panel = figure.subplots()
    along.apply(panel.xaxis, panel.set_xlabel, panel.set_xscale)
    up.apply(panel.yaxis, panel.set_ylabel, panel.set_yscale)
    if not along.is_numeric and max(len(shown(name)) for name in along.names) * len(along.names) > 50:
        panel.tick_params(axis="x", labelrotation=30)
    return panel


def _legend(panel: Any, figure: Figure, hue: str | None) -> None:
    if panel.get_legend_handles_labels()[0]:
        figure.legend(loc="outside right upper", fontsize=8, title=hue, title_fontsize=8, alignment="left")


def _lines(table: ResultTable, axes: PlotAxes) -> Figure:
    """Draw a line for each value of a column. Raises InputError."""
    x, y = axes.needed("x", "line"), axes.needed("y", "line")
    if "hue" in axes.log:
        raise InputError("--log hue has no effect on line; expected it with heat alone")
    drawn = lines(table, x, y, axes.hue)
    along = _Along(x, table.column(x, "--x"), "x", axes, table.columns)
    up = _Along(y, table.numbers(y, "--y"), "y", axes, table.columns)
    figure = Figure(figsize=(5.2, 3.2), layout="constrained")
    panel = _axes_of(figure, along, up)
    for place, (line, shade) in enumerate(zip(drawn, series(len(drawn)), strict=True)):
        style = {"color": shade, "marker": _MARKERS[place % len(_MARKERS)], "markersize": 4}
        panel.plot(along.at(line.xs), up.at(line.ys), label=line.label or None, **style)
    if not up.log and min(min(line.ys) for line in drawn) >= 0:
        panel.set_ylim(bottom=0)
    _legend(panel, figure, None if axes.hue is None else column_name(axes.hue, (), list(table.columns)).label)
    return figure


def _heat(table: ResultTable, axes: PlotAxes) -> Figure:
    """Draw a cell for each pair of values. Raises InputError."""
    x, y, hue = axes.needed("x", "heat"), axes.needed("y", "heat"), axes.needed("hue", "heat")
    if {"x", "y"} & set(axes.log):
        raise InputError("--log x and --log y have no effect on heat, whose cells are side by side; expected --log hue")
    drawn = grid(table, x, y, hue)
    values = table.numbers(hue, "--hue")
    scale = _Along(hue, values, "hue", axes, table.columns)
    cells = np.array([[np.nan if cell is None else cell / scale.unit.ns for cell in row] for row in drawn.cells])
    width, height = min(8.0, max(2.4, 0.6 * len(drawn.xs))), min(8.0, max(1.8, 0.36 * len(drawn.ys)))
    figure = Figure(figsize=(1.8 + width, 0.9 + height), layout="constrained")
    panel = figure.subplots()
    image = panel.imshow(cells, origin="lower", aspect="auto", interpolation="nearest", norm=LogNorm() if scale.log else None)
    figure.colorbar(image, ax=panel, label=scale.called.label)
    for axis, of in ((panel.xaxis, drawn.xs), (panel.yaxis, drawn.ys)):
        if len(of) <= _MOST_TICKS:
            axis.set_ticks(range(len(of)), [shown(cell) for cell in of])
        else:
            axis.set_major_locator(MaxNLocator(_MOST_TICKS // 2, integer=True))
            axis.set_major_formatter(FuncFormatter(_name_at(of)))
    for name, cells_of, set_label in ((x, drawn.xs, panel.set_xlabel), (y, drawn.ys, panel.set_ylabel)):
        called = column_name(name, cells_of, list(table.columns))
        set_label(called.label if called.unit.ns == 1.0 else called.words)
    if cells.size <= _MOST_NUMBERS:
        is_light = np.asarray(image.norm(cells)) > _LIGHT
        for (row, column), cell in np.ndenumerate(cells):
            if not np.isnan(cell):
                shade = "black" if is_light[row, column] else "white"
                panel.text(column, row, f"{cell:.3g}", ha="center", va="center", color=shade, fontsize=7)
    return figure


def _name_at(cells: Sequence[Cell]) -> Callable[[float, Any], str]:
    """The value at a place of an axis of cells."""
    return lambda at, _: shown(cells[round(at)]) if 0 <= at < len(cells) else ""


def _pareto(table: ResultTable, axes: PlotAxes) -> Figure:
    """Draw points and the front of those that no other beats in both. Raises InputError."""
    x, y = axes.needed("x", "pareto"), axes.needed("y", "pareto")
    if "hue" in axes.log:
        raise InputError("--log hue has no effect on pareto; expected it with heat alone")
    xs, ys = table.numbers(x, "--x"), table.numbers(y, "--y")
    best = front(*([-each for each in cells] if name in axes.maximize else cells for name, cells in ((x, xs), (y, ys))))
    along, up = _Along(x, xs, "x", axes, table.columns), _Along(y, ys, "y", axes, table.columns)
    figure = Figure(figsize=(5.2, 3.4), layout="constrained")
    panel = _axes_of(figure, along, up)
    hues = [None] * len(table) if axes.hue is None else table.column(axes.hue, "--hue")
    values = list(dict.fromkeys(hues))
    for value, other in zip(values, series(len(values)), strict=True):
        chosen = [row for row, each in enumerate(hues) if each == value]
        shade = "#999999" if axes.hue is None else other
        label = None if axes.hue is None else shown(value)
        panel.scatter(
            along.at([xs[row] for row in chosen]), up.at([ys[row] for row in chosen]), s=14, color=shade, label=label, linewidths=0
        )
    ends = along.at([xs[row] for row in best]), up.at([ys[row] for row in best])
    panel.plot(*ends, drawstyle="steps-post", color="#222222", linewidth=1, label="Pareto front")
    panel.scatter(*ends, s=40, facecolors="none", edgecolors="#222222")
    _legend(panel, figure, None if axes.hue is None else column_name(axes.hue, (), list(table.columns)).label)
    return figure


_DRAWN: dict[str, Callable[[ResultTable, PlotAxes], Figure]] = {"line": _lines, "heat": _heat, "pareto": _pareto}
