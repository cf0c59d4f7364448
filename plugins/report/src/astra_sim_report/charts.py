"""The figures of a page, drawn by Bokeh. Times are in ns in all data; axes show them in the unit that suits.

Every figure has its data under a name (`ColumnDataSource.name`), by which a script on the page finds them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from bokeh.models import (
    BasicTicker,
    ColumnDataSource,
    CustomJSTickFormatter,
    FixedTicker,
    HoverTool,
    LinearColorMapper,
    Range1d,
    WheelZoomTool,
)
from bokeh.models.annotations import ColorBar
from bokeh.palettes import Viridis256
from bokeh.plotting import figure

from astra_sim_report.figures import COMPUTE, EXPOSED, PALETTE, breakdown, colour, layer_rows, parts_of, unit_of, waterfall
from astra_sim_report.runs import Run

Figure = Any
"""Bokeh's figure, whose types are not complete."""

MOST_LABELS = 40
MOST_ROWS = 150
MOST_BARS = 12

_LAYER_COLOURS = ("#0072B2", "#56B4E9", "#A6D5F0", "#D55E00", "#E69F00", "#F5D08A")
_LAYER_WORDS = {
    "forward_compute_ns": "forward",
    "input_gradient_compute_ns": "input gradient",
    "weight_gradient_compute_ns": "weight gradient",
    "forward_exposed_comm_ns": "exposed, forward",
    "input_gradient_exposed_comm_ns": "exposed, input gradient",
    "weight_gradient_exposed_comm_ns": "exposed, weight gradient",
}


def _figure(title: str, height: int, tooltips: Any) -> Figure:
    tools = "xpan,box_zoom,reset,save"
    made: Figure = figure(title=title, height=height, sizing_mode="stretch_width", tools=tools, toolbar_location="above")
    made.add_tools(WheelZoomTool(dimensions="width"))
    made.toolbar.active_scroll = None  # so that the wheel scrolls the page
    made.toolbar.logo = None
    made.min_border_left = 150  # figures below each other begin at one place
    made.title.text_font_size = "14px"
    made.add_tools(HoverTool(tooltips=tooltips))
    return made


def _time_axis(axis: Any, longest_ns: float, label: str) -> None:
    """Let an axis of ns show them in the unit that suits."""
    unit = unit_of(longest_ns)
    axis.axis_label = f"{label} ({unit.name})"
    code = "return (tick / ns).toLocaleString('en', {maximumFractionDigits: 6})"
    axis.formatter = CustomJSTickFormatter(args={"ns": unit.ns}, code=code)


def _legend_outside(made: Figure) -> None:
    made.add_layout(made.legend[0], "right")
    made.legend[0].border_line_color = None
    made.legend[0].label_text_font_size = "12px"
    made.legend[0].label_width = 150


def _name_rows(made: Figure, names: Sequence[str]) -> None:
    """Rows 0, 1, ... from the top down, with their names."""
    made.y_range = Range1d(start=len(names) - 0.5, end=-0.5)
    made.yaxis.ticker = FixedTicker(ticks=list(range(len(names))))
    made.yaxis.major_label_overrides = dict(enumerate(names))
    made.ygrid.grid_line_color = None


def layers(run: Run, name: str) -> Figure | None:
    """Computing and exposed communication of each layer, a bar each."""
    rows = layer_rows(run)
    if not rows:
        return None
    data: dict[str, list[Any]] = {key: [row[key] for row in rows] for key in rows[0]}
    data["place"] = list(range(len(rows)))
    longest = max(sum(row[key] for key in (*COMPUTE, *EXPOSED)) for row in rows)
    tooltips = [("layer", "@layer"), *((_LAYER_WORDS[key], f"@{key}{{0,0.000}} ns") for key in (*COMPUTE, *EXPOSED))]
    made = _figure("Computing and exposed communication of each layer", 380, tooltips)
    made.x_range = Range1d(start=-0.6, end=max(len(rows), 6) - 0.4)
    keys = [key for key in (*COMPUTE, *EXPOSED) if any(data[key])] or [COMPUTE[0]]
    colours = [_LAYER_COLOURS[(*COMPUTE, *EXPOSED).index(key)] for key in keys]
    source = ColumnDataSource(data, name=name)
    made.vbar_stack(keys, x="place", width=0.8, color=colours, legend_label=[_LAYER_WORDS[key] for key in keys], source=source)
    _time_axis(made.yaxis, longest, "time")
    made.xaxis.ticker = FixedTicker(ticks=data["place"]) if len(rows) <= MOST_LABELS else BasicTicker(min_interval=1)
    made.xaxis.major_label_overrides = {place: _shortened(row["layer"]) for place, row in enumerate(rows)}
    made.xaxis.major_label_orientation = 0.9
    made.y_range.start = 0
    _legend_outside(made)
    return made


