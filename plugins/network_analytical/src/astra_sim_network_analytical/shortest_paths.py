"""Shortest paths in a small directed graph."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

NO_WAY = -1


def next_links(nodes: int, destinations: int, ends: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """The link on which to leave a node for each of the nodes 0 to `destinations` - 1: entry node * destinations + destination.

    `ends` are the source and target of every link. The way is one of the fewest links; of several, the one whose next node has the
    lowest number. Where there is no way, or none is needed, the entry is NO_WAY.
    """
    into: list[list[tuple[int, int]]] = [[] for _ in range(nodes)]
    for number, (source, target) in enumerate(ends):
        into[target].append((source, number))
    table = [NO_WAY] * (nodes * destinations)
    for destination in range(destinations):
        distance = [-1] * nodes
        via = [-1] * nodes
        distance[destination] = 0
        reached = deque([destination])
        while reached:
            node = reached.popleft()
            for before, link in into[node]:
                if distance[before] < 0:
                    distance[before] = distance[node] + 1
                    reached.append(before)
                elif distance[before] != distance[node] + 1 or via[before] < node:
                    continue
                via[before] = node
                table[before * destinations + destination] = link
    return tuple(table)
