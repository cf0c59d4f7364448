"""The command `astra goodput`."""

from __future__ import annotations

import json
import math

import click
from astra_sim import InputError
from astra_sim.commands import Column, Screen, Table, json_option, quiet_option, say_json, write_then_show
from astra_sim.files import FileSet

from astra_sim_goodput.estimate import MOST_SEEDS, Goodput, Spread, goodput, progress_rows
from astra_sim_goodput.plan import DAY, read_plan

LEAST_SHOWN = 0.05
"""Components with fewer interruptions share a row."""
_WORDS = {
    "useful": "work that counts",
    "checkpoint": "writing checkpoints",
    "lost": "work done again",
    "detect": "noticing interruptions",
    "replace": "replacing nodes",
    "load": "loading checkpoints",
    "waiting": "waiting for nodes",
    "degraded": "running slower",
}


@click.command("goodput")
@click.argument("file", type=click.Path())
@click.option("--seeds", type=click.IntRange(0, MOST_SEEDS), default=0, show_default=True, help="Random runs beside the formulas.")
@click.option("-o", "--output", metavar="FILE.json", type=click.Path(dir_okay=False), help="Write the result.")
@click.option(
    "--progress",
    metavar="FILE.csv",
    type=click.Path(dir_okay=False),
    help="Write the work of each random run at its interruptions and restarts, for `astra plot FILE.csv progress`.",
)
@json_option
@quiet_option
def goodput_command(file: str, seeds: int, output: str | None, progress: str | None, as_json: bool, quiet: bool) -> None:
    """Estimate the losses of months of training to failures, checkpoints and recovery.

    \b
    astra goodput llama3.toml
    astra goodput llama3.toml --seeds 100 --progress progress.csv
    astra goodput llama3.toml --output llama3.json

    FILE has a table [goodput]: nodes, rates of failures, how checkpoints are written, how the job recovers.
    """
    if progress is not None and not seeds:
        raise InputError(f"--progress is {progress!r}, and --seeds is 0; expected random runs, such as --seeds 20")
    plan = read_plan(file)
    result = goodput(plan, seeds)

    def write() -> None:
        with FileSet() as files:
            if output is not None:
                with files.open(output) as target:
                    target.write(json.dumps(result.to_dict(), indent=2, allow_nan=False) + "\n")
            if progress is not None:
                with files.open(progress) as target:
                    target.writelines(progress_rows(plan, result.interval_s, seeds))

    def show() -> None:
        if as_json:
            say_json(result.to_dict())
        elif not quiet:
            _print(result)

    write_then_show(write, show)


def _print(outcome: Goodput) -> None:
    """Print the summary and the tables of shares, components and repeated runs."""
    screen = Screen()
    plain = (Column("", "word"), Column(""), Column("", "text"))
    screen.table(Table(plain, _summary(outcome), outcome.name, headed=False, indent=1))
    columns = (Column("share", "word"), Column("%"), Column("days"))
    rows = [
        [_WORDS[part], f"{100 * share:.2f}", f"{share * outcome.days:.2f}"]
        for part, share in outcome.shares.items()
        if share or part == "useful"
    ]
    screen.table(Table(columns, rows, "Where the time goes"))
    if outcome.faults:
        fault_columns = (Column("fault", "text"), Column("present"), Column("step (s)"), Column("lost speed (%)"))
        cells = [
            [fault.name, f"{fault.mean_present:.3f}", "-" if fault.step_s is None else f"{fault.step_s:.4g}", f"{100 * fault.lost:.3f}"]
            for fault in outcome.faults
        ]
        screen.table(Table(fault_columns, cells, "Faults that slow the job: how many there are on average"))
    if len(outcome.failures.by_component) > 1:
        listed = sorted(outcome.failures.by_component.items(), key=lambda item: -item[1])
        columns = (Column("component", "text"), Column("interruptions"), Column("lost (days)"))
        causes = [(name, mean, outcome.failures.lost_days[name]) for name, mean in listed]
        rare = [each for each in causes if each[1] < LEAST_SHOWN]
        if len(rare) > 1:
            del causes[-len(rare) :]
            causes.append((f"{len(rare)} others", sum(each[1] for each in rare), sum(each[2] for each in rare)))
        rows = [[name, f"{mean:.1f}", f"{days:.2f}"] for name, mean, days in causes]
        screen.table(Table(columns, rows))
    if outcome.monte_carlo is not None:
        figures = {"goodput (%)": (outcome.monte_carlo.goodput, 100), "interruptions": (outcome.monte_carlo.failures, 1)}
        if outcome.monte_carlo.days.sd:
            figures["days"] = (outcome.monte_carlo.days, 1)
        headings = [Column(heading) for heading in ("mean", "99 %\nfrom", "\nto", "p5", "p50", "p95")]
        rows = [[name, *_cells(spread, factor)] for name, (spread, factor) in figures.items()]
        screen.table(Table([Column("figure", "word"), *headings], rows, f"{outcome.monte_carlo.seeds} random runs"))


def _cells(spread: Spread, factor: float) -> list[str]:
    values = [spread.mean, *spread.interval99, *spread.quantiles.values()]
    return [f"{factor * value:.2f}" for value in values]


def _summary(outcome: Goodput) -> list[list[str]]:
    """The rows of the summary: value, unit and explanation of each figure."""
    quantiles = outcome.failures.quantiles
    rows = [
        ["goodput", f"{100 * outcome.goodput:.2f}", "%"],
        ["time", f"{outcome.days:.2f}", f"days, of which {outcome.work_days:.2f} are work"],
    ]
    if outcome.faults:
        rows.append(["effective time", f"{100 * outcome.ettr:.2f}", "% in which steps count, slower ones included (ETTR)"])
    if outcome.mfu is not None:
        rows.append(["MFU", f"{100 * outcome.mfu:.2f}", "% over all the time"])
    if outcome.mtti_h is not None:
        within = f"of {outcome.gpus} GPUs in that time (90 %: {quantiles['p5']:.0f} to {quantiles['p95']:.0f})"
        rows += [["interruptions", f"{outcome.failures.mean:.1f}", within], ["mean time between", f"{outcome.mtti_h:.3f}", "h"]]
    if outcome.interval_s is not None:
        rows.append(["interval", f"{outcome.interval_s:.1f}", "s of work between two checkpoints"])
    if outcome.closed_forms is not None:
        forms = outcome.closed_forms
        rows.append(["best interval", f"{forms.daly_s:.1f}", f"s (Daly; Young's formula: {forms.young_s:.1f} s)"])
        first = "holds no more" if forms.first_order is None else f"{100 * forms.first_order:.2f} %"
        rows.append(["to first order", first.removesuffix(" %"), "" if forms.first_order is None else "%"])
    if outcome.tokens_per_s is not None:
        rows.append(["throughput", f"{outcome.tokens_per_s:.0f}", f"tokens/s, {outcome.tokens_per_s * DAY:.3g} a day"])
    if outcome.cost is not None:
        rows.append(["cost", f"{math.floor(outcome.cost['usd'] + 0.5)}", f"USD, of which {outcome.cost['usd_lost']:.0f} are lost"])
    return rows