def _shortened(text: str, most: int = 28) -> str:
    return text if len(text) <= most else f"{text[: most // 2]}…{text[-most // 2 + 1 :]}"


def parts(runs: Sequence[Run], name: str) -> Figure:
    """Where the time goes, as a stacked bar for each run."""
    names = parts_of(runs)
    each = [breakdown(run) for run in runs]
    data: dict[str, list[Any]] = {part: [own.get(part, 0.0) for own in each] for part in names}
    data["run"], data["place"] = [run.name for run in runs], list(range(len(runs)))
    tooltips = [("run", "@run"), *((part, f"@{{{part}}}{{0,0.000}} ns") for part in names)]
    iteration = all(isinstance(run.result.get("breakdown"), Mapping) for run in runs)
    of = "time of an iteration, mean of stages" if iteration else "time of the run"
    made = _figure("Where the time goes", 140 + 34 * len(runs), tooltips)
    colours = [colour(part, place) for place, part in enumerate(names)]
    source = ColumnDataSource(data, name=name)
    if names:
        made.hbar_stack(names, y="place", height=0.7, color=colours, legend_label=names, source=source)
        _legend_outside(made)
    _name_rows(made, [_shortened(run.name) for run in runs])
    _time_axis(made.xaxis, max(sum(own.values()) for own in each), of)
    made.x_range.start = 0
    return made


def path(run: Run, by: str, name: str) -> Figure | None:
    """What makes up the makespan of a run that was explained, as a waterfall."""
    rows = waterfall(run, by)
    if not rows:
        return None
    shown = rows[:MOST_BARS]
    if len(rows) > MOST_BARS:
        shown.append((f"{len(rows) - MOST_BARS} others", sum(ns for _, ns in rows[MOST_BARS:])))
    ends = list(accumulate(ns for _, ns in shown))
    total = ends[-1]
    data: dict[str, list[Any]] = {
        "part": [*(part for part, _ in shown), "makespan"],
        "ns": [*(ns for _, ns in shown), total],
        "begin": [*(end - ns for end, (_, ns) in zip(ends, shown, strict=True)), 0],
        "end": [*ends, total],
        "percent": [100 * ns / total if total else 0.0 for ns in (*(ns for _, ns in shown), total)],
        "colour": [*(PALETTE[place % len(PALETTE)] for place in range(len(shown))), "#444444"],
        "place": list(range(len(shown) + 1)),
    }
    tooltips = [("part", "@part"), ("time", "@ns{0,0} ns"), ("share", "@percent{0.00} %")]
    made = _figure(f"What makes up the makespan, by {by}", 110 + 26 * len(data["place"]), tooltips)
    made.hbar(y="place", left="begin", right="end", height=0.7, color="colour", source=ColumnDataSource(data, name=name))
    _name_rows(made, [f"{_shortened(part)}  {percent:.1f} %" for part, percent in zip(data["part"], data["percent"], strict=True)])
    _time_axis(made.xaxis, total, "time along the critical path")
    made.x_range.start = 0
    return made


