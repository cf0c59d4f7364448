"""The command `astra jobs`."""

from __future__ import annotations

from collections.abc import Sequence

import click
from astra_sim import InputError
from astra_sim.commands import Column, Screen, Table, json_option, quiet_option, say_json

from astra_sim_goodput.jobs import JobLink, Jobs, run_jobs
from astra_sim_goodput.schedule import ClusterSchedule
from astra_sim_goodput.schedule_file import has_schedule, jobs_at, run_schedule

_SHOWN = 10


@click.command("jobs")
@click.argument("file", type=click.Path())
@click.option("--alone", is_flag=True, help="Run each job by itself, too: how much the others slow it, and how fair that is.")
@click.option("--without", metavar="NAME", multiple=True, help="Run once more without this job. Repeatable.")
@click.option("--link-figures", is_flag=True, help="Count the bytes and waits of links by job: who waited for whom, and where.")
@click.option("--at", metavar="TIME", help="With [schedule]: run the jobs of that moment on the network, such as 36h or 600s.")
@click.option("--set", "assignments", metavar="SECTION.KEY=VALUE", multiple=True, help="Change one option. Repeatable.")
@json_option
@quiet_option
def jobs_command(
    file: str,
    alone: bool,
    without: tuple[str, ...],
    link_figures: bool,
    at: str | None,
    assignments: tuple[str, ...],
    as_json: bool,
    quiet: bool,
) -> None:
    """Run several jobs on one platform, and report how much they slow each other.

    \b
    astra jobs two_jobs.toml --alone
    astra jobs two_jobs.toml --without b
    astra jobs two_jobs.toml --link-figures
    astra jobs cluster.toml
    astra jobs cluster.toml --at 36h --alone

    FILE is an experiment without a workload, but with a table [[jobs]] for each job: its name, its workload, and its ranks. Or with a
    table [schedule]: the jobs of a cluster's trace, their queue and their placement.
    """
    tables = None
    if has_schedule(file):
        schedule, options = run_schedule(file, set=assignments)
        if at is None:
            refused = next(
                (name for name, value in (("--alone", alone), ("--without", without), ("--link-figures", link_figures)) if value), None
            )
            if refused:
                raise InputError(f"{refused}: {file} has a table [schedule]; expected --at, too: the moment whose jobs run on the network")
            if as_json:
                say_json(schedule.to_dict(every=True))
            elif not quiet:
                _print_schedule(schedule)
            return
        tables = jobs_at(schedule, options, _seconds(at), file)
        assignments = tuple(each for each in assignments if not each.startswith("schedule."))
    elif at is not None:
        raise InputError(f"--at is {at!r}, and {file} has no table [schedule]; expected one")
    result = run_jobs(file, alone=alone, without=without, link_figures=link_figures, set=assignments, jobs=tables)
    if as_json:
        say_json(result.to_dict())
    elif not quiet:
        _print(result)


def _print(outcome: Jobs) -> None:
    """A table of the jobs, and how fair it is."""
    screen = Screen()
    unit = screen.time_unit(max(job.duration_ns for job in outcome.jobs))
    left_out = list(dict.fromkeys(name for job in outcome.jobs for name in job.without))
    columns = [Column("job", "word"), Column("NPUs"), *(Column(f"{name} ({unit.name})") for name in ("start", "finish", "duration"))]
    fairness = outcome.fairness
    if fairness is not None:
        columns += [Column(f"alone ({unit.name})"), Column("slowdown")]
    columns += [Column(f"without {name} ({unit.name})") for name in left_out]
    rows = []
    for job in outcome.jobs:
        row = [job.name, f"{job.npus:,}", *map(unit.number, (job.start_ns, job.finish_ns, job.duration_ns))]
        if fairness is not None:
            row += ["-", "-"] if not job.slowdown else [unit.number(job.alone_ns or 0.0), f"{job.slowdown:.4f}"]
        rows.append([*row, *(unit.number(job.without[name]) if name in job.without else "-" for name in left_out)])
    screen.table(Table(tuple(columns), rows, outcome.name))
    if fairness is not None:
        figures = [
            ["fairness", f"{fairness['jain']:.4f}", "Jain's index of 1 / slowdown"],
            ["worst slowdown", f"{fairness['worst_slowdown']:.4f}", ""],
        ]
        screen.table(Table((Column("", "word"), Column(""), Column("", "text")), figures, headed=False, indent=1))
    if outcome.links is not None:
        _print_links(screen, outcome, outcome.links)
    if not outcome.messages_wait:
        screen.text("On this network messages do not wait for each other, so that jobs cannot slow each other.", prose=True)


