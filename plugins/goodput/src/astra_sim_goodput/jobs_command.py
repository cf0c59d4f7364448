"""The command `astra jobs`."""

from __future__ import annotations

import click
from astra_sim.commands import Column, Screen, Table, json_option, quiet_option, say_json

from astra_sim_goodput.jobs import Jobs, run_jobs


@click.command("jobs")
@click.argument("file", type=click.Path())
@click.option("--alone", is_flag=True, help="Run each job by itself, too: how much the others slow it, and how fair that is.")
@click.option("--without", metavar="NAME", multiple=True, help="Run once more without this job. Repeatable.")
@click.option("--set", "assignments", metavar="SECTION.KEY=VALUE", multiple=True, help="Change one option. Repeatable.")
@json_option
@quiet_option
def jobs_command(file: str, alone: bool, without: tuple[str, ...], assignments: tuple[str, ...], as_json: bool, quiet: bool) -> None:
    """Run several jobs on one platform, and report how much they slow each other.

    \b
    astra jobs two_jobs.toml --alone
    astra jobs two_jobs.toml --without b

    FILE is an experiment without a workload, but with a table [[jobs]] for each job: its name, its workload, and its ranks.
    """
    result = run_jobs(file, alone=alone, without=without, set=assignments)
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
    if not outcome.messages_wait:
        screen.text("On this network messages do not wait for each other, so that jobs cannot slow each other.", prose=True)
