"""Networks of Garnet's topologies, Torus3D and NV_Switch: their rings and switches as domains.

NPUs are numbered local, column, row, the first varying fastest. Every virtual network of a torus has rings of its own, so each ring is a
domain by itself; the switches of NV_Switch are shared by its package-level virtual networks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import attrs
from astra_sim import InputError
from astra_sim.platform import Topology

from astra_sim_network_packet._core import Network, Rules, Shape, VnetChoice
from astra_sim_network_packet.fabric import MAX_CHANNELS
from astra_sim_network_packet.options import Settings


@runtime_checkable
class PacketGarnetNetwork(Protocol):
    """The description of a network by a topology of Garnet. Widths in bits, latencies in cycles of 1 ns."""

    @property
    def topology(self) -> str:
        """Torus3D or NV_Switch."""
        ...

    @property
    def npus(self) -> int:
        """NPUs."""
        ...

    @property
    def sizes(self) -> tuple[int, int, int]:
        """NPUs of a package, packages of a row, rows."""
        ...

    @property
    def vnets(self) -> int:
        """Queues of the system layer, each a virtual network."""
        ...

    @property
    def local_rings(self) -> int:
        """Rings within a package, one way."""
        ...

    @property
    def vertical_rings(self) -> int:
        """Rings along a column, each way."""
        ...

    @property
    def horizontal_rings(self) -> int:
        """Rings along a row, each way; virtual networks for each switch."""
        ...

    @property
    def links_per_tile(self) -> int:
        """Switches."""
        ...

    @property
    def tile_link_width(self) -> int:
        """Width of the links of a local ring."""
        ...

    @property
    def package_link_width(self) -> int:
        """Width of the other links."""
        ...

    @property
    def local_link_latency(self) -> int:
        """Latency of links within a package."""
        ...

    @property
    def package_link_latency(self) -> int:
        """Latency of the other links."""
        ...


def garnet_network(topology: Topology) -> PacketGarnetNetwork | None:
    """The network of Garnet that a dimension belongs to; None for other topologies."""
    network = topology.network
    return network if isinstance(network, PacketGarnetNetwork) else None


class GarnetLink(NamedTuple):
    """A link between routers, for one virtual network or (-1) for those of a switch."""

    source: int
    sink: int
    vnet: int
    local: bool


class GarnetPorts:
    """Numbers of ports: first those of interfaces, then as many idle ones, then links in the order of the routers at their other end."""

    def __init__(self, links: Sequence[GarnetLink], nodes: int, vnets: int) -> None:
        self._at_sink: dict[GarnetLink, int] = {}
        self._at_source: dict[GarnetLink, int] = {}
        self._inputs: dict[int, int] = {}
        self._outputs: dict[int, int] = {}
        self._number(links, self._at_sink, self._inputs, nodes, vnets, here=1, there=0)
        self._number(links, self._at_source, self._outputs, nodes, vnets, here=0, there=1)

    @staticmethod
    def _number(
        links: Sequence[GarnetLink], numbers: dict[GarnetLink, int], counts: dict[int, int], nodes: int, vnets: int, here: int, there: int
    ) -> None:
        at_router: dict[int, list[GarnetLink]] = {}
        for link in links:
            at_router.setdefault(int(link[here]), []).append(link)
        for router, mine in at_router.items():
            first = 2 * vnets if router < nodes else 0
            for place, link in enumerate(sorted(mine, key=lambda link: int(link[there]))):
                numbers[link] = first + place
            counts[router] = first + len(mine)

    def counts(self, router: int) -> tuple[int, int]:
        """Input and output ports of a router."""
        return self._inputs[router], self._outputs[router]

    def of(self, link: GarnetLink) -> dict[str, int]:
        """The ports of a link."""
        return {"source_port": self._at_source[link], "sink_port": self._at_sink[link]}


def rings(network: PacketGarnetNetwork) -> list[tuple[int, int, bool, list[int]]]:
    """Each ring: its virtual network, its step (+1 or -1), whether it is local, and its NPUs in order."""
    local, columns, _ = network.sizes
    directions = [(v, 1, 0) for v in range(network.local_rings)]
    if network.topology == "Torus3D":
        vnet = network.local_rings
        for dimension, count in ((1, network.horizontal_rings), (2, network.vertical_rings)):
            directions += [(vnet + place, 1 if place < count else -1, dimension) for place in range(2 * count)]
            vnet += 2 * count
    result = []
    strides = (1, local, local * columns)
    for vnet, step, dimension in directions:
        size, stride = network.sizes[dimension], strides[dimension]
        if size == 1:
            continue
        for first in range(network.npus):
            if first // stride % size:
                continue
            result.append((vnet, step, dimension == 0, [first + place * stride for place in range(size)]))
    return result


def build(network: PacketGarnetNetwork, settings: Settings, clock_ps: int) -> Network:
    """The network, as domains. Raises InputError if it is too large."""
    of_npu = network.local_rings + 2 * (network.horizontal_rings + network.vertical_rings + network.links_per_tile)
    if network.npus * of_npu > MAX_CHANNELS:
        raise InputError(f"{network.npus} NPUs with up to {of_npu} links each; expected at most {MAX_CHANNELS} links for flits")
    result = Network(network.npus, network.vnets, vnet_choice(network), clock_ps, settings.options.representatives)
    links: list[GarnetLink] = []
    all_rings = rings(network)
    for vnet, step, is_local, members in all_rings:
        links += [GarnetLink(npu, members[(place + step) % len(members)], vnet, is_local) for place, npu in enumerate(members)]
    switched = network.topology == "NV_Switch"
    if switched:
        for npu in range(network.npus):
            for switch in range(network.npus, network.npus + network.links_per_tile):
                links += [GarnetLink(npu, switch, -1, False), GarnetLink(switch, npu, -1, False)]
    ports = GarnetPorts(links, network.npus, network.vnets)
    wires = _Wires(network, 8 * settings.flit_bytes)
    parts = _GarnetParts(ports, wires, settings.rules(network.vnets, clock_ps, serialized_credits=True), settings)
    known: dict[Any, Shape] = {}
    for vnet, step, is_local, members in all_rings:
        of_ring = [GarnetLink(npu, members[(place + step) % len(members)], vnet, is_local) for place, npu in enumerate(members)]
        key = (vnet, step, tuple(tuple(ports.of(link).values()) for link in of_ring), tuple(map(ports.counts, members)))
        if key not in known:
            known[key] = _ring(vnet, step, members, of_ring, parts)
        result.add_domain(known[key], members)
    if switched:
        to_switches = [link for link in links if link.vnet < 0]
        result.add_domain(_switches(network, to_switches, parts), list(range(network.npus)))
    return result


def vnet_choice(network: PacketGarnetNetwork) -> VnetChoice:
    """As in ASTRA-sim 1.0, every queue of the system layer is a virtual network, with rings of its own: those of the first dimension first.

    A network of one ring has one for all queues.
    """
    return VnetChoice.by_queue(range(network.vnets)) if network.vnets > 1 else VnetChoice.single()


class _Wires:
    """Latency and width of links, in the core's terms."""

    def __init__(self, network: PacketGarnetNetwork, flit_width: int) -> None:
        self._network = network
        self._flit_width = flit_width

    def link(self, local: bool) -> dict[str, int]:
        """A link between routers. One narrower than a flit carries it in parts, and has a serializer of 2 cycles at each end."""
        width = self._network.tile_link_width if local else self._network.package_link_width
        latency = self._network.local_link_latency if local else self._network.package_link_latency
        parts = -(-self._flit_width // width)
        return {"latency_cycles": latency, "flit_cycles": max(1, parts), "serializer": 2 if parts > 1 else 0}

    def interface(self) -> dict[str, int]:
        """A link between an interface and its router."""
        return {"latency_cycles": self._network.local_link_latency, "flit_cycles": 1}


@attrs.frozen
class _GarnetParts:
    """The settings that all domains of a network share."""

    ports: GarnetPorts
    wires: _Wires
    rules: Rules
    settings: Settings


def _ring(vnet: int, step: int, members: Sequence[int], links: Sequence[GarnetLink], parts: _GarnetParts) -> Shape:
    """The shape of one local ring, in one direction, on its own virtual network."""
    ports, wires, settings = parts.ports, parts.wires, parts.settings
    count = len(members)
    shape = Shape.make(parts.rules, [[place] for place in range(count)], [count], list(range(count)))
    place_of = {npu: place for place, npu in enumerate(members)}
    for place in range(count):
        ends = {**wires.interface(), "first_vnet": vnet, "source_port": vnet, "sink_port": vnet}
        for _ in range(settings.injection_ports or 1):
            shape.add_injection_port(
                place, vnet, {**ends, "name": f"interface {place} to router"}, {**ends, "name": f"router to interface {place}"}
            )
    for place, npu in enumerate(members):
        shape.set_ports(place, *ports.counts(npu))
    for link in links:
        ends = {"source": place_of[link.source], "sink": place_of[link.sink]}
        name = f"router {ends['source']} to {ends['sink']} of the ring"
        shape.add_channel(
            {
                **wires.link(link.local),
                **ports.of(link),
                **ends,
                "dimension": 0,
                "first_vnet": vnet,
                "ring": True,
                "order": ends["sink"] if step > 0 else count - 1 - ends["sink"],
                "name": name,
            }
        )
    shape.make_routes()
    settings.finish(shape)
    return shape


def _switches(network: PacketGarnetNetwork, links: Sequence[GarnetLink], parts: _GarnetParts) -> Shape:
    """The shape of the NPUs and the global switches between them, on all virtual networks above the rings."""
    ports, wires, settings = parts.ports, parts.wires, parts.settings
    nodes, first = network.npus, network.local_rings
    coordinates = [[npu] for npu in range(nodes)] + [[-1]] * network.links_per_tile
    shape = Shape.make(parts.rules, coordinates, [nodes], list(range(nodes)))
    for npu in range(nodes):
        for vnet in range(first, network.vnets):
            ends = {**wires.interface(), "first_vnet": vnet, "source_port": vnet, "sink_port": vnet}
            for _ in range(settings.injection_ports or network.links_per_tile):
                shape.add_injection_port(npu, vnet, {**ends, "name": f"NPU {npu} to its router"}, {**ends, "name": f"router to NPU {npu}"})
    for router in range(len(coordinates)):
        shape.set_ports(router, *ports.counts(router))
    spray: dict[int, list[int]] = {npu: [] for npu in range(nodes)}
    for link in links:
        name = " to ".join(f"router {end}" if end < nodes else f"switch {end - nodes}" for end in (link.source, link.sink))
        channel = shape.add_channel(
            {
                **wires.link(False),
                **ports.of(link),
                "source": link.source,
                "sink": link.sink,
                "dimension": 0,
                "first_vnet": first,
                "vnets": network.vnets - first,
                "name": name,
            }
        )
        if link.source < nodes:
            spray[link.source].append(channel)
    for npu, channels in spray.items():
        shape.set_spray(npu, channels)
    shape.make_routes()
    settings.finish(shape)
    return shape
