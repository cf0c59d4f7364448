"""The command `astra sample`."""

from __future__ import annotations

import click
from astra_sim.commands import Column, Screen, Table, json_option, quiet_option, say_json

from astra_sim_goodput.samples import Sample, Scatter, sample

_SHOWN = 10


@click.command("sample")
@click.argument("file", type=click.Path())
@click.option("--seeds", type=click.IntRange(1, 100_000), default=20, show_default=True, help="Runs, each with another seed.")
@click.option("--pair", type=click.Path(), metavar="FILE2", help="Another experiment, run with the same seeds, and the difference.")
@click.option("--set", "assignments", metavar="SECTION.KEY=VALUE", multiple=True, help="Change one option. Repeatable.")
@click.option("--no-blame", is_flag=True, help="Leave out the runs without each entry of [variation] compute.")
@click.option("--blame-ranks", metavar="RANKS", help="Run the first seed without the variation of each of these: all, or 0-7,16.")
@json_option
@quiet_option
def sample_command(
    file: str,
    seeds: int,
    pair: str | None,
    assignments: tuple[str, ...],
    no_blame: bool,
    blame_ranks: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Run an experiment that varies, once for each seed, and report the spread of its time.

    \b
    astra sample experiment.toml --seeds 100
    astra sample experiment.toml --pair other_topology.toml
    astra sample experiment.toml --seeds 1 --blame-ranks all

    FILE has a section [variation]. With --pair both see the same draws, so that their difference is known better than each of them.
    """
    result = sample(file, seeds, pair, assignments, blame=not no_blame, ranks=blame_ranks)
    if as_json:
        say_json(result.to_dict())
    elif not quiet:
        _print(result)


def _print(outcome: Sample) -> None:
    """Tables of a sample, of the cost of entries, and of a pair."""
    screen = Screen()
    unit = screen.time_unit(outcome.finish.mean)

    def rows_of(name: str, scatter: Scatter) -> list[list[str]]:
        (low, high), quantiles = scatter.interval95, scatter.quantiles
        return [
            [name, unit.number(scatter.mean), f"{unit.name} (95 %: {unit.number(low)} to {unit.number(high)})"],
            [
                "deviation of runs",
                unit.number(scatter.sd),
                f"{unit.name} (5 % below {unit.number(quantiles['0.05'])}, 5 % above {unit.number(quantiles['0.95'])})",
            ],
        ]

    plain = (Column("", "word"), Column(""), Column("", "text"))
    rows = [
        *rows_of("mean", outcome.finish),
        ["without variation", unit.number(outcome.T_ideal), unit.name],
        ["slowdown", f"{outcome.slowdown:.4f}", ""],
    ]
    screen.table(Table(plain, rows, f"{len(outcome.seeds)} seeds", headed=False, indent=1))
    if outcome.blame:
        columns = (Column("compute", "word"), Column("ranks", "text"), Column(f"without ({unit.name})"), Column(f"costs ({unit.name})"))
        listed = [[str(each["compute"]), each["ranks"], unit.number(each["without"]), unit.number(each["costs"])] for each in outcome.blame]
        screen.table(Table(columns, listed, "Cost of each entry of compute"))
    if outcome.blame_ranks:
        of_ranks = (Column("rank"), Column(f"without ({unit.name})"), Column(f"costs ({unit.name})"))
        shown = outcome.blame_ranks[:_SHOWN]
        listed = [[str(each["rank"]), unit.number(each["without"]), unit.number(each["costs"])] for each in shown]
        screen.table(Table(of_ranks, listed, f"Ranks that cost most, seed {outcome.seeds[0]['seed']}"))
    if outcome.pair is not None:
        rows = [*rows_of("mean", Scatter(**outcome.pair["finish"])), *rows_of("difference", Scatter(**outcome.pair["difference"]))]
        screen.table(Table(plain, rows, outcome.pair["run_name"], headed=False, indent=1))