def _print_links(screen: Screen, outcome: Jobs, links: Sequence[JobLink]) -> None:
    """How long jobs waited for each other, and the links at which they waited longest."""
    names, waits = [job.name for job in outcome.jobs], outcome.wait_ns or []
    unit = screen.time_unit(max([1.0, *(each for row in waits for each in row)]))
    columns = [Column("job", "word"), *(Column(f"waits for {name} ({unit.name})") for name in names)]
    title = "Waits for links while they send messages of each job"
    screen.table(Table(tuple(columns), [[name, *map(unit.number, row)] for name, row in zip(names, waits, strict=True)], title))
    worst = sorted(links, key=lambda link: -_between_jobs(link))[:_SHOWN]
    if not worst or not _between_jobs(worst[0]):
        return
    unit = screen.time_unit(_between_jobs(worst[0]))
    rows = [[link.source, link.target, ", ".join(link.by_job), unit.number(_between_jobs(link))] for link in worst if _between_jobs(link)]
    headings = (Column("from", "name"), Column("to", "name"), Column("jobs", "word"), Column(f"waits ({unit.name})"))
    screen.table(Table(headings, rows, "Links at which jobs wait longest for others"))


def _between_jobs(link: JobLink) -> float:
    """How long messages waited for a link while it sent those of other jobs (ns)."""
    return sum(each for i, row in enumerate(link.wait) for j, each in enumerate(row) if i != j)


_UNITS = {"s": 1.0, "h": 3600.0, "d": 86400.0}


def _seconds(text: str) -> float:
    """A moment such as 36h, 600s or 2d. Raises InputError."""
    try:
        value = float(text[:-1])
        if text[-1:] in _UNITS and 0 <= value < 1e12:
            return value * _UNITS[text[-1]]
    except ValueError:
        pass
    raise InputError(f"--at is {text!r}; expected a time after the first job came, such as 600s, 36h or 2d")


def _print_schedule(schedule: ClusterSchedule) -> None:
    """The summary of a schedule, and the jobs that waited longest."""
    screen, figures = Screen(), schedule.to_dict()
    rows = [
        ["jobs", f"{len(schedule.jobs):,}", f"{schedule.left_out:,} without NPUs or time left out, {schedule.too_large:,} too large"],
        ["NPUs", f"{schedule.npus:,}", ""],
        ["until the last ends", f"{schedule.end_s / 3600:,.2f}", "h"],
        ["utilisation", f"{100 * schedule.utilisation:.1f}", "% of NPU time"],
    ]
    for key, name in (("wait_s", "waiting"), ("completion_s", "submission to end")):
        quantiles = ", ".join(f"{quantile} {value / 3600:,.2f}" for quantile, value in figures[key]["quantiles"].items())
        rows.append([name, f"{figures[key]['mean'] / 3600:,.2f}", f"h on average; {quantiles}"])
    if schedule.racks is not None:
        rows.append(["racks of a job", f"{schedule.racks:.3f}", "times as many as it needs"])
    screen.table(Table((Column("", "word"), Column(""), Column("", "text")), rows, schedule.name, headed=False, indent=1))
    waited = [job for job in sorted(schedule.jobs, key=lambda job: -job.wait_s)[:_SHOWN] if job.wait_s]
    if waited:
        columns = (Column("job", "name"), Column("NPUs"), Column("came (h)"), Column("waited (h)"), Column("ran (h)"))
        cells = [
            [job.name, f"{len(job.npus):,}", *(f"{each / 3600:,.2f}" for each in (job.submit_s, job.wait_s, job.end_s - job.start_s))]
            for job in waited
        ]
        screen.table(Table(columns, cells, "Jobs that waited longest"))
