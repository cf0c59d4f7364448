"""The command `astra search`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
from astra_sim.commands import say_json
from astra_sim.errors import STATUS_INTERRUPTED, InputError, printable

from astra_sim_sweep.commands import axis_option, keep_option, scheduler_option, worker_timeout_option
from astra_sim_sweep.words import counted

if TYPE_CHECKING:
    from astra_sim_sweep.search_files import SearchPlan
    from astra_sim_sweep.searching import Found


@click.command()
@click.argument("file", metavar="SEARCH.toml", type=click.Path())
@click.option("-o", "--output", metavar="RESULTS", type=click.Path(dir_okay=False), help="The table of points: *.parquet, *.csv, *.sqlite.")
@click.option("--jobs", type=int, metavar="N", help="Processes on this machine; by default one for each processor.")
@click.option("--resume", is_flag=True, help="Go on with a search that was interrupted or has more trials now; nothing is run again.")
@click.option("--overwrite", is_flag=True, help="Drop the table, its journal and its study, and begin anew.")
@click.option("--timeout", type=float, metavar="S", help="A point that takes more seconds is an error.")
@scheduler_option
@worker_timeout_option
@axis_option
@keep_option
@click.option("--dry-run", is_flag=True, help="Print the plan of the search, check its options, and run nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object and nothing else.")
@click.option("--quiet", is_flag=True, help="Print nothing but errors and warnings.")
def search(
    file: str,
    output: str | None,
    jobs: int | None,
    resume: bool,
    overwrite: bool,
    timeout: float | None,
    scheduler: str | None,
    worker_timeout: float | None,
    axes: tuple[str, ...],
    keep: bool,
    dry_run: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Find the best design: an experiment over axes, one or two objectives, and constraints.

    Finished points are kept at once, in RESULTS.journal.sqlite and RESULTS.study.log. Exit status 1: no point that was run is feasible.
    """
    if as_json and quiet:
        raise InputError("--json and --quiet are given; expected one of the two")
    if dry_run:
        (_print_plan_as_json if as_json else _print_plan)(file, axes)
        return
    if output is None:
        raise InputError("--output is missing; expected a table: *.parquet, *.csv or *.sqlite (or --dry-run)")
    from astra_sim_sweep.progress import SweepProgress
    from astra_sim_sweep.searching import search as begin

    results = begin(
        file,
        output,
        jobs=jobs,
        timeout=timeout,
        resume=resume,
        overwrite=overwrite,
        scheduler=scheduler,
        worker_timeout=worker_timeout,
        axes=axes,
        keep=keep,
    )
    try:
        with SweepProgress(results.counts, not quiet) as progress:
            results.watch(progress.turn)
            result = results.finish()
    except KeyboardInterrupt:
        click.echo(f"astra: interrupted; {counted(results.counts.rows, 'row')} kept, and --resume goes on", err=True)
        sys.exit(STATUS_INTERRUPTED)
    if not quiet:
        for warning in results.counts.warnings:
            click.echo(f"astra: warning: {warning}", err=True)
    if as_json:
        _print_json(results.search, result)
    elif not quiet:
        if result.best:
            _print_best(results.search, result)
        click.echo(f"{_counted(result)}; rows in {output}")
    if result.failed:
        kind = "warning" if result.best else "error"
        click.echo(
            f"astra: {kind}: {result.failed:,} of {counted(result.run, 'point')} failed; the first: {printable(result.first_error)}",
            err=True,
        )
    if not result.best:
        click.echo("astra: error: no point that was run is feasible", err=True)
        sys.exit(1)


def _print_best(search: SearchPlan, summary: Found) -> None:
    """The best design, a line for each of its values; of two objectives the front, a line for each design."""
    from astra_sim.commands import Column, Screen, Table

    from astra_sim_sweep.expressions import shown

    goal, names = search.goal, search.plan.columns
    screen = Screen(every=True)
    if len(goal.objectives) > 1:
        names = [*names, *(text for text in goal.texts if text not in names)]
        are_numbers = [all(isinstance(row[name], (int, float)) for row in summary.best) for name in names]
        columns = [Column(name, "number" if is_number else "name") for name, is_number in zip(names, are_numbers, strict=True)]
        screen.table(Table(columns, [[printable(shown(row[name])) for name in names] for row in summary.best]))
        return
    best = summary.best[0]
    rows = [[name, printable(shown(best[name])), ""] for name in names]
    rows += [[each.text, shown(best[each.text]), "the most" if each.maximize else "the least"] for each in goal.objectives]
    for constraint in goal.constraints:
        parts = constraint.condition.parts(best)
        values = ", ".join(f"{name} = {shown(value)}" for name, value in parts.items() if name != constraint.condition.text)
        rows.append([constraint.name, printable(values), constraint.condition.text])
    screen.table(Table([Column("", "text")] * 3, rows, headed=False))
    if len(summary.best) > 1:
        screen.text(f"{len(summary.best) - 1:,} more as good as that")


