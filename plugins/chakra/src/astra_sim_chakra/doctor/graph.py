"""The dependencies of nodes as a graph: an order that keeps them, circles, and the longest chain."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

import attrs

from astra_sim_chakra.trace import Node


@attrs.frozen(eq=False)
class TraceGraph:
    """Places of nodes, and for each the places that it waits for. `order` has those that can ever begin, lowest keys first."""

    after: Sequence[Sequence[int]]
    order: Sequence[int]

    @property
    def is_complete(self) -> bool:
        """Whether every node can begin."""
        return len(self.order) == len(self.after)

    def circle(self) -> list[int]:
        """The places of a circle, each of which waits for the next one; empty if there is none."""
        done = set(self.order)
        place = next((place for place in range(len(self.after)) if place not in done), None)
        path: list[int] = []
        seen: dict[int, int] = {}
        while place is not None and place not in seen:
            seen[place] = len(path)
            path.append(place)
            place = next(other for other in self.after[place] if other not in done)
        return path[seen[place] :] if place is not None else []

    def longest(self, weights: Sequence[int]) -> tuple[int, list[int]]:
        """The length of the longest chain of weights, and its places from the first on."""
        ends, before = [0] * len(self.after), [-1] * len(self.after)
        last = -1
        for place in self.order:
            begin = 0
            for other in self.after[place]:
                if ends[other] > begin:
                    begin, before[place] = ends[other], other
            ends[place] = begin + weights[place]
            if last < 0 or ends[place] > ends[last]:
                last = place
        length = ends[last] if last >= 0 else 0
        chain = []
        while last >= 0:
            chain.append(last)
            last = before[last]
        return length, chain[::-1]


def graph_of(after: Sequence[Sequence[int]], keys: Sequence[int]) -> TraceGraph:
    """The graph of these dependencies; of nodes that can begin, the one with the lowest key goes first."""
    children: list[list[int]] = [[] for _ in after]
    waits = [0] * len(after)
    for place, others in enumerate(after):
        for other in set(others):
            children[other].append(place)
            waits[place] += 1
    ready = [(keys[place], place) for place, count in enumerate(waits) if not count]
    heapq.heapify(ready)
    order = []
    while ready:
        _, place = heapq.heappop(ready)
        order.append(place)
        for child in children[place]:
            waits[child] -= 1
            if not waits[child]:
                heapq.heappush(ready, (keys[child], child))
    return TraceGraph(after, order)


def dependencies(nodes: Sequence[Node], control: bool = True) -> list[list[int]]:
    """For each node the places of those that it waits for; ids that no node has are left out, and of several nodes the last one counts."""
    places = {node.id: place for place, node in enumerate(nodes)}
    return [list(dict.fromkeys(places[id_] for id_ in (*(node.control if control else ()), *node.data) if id_ in places)) for node in nodes]


def latest(after: Sequence[Sequence[int]], order: Sequence[int], place: Mapping[int, int]) -> list[int]:
    """For each node the last of some nodes, by `place`, that it waits for, directly or not; -1 if there is none."""
    result = [-1] * len(after)
    for node in order:
        for other in after[node]:
            result[node] = max(result[node], result[other], place.get(other, -1))
    return result
