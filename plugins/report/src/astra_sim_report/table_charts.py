"""The figures of a table of results on a page: the reader chooses the columns, and `table.js` draws them."""

from __future__ import annotations

import importlib.resources
from collections.abc import Mapping, Sequence
from typing import Any

from bokeh.layouts import column, row
from bokeh.models import BasicTicker, ColumnDataSource, CustomJS, CustomJSTickFormatter, FixedTicker, HoverTool, Range1d
from bokeh.models.annotations import ColorBar
from bokeh.models.mappers import LinearColorMapper
from bokeh.models.widgets import CheckboxGroup, Select
from bokeh.palettes import Viridis256
from bokeh.plotting import figure

from astra_sim_report.colours import series
from astra_sim_report.column_names import ColumnName, column_name
from astra_sim_report.studies import in_order, shown
from astra_sim_report.tables import Cell, ResultTable

NONE = "(none)"
_OBJECTIVES = ("iteration_s", "finish_ns")
_TOOLS = "pan,box_zoom,wheel_zoom,reset,save"
_TICKS = "return (tick / scale).toLocaleString('en', {maximumFractionDigits: 6})"
_FIELD = ".bk-input { background-color: var(--back); color: var(--text); border-color: var(--line); }"
_WRAPPED = ".bk-input-group { flex-wrap: wrap; }"
"""Styles of widgets, whose colours are those of the page."""
_CHOICES = ("join points", "Pareto front", "more of y is better", "more of x is better")


def columns_of(table: ResultTable) -> tuple[list[str], list[str], list[str]]:
    """The columns that x, y and colour can be: any that varies, numbers that vary, and parameters that vary."""
    varying = [name for name, cells in table.columns.items() if len(set(cells)) > 1]
    numeric = [name for name in varying if all(_is_number(cell) for cell in table.columns[name])]
    return varying, numeric, table.varying()


def chart(table: ResultTable, name: str) -> Any | None:
    """Choices of columns, points with lines and a Pareto front, and a heat map; None if nothing in the table varies.

    Everything that `table.js` fills has a name that begins with `name`; `name-x` is the choice whose change makes it draw.
    """
    xs, ys, hues = columns_of(table)
    if not xs or not ys:
        return None
    y = next((each for each in _OBJECTIVES if each in ys), ys[0])
    numeric = [each for each in hues if each in ys]
    x = next(iter([*numeric, *hues]), next((each for each in xs if each != y), xs[0]))
    hue = next((each for each in hues if each != x), NONE)
    called = {key: column_name(key, of, list(table.columns)) for key, of in table.columns.items()}
    choices: dict[str, Any] = {
        "x": _select("x", x, _options(xs, called), f"{name}-x"),
        "y": _select("y", y, _options(ys, called), f"{name}-y"),
        "hue": _select("colour", hue, [(NONE, NONE), *_options(hues, called)], f"{name}-hue"),
        "more": CheckboxGroup(labels=list(_CHOICES), active=[0], name=f"{name}-more", inline=True, stylesheets=[_WRAPPED]),
    }
    points = ColumnDataSource({key: [] for key in ("x", "y", "colour", "label", "row", "x_text", "y_text")}, name=f"{name}-points")
    lines = ColumnDataSource({key: [] for key in ("xs", "ys", "colour")}, name=f"{name}-lines")
    front = ColumnDataSource({key: [] for key in ("x", "y")}, name=f"{name}-front")
    cells = ColumnDataSource({key: [] for key in ("x", "y", "value", "rows", "text")}, name=f"{name}-cells")
    plot = _figure("", [("", "@label"), ("x", "@x_text"), ("y", "@y_text"), ("row", "@row")], 420)
    plot.x_range, plot.y_range = Range1d(), Range1d()
    plot.multi_line("xs", "ys", line_color="colour", line_width=1.5, source=lines)
    marks = plot.scatter("x", "y", size=7, color="colour", source=points)
    plot.step("x", "y", mode="after", color="#222222", source=front)
    plot.scatter("x", "y", size=12, fill_color=None, line_color="#222222", source=front)
    plot.hover.renderers = [marks]
    heat = _figure("", [("value", "@text"), ("rows", "@rows")], 320)
    mapper = LinearColorMapper(palette=Viridis256)
    heat.x_range, heat.y_range = Range1d(), Range1d()
    heat.rect("x", "y", 1, 1, fill_color={"field": "value", "transform": mapper}, line_color="white", source=cells)
    bar = ColorBar(color_mapper=mapper, title=" ", formatter=CustomJSTickFormatter(args={"scale": 1}, code=_TICKS))
    heat.add_layout(bar, "right")
    rows = ColumnDataSource({key: list(of) for key, of in table.columns.items()}, name=f"{name}-rows")
    known = {key: [(cell, shown(cell)) for cell in in_order(table.columns[key])] for key in dict.fromkeys([*xs, *hues])}
    args: dict[str, Any] = {**choices, "rows": rows, "points": points, "lines": lines, "front": front, "cells": cells}
    most = max([1, *(len(known[key]) for key in hues)])
    args |= {"plot": plot, "heat": heat, "mapper": mapper, "palette": series(most), "known": known, "numeric": ys, "none": NONE}
    args |= {"bar": bar, "legend": f"{name}-legend", "labels": {key: each.label for key, each in called.items()}}
    args |= {"scales": {key: each.unit.ns for key, each in called.items()}}
    for key, of, axis in (("plot_x", plot, 0), ("plot_y", plot, 1), ("heat_x", heat, 0), ("heat_y", heat, 1)):
        args |= _ticks(key, of.axis[axis])
    code = importlib.resources.files("astra_sim_report").joinpath("table.js").read_text("utf-8")
    draw = CustomJS(args=args, code=code)
    for choice in choices.values():
        choice.js_on_change("active" if isinstance(choice, CheckboxGroup) else "value", draw)
    chosen = row(choices["x"], choices["y"], choices["hue"], sizing_mode="stretch_width", styles={"flex-wrap": "wrap"})
    return column(chosen, choices["more"], plot, heat, sizing_mode="stretch_width")


def _options(names: Sequence[str], called: Mapping[str, ColumnName]) -> list[tuple[str, str]]:
    """Columns with their titles; with their own names, too, if they are parameters."""
    return [(name, called[name].label) for name in names]


def _select(title: str, value: str, options: list[Any], name: str) -> Select:
    return Select(title=title, value=value, options=options, name=name, width=220, stylesheets=[_FIELD])


def _ticks(key: str, axis: Any) -> dict[str, Any]:
    """An axis with the tickers that a script gives it: one for numbers, one for names."""
    axis.formatter = CustomJSTickFormatter(args={"scale": 1}, code=_TICKS)
    return {key: axis, f"{key}_numbers": BasicTicker(), f"{key}_names": FixedTicker(ticks=[])}


def _figure(title: str, tooltips: Sequence[tuple[str, str]], height: int) -> Any:
    result: Any = figure(title=title, height=height, sizing_mode="stretch_width", tools=_TOOLS, toolbar_location="above")
    result.toolbar.active_scroll = None  # so that the wheel scrolls the page
    result.toolbar.logo = None
    result.toolbar.autohide = True
    result.min_border_right = 20
    result.title.text_font_size = "14px"
    result.add_tools(HoverTool(tooltips=list(tooltips)))
    return result


def _is_number(cell: Cell) -> bool:
    return isinstance(cell, (int, float)) and not isinstance(cell, bool)
