"""The most that can flow between two sets of nodes of a fabric, for bisection bandwidths."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from astra_sim.fabric import Fabric


def max_flow(fabric: Fabric, sources: Iterable[int], targets: Iterable[int]) -> float:
    """Bytes per nanosecond from some nodes to others, over all links (Edmonds and Karp's algorithm)."""
    capacity: dict[int, dict[int, float]] = {node: {} for node in range(fabric.nodes + 2)}
    start, end = fabric.nodes, fabric.nodes + 1
    for link in fabric.links:
        capacity[link.source][link.target] = capacity[link.source].get(link.target, 0.0) + link.bandwidth
        capacity[link.target].setdefault(link.source, 0.0)
    for node in sources:
        capacity[start][node] = float("inf")
    for node in targets:
        capacity[node][end] = float("inf")
    total = 0.0
    while True:
        before = {start: start}
        waiting = deque([start])
        while waiting and end not in before:
            node = waiting.popleft()
            for following, rest in capacity[node].items():
                if rest > 1e-9 and following not in before:
                    before[following] = node
                    waiting.append(following)
        if end not in before:
            return total
        way = [end]
        while way[-1] != start:
            way.append(before[way[-1]])
        steps = list(zip(way[1:], way, strict=False))
        amount = min(capacity[a][b] for a, b in steps)
        for a, b in steps:
            capacity[a][b] -= amount
            capacity[b][a] = capacity[b].get(a, 0.0) + amount
        total += amount
