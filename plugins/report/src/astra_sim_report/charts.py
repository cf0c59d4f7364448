"""The figures of a page, drawn by Bokeh. Times are in ns in all data; axes show them in the unit that suits.

Every figure has its data under a name (`ColumnDataSource.name`), by which a script on the page finds them. The legend is beside
it, in HTML: a legend that has room on every screen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import attrs
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

from astra_sim_report.colours import Colours
from astra_sim_report.figures import COMPUTE, EXPOSED, LAYER_PARTS, breakdown, changes, layer_rows, parts_of, power_of, unit_of, waterfall
from astra_sim_report.runs import ReportRun, TimelineSlice
from astra_sim_report.timeline import PATH

Figure = Any
"""Bokeh's figure, whose types are not complete."""

MOST_LABELS = 40
MOST_BARS = 12

_LONGEST_LABEL = 28
_SMALLEST_BAR = 0.2
"""The least height of a bar of the timeline, as a share of its row: its height is the busy share of its time."""


class ReportEntry(NamedTuple):
    """An entry of the legend; `hides` is the tag of what a click hides and shows again, "" if none."""

    label: str
    colour: str
    hides: str = ""


@attrs.frozen(eq=False)
class Chart:
    """A figure with its legend."""

    figure: Figure
    legend: Sequence[ReportEntry] = ()


def new_figure(title: str, height: int, tooltips: Any) -> Figure:
    """A figure as wide as the page."""
    tools = "xpan,box_zoom,reset,save"
    result: Figure = figure(title=title, height=height, sizing_mode="stretch_width", tools=tools, toolbar_location="above")
    result.add_tools(WheelZoomTool(dimensions="width"))
    result.toolbar.active_scroll = None  # so that the wheel scrolls the page
    result.toolbar.logo = None
    result.toolbar.autohide = True
    result.min_border_left = 150  # figures below each other begin at one place; a script makes it smaller on a narrow screen
    result.min_border_right = 20  # the last tick has room
    result.title.text_font_size = "14px"
    result.add_tools(HoverTool(tooltips=tooltips))
    return result


def time_axis(axis: Any, longest_ns: float, label: str) -> None:
    """Let an axis of ns show them in the unit that suits."""
    unit = unit_of(longest_ns)
    axis.axis_label = f"{label} ({unit.name})"
    code = "return (tick / ns).toLocaleString('en', {maximumFractionDigits: 6})"
    axis.formatter = CustomJSTickFormatter(args={"ns": unit.ns}, code=code)


def _name_rows(plot: Figure, names: Sequence[str]) -> None:
    """Rows 0, 1, ... from the top down, with their names."""
    plot.y_range = Range1d(start=len(names) - 0.5, end=-0.5)
    plot.yaxis.ticker = FixedTicker(ticks=list(range(len(names))))
    plot.yaxis.major_label_overrides = dict(enumerate(names))
    plot.ygrid.grid_line_color = None


def layers(run: ReportRun, name: str, colours: Colours) -> Chart | None:
    """Computing and exposed communication of each layer, a bar each."""
    rows = layer_rows(run)
    if not rows:
        return None
    data: dict[str, list[Any]] = {key: [row[key] for row in rows] for key in rows[0]}
    data["place"] = list(range(len(rows)))
    longest = max(sum(row[key] for key in (*COMPUTE, *EXPOSED)) for row in rows)
    tooltips = [("layer", "@layer"), *((LAYER_PARTS[key], f"@{key}{{0,0.000}} ns") for key in (*COMPUTE, *EXPOSED))]
    result = new_figure("Computing and exposed communication of each layer", 380, tooltips)
    result.x_range = Range1d(start=-0.6, end=max(len(rows), 6) - 0.4)
    keys = [key for key in (*COMPUTE, *EXPOSED) if any(data[key])] or [COMPUTE[0]]
    entries = [ReportEntry(LAYER_PARTS[key], colours.of(LAYER_PARTS[key])) for key in keys]
    result.vbar_stack(keys, x="place", width=0.8, color=[each.colour for each in entries], source=ColumnDataSource(data, name=name))
    time_axis(result.yaxis, longest, "time")
    result.xaxis.ticker = FixedTicker(ticks=data["place"]) if len(rows) <= MOST_LABELS else BasicTicker(min_interval=1)
    result.xaxis.major_label_overrides = {place: shortened(row["layer"]) for place, row in enumerate(rows)}
    result.xaxis.major_label_orientation = 0.9
    result.y_range.start = 0
    return Chart(result, entries)


