"""Which pools of instances serve most: ways to share NPUs among instances, and the highest rate of each that meets the SLO.

With prices the rate for a dollar counts, and candidates stay within a budget of dollars an hour.
"""

from __future__ import annotations

import itertools
import math
import multiprocessing
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import attrs
from astra_sim import CapacityError, InputError
from astra_sim.commands import Plugins, Progress, shared_plugins

from astra_sim_serving.experiment import ServingExperiment
from astra_sim_serving.options import AutoscaleOptions, PoolOptions, SloOptions
from astra_sim_serving.parts import Parts
from astra_sim_serving.prices import SECONDS_PER_HOUR, prices_of
from astra_sim_serving.serving import serve
from astra_sim_serving.sweep import ServingRow
from astra_sim_serving.workers import Workers

PRECISION = 1.05
"""Ratio of the lowest rate that misses the SLO to the highest that meets it, at most."""

DOES_NOT_FIT = "the model does not fit"
_DOUBLINGS = 10
_SEARCHED = ("role", "instances", "tensor_parallel", "expert_parallel", "pipeline_parallel", "data_parallel", "npus")
"""Options of a pool that a candidate has instead."""


@attrs.frozen
class Division:
    """The NPUs of an instance: ranks that share products, stages, and ranks with requests of their own; `device` as in its pool."""

    tensor: int
    pipeline: int = 1
    data: int = 1
    device: str | None = None

    @property
    def npus(self) -> int:
        """NPUs of an instance."""
        return self.tensor * self.pipeline * self.data

    def __str__(self) -> str:
        pipeline, data = (f" {name} {degree}" if degree > 1 else "" for name, degree in (("PP", self.pipeline), ("DP", self.data)))
        return f"TP {self.tensor}{pipeline}{data}{'' if self.device is None else f' {self.device}'}"


@attrs.frozen
class PoolCandidate:
    """Pools of instances: role, instances and the division of each; `usd_per_hour` if there are prices."""

    pools: tuple[tuple[str, int, Division], ...]
    usd_per_hour: float | None = None

    @property
    def npus(self) -> int:
        """NPUs of all instances."""
        return sum(instances * division.npus for _, instances, division in self.pools)

    def __str__(self) -> str:
        return " + ".join(f"{instances} {role} {division}" for role, instances, division in self.pools)


@attrs.frozen
class PoolChoice:
    """The outcome of a candidate: the highest rate that meets the SLO with its run, or why there is none."""

    candidate: PoolCandidate
    rate: float | None
    row: ServingRow | None
    why: str = ""

    @property
    def goodput(self) -> float | None:
        """Requests a second within the SLO at that rate."""
        return None if self.row is None else float(self.row.document["goodput"]["requests_s"])

    @property
    def goodput_per_usd(self) -> float | None:
        """Requests within the SLO at that rate for a dollar, if there are prices."""
        usd = self.candidate.usd_per_hour
        return None if usd is None or self.goodput is None else self.goodput * SECONDS_PER_HOUR / usd

    @property
    def value(self) -> float:
        """The number by which choices are compared: the rate, or with prices that for a dollar an hour."""
        return (self.rate or 0.0) / (self.candidate.usd_per_hour or 1.0)

    def document(self) -> dict[str, Any]:
        """As JSON has it; degrees of pipelines and data parallelism are left out if they are 1, and devices if pools name none."""
        pools = []
        for role, instances, division in self.candidate.pools:
            degrees = {"pipeline_parallel": division.pipeline, "data_parallel": division.data}
            above = {name: degree for name, degree in degrees.items() if degree > 1}
            device = {} if division.device is None else {"device": division.device}
            pools.append({"role": role, "instances": instances, "tensor_parallel": division.tensor, **above, **device})
        usd = self.candidate.usd_per_hour
        cost = {} if usd is None else {"usd_per_hour": usd, "goodput_requests_per_usd": self.goodput_per_usd}
        return {
            "pools": pools,
            "npus": self.candidate.npus,
            "rate": self.rate,
            "goodput_requests_s": self.goodput,
            **cost,
            "why": self.why,
        }


