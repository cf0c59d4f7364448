"""Topologies with links of their own: torus, mesh, fat tree, dragonfly.

A topology here is a graph: positions of the dimension come first, switches after them. `hops` serves networks that count links only.
"""

from __future__ import annotations

import collections
import heapq
import math
from collections.abc import Callable, Sequence
from typing import Any

import attrs
from astra_sim import InputError, option
from astra_sim.fabric import Wire, both_ways
from astra_sim.platform import Dimension, Preset, Topology, bytes_per_ns
from astra_sim.schedule import Peer

MAX_POSITIONS = 4096


@attrs.frozen
class Graph(Topology):
    """Positions 0 to size - 1 are NPUs' routers, the following ones switches."""

    name: str
    size: int
    switches: int
    edges: tuple[Wire, ...] = attrs.field(repr=False)
    symmetric: Callable[[Peer], bool] | None = attrs.field(default=None, repr=False, eq=False)
    _leaving: list[list[Wire]] = attrs.field(init=False, repr=False, eq=False)
    _is_even: bool = attrs.field(init=False, repr=False, eq=False)
    _rows: dict[int, list[int]] = attrs.field(factory=dict, init=False, repr=False, eq=False)

    @_is_even.default
    def _(self) -> bool:
        return len({link.cost for link in self.edges}) < 2

    @_leaving.default
    def _(self) -> list[list[Wire]]:
        leaving: list[list[Wire]] = [[] for _ in range(self.size + self.switches)]
        for link in self.edges:
            leaving[link.source].append(link)
        return leaving

    def hops(self, source: int, destination: int) -> int:
        """Links of a route of least cost."""
        return self._distances(source)[destination]

    def is_symmetric(self, peer: Peer) -> bool:
        """True if the topology is known to be symmetric."""
        return self.symmetric is not None and self.symmetric(peer)

    def links_per_message(self) -> int:
        """One: a message takes one route."""
        return 1

    def links_per_npu(self) -> int:
        """The links that leave the busiest NPU's router."""
        counts = collections.Counter(link.source for link in self.edges if link.source < self.size)
        return max(counts.values(), default=0)

    def link_count(self) -> int:
        """The number of links."""
        return len(self.edges)

    def wires(self) -> list[Wire]:
        """The links."""
        return list(self.edges)

    def _distances(self, source: int) -> list[int]:
        """The number of links from a node to each other node, on the route of least cost, and of these with the fewest links; -1: no route.

        Computed at the first call for a source: link by link if all cost the same, else by Dijkstra's algorithm.
        """
        if source not in self._rows and self._is_even:
            self._rows[source] = self._links_away(source)
        if source not in self._rows:
            distances = self._rows[source] = [-1] * len(self._leaving)
            queue = [(0, 0, source)]
            while queue:
                cost, hops, place = heapq.heappop(queue)
                if distances[place] >= 0:
                    continue
                distances[place] = hops
                for link in self._leaving[place]:
                    if distances[link.target] < 0:
                        heapq.heappush(queue, (cost + link.cost, hops + 1, link.target))
        return self._rows[source]

    def _links_away(self, source: int) -> list[int]:
        """The fewest links from a node to each other node."""
        distances = [-1] * len(self._leaving)
        distances[source] = links = 0
        reached = [source]
        while reached:
            links += 1
            new = []
            for node in reached:
                for link in self._leaving[node]:
                    if distances[link.target] < 0:
                        distances[link.target] = links
                        new.append(link.target)
            reached = new
        return distances

    def check(self) -> None:
        """Raise InputError if some NPU cannot reach another."""
        for source in range(self.size):
            distances = self._distances(source)
            for destination in range(self.size):
                if distances[destination] < 0:
                    raise InputError(f"{self.name}: there is no route from position {source} to position {destination}; check the links")


@attrs.frozen
class SwitchTree(Graph):
    """A graph whose positions are numbered leaf by leaf, with several paths of equal cost up."""

    def destination_order(self) -> Sequence[int]:
        """NPUs spread over paths of equal cost in their order, which is that of their leaves."""
        return range(self.size)


@attrs.frozen
class LinkOptions:
    """Options that all links of a dimension share. Bandwidth in one of two units."""

    link_bandwidth_gb_per_s: float | None = option(None, above=0, help="bandwidth of a link and direction", unit="10^9 bytes/s")
    link_bandwidth_gib_per_s: float | None = option(None, above=0, help="the same, as ASTRA-sim counts", unit="2^30 bytes/s")
    link_latency_ns: float = option(0.0, minimum=0, help="latency of a link", unit="ns")
    nic_latency_ns: float = option(0.0, minimum=0, help="latency of a network interface, at either end", unit="ns")

    def bandwidth(self) -> float:
        """The bandwidth of a link and direction (bytes/ns). Raises InputError unless it is given once."""
        result = self.link_bandwidth_gb_per_s, self.link_bandwidth_gib_per_s
        if (result[0] is None) == (result[1] is None):
            raise InputError("exactly one of link_bandwidth_gb_per_s and link_bandwidth_gib_per_s must be given")
        return float(result[0]) if result[0] is not None else bytes_per_ns(result[1])  # type: ignore[arg-type]

    def dimension(self, graph: Any, size: int) -> Dimension:
        """A dimension with these links. Raises InputError."""
        return Dimension(
            topology=graph,
            size=size,
            links=graph.links_per_npu(),
            link_bandwidth=self.bandwidth(),
            link_latency_ns=self.link_latency_ns,
            nic_latency_ns=self.nic_latency_ns,
        )


