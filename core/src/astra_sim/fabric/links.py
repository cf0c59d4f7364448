"""Links as topologies list them, and as networks use them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

LARGEST_COST = 255
LARGEST_BANDWIDTH = 1e9
"""Bytes per nanosecond: networks count the bits of a second in 64-bit integers."""


class Wire(NamedTuple):
    """A link of a topology, one way: its ends, how many links of the dimension it is as wide as, and how many times as long.

    A route minimises the sum of the costs of its links, on every network. `order` is the place of the link in an order of links: a
    packet whose next link is not later in it changes to the next class of virtual channels. With -1, such a network finds an order itself
    if routes could wait for each other in a circle.
    """

    source: int
    target: int
    width: float = 1.0
    length: float = 1.0
    cost: int = 1
    order: int = -1


def both_ways(wires: Iterable[Wire]) -> list[Wire]:
    """Each wire and the one back, next to each other."""
    return [each for wire in wires for each in (wire, wire._replace(source=wire.target, target=wire.source))]


Pattern = Literal["ring", "fully_connected", "switch"]


class UniformLinks(NamedTuple):
    """Links that look the same from every NPU of a dimension of `size` NPUs, all of them as wide as `width` links.

    A "ring" joins neighbours, and the last NPU to the first; two NPUs are joined by one pair of links. "fully_connected" joins every two
    NPUs, a "switch" each NPU to one switch. A topology that returns this from a method `uniform_links()` lists the same links in `wires()`.
    Networks then need not list them, nor simulate more than one position of the dimension.
    """

    pattern: Pattern
    size: int
    width: float = 1.0

    def link_count(self) -> int:
        """The number of links, each one way."""
        if self.pattern == "ring":
            return min(2, self.size - 1) * self.size
        return (self.size - 1 if self.pattern == "fully_connected" else 2) * self.size

    def wires(self) -> list[Wire]:
        """The links. Those of a ring begin, in either direction, at the link between the first and the last position (`Wire.order`)."""
        size, width = self.size, self.width
        if self.pattern == "switch":
            return both_ways(Wire(place, size, width) for place in range(size))
        if self.pattern == "fully_connected" or size < 3:
            return [Wire(a, b, width) for a in range(size) for b in range(size) if a != b]
        # The link with order 0 is the dateline: packets that cross it change their virtual channel (Dally and Seitz, 1987).
        right = (Wire(place, (place + 1) % size, width, order=(place + 1) % size) for place in range(size))
        left = (Wire(place, (place - 1) % size, width, order=(size - place) % size) for place in range(size))
        return [link for pair in zip(right, left, strict=True) for link in pair]


class FabricLink(NamedTuple):
    """A link, one way.

    Bandwidth in bytes per nanosecond, latencies in nanoseconds: `nic_latency_ns` is that of the network interface at each end that is an
    NPU. `error_rate` is the probability that a packet is lost on the link, `dimension` the dimension of the platform that it belongs to. A
    route minimises the sum of the `cost`s of its links.
    """

    source: int
    target: int
    bandwidth: float
    latency_ns: float
    error_rate: float = 0.0
    dimension: int = 0
    nic_latency_ns: float = 0.0
    cost: int = 1

    @property
    def bits_per_s(self) -> int:
        """The bandwidth in whole bits per second."""
        return round(self.bandwidth * 8e9)


class LinkChange(NamedTuple):
    """All links from one node to another, which have `bandwidth` and `latency` times their own; without bandwidth they are down.

    Nodes are numbers of NPUs, or names such as "NPU 3" and "switch 0" (`Fabric.name`). `where` names the change in messages.
    """

    source: int | str
    target: int | str
    bandwidth: float = 1.0
    latency: float = 1.0
    where: str = ""