@attrs.frozen
class SearchSpace:
    """The divisions of an instance by its role, and budgets: NPUs, and dollars an hour by the price of an NPU-hour of role and device."""

    npus: int
    divisions: Mapping[str, Sequence[Division]]
    prices: Mapping[tuple[str, str | None], float] | None = None
    usd_per_hour: float | None = None

    def candidates(self) -> Iterator[PoolCandidate]:
        """Instances that do both, and those for prompts beside those for answers: each with as many as the budgets allow."""
        for division in self.divisions["both"]:
            most = self._most("both", division)
            if most:
                yield self._candidate(("both", most, division))
        for prompt, answer in itertools.product(self.divisions["prefill"], self.divisions["decode"]):
            for count in range(1, self._most("prefill", prompt) + 1):
                beside = ("prefill", count, prompt)
                most = self._most("decode", answer, beside)
                if most and not self._most("prefill", prompt, beside, ("decode", most, answer)):  # else another for prompts would be free
                    yield self._candidate(beside, ("decode", most, answer))

    def _most(self, role: str, division: Division, *beside: tuple[str, int, Division]) -> int:
        """Instances that the budgets allow beside others."""
        most = (self.npus - sum(instances * each.npus for _, instances, each in beside)) // division.npus
        if self.prices is not None and self.usd_per_hour is not None:
            left = self.usd_per_hour * (1 + 1e-9) - self._usd(beside)
            most = min(most, math.floor(left / (division.npus * self.prices[role, division.device])))
        return max(0, most)

    def _usd(self, pools: Sequence[tuple[str, int, Division]]) -> float:
        """Dollars of pools for an hour."""
        prices = self.prices or {}
        return sum(prices[role, division.device] * instances * division.npus for role, instances, division in pools)

    def _candidate(self, *pools: tuple[str, int, Division]) -> PoolCandidate:
        return PoolCandidate(pools, None if self.prices is None else self._usd(pools))


class PoolSearch:
    """The search of pools of at most `npus` NPUs and `usd_per_hour` dollars an hour, side by side in a process for each processor.

    The best choice is that with the highest rate, with prices that with the highest rate for a dollar. A candidate that misses the SLO at
    the rate at which it would be the best is not looked at any further. Raises InputError.
    """

    def __init__(self, case: ServingExperiment, npus: int, usd_per_hour: float | None = None, plugins: Plugins | None = None) -> None:
        self._case = case
        self._plugins = plugins or shared_plugins()
        parts = Parts(case, self._plugins)
        _check(parts, npus)
        self.candidates = list(_space(parts, npus, usd_per_hour).candidates())
        if not self.candidates:
            raise InputError(f"{parts.where}: no instance costs at most {usd_per_hour} USD an hour; expected a larger --usd-per-hour")
        self._rate = parts.options.requests.rate or 1.0
        self._round = multiprocessing.get_context("fork" if sys.platform == "linux" else None).Value("q", 0)
        self.workers = Workers(self._looked_at, len(self.candidates))

    def __enter__(self) -> Self:
        self.workers.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.workers.__exit__(kind, error, trace)

    def choices(self, progress: Progress) -> tuple[list[PoolChoice], PoolChoice | None]:
        """The choice of each candidate, and the best one: the same however many processes there are.

        Processes look at the next candidates as if the best were known; when a better one is found they begin anew.
        """
        choices: list[PoolChoice] = []
        best: PoolChoice | None = None
        ahead: deque[Callable[[], PoolChoice | None]] = deque()
        for number, candidate in enumerate(self.candidates):
            progress.stage(f"pools {number + 1} of {len(self.candidates)}", number / len(self.candidates), 1 / len(self.candidates))
            while len(ahead) < min(self.workers.count, len(self.candidates) - number):
                next_one = number + len(ahead)
                ahead.append(self.workers.start(next_one, _to_beat(self.candidates[next_one], best), self._round.value))
            choice = ahead.popleft()() if ahead else None
            if choice is None:  # which raises the error of one that failed elsewhere
                choice = self._search(number, progress.reached).run(candidate, self._rate, _to_beat(candidate, best))
            choices.append(choice)
            if choice.rate is not None and (best is None or choice.value > best.value):
                best = choice
                ahead.clear()
                self._round.value += 1
        return choices, best

    def _looked_at(self, number: int, to_beat: float | None, round_number: int) -> PoolChoice | None:
        """The choice of a candidate; None if a better one than that to beat has been found meanwhile."""

        def go_on(at: float, events: int) -> None:
            if self._round.value != round_number:
                raise _OutdatedError

        try:
            return self._search(number, go_on).run(self.candidates[number], self._rate, to_beat)
        except _OutdatedError:
            return None

    def _search(self, number: int, on_progress: Callable[[float, int], None]) -> _RateSearch:
        return _RateSearch(self._case, _tables(self.candidates[number], self._case.table["serving"]), on_progress, self._plugins)


