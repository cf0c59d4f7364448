"""The command `astra jobs`."""

from __future__ import annotations

from collections.abc import Sequence

import click
from astra_sim.commands import Column, Screen, Table, json_option, quiet_option, say_json

from astra_sim_goodput.jobs import JobLink, Jobs, run_jobs

_SHOWN = 10


@click.command("jobs")
@click.argument("file", type=click.Path())
@click.option("--alone", is_flag=True, help="Run each job by itself, too: how much the others slow it, and how fair that is.")
@click.option("--without", metavar="NAME", multiple=True, help="Run once more without this job. Repeatable.")
@click.option("--link-figures", is_flag=True, help="Count the bytes and waits of links by job: who waited for whom, and where.")
@click.option("--set", "assignments", metavar="SECTION.KEY=VALUE", multiple=True, help="Change one option. Repeatable.")
@json_option
@quiet_option
def jobs_command(
    file: str, alone: bool, without: tuple[str, ...], link_figures: bool, assignments: tuple[str, ...], as_json: bool, quiet: bool
) -> None:
    """Run several jobs on one platform, and report how much they slow each other.

    \b
    astra jobs two_jobs.toml --alone
    astra jobs two_jobs.toml --without b
    astra jobs two_jobs.toml --link-figures

    FILE is an experiment without a workload, but with a table [[jobs]] for each job: its name, its workload, and its ranks.
    """
    result = run_jobs(file, alone=alone, without=without, link_figures=link_figures, set=assignments)
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
