"""The commands `astra report` and `astra plot`."""

from __future__ import annotations

from pathlib import Path

import click
from astra_sim.commands import Progress, Screen, quiet_option
from astra_sim.errors import InputError
from astra_sim.files import FileSet

from astra_sim_report.kinds import FORMATS, KINDS, kind_of

_RUNS = "RUN is a result.json, or a folder that `--output` has written."


@click.command(help=f"Write a page of HTML about runs: one file, which opens without network.\n\n{_RUNS}")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", type=click.Path())
@click.option("-o", "--output", metavar="FILE.html", required=True, type=click.Path(dir_okay=False), help="The page.")
@quiet_option
def report(runs: tuple[str, ...], output: str, quiet: bool) -> None:
    """Write a page."""
    from astra_sim_report.page import page
    from astra_sim_report.runs import load_runs

    with Progress(enabled=not quiet) as progress:
        progress.stage("making the page", simulates=False)
        text = page(load_runs(runs))
        with FileSet() as files, files.open(output) as file:
            file.write(text)
    if not quiet:
        Screen().text(f"{output} ({len(text.encode()) / 1e6:.1f} MB)")


@click.command(
    help=f"Draw a figure of runs for a paper.\n\n{_RUNS} KIND is one of these:\n\n\b\n"
    + "\n".join(f"{name:15}{summary}" for name, summary in KINDS.items())
    + "\n\nWithout KIND one run is drawn by layers, if it has some, and others by where their time goes."
)
@click.argument("runs", nargs=-1, required=True, metavar="RUN... [KIND]", type=click.Path())
@click.option("-o", "--output", metavar="FILE", required=True, type=click.Path(dir_okay=False), help="The picture: *.svg, *.pdf or *.png.")
@click.option("--title", help="A title above the figure.")
@click.option("--label", "labels", multiple=True, help="What to call a run, in place of its name; once for each run.")
@quiet_option
def plot(runs: tuple[str, ...], output: str, title: str | None, labels: tuple[str, ...], quiet: bool) -> None:
    """Draw a figure."""
    kind, paths = kind_of(runs)
    form = Path(output).suffix[1:].lower()
    if form not in FORMATS:
        raise InputError(f"--output is {output!r}; expected a name that ends in {', '.join(f'.{each}' for each in FORMATS)}")
    from astra_sim_report.plots import draw
    from astra_sim_report.runs import load_runs

    with Progress(enabled=not quiet) as progress:
        progress.stage("drawing", simulates=False)
        picture = draw(kind, load_runs(paths), form, title, labels)
        with FileSet() as files, files.open(output, "wb") as file:
            file.write(picture)
    if not quiet:
        Screen().text(output)
