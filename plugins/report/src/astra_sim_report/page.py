"""A page of HTML about runs: one file, which needs no network."""

from __future__ import annotations

import importlib.metadata
import importlib.resources
import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import jinja2
from bokeh.embed import components
from bokeh.resources import Resources

from astra_sim_report import charts, table_charts
from astra_sim_report.charts import Chart, ReportEntry
from astra_sim_report.colours import Colours
from astra_sim_report.figures import EXPOSED, changes, in_bytes, in_unit, layer_rows, summary_rows, waterfall
from astra_sim_report.outcomes import Outcome
from astra_sim_report.runs import ReportRun, TimelineFile
from astra_sim_report.studies import shown
from astra_sim_report.tables import ResultTable
from astra_sim_report.timeline import PATH

MOST_JSON = 200_000
"""Characters of a run's result.json that the page shows as text."""

MOST_ROWS = 200
"""Rows of a table of results that the page shows as text."""

_WORST_LAYERS = 10
_MOST_SENSITIVITIES = 20
_MOST_DIFFERENCES = 4


@attrs.frozen
class _PageTable:
    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@attrs.frozen
class _Figure:
    """A figure as HTML, with its legend."""

    div: str
    legend: Sequence[ReportEntry]


@attrs.define
class _Section:
    """The data of a run on a page: figures by their names, notes, tables, the experiment with its versions, and result.json as text."""

    name: str
    charts: dict[str, Chart]
    notes: list[str]
    tables: list[_PageTable]
    configuration: str = ""
    json: str = ""
    figures: list[_Figure] = attrs.Factory(list)


@attrs.define
class _Study:
    """The data of a table of results on a page: a figure, if a column varies, and its first rows."""

    name: str
    chart: Any
    notes: list[str]
    rows: _PageTable
    figure: str = ""


def page(runs: Sequence[ReportRun], tables: Sequence[ResultTable] = (), outcomes: Sequence[Outcome] = ()) -> str:
    """The page. Its figures hold the numbers of result.json as they are; those of the runs are in it as JSON, too (`#results`)."""
    colours = Colours()
    sections = [_section(run, number, colours) for number, run in enumerate(runs)]
    differences = _differences(runs, colours)
    months = [_outcome_section(outcome, number, colours) for number, outcome in enumerate(outcomes)]
    studies = [_study(table, f"table-{number}") for number, table in enumerate(tables)]
    drawn: dict[str, Chart] = {"comparison": charts.parts(runs, "breakdown", colours)} if runs else {}
    for section in [*differences, *sections, *months]:
        drawn |= section.charts
    figures: dict[str, Any] = {name: chart.figure for name, chart in drawn.items()}
    figures |= {f"table-{number}": study.chart for number, study in enumerate(studies) if study.chart is not None}
    script, divs = components(figures) if figures else ("", {})
    for number, study in enumerate(studies):
        study.figure = divs.get(f"table-{number}", "")
    for section in [*differences, *sections, *months]:
        section.figures = [_Figure(divs[name], chart.legend) for name, chart in section.charts.items()]
    source = importlib.resources.files("astra_sim_report").joinpath("page.html").read_text("utf-8")
    template = jinja2.Environment(autoescape=True, trim_blocks=True).from_string(source)
    return template.render(
        title=_title([*(run.name for run in runs), *(outcome.name for outcome in outcomes)], [study.name for study in studies]),
        names=[run.name for run in runs],
        summary=summary_rows(runs) if runs else [],
        comparison=_Figure(divs["comparison"], drawn["comparison"].legend) if runs else None,
        differences=differences,
        sections=sections,
        outcomes=months,
        studies=studies,
        drawn=[f"table-{number}-x" for number, study in enumerate(studies) if study.chart is not None],
        resources=Resources(mode="inline", components=["bokeh", "bokeh-widgets"] if tables else ["bokeh"]).render(),
        results=_in_script([run.result for run in runs]),
        script=script,
        page_script=importlib.resources.files("astra_sim_report").joinpath("page.js").read_text("utf-8") if figures else "",
        versions=", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("astra-sim-core", "astra-sim-report", "bokeh")),
    )


def _outcome_section(outcome: Outcome, number: int, colours: Colours) -> _Section:
    """The section of a result of months of training, of jobs, or of a sample."""
    name = f"outcome-{number}"
    drawn = {name: charts.shares(outcome.shares, outcome.whole, name, colours)} if outcome.shares else {}
    tables = [_PageTable(each.title, each.header, each.rows) for each in outcome.tables]
    return _Section(f"{outcome.name} (astra {outcome.kind})", drawn, [], tables)


