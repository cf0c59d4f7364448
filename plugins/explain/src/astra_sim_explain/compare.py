"""`astra compare`: one experiment with several choices, in one table."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import click
from astra_sim import Experiment, InputError, Result, load_experiment, simulate
from astra_sim.commands import (
    Column,
    Plugins,
    Progress,
    Screen,
    Table,
    component_options,
    quiet_option,
    say_json,
    shared_plugins,
    table_options,
    write_then_show,
)
from astra_sim.display import Reports, amount, output_options, run_options, say_findings, scalar_figures
from astra_sim.errors import printable
from astra_sim.experiments import SECTIONS, Change, Grid, assigned, changed, row_of
from astra_sim.graph import Figure
from astra_sim.results import flat_row

from astra_sim_explain.spooled import SpooledResults

MAX_RUNS = 10_000
_PREFIX = "plugin:"
RUNS_FILE = "runs.csv"
"""The table of runs in the folder of `--output`."""

_LONGEST_LABEL = 30
_NUMBERS = 68
"""Columns of a terminal that the numbers of a table take."""


@attrs.frozen
class ComparedChoice:
    """A point of a comparison: its experiment file, and its changes.

    `parameters` are those of its components and options that vary, by short names: columns of the table of runs.
    """

    experiment: str | None
    changes: tuple[Change, ...]
    parameters: dict[str, Any] = attrs.field(factory=dict)


def choices(
    experiments: Sequence[str], components: Mapping[str, Sequence[str]], assignments: Sequence[str]
) -> list[tuple[str, ComparedChoice]]:
    """Every combination, with a label of the varied values. Assignments to one key are alternatives. Raises InputError.

    The first alternative of each varies slowest in the order: experiments, components, assignments.
    """
    axes: dict[str, list[str]] = {"experiment": list(experiments), **{kind: list(values) for kind, values in components.items()}}
    for assignment in assignments:
        key, value = assigned(assignment)
        axes.setdefault(key, []).append(value)
    axes = {key: values for key, values in axes.items() if values}
    grid = Grid([len(values) for values in axes.values()])
    if grid.count > MAX_RUNS:
        raise InputError(f"{grid.count} combinations to compare; expected at most {MAX_RUNS}")
    varying = short_keys([key for key, values in axes.items() if len(values) > 1])
    short = {key: short_values(key, axes[key], name) for key, name in varying.items()}
    result = []
    for number in range(grid.count):
        chosen = {key: values[position] for (key, values), position in zip(axes.items(), grid.positions(number), strict=True)}
        changes = tuple(Change(key, value, _where(key, value)) for key, value in chosen.items() if key != "experiment")
        choice = ComparedChoice(chosen.get("experiment"), changes, {name: _parameter(chosen[key]) for key, name in varying.items()})
        result.append((" ".join(short[key][chosen[key]] for key in varying) or "run", choice))
    return result


def _where(key: str, value: str) -> str:
    return key if key in SECTIONS else f"--set {key}={value}"


def short_keys(keys: Sequence[str]) -> dict[str, str]:
    """Each key by as much of its end as tells it from the others: `splits` of `system.splits`."""
    result = {}
    for key in keys:
        parts = key.split(".")
        ends = [".".join(parts[first:]) for first in range(len(parts) - 1, -1, -1)]
        result[key] = next(end for end in ends if end == key or not any(other != key and f".{other}".endswith(f".{end}") for other in keys))
    return result


def short_values(key: str, values: Sequence[str], name: str) -> dict[str, str]:
    """Each value of a key as the name of a run has it: `splits=4`; the name of a plugin or file, if that tells it from the others."""
    if "." in key:
        return {value: f"{name}={value}" for value in values}
    short = {value: _short(value) for value in values}
    return short if len(set(short.values())) == len(short) else {value: value for value in values}


def _short(value: str) -> str:
    """A plugin with its options, or a file without its folders and ending."""
    return value.removeprefix(_PREFIX) if value.startswith(_PREFIX) else os.path.splitext(os.path.basename(os.path.normpath(value)))[0]


def _parameter(value: str) -> Any:
    """A value in a table: a number if it is one, else the text."""
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(value)
    return str(value)


def figures_of(result: Result, first_ns: float) -> dict[str, Any]:
    """The name of a run and its figures; ratios are to the first run's time."""
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


def row_of_run(parameters: Mapping[str, Any], figures: Mapping[str, Any]) -> dict[str, Any]:
    """The row of a run: its name first, then its parameters, then figures."""
    return {"run": None} | row_of(parameters, figures)