def shortened(text: str, most: int = _LONGEST_LABEL) -> str:
    """A text without its middle if it is long."""
    return text if len(text) <= most else f"{text[: most // 2]}…{text[-most // 2 + 1 :]}"


def parts(runs: Sequence[ReportRun], name: str, colours: Colours) -> Chart:
    """The time by use, as a stacked bar for each run."""
    names = parts_of(runs)
    each = [breakdown(run) for run in runs]
    data: dict[str, list[Any]] = {part: [shares.get(part, 0.0) for shares in each] for part in names}
    data["run"], data["place"] = [run.name for run in runs], list(range(len(runs)))
    tooltips = [("run", "@run"), *((part, f"@{{{part}}}{{0,0.000}} ns") for part in names)]
    iteration = all(isinstance(run.result.get("breakdown"), Mapping) for run in runs)
    of = "time of an iteration, mean of stages" if iteration else "time of the run"
    result = new_figure("Where the time goes", 140 + 34 * len(runs), tooltips)
    entries = [ReportEntry(part, colours.of(part)) for part in names]
    source = ColumnDataSource(data, name=name)
    if names:
        result.hbar_stack(names, y="place", height=0.7, color=[entry.colour for entry in entries], source=source)
    _name_rows(result, [shortened(run.name) for run in runs])
    time_axis(result.xaxis, max(sum(shares.values()) for shares in each), of)
    result.x_range.start = 0
    return Chart(result, entries)


def shares(parts: Mapping[str, float], whole: str, name: str, colours: Colours) -> Chart:
    """The shares of a whole, such as a time, as a stacked bar (%)."""
    used = {part: 100 * share for part, share in parts.items() if share}
    data: dict[str, list[Any]] = {part: [share] for part, share in used.items()} | {"place": [0]}
    result = new_figure("Where the time goes", 150, [(part, f"@{{{part}}}{{0.00}} %") for part in used])
    entries = [ReportEntry(part, colours.of(part)) for part in used]
    result.hbar_stack(
        list(used), y="place", height=0.7, color=[entry.colour for entry in entries], source=ColumnDataSource(data, name=name)
    )
    _name_rows(result, [whole])
    result.xaxis.axis_label = f"share of the {whole} (%)"
    result.x_range.start = 0
    return Chart(result, entries)


def power(run: ReportRun, name: str) -> Chart | None:
    """The mean power of the run in time; None if it has no section energy."""
    windows = power_of(run)
    if windows is None:
        return None
    edges, watts = windows
    data = {"left": edges[:-1], "right": edges[1:], "kilowatts": [each / 1000 for each in watts]}
    result = new_figure("Mean power", 260, [("power", "@kilowatts{0,0.000} kW")])
    result.quad(
        left="left", right="right", top="kilowatts", bottom=0, source=ColumnDataSource(data, name=name), fill_alpha=0.7, line_width=0
    )
    time_axis(result.xaxis, edges[-1], "time")
    result.yaxis.axis_label = "power (kW)"
    result.y_range.start = 0
    return Chart(result)


def path(run: ReportRun, by: str, name: str, colours: Colours) -> Chart | None:
    """The parts of the makespan of an explained run, as a waterfall."""
    rows = waterfall(run, by)
    if not rows:
        return None
    shown = rows[:MOST_BARS]
    if len(rows) > MOST_BARS:
        shown.append((f"{len(rows) - MOST_BARS} others", sum(ns for _, ns in rows[MOST_BARS:])))
    ends = list(accumulate(ns for _, ns in shown))
    total = ends[-1]
    shades = [colours.of(part if by == "kind" else f"by {by}") for part, _ in shown]
    data: dict[str, list[Any]] = {
        "part": [*(part for part, _ in shown), "makespan"],
        "ns": [*(ns for _, ns in shown), total],
        "begin": [*(end - ns for end, (_, ns) in zip(ends, shown, strict=True)), 0],
        "end": [*ends, total],
        "percent": [100 * ns / total if total else 0.0 for ns in (*(ns for _, ns in shown), total)],
        "colour": [*shades, colours.of("total")],
        "place": list(range(len(shown) + 1)),
    }
    tooltips = [("part", "@part"), ("time", "@ns{0,0} ns"), ("share", "@percent{0.00} %")]
    result = new_figure(f"Parts of the makespan, by {by}", 110 + 26 * len(data["place"]), tooltips)
    result.hbar(y="place", left="begin", right="end", height=0.7, color="colour", source=ColumnDataSource(data, name=name))
    _name_rows(result, [f"{shortened(part)}  {percent:.1f} %" for part, percent in zip(data["part"], data["percent"], strict=True)])
    time_axis(result.xaxis, total, "time along the critical path")
    result.x_range.start = 0
    return Chart(result)


