"""Synthesizes a collective for a fabric: several plans are made and timed, the best of them are simulated, and the fastest is taken.

The plan is never slower than the system layer's own algorithm (`auto`), because that is one of those compared.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import attrs
from astra_sim import InputError
from astra_sim.commands import Plugins, shared_plugins
from astra_sim.platform import Platform
from astra_sim.schedule import Collective, Request, Schedule

from astra_sim_synthesis.bounds import Bound, lower_bound
from astra_sim_synthesis.candidates import MOST_RANKS, Candidates
from astra_sim_synthesis.command import METHODS
from astra_sim_synthesis.expanded import expanded, merged_schedule
from astra_sim_synthesis.judge import Judge
from astra_sim_synthesis.proof import is_one_for_all, named_by_owner, prove

NETWORK = "plugin:analytical?congestion=aware&switching=cut_through&rounding=picosecond"
"""The network on which plans are compared unless another is named: messages wait at links in the order in which they come."""


@attrs.frozen(eq=False)
class Plan:
    """A collective for a fabric.

    `request.bytes` is the data of each rank at the start. `method` is how it was made, `proof` its proof. Times are of one
    collective by itself (ns): its own, that of the system layer's own choice (`auto_ns`), and the lower bound. `schedule` is the ranks'
    programs. `designed` is the best schedule that has a proof, the same by numbers of ranks and pieces unless one proof holds for
    all, or unless `is_fallback`.
    """

    platform: str
    network: str
    request: Request
    method: str
    proof: str
    time_ns: float
    auto_ns: float
    bound: Bound
    schedule: Schedule
    designed: Schedule
    designed_ns: float

    @property
    def is_fallback(self) -> bool:
        """Whether the phases of the system layer's own choice are faster than the best schedule that has a proof."""
        return self.time_ns < self.designed_ns

    @property
    def gap(self) -> float | None:
        """The relative distance of the time from the lower bound; None if it is below: the network lets messages share links."""
        gap = self.time_ns / self.bound.time_ns - 1
        return max(gap, 0.0) if gap > -1e-6 else None


def synthesize(
    platform: Any,
    collective: Collective | str,
    bytes: int,
    *,
    network: Any = NETWORK,
    system: Any = None,
    plugins: Plugins | None = None,
    set: Sequence[str] = (),
    method: str = METHODS[0],
) -> Plan:
    """A plan of a collective of all NPUs of a platform.

    `bytes` is the data of each rank at the start, but for an all-gather at the end, as nccl-tests counts. `platform`,
    `network` and `system` are specs, paths or objects as `astra_sim.simulate` takes them. `method` is one of `METHODS`. Raises InputError
    if they are wrong.
    """
    judge = Judge.of(platform, network, system, plugins or shared_plugins(), set)
    return Synthesizer(judge, method).plan(Collective(collective), bytes)


class Synthesizer:
    """Plans for one platform, network and system, by one of `METHODS`; raises InputError for another.

    Parts that do not depend on the size are kept for the next one.
    """

    def __init__(self, judge: Judge, method: str = METHODS[0]) -> None:
        if method not in METHODS:
            raise InputError(f"method is {method!r}; expected {' or '.join(METHODS)}")
        self.judge, self._method = judge, method
        self.platform: Platform = judge.components.platform
        self._candidates = Candidates(judge, method)

    def plan(self, collective: Collective, size: int) -> Plan:
        """The plan of a collective; for `size` see `synthesize`. Raises InputError if there are too few bytes or NPUs."""
        n = self.platform.npus
        if n < 2:
            raise InputError("the platform has one NPU; expected at least two, which have something to send")
        bytes_of_rank = size // n if collective is Collective.ALL_GATHER else size
        if size < n:
            raise InputError(f"bytes is {size}; expected at least one for each of the {n} ranks")
        return self.plan_of(Request(collective, n, bytes_of_rank))

    def plan_of(self, request: Request) -> Plan:
        """The plan for a request of all ranks."""
        n, collective, size = request.ranks, request.collective, request.bytes
        bound = lower_bound(self.platform.fabric(), n, collective, size)
        auto_ns = self.judge.chosen_ns(collective, size)
        best_ns, best, schedule = float("inf"), "", None
        phases = self.judge.phases(request)
        for candidate in itertools.chain(self._candidates.promising(request, bound.time_ns), self._candidates.own(phases)):
            candidate_schedule = candidate.make()
            time_ns = self.judge.time_ns(candidate_schedule, collective, size)
            if time_ns < best_ns:
                best_ns, best, schedule = time_ns, candidate.method, candidate_schedule
        if schedule is None:
            how = "" if self._method == METHODS[0] else f" by {self._method}"
            raise InputError(f"no schedule was found for {collective} on {n} ranks{how}; expected a method and a platform for it")
        # A program for each of a thousand ranks takes longer to write than one is proved for all.
        is_shared = n > MOST_RANKS and is_one_for_all(schedule, request)
        designed = schedule if is_shared else named_by_owner(expanded(schedule), request)
        proof, is_fallback = prove(designed, request), auto_ns < best_ns and len(phases) > 1 and self._method == METHODS[0]
        if is_fallback:
            proof = f"none of auto's phases together; the best plan that was made: {proof}"
        names = self.judge.components.names
        return Plan(
            self.platform.name or names.get("platform", ""),
            names.get("network", ""),
            request,
            f"as auto does it, in {len(phases)} phases, which is faster than {best}" if is_fallback else best,
            proof,
            auto_ns if is_fallback else best_ns,
            auto_ns,
            bound,
            merged_schedule(request, phases, n) if is_fallback else schedule,
            designed,
            best_ns,
        )
