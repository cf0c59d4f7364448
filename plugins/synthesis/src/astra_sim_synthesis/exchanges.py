"""Plans of all-to-alls: each rank sends to each other one, straight or over neighbours that pass messages on.

Straight messages take the routes of the network, which may leave links idle: on a ring of four all messages to the opposite rank go the
same way round. Relayed ones go from neighbour to neighbour along paths that share the links evenly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from astra_sim.schedule import Request
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import dijkstra

from astra_sim_synthesis.edges import RankEdge, RankGraph
from astra_sim_synthesis.link_loads import LinkLoads
from astra_sim_synthesis.timing import Transfer

_PASSES = 6
_MOST_GROUPS = 2048
"""Groups of paths that are found one after another, at most unless there are more ranks."""
_LONGER = 1e-3
"""The price of any edge, in the mean price: among paths that share links as evenly the one with fewer edges is taken."""


def straight(graph: RankGraph, request: Request, pieces: int) -> list[Transfer]:
    """The messages over the edges of a graph that has one for each pair of ranks, the nearest partner in turn first."""
    n = graph.ranks
    transfers = []
    for edge in graph.edges:
        for k in range(pieces):
            place, count = _piece(request, pieces, edge.target, k)
            turn = (edge.target - edge.source) % n
            transfers.append(Transfer(edge, ((edge.source, place),), count, [], priority=(turn, k)))
    return transfers


def relayed(graph: RankGraph, request: Request, pieces: int) -> list[Transfer]:
    """The messages over the edges of neighbours, the longest remaining path first. Each waits for the one before it on its path."""
    n = graph.ranks
    transfers = []
    for source, k, paths in balanced_paths(graph, pieces):
        for target, path in paths.items():
            place, count = _piece(request, pieces, target, k)
            before: list[Transfer] = []
            for step, edge in enumerate(path):
                priority = (step - len(path), (target - source) % n, k)
                before = [Transfer(edge, ((source, place),), count, before, priority=priority)]
                transfers += before
    return transfers


def _piece(request: Request, pieces: int, target: int, k: int) -> tuple[int, int]:
    """The number of a piece of the data for a rank, among those of all ranks, and its bytes."""
    place, whole = target * pieces + k, request.ranks * pieces
    return place, request.bytes * (place + 1) // whole - request.bytes * place // whole


def balanced_paths(graph: RankGraph, pieces: int) -> Iterator[tuple[int, int, dict[int, list[RankEdge]]]]:
    """For each rank and piece, the paths to some or all ranks, such that no link has much more to carry than others.

    Paths are shortest ones at prices that rise with the present loads of links: first those of one rank to some targets after the
    other; then each of these groups is taken out and found again at the prices of all others. The best of all passes is kept.
    """
    loads = _PathLoads(graph)
    n = graph.ranks
    parts = max(1, min(n - 1, _MOST_GROUPS // (n * pieces)))
    shares = [range(1 + part, n, parts) for part in range(parts)]
    jobs = [(source, k, [(source + step) % n for step in share]) for k in range(pieces) for share in shares for source in range(n)]
    groups = []
    for number, (source, _, targets) in enumerate(jobs):
        groups.append(loads.paths(source, targets, (number + 1) / len(jobs)))
        loads.add(groups[-1].values(), 1.0)
    best, best_groups = loads.congestion(), list(groups)
    for _ in range(_PASSES):
        for number, (source, _, targets) in enumerate(jobs):
            loads.add(groups[number].values(), -1.0)
            groups[number] = loads.paths(source, targets, 1.0)
            loads.add(groups[number].values(), 1.0)
        if loads.congestion() < best * (1 - 1e-9):
            best, best_groups = loads.congestion(), list(groups)
    for (source, k, _), group in zip(jobs, best_groups, strict=True):
        yield source, k, {target: [graph.edges[number] for number in path] for target, path in group.items()}


class _PathLoads:
    """The paths so far, as loads of links."""

    def __init__(self, graph: RankGraph) -> None:
        self._graph = graph
        self._loads = LinkLoads(graph)

    def congestion(self) -> float:
        """The most that a link carries over its bandwidth."""
        return self._loads.congestion()

    def add(self, paths: Iterable[list[int]], weight: float) -> None:
        """Add a message along each path."""
        counts = np.zeros(len(self._graph.edges))
        for path in paths:
            counts[path] += weight
        self._loads.add(counts)

    def paths(self, source: int, targets: Iterable[int], progress: float) -> dict[int, list[int]]:
        """The cheapest paths to ranks, as numbers of edges; `progress` is the share of all paths that are there with them."""
        prices = self._loads.prices(progress)
        prices += _LONGER * prices.mean()
        n = self._graph.ranks
        edges = csr_matrix((prices, (self._loads.sources, self._loads.targets)), shape=(n, n))
        _, before = dijkstra(edges, indices=source, return_predecessors=True)
        result: dict[int, list[int]] = {}
        for target in targets:
            path, at = list[int](), target
            while at != source:
                path.append(self._graph.number_of[int(before[at]), at])
                at = int(before[at])
            result[target] = path[::-1]
        return result
