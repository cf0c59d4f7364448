"""Shortest paths in a small directed graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from astra_sim.errors import InputError

NO_WAY = -1
LARGEST_TABLE = 1 << 24


def shortest_paths(
    nodes: int, destinations: int, ends: Sequence[tuple[int, int]], where: str, spread: bool = False
) -> tuple[list[int], list[int]]:
    """For every node and destination, at node * destinations + destination: the link on which to leave, and the distance in links.

    Destinations are the nodes 0 to `destinations` - 1, `ends` the source and target of every link. The path is a shortest one;
    of several, the one whose next node has the lowest number, or with `spread` the one whose turn it is: of w links the number s modulo w,
    where s is the sum of the digits of the destination in base w. So destinations in a row take all w links before one is taken twice, and
    those that meet at the next switch part again there. Raises InputError, beginning with `where`, if there is no path from a
    destination to another, or there are too many nodes.
    """
    if nodes * destinations > LARGEST_TABLE:
        raise InputError(f"{where}: the routes from {nodes} nodes to {destinations} NPUs are too many; expected at most {LARGEST_TABLE}")
    into: list[list[tuple[int, int]]] = [[] for _ in range(nodes)]
    for number, (source, target) in enumerate(ends):
        into[target].append((source, number))
    # All destinations at once, one distance after another: sets of destinations are bits of integers.
    links, distances = [NO_WAY] * (nodes * destinations), [NO_WAY] * (nodes * destinations)
    reached = [1 << node if node < destinations else 0 for node in range(nodes)]
    for destination in range(destinations):
        distances[destination * destinations + destination] = 0
    frontier = {node: reached[node] for node in range(destinations)}
    distance = 0
    while frontier:
        distance += 1
        following: dict[int, int] = {}
        for node in sorted(frontier):  # so that the first link to reach a destination leads to the node of the lowest number
            for before, link in into[node]:
                fresh = frontier[node] & ~(reached[before] | following.get(before, 0))
                if fresh:
                    following[before] = following.get(before, 0) | fresh
                    for destination in _bits(fresh):
                        links[before * destinations + destination] = link
                        distances[before * destinations + destination] = distance
        for node, fresh in following.items():
            reached[node] |= fresh
        frontier = following
    _check(reached[:destinations], where)
    if spread:
        _spread(links, distances, nodes, destinations, ends)
    return links, distances


def _spread(links: list[int], distances: Sequence[int], nodes: int, destinations: int, ends: Sequence[tuple[int, int]]) -> None:
    """Give each destination the way whose turn it is, instead of the first.

    Several links to one node take their turns as the links up from there do, so that what was apart on the way up stays apart.
    """
    leaving: list[list[tuple[int, int]]] = [[] for _ in range(nodes)]
    for number, (source, target) in enumerate(ends):
        leaving[source].append((target, number))
    to_switches = [sum(target >= destinations for target, _ in ways) for ways in leaving]
    for node, ways in enumerate(leaving):
        if len(ways) < 2:
            continue
        ways.sort()
        own = distances[node * destinations : (node + 1) * destinations]
        further = [distances[following * destinations : (following + 1) * destinations] for following, _ in ways]
        for destination, distance in enumerate(own):
            if distance > 0:
                equal = [way for way, rest in zip(ways, further, strict=True) if rest[destination] == distance - 1]
                if len(equal) > 1:
                    (first, _), (last, _) = equal[0], equal[-1]
                    base = max(2, to_switches[first] if first == last else len(equal))
                    links[node * destinations + destination] = equal[_digits(destination, base) % len(equal)][1]


def _digits(number: int, base: int) -> int:
    """The sum of the digits of a number."""
    total = 0
    while number:
        number, digit = divmod(number, base)
        total += digit
    return total


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