def check_size(name: str, size: int) -> None:
    """Raise InputError if a topology has too many positions. Called before its links are listed."""
    if size > MAX_POSITIONS:
        raise InputError(f"a {name} of {size} NPUs; expected at most {MAX_POSITIONS}")


def pair(a: int, b: int, length: float = 1.0, cost: int = 1, order: int = -1) -> list[Wire]:
    """Two links, one in each direction."""
    return both_ways([Wire(source=a, target=b, width=1.0, length=length, cost=cost, order=order)])


# -- Torus ---------------------------------------------------------------------------------------------------------------


@attrs.frozen
class TorusOptions:
    """Options of a torus."""

    sizes: tuple[int, ...] = option(minimum=1, help="NPUs along each dimension")
    links: int = option(2, minimum=2, help="links of each NPU in each dimension")
    link_bandwidth_gb_per_s: float | None = option(None, above=0, help="bandwidth of a link and direction", unit="10^9 bytes/s")
    link_bandwidth_gib_per_s: float | None = option(None, above=0, help="the same, as ASTRA-sim counts", unit="2^30 bytes/s")
    link_latency_ns: float = option(0.0, minimum=0, help="latency of a link", unit="ns")
    both_ways: bool = option(False, help="as for a ring")


def torus(options: TorusOptions) -> Preset:
    """A ring in every dimension."""
    if not options.sizes:
        raise InputError("sizes is empty; a torus needs at least one dimension")
    shared = {key: value for key, value in attrs.asdict(options).items() if key != "sizes" and value is not None}
    return Preset(tuple({"topology": "ring", "size": size, **shared} for size in options.sizes), "")


# -- Mesh ----------------------------------------------------------------------------------------------------------------


@attrs.frozen
class MeshOptions(LinkOptions):
    """Options of a mesh."""

    sizes: tuple[int, ...] = option(minimum=1, help="NPUs along each dimension")


def mesh(options: MeshOptions) -> list[Dimension]:
    """NPUs in lines of several dimensions, links both ways between neighbours."""
    if not options.sizes:
        raise InputError("sizes is empty; a mesh needs at least one dimension")
    dimensions = []
    for size in options.sizes:
        check_size("mesh", size)
        links = [link for place in range(size - 1) for link in pair(place, place + 1)]
        dimensions.append(options.dimension(Graph("mesh", size, 0, tuple(links)), size))
    return dimensions


# -- Fat tree ------------------------------------------------------------------------------------------------------------


@attrs.frozen
class FatTreeOptions(LinkOptions):
    """Options of a fat tree (k-ary n-tree): arity ** levels NPUs, the same bandwidth at every level."""

    arity: int = option(minimum=2, maximum=1024, help="NPUs of an edge switch; links down, and up, of every switch")
    levels: int = option(minimum=1, maximum=12, help="levels of switches")


def fat_tree(options: FatTreeOptions) -> list[Dimension]:
    """Switch w of level l is joined to the switches of level l + 1 whose numbers equal w but for digit l (Petrini and Vanneschi)."""
    arity, levels = options.arity, options.levels
    size = arity**levels
    check_size("fat tree", size)
    per_level = arity ** (levels - 1)
    links = [link for npu in range(size) for link in pair(npu, size + npu // arity)]
    for level in range(levels - 1):
        stride = arity**level
        for word in range(per_level):
            base = word - word // stride % arity * stride
            for digit in range(arity):
                links += pair(size + level * per_level + word, size + (level + 1) * per_level + base + digit * stride)
    graph = SwitchTree(
        "fat_tree", size, levels * per_level, tuple(links), lambda peer: peer.operator == "xor" and math.log2(arity).is_integer()
    )
    return [options.dimension(graph, size)]


# -- Dragonfly -----------------------------------------------------------------------------------------------------------


@attrs.frozen
class DragonflyOptions(LinkOptions):
    """Options of a dragonfly (Kim et al. 2008): groups of fully connected routers, the groups fully connected by global links."""

    routers: int = option(minimum=1, maximum=256, help="routers of a group (a)")
    npus: int = option(1, minimum=1, maximum=256, help="NPUs of a router (p)")
    global_links: int = option(1, minimum=1, maximum=256, help="links of a router to other groups (h)")
    groups: int | None = option(None, minimum=1, maximum=4096, help="groups (g); default: routers * global_links + 1")
    global_latency_factor: float = option(1.0, above=0, help="latency of global links, in latencies of a link")


def dragonfly(options: DragonflyOptions) -> list[Dimension]:
    """A dragonfly with minimal routes: one global link at most. Global links go round robin over the routers of a group.

    On the links of a group, packets that have come by a global link use another class of virtual channels than those that have not.
    """
    a, p, h = options.routers, options.npus, options.global_links
    groups = options.groups if options.groups is not None else a * h + 1
    if groups - 1 > a * h:
        raise InputError(f"groups is {groups}; {a} routers with {h} global links reach at most {a * h + 1} groups")
    size = groups * a * p
    check_size("dragonfly", size)
    links: list[Wire] = []
    for router in range(groups * a):
        for npu in range(p):
            links += [Wire(router * p + npu, size + router, order=0), Wire(size + router, router * p + npu, order=3)]
        group = router // a
        for other in range(router + 1, (group + 1) * a):
            links += pair(size + router, size + other, order=1)
    for first in range(groups):
        for second in range(first + 1, groups):
            near, far = (second - first - 1) % (a * h), (groups - 2 - (second - first - 1)) % (a * h)
            ends = size + first * a + near // h, size + second * a + far // h
            # Two global links cost more than one global link and a link of the group at either end of it.
            links += pair(*ends, length=options.global_latency_factor, cost=3, order=2)
    return [options.dimension(Graph("dragonfly", size, groups * a, tuple(links)), size)]
