"""The graph of a platform: NPUs, switches and links, built from the topologies of its dimensions."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs

from astra_sim.errors import InputError
from astra_sim.fabric.links import LARGEST_BANDWIDTH, LARGEST_COST, FabricLink, Pattern, UniformLinks, Wire
from astra_sim.fabric.paths import UNREACHABLE, paths_to
from astra_sim.value_objects import ValueObject

if TYPE_CHECKING:
    from astra_sim.platform import Dimension, Platform

LARGEST_FABRIC = 1 << 22

EnteringLinks = list[list[tuple[int, int, int]]]
"""For each node the links that lead to it: their sources, costs, and numbers."""


def uniform_links_of(dimension: Dimension) -> UniformLinks | None:
    """The links of a dimension's topology from `uniform_links()`."""
    return dimension.topology.uniform_links()


def pattern_of(dimension: Dimension) -> Pattern | None:
    """The pattern in which the NPUs of a dimension are joined: that of `uniform_links()`, or `pattern` of a topology with other links.

    None if the topology has neither. Its name does not matter.
    """
    uniform = uniform_links_of(dimension)
    return dimension.topology.pattern if uniform is None else uniform.pattern


def stripes_over_directions(dimension: Dimension) -> bool:
    """Whether a message has the bandwidth of the links of both directions, as on a ring of ASTRA-sim 1.0 (`both_ways` of its topology).

    The delay formula and the packet network follow this. The links themselves are no wider: see `Dimension.topology.wires()`.
    """
    return dimension.topology.both_ways is True


@attrs.frozen(eq=False)
class DimensionGraph:
    """The graph of one group of a dimension: positions 0 to `size` - 1, then switches; links one way; the topology's routes, if any.

    `named` are the links by node * `size` + destination if the topology names its routes. `destination_order` are the numbers of its
    positions if destinations spread by them over paths of equal cost.
    """

    size: int
    nodes: int
    links: tuple[FabricLink, ...] = attrs.field(repr=False)
    named: list[tuple[int, ...]] | None = attrs.field(default=None, repr=False)
    destination_order: Sequence[int] | None = attrs.field(default=None, repr=False)

    @property
    def ends(self) -> list[tuple[int, int]]:
        """The source and target of each link."""
        return [(link.source, link.target) for link in self.links]

    @functools.cached_property
    def leaving(self) -> list[list[int]]:
        """For each node, the numbers of the links that leave it."""
        leaving: list[list[int]] = [[] for _ in range(self.nodes)]
        for number, link in enumerate(self.links):
            leaving[link.source].append(number)
        return leaving

    @functools.cached_property
    def entering(self) -> EnteringLinks:
        """For each node, the links that lead to it: their sources, costs, and numbers."""
        entering: EnteringLinks = [[] for _ in range(self.nodes)]
        for number, link in enumerate(self.links):
            entering[link.target].append((link.source, link.cost, number))
        return entering

    def is_switch(self, node: int) -> bool:
        """Whether a node is a switch."""
        return node >= self.size

    def paths_to(self, destination: int, through_npus: bool, entering: EnteringLinks | None = None) -> dict[int, tuple[int, int]]:
        """For each node with a path to a destination, nearest first: the cost of the cheapest, and the number of its first link.

        `through_npus`: whether NPUs forward; `entering`: the links that may be used (default: all).
        """
        links = self.entering if entering is None else entering

        def usable(node: int) -> Sequence[tuple[int, int, int]]:
            return links[node] if through_npus or node == destination or self.is_switch(node) else ()

        return paths_to(destination, usable)