class _OutdatedError(Exception):
    """Ends the look at a candidate."""


def _to_beat(candidate: PoolCandidate, best: PoolChoice | None) -> float | None:
    """The rate at which a candidate is as good as the best one."""
    if best is None or best.rate is None:
        return None
    return best.rate if candidate.usd_per_hour is None else best.value * candidate.usd_per_hour


def _space(parts: Parts, npus: int, usd_per_hour: float | None) -> SearchSpace:
    """What is searched: tensor parallelism, and kinds of parallelism that a pool of the role has. Raises InputError without prices."""
    options, model = parts.options, parts.models[""].model
    prices = prices_of(options, parts.where)
    if usd_per_hour is not None and prices is None:
        raise InputError(f"{parts.where}: serving.gpu_hour_usd is missing; expected a price for --usd-per-hour {usd_per_hour:g}")
    shares_experts = any(pool.expert_parallel > 1 for pool in options.pool)
    shared = math.gcd(model.heads, model.experts) if shares_experts else model.heads
    degrees = [1 << power for power in range(npus.bit_length())]
    divisions: dict[str, list[Division]] = {}
    of_kind: dict[tuple[str, str | None], float] = {}
    for role in ("both", "prefill", "decode"):
        divisions[role] = []
        for number, pool in _kinds(options.pool, role):
            stages = [degree for degree in degrees if degree <= model.layers] if pool.pipeline_parallel > 1 else [1]
            ranks = degrees if pool.data_parallel > 1 else [1]
            divisions[role] += [
                Division(tensor, pipeline, data, pool.device)
                for tensor, pipeline, data in itertools.product(degrees, stages, ranks)
                if shared % tensor == 0 and tensor * pipeline * data <= npus and not (shares_experts and model.experts % (tensor * data))
            ]
            if prices is not None:
                of_kind[role, pool.device] = prices[number]
    return SearchSpace(npus, divisions, of_kind or None, usd_per_hour)


def _kinds(pools: Sequence[PoolOptions], role: str) -> list[tuple[int, PoolOptions]]:
    """The first pool of each device, with its number, of those of a role; without one, of all."""
    result: dict[str | None, tuple[int, PoolOptions]] = {}
    has_role = any(pool.role == role for pool in pools)
    for number, pool in enumerate(pools):
        if pool.role == role or not has_role:
            result.setdefault(pool.device, (number, pool))
    return list(result.values())


