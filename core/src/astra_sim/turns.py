"""Which of several equal ways a destination takes, where a topology says that destinations take turns.

Where a message has one route, chosen by its destination alone, destinations should spread over equal ways in every pattern that collectives
have. A topology numbers its destinations for that, leaf by leaf (`turns()`). Switches next to them go by the lowest digit of this number,
those above by the next one, and so on; destinations themselves, where they have several links, by the last one. Two messages from one leaf
to two destinations of another leaf then never meet on a link up, and nor do two to one leaf on links down: on k-ary n-trees this is d-mod-k
(Zahavi, *Fat-tree routing and node ordering providing contention free traffic for MPI global collectives*, JPDC 2012).
`include/astra_sim/turns.hpp` is the same in C++.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["Turns", "turns_of"]


def turns_of(topology: object) -> Sequence[int] | None:
    """The numbers by which the NPUs of a dimension take turns at equal ways; None where its topology has no method `turns()`."""
    turns = getattr(topology, "turns", None)
    return tuple(turns()) if callable(turns) else None


class Turns:
    """The turns of the destinations of a graph: nodes 0 to `len(turns)` - 1, whose numbers `turns` has; `ends` are those of its links."""

    def __init__(self, nodes: int, ends: Sequence[tuple[int, int]], turns: Sequence[int]) -> None:
        self._turns = turns
        self._height = _heights(nodes, ends, len(turns))
        self._links_up = [0] * nodes
        for source, target in ends:
            self._links_up[source] += self._height[target] > self._height[source]
        self._stride = self._strides()

    def choose(self, node: int, destination: int, first: int, last: int, ways: int) -> int:
        """Which of so many equal links a message takes at a node, in order of the nodes they lead to (`first` to `last`) and number.

        Several links down to one node take turns as the links up from there do, so that what was apart on the way up stays apart.
        """
        down_to_one = first == last and self._height[first] < self._height[node]
        number = self._turns[destination] // self._stride[self._height[first if down_to_one else node]]
        return (number % max(1, self._links_up[first]) if down_to_one else number) % ways

    def _strides(self) -> list[int]:
        """By height, what a number is divided by: digits from switches next to destinations upwards, and that of destinations last."""
        most = [1] * (max(self._height) + 1)
        for height, links in zip(self._height, self._links_up, strict=True):
            most[height] = max(most[height], links)
        strides, stride = [1] * len(most), 1
        for height in range(1, len(most)):
            strides[height] = stride
            stride = stride * most[height] if stride * most[height] < len(self._turns) else 1  # no digit is left
        strides[0] = stride
        return strides


def _heights(nodes: int, ends: Sequence[tuple[int, int]], destinations: int) -> list[int]:
    """Of each node, the links from the nearest destination."""
    targets: list[list[int]] = [[] for _ in range(nodes)]
    for source, target in ends:
        targets[source].append(target)
    height = [0] * destinations + [-1] * (nodes - destinations)
    reached = list(range(destinations))
    for node in reached:
        for target in targets[node]:
            if height[target] < 0:
                height[target] = height[node] + 1
                reached.append(target)
    return [max(0, each) for each in height]
