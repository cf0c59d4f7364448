"""The commands `astra sweep` and `astra assert`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click
from astra_sim.commands import json_option, say_json, write_then_show
from astra_sim.display import json_output
from astra_sim.errors import STATUS_INTERRUPTED, InputError, printable
from astra_sim.files import csv_lines

from astra_sim_sweep.words import counted

if TYPE_CHECKING:
    from astra_sim_sweep.budgets import Verdict
    from astra_sim_sweep.plan import Point, SweepPlan
    from astra_sim_sweep.running import Sweep, SweepCounts

axis_option = click.option(
    "--axis",
    "axes",
    metavar="NAME=VALUES",
    multiple=True,
    help="Other values for an axis: [4, 8], {range = [1, 9, 2]}, or one. Repeatable.",
)
scheduler_option = click.option(
    "--scheduler", metavar="ADDRESS|FILE", help="Run on the workers of a scheduler of Dask: tcp://10.0.0.1:8786, or its scheduler file."
)
worker_timeout_option = click.option(
    "--worker-timeout", type=float, metavar="S", help="With --scheduler: time without a worker that is an error.  [default: 300]"
)
keep_option = click.option("--keep", is_flag=True, help="Keep the whole result of each point, too, in RESULTS.results/.")


@click.command()
@click.argument("file", metavar="SWEEP.toml", type=click.Path())
@click.option("-o", "--output", metavar="RESULTS", type=click.Path(dir_okay=False), help="The table: *.parquet, *.csv or *.sqlite.")
@click.option("--jobs", type=int, metavar="N", help="Processes on this machine; by default one for each processor.")
@click.option("--resume", is_flag=True, help="Go on with a sweep that was interrupted or has more points now; nothing is run again.")
@click.option("--overwrite", is_flag=True, help="Drop the table and its journal, and begin anew.")
@click.option("--retry-errors", is_flag=True, help="With --resume: run failed points again.")
@click.option("--timeout", type=float, metavar="S", help="A point that takes more seconds is an error.")
@scheduler_option
@worker_timeout_option
@axis_option
@keep_option
@click.option("--shard", metavar="I/N", help="Run one of N parts of the points, on this machine alone; its files have that in their names.")
@click.option("--merge", "merges", is_flag=True, help="Run nothing: make the table of the shards that have been run.")
@click.option("--dry-run", is_flag=True, help="Print the points as CSV, check their options, and run nothing.")
@json_option
@click.option("--quiet", is_flag=True, help="Print nothing but errors and warnings.")
def sweep(
    file: str,
    output: str | None,
    jobs: int | None,
    resume: bool,
    overwrite: bool,
    retry_errors: bool,
    timeout: float | None,
    scheduler: str | None,
    worker_timeout: float | None,
    axes: tuple[str, ...],
    keep: bool,
    shard: str | None,
    merges: bool,
    dry_run: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Run an experiment over axes, and write one table: a row for each point, with its parameters, figures, or error.

    Finished points are kept in a journal, RESULTS.journal.sqlite, at once. Exit status 1: some points have failed.
    """
    if as_json and quiet:
        raise InputError("--json and --quiet are given; expected one of the two")
    if dry_run:
        (_print_points_as_json if as_json else _print_points)(file, axes, shard, quiet)
        return
    if output is None:
        raise InputError("--output is missing; expected a table: *.parquet, *.csv or *.sqlite (or --dry-run)")
    if retry_errors and not resume:
        raise InputError("--retry-errors is for a sweep that goes on; expected --resume, too")
    from astra_sim_sweep.progress import SweepProgress
    from astra_sim_sweep.running import merge
    from astra_sim_sweep.running import sweep as begin

    result: Sweep
    if merges:
        running = {"--jobs": jobs, "--timeout": timeout, "--scheduler": scheduler, "--worker-timeout": worker_timeout, "--shard": shard}
        for name, value in {**running, "--retry-errors": retry_errors or None}.items():
            if value is not None:
                raise InputError(f"{name} and --merge are given; --merge runs nothing")
        result = merge(file, output, resume=resume, overwrite=overwrite, axes=axes, keep=keep)
    else:
        result = begin(
            file,
            output,
            jobs=jobs,
            timeout=timeout,
            resume=resume,
            overwrite=overwrite,
            retry_errors=retry_errors,
            scheduler=scheduler,
            worker_timeout=worker_timeout,
            axes=axes,
            shard=shard,
            keep=keep,
        )
    counts = result.counts
    try:
        with SweepProgress(counts, not quiet) as progress:
            result.watch(progress.turn)
            result.finish()
    except KeyboardInterrupt:
        click.echo(f"astra: interrupted; {counted(counts.rows, 'row')} kept, and --resume goes on", err=True)
        sys.exit(STATUS_INTERRUPTED)
    if not quiet:
        for warning in counts.warnings:
            click.echo(f"astra: warning: {warning}", err=True)
    if as_json:
        say_json(_document(result.files, counts, result.first_error))
    elif not quiet:
        known = 0 if merges else counts.known
        click.echo(f"{counted(counts.rows, 'row')} in {' and '.join(result.files)}{_beside(known, counts.skipped, counts.failed)}")
    if counts.failed:
        click.echo(
            f"astra: error: {counts.failed:,} of {counted(counts.rows, 'point')} failed; the first: {printable(result.first_error)}",
            err=True,
        )
        sys.exit(1)


