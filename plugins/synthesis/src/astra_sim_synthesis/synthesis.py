"""Synthesizes a collective for a fabric: several plans are made and timed, the best of them are simulated, and the fastest is taken.

The plan is never slower than the system layer's own algorithm (`auto`), because that is one of those compared.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import attrs
import numpy as np
from astra_sim import InputError
from astra_sim.commands import Plugins, shared_plugins
from astra_sim.platform import Platform
from astra_sim.schedule import Collective, Request, Schedule
from astra_sim.system import PhasePlan
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

from astra_sim_synthesis.bounds import Bound, lower_bound
from astra_sim_synthesis.buckets import in_buckets, torus_of
from astra_sim_synthesis.circulant import circulant
from astra_sim_synthesis.edges import RankGraph, rank_graph
from astra_sim_synthesis.exchanges import relayed, straight
from astra_sim_synthesis.expanded import expanded, merged_schedule
from astra_sim_synthesis.judge import Judge
from astra_sim_synthesis.programs import DATA_ONLY, PACED, schedule_of
from astra_sim_synthesis.proof import named_by_owner, prove
from astra_sim_synthesis.timing import Transfer, schedule_in_time
from astra_sim_synthesis.tree_plans import along_trees, one_after_the_other, reversed_in_time
from astra_sim_synthesis.trees import FLAT, USUAL_DEPTH, PackedTree, pack_trees

NETWORK = "plugin:analytical?congestion=aware&switching=cut_through&rounding=picosecond"
"""The network on which plans are compared unless another is named: messages wait at links in the order in which they come."""
MOST_RANKS = 160
"""For which trees are packed."""
MOST_IN_BUCKETS = 1024
"""For which rings in all dimensions at once are planned."""
_MOST_MESSAGES = 32_000
_CLOSE = 1.01
"""Of the lower bound: trees are not cut finer if they are as close."""
_SIMULATED = 3
"""Of the plans with the shortest times by themselves, that are simulated."""


@attrs.frozen(eq=False)
class Plan:
    """A collective for a fabric.

    `request.bytes` is the data of each rank at the start. `method` is how it was made, `proof` its proof. Times are of one
    collective by itself (ns): its own, that of the system layer's own choice (`auto_ns`), and the lower bound. `schedule` is the ranks'
    programs. `designed` is the best schedule that has a proof, by numbers of ranks and pieces: the same, unless `is_fallback`.
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
        return self.auto_ns < self.designed_ns

    @property
    def gap(self) -> float | None:
        """The relative distance of the time from the lower bound; None if it is below: the network lets messages share links."""
        gap = self.time_ns / self.bound.time_ns - 1
        return max(gap, 0.0) if gap > -1e-6 else None


@attrs.frozen(eq=False)
class _Candidate:
    """A way to carry out a request: how it was made, its time by itself, and its schedule when it is asked for."""

    method: str
    planned_ns: float
    make: Callable[[], Schedule]

    @property
    def kind(self) -> str:
        """Exchanges straight or over neighbours, buckets, or trees."""
        name = self.method.partition(",")[0]
        return name if name.partition(" ")[0] in ("straight", "exchanges", "buckets") else "trees"


def synthesize(
    platform: Any,
    collective: Collective | str,
    bytes: int,
    *,
    network: Any = NETWORK,
    system: Any = None,
    plugins: Plugins | None = None,
    set: Sequence[str] = (),
) -> Plan:
    """A plan of a collective of all NPUs of a platform.

    `bytes` is the data of each rank at the start, but for an all-gather at the end, as nccl-tests counts. `platform`,
    `network` and `system` are specs, paths or objects as `astra_sim.simulate` takes them. Raises InputError if they are wrong.
    """
    judge = Judge.of(platform, network, system, plugins or shared_plugins(), set)
    return Synthesizer(judge).plan(Collective(collective), bytes)


