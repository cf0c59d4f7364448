"""Which of several links of equal cost a message takes, by the number that its topology gives the destination (d-mod-k).

If a message has one route, destinations should spread over paths of equal cost in every pattern that collectives have. A topology
numbers its destinations for that, leaf by leaf (`destination_order()`). Switches next to them go by the lowest digit of this number,
those above by the next one, and so on. Two messages from one leaf to two destinations of another leaf then never meet on a link up, and
nor do two to one leaf on links down: on k-ary n-trees this is d-mod-k (Zahavi, *Fat-tree routing and node ordering providing contention
free traffic for MPI global collectives*, JPDC 2012).

If destinations have several links, to planes, these go by the sum of the quotient's digits, the digits, and the number of the sender's
leaf (at one leaf the sender's own number). So messages from one leaf to another still never meet, and those that a destination gets from
all leaves come over all of its links. `include/astra_sim/fabric/destination_order.hpp` is the same in C++.
"""

from __future__ import annotations

from collections.abc import Sequence

from astra_sim.fabric.topology import completed

__all__ = ["DestinationOrder", "destination_order_of"]


def destination_order_of(topology: object) -> Sequence[int] | None:
    """The number of each NPU of a dimension in the order of destinations; None if its topology gives none."""
    numbers = completed(topology).destination_order()
    return None if numbers is None else tuple(numbers)


class DestinationOrder:
    """Links chosen by destination in a graph: destinations are nodes 0 to `len(numbers)` - 1, `ends` those of its links."""

    def __init__(self, nodes: int, ends: Sequence[tuple[int, int]], numbers: Sequence[int]) -> None:
        self._numbers = numbers
        self._height = _heights(nodes, ends, len(numbers))
        self._up: list[list[int]] = [[] for _ in range(nodes)]
        for source, target in ends:
            if self._height[target] > self._height[source]:
                self._up[source].append(target)
        self._stride = self._strides()
        self._leaf = self._leaves()

    def choose(self, node: int, destination: int, first: int, last: int, links: int) -> int:
        """Which of `links` links of equal cost a message takes at a node, in order of number and of their nodes (`first` to `last`).

        Several links down to one node are used as the links up from there are, so that messages on separate links up stay separate.
        """
        turn = self._numbers[destination]
        if self._height[node] == 0:
            beside = self._leaf[node] == self._leaf[destination]
            # At one leaf the number of the leaf would be the same for all senders: their messages to a destination would take one plane.
            return (sum(divmod(turn, self._stride[0])) + (self._numbers[node] if beside else self._leaf[node])) % links
        down_to_one = first == last and self._height[first] < self._height[node]
        # On a 2-ary 3-tree, bit 0 of the number decides at the leaves, bit 1 one level up.
        number = turn // self._stride[self._height[first if down_to_one else node]]
        return (number % max(1, len(self._up[first])) if down_to_one else number) % links

    def _strides(self) -> list[int]:
        """The divisor of a number by height: digits from switches next to destinations upwards, and that of destinations last."""
        most = [1] * (max(self._height) + 1)
        for height, up in zip(self._height, self._up, strict=True):
            most[height] = max(most[height], len(up))
        strides, stride = [1] * len(most), 1
        for height in range(1, len(most)):
            strides[height] = stride
            stride = stride * most[height] if stride * most[height] <= max(self._numbers) else 1  # no digit is left
        strides[0] = stride
        return strides

    def _onwards(self, node: int) -> list[int]:
        """The nodes at the far ends of the upward links of a node, from which another path leads further up."""
        return [target for target in self._up[node] if self._up[target]]

    def _leaves(self) -> list[int]:
        """Of each destination a number of its leaf: of the first switch upwards that it shares with others. Without one, it has its own."""
        below = [0] * len(self._up)
        for targets in self._up:
            for target in set(targets):
                below[target] += 1
        leaf = []
        for destination in range(len(self._numbers)):
            node = destination
            while (up := self._onwards(node)) and below[node] < 2:
                node = min(up)
            leaf.append(node)
        first: dict[int, int] = {}
        for node, turn in zip(leaf, self._numbers, strict=True):
            first[node] = min(turn, first.get(node, turn))
        number = {turn: place for place, turn in enumerate(sorted(first.values()))}
        return [number[first[node]] for node in leaf]


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
