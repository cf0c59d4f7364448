"""The ways to carry out a request that are compared: trees, matchings, buckets, exchanges and circulant rounds, with their times."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import attrs
import numpy as np
from astra_sim import InputError
from astra_sim.schedule import Collective, Request, Schedule
from astra_sim.system import PhasePlan
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

from astra_sim_synthesis.bounds import lower_bound
from astra_sim_synthesis.buckets import in_buckets, torus_of
from astra_sim_synthesis.by_dimension import by_dimension
from astra_sim_synthesis.circulant import circulant
from astra_sim_synthesis.command import METHODS
from astra_sim_synthesis.edges import RankGraph, rank_graph
from astra_sim_synthesis.exchanges import relayed, straight
from astra_sim_synthesis.judge import Judge
from astra_sim_synthesis.matching import Matcher, Matching
from astra_sim_synthesis.milp import MOST_RANKS_OF_MILP, in_rounds
from astra_sim_synthesis.programs import DATA_ONLY, PACED, schedule_of
from astra_sim_synthesis.timing import Transfer, schedule_in_time
from astra_sim_synthesis.tree_plans import along_trees, one_after_the_other, reversed_in_time
from astra_sim_synthesis.trees import FLAT, USUAL_DEPTH, PackedTree, pack_trees

MOST_RANKS = 160
"""For which trees and matchings are made."""
MOST_IN_DIMENSIONS = 1024
"""For which rings in all dimensions at once, and exchanges dimension by dimension, are planned."""
_MOST_MESSAGES = 32_000
_CLOSE, _CLOSER = 1.01, 1.002
"""Of the lower bound: trees are not cut finer if they are as close, matchings, which are cheaper, if they are closer."""


_SIMULATED = {"matching": 1, "overlapped matching": 1}
"""How many plans of a kind, of the shortest times by themselves, are simulated; 3 of the others."""


@attrs.frozen(eq=False)
class Candidate:
    """A way to carry out a request: how it was made, and its schedule when it is asked for."""

    method: str
    make: Callable[[], Schedule]


@attrs.frozen(eq=False)
class _Draft:
    """A plan with its time by itself (ns): what it is compared with first, how it was made, and its messages when they are asked for."""

    kind: str
    how: str
    time_ns: float
    transfers: Callable[[], Sequence[Transfer]]


class Candidates:
    """Those of a platform, by one of `METHODS`. Parts that do not depend on the size are kept for the next request."""

    def __init__(self, judge: Judge, method: str = METHODS[0]) -> None:
        self._judge, self._method = judge, method
        self._platform = judge.components.platform
        self._graphs: dict[str, RankGraph] = {}
        self._packings: dict[tuple[Any, ...], list[PackedTree]] = {}
        self._matchers: dict[bool, Matcher] = {}

    def promising(self, request: Request, bound_ns: float) -> Iterator[Candidate]:
        """Of each kind those with the shortest times by themselves, each with and without pacing; and those without a time."""
        drafts = sorted(self._drafts(request, bound_ns), key=lambda draft: draft.time_ns)
        # each schedule of a thousand ranks takes seconds
        paces = [(PACED, ""), (DATA_ONLY, ", not paced")] if request.ranks <= MOST_RANKS else [(PACED, "")]
        for kind in dict.fromkeys(draft.kind for draft in drafts):
            for draft in [draft for draft in drafts if draft.kind == kind][: _SIMULATED.get(kind, 3)]:
                transfers = draft.transfers()
                for lag, pace in paces:
                    yield Candidate(draft.how + pace, _maker(request, transfers, lag))
        if self._wants("circulant") and request.collective is not Collective.ALL_TO_ALL:
            yield Candidate("circulant rounds", lambda: circulant(request))

    def own(self, phases: Sequence[PhasePlan]) -> Iterator[Candidate]:
        """The algorithm of the system layer, if it is one phase of all NPUs."""
        if self._wants("auto") and len(phases) == 1:
            yield Candidate(f"as auto does it: {phases[0].algorithm}", lambda: phases[0].schedule)

    def _wants(self, method: str) -> bool:
        return self._method in ("fastest", method)

    def _drafts(self, request: Request, bound_ns: float) -> Iterator[_Draft]:
        """Plans with their times by themselves."""
        is_exchange = request.collective is Collective.ALL_TO_ALL
        if self._method == "milp":
            yield from self._in_rounds(request)
            return
        if self._wants("buckets"):
            yield from self._buckets(request)
        if self._wants("exchanges") and is_exchange:
            yield from self._by_dimension(request)
        if request.ranks > MOST_RANKS:
            return
        if self._wants("exchanges") and is_exchange:
            yield from self._exchanges(request)
        if is_exchange or not _is_connected(self._graph()):
            return
        if self._wants("trees"):
            yield from self._trees(request, bound_ns)
        if self._wants("matching"):
            yield from self._matchings(request, bound_ns)

    def _graph(self, which: Literal["neighbours", "in one dimension", "all pairs"] = "neighbours") -> RankGraph:
        if which not in self._graphs:
            rules = getattr(self._judge.components.network, "route_rules", None)
            self._graphs[which] = rank_graph(self._platform, rules, which == "all pairs", which == "in one dimension")
        return self._graphs[which]

    def _exchanges(self, request: Request) -> Iterator[_Draft]:
        graph = self._graph("all pairs")
        if len(graph.edges) < request.ranks * (request.ranks - 1):
            return
        for pieces in (1, 2):
            if request.bytes >= request.ranks * pieces and len(graph.edges) * pieces <= _MOST_MESSAGES:
                transfers = straight(graph, request, pieces)
                time_ns = schedule_in_time(transfers, graph.link_bandwidth.tolist(), self._judge.endpoint_ns)
                yield _draft("straight", f"straight exchanges in turn, {pieces} a pair", transfers, time_ns)
        yield from self._relays(request)

    def _by_dimension(self, request: Request) -> Iterator[_Draft]:
        """The exchange dimension by dimension, if there are several."""
        if request.ranks > MOST_IN_DIMENSIONS or sum(dimension.size > 1 for dimension in self._platform.dimensions) < 2:
            return
        graph = self._graph("in one dimension" if request.ranks > MOST_RANKS else "neighbours")
        transfers = by_dimension(graph, self._platform, request)
        if transfers is not None:
            time_ns = schedule_in_time(transfers, graph.link_bandwidth.tolist(), self._judge.endpoint_ns)
            yield _draft("by dimension", "exchanges dimension by dimension", transfers, time_ns)

    def _relays(self, request: Request) -> Iterator[_Draft]:
        """Exchanges over neighbours, if not all ranks are neighbours."""
        graph, n = self._graph(), request.ranks
        if len(graph.edges) >= n * (n - 1) or not _is_connected(graph):
            return
        for pieces in (1, 2, 4, 8):
            if request.bytes < n * pieces or n * (n - 1) * pieces > _MOST_MESSAGES:
                return
            transfers = relayed(graph, request, pieces)
            if len(transfers) > _MOST_MESSAGES:
                return
            time_ns = schedule_in_time(transfers, graph.link_bandwidth.tolist(), self._judge.endpoint_ns)
            yield _draft("over neighbours", f"exchanges over neighbours, {pieces} a pair", transfers, time_ns)

    def _buckets(self, request: Request) -> Iterator[_Draft]:
        """The plan of rings in all dimensions at once, if there are several."""
        torus = torus_of(self._platform)
        if torus is None or len(torus.sizes) < 2 or request.collective is Collective.ALL_TO_ALL or request.ranks > MOST_IN_DIMENSIONS:
            return
        transfers = in_buckets(self._graph(), torus, request, self._judge.endpoint_ns)
        if transfers is not None:
            yield _draft("buckets", "buckets in all dimensions at once", transfers)

    def _trees(self, request: Request, bound_ns: float) -> Iterator[_Draft]:
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
                    yield _draft("trees", f"{n * pieces} {kind}, {how}", transfers)
            if shortest <= _CLOSE * bound_ns:
                return

    def _along(self, request: Request, pieces: int, depth: float) -> Iterator[tuple[str, list[Transfer]]]:
        """Plans along paths through all ranks, by name."""
        graph = self._graph()
        bandwidth, step_ns = graph.link_bandwidth.tolist(), self._judge.endpoint_ns

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
        yield from self._combined(inwards, out)
        if out is not None and inwards is not None:
            yield "inwards and outwards at once", spread(graph, self._packed(graph, pieces, "both", depth))

    def _combined(self, inwards: list[Transfer] | None, out: list[Transfer] | None) -> Iterator[tuple[str, list[Transfer]]]:
        """A reduce-scatter inwards, an all-gather outwards, or an all-reduce of both, by name."""
        if out is not None and inwards is not None:
            both = one_after_the_other(inwards, out)
            yield "inwards, then outwards", both
            overlapped = _copied(both)
            for transfer in overlapped:
                transfer.priority = (int(transfer.start),)
            schedule_in_time(overlapped, self._graph().link_bandwidth.tolist(), self._judge.endpoint_ns)
            yield "inwards and outwards, each as early as it can", overlapped
        elif out is not None:
            yield "outwards", out
        elif inwards is not None:
            yield "inwards", inwards

    def _packed(self, graph: RankGraph, pieces: int, which: Literal["out", "in", "both"], depth: float) -> list[PackedTree]:
        key = pieces, which, depth
        if key not in self._packings:
            self._packings[key] = pack_trees(graph, pieces, (True, False) if which == "both" else (False,), depth)
        return self._packings[key]

    def _matchings(self, request: Request, bound_ns: float) -> Iterator[_Draft]:
        """The best plan of edges matched with pieces in time, which are cut finer and finer until it is near the bound."""
        directions = {Collective.ALL_GATHER: (False,), Collective.REDUCE_SCATTER: (True,), Collective.ALL_REDUCE: (True, False)}
        inwards = directions[request.collective]
        n, is_gather = request.ranks, request.collective is Collective.ALL_GATHER
        for pieces in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32):
            total = pieces if is_gather else n * pieces
            if pieces > 1 and (n * n * pieces * len(inwards) > _MOST_MESSAGES or request.bytes < total):
                return
            matchings = {way: self._matcher(way).match(request.bytes / total, pieces) for way in inwards}
            time_ns = sum(matching.time_ns for matching in matchings.values())
            yield from self._matched(request, pieces, matchings)
            if time_ns <= _CLOSER * bound_ns:
                return

    def _matched(self, request: Request, pieces: int, matchings: Mapping[bool, Matching]) -> Iterator[_Draft]:
        """Plans of matchings; those with the key True are turned round."""
        graph = self._graph()
        if not all(matching.time_ns < math.inf for matching in matchings.values()):
            return

        @functools.cache
        def plans() -> list[list[Transfer]]:
            spread = {way: self._matcher(way).transfers(matching, request, pieces) for way, matching in matchings.items()}
            inwards = reversed_in_time(graph, spread[True]) if True in spread else None
            return [transfers for _, transfers in self._combined(inwards, spread.get(False))]

        time_ns = sum(matching.time_ns for matching in matchings.values())
        how = f"matching in time of {pieces} {'piece' if pieces == 1 else 'pieces'} a rank"
        yield _Draft("matching", how, time_ns, lambda: plans()[0])
        if len(matchings) > 1:
            yield _Draft("overlapped matching", f"{how}, each as early as it can", time_ns, lambda: plans()[1])

    def _in_rounds(self, request: Request) -> Iterator[_Draft]:
        """Plans of a mixed-integer program. Raises InputError if there are too many ranks for it."""
        graph, n, kind = self._graph(), request.ranks, request.collective
        if n > MOST_RANKS_OF_MILP:
            raise InputError(f"method is milp, and there are {n} ranks; expected at most {MOST_RANKS_OF_MILP}")
        if not _is_connected(graph):
            return
        step_ns, fabric = self._judge.endpoint_ns, self._platform.fabric()
        inwards_ns = lower_bound(fabric, n, Collective.REDUCE_SCATTER, request.bytes).time_ns
        outwards = (Collective.ALL_GATHER, request.bytes // n) if kind is Collective.ALL_REDUCE else (kind, request.bytes)
        out_ns = lower_bound(fabric, n, *outwards).time_ns
        for pieces in (1, 2, 3, 4):
            if request.bytes < pieces * n:
                return
            out = inwards = None
            if kind is not Collective.REDUCE_SCATTER:
                out = in_rounds(graph, request, pieces, step_ns, out_ns)
            if kind in (Collective.REDUCE_SCATTER, Collective.ALL_REDUCE):
                inwards = in_rounds(graph.reversed(), request, pieces, step_ns, inwards_ns)
            plans = [plan for plan in (inwards, out) if plan is not None]
            if len(plans) < 1 + (kind is Collective.ALL_REDUCE):
                return
            sums = reversed_in_time(graph, inwards.transfers) if inwards is not None else None
            how = " and ".join(map(str, plans))
            for name, transfers in self._combined(sums, out.transfers if out is not None else None):
                yield _draft("milp", f"MILP of {pieces} {'piece' if pieces == 1 else 'pieces'} a rank, {name}: {how}", transfers)

    def _matcher(self, inwards: bool) -> Matcher:
        if inwards not in self._matchers:
            graph = self._graph()
            self._matchers[inwards] = Matcher(graph.reversed() if inwards else graph, self._judge.endpoint_ns)
        return self._matchers[inwards]


def _draft(kind: str, how: str, transfers: list[Transfer], time_ns: float | None = None) -> _Draft:
    if time_ns is None:
        time_ns = max(transfer.arrival for transfer in transfers)
    return _Draft(kind, how, time_ns, lambda: transfers)


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