class Synthesizer:
    """Plans for one platform, network and system. Parts that do not depend on the size are kept for the next one."""

    def __init__(self, judge: Judge) -> None:
        self.judge = judge
        self.platform: Platform = judge.components.platform
        self._graphs: dict[bool, RankGraph] = {}
        self._trees: dict[tuple[Any, ...], list[PackedTree]] = {}

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
        for candidate in [*self._promising(request, bound.time_ns), *self._own(request, phases)]:
            candidate_schedule = candidate.make()
            time_ns = self.judge.time_ns(candidate_schedule, collective, size)
            if time_ns < best_ns:
                best_ns, best, schedule = time_ns, candidate.method, candidate_schedule
        if schedule is None:
            raise InputError(f"no schedule was found for {collective} on {n} ranks: its NPUs send through NPUs that take no part")
        designed = named_by_owner(expanded(schedule), request)
        proof, is_fallback = prove(designed, request), auto_ns < best_ns and len(phases) > 1
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

    def _own(self, request: Request, phases: Sequence[PhasePlan]) -> Iterator[_Candidate]:
        """The algorithm of the system layer, if it is one phase of all NPUs."""
        if len(phases) == 1:
            yield _Candidate(f"as auto does it: {phases[0].algorithm}", 0.0, lambda: phases[0].schedule)

    def _promising(self, request: Request, bound_ns: float) -> list[_Candidate]:
        """Of each kind the candidates with the shortest times by themselves, each with and without pacing; and those without a time."""
        timed = sorted(self._timed(request, bound_ns), key=lambda candidate: candidate.planned_ns)
        kinds = dict.fromkeys(candidate.kind for candidate in timed)
        best = [[candidate for candidate in timed if candidate.kind == kind][: 2 * _SIMULATED] for kind in kinds]
        return [*itertools.chain.from_iterable(best), *self._shared(request)]

    def _shared(self, request: Request) -> Iterator[_Candidate]:
        if request.collective is not Collective.ALL_TO_ALL:
            yield _Candidate("circulant rounds", 0.0, lambda: circulant(request))

    def _timed(self, request: Request, bound_ns: float) -> Iterator[_Candidate]:
        """Plans with their times by themselves, each paced and not."""
        plans = list(self._buckets(request))
        paces = [(PACED, ""), (DATA_ONLY, ", not paced")]
        if request.ranks > MOST_RANKS:
            del paces[1:]  # each schedule of a thousand ranks takes seconds
        elif request.collective is Collective.ALL_TO_ALL:
            plans += self._exchanges(request)
        elif _is_connected(self._graph(False)):
            plans += self._trees_of(request, bound_ns)
        for method, time_ns, transfers in plans:
            for lag, how in paces:
                yield _Candidate(method + how, time_ns, _maker(request, transfers, lag))

    def _graph(self, through_npus: bool) -> RankGraph:
        if through_npus not in self._graphs:
            rules = getattr(self.judge.components.network, "route_rules", None)
            self._graphs[through_npus] = rank_graph(self.platform, rules, through_npus)
        return self._graphs[through_npus]

    def _exchanges(self, request: Request) -> Iterator[tuple[str, float, list[Transfer]]]:
        graph = self._graph(True)
        if len(graph.edges) < request.ranks * (request.ranks - 1):
            return
        for pieces in (1, 2):
            if request.bytes >= request.ranks * pieces and len(graph.edges) * pieces <= _MOST_MESSAGES:
                transfers = straight(graph, request, pieces)
                time_ns = schedule_in_time(transfers, graph.link_bandwidth.tolist(), self.judge.endpoint_ns)
                yield f"straight exchanges in turn, {pieces} a pair", time_ns, transfers
        yield from self._relays(request)

    def _relays(self, request: Request) -> Iterator[tuple[str, float, list[Transfer]]]:
        """Exchanges over neighbours, if not all ranks are neighbours."""
        graph, n = self._graph(False), request.ranks
        if len(graph.edges) >= n * (n - 1) or not _is_connected(graph):
            return
        for pieces in (1, 2, 4, 8):
            if request.bytes < n * pieces or n * (n - 1) * pieces > _MOST_MESSAGES:
                return
            transfers = relayed(graph, request, pieces)
            if len(transfers) > _MOST_MESSAGES:
                return
            time_ns = schedule_in_time(transfers, graph.link_bandwidth.tolist(), self.judge.endpoint_ns)
            yield f"exchanges over neighbours, {pieces} a pair", time_ns, transfers

    def _buckets(self, request: Request) -> Iterator[tuple[str, float, list[Transfer]]]:
        """The plan of rings in all dimensions at once, if there are several."""
        torus = torus_of(self.platform)
        if torus is None or len(torus.sizes) < 2 or request.collective is Collective.ALL_TO_ALL or request.ranks > MOST_IN_BUCKETS:
            return
        transfers = in_buckets(self._graph(False), torus, request, self.judge.endpoint_ns)
        if transfers is not None:
            yield "buckets in all dimensions at once", max(transfer.arrival for transfer in transfers), transfers

    def _trees_of(self, request: Request, bound_ns: float) -> Iterator[tuple[str, float, list[Transfer]]]:
        """Plans of trees that are cut finer and finer, until one is near the bound."""
        n = request.ranks
        total = request.bytes * (n if request.collective is Collective.ALL_GATHER else 1)
        phases = 2 if request.collective is Collective.ALL_REDUCE else 1
        for pieces in (1, 2, 4, 8, 16, 32):
            if pieces > 1 and (n * n * pieces * phases > _MOST_MESSAGES or total < n * pieces):
                return
            shortest = float("inf")
            for depth in (USUAL_DEPTH, FLAT) if pieces <= 2 else (USUAL_DEPTH,):
                kind = "trees" if depth == USUAL_DEPTH else "flat trees"
                for how, transfers in self._along(request, pieces, depth):
                    time_ns = max(transfer.arrival for transfer in transfers)
                    shortest = min(shortest, time_ns)
                    yield f"{n * pieces} {kind}, {how}", time_ns, transfers
            if shortest <= _CLOSE * bound_ns:
                return

    def _along(self, request: Request, pieces: int, depth: float) -> Iterator[tuple[str, list[Transfer]]]:
        """Plans along paths through all ranks, by name."""
        graph = self._graph(False)
        bandwidth, step_ns = graph.link_bandwidth.tolist(), self.judge.endpoint_ns

        def spread(over: RankGraph, trees: list[PackedTree]) -> list[Transfer]:
            """The faster of two orders."""
            orders = [along_trees(over, request, trees, pieces, by_piece) for by_piece in (False, True)]
            return min(orders, key=lambda transfers: schedule_in_time(transfers, bandwidth, step_ns))

        out = inwards = None
        if request.collective is not Collective.REDUCE_SCATTER:
            out = spread(graph, self._packed(graph, pieces, "out", depth))
        if request.collective is not Collective.ALL_GATHER:
            turned = graph.reversed()
            inwards = reversed_in_time(graph, spread(turned, self._packed(turned, pieces, "in", depth)))
        if out is not None and inwards is None:
            yield "outwards", out
        elif inwards is not None and out is None:
            yield "inwards", inwards
        elif inwards is not None and out is not None:
            both = one_after_the_other(inwards, out)
            yield "inwards, then outwards", both
            overlapped = _copied(both)
            for transfer in overlapped:
                transfer.priority = (int(transfer.start),)
            schedule_in_time(overlapped, bandwidth, step_ns)
            yield "inwards and outwards, each as early as it can", overlapped
            yield "inwards and outwards at once", spread(graph, self._packed(graph, pieces, "both", depth))

    def _packed(self, graph: RankGraph, pieces: int, which: Literal["out", "in", "both"], depth: float) -> list[PackedTree]:
        key = pieces, which, depth
        if key not in self._trees:
            self._trees[key] = pack_trees(graph, pieces, (True, False) if which == "both" else (False,), depth)
        return self._trees[key]


def _maker(request: Request, transfers: Sequence[Transfer], lag_ns: float) -> Callable[[], Schedule]:
    return lambda: schedule_of(request, transfers, lag_ns)


def _copied(transfers: Sequence[Transfer]) -> list[Transfer]:
    """The same plan anew, so that other times leave this one as it is."""
    fresh = {id(transfer): attrs.evolve(transfer) for transfer in transfers}
    for transfer in fresh.values():
        transfer.needs = [fresh[id(needed)] for needed in transfer.needs]
    return list(fresh.values())


def _is_connected(graph: RankGraph) -> bool:
    """Whether messages can get from each rank to each other one over edges."""
    ends = np.array([(edge.source, edge.target) for edge in graph.edges]).reshape(-1, 2)
    matrix = csr_matrix((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(graph.ranks, graph.ranks))
    return bool(connected_components(matrix, connection="strong")[0] == 1)