def difference(a: ReportRun, b: ReportRun, by: str, name: str, colours: Colours) -> Chart | None:
    """The differences between the critical paths of two explained runs, as a waterfall from one makespan to the other."""
    changed_parts = [(part, after - before) for part, before, after in changes(a, b, by)]
    if not changed_parts:
        return None
    shown = changed_parts[:MOST_BARS]
    if len(changed_parts) > MOST_BARS:
        shown.append((f"{len(changed_parts) - MOST_BARS} others", sum(ns for _, ns in changed_parts[MOST_BARS:])))
    start, end = (sum(ns for _, ns in waterfall(run, by)) for run in (a, b))
    at = list(accumulate([start, *(ns for _, ns in shown)]))
    spans = [(0.0, start), *((min(pair), max(pair)) for pair in pairwise(at)), (0.0, end)]
    names = [a.name, *(part for part, _ in shown), b.name]
    changed = [start, *(ns for _, ns in shown), end]
    whole = colours.of("total")
    data: dict[str, list[Any]] = {
        "part": names,
        "ns": changed,
        "begin": [low for low, _ in spans],
        "end": [high for _, high in spans],
        "percent": [100 * ns / start if start else 0.0 for ns in changed],
        "colour": [whole, *(colours.of(part if by == "kind" else f"by {by}") for part, _ in shown), whole],
        "place": list(range(len(names))),
    }
    tooltips = [("part", "@part"), ("time", "@ns{+0,0} ns"), ("share of the first run", "@percent{+0.00} %")]
    result = new_figure(f"From {shortened(a.name)} to {shortened(b.name)}, by {by}", 110 + 26 * len(names), tooltips)
    result.hbar(y="place", left="begin", right="end", height=0.7, color="colour", source=ColumnDataSource(data, name=name))
    results = [f"{shortened(part, 22)}  {percent:+.1f} %" for part, percent in zip(names[1:-1], data["percent"][1:-1], strict=True)]
    _name_rows(result, [shortened(a.name), *results, shortened(b.name)])
    time_axis(result.xaxis, max(start, end), "time along the critical paths")
    least = min(data["begin"][1:-1], default=0.0)
    longest = max(data["end"])
    # Changes are small beside the whole: the axis begins shortly before the smallest of them.
    result.x_range = Range1d(start=max(0.0, least - 0.5 * (longest - least)), end=longest + 0.02 * (longest - least))
    return Chart(result)


def meaning(each: TimelineSlice) -> str:
    """The legend of an interval's colour: the group that communicates, or the action."""
    return each.group or each.kind


def timeline(run: ReportRun, name: str, colours: Colours) -> Chart | None:
    """Intervals by row and time. One that represents several is as high as the share of its time in which they are under way."""
    if run.timeline is None or not run.timeline.slices:
        return None
    rows, slices = run.timeline.rows, run.timeline.slices
    meanings = list(dict.fromkeys(meaning(each) for each in sorted(slices, key=lambda each: each.begin_ns)))
    tooltips = [("", "@name"), ("group", "@group"), ("begin", "@begin{0,0} ns"), ("end", "@end{0,0} ns"), ("busy", "@busy{0,0} ns")]
    height = 18 if len(rows) <= 60 else 10
    result = new_figure("Timeline", 110 + height * len(rows), tooltips)
    for number, results in enumerate(meanings):
        chosen = [each for each in slices if meaning(each) == results]
        data: dict[str, list[Any]] = {
            "row": [each.row for each in chosen],
            "begin": [each.begin_ns for each in chosen],
            "end": [each.end_ns for each in chosen],
            "name": [each.name for each in chosen],
            "group": [each.group or "-" for each in chosen],
            "busy": [each.busy_ns for each in chosen],
            "height": [
                0.85 * max(_SMALLEST_BAR, each.busy_ns / (each.end_ns - each.begin_ns or 1) if each.intervals_merged > 1 else 1)
                for each in chosen
            ],
        }
        source = ColumnDataSource(data, name=f"{name}-{results}")
        drawn = result.hbar(y="row", left="begin", right="end", height="height", color=colours.of(results), line_width=1, source=source)
        drawn.tags = [f"{name}-{number}"]
    groups = len({group for group, _ in rows if group != PATH})
    labels, before = [], None
    for group, lane in rows:
        label = lane if groups == 1 or group == PATH else f"{group.partition(',')[0]} {lane}"
        if height < 18 and before == group:  # there is room for one line of each NPU
            label = ""
        labels.append(label)
        before = group
    _name_rows(result, labels)
    if height < 18:
        result.yaxis.major_tick_line_color = None
        result.yaxis.major_label_text_font_size = "9px"
    time_axis(result.xaxis, run.result["finish_ns"], "time")
    result.x_range = Range1d(start=0, end=run.result["finish_ns"] or 1, bounds="auto")
    return Chart(result, [ReportEntry(results, colours.of(results), f"{name}-{number}") for number, results in enumerate(meanings)])