def timeline(run: Run, name: str) -> Figure | None:
    """Slices by row and time."""
    if run.timeline is None or not run.timeline.slices:
        return None
    rows = run.timeline.rows[:MOST_ROWS]
    slices = [each for each in run.timeline.slices if each.row < len(rows)]
    kinds = sorted({each.kind for each in slices})
    colours = {kind: PALETTE[place % len(PALETTE)] for place, kind in enumerate(kinds)}
    tooltips = [("", "@name"), ("kind", "@kind"), ("begin", "@begin{0,0} ns"), ("end", "@end{0,0} ns")]
    made = _figure("What happened when", 110 + 18 * len(rows), tooltips)
    for kind in kinds:
        own = [each for each in slices if each.kind == kind]
        data = {
            "row": [each.row for each in own],
            "begin": [each.begin_ns for each in own],
            "end": [each.end_ns for each in own],
            "name": [each.name for each in own],
            "kind": [kind] * len(own),
        }
        source = ColumnDataSource(data, name=f"{name}-{kind}")
        made.hbar(y="row", left="begin", right="end", height=0.8, color=colours[kind], line_width=0, legend_label=kind, source=source)
    groups = len({group for group, _ in rows})
    labels, before = [], None
    for group, lane in rows:
        label = lane if groups == 1 else f"{group.partition(',')[0]} {lane}"
        labels.append("" if label == before else label)
        before = label
    _name_rows(made, labels)
    _time_axis(made.xaxis, run.result["finish_ns"], "time")
    made.x_range = Range1d(start=0, end=run.result["finish_ns"], bounds="auto")
    _legend_outside(made)
    made.legend[0].click_policy = "hide"
    return made


def utilisation(run: Run, name: str, beside: Figure | None = None) -> Figure | None:
    """How busy dimensions are in time; zoomed together with a figure `beside` it."""
    series = run.utilisation
    if not series:
        return None
    made = _figure("Utilisation of dimensions, as NPU 0 uses them", 280, [("", "$name"), ("time", "$x{0,0} ns"), ("share", "$y{0.0} %")])
    for place, each in enumerate(series):
        source = ColumnDataSource({"time": each.times_ns, "percent": each.percent}, name=f"{name}-{place}")
        style = {"color": PALETTE[place % len(PALETTE)], "line_width": 1.5}
        made.step("time", "percent", mode="after", source=source, legend_label=each.name, name=each.name, **style)
    _time_axis(made.xaxis, run.result["finish_ns"], "time")
    made.x_range = beside.x_range if beside is not None else Range1d(start=0, end=run.result["finish_ns"] or 1)
    made.y_range = Range1d(start=0, end=105)
    made.yaxis.axis_label = "busy (%)"
    _legend_outside(made)
    made.legend[0].click_policy = "hide"
    return made


def links(run: Run, name: str) -> Figure | None:
    """How busy links are, from router to router."""
    if not run.links:
        return None
    shown = [link for link in run.links if link.utilisation > 0]
    data: dict[str, list[Any]] = {
        "source": [link.source for link in shown],
        "sink": [link.sink for link in shown],
        "percent": [100 * link.utilisation for link in shown],
    }
    count = 1 + max(max(link.source, link.sink) for link in run.links)
    tooltips = [("link", "@source to @sink"), ("busy", "@percent{0.00} %")]
    made = _figure("Load of links: share of the run in which each is busy (%)", 560, tooltips)
    made.x_range, made.y_range = Range1d(start=-0.5, end=count - 0.5), Range1d(start=count - 0.5, end=-0.5)
    made.sizing_mode, made.width = "fixed", 680
    mapper = LinearColorMapper(palette=Viridis256, low=0, high=max([1e-9, *data["percent"]]))
    colours = {"field": "percent", "transform": mapper}
    made.rect("sink", "source", 1, 1, fill_color=colours, line_color=None, source=ColumnDataSource(data, name=name))
    made.add_layout(ColorBar(color_mapper=mapper), "right")
    made.xaxis.axis_label, made.yaxis.axis_label = "to router", "from router"
    return made


def link_dimensions(run: Run, name: str) -> Figure | None:
    """How busy the links of each dimension are in the mean, where the network says it."""
    found = run.result["network"].get("dimensions")
    if not isinstance(found, list) or not all(isinstance(each, Mapping) and "utilisation" in each for each in found) or not found:
        return None
    data: dict[str, list[Any]] = {
        "dimension": list(range(len(found))),
        "percent": [100 * each["utilisation"] for each in found],
        "links": [each.get("links", 0) for each in found],
    }
    made = _figure("Mean load of the links of each dimension", 240, [("links", "@links"), ("busy", "@percent{0.00} %")])
    made.vbar("dimension", 0.7, "percent", color=PALETTE[0], source=ColumnDataSource(data, name=name))
    made.xaxis.ticker = FixedTicker(ticks=data["dimension"])
    made.xaxis.axis_label, made.yaxis.axis_label = "dimension", "busy (%)"
    made.y_range.start = 0
    return made
