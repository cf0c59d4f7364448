"""A platform as routers and links: every NPU has a router, every dimension adds links and perhaps switches."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence

from astra_sim import InputError
from astra_sim.fabric import Wire
from astra_sim.fabric.destination_order import destination_order_of
from astra_sim.fabric.graph import next_links_of
from astra_sim.limits import MAX_EVENT_NPUS
from astra_sim.platform import Dimension, Platform

from astra_sim_network_packet import quotient
from astra_sim_network_packet._core import Network, QuotientNetwork, Shape, VnetChoice
from astra_sim_network_packet.links import graph_of, link_count
from astra_sim_network_packet.options import Settings

MAX_CLOCK_RATIO = 1_000_000
MAX_CHANNELS = 2_000_000


def check_size(platform: Platform) -> None:
    """Raise InputError if a platform has too many NPUs or links for flits. Only the sizes of its dimensions are used."""
    if platform.npus > MAX_EVENT_NPUS:
        raise InputError(f"the platform has {platform.npus} NPUs, too many for flits; expected at most {MAX_EVENT_NPUS}")
    links = sum(link_count(dimension) * (platform.npus // dimension.size) for dimension in platform.dimensions)
    if links > MAX_CHANNELS:
        raise InputError(f"the platform has {links} links, too many for flits; expected at most {MAX_CHANNELS}")


def clock_of(settings: Settings, platform: Platform, collapsed: Sequence[bool] = ()) -> int:
    """The cycle in picoseconds: that of the options, or the time of a flit on the widest link."""
    if settings.clock_ps:
        return settings.clock_ps
    times = [
        settings.flit_bytes / (link.width * dimension.link_bandwidth) * 1000
        for dimension, (_, links, _) in zip(platform.dimensions, _graphs(platform, collapsed), strict=True)
        for link in links
        if link.width > 0
    ]
    return max(1, round(min(times, default=1000.0)))


def _graphs(platform: Platform, collapsed: Sequence[bool] = ()) -> list[tuple[int, Sequence[Wire], bool]]:
    """The links of each dimension from `graph_of`; of quotients the links that represent others."""
    by_dimension = zip(platform.dimensions, collapsed or (False,) * len(platform.dimensions), strict=True)
    return [quotient.quotient_graph(d) if is_collapsed else graph_of(d) for d, is_collapsed in by_dimension]


class Layout:
    """Routers of a platform, or of a quotient: those of its `nodes`, then the switches of each dimension. `coordinates`: positions."""

    def __init__(self, platform: Platform, collapsed: Sequence[bool] = ()) -> None:
        count = len(platform.dimensions)
        collapsed = collapsed or (False,) * count
        self._platform = platform
        self.graphs = _graphs(platform, collapsed)
        self.nodes = quotient.nodes_of(platform, collapsed)
        self._node_of = {npu: node for node, npu in enumerate(self.nodes)}
        self.coordinates = [[platform.coordinate(npu, d) for d in range(count)] for npu in self.nodes]
        self.groups = [[npu for npu in self.nodes if platform.coordinate(npu, d) == 0] for d in range(count)]
        self._first_switch: list[dict[int, int]] = []
        for d, (switches, _, _) in enumerate(self.graphs):
            self._first_switch.append({})
            for npu in self.groups[d]:
                self._first_switch[d][npu] = len(self.coordinates)
                for _ in range(switches):
                    place = list(self.coordinates[self._node_of[npu]])
                    place[d] = -1
                    self.coordinates.append(place)

    def link_count(self) -> int:
        """The number of links between routers."""
        return sum(len(links) * len(self.groups[d]) for d, (_, links, _) in enumerate(self.graphs))

    def links(self) -> Iterator[tuple[int, int, Wire, int, int]]:
        """Every link between routers: its dimension, its number in the graph of that, the link, and the routers at its ends."""
        for d, (_, links, _) in enumerate(self.graphs):
            for npu in self.groups[d]:
                for number, link in enumerate(links):
                    yield d, number, link, self._router(d, npu, link.source), self._router(d, npu, link.target)

    def named(self, d: int, table: Sequence[Sequence[int]], channels: Sequence[int]) -> list[list[int]]:
        """Routes that the topology of a dimension names, as channels of its links in order: by router * size + position."""
        size, width = self._platform.dimensions[d].size, len(self.graphs[d][1])
        rows: list[list[int]] = [[] for _ in range(len(self.coordinates) * size)]
        for group, npu in enumerate(self.groups[d]):
            for place in range(len(table) // size):
                first = self._router(d, npu, place) * size
                for wanted, links in enumerate(table[place * size : (place + 1) * size]):
                    rows[first + wanted] = [channels[group * width + link] for link in links]
        return rows

    def name(self, *ends: int) -> str:
        """The name of a link between routers."""
        nodes = self.nodes
        return " to ".join(f"NPU {nodes[end]}" if end < len(nodes) else f"switch {end - len(nodes)}" for end in ends)

    def _router(self, d: int, npu: int, place: int) -> int:
        size = self._platform.dimensions[d].size
        return self._node_of[npu + place * self._platform.strides[d]] if place < size else self._first_switch[d][npu] + place - size


def shape_of(platform: Platform, settings: Settings, ports_by_dimension: bool = True, collapsed: Sequence[bool] = ()) -> Shape:
    """The whole platform as one domain; with some dimensions collapsed, one position represents all of each.

    An interface has a virtual network for each dimension, or only one, and injection ports for each. A message uses the virtual network of
    the last dimension in which its source and destination differ. Raises InputError.
    """
    check_size(platform)
    dimensions = platform.dimensions
    vnets = len(dimensions) if ports_by_dimension else 1
    clock_ps = clock_of(settings, platform, collapsed)
    layout = Layout(platform, collapsed)
    of_dimensions = [(dimension, links) for dimension, (_, links, _) in zip(dimensions, layout.graphs, strict=True)]
    longest = max((dimension.link_latency_ns * link.length for dimension, links in of_dimensions for link in links), default=0.0)
    if layout.link_count() > MAX_CHANNELS:
        raise InputError(f"the platform has more than {MAX_CHANNELS} links, too many for flits")
    dividers = settings.dividers(len(layout.coordinates))
    rules = settings.rules(vnets, clock_ps)
    shape = Shape.make(rules, layout.coordinates, [dimension.size for dimension in dimensions], list(range(len(layout.nodes))))
    time = _Time(settings, clock_ps)
    ports = _Ports(len(layout.coordinates))
    quotient_input = _QuotientInput(platform, collapsed, len(layout.coordinates))
    channels: list[list[int]] = [[] for _ in dimensions]
    for d, number, link, source, sink in layout.links():
        channel = shape.add_channel(
            {
                **time.link(dimensions[d], link),
                **ports.between(source, sink),
                **quotient_input.of(d, number),
                "source": source,
                "sink": sink,
                "dimension": d,
                "first_vnet": d if ports_by_dimension else 0,
                "vnets": vnets - d if ports_by_dimension else 1,
                "cost": link.cost,
                "ring": layout.graphs[d][2],
                "order": link.order,
                "name": layout.name(source, sink),
            }
        )
        quotient_input.add(d, number, source, channel)
        channels[d].append(channel)
    injection_ports = _injection_ports(platform, layout, settings.injection_ports, ports_by_dimension)
    for node, npu in enumerate(layout.nodes):
        for vnet in range(vnets):
            ends_of = time.interface(dimensions[vnet] if ports_by_dimension else None)
            for _ in range(injection_ports[node][vnet]):
                out, back = ports.between(node, node), ports.between(node, node)
                shape.add_injection_port(
                    node,
                    vnet,
                    {**ends_of, **out, "first_vnet": vnet, "name": f"interface of NPU {npu}"},
                    {**ends_of, **back, "first_vnet": vnet, "name": f"interface at NPU {npu}"},
                )
    shape.set_dividers(dividers)
    quotient_input.apply(shape)
    for d, dimension in enumerate(dimensions):
        named = next_links_of(dimension, f"dimension {d}")
        if named is not None:
            shape.name_ways(d, layout.named(d, named, channels[d]))
        destination_order = destination_order_of(dimension.topology)
        # On irregular graphs destinations are spread so that links carry as much as each other.
        if destination_order is not None and not dimension.topology.irregular:
            shape.use_destination_order(d, destination_order)
    try:
        shape.make_routes()
    except ValueError as error:
        raise InputError(str(error)) from None
    settings = settings.sized(2000 * longest / clock_ps + 8 * (max(dividers) - 1), max(shape.vc_classes))
    _check_classes(platform, settings, shape.vc_classes)
    settings.finish(shape)
    return shape


class _QuotientInput:
    """Input of the core about collapsed dimensions: their links, and the next link for each offset of a destination."""

    def __init__(self, platform: Platform, collapsed: Sequence[bool], routers: int) -> None:
        self._sizes = [dimension.size for dimension in platform.dimensions]
        self._links = {d: quotient.quotient_links(platform.dimensions[d]) for d, is_collapsed in enumerate(collapsed) if is_collapsed}
        self._channels = {d: [-1] * (routers * self._sizes[d]) for d in self._links}

    def of(self, d: int, number: int) -> dict[str, object]:
        """The part of a channel's description."""
        if d not in self._links:
            return {}
        link = self._links[d][number]
        return {"offset_map": link.offset_map, "source_port_varies": link.source_port_varies, "sink_port_varies": link.sink_port_varies}

    def add(self, d: int, number: int, source: int, channel: int) -> None:
        """A channel has been added."""
        if d in self._links:
            for offset in self._links[d][number].offsets:
                self._channels[d][source * self._sizes[d] + offset] = channel

    def apply(self, shape: Shape) -> None:
        """Collapse the dimensions of a shape."""
        for d, channels in self._channels.items():
            shape.collapse(d, channels)


