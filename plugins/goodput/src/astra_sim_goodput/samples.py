"""Runs of an experiment that varies, one for each seed: the spread of its time, its time without variation, and the causes."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from astra_sim import Experiment, InputError, Result, load_experiment, simulate
from astra_sim.options import structure

from astra_sim_goodput.estimate import student_t
from astra_sim_goodput.variation import VariationOptions, ranks_of

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
SECTION = "variation"


@attrs.frozen
class Scatter:
    """Some values: mean with a 95 % interval by Student's t, standard deviation, quantiles."""

    mean: float
    sd: float
    interval95: tuple[float, float]
    quantiles: dict[str, float]

    @classmethod
    def of(cls, values: Sequence[float]) -> Scatter:
        """Those of at least one value; the interval of one is as wide as nothing."""
        count, ordered = len(values), sorted(values)
        mean = math.fsum(values) / count
        sd = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (count - 1)) if count > 1 else 0.0
        half = student_t(count - 1, 0.975) * sd / math.sqrt(count) if count > 1 else 0.0
        quantiles = {f"{each:g}": ordered[min(count - 1, int(each * count))] for each in QUANTILES}
        return cls(mean, sd, (mean - half, mean + half), quantiles)


@attrs.frozen
class Sample:
    """The result over seeds (nanoseconds). `blame` has for each entry of `compute` the mean without it, and its cost.

    `blame_ranks` has the same for single ranks, of the first seed, those that cost most first; None if it was not asked for.
    """

    seeds: list[dict[str, float]]
    finish: Scatter
    T_ideal: float
    slowdown: float
    blame: list[dict[str, Any]]
    pair: dict[str, Any] | None = None
    blame_ranks: list[dict[str, Any]] | None = None

    def to_dict(self) -> dict[str, Any]:
        """The same, ready for JSON."""
        result: dict[str, Any] = {"unit": "ns", "seeds": self.seeds, **attrs.asdict(self.finish)}
        result |= {"T_ideal": self.T_ideal, "slowdown": self.slowdown, "blame": self.blame}
        if self.blame_ranks is not None:
            result["blame_ranks"] = self.blame_ranks
        return result | ({} if self.pair is None else {"pair": self.pair})


def sample(
    experiment: Experiment | str | os.PathLike[str],
    seeds: int,
    pair: Experiment | str | os.PathLike[str] | None = None,
    set: Sequence[str] = (),
    blame: bool = True,
    ranks: str | None = None,
) -> Sample:
    """Run an experiment with the seeds from that of its section `variation` on, and a `pair` with the same seeds.

    `set` changes options of both; `blame`: without each entry of `compute` once more, with the same seeds; `ranks`, such as "all" or "0-7":
    with the first seed without the variation of each of these. Raises InputError if the experiment has no section `variation`.
    """
    first = _loaded(experiment, set)
    table = _section(first)
    options: VariationOptions = structure(VariationOptions, table, SECTION)
    numbers = [options.seed + place for place in range(seeds)]
    finish = [_finish(first, table, seed) for seed in numbers]
    steady = _result(first, {"seed": 0}, 0)
    ideal = float(steady.finish_ns)
    blamed = [] if ranks is None else sorted(ranks_of(ranks, steady.npus, "ranks to blame"))
    scatter = Scatter.of(finish)
    result = Sample(
        seeds=[{"seed": seed, "finish_ns": each} for seed, each in zip(numbers, finish, strict=True)],
        finish=scatter,
        T_ideal=ideal,
        slowdown=scatter.mean / ideal if ideal else math.nan,
        blame=list(_blamed(first, table, numbers, scatter.mean)) if blame else [],
        blame_ranks=_blamed_ranks(first, table, numbers[0], finish[0], blamed) if blamed else None,
    )
    if pair is None:
        return result
    other = _loaded(pair, set)
    others = [_finish(other, _section(other), seed) for seed in numbers]
    difference = Scatter.of([b - a for a, b in zip(finish, others, strict=True)])
    results = {"run_name": other.name, "finish": attrs.asdict(Scatter.of(others)), "difference": attrs.asdict(difference)}
    return attrs.evolve(result, pair=results)


def _loaded(experiment: Experiment | str | os.PathLike[str], assignments: Sequence[str]) -> Experiment:
    result = experiment.copied() if isinstance(experiment, Experiment) else load_experiment(experiment)
    for assignment in assignments:
        result.set(assignment)
    return result


def _section(experiment: Experiment) -> Mapping[str, Any]:
    """The section `variation`. Raises InputError if there is none."""
    table = experiment.plugin_sections.get(SECTION)
    if table is None:
        raise InputError(f"{experiment.name or 'the experiment'} has no section {SECTION}, so that all seeds are the same")
    return table


def _finish(experiment: Experiment, table: Mapping[str, Any], seed: int) -> float:
    return float(_result(experiment, table, seed).finish_ns)


def _result(experiment: Experiment, table: Mapping[str, Any], seed: int) -> Result:
    """The run of a seed, with the options of the section `variation` in `table`."""
    varied = experiment.copied()
    varied.plugin_sections = {SECTION: {**table, "seed": seed}}
    return simulate(varied)


def _blamed(experiment: Experiment, table: Mapping[str, Any], seeds: Sequence[int], mean: float) -> Any:
    """For each entry of `compute` the mean of the same seeds without it, in the same order of draws."""
    entries = list(table.get("compute", ()))
    for place, entry in enumerate(entries):
        without = [*entries[:place], {"ranks": entry.get("ranks", "all")}, *entries[place + 1 :]]
        times = [_finish(experiment, {**table, "compute": without}, seed) for seed in seeds]
        other = math.fsum(times) / len(times)
        yield {"compute": place, "ranks": str(entry.get("ranks", "all")), "without": other, "costs": mean - other}


def _blamed_ranks(experiment: Experiment, table: Mapping[str, Any], seed: int, finish: float, ranks: Sequence[int]) -> list[dict[str, Any]]:
    """For each rank the time of a seed without its variation, and its cost, the largest first."""
    times = {rank: _finish(experiment, {**table, "steady_ranks": str(rank)}, seed) for rank in ranks}
    result = [{"rank": rank, "without": time, "costs": finish - time} for rank, time in times.items()]
    return sorted(result, key=lambda each: (-each["costs"], each["rank"]))
