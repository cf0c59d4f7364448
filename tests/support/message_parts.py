"""How networks of flows spread messages over links: by a hash, or in equal parts. `include/astra_sim/fabric/` has the same in C++."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from astra_sim.errors import InputError
from astra_sim.fabric.routes import Routes, TieRule
from astra_sim.random import mix64

_MASK = (1 << 64) - 1


def tie_by_hash(source: int, destination: int, seed: int = 0) -> TieRule:
    """A link by a hash of the ends of the whole message (NPUs of the platform) and the node, as equal-cost multi-path routing (ECMP) does.

    SplitMix64 (Steele, Lea, Flood 2014) mixes the bits.
    """
    pair = _mixed(_mixed(seed ^ source) ^ destination)

    def hashed(node: int, destination: int, links: Sequence[int]) -> int:
        # The node counts: otherwise all messages on a switch's first link would take the first link of the next one, too.
        return _mixed(pair ^ (node << 32)) % len(links)

    return hashed


def _mixed(number: int) -> int:
    return mix64((number + 0x9E3779B97F4A7C15) & _MASK)


def parts_of_message(routes: Routes, source: int, destination: int) -> Counter[int]:
    """The part of a message on each link if every node passes it on in equal parts over all links that lead on.

    Nodes are in the order of their distance. Raises InputError if there is no route.
    """
    carried: Counter[int] = Counter()
    parts, waiting = {source: 1.0}, {source}
    while waiting - {destination}:
        # The farthest first: all parts of the message have come together at a node before it passes them on.
        node = max(waiting - {destination}, key=lambda each: (_steps(routes, each, destination, source), -each))
        waiting.remove(node)
        links = routes.next_links(node, destination, source)
        if not links:
            raise InputError(f"there is no route from position {source} to position {destination}")
        for number in links:
            carried[number] += parts[node] / len(links)  # type: ignore[assignment]
            target = routes.graph.links[number].target
            parts[target] = parts.get(target, 0.0) + parts[node] / len(links)
            waiting.add(target)
    return carried


def _steps(routes: Routes, node: int, destination: int, source: int) -> int:
    """The distance of a node from a destination: by cost, or by the most links of named routes."""
    if routes.graph.named is None:
        return routes.distances(destination, routes.passes_npus(source, destination))[node]
    if node == destination:
        return 0
    links = routes.next_links(node, destination)
    return 1 + max((_steps(routes, routes.graph.links[number].target, destination, source) for number in links), default=0)