def _title(runs: Sequence[str], tables: Sequence[str]) -> str:
    if len(runs) + len(tables) == 1:
        return [*runs, *tables][0]
    parts = [f"{len(names)} {what}" for names, what in ((runs, "runs"), (tables, "tables")) if names]
    return f"{' and '.join(parts)} of astra"


def _study(table: ResultTable, name: str) -> _Study:
    """The part of a page about a table of results: rows with an error are counted, and not drawn."""
    whole = table.without_errors()
    notes = []
    if len(whole) < len(table):
        notes.append(f"{len(table) - len(whole):,} of {len(table):,} rows have an error and are not drawn.")
    chart = table_charts.chart(whole, name) if len(whole) else None
    if chart is None:
        notes.append("Nothing in the table varies that could be drawn.")
    if len(table) > MOST_ROWS:
        notes.append(f"These are the first {MOST_ROWS} of {len(table):,} rows.")
    rows = [[shown(cell) for cell in row.values()] for row in itertools.islice(table.rows(), MOST_ROWS)]
    return _Study(Path(table.name).name, chart, notes, _PageTable("Rows", list(table.columns), rows))


def _in_script(value: Any) -> str:
    """JSON that may be in an element `script`: no text in it can end the element."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _section(run: ReportRun, number: int, colours: Colours) -> _Section:
    """The section of a run: its figures, tables, charts and files."""
    timeline = charts.timeline(run, f"timeline-{number}", colours)
    drawn = {
        f"path-{number}": charts.path(run, "kind", f"path-{number}", colours),
        f"path-layers-{number}": charts.path(run, "layer", f"path-layers-{number}", colours),
        f"layers-{number}": charts.layers(run, f"layers-{number}", colours),
        f"timeline-{number}": timeline,
        f"utilisation-{number}": charts.utilisation(run, f"utilisation-{number}", colours, timeline),
        f"links-{number}": charts.links(run, f"links-{number}"),
        f"power-{number}": charts.power(run, f"power-{number}"),
        f"link-dimensions-{number}": charts.link_dimensions(run, f"link-dimensions-{number}", colours),
    }
    figures_of = {name: figure for name, figure in drawn.items() if figure is not None}
    known = {key: run.result[key] for key in ("experiment", "versions") if run.result.get(key)}
    return _Section(
        name=run.name,
        charts=figures_of,
        notes=_notes(run),
        tables=_tables(run),
        configuration=_as_text(known) if known else "",
        json=_as_text(run.result),
    )


def _differences(runs: Sequence[ReportRun], colours: Colours) -> list[_Section]:
    """The differences between the critical paths of the first explained run and each of the next ones, by kind and by layer."""
    explained = [(number, run) for number, run in enumerate(runs) if waterfall(run)]
    sections = []
    for number, other in explained[1 : 1 + _MOST_DIFFERENCES]:
        first = explained[0][1]
        drawn, tables = {}, []
        for by in ("kind", "layer", "group"):
            rows = changes(first, other, by)
            if not rows:
                continue
            chart = charts.difference(first, other, by, f"difference-{by}-{number}", colours) if by != "group" else None
            if chart is not None:
                drawn[f"difference-{by}-{number}"] = chart
            cells = [
                (part, in_unit(before), in_unit(after), f"{'+' if after > before else '-'}{in_unit(abs(after - before))}",
                 f"{100 * (after - before) / before:+.2f} %" if before else "-")
                for part, before, after in rows[:_MOST_SENSITIVITIES]
            ]  # fmt: skip
            tables.append(_PageTable(f"By {by}", (by, first.name, other.name, "change", "in percent"), cells))
        total = other.result["finish_ns"] - first.result["finish_ns"]
        share = f" ({100 * total / first.result['finish_ns']:+.2f} %)" if first.result["finish_ns"] else ""
        note = (
            f"{other.name} takes {in_unit(abs(total))} {'more' if total > 0 else 'less'} than {first.name}{share}; on the critical paths:"
        )
        sections.append(_Section(f"{first.name} and {other.name}", drawn, [note], tables))
    return sections


def _as_text(value: Any) -> str:
    """JSON for people; without its end if it is very long."""
    text = json.dumps(value, indent=1)
    return text if len(text) <= MOST_JSON else f"{text[:MOST_JSON]}\n... {len(text) - MOST_JSON:,} more characters"


def _notes(run: ReportRun) -> list[str]:
    """Findings about a run, and omissions of its figures."""
    notes = [str(each["message"]) for each in run.result.get("audit", ()) if isinstance(each, Mapping) and "message" in each]
    of_layers = sum(row[key] for row in layer_rows(run) for key in EXPOSED)
    of_none = run.result["exposed_comm_ns"] - of_layers
    if run.result["layers"] and of_none > 0.001 * run.result["finish_ns"]:
        notes.append(f"{in_unit(of_none)} of exposed communication are of no layer, such as waiting for the last collectives at the end.")
    if run.timeline is None:
        notes.append("There is no timeline in the folder of this run: astra run --output DIR --report timeline writes one.")
    else:
        notes += _notes_of_timeline(run.timeline)
    if not run.utilisation:
        notes.append("There is no utilisation in time in the folder of this run: the reports astra1 and timeline write it.")
    return notes


def _notes_of_timeline(timeline: TimelineFile) -> list[str]:
    """The slices that the figure of a timeline leaves out, and those it merges."""
    notes = [
        "In the timeline, overlapping intervals of a row are drawn as one, as high as the share of its time in which one is under way."
    ]
    if timeline.joined_ns:
        near = in_unit(timeline.joined_ns)
        notes.append(f"So are intervals that last no longer than {near} and are no further apart; Perfetto shows each of them.")
    if len(timeline.rows) < timeline.lanes:
        shown = len({group for group, _ in timeline.rows if group != PATH})
        if shown < timeline.groups:
            notes.append(f"The timeline has {timeline.groups:,} NPUs; these are the first rows of {shown:,} of them, evenly spread.")
        else:
            notes.append(f"The timeline has {timeline.lanes:,} rows; these are the first ones of each NPU, {len(timeline.rows):,} in all.")
    return notes


def _tables(run: ReportRun) -> list[_PageTable]:
    """The tables of a run: the layers that expose most, the dimensions, and its further tables."""
    tables = []
    worst = sorted(layer_rows(run), key=lambda row: -sum(row[key] for key in EXPOSED))[:_WORST_LAYERS]
    exposing = [(row["layer"], sum(row[key] for key in EXPOSED)) for row in worst]
    exposing = [(layer, ns) for layer, ns in exposing if ns]
    if exposing:
        rows = [(layer, in_unit(ns), f"{100 * ns / run.result['finish_ns']:.1f} %") for layer, ns in exposing]
        tables.append(_PageTable("Layers that expose most communication", ("layer", "exposed", "of the run"), rows))
    if run.result["dimensions"]:
        header = ("", "topology", "NPUs", "utilisation", "mean chunk latency", "sent by NPU 0")
        rows_of_dimensions = [
            (
                str(place),
                str(each["topology"]),
                str(each["size"]),
                f"{100 * each['utilisation']:.1f} %",
                "-" if each["average_chunk_latency_ns"] is None else in_unit(each["average_chunk_latency_ns"]),
                in_bytes(each["bytes"]),
            )
            for place, each in enumerate(run.result["dimensions"])
        ]
        tables.append(_PageTable("Dimensions", header, rows_of_dimensions))
    return tables + _tables_of_explanation(run)


def _tables_of_explanation(run: ReportRun) -> list[_PageTable]:
    """Changes that would affect an explained run, and its lower bounds."""
    explanation = run.result.get("explanation")
    if not isinstance(explanation, Mapping):
        return []
    tables = []
    most = sorted(explanation.get("sensitivities", ()), key=lambda each: -abs(each.get("percent", 0)))[:_MOST_SENSITIVITIES]
    if most:
        header = ("", "dimension", "layer", "1 % more changes the time by", "method")
        rows = [
            (*(_cell(each.get(key)) for key in ("parameter", "dimension", "layer")), f"{each['percent']:+.4f} %", _cell(each.get("method")))
            for each in most
        ]
        tables.append(_PageTable("Largest effects on the time", header, rows))
    if explanation.get("bounds"):
        bounds = [(_cell(each.get("kind")), _cell(each.get("dimension")), in_unit(each["ns"])) for each in explanation["bounds"]]
        tables.append(_PageTable("Lower bounds", ("", "dimension", "time"), bounds))
    return tables


def _cell(value: Any) -> str:
    return "-" if value in (None, "") else str(value)