def utilisation(run: ReportRun, name: str, colours: Colours, beside: Chart | None = None) -> Chart | None:
    """The utilisation of dimensions over time; zoomed together with a figure `beside` it."""
    series = run.utilisation
    if not series:
        return None
    result = new_figure(
        "Utilisation of dimensions, as NPU 0 uses them", 280, [("", "$name"), ("time", "$x{0,0} ns"), ("share", "$y{0.0} %")]
    )
    entries = []
    for place, each in enumerate(series):
        source = ColumnDataSource({"time": each.times_ns, "percent": each.percent}, name=f"{name}-{place}")
        entries.append(ReportEntry(each.name, colours.of(each.name), f"{name}-{place}"))
        drawn = result.step("time", "percent", mode="after", source=source, name=each.name, color=entries[-1].colour, line_width=1.5)
        drawn.tags = [entries[-1].hides]
    time_axis(result.xaxis, run.result["finish_ns"], "time")
    result.x_range = beside.figure.x_range if beside is not None else Range1d(start=0, end=run.result["finish_ns"] or 1)
    result.y_range = Range1d(start=0, end=105)
    result.yaxis.axis_label = "busy (%)"
    return Chart(result, entries)


def links(run: ReportRun, name: str) -> Chart | None:
    """The utilisation of links, from node to node."""
    if not run.links:
        return None
    shown = [link for link in run.links if link.utilisation > 0]
    data: dict[str, list[Any]] = {
        "source": [link.source for link in shown],
        "target": [link.target for link in shown],
        "percent": [100 * link.utilisation for link in shown],
    }
    count = 1 + max(max(link.source, link.target) for link in run.links)
    tooltips = [("link", "@source to @target"), ("busy", "@percent{0.00} %")]
    result = new_figure("Load of links: share of the run in which each is busy", 560, tooltips)
    result.x_range, result.y_range = Range1d(start=-0.5, end=count - 0.5), Range1d(start=count - 0.5, end=-0.5)
    result.sizing_mode, result.max_width, result.min_border_left = "stretch_width", 760, 60
    mapper = LinearColorMapper(palette=Viridis256, low=0, high=max([1e-9, *data["percent"]]))
    shades = {"field": "percent", "transform": mapper}
    result.rect("target", "source", 1, 1, fill_color=shades, line_color=None, source=ColumnDataSource(data, name=name))
    result.add_layout(ColorBar(color_mapper=mapper, title="busy (%)"), "right")
    result.xaxis.axis_label, result.yaxis.axis_label = "to node", "from node"
    return Chart(result)


def link_dimensions(run: ReportRun, name: str, colours: Colours) -> Chart | None:
    """The mean utilisation of the links of each dimension, if the network reports it."""
    value = run.result["network"].get("dimensions")
    if not isinstance(value, list) or not all(isinstance(each, Mapping) and "utilisation" in each for each in value) or not value:
        return None
    data: dict[str, list[Any]] = {
        "dimension": list(range(len(value))),
        "percent": [100 * each["utilisation"] for each in value],
        "links": [each.get("links", 0) for each in value],
        "colour": [colours.of(f"dimension {number}") for number in range(len(value))],
    }
    result = new_figure("Mean load of the links of each dimension", 240, [("links", "@links"), ("busy", "@percent{0.00} %")])
    result.vbar("dimension", 0.7, "percent", color="colour", source=ColumnDataSource(data, name=name))
    result.xaxis.ticker = FixedTicker(ticks=data["dimension"])
    result.xaxis.axis_label, result.yaxis.axis_label = "dimension", "busy (%)"
    result.y_range.start = 0
    return Chart(result)
