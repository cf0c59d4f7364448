"""The commands `astra report` and `astra plot`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from astra_sim.commands import Progress, Screen, json_option, quiet_option, say_json
from astra_sim.errors import InputError
from astra_sim.files import FileSet

from astra_sim_report.kinds import (
    ENDINGS,
    FLOW_KINDS,
    FORMATS,
    GOODPUT_KINDS,
    KINDS,
    SERVING_KINDS,
    TABLE_KINDS,
    has_flows,
    is_table,
    kind_of,
)

_RESULTS = "RESULTS is a table of `astra sweep`: *.parquet, *.csv or *.sqlite."
_RUNS = "RUN is a result.json, or a folder that `--output` has written."
_OUTCOMES = "OUTCOME is the JSON of `astra goodput`, `astra jobs`, `astra sample` or `astra serve`."


@click.command(
    help=f"Write a page of HTML about runs and tables of results: one file, which opens without network.\n\n{_RUNS} {_RESULTS} {_OUTCOMES}"
)
@click.argument("runs", nargs=-1, required=True, metavar="(RUN | RESULTS | OUTCOME)...", type=click.Path())
@click.option("-o", "--output", metavar="FILE.html", required=True, type=click.Path(dir_okay=False), help="The page.")
@json_option
@quiet_option
def report(runs: tuple[str, ...], output: str, as_json: bool, quiet: bool) -> None:
    """Write a page."""
    from astra_sim_report.outcomes import is_outcome, read_outcome
    from astra_sim_report.page import page
    from astra_sim_report.runs import load_runs
    from astra_sim_report.tables import read_table

    tables = [path for path in runs if is_table(path)]
    outcomes = [path for path in runs if is_outcome(path)]
    others = [path for path in runs if not is_table(path) and path not in outcomes]
    with Progress(enabled=not quiet) as progress:
        progress.stage("making the page", simulates=False)
        text = page(load_runs(others) if others else [], [read_table(path) for path in tables], [read_outcome(path) for path in outcomes])
        with FileSet() as files, files.open(output) as file:
            file.write(text)
    if as_json:
        say_json({"files": files.names, "runs": len(others), "outcomes": len(outcomes), "tables": len(tables), "bytes": len(text.encode())})
    elif not quiet:
        click.echo(f"{output} ({len(text.encode()) / 1e6:.1f} MB)")


def _list(kinds: Mapping[str, str]) -> str:
    return "\n\n\b\n" + "\n".join(f"{name:15}{summary}" for name, summary in kinds.items())


@click.command(
    help=f"Draw a figure for a paper, of runs or of a table of results.\n\n{_RUNS} KIND is one of these:{_list(KINDS)}"
    "\n\nWithout KIND one run is drawn by layers, if it has some, and others by their time."
    f"\n\n{_RESULTS} KIND is one of these (without it: line):{_list(TABLE_KINDS)}"
    f"\n\nOf folders that `astra flows --output` has written KIND is one of these (without it: slowdown):{_list(FLOW_KINDS)}"
    f"\n\nOf tables that `astra serve` has written KIND is one of these:{_list(SERVING_KINDS)}"
    f"\n\nOf files that `astra goodput` has written KIND is one of these:{_list(GOODPUT_KINDS)}"
)
@click.argument("runs", nargs=-1, required=True, metavar="(RUN... | RESULTS) [KIND]", type=click.Path())
@click.option("-o", "--output", metavar="FILE", required=True, type=click.Path(dir_okay=False), help="The picture: *.svg, *.pdf or *.png.")
@click.option("--title", help="A title above the figure.")
@click.option("--label", "labels", multiple=True, help="Label of a run, in place of its name; once for each run.")
@click.option("--x", metavar="COLUMN", help="Of a table: the column along the figure.")
@click.option("--y", metavar="COLUMN", help="Of a table: the column up the figure.")
@click.option("--hue", metavar="COLUMN", help="Of a table: the column shown by colours.")
@click.option("--where", multiple=True, metavar="COLUMN=VALUE", help="Of a table: draw only rows with this value; all of several hold.")
@click.option("--log", multiple=True, type=click.Choice(["x", "y", "hue"]), help="Of a table: a logarithmic axis, or scale of colours.")
@click.option("--maximize", multiple=True, metavar="COLUMN", help="For pareto: more of this column, --x or --y, is better.")
@json_option
@quiet_option
def plot(
    runs: tuple[str, ...],
    output: str,
    title: str | None,
    labels: tuple[str, ...],
    as_json: bool,
    quiet: bool,
    where: tuple[str, ...],
    **of_table: Any,
) -> None:
    """Draw a figure."""
    kind, paths = kind_of(runs)
    form = Path(output).suffix[1:].lower()
    if form not in FORMATS:
        raise InputError(f"--output is {output!r}; expected a name that ends in {', '.join(f'.{each}' for each in FORMATS)}")
    tables = [path for path in paths if is_table(path)]
    if (tables and kind not in (*SERVING_KINDS, *GOODPUT_KINDS)) or kind in TABLE_KINDS:
        if len(paths) > 1 or not tables:
            raise InputError(
                f"{kind or 'a table'} of {', '.join(paths)}: expected one table of results, a name that ends in {', '.join(ENDINGS)}"
            )
        if kind in KINDS or kind in FLOW_KINDS:
            raise InputError(f"{tables[0]} is a table of results, which has no figure {kind!r}; expected {', '.join(TABLE_KINDS)}")
        if labels:
            raise InputError(f"--label is for runs; expected none with the table {tables[0]}")
        drawn = _of_table(path=tables[0], kind=kind or "line", form=form, title=title, where=where, quiet=quiet, **of_table)
    else:
        refused = [f"--{name}" for name, value in {**of_table, "where": where}.items() if value]
        if refused:
            raise InputError(f"{refused[0]} is for tables of results; {paths[0]} is a run")
        drawn = _progressing(quiet, lambda: _of_folders(kind, paths, form, title, labels))
    with FileSet() as files, files.open(output, "wb") as file:
        file.write(drawn)
    if as_json:
        say_json({"files": files.names, "bytes": len(drawn)})
    elif not quiet:
        Screen().text(output)


def _progressing(quiet: bool, draw: Callable[[], bytes]) -> bytes:
    """The result of `draw`, while standard error shows the elapsed time."""
    with Progress(enabled=not quiet) as progress:
        progress.stage("drawing", simulates=False)
        return draw()


def _of_folders(kind: str | None, paths: Sequence[str], form: str, title: str | None, labels: Sequence[str]) -> bytes:
    """A figure of runs, flows, served requests or months of training, as a file. Without a kind, flows are drawn by slowdown."""
    if kind in GOODPUT_KINDS:
        from astra_sim_report.goodput_plots import draw_goodput

        return draw_goodput(kind, paths, form, title, labels)
    if kind in SERVING_KINDS:
        from astra_sim_report.serving_plots import draw_serving

        return draw_serving(kind, paths, form, title, labels)
    if kind in FLOW_KINDS or (kind is None and all(has_flows(path) for path in paths)):
        from astra_sim_report.flow_plots import draw_flows, load_flow_runs

        return draw_flows(kind or "slowdown", load_flow_runs(paths), form, title, labels)
    from astra_sim_report.plots import draw
    from astra_sim_report.runs import load_runs

    return draw(kind, load_runs(paths), form, title, labels)


def _of_table(path: str, kind: str, form: str, title: str | None, where: Sequence[str], quiet: bool, **axes: Any) -> bytes:
    """A figure of a table, as a file. Rows with an error are left out, with a warning."""
    from astra_sim_report.plots import picture
    from astra_sim_report.table_plots import PlotAxes, draw_table
    from astra_sim_report.tables import read_table

    chosen = read_table(path).where(where)
    table = chosen.without_errors()
    if not len(table):
        raise InputError(f"{path}: all {len(chosen)} rows have an error; the first: {chosen.columns['error'][0]}")
    if len(table) < len(chosen) and not quiet:
        click.echo(f"astra: warning: {len(chosen) - len(table)} of {len(chosen)} rows have an error and are left out", err=True)
    return _progressing(quiet, lambda: picture(lambda: draw_table(kind, table, PlotAxes(**axes)), form, title))
