"""Shortest paths in directed graphs between all NPUs at once, for the hops of topologies that are read from files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from astra_sim.errors import InputError
from astra_sim.fabric.paths import UNREACHABLE

LARGEST_TABLE = 1 << 24


def shortest_paths(
    nodes: int,
    destinations: int,
    ends: Sequence[tuple[int, int]],
    where: str,
    costs: Sequence[int] | None = None,
) -> tuple[list[int], list[int]]:
    """For every node and destination, at node * destinations + destination: the link on which to leave, and the distance.

    Destinations are the nodes 0 to `destinations` - 1, `ends` the source and target of every link, and `costs` the amount that each adds to
    the distance (default: 1, so that distances count links). The path is a shortest one; of several, the one whose next node has the lowest
    number.
    Raises InputError, beginning with `where`, if there is no path from a destination to another, or there are too many nodes.
    """
    if nodes * destinations > LARGEST_TABLE:
        raise InputError(f"{where}: the routes from {nodes} nodes to {destinations} NPUs are too many; expected at most {LARGEST_TABLE}")
    into: list[list[tuple[int, int]]] = [[] for _ in range(nodes)]
    for number, (source, target) in enumerate(ends):
        into[target].append((source, number))
    # All destinations at once, one distance after another: sets of destinations are bits of integers.
    links, distances = [UNREACHABLE] * (nodes * destinations), [UNREACHABLE] * (nodes * destinations)
    reached = [1 << node if node < destinations else 0 for node in range(nodes)]
    for destination in range(destinations):
        distances[destination * destinations + destination] = 0
    costs = costs if costs is not None else [1] * len(ends)
    frontier = {node: reached[node] for node in range(destinations)}
    ahead: dict[int, dict[int, list[tuple[int, int, int]]]] = {}  # by distance and node: the next node, the link there, and destinations
    distance = 0
    while frontier:
        for node, fresh in frontier.items():
            for before, link in into[node]:
                wanted = fresh & ~reached[before]
                if wanted:
                    ahead.setdefault(distance + costs[link], {}).setdefault(before, []).append((node, link, wanted))
        frontier = {}
        while ahead and not frontier:
            distance = min(ahead)
            for node, links_by_node in ahead.pop(distance).items():
                for _, link, wanted in sorted(links_by_node):  # the first leads to the node of the lowest number
                    fresh = wanted & ~reached[node]
                    if fresh:
                        reached[node] |= fresh
                        frontier[node] = frontier.get(node, 0) | fresh
                        for destination in _bits(fresh):
                            links[node * destinations + destination] = link
                            distances[node * destinations + destination] = distance
    _check(reached[:destinations], where)
    return links, distances


def _bits(number: int) -> Iterator[int]:
    """The positions of the bits that are set."""
    while number:
        lowest = number & -number
        yield lowest.bit_length() - 1
        number ^= lowest


def _check(reached: Sequence[int], where: str) -> None:
    """Raise InputError if some NPU cannot reach another."""
    everywhere = (1 << len(reached)) - 1
    missing = [everywhere & ~each for each in reached]
    if any(missing):
        destination = min(next(_bits(each)) for each in missing if each)
        source = next(npu for npu, each in enumerate(missing) if each >> destination & 1)
        raise InputError(f"{where}: there is no route from NPU {source} to NPU {destination}")
