"""Shortest paths in directed graphs: those of the least sum of costs. `include/astra_sim/fabric/paths.hpp` is the same in C++."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

UNREACHABLE = -1

Entering = Callable[[int], Iterable[tuple[int, int, int]]]
"""Of a node, the usable incoming links: their sources, costs, and numbers."""


def paths_to(destination: int, entering: Entering) -> dict[int, tuple[int, int]]:
    """For each node with a path to a destination, nearest first: the cost of the cheapest, and its first link (`UNREACHABLE`: none).

    Of several such links the one that was found first. If all links cost the same, the search goes breadth first (else it is Dijkstra's
    algorithm with a bucket for each distance: Dial 1969).
    """
    result: dict[int, tuple[int, int]] = {}
    known = {destination: (0, UNREACHABLE)}
    buckets = {0: deque([destination])}
    while buckets:
        distance = min(buckets)
        # No node joins this bucket while it is emptied, since a link costs at least 1.
        for node in buckets.pop(distance):
            # It was in a nearer bucket, too: entries are not moved when a cheaper path is known, the later ones are skipped.
            if node in result:
                continue
            result[node] = known[node]
            for before, cost, link in entering(node):
                if before not in known or distance + cost < known[before][0]:
                    known[before] = (distance + cost, link)
                    buckets.setdefault(distance + cost, deque()).append(before)
    return result