@attrs.frozen(eq=False, repr=False)
class Fabric(ValueObject):
    """NPUs 0 to `npus` - 1, switches from `npus` on, and links between them, each one way.

    The ports of a node are the links that leave it, in the order of `links`: on an NPU these are its NICs. `switch_latency_ns` is the time
    that each switch takes to forward, `ids` the number that each node has in the file it comes from (else its own).
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

    def link_ends(self, link: int) -> tuple[int, str, str]:
        """The dimension of a link and the names of its ends, with which a `LinkLoad` begins."""
        at = self.links[link]
        return at.dimension, self.name(at.source), self.name(at.target)

    def ports(self) -> list[list[int]]:
        """For each node, the numbers of the links that leave it, in order."""
        return self.graph.leaving

    def reverses(self) -> list[int]:
        """For each link, the number of the one back: of several between two nodes the k-th belongs to the k-th (`UNREACHABLE`: none)."""
        between: dict[tuple[int, int], list[int]] = {}
        for number, link in enumerate(self.links):
            between.setdefault((link.source, link.target), []).append(number)
        reverse = [UNREACHABLE] * len(self.links)
        for (source, target), numbers in between.items():
            # Parallel links are paired in order, so that no link back belongs to two.
            for number, back in zip(numbers, between.get((target, source), ()), strict=False):
                reverse[number] = back
        return reverse

    def distances(self, destination: int, through_npus: bool) -> list[int]:
        """The cost of the cheapest path from each node to a destination, if links cost 1 the number of links; or `UNREACHABLE`.

        `through_npus`: whether NPUs forward.
        """
        distance = [UNREACHABLE] * self.nodes
        for node, (cost, _) in self.graph.paths_to(destination, through_npus).items():
            distance[node] = cost
        return distance

    def scaled(self, bandwidth: float, latency: float) -> Fabric:
        """The fabric with links of `bandwidth` and `latency` times their own."""
        links = (link._replace(bandwidth=link.bandwidth * bandwidth, latency_ns=link.latency_ns * latency) for link in self.links)
        return attrs.evolve(self, links=tuple(links))

    @functools.cached_property
    def graph(self) -> DimensionGraph:
        """The graph by which routes are found, of NPUs and switches as those of one dimension."""
        return DimensionGraph(self.npus, self.nodes, self.links)


def node_number(name: str, npus: int) -> int:
    """The number of a node of a fabric of `npus` NPUs, by the name that `Fabric.name` gives it. Raises ValueError for another name."""
    kind, _, number = name.rpartition(" ")
    if kind not in ("NPU", "switch"):
        raise ValueError(f"{name!r} is no node; expected 'NPU N' or 'switch N'")
    return int(number) + (npus if kind == "switch" else 0)


def wires_of(dimension: Dimension, where: str) -> list[FabricLink]:
    """The links of one group of a dimension, by positions and switches of the topology. Raises InputError, naming `where`.

    A topology without links, and an impossible link, are errors.
    """
    topology = dimension.topology
    wires = topology.wires()
    listed = topology.links() if wires is None else None
    if wires is not None:
        links = [_of_wire(Wire(*wire), dimension) for wire in wires]
    elif listed is not None:
        links = [_of_entry(entry) for entry in listed]
    else:
        raise InputError(f"{where}: topology {topology.name!r} does not list its links (it has no method wires() or links())")
    for link in links:
        possible = 0 < link.bandwidth <= LARGEST_BANDWIDTH and link.latency_ns >= 0 and 0 <= link.error_rate <= 1
        if min(link.source, link.target) < 0 or link.source == link.target or not possible:
            raise InputError(
                f"{where}: topology {topology.name!r} has a link from node {link.source} to node {link.target} of {link.bandwidth} bytes/ns"
                f" and {link.latency_ns} ns; expected two nodes, a bandwidth above 0 and at most {LARGEST_BANDWIDTH:.0e},"
                " and a latency of at least 0"
            )
        if not 1 <= link.cost <= LARGEST_COST:
            raise InputError(
                f"{where}: topology {topology.name!r} has a link of cost {link.cost} from node {link.source} to node {link.target};"
                f" expected 1 to {LARGEST_COST}"
            )
    return links


def names_routes(dimension: Dimension) -> bool:
    """Whether the topology of a dimension names its routes (`next_links`)."""
    return dimension.size > 1 and dimension.topology.next_links(0, 1) is not None


def next_links_of(dimension: Dimension, where: str) -> list[tuple[int, ...]] | None:
    """The routes that the topology of a dimension names (`next_links`): links by node * size + destination; None if it names none.

    Nodes from which it names no link to a destination have an empty entry, and no route of an NPU may lead to one. Raises InputError,
    naming `where`, for a link that does not leave its node, a route that ends elsewhere, and one that comes back to a node.
    """
    topology = dimension.topology
    if not names_routes(dimension):
        return None
    links, size = wires_of(dimension, where), dimension.size
    nodes = max([size, *(max(link.source, link.target) + 1 for link in links)])
    text = f"{where}: topology {topology.name!r}: next_links"
    table: list[tuple[int, ...]] = [()] * (nodes * size)
    for node in range(nodes):
        for destination in range(size):
            if node == destination:
                continue
            entry = table[node * size + destination] = tuple(topology.next_links(node, destination) or ())
            for link in entry:
                if not isinstance(link, int) or not 0 <= link < len(links) or links[link].source != node:
                    raise InputError(f"{text}({node}, {destination}) has {link!r}; expected numbers of links that leave node {node}")
    for destination in range(size):
        # Depth-first, on a stack of its own: on a line of a thousand switches recursion would be too deep.
        # Routes from nodes in `done` are known to end.
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
    """The fabric of a platform's dimensions. Raises InputError if one has no links, or there are too many."""
    if platform.npus > LARGEST_FABRIC:
        raise InputError(f"the platform has {platform.npus} NPUs; expected at most {LARGEST_FABRIC}, the most whose links can be listed")
    links: list[FabricLink] = []
    latencies: list[float] = []
    ids = list(range(platform.npus))
    for number, dimension in enumerate(platform.dimensions):
        wires = wires_of(dimension, f"dimension {number}")
        nodes = max([dimension.size, *(max(link.source, link.target) + 1 for link in wires)])
        groups = [npu for npu in range(platform.npus) if platform.coordinate(npu, number) == 0]
        if len(links) + len(wires) * len(groups) > LARGEST_FABRIC:
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
                for link in wires
            ]
    ids += range(platform.npus, platform.npus + len(latencies))
    known = platform.dimensions[0].topology.node_ids
    if len(platform.dimensions) == 1 and len(known) == len(ids):
        ids = list(known)
    return Fabric(platform.npus, len(latencies), tuple(links), tuple(latencies), tuple(ids))


def _of_entry(entry: Sequence[Any]) -> FabricLink:
    link = FabricLink(*map(int, entry[:2]), *map(float, entry[2:5]))
    return link._replace(cost=int(entry[5])) if len(entry) > 5 else link


def _of_wire(wire: Wire, dimension: Dimension) -> FabricLink:
    bandwidth, latency = dimension.link_bandwidth * wire.width, dimension.link_latency_ns * wire.length
    return FabricLink(wire.source, wire.target, bandwidth, latency, cost=wire.cost)