def _counted(summary: Found) -> str:
    """The number of points by outcome."""
    parts = [f"{counted(summary.run, 'point')} run"]
    if summary.infeasible:
        by = ", ".join(f"{name} {number:,}" for name, number in summary.infeasible_by.items())
        parts.append(f"{summary.infeasible:,} infeasible ({by})")
    if summary.failed:
        parts.append(f"{summary.failed:,} failed")
    if summary.skipped:
        parts.append(f"{summary.skipped:,} skipped")
    return ", ".join(parts)


def _print_json(search: SearchPlan, summary: Found) -> None:

    import attrs

    objectives = [{"expression": each.text, "maximize": each.maximize} for each in search.goal.objectives]
    method: Any = "exhaustive" if search.is_exhaustive else search.options.sampler
    say_json({"objectives": objectives, "method": method, **attrs.asdict(summary)})


def _print_plan_as_json(file: str, overrides: Sequence[str]) -> None:
    """The plan of a search, as an object."""
    import json

    from astra_sim_sweep.search_files import read_search

    search = read_search(file, overrides)
    axes = [
        {"name": axis.name, "low": axis.span.low, "high": axis.span.high}
        if axis.span is not None
        else {"name": axis.name, "values": [axis.shown(position) for position in range(len(axis.values))]}
        for axis in search.plan.axes
    ]
    _, failed, first_error = _check_points(search) if search.is_exhaustive else (0, 0, "")
    document = {
        "objectives": [{"expression": each.text, "maximize": each.maximize} for each in search.goal.objectives],
        "constraints": [{"name": each.name, "expression": each.condition.text} for each in search.goal.constraints],
        "axes": axes,
        "points": search.plan.points.count,
        "method": "exhaustive" if search.is_exhaustive else search.options.sampler,
        "trials": None if search.is_exhaustive else search.options.trials,
        "failed": failed,
        "first_error": first_error or None,
    }
    say_json(json.loads(json.dumps(document, default=str)))
    if failed:
        sys.exit(1)


def _print_plan(file: str, overrides: Sequence[str]) -> None:
    """The plan of a search."""
    from astra_sim_sweep.search_files import read_search

    search = read_search(file, overrides)
    options = search.options
    for objective in search.goal.objectives:
        click.echo(f"{'maximize' if objective.maximize else 'minimize'}  {objective.text}")
    for constraint in search.goal.constraints:
        click.echo(f"keep      {constraint.name}: {constraint.condition.text}")
    for axis in search.plan.axes:
        if axis.span is not None:
            values = f"{axis.span.low} to {axis.span.high}"
        else:
            values = ", ".join(str(axis.shown(position)) for position in range(min(len(axis.values), 12)))
            values += ", ..." if len(axis.values) > 12 else ""
        click.echo(f"axis      {axis.name}: {printable(values)}")
    if search.is_exhaustive:
        count, failed, first_error = _check_points(search)
        click.echo(f"{counted(count, 'point')}, all of which are run; {search.plan.points.count - count:,} skipped")
        if failed:
            click.echo(
                f"astra: error: {failed:,} of {counted(count, 'point')} cannot be run; the first: {printable(first_error)}", err=True
            )
            sys.exit(1)
    else:
        every = counted(search.plan.points.count, "point")
        click.echo(f"up to {options.trials:,} of {every} (some may be skipped), by the sampler {options.sampler}")


def _check_points(search: SearchPlan) -> tuple[int, int, str]:
    """The points of an exhaustive search that are not skipped, those of them that cannot be run, and why the first cannot."""
    from astra_sim_sweep.checks import point_error

    points = [point for point in search.plan if point.skipped_by is None]
    errors = [error for error in (point_error(search.plan, point) for point in points) if error is not None]
    return len(points), len(errors), errors[0] if errors else ""
