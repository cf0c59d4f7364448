"""A platform as routers and links: every NPU has a router, every dimension adds links and perhaps switches."""

from __future__ import annotations

import collections
from collections.abc import Sequence

from astra_sim import InputError
from astra_sim.fabric import Wire
from astra_sim.platform import Dimension, Platform

from astra_sim_network_packet._core import Network, Shape, VnetChoice
from astra_sim_network_packet.links import graph_of, link_count
from astra_sim_network_packet.options import Settings

MAX_CLOCK_RATIO = 1_000_000
MAX_CHANNELS = 2_000_000
MAX_NPUS = 1 << 20


def check_size(platform: Platform) -> None:
    """Raise InputError if a platform has too many NPUs or links for flits. Only the sizes of its dimensions are used."""
    if platform.npus > MAX_NPUS:
        raise InputError(f"the platform has {platform.npus} NPUs, too many for flits; expected at most {MAX_NPUS}")
    links = sum(link_count(dimension) * (platform.npus // dimension.size) for dimension in platform.dimensions)
    if links > MAX_CHANNELS:
        raise InputError(f"the platform has {links} links, too many for flits; expected at most {MAX_CHANNELS}")


def clock_of(settings: Settings, platform: Platform) -> int:
    """The cycle in picoseconds: that of the options, or the time of a flit on the widest link."""
    if settings.clock_ps:
        return settings.clock_ps
    times = [
        settings.flit_bytes / (link.width * dimension.link_bandwidth) * 1000
        for dimension in platform.dimensions
        for link in graph_of(dimension)[1]
        if link.width > 0
    ]
    return max(1, round(min(times, default=1000.0)))


def shape_of(platform: Platform, settings: Settings, lanes_by_dimension: bool = True) -> Shape:
    """The whole platform as one domain.

    An interface has a virtual network for each dimension, or only one, and lanes for each. A message uses the virtual network of
    the last dimension in which its source and destination differ. Raises InputError.
    """
    check_size(platform)
    dimensions = platform.dimensions
    vnets = len(dimensions) if lanes_by_dimension else 1
    clock_ps = clock_of(settings, platform)
    longest = max((d.link_latency_ns * link.length for d in dimensions for link in graph_of(d)[1]), default=0.0)
    coordinates = [[platform.coordinate(npu, d) for d in range(len(dimensions))] for npu in range(platform.npus)]
    graphs = [graph_of(dimension) for dimension in dimensions]
    first_switch: list[dict[int, int]] = []
    groups = [[npu for npu in range(platform.npus) if platform.coordinate(npu, d) == 0] for d in range(len(dimensions))]
    for d, (switches, _, _) in enumerate(graphs):
        first_switch.append({})
        for npu in groups[d]:
            first_switch[d][npu] = len(coordinates)
            for _ in range(switches):
                place = list(coordinates[npu])
                place[d] = -1
                coordinates.append(place)
    if sum(len(links) * len(groups[d]) for d, (_, links, _) in enumerate(graphs)) > MAX_CHANNELS:
        raise InputError(f"the platform has more than {MAX_CHANNELS} links, too many for flits")
    dividers = settings.dividers(len(coordinates))
    rules = settings.rules(vnets, clock_ps)
    shape = Shape.make(rules, coordinates, [dimension.size for dimension in dimensions], list(range(platform.npus)))
    time = _Time(settings, clock_ps)
    ports = _Ports(len(coordinates))
    for d, (_, links, ring) in enumerate(graphs):
        dimension = dimensions[d]
        for npu in groups[d]:
            for link in links:
                ends = [
                    npu + place * platform.strides[d] if place < dimension.size else first_switch[d][npu] + place - dimension.size
                    for place in (link.source, link.target)
                ]
                shape.add_channel(
                    {
                        **time.link(dimension, link),
                        **ports.between(*ends),
                        "source": ends[0],
                        "sink": ends[1],
                        "dimension": d,
                        "first_vnet": d if lanes_by_dimension else 0,
                        "vnets": vnets - d if lanes_by_dimension else 1,
                        "cost": link.cost,
                        "ring": ring,
                        "order": link.order,
                        "name": " to ".join(f"NPU {end}" if end < platform.npus else f"switch {end - platform.npus}" for end in ends),
                    }
                )
    lanes = _lanes(platform, [links for _, links, _ in graphs], settings.interface_lanes, lanes_by_dimension)
    for npu in range(platform.npus):
        for vnet in range(vnets):
            ends_of = time.interface(dimensions[vnet] if lanes_by_dimension else None)
            for _ in range(lanes[npu][vnet]):
                out, back = ports.between(npu, npu), ports.between(npu, npu)
                shape.add_lane(
                    npu,
                    vnet,
                    {**ends_of, **out, "first_vnet": vnet, "name": f"interface of NPU {npu}"},
                    {**ends_of, **back, "first_vnet": vnet, "name": f"interface at NPU {npu}"},
                )
    shape.set_dividers(dividers)
    try:
        shape.make_routes()
    except ValueError as error:
        raise InputError(str(error)) from None
    settings = settings.sized(2000 * longest / clock_ps + 8 * (max(dividers) - 1), max(shape.vc_classes))
    _check_classes(platform, settings, shape.vc_classes)
    shape.finish(settings.vcs)
    return shape


def _lanes(platform: Platform, links: Sequence[Sequence[Wire]], lanes: int, by_dimension: bool) -> list[list[int]]:
    """For each NPU, the lanes of its interface by dimension (or in all): `lanes`, or one for each link if it is 0. Raises InputError."""
    virtual_networks = len(links) if by_dimension else 1
    if lanes:
        lanes_of = [[lanes] * virtual_networks for _ in range(platform.npus)]
    else:
        leaving = [collections.Counter(link.source for link in of_dimension) for of_dimension in links]
        lanes_of = []
        for npu in range(platform.npus):
            counts = [count[platform.coordinate(npu, d)] for d, count in enumerate(leaving)]
            lanes_of.append([max(1, count) for count in (counts if by_dimension else [sum(counts)])])
    if sum(map(sum, lanes_of)) > MAX_CHANNELS:
        raise InputError(f"the interfaces have more than {MAX_CHANNELS} lanes, too many for flits; expected a smaller interface_lanes")
    return lanes_of


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
    lanes_by_dimension = settings.allocation == "combined"
    vnets = len(platform.dimensions) if lanes_by_dimension else 1
    network = Network(platform.npus, vnets, vnet_choice(platform, lanes_by_dimension), clock_of(settings, platform), True)
    network.add_domain(shape, list(range(platform.npus)))
    return network


def vnet_choice(platform: Platform, lanes_by_dimension: bool) -> VnetChoice:
    """A message uses the virtual network of the last dimension in which its ends differ, or the only one there is."""
    if not lanes_by_dimension:
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
