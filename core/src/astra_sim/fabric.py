"""The fabric of a platform: its graph of NPUs, switches and links, which network backends simulate.

`Platform.fabric()` makes it, and is the only source of it. A topology says which links a dimension has, in one of two ways:

* `wires()`: a sequence of `Wire`s, in units of the bandwidth and latency of the dimension (`link_bandwidth`, `link_latency_ns`).
  Ring, switch, fully connected, mesh, fat tree and dragonfly do.
* `links()`: tuples (source, target, bandwidth in bytes/ns, latency in ns[, error rate[, cost]]) with figures of their own. Graphs from
  files do.

In both the positions of the dimension come first, nodes from its size on are switches, and a link goes one way. Links that one message uses
side by side (`links = 18` of a switch) are one link of that many times the bandwidth; links that share messages among them are listed one
by one. A topology may give its nodes the numbers that a file has for them in `node_ids`, and the latency of switches is that of the
dimension (`router_latency_ns`).

Routes have the least sum of costs, unless a topology names them: `next_links(node, destination)` returns the numbers (in `wires()` or
`links()`) of the links on which a message to a position leaves a node, like the forwarding table of a switch. Of several, networks take
the first, or one by their own rule (by a hash, at random, by queues). See `next_links_of`.

Every group of NPUs that differ in one dimension alone has links and switches of its own. Nodes of the fabric are the NPUs, and then the
switches: dimension by dimension, group by group (in the order of the first NPU of each), as the topology numbers them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import attrs

from astra_sim.errors import InputError
from astra_sim.shortest_paths import NO_WAY, ways_to

if TYPE_CHECKING:
    from astra_sim.platform import Dimension, Platform

__all__ = [
    "LARGEST_COST",
    "LARGEST_FABRIC",
    "NO_WAY",
    "Fabric",
    "FabricLink",
    "UniformLinks",
    "Wire",
    "both_ways",
    "fabric_of",
    "next_links_of",
    "pattern_of",
    "stripes_over_directions",
    "uniform_links_of",
    "wires_of",
]

LARGEST_FABRIC = 1 << 22
LARGEST_COST = 255


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
        right = (Wire(place, (place + 1) % size, width, order=(place + 1) % size) for place in range(size))
        left = (Wire(place, (place - 1) % size, width, order=(size - place) % size) for place in range(size))
        return [link for pair in zip(right, left, strict=True) for link in pair]


def uniform_links_of(dimension: Dimension) -> UniformLinks | None:
    """What the topology of a dimension says of its links in `uniform_links()`; None where it has no such method, or returns None."""
    uniform: UniformLinks | None = getattr(dimension.topology, "uniform_links", lambda: None)()
    return uniform


def pattern_of(dimension: Dimension) -> Pattern | None:
    """The pattern in which the NPUs of a dimension are joined: that of `uniform_links()`, or `pattern` of a topology with other links.

    None where the topology has neither. Its name says nothing.
    """
    uniform = uniform_links_of(dimension)
    pattern: Pattern | None = getattr(dimension.topology, "pattern", None) if uniform is None else uniform.pattern
    return pattern


def stripes_over_directions(dimension: Dimension) -> bool:
    """Whether a message has the bandwidth of the links of both directions, as on a ring of ASTRA-sim 1.0 (`both_ways` of its topology).

    The delay formula and the packet network follow this. The links themselves are no wider: see `Dimension.topology.wires()`.
    """
    return getattr(dimension.topology, "both_ways", False) is True


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


@attrs.frozen
class Fabric:
    """NPUs 0 to `npus` - 1, switches from `npus` on, and links between them, each one way.

    The ports of a node are the links that leave it, in the order of `links`: on an NPU these are its NICs. `switch_latency_ns` is what each
    switch takes to forward, `ids` the number that each node has in the file it comes from (else its own).
    """

    npus: int
    switches: int
    links: tuple[FabricLink, ...] = attrs.field(repr=False)
    switch_latency_ns: tuple[float, ...] = attrs.field(repr=False)
    ids: tuple[int, ...] = attrs.field(repr=False)

    @property
    def nodes(self) -> int:
        """NPUs and switches together."""
        return self.npus + self.switches

    def is_switch(self, node: int) -> bool:
        """Whether a node is a switch."""
        return node >= self.npus

    def name(self, node: int) -> str:
        """A node for people: "NPU 3" or "switch 0"."""
        return f"switch {node - self.npus}" if self.is_switch(node) else f"NPU {node}"

    def link_name(self, link: int) -> str:
        """A link for people: "NPU 3 to switch 0"."""
        return f"{self.name(self.links[link].source)} to {self.name(self.links[link].target)}"

    def ports(self) -> list[list[int]]:
        """For each node, the numbers of the links that leave it, in order."""
        leaving: list[list[int]] = [[] for _ in range(self.nodes)]
        for number, link in enumerate(self.links):
            leaving[link.source].append(number)
        return leaving

    def reverses(self) -> list[int]:
        """For each link, the number of the one back: of several between two nodes the k-th belongs to the k-th. `NO_WAY`: there is none."""
        between: dict[tuple[int, int], list[int]] = {}
        for number, link in enumerate(self.links):
            between.setdefault((link.source, link.target), []).append(number)
        reverse = [NO_WAY] * len(self.links)
        for (source, target), numbers in between.items():
            for number, back in zip(numbers, between.get((target, source), ()), strict=False):
                reverse[number] = back
        return reverse

    def distances(self, destination: int, through_npus: bool) -> list[int]:
        """The cost of the cheapest way from each node to a destination, where links cost 1 the number of links; `NO_WAY`: there is none.

        `through_npus`: whether NPUs forward.
        """
        distance = [NO_WAY] * self.nodes
        for node, (cost, _) in self.ways_to(destination, through_npus).items():
            distance[node] = cost
        return distance

    def ways_to(self, destination: int, through_npus: bool) -> dict[int, tuple[int, int]]:
        """For each node with a way to a destination, nearest first: the cost of the cheapest way, and the number of its first link."""
        entering = self._entering

        def entering_of(node: int) -> Sequence[tuple[int, int, int]]:
            return entering[node] if through_npus or node == destination or self.is_switch(node) else ()

        return ways_to(destination, entering_of)

    def scaled(self, bandwidth: float, latency: float) -> Fabric:
        """The fabric with links of `bandwidth` and `latency` times their own."""
        links = (link._replace(bandwidth=link.bandwidth * bandwidth, latency_ns=link.latency_ns * latency) for link in self.links)
        return attrs.evolve(self, links=tuple(links))

    @functools.cached_property
    def _entering(self) -> list[list[tuple[int, int, int]]]:
        entering: list[list[tuple[int, int, int]]] = [[] for _ in range(self.nodes)]
        for number, link in enumerate(self.links):
            entering[link.target].append((link.source, link.cost, number))
        return entering


def wires_of(dimension: Dimension, where: str) -> list[FabricLink]:
    """The links of one group of a dimension, by positions and switches of the topology. Raises InputError, naming `where`.

    A topology that says nothing of its links, and a link that cannot be, are errors.
    """
    topology: Any = dimension.topology
    own, listed = getattr(topology, "wires", None), getattr(topology, "links", None)
    if callable(own):
        links = [_of_wire(Wire(*wire), dimension) for wire in own()]
    elif callable(listed):
        links = [_of_entry(entry) for entry in listed()]
    else:
        raise InputError(f"{where}: topology {topology.name!r} does not say its links (it has no method wires() or links())")
    for link in links:
        possible = link.bandwidth > 0 and link.latency_ns >= 0 and 0 <= link.error_rate <= 1
        if min(link.source, link.target) < 0 or link.source == link.target or not possible:
            raise InputError(
                f"{where}: topology {topology.name!r} has a link from node {link.source} to node {link.target} of {link.bandwidth} bytes/ns"
                f" and {link.latency_ns} ns; expected two nodes, a bandwidth above 0 and a latency of at least 0"
            )
        if not 1 <= link.cost <= LARGEST_COST:
            raise InputError(
                f"{where}: topology {topology.name!r} has a link of cost {link.cost} from node {link.source} to node {link.target};"
                f" expected 1 to {LARGEST_COST}"
            )
    return links


def next_links_of(dimension: Dimension, where: str) -> list[tuple[int, ...]] | None:
    """The routes that the topology of a dimension names (`next_links`): links by node * size + destination; None where it names none.

    Nodes from which it names no link to a destination have an empty entry, and no route of an NPU may lead to one. Raises InputError,
    naming `where`, for a link that does not leave its node, a route that ends elsewhere, and one that comes back to a node.
    """
    topology: Any = dimension.topology
    named = getattr(topology, "next_links", None)
    if not callable(named):
        return None
    links, size = wires_of(dimension, where), dimension.size
    nodes = max([size, *(max(link.source, link.target) + 1 for link in links)])
    text = f"{where}: topology {topology.name!r}: next_links"
    table: list[tuple[int, ...]] = [()] * (nodes * size)
    for node in range(nodes):
        for destination in range(size):
            if node == destination:
                continue
            entry = table[node * size + destination] = tuple(named(node, destination))
            for link in entry:
                if not isinstance(link, int) or not 0 <= link < len(links) or links[link].source != node:
                    raise InputError(f"{text}({node}, {destination}) has {link!r}; expected numbers of links that leave node {node}")
    for destination in range(size):
        done = {destination}
        for source in range(size):
            stack = [(source, iter(table[source * size + destination]))] if source not in done else []
            path = {source}
            while stack:
                node, left = stack[-1]
                if not table[node * size + destination]:
                    raise InputError(
                        f"{text}({node}, {destination}) is empty, and a route from position {source} to {destination} leads to node {node};"
                        " expected a link"
                    )
                onwards = next(left, None)
                if onwards is None:
                    stack.pop()
                    path.remove(node)
                    done.add(node)
                    continue
                target = links[onwards].target
                if target in path:
                    raise InputError(f"{text}: routes to position {destination} come back to node {target}; expected that they end")
                if target not in done:
                    path.add(target)
                    stack.append((target, iter(table[target * size + destination])))
    return table


def fabric_of(platform: Platform) -> Fabric:
    """The fabric of a platform's dimensions. Raises InputError where one does not say its links, or there are too many."""
    if platform.npus > LARGEST_FABRIC:
        raise InputError(f"the platform has {platform.npus} NPUs; expected at most {LARGEST_FABRIC}, the most whose links can be listed")
    links: list[FabricLink] = []
    latencies: list[float] = []
    ids = list(range(platform.npus))
    for number, dimension in enumerate(platform.dimensions):
        own = wires_of(dimension, f"dimension {number}")
        nodes = max([dimension.size, *(max(link.source, link.target) + 1 for link in own)])
        groups = [npu for npu in range(platform.npus) if platform.coordinate(npu, number) == 0]
        if len(links) + len(own) * len(groups) > LARGEST_FABRIC:
            raise InputError(f"the platform has more than {LARGEST_FABRIC} links, the most that can be listed")
        for first in groups:
            base = platform.npus + len(latencies)
            place = [first + at * platform.strides[number] for at in range(dimension.size)]
            place += range(base, base + nodes - dimension.size)
            latencies += [dimension.router_latency_ns] * (nodes - dimension.size)
            links += [
                link._replace(
                    source=place[link.source], target=place[link.target], dimension=number, nic_latency_ns=dimension.nic_latency_ns
                )
                for link in own
            ]
    ids += range(platform.npus, platform.npus + len(latencies))
    known: Sequence[int] = getattr(platform.dimensions[0].topology, "node_ids", ())
    if len(platform.dimensions) == 1 and len(known) == len(ids):
        ids = list(known)
    return Fabric(platform.npus, len(latencies), tuple(links), tuple(latencies), tuple(ids))


def _of_entry(entry: Sequence[Any]) -> FabricLink:
    link = FabricLink(*map(int, entry[:2]), *map(float, entry[2:5]))
    return link._replace(cost=int(entry[5])) if len(entry) > 5 else link


def _of_wire(wire: Wire, dimension: Dimension) -> FabricLink:
    bandwidth, latency = dimension.link_bandwidth * wire.width, dimension.link_latency_ns * wire.length
    return FabricLink(wire.source, wire.target, bandwidth, latency, cost=wire.cost)