def _check(parts: Parts, npus: int) -> None:
    """Raise InputError if the experiment sets a value that the search is to find, or leaves nothing to search for."""
    options, where = parts.options, f"{parts.where}: serving"
    if options.models:
        raise InputError(f"{where}.models is given; expected serving.model, one model alone, for a search of pools")
    if options.slo == SloOptions():
        raise InputError(f"{where}.slo has no limit; expected one, such as ttft_ms, for a search of pools")
    if options.requests.rate is None:
        raise InputError(f"{where}.requests has no rate, which a search of pools changes")
    if options.autoscale != AutoscaleOptions():
        raise InputError(f"{where}.autoscale is given; expected a fixed number of instances for a search of pools")
    for number, pool in enumerate(options.pool):
        if pool.data_parallel > 1 and not parts.models[""].model.experts:
            raise InputError(
                f"{where}.pool.{number}: data_parallel is {pool.data_parallel}; expected 1 for a search of pools, since ranks of a dense"
                " model are as instances"
            )
    if parts.tables is not None:
        raise InputError(
            f"{parts.where}: compute.tables is given, of one tensor_parallel; expected a compute model alone for a search of pools"
        )
    if parts.platform is not None and npus > parts.platform.npus:
        raise InputError(f"the platform has {parts.platform.npus} NPUs; expected at least the {npus} of --search-pools")


def _tables(candidate: PoolCandidate, serving: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The pools as an experiment has them, with the options of the first pool of the same role and device, or else device."""
    pools: Sequence[Mapping[str, Any]] = serving.get("pool") or [{}]
    result = []
    for role, instances, division in candidate.pools:
        same = [pool for pool in pools if pool.get("device") == division.device]
        base = next((pool for pool in same if pool.get("role", PoolOptions().role) == role), same[0])
        experts = {"expert_parallel": division.tensor * division.data} if base.get("expert_parallel", 1) != 1 else {}
        copied = {key: value for key, value in base.items() if key not in _SEARCHED and (key != "exchange" or division.data > 1)}
        degrees = {"tensor_parallel": division.tensor, "pipeline_parallel": division.pipeline, "data_parallel": division.data}
        result.append({**copied, "role": role, "instances": instances, **degrees, **experts})
    return result


@attrs.define(eq=False)
class _RateSearch:
    """Runs of one candidate at several rates."""

    case: ServingExperiment
    pools: list[dict[str, Any]]
    on_progress: Callable[[float, int], None]
    plugins: Plugins

    def run(self, candidate: PoolCandidate, rate: float, to_beat: float | None) -> PoolChoice:
        """The highest rate that meets the SLO, if it is above that of another candidate."""
        try:
            row = self._row(rate if to_beat is None else to_beat)
        except CapacityError:
            return PoolChoice(candidate, None, None, DOES_NOT_FIT)
        if to_beat is not None:
            if not row.meets_slo:
                return PoolChoice(candidate, None, None, f"misses the SLO at {to_beat:.4g}/s")
            rate = to_beat
        return self._highest(candidate, rate, row)

    def _row(self, rate: float) -> ServingRow:
        self.on_progress(0.0, 0)
        values = {"serving.pool": self.pools, "serving.requests.rate": rate}
        document = serve(self.case.with_values(values), on_progress=self.on_progress, plugins=self.plugins).document()
        return ServingRow({"serving.requests.rate": rate}, document)

    def _highest(self, candidate: PoolCandidate, rate: float, row: ServingRow) -> PoolChoice:
        """Double or halve the rate until the SLO changes, then halve the distance."""
        meets, factor = row.meets_slo, 2.0 if row.meets_slo else 0.5
        low, high = (row, None) if meets else (None, rate)
        at = rate
        for _ in range(_DOUBLINGS):
            at *= factor
            row = self._row(at)
            if row.meets_slo:
                low, rate = row, at
            else:
                high = at
            if row.meets_slo != meets:
                break
        if low is None:
            return PoolChoice(candidate, None, None, f"misses the SLO at {at:.4g}/s")
        while high is not None and high / rate > PRECISION:
            middle = (rate * high) ** 0.5
            row = self._row(middle)
            if row.meets_slo:
                low, rate = row, middle
            else:
                high = middle
        return PoolChoice(candidate, rate, low)
