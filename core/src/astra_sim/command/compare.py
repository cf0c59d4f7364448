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
from astra_sim.report.spool import SpooledResults
from astra_sim.report.writing import REPORT_HELP, SERIES, SERIES_HELP, TIMELINE, check_run_names, chosen_reports
from astra_sim.results import flat_row
from astra_sim.setup.experiment import SECTIONS
from astra_sim.setup.specs import PREFIX

MAX_RUNS = 10_000
RUNS_FILE = "runs.csv"
"""The table of runs in the folder of `--output`."""

_LONGEST_LABEL = 30
_NUMBERS = 68
"""Columns of a terminal that the numbers of a table take."""


@attrs.frozen
class Choice:
    """What makes a run differ: its experiment file, components, and assignments `section.key=value`.

    `parameters` are those of them that vary, by short names: columns of the table of runs.
    """

    experiment: str | None
    components: tuple[tuple[str, str], ...]
    assignments: tuple[str, ...]
    parameters: dict[str, Any] = attrs.field(factory=dict)

    def run(self, label: str, **arguments: Any) -> Result:
        """Simulate it."""
        components: dict[str, Any] = dict(self.components)
        return simulate(self.experiment, **components, set=self.assignments, run_name=label, **arguments)


def choices(experiments: Sequence[str], components: Mapping[str, Sequence[str]], assignments: Sequence[str]) -> list[tuple[str, Choice]]:
    """Every combination, with a label of what varies. Assignments to one key are alternatives. Raises InputError.

    The first alternative of each varies slowest in the order: experiments, components, assignments.
    """
    by_key: dict[str, list[str]] = {}
    for assignment in assignments:
        by_key.setdefault(assignment.partition("=")[0].strip(), []).append(assignment)
    axes: list[tuple[str, list[str]]] = [("experiment", list(experiments))] if experiments else []
    axes += [(kind, list(values)) for kind, values in components.items() if values]
    axes += list(by_key.items())
    count = 1
    for _, values in axes:
        count *= len(values)
    if count > MAX_RUNS:
        raise InputError(f"{count} combinations to compare; expected at most {MAX_RUNS}")
    varying = short_keys([key for key, values in axes if len(values) > 1])
    short = {key: short_values(key, values, varying.get(key, key)) for key, values in axes}
    made = []
    for combination in itertools.product(*(values for _, values in axes)):
        chosen = dict(zip((key for key, _ in axes), combination, strict=True))
        choice = Choice(
            chosen.get("experiment"),
            tuple((kind, value) for kind, value in chosen.items() if kind in SECTIONS),
            tuple(value for key, value in chosen.items() if key in by_key),
            {name: _parameter(key, chosen[key]) for key, name in varying.items()},
        )
        made.append((" ".join(short[key][chosen[key]] for key in varying) or "run", choice))
    return made


def short_keys(keys: Sequence[str]) -> dict[str, str]:
    """Each key by as much of its end as tells it from the others: `splits` of `system.splits`."""
    found = {}
    for key in keys:
        parts = key.split(".")
        ends = [".".join(parts[first:]) for first in range(len(parts) - 1, -1, -1)]
        found[key] = next(end for end in ends if end == key or not any(other != key and f".{other}".endswith(f".{end}") for other in keys))
    return found


def short_values(key: str, values: Sequence[str], name: str) -> dict[str, str]:
    """Each value of a key as the name of a run has it: `splits=4`; the name of a plugin or file, if that tells it from the others."""
    if "." in key:
        return {value: f"{name}={_assigned(value)}" for value in values}
    short = {value: _short(value) for value in values}
    return short if len(set(short.values())) == len(short) else {value: value for value in values}


def _short(value: str) -> str:
    """A plugin with its options, or a file without its folders and ending."""
    return value.removeprefix(PREFIX) if value.startswith(PREFIX) else os.path.splitext(os.path.basename(os.path.normpath(value)))[0]


def _assigned(assignment: str) -> str:
    return assignment.partition("=")[2].strip()


def _parameter(key: str, value: str) -> Any:
    """What a table has of a value: all of it, as a number where it is one."""
    text = _assigned(value) if "." in key else value
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text


def row_of(result: Result, first_ns: float, parameters: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The row of a run: its parameters, and figures; ratios are to what the first took."""
    figures = {
        "finish_ns": result.finish_ns,
        "finish_ratio": result.finish_ns / first_ns if first_ns else None,
        "compute_ns": result.compute_ns,
        "exposed_comm_ns": result.exposed_comm_ns,
        "payload_bytes": result.network["payload_bytes"],
        "npus": result.npus,
        "wall_s": result.wall_s,
        **result.figures,
    }
    # A parameter may be called as a figure is.
    columns = {f"parameter_{name}" if name in ("run", *figures) else name: value for name, value in (parameters or {}).items()}
    return {"run": result.run_name, **columns, **figures}


@click.command()
@click.argument("experiments", nargs=-1, type=click.Path())
@component_options(multiple=True)
@run_options
@click.option("-o", "--output", metavar="DIR", type=click.Path(file_okay=False), help="Write result.json and reports of all runs there.")
@click.option("--report", "reports", metavar="NAME", multiple=True, help=REPORT_HELP)
@click.option("--run-name", metavar="NAME", help="What the names of runs in reports begin with.")
@click.option(
    "--timeline",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Write a timeline of each run for Perfetto: FILE with the run's name before the ending.",
)
@click.option("--series", type=click.Choice(SERIES), default="limited", show_default=True, help=SERIES_HELP)
@table_options
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list and nothing else.")
@quiet_option
def compare(
    experiments: tuple[str, ...],
    assignments: tuple[str, ...],
    output: str | None,
    reports: tuple[str, ...],
    run_name: str | None,
    timeline: str | None,
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
    chosen = chosen_reports(reports, output, timeline)
    made = choices(experiments, {kind: options.pop(kind) for kind in SECTIONS}, assignments)
    if run_name is not None:
        made = [(f"{run_name} {label}", choice) for label, choice in made]
    is_written = output is not None or timeline is not None
    if is_written:
        check_run_names([label for label, _ in made])
    rows: list[dict[str, Any]] = []
    shown: list[Mapping[str, Figure]] = []
    with contextlib.ExitStack() as until_written:
        results = None
        if is_written:
            results = SpooledResults(until_written.enter_context(tempfile.TemporaryDirectory(prefix="astra-compare-")))
        with Progress(enabled=not quiet) as progress:
            for number, (label, choice) in enumerate(made, 1):
                progress.stage(f"run {number} of {len(made)} ({label})", (number - 1) / len(made), 1 / len(made))
                result = choice.run(label, progress=progress, timelines=timeline is not None or TIMELINE in reports, **options)
                shown.append(result.shown)
                rows.append(row_of(result, rows[0]["finish_ns"] if rows else result.finish_ns, choice.parameters))
                if not quiet:
                    say_findings(result, label)
                if results is not None:
                    results.append(result)
        if not as_json and not quiet:
            _print(rows, shown, Screen(every, units))
        if results is not None:
            with Progress(enabled=not quiet) as progress:
                progress.stage("writing files", simulates=False)
                chosen.write(results, output, series, tables={RUNS_FILE: [flat_row(row) for row in rows]})
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
