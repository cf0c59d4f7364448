"""Shortest paths in a small directed graph."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from astra_sim import InputError

NO_WAY = -1
LARGEST_TABLE = 1 << 24


def shortest_paths(nodes: int, destinations: int, ends: Sequence[tuple[int, int]], where: str) -> tuple[list[int], list[int]]:
    """Of every node and each destination, node * destinations + destination: the link on which to leave, and how many links it is away.

    Destinations are the nodes 0 to `destinations` - 1, `ends` the source and target of every link. The way is one of the fewest links;
    of several, the one whose next node has the lowest number. Raises InputError, beginning with `where`, if there is no way from a
    destination to another, or there are too many nodes.
    """
    if nodes * destinations > LARGEST_TABLE:
        raise InputError(f"{where}: the ways from {nodes} nodes to {destinations} NPUs are too many; at most {LARGEST_TABLE} are right")
    into: list[list[tuple[int, int]]] = [[] for _ in range(nodes)]
    for number, (source, target) in enumerate(ends):
        into[target].append((source, number))
    links, distances = [NO_WAY] * (nodes * destinations), [NO_WAY] * (nodes * destinations)
    for destination in range(destinations):
        distance, via = [NO_WAY] * nodes, [nodes] * nodes
        distance[destination] = 0
        reached = deque([destination])
        while reached:
            node = reached.popleft()
            for before, link in into[node]:
                if distance[before] == NO_WAY:
                    distance[before] = distance[node] + 1
                    reached.append(before)
                if distance[before] == distance[node] + 1 and node < via[before]:
                    via[before] = node
                    links[before * destinations + destination] = link
        distances[destination::destinations] = distance
        if NO_WAY in distance[:destinations]:
            raise InputError(f"{where}: there is no way from NPU {distance.index(NO_WAY)} to NPU {destination}")
    return links, distances
