"""Which pools of instances serve most: ways to share NPUs among instances, and the highest rate of each that meets the SLO."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
from astra_sim import CapacityError, InputError
from astra_sim.commands import Plugins, Progress, shared_plugins

from astra_sim_serving.experiment import ServingExperiment
from astra_sim_serving.options import AutoscaleOptions, PoolOptions, SloOptions
from astra_sim_serving.parts import Parts
from astra_sim_serving.serving import serve
from astra_sim_serving.sweep import ServingRow

PRECISION = 1.05
"""Ratio of the lowest rate that misses the SLO to the highest that meets it, at most."""

DOES_NOT_FIT = "the model does not fit"
_DOUBLINGS = 10
_OWN = ("role", "instances", "tensor_parallel", "expert_parallel", "npus")


@attrs.frozen
class PoolCandidate:
    """Pools of instances: role, instances and tensor parallelism of each."""

    pools: tuple[tuple[str, int, int], ...]

    @property
    def npus(self) -> int:
        """NPUs of all instances."""
        return sum(instances * tensor for _, instances, tensor in self.pools)

    def __str__(self) -> str:
        return " + ".join(f"{instances} {role} TP {tensor}" for role, instances, tensor in self.pools)


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

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        pools = [dict(zip(("role", "instances", "tensor_parallel"), pool, strict=True)) for pool in self.candidate.pools]
        return {"pools": pools, "npus": self.candidate.npus, "rate": self.rate, "goodput_requests_s": self.goodput, "why": self.why}


def candidates(npus: int, shared: int) -> Iterator[PoolCandidate]:
    """Instances that do both, and those for prompts beside those for answers, of 1, 2, 4, ... NPUs each that divide `shared`."""
    sizes = [1 << power for power in range(npus.bit_length()) if 1 << power <= npus and shared % (1 << power) == 0]
    for size in sizes:
        yield PoolCandidate((("both", npus // size, size),))
    for prompt, answer in itertools.product(sizes, sizes):
        for count in range(1, (npus - answer) // prompt + 1):
            left = (npus - count * prompt) % answer
            if left < prompt:  # else another instance for prompts would be free
                yield PoolCandidate((("prefill", count, prompt), ("decode", (npus - count * prompt) // answer, answer)))


def search_pools(
    case: ServingExperiment, npus: int, progress: Progress, plugins: Plugins | None = None
) -> tuple[list[PoolChoice], PoolChoice | None]:
    """The choices for at most `npus` NPUs, and the one with the highest rate.

    A candidate that misses the SLO at the highest rate so far is not looked at any further. Raises InputError.
    """
    plugins = plugins or shared_plugins()
    parts = Parts(case, plugins)
    _check(parts, npus)
    listed = list(candidates(npus, _shared(parts)))
    choices: list[PoolChoice] = []
    best: PoolChoice | None = None
    for number, candidate in enumerate(listed):
        progress.stage(f"pools {number + 1} of {len(listed)}", number / len(listed), 1 / len(listed))
        search = _RateSearch(case, _tables(candidate, case.table["serving"]), progress, plugins)
        choice = search.run(candidate, parts.options.requests.rate or 1.0, None if best is None else best.rate)
        if choice.rate is not None and (best is None or best.rate is None or choice.rate > best.rate):
            best = choice
        choices.append(choice)
    return choices, best


def _shared(parts: Parts) -> int:
    """The numbers that tensor parallelism must divide: query heads, and experts if these are shared as wholes."""
    shares_experts = any(pool.expert_parallel > 1 for pool in parts.options.pool)
    model = parts.models[""].model
    return math.gcd(model.heads, model.experts) if shares_experts else model.heads


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
    if any(pool.pipeline_parallel > 1 or pool.data_parallel > 1 for pool in options.pool):
        raise InputError(f"{where}.pool has pipeline_parallel or data_parallel; expected tensor_parallel alone for a search of pools")
    if parts.tables is not None:
        raise InputError(
            f"{parts.where}: compute.tables is given, of one tensor_parallel; expected a compute model alone for a search of pools"
        )
    if parts.platform is not None and npus > parts.platform.npus:
        raise InputError(f"the platform has {parts.platform.npus} NPUs; expected at least the {npus} of --search-pools")


def _tables(candidate: PoolCandidate, serving: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The pools as an experiment has them, with the options of a pool of the same role, or of the first."""
    pools: Sequence[Mapping[str, Any]] = serving.get("pool") or [{}]
    result = []
    for role, instances, tensor in candidate.pools:
        base = next((pool for pool in pools if pool.get("role", PoolOptions().role) == role), pools[0])
        experts = {"expert_parallel": tensor} if base.get("expert_parallel", 1) != 1 else {}
        copied = {key: value for key, value in base.items() if key not in _OWN}
        result.append({**copied, "role": role, "instances": instances, "tensor_parallel": tensor, **experts})
    return result


@attrs.define(eq=False)
class _RateSearch:
    """Runs of one candidate at several rates."""

    case: ServingExperiment
    pools: list[dict[str, Any]]
    progress: Progress
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
        values = {"serving.pool": self.pools, "serving.requests.rate": rate}
        document = serve(self.case.with_values(values), on_progress=self.progress.reached, plugins=self.plugins).document()
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
