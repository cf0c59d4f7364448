"""`astra rerun`: run a result again, and compare it with the record."""

from __future__ import annotations

import json
import os
import sys
import warnings
from typing import Any

import attrs
import click
from astra_sim import InputError, InputWarning, simulate, use_plugins
from astra_sim.commands import Column, Progress, Screen, Table, json_option, quiet_option, say_json, shared_plugins
from astra_sim.display import all_option
from astra_sim.errors import printable, suggestion
from astra_sim.experiments import changed_inputs, experiment_of, version_differences
from astra_sim.results import read_results

from astra_sim_explain.differences import Difference, figure_differences

Document = dict[str, Any]
OFF = "no:"
"""The prefix of the name of a plugin that was switched off."""
SHOWN = 10
"""Figures of a table of differences, unless all are wanted."""
_NPU_TABLES = ("operations", "npu_times", "groups", "links")


@attrs.frozen
class _Rerun:
    """The outcome of a rerun."""

    run_name: str
    differences: list[Difference]
    versions: list[str]
    inputs: list[str]

    @property
    def is_same(self) -> bool:
        return not self.differences and not self.inputs


@click.command()
@click.argument("result", type=click.Path())
@click.option("--run", "name", metavar="NAME", help="Of a result of several runs, that of this name; without it all.")
@all_option
@json_option
@quiet_option
def rerun(result: str, name: str | None, every: bool, as_json: bool, quiet: bool) -> None:
    """Run a result again, and compare figures, input files and versions with its record.

    RESULT is a result.json, or the folder that --output has written. Exit status 1: a figure or an input file is another one.
    """
    file, runs = read_results(result)
    chosen = [run for run in runs if name is None or run["run_name"] == name]
    if not chosen:
        raise InputError(f"{file}: there is no run {name!r}; {suggestion(str(name), [str(run['run_name']) for run in runs])}")
    results = []
    with Progress(enabled=not quiet) as progress:
        for number, run in enumerate(chosen):
            progress.stage(f"run {number + 1} of {len(chosen)} ({run['run_name']})", number / len(chosen), 1 / len(chosen))
            results.append(_run_again(run, file, progress))
    if as_json:
        say_json({"file": file, "same": all(each.is_same for each in results), "runs": [_table(each) for each in results]})
    else:
        _print(results, len(runs) > 1, Screen(every), quiet)
    if not all(each.is_same for each in results):
        sys.exit(1)


def _run_again(run: Document, file: str, progress: Progress) -> _Rerun:
    """Run one of the runs of a result again. Raises AstraError."""
    _choose_plugins(run, file)
    experiment = experiment_of(run, file)
    recorded_inputs, experiment.inputs = experiment.inputs, ()
    tables = [name for name in _NPU_TABLES if name in run]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)  # they were shown when the result was made
        result = simulate(experiment, run_name=str(run["run_name"]), progress=progress, npu_times=bool(tables))
    now = _as_json(result.to_dict())
    if any(len(run[name]) != len(now.get(name, ())) for name in tables):
        now = _as_json(result.to_dict(every=True))
    current = result.inputs
    present = {(each["option"], each["path"]) for each in current}
    gone = [f"{each['option']}: {each['path']}: not there" for each in recorded_inputs if (each["option"], each["path"]) not in present]
    recorded = run.get("versions", {})
    return _Rerun(
        str(run["run_name"]),
        figure_differences(run, now),
        version_differences(recorded if isinstance(recorded, dict) else {}, result.versions),
        [*changed_inputs(recorded_inputs, current), *gone],
    )


def _choose_plugins(run: Document, file: str) -> None:
    """Switch off the plugins that were off in a run. Raises InputError if its plugin files are not in use (`-p`).

    A result is data: it does not choose which code runs.
    """
    value = run.get("invocation")
    words = value.get("plugins", ()) if isinstance(value, dict) else ()
    if not isinstance(words, (list, tuple)) or not all(isinstance(word, str) for word in words):
        raise InputError(f"{file}: invocation: plugins is {words!r}; expected a list of texts")
    chosen = {choice.name for choice in shared_plugins().choices}
    for word in words:
        if not word.startswith(OFF) and os.path.basename(word) not in chosen:
            raise InputError(f"{file}: the run used the plugin file {word}; expected astra -p {word} rerun {file}, which uses it again")
    for word in words:
        if word.startswith(OFF) and word.removeprefix(OFF) not in chosen:
            use_plugins(word)


def _as_json(document: Document) -> Document:
    """A result as a file has it."""
    result: Document = json.loads(json.dumps(document))
    return result


def _table(rerun_result: _Rerun) -> Document:
    differences = [attrs.asdict(difference) for difference in rerun_result.differences]
    return {
        "run_name": rerun_result.run_name,
        "same": rerun_result.is_same,
        "figures": differences,
        "inputs": rerun_result.inputs,
        "versions": rerun_result.versions,
    }


def _print(reruns: list[_Rerun], are_several: bool, screen: Screen, quiet: bool) -> None:
    """Print the differences, run by run."""
    for rerun in reruns:
        label = f"{printable(rerun.run_name)}: " if are_several else ""
        if not quiet:
            for line in rerun.versions:
                screen.text(f"{label}version: {line}", further="  ")
        for line in rerun.inputs:
            screen.text(f"{label}input: {printable(line)}", further="  ")
        if rerun.differences:
            _print_differences(rerun.differences, label, screen)
        elif not quiet:
            screen.text(f"{label}all figures are as recorded")


def _print_differences(differences: list[Difference], label: str, screen: Screen) -> None:
    shown = differences if screen.every else differences[:SHOWN]
    columns = (Column("figure", "name"), Column("recorded"), Column("now"), Column("change (%)", rank=1))
    rows = [[printable(each.figure), _cell(each.recorded), _cell(each.now), _change(each)] for each in shown]
    legend = f"{len(shown)} of {len(differences)}; --all: all" if len(shown) < len(differences) else ""
    screen.table(Table(columns, rows, f"{label}figures that are not as recorded", legend))


def _cell(value: Any) -> str:
    text = "-" if value is None else value if isinstance(value, str) else json.dumps(value)
    return printable(text if len(text) <= 24 else f"{text[:21]}...")


def _change(difference: Difference) -> str:
    before, now = difference.recorded, difference.now
    numbers = all(isinstance(each, (int, float)) and not isinstance(each, bool) for each in (before, now))
    return f"{100 * (now - before) / before:+.3g}" if numbers and before else "-"
