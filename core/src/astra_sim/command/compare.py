"""`astra compare`: one experiment with several choices, in one table."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import click

from astra_sim.api import simulate
from astra_sim.command.findings import say_findings
from astra_sim.command.options import component_options, quiet_option, run_options, table_options
from astra_sim.command.progress import Progress
from astra_sim.errors import InputError, printable
from astra_sim.graph import Figure
from astra_sim.report.amounts import byte_unit
from astra_sim.report.figures import comparison_table
from astra_sim.report.layout import Column, Table
from astra_sim.report.result import Result
from astra_sim.report.screen import Screen
from astra_sim.report.writing import REPORT_HELP, SERIES, SERIES_HELP, TIMELINE, check_run_names, chosen_reports
from astra_sim.setup.experiment import SECTIONS

MAX_RUNS = 10_000
_LONGEST_LABEL = 30
_NUMBERS = 68
"""Columns of a terminal that the numbers of a table take."""


@attrs.frozen
class Choice:
    """What makes a run differ: its experiment file, components, and assignments `section.key=value`."""

    experiment: str | None
    components: tuple[tuple[str, str], ...]
    assignments: tuple[str, ...]

    def run(self, label: str, **arguments: Any) -> Result:
        """Simulate it."""
        components: dict[str, Any] = dict(self.components)
        return simulate(self.experiment, **components, set=self.assignments, run_name=label, **arguments)


def choices(experiments: Sequence[str], components: dict[str, Sequence[str]], assignments: Sequence[str]) -> list[tuple[str, Choice]]:
    """Every combination, with a label of what varies. Assignments to one key are alternatives. Raises InputError.

    The first alternative of each varies slowest in the order: experiments, components, assignments.
    """
    by_key: dict[str, list[str]] = {}
    for assignment in assignments:
        by_key.setdefault(assignment.partition("=")[0].strip(), []).append(assignment)
    axes: list[list[tuple[str, str]]] = [[("experiment", name) for name in experiments] or [("experiment", "")]]
    axes += [[(kind, value) for value in values] for kind, values in components.items() if values]
    axes += [[("set", assignment) for assignment in values] for values in by_key.values()]
    count = 1
    for axis in axes:
        count *= len(axis)
    if count > MAX_RUNS:
        raise InputError(f"{count} combinations to compare; expected at most {MAX_RUNS}")
    made = []
    for combination in itertools.product(*axes):
        varying = [value for (kind, value), axis in zip(combination, axes, strict=True) if len(axis) > 1]
        choice = Choice(
            next((value or None for kind, value in combination if kind == "experiment"), None),
            tuple((kind, value) for kind, value in combination if kind in SECTIONS),
            tuple(value for kind, value in combination if kind == "set"),
        )
        made.append((" ".join(varying) or "run", choice))
    return made


def row_of(result: Result, first_ns: float) -> dict[str, Any]:
    """The row of a run; ratios are to what the first took."""
    return {
        "run": result.run_name,
        "finish_ns": result.finish_ns,
        "finish_ratio": result.finish_ns / first_ns if first_ns else None,
        "compute_ns": result.compute_ns,
        "exposed_comm_ns": result.exposed_comm_ns,
        "payload_bytes": result.network["payload_bytes"],
        "npus": result.npus,
        "wall_s": result.wall_s,
        **result.figures,
    }


@click.command()
@click.argument("experiments", nargs=-1, type=click.Path())
@component_options(multiple=True)
@run_options
@click.option("-o", "--output", metavar="DIR", type=click.Path(file_okay=False), help="Write result.json and reports of all runs there.")
@click.option("--report", "reports", metavar="NAME", multiple=True, help=REPORT_HELP)
@click.option("--series", type=click.Choice(SERIES), default="limited", show_default=True, help=SERIES_HELP)
@table_options
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list and nothing else.")
@quiet_option
def compare(
    experiments: tuple[str, ...],
    assignments: tuple[str, ...],
    output: str | None,
    reports: tuple[str, ...],
    series: str,
    every: bool,
    units: str | None,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Run an experiment with several choices and print one table; ratios are to the first.

    \b
    astra compare exp.toml --network plugin:analytical --network mine.toml
    astra compare exp.toml --set system.splits=4 --set system.splits=16

    An option given several times is a choice, and so are several values of one key. Every combination is run.
    """
    chosen = chosen_reports(reports, output)
    made = choices(experiments, {kind: options.pop(kind) for kind in SECTIONS}, assignments)
    if output is not None:
        check_run_names([label for label, _ in made])
    rows: list[dict[str, Any]] = []
    shown: list[Mapping[str, Figure]] = []
    results = []
    with contextlib.ExitStack() as until_written:
        folder = None if output is None else until_written.enter_context(tempfile.TemporaryDirectory(prefix="astra-compare-"))
        with Progress(enabled=not quiet) as progress:
            for number, (label, choice) in enumerate(made, 1):
                progress.stage(f"run {number} of {len(made)} ({label})", (number - 1) / len(made), 1 / len(made))
                result = choice.run(label, progress=progress, timelines=TIMELINE in reports, **options)
                shown.append(result.shown)
                rows.append(row_of(result, rows[0]["finish_ns"] if rows else result.finish_ns))
                if not quiet:
                    say_findings(result, label)
                if folder is not None:
                    results.append(result.spooled(os.path.join(folder, str(number))))
        if not as_json and not quiet:
            _print(rows, shown, Screen(every, units))
        if output is not None:
            with Progress(enabled=not quiet) as progress:
                progress.stage("writing files", simulates=False)
                chosen.write(results, output, series)
    if as_json:
        click.echo(json.dumps(rows, allow_nan=False))


def _print(rows: Sequence[dict[str, Any]], shown: Sequence[Mapping[str, Figure]], screen: Screen) -> None:
    """Print the table, and one of the workload's figures. Runs with long labels are numbered, so that there is room for numbers."""
    labels = [printable(row["run"]) for row in rows]
    if screen.width is not None and max(map(len, labels)) > min(_LONGEST_LABEL, screen.width - _NUMBERS):
        for number, label in enumerate(labels, 1):
            screen.text(f"{number}: {label}", further="   ")
        labels = [str(number) for number in range(1, len(labels) + 1)]
    screen.table(_table(labels, rows, screen))
    of_workload = comparison_table(labels, shown, screen.units)
    if of_workload is not None:
        screen.table(of_workload)


def _table(labels: Sequence[str], rows: Sequence[dict[str, Any]], screen: Screen) -> Table:
    """A row for each run; one unit for all times that are simulated."""
    unit = screen.time_unit(max(row["finish_ns"] for row in rows))
    sent = byte_unit(max(row["payload_bytes"] for row in rows))
    columns = (
        Column("run", "name"),
        Column(f"total ({unit.name})"),
        Column("ratio"),
        Column(f"compute ({unit.name})", rank=2),
        Column(f"exposed ({unit.name})", rank=1),
        Column(f"payload ({sent.name})", rank=3),
        Column("NPUs", rank=4),
        Column("wall time (s)", rank=5),
    )
    cells = []
    for label, row in zip(labels, rows, strict=True):
        ratio = "-" if row["finish_ratio"] is None else f"{row['finish_ratio']:.3f}"
        times = [unit.number(row[name]) for name in ("compute_ns", "exposed_comm_ns")]
        rest = sent.number(row["payload_bytes"]), str(row["npus"]), f"{row['wall_s']:.3f}"
        cells.append([label, unit.number(row["finish_ns"]), ratio, *times, *rest])
    return Table(columns, cells)