@click.command()
@click.argument("experiments", nargs=-1, type=click.Path())
@component_options(multiple=True)
@run_options
@click.option("--run-name", metavar="NAME", help="Prefix of the names of runs in reports.")
@output_options(multiple=True)
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
    explain: bool,
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
    chosen = Reports.chosen(reports, output, timeline)
    if explain and output is None:
        raise InputError("--explain needs --output DIR, the folder for the result.json that has the explanations")
    outcome = choices(experiments, {kind: options.pop(kind) for kind in SECTIONS}, assignments)
    plugins = shared_plugins()
    bases: dict[str | None, Experiment] = {path: _base(path, options, plugins) for path in experiments or [None]}
    if run_name is not None:
        outcome = [(f"{run_name} {label}", choice) for label, choice in outcome]
    is_written = output is not None or timeline is not None
    if is_written:
        Reports.check_names([label for label, _ in outcome])
    figures: list[dict[str, Any]] = []
    shown: list[Mapping[str, Figure]] = []
    with contextlib.ExitStack() as until_written:
        results = None
        if is_written:
            results = SpooledResults(until_written.enter_context(tempfile.TemporaryDirectory(prefix="astra-compare-")))
        with Progress(enabled=not quiet) as progress:
            for number, (label, choice) in enumerate(outcome, 1):
                progress.stage(f"run {number} of {len(outcome)} ({label})", (number - 1) / len(outcome), 1 / len(outcome))
                experiment = changed(bases[choice.experiment], choice.changes, plugins)
                result = simulate(
                    experiment,
                    run_name=label,
                    progress=progress,
                    timelines="path" if timeline is not None or Reports.TIMELINE in reports else False,
                    explain=explain,
                )
                shown.append(result.shown)
                figures.append(figures_of(result, figures[0]["finish_ns"] if figures else result.finish_ns))
                say_findings(result, label)
                if results is not None:
                    results.append(result)
        rows = [row_of_run(choice.parameters, each) for (_, choice), each in zip(outcome, figures, strict=True)]

        def write() -> None:
            if results is not None:
                with Progress(enabled=not quiet) as progress:
                    progress.stage("writing files", simulates=False)
                    chosen.write(results, output, series, tables={RUNS_FILE: [flat_row(row) for row in rows]})

        def show() -> None:
            if not as_json and not quiet:
                _print(figures, shown, Screen(every, units))

        write_then_show(write, show)
    if as_json:
        say_json(rows)


def _base(path: str | None, options: Mapping[str, Any], plugins: Plugins) -> Experiment:
    """The common inputs of an experiment file's runs. Options of the run that were not given are None. Raises InputError."""
    experiment = Experiment() if path is None else load_experiment(path, plugins)
    for name, value in options.items():
        if value is not None:
            experiment.choose(name, value)
    return experiment


def _print(rows: Sequence[dict[str, Any]], shown: Sequence[Mapping[str, Figure]], screen: Screen) -> None:
    """Print the table, and one of the workload's figures. Runs with long labels are numbered, so that there is room for numbers."""
    labels = [printable(row["run"]) for row in rows]
    if screen.width is not None and max(map(len, labels)) > min(_LONGEST_LABEL, screen.width - _NUMBERS):
        for number, label in enumerate(labels, 1):
            screen.text(f"{number}: {label}", further="   ")
        labels = [str(number) for number in range(1, len(labels) + 1)]
    screen.table(_table(labels, rows, screen))
    of_workload = _figures_table(labels, shown, screen.units)
    if of_workload is not None:
        screen.table(of_workload)


def _table(labels: Sequence[str], rows: Sequence[dict[str, Any]], screen: Screen) -> Table:
    """A row for each run; one unit for all times that are simulated."""
    unit = screen.time_unit(max(row["finish_ns"] for row in rows))
    sent = screen.byte_unit(max(row["payload_bytes"] for row in rows))
    columns = (
        Column("run", "name"),
        Column(f"total ({unit.name})"),
        Column("ratio"),
        Column(f"compute ({unit.name})", rank=2),
        Column(f"waiting ({unit.name})", rank=1),
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


def _figures_table(labels: Sequence[str], shown: Sequence[Mapping[str, Figure]], units: str | None = None) -> Table | None:
    """A row for each run and a column for each figure that all of them have; None if there is none. Times are in `units`."""
    each = [scalar_figures(figures) for figures in shown]
    names = [name for name, figure in each[0].items() if all(name in figures for figures in each) and not isinstance(figure.value, str)]
    if not names:
        return None
    columns = [Column("run", "name")]
    cells: list[list[str]] = []
    for rank, name in enumerate(names):
        values = [figures[name] for figures in each]
        like = max(abs(figure.value) for figure in values)
        unit = amount(0, values[0].unit, like, units)[1]
        columns.append(Column(values[0].label if not unit else f"{values[0].label} ({unit})", rank=rank))
        cells.append([amount(figure.value, figure.unit, like, units)[0] for figure in values])
    return Table(columns, [list(row) for row in zip(labels, *cells, strict=True)])