def _injection_ports(platform: Platform, layout: Layout, injection_ports: int, by_dimension: bool) -> list[list[int]]:
    """For each node, the injection ports of its interface by dimension (or in all).

    They are `injection_ports`, or one for each link if it is 0. Raises InputError.
    """
    links = [links for _, links, _ in layout.graphs]
    virtual_networks = len(links) if by_dimension else 1
    if injection_ports:
        injection_ports_of = [[injection_ports] * virtual_networks for _ in layout.nodes]
    else:
        leaving = [collections.Counter(link.source for link in of_dimension) for of_dimension in links]
        injection_ports_of = []
        for npu in layout.nodes:
            counts = [count[platform.coordinate(npu, d)] for d, count in enumerate(leaving)]
            injection_ports_of.append([max(1, count) for count in (counts if by_dimension else [sum(counts)])])
    if sum(map(sum, injection_ports_of)) * (platform.npus // len(layout.nodes)) > MAX_CHANNELS:
        raise InputError(f"more than {MAX_CHANNELS} injection ports, too many for flits; expected fewer (injection_ports)")
    return injection_ports_of


def _check_classes(platform: Platform, settings: Settings, classes: Sequence[int]) -> None:
    """Raise InputError if the chosen `deadlock_freedom` cannot keep this network free from deadlock."""
    for dimension, needed in zip(platform.dimensions, classes, strict=True):
        what = f"deadlock_freedom is {settings.deadlock_freedom!r}"
        where = f"the routes of a {dimension.topology.name} of {dimension.size} NPUs"
        if settings.deadlock_freedom == "bubble" and needed > 1:
            raise InputError(f"{what}, which is for rings, and {where} can wait for each other in a circle; expected 'dateline'")
        if settings.deadlock_freedom == "dateline" and needed > settings.vcs:
            raise InputError(
                f"{what}, and {where} need {needed} classes of virtual channels; vcs is {settings.vcs}, expected at least {needed}"
            )


def build(platform: Platform, settings: Settings, shape: Shape) -> Network:
    """An idle network of a shape."""
    ports_by_dimension = settings.allocation == "combined"
    vnets = len(platform.dimensions) if ports_by_dimension else 1
    network = Network(platform.npus, vnets, vnet_choice(platform, ports_by_dimension), clock_of(settings, platform), True)
    network.add_domain(shape, list(range(platform.npus)))
    return network


class Builder:
    """Makes networks of a platform: collapsed if that is possible, or whole. Raises InputError."""

    def __init__(self, platform: Platform, settings: Settings) -> None:
        self._platform = platform
        self._settings = settings
        self._by_dimension = settings.allocation == "combined"
        self._shapes: dict[tuple[bool, ...], Shape] = {}
        self._first = self._shape(quotient.collapsible(platform, settings))

    def network(self) -> Network | QuotientNetwork:
        """An idle network, collapsed as far as may be."""
        return self._make(self._first)

    def _shape(self, collapsed: Sequence[bool]) -> tuple[bool, ...]:
        """Make the shape in which these dimensions are collapsed, or the whole one if that would be another network. Returns which are."""
        result = tuple(collapsed)
        if result not in self._shapes:
            self._shapes[result] = shape_of(self._platform, self._settings, self._by_dimension, result)
        if any(result) and not self._shapes[result].expanded_routes_are_whole:
            return self._shape([False] * len(result))
        return result

    def _make(self, collapsed: Sequence[bool]) -> Network | QuotientNetwork:
        """A network in which these dimensions are collapsed, if that may be."""
        shape = self._shape(collapsed)
        if not any(shape):
            return self.whole()
        platform, exclusive_or = self._platform, quotient.by_exclusive_or(self._platform)
        sizes = [dimension.size for dimension in platform.dimensions]
        choice, clock_ps = vnet_choice(platform, self._by_dimension), clock_of(self._settings, platform, shape)
        return QuotientNetwork(self._shapes[shape], sizes, shape, exclusive_or, choice, clock_ps, self._make)

    def whole(self) -> Network:
        """An idle network with every router."""
        whole = self._shape([False] * len(self._platform.dimensions))
        return build(self._platform, self._settings, self._shapes[whole])

    def node(self, domain: int, router: int) -> int:
        """The node of the platform's fabric that a router is. Routers are numbered as nodes are."""
        return router

    def channels(self, collapsed: Sequence[bool], exclusive_or: Sequence[bool]) -> list[int]:
        """For every link between routers of the whole network, in order, the one of the quotient network that represents it."""
        result: list[int] = []
        first, strides = 0, self._platform.strides
        layout = Layout(self._platform, collapsed)
        for d, dimension in enumerate(self._platform.dimensions):
            links = list(range(len(layout.graphs[d][1])))
            if collapsed[d]:
                links = quotient.stands_for(dimension, graph_of(dimension)[1], exclusive_or[d])
            width = len(layout.graphs[d][1])
            block_of = {npu: [first + place * width + link for link in links] for place, npu in enumerate(layout.groups[d])}
            first += width * len(layout.groups[d])
            others = [number != d for number in range(len(strides))]
            for npu in quotient.nodes_of(self._platform, [not other for other in others]):
                total = sum(self._platform.coordinate(npu, e) * strides[e] for e in range(len(strides)) if not collapsed[e])
                result += block_of[total]
        return result

    def links(self) -> Iterator[tuple[int, str, int, int]]:
        """Every link between routers of the whole network, in order: its dimension, name, and the routers at its ends."""
        layout = Layout(self._platform)
        for d, _, _, source, sink in layout.links():
            yield d, layout.name(source, sink), source, sink


def vnet_choice(platform: Platform, ports_by_dimension: bool) -> VnetChoice:
    """A message uses the virtual network of the last dimension in which its ends differ, or the only one there is."""
    if not ports_by_dimension:
        return VnetChoice.single()
    return VnetChoice.by_last_dimension([(stride, d.size) for stride, d in zip(platform.strides, platform.dimensions, strict=True)])


class _Ports:
    """Ports of routers, numbered in the order in which they are joined."""

    def __init__(self, routers: int) -> None:
        self._inputs = [0] * routers
        self._outputs = [0] * routers

    def between(self, source: int, sink: int) -> dict[str, int]:
        """The next free output of one router and input of another."""
        self._outputs[source] += 1
        self._inputs[sink] += 1
        return {"source_port": self._outputs[source] - 1, "sink_port": self._inputs[sink] - 1}


class _Time:
    """Latencies and bandwidths in cycles and picoseconds."""

    def __init__(self, settings: Settings, clock_ps: int) -> None:
        self._settings = settings
        self._clock_ps = clock_ps

    def link(self, dimension: Dimension, link: Wire) -> dict[str, int]:
        """A link between routers. It takes a flit a cycle at most."""
        bandwidth = dimension.link_bandwidth * link.width
        if bandwidth <= 0:
            raise InputError(f"a {dimension.topology.name} of {dimension.size} NPUs has no link for a message; expected more links")
        flit_ps = max(self._clock_ps, round(self._settings.flit_bytes / bandwidth * 1000))
        if flit_ps > self._clock_ps * MAX_CLOCK_RATIO:
            slowest = f"a flit takes {flit_ps} ps on the slowest link"
            raise InputError(f"{slowest}; expected at most {MAX_CLOCK_RATIO} cycles of {self._clock_ps} ps")
        return {
            **self._latency(dimension.link_latency_ns * link.length),
            "flit_cycles": flit_ps // self._clock_ps,
            "flit_ps": flit_ps % self._clock_ps,
        }

    def interface(self, dimension: Dimension | None) -> dict[str, int]:
        """A link between an NPU and its router."""
        latency_ns = self._settings.options.interface_latency_ns
        if latency_ns is None and self._settings.allocation == "staged":
            latency_ns = self._clock_ps / 1000
        return {
            **self._latency(latency_ns if latency_ns is not None else dimension.nic_latency_ns if dimension is not None else 0.0),
            "flit_cycles": 1,
        }

    def _latency(self, nanoseconds: float) -> dict[str, int]:
        picoseconds = round(nanoseconds * 1000)
        if picoseconds > self._clock_ps * MAX_CLOCK_RATIO:
            raise InputError(f"a latency of {nanoseconds:g} ns is more than {MAX_CLOCK_RATIO} cycles of {self._clock_ps} ps")
        return {"latency_cycles": picoseconds // self._clock_ps, "latency_ps": picoseconds % self._clock_ps}
