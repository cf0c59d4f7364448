"""Greedy matching of edges and pieces in a time-expanded graph (Won et al., TACOS, MICRO 2024).

Whenever an edge is free it is given a piece that its source has and its target misses: of those the one that the fewest ranks have or will
have. Edges that can bring few pieces choose first. A slow edge leaves to faster ones what it would bring too late. The compiled part,
`native/matching.cpp`, does this; here its messages become those of a plan.
"""

from __future__ import annotations

import itertools

import attrs
import numpy as np
from astra_sim.schedule import Request

from astra_sim_synthesis import _core
from astra_sim_synthesis.edges import Floats, RankGraph
from astra_sim_synthesis.timing import Transfer
from astra_sim_synthesis.tree_plans import piece_bytes

_ATTEMPTS = 8


@attrs.frozen(eq=False)
class Matching:
    """Messages in the order of their starts: edges and pieces by number, and times (ns), `(messages,)`.

    Piece k of a rank r has the number r * pieces + k. `time_ns` is when the last arrives (infinity if pieces cannot get everywhere), and
    `least_ns` a time that no messages of whole pieces can beat.
    """

    edges: np.ndarray
    pieces: np.ndarray
    starts: Floats
    arrivals: Floats
    time_ns: float
    least_ns: float


class Matcher:
    """Matchings of a graph, whose columns are made once. An endpoint handles each message for `step_ns`."""

    def __init__(self, graph: RankGraph, step_ns: float = 0.0) -> None:
        self.graph = graph
        edges = graph.edges
        links = [edge.links for edge in edges]
        first = np.cumsum([0, *map(len, links)], dtype=np.int32)
        sources = np.array([edge.source for edge in edges], dtype=np.int32)
        targets = np.array([edge.target for edge in edges], dtype=np.int32)
        latency = np.array([edge.latency_ns + step_ns for edge in edges])
        numbers = np.fromiter(itertools.chain.from_iterable(links), np.int32)
        self._columns = (sources.tobytes(), targets.tobytes(), first.tobytes(), numbers.tobytes(), latency.tobytes())

    def match(self, size: float, pieces: int, attempts: int = _ATTEMPTS) -> Matching:
        """The best of some matchings in which each rank sends `pieces` pieces of `size` bytes to all others."""
        busy = size / self.graph.link_bandwidth
        *columns, time_ns, least_ns = _core.match(self.graph.ranks, *self._columns, busy.tobytes(), pieces, attempts)
        edges, numbers = (np.frombuffer(column, np.int32) for column in columns[:2])
        starts, arrivals = (np.frombuffer(column) for column in columns[2:])
        return Matching(edges, numbers, starts, arrivals, time_ns, least_ns)

    def transfers(self, matching: Matching, request: Request, pieces: int) -> list[Transfer]:
        """The messages of a matching as a broadcast of the pieces of a request."""
        size = piece_bytes(request, pieces)
        brought: dict[tuple[int, int], list[Transfer]] = {}
        transfers = []
        columns = (column.tolist() for column in (matching.edges, matching.pieces, matching.starts, matching.arrivals))
        for number, piece, start, arrival in zip(*columns, strict=True):
            edge = self.graph.edges[number]
            needs = brought.get((edge.source, piece), [])
            transfer = Transfer(edge, (piece,), size(piece), needs, False, (round(start * 1000),), start, arrival)
            brought[edge.target, piece] = [transfer]
            transfers.append(transfer)
        return transfers
