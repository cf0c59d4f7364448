"""`astra explain`: why a run takes as long as it does, and how two runs differ."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import attrs
import click
from astra_sim import InputError, Result, simulate
from astra_sim.commands import (
    Column,
    Progress,
    Screen,
    Table,
    component_options,
    json_option,
    quiet_option,
    say_json,
    shared_plugins,
    table_options,
)
from astra_sim.display import Reports, run_options, say_findings
from astra_sim.reports import file_name

from astra_sim_explain.explanation import PathExplanation
from astra_sim_explain.explanation_text import difference, print_difference
from astra_sim_explain.memory_text import MEMORY_TABLES, print_memory


@click.command()
@click.argument("experiments", nargs=-1, type=click.Path(), metavar="[EXPERIMENT] [OTHER]")
@component_options(multiple=False)
@run_options
@click.option(
    "--reruns/--no-reruns", default=True, help="Run again with 1 % more and less where the path does not tell.  [default: reruns]"
)
@click.option(
    "-o",
    "--output",
    metavar="DIR",
    type=click.Path(file_okay=False),
    help="Write result.json there, with the explanation, and a timeline with the critical path; of two, a list.",
)
@click.option("--ranges", is_flag=True, help="Find how much a parameter may change until another path is the longest, by more runs.")
@table_options
@json_option
@quiet_option
def explain(
    experiments: tuple[str, ...],
    assignments: tuple[str, ...],
    reruns: bool,
    output: str | None,
    ranges: bool,
    every: bool,
    units: str | None,
    as_json: bool,
    quiet: bool,
    **choices: Any,
) -> None:
    """Run an experiment and explain its time: its critical path, the effect of changes, and lower bounds.

    \b
    astra explain exp.toml
    astra explain exp.toml --network plugin:packet
    astra explain before.toml after.toml
    astra explain exp.toml --output explained && astra report explained --output explained.html

    With two experiments, show their differences. Options hold for both.
    """
    if len(experiments) > 2:
        raise InputError(f"{len(experiments)} experiments are given; expected one, or two to compare")
    if ranges and not reruns:
        raise InputError("--ranges and --no-reruns are given; expected one of the two, for ranges are found by runs")
    reports = Reports.chosen((), output) if output is None else Reports(_reports_of_explained())
    outcome, results = list[PathExplanation](), list[Result]()
    how: Literal[True, "path", "ranges"] = "ranges" if ranges else reruns or "path"
    with Progress(enabled=not quiet) as progress:
        names = experiments or (None,)
        for number, experiment in enumerate(names):
            progress.stage(f"run of {experiment or 'the experiment'}", number / len(names), 1 / len(names))
            result = simulate(experiment, set=assignments, progress=progress, explain=how, **choices)
            say_findings(result, experiment or "" if len(names) > 1 else "")
            outcome.append(result.explanation)
            results.append(result)
        if output is not None:
            progress.stage("writing files", simulates=False)
            files = reports.write(results[0] if len(results) == 1 else _named_apart(results, experiments), output)
    if as_json:
        say_json(_table(outcome, results))
    elif quiet:
        return
    elif len(outcome) == 1:
        screen = Screen(every, units)
        outcome[0].show(screen)
        print_memory(screen, results[0])
        _print_accounts(screen, results[0])
    else:
        print_difference(outcome[0], outcome[1], Screen(every, units))
    if output is not None and not as_json:
        Screen(every, units).text(f"{len(files)} files in {output}")


def _reports_of_explained() -> tuple[str, ...]:
    """The reports that are written beside an explained result: its timeline, if there is one that can write it."""
    return (Reports.TIMELINE,) if Reports.TIMELINE in shared_plugins().components("report") else ()


def _print_accounts(screen: Screen, result: Result) -> None:
    """The figures of a run's accounts, if it has some: its energy and its cost."""
    rows = [
        [figure.label, f"{figure.value:,.6g}", f"{figure.unit} {f'({figure.note})' if figure.note else ''}".strip()]
        for name, figure in result.shown.items()
        if "." in name
    ]
    if rows:
        screen.table(Table((Column("", "word"), Column(""), Column("", "text")), rows, "Energy and cost", headed=False, indent=1))


def _named_apart(results: Sequence[Result], experiments: Sequence[str]) -> list[Result]:
    """Two results under different names: their own, or those of their files, or with a and b behind them."""
    for names in ([each.run_name for each in results], [Path(each).stem for each in experiments]):
        if len({file_name(name) for name in names}) == len(names):
            break
    else:
        names = [f"{each.run_name} {letter}" for each, letter in zip(results, "ab", strict=False)]
    return [attrs.evolve(each, run_name=name) for each, name in zip(results, names, strict=True)]


def _table(explanations: list[PathExplanation], results: list[Result]) -> dict[str, Any]:
    tables = [
        explanation.to_dict() | {name: result.figures[name] for name in MEMORY_TABLES if name in result.figures}
        for explanation, result in zip(explanations, results, strict=True)
    ]
    return tables[0] if len(tables) == 1 else {"a": tables[0], "b": tables[1], "difference": difference(*explanations)}
