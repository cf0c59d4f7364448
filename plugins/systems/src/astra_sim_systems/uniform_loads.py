"""Loads of patterns on links that look the same from every NPU: rings, switches and fully connected NPUs of any size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import accumulate

import attrs
from astra_sim.fabric.graph import stripes_over_directions
from astra_sim.fabric.links import UniformLinks
from astra_sim.platform import Dimension, is_power_of_two
from astra_sim.schedule import PeerRun

from astra_sim_systems.loads import PathTime, RoundLinkLoad, RoundLoad
from astra_sim_systems.rounds import Pairs


@attrs.define(eq=False)
class UniformLoads:
    """The links of a dimension, all of whose NPUs are one group, or any groups if it is no ring."""

    dimension: Dimension
    links: UniformLinks
    ranks: int
    _known: dict[PeerRun | Pairs, RoundLoad] = attrs.field(factory=dict)

    @property
    def links_of_npu(self) -> int:
        """The links of an NPU, as many as messages can use at once."""
        if self.links.pattern == "fully_connected":
            return self.links.size - 1
        return 1 if self.links.pattern == "switch" or stripes_over_directions(self.dimension) else 2

    def load(self, pattern: PeerRun | Pairs) -> RoundLoad:
        """The loads of a pattern with messages of a byte each."""
        if pattern not in self._known:
            self._known[pattern] = self._load(pattern)
        return self._known[pattern]

    def _load(self, pattern: PeerRun | Pairs) -> RoundLoad:
        """The load of a pattern from the pattern of the links alone, without a graph."""
        ns_per_byte = 1 / (self.dimension.link_bandwidth * self.links.width)
        latency = self.dimension.link_latency_ns
        if self.links.pattern == "fully_connected":
            return RoundLoad(self._between(pattern, ns_per_byte, latency), path := PathTime(latency, ns_per_byte, ns_per_byte), path)
        if self.links.pattern == "switch":
            path = PathTime(2 * latency + self.dimension.router_latency_ns, 2 * ns_per_byte, ns_per_byte)
            return RoundLoad({0: RoundLinkLoad(most_of_a_rank(pattern) * ns_per_byte, path.latency_ns, ns_per_byte)}, path, path)
        if stripes_over_directions(self.dimension):
            ns_per_byte /= 2
        right, left, longest, mean = self._around(pattern)
        carried = [right + left] if stripes_over_directions(self.dimension) else [right, left]
        busy = {number: RoundLinkLoad(messages * ns_per_byte, latency, 0.0) for number, messages in enumerate(carried) if messages}
        paths = (PathTime(hops * latency, hops * ns_per_byte, ns_per_byte) for hops in (longest, mean))
        return RoundLoad(busy, *paths)

    def _between(self, pattern: PeerRun | Pairs, ns_per_byte: float, latency: float) -> dict[int, RoundLinkLoad]:
        """Of the links from an NPU to each other one, or from each to each, those that are used."""
        if isinstance(pattern, PeerRun):
            once, n = RoundLinkLoad(ns_per_byte, latency, 0.0), self.ranks
            return {peer.value % n + (n if peer.operator == "xor" else 0): once for peer in pattern.each()}
        return {0: RoundLinkLoad(max(Counter(pattern).values()) * ns_per_byte, latency, 0.0)}

    def _around(self, pattern: PeerRun | Pairs) -> tuple[float, float, float, float]:
        """The most messages on a link to the right and to the left, and the most and the mean links of a message."""
        n = self.ranks
        if isinstance(pattern, PeerRun) and pattern.first.operator == "shift":
            ahead = [peer.value % n for peer in pattern.each()]
            # Halfway around, messages go to the right, as networks route them (in ASTRA-sim 2.x: clockwise).
            right = [far for far in ahead if 2 * far <= n]
            left = [n - far for far in ahead if 2 * far > n]
            return sum(right), sum(left), max(right + left), sum(right + left) / len(ahead)
        # Partners at a distance of a power of two: the link between two blocks carries one message of each rank of a block.
        if isinstance(pattern, PeerRun) and pattern.length == 1 and _swaps_blocks(far := pattern.first.value, n):
            return far, far if 2 * far < n else 0, far, far  # opposite ranks all go to the right
        pairs = pairs_of(pattern, n)
        ahead = [(target - source) % n for source, target in pairs]
        to_right = _most(n, ((source, far) for (source, _), far in zip(pairs, ahead, strict=True) if 2 * far <= n))
        to_left = _most(n, ((target, n - far) for (_, target), far in zip(pairs, ahead, strict=True) if 2 * far > n))
        hops = [min(far, n - far) for far in ahead]
        return to_right, to_left, max(hops), sum(hops) / len(hops)


def _swaps_blocks(distance: int, ranks: int) -> bool:
    """Whether rank XOR distance swaps equal blocks of ranks with those beside them, all around the ring."""
    return is_power_of_two(distance) and ranks % (2 * distance) == 0


def pairs_of(pattern: PeerRun | Pairs, ranks: int) -> Pairs:
    """The ranks that send and receive."""
    if not isinstance(pattern, PeerRun):
        return pattern
    return tuple((rank, peer) for rank in range(ranks) for peer in pattern.ranks_from(rank, ranks) if peer != rank)


def most_of_a_rank(pattern: PeerRun | Pairs) -> int:
    """The most messages that a rank sends, or receives."""
    if isinstance(pattern, PeerRun) and pattern.first.operator != "rank":
        return pattern.length
    assert not isinstance(pattern, PeerRun)
    return max(max(Counter(ends).values()) for ends in zip(*pattern, strict=True))


def _most(places: int, runs: Iterable[tuple[int, int]]) -> int:
    """The most that cover a place of a ring: runs of some length, each from a place on."""
    # Two laps, because a run may pass the last place; both are added at the end.
    changes = [0] * (2 * places + 1)
    for begin, length in runs:
        changes[begin] += 1
        changes[begin + length] -= 1
    covered = list(accumulate(changes))
    return max(covered[place] + covered[place + places] for place in range(places))