def _document(files: list[str], counts: SweepCounts, first_error: str) -> dict[str, Any]:
    """The summary of a sweep, for JSON."""
    numbers = {name: getattr(counts, name) for name in ("points", "rows", "known", "run", "skipped", "skipped_by", "failed")}
    return {"files": files, **numbers, "first_error": first_error or None, "warnings": list(counts.warnings)}


def _beside(known: int, skipped: int, failed: int) -> str:
    parts = [f"{known:,} known from before"] if known else []
    parts += [f"{counted(skipped, 'point')} skipped"] if skipped else []
    parts += [f"{failed:,} with an error"] if failed else []
    return f" ({', '.join(parts)})" if parts else ""


def _checked_points(file: str, axes: Sequence[str], shard: str | None) -> tuple[SweepPlan, Iterator[Point]]:
    """A plan, and its points, each with its error as far as that can be found without a run. Raises InputError."""
    import attrs

    from astra_sim_sweep.checks import check_axes, point_error
    from astra_sim_sweep.plan import read_plan
    from astra_sim_sweep.shards import Shard

    plan = read_plan(file, axes=axes)
    check_axes(plan)
    numbers = (Shard(1, 1) if shard is None else Shard.parse(shard)).numbers(plan.points.count)
    return plan, (attrs.evolve(point, error=point_error(plan, point)) for point in map(plan.point, numbers))


def _print_points(file: str, axes: Sequence[str], shard: str | None, quiet: bool) -> None:
    """The points of a sweep as CSV, and how many there are."""
    from astra_sim_sweep.tables import cell_text

    plan, points = _checked_points(file, axes, shard)
    skipped: dict[str, int] = {}
    count = failed = 0
    first_error = ""
    click.echo(_line([*plan.columns, "error"]))
    for point in points:
        if point.skipped_by is not None:
            skipped[point.skipped_by] = skipped.get(point.skipped_by, 0) + 1
            continue
        count += 1
        failed += point.error is not None
        first_error = first_error or point.error or ""
        click.echo(_line([*(cell_text(point.parameters[name]) for name in plan.columns), point.error]))
    if not quiet:
        reasons = ", ".join(f"{name} {number:,}" for name, number in skipped.items())
        beside = f"; {sum(skipped.values()):,} skipped ({reasons})" if skipped else ""
        click.echo(f"{counted(count, 'point')}{beside}", err=True)
    if failed:
        click.echo(f"astra: error: {failed:,} of {counted(count, 'point')} cannot be run; the first: {printable(first_error)}", err=True)
        sys.exit(1)


def _print_points_as_json(file: str, axes: Sequence[str], shard: str | None, _: bool) -> None:
    """The points of a sweep as an object, one after another, since there may be many."""
    import json

    plan, points = _checked_points(file, axes, shard)
    skipped: dict[str, int] = {}
    comma = failed = False
    click.echo(f'{{"columns": {json.dumps([*plan.columns, "error"])}, "points": [', nl=False, file=json_output())
    for point in points:
        if point.skipped_by is not None:
            skipped[point.skipped_by] = skipped.get(point.skipped_by, 0) + 1
            continue
        row = {name: point.parameters[name] for name in plan.columns}
        click.echo((", " if comma else "") + json.dumps({**row, "error": point.error}), nl=False, file=json_output())
        comma, failed = True, failed or point.error is not None
    click.echo(f'], "skipped_by": {json.dumps(skipped)}}}', file=json_output())
    if failed:
        sys.exit(1)


def _line(cells: list[object]) -> str:
    return next(csv_lines([cells])).removesuffix("\n")


@click.command("assert")
@click.argument("file", metavar="BUDGETS.toml", type=click.Path())
@click.option(
    "--junit", metavar="FILE.xml", type=click.Path(dir_okay=False), help="Write the results for continuous integration, as JUnit does."
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list and nothing else.")
@click.option("--quiet", is_flag=True, help="Print only unmet expectations.")
def assert_(file: str, junit: str | None, as_json: bool, quiet: bool) -> None:
    """Check figures of experiments against budgets. Exit status 0: all are kept; 1: one is not, or a run failed."""
    if as_json and quiet:
        raise InputError("--json and --quiet are given; expected one of the two")
    from astra_sim_sweep import budgets

    verdicts = list(budgets.judge(budgets.read_budgets(file)))
    shown = [verdict for verdict in verdicts if not quiet or verdict.state != "passed"]

    def write() -> None:
        if junit is not None:
            from astra_sim.files import FileSet

            with FileSet() as files, files.open(junit) as opened:
                opened.write(budgets.junit(verdicts, file))

    def show() -> None:
        if as_json:
            import attrs

            say_json([attrs.asdict(verdict) for verdict in verdicts])
        elif shown:
            _print_verdicts(shown)

    write_then_show(write, show)
    if any(verdict.state != "passed" for verdict in verdicts):
        sys.exit(1)


def _print_verdicts(verdicts: Sequence[Verdict]) -> None:
    from astra_sim.commands import Column, Screen, Table

    columns = (Column("state", "word"), Column("budget", "text"), Column("expected", "text"), Column("found", "text"))
    rows = [[verdict.state, printable(verdict.name), verdict.expected, printable(verdict.found)] for verdict in verdicts]
    Screen(every=True).table(Table(columns, rows))
