"""The directed links of a platform, and the routes of messages over them.

A dimension is a small graph: nodes 0 to `size` - 1 are the NPUs of a group in order, further nodes are switches. Every group of NPUs
that differ in that dimension only has links of its own. `native/link_map.hpp` is the same in C++.
"""

from __future__ import annotations

import attrs
from astra_sim import InputError
from astra_sim.fabric import FabricLink
from astra_sim.fabric.graph import DimensionGraph, uniform_links_of
from astra_sim.fabric.routes import DestinationRoutes, check_connected, dimension_graph
from astra_sim.platform import Dimension, Platform

RING, FULLY_CONNECTED, SWITCH, TABLE = range(4)
LARGEST_FULLY_CONNECTED = 1 << 15


@attrs.frozen(eq=False)
class DimensionLinks:
    """The links of one group of a dimension, and the next link of the route from a node to a position.

    `bandwidth` (bytes per nanosecond) and `latency_ns` hold a figure for every link, or one for all. The other two latencies
    are those of a network interface, if a message enters and leaves the dimension, and of a switch that it leaves. If `shape` is
    TABLE, routes and the ends of links are those of a graph; else they follow from the shape.
    """

    shape: int
    size: int
    links: int
    bandwidth: tuple[float, ...]
    latency_ns: tuple[float, ...]
    nic_latency_ns: float
    router_latency_ns: float
    graph: DimensionGraph | None = None
    _routes: DestinationRoutes | None = None

    def next_link(self, node: int, destination: int) -> int:
        """The link on which a message leaves `node` for a position. In a ring it takes the shorter direction; upwards in a tie."""
        if self.shape == RING:
            ahead = (destination - node) % self.size
            return node if 2 * ahead <= self.size else self.size + node
        if self.shape == FULLY_CONNECTED:
            return node * self.size + destination
        if self.shape == SWITCH:
            return node if node < self.size else self.size + destination
        assert self._routes is not None
        return self._routes.next_link(node, destination)

    def source(self, link: int) -> int:
        """The source node of a link."""
        if self.shape == RING:
            return link % self.size
        if self.shape == FULLY_CONNECTED:
            return link // self.size
        if self.shape == SWITCH:
            return min(link, self.size)
        return self.listed(link).source

    def target(self, link: int) -> int:
        """The target node of a link."""
        if self.shape == RING:
            return (link + 1) % self.size if link < self.size else (link - 1) % self.size
        if self.shape == FULLY_CONNECTED:
            return link % self.size
        if self.shape == SWITCH:
            return self.size if link < self.size else link - self.size
        return self.listed(link).target

    def listed(self, link: int) -> FabricLink:
        """A link of a graph."""
        assert self.graph is not None
        return self.graph.links[link]

    def row(self) -> tuple[object, ...]:
        """The links as the core takes them."""
        graph = self.graph
        listed = graph and (
            graph.nodes,
            [(link.source, link.target, link.cost) for link in graph.links],
            list(graph.destination_order or ()),
            graph.named or [],
        )
        return (*attrs.astuple(self, recurse=False)[:7], listed)

    @property
    def switches(self) -> int:
        """The number of switches of a group."""
        return self.graph.nodes - self.size if self.graph is not None else int(self.shape == SWITCH)

    def real_links(self) -> int:
        """The number of links of a group. In a fully connected one, the numbers of links from an NPU to itself are not links."""
        return self.links - self.size if self.shape == FULLY_CONNECTED else self.links

    def bandwidth_of(self, link: int) -> float:
        """Bytes per nanosecond of a link."""
        return self.bandwidth[link if len(self.bandwidth) > 1 else 0]

    def latency_of(self, link: int) -> float:
        """Nanoseconds of a link."""
        return self.latency_ns[link if len(self.latency_ns) > 1 else 0]


class LinkMap:
    """All links of a platform, numbered: dimension by dimension, group by group. Raises InputError if a topology lists no links."""

    def __init__(self, platform: Platform) -> None:
        self.platform = platform
        self.dimensions = [_links(dimension, f"dimension {number}") for number, dimension in enumerate(platform.dimensions)]
        self._first_link, self._first_switch, self._switches = [], [], []
        self.links = switches = 0
        for links in self.dimensions:
            groups = platform.npus // links.size
            self._switches.append(links.switches)
            self._first_link.append(self.links)
            self._first_switch.append(switches)
            self.links += links.links * groups
            switches += self._switches[-1] * groups

    def number(self, npu: int, dimension: int, link: int) -> int:
        """The number of a link of a dimension, in the group to which an NPU belongs."""
        stride, size = self.platform.strides[dimension], self.dimensions[dimension].size
        group = npu % stride + npu // (stride * size) * stride
        return self._first_link[dimension] + group * self.dimensions[dimension].links + link

    def place(self, number: int) -> tuple[int, int, int]:
        """The dimension and group of a link, and its number in the group."""
        dimension = max(index for index, first in enumerate(self._first_link) if first <= number)
        group, link = divmod(number - self._first_link[dimension], self.dimensions[dimension].links)
        return dimension, group, link

    def node_name(self, dimension: int, group: int, node: int) -> str:
        """The name of a node in the fabric of the platform."""
        stride, size = self.platform.strides[dimension], self.dimensions[dimension].size
        if node >= size:
            return f"switch {self._first_switch[dimension] + group * self._switches[dimension] + node - size}"
        return f"NPU {group % stride + (group // stride * size + node) * stride}"


def _links(dimension: Dimension, where: str) -> DimensionLinks:
    """The links of a dimension as the core numbers them. Raises InputError if congestion=aware cannot have them."""
    topology, size = dimension.topology, dimension.size
    if dimension.hbm_scale:
        raise InputError(f"{where}: hbm_scale is {dimension.hbm_scale}; expected 0: congestion=aware has no memory behind the links")
    interfaces = dimension.nic_latency_ns, dimension.router_latency_ns
    latency = (float(dimension.link_latency_ns),)
    uniform = uniform_links_of(dimension)
    pattern, together = (None, ()) if uniform is None else (uniform.pattern, (dimension.link_bandwidth * uniform.width,))
    if pattern == "ring":
        return DimensionLinks(RING, size, 2 * size, together, latency, *interfaces)
    if topology.links_per_message() < 1:
        raise InputError(f"{where}: {dimension.links} links are too few for a message to use one")
    if pattern == "fully_connected":
        if size > LARGEST_FULLY_CONNECTED:
            raise InputError(f"{where}: {size} fully connected NPUs have too many links; expected at most {LARGEST_FULLY_CONNECTED}")
        return DimensionLinks(FULLY_CONNECTED, size, size * size, together, latency, *interfaces)
    if pattern == "switch":
        return DimensionLinks(SWITCH, size, 2 * size, together, latency, *interfaces)
    return _table(dimension, where)


def _table(dimension: Dimension, where: str) -> DimensionLinks:
    """The links that a topology lists. A dimension of one NPU may have none."""
    graph = dimension_graph(dimension, where)
    check_connected(graph, f"{where}: topology {dimension.topology.name!r}")
    links = graph.links
    return DimensionLinks(
        shape=TABLE,
        size=dimension.size,
        links=len(links),
        bandwidth=tuple(link.bandwidth for link in links) or (dimension.link_bandwidth,),
        latency_ns=tuple(link.latency_ns for link in links) or (float(dimension.link_latency_ns),),
        nic_latency_ns=dimension.nic_latency_ns,
        router_latency_ns=dimension.router_latency_ns,
        graph=graph,
        routes=DestinationRoutes(graph),
    )
