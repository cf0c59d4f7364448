"""The topologies of a Garnet network file: Torus3D and NV_Switch.

NPUs are numbered local, column, row, the first varying fastest. Every virtual network of a torus has rings of its own, so each ring is a
domain by itself; the switches of NV_Switch are shared by its package-level virtual networks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import attrs
from astra_sim import InputError, option
from astra_sim.platform import Dimension
from astra_sim.schedule import Peer

from astra_sim_network_packet._core import Network, Shape, VnetChoice
from astra_sim_network_packet.fabric import MAX_CHANNELS
from astra_sim_network_packet.options import Settings


@attrs.frozen
class GarnetNetwork:
    """The contents of a Garnet network file. Widths in bits, sizes in bytes, latencies in cycles of 1 ns."""

    topology: str
    npus: int
    packages: int
    package_rows: int
    local_rings: int
    vertical_rings: int
    horizontal_rings: int
    links_per_tile: int
    tile_link_width: int
    package_link_width: int
    local_link_latency: int
    package_link_latency: int

    @property
    def sizes(self) -> tuple[int, int, int]:
        """NPUs of a package, packages of a row, rows."""
        return self.npus // self.packages, self.packages // self.package_rows, self.package_rows

    @property
    def queues(self) -> tuple[int, int, int]:
        """Queues of each dimension, each a virtual network: rings of a torus in both directions, local rings in one."""
        if self.topology == "NV_Switch":
            return self.local_rings, self.links_per_tile * self.horizontal_rings, 0
        return self.local_rings, 2 * self.horizontal_rings, 2 * self.vertical_rings

    @property
    def vnets(self) -> int:
        """Virtual networks."""
        return sum(self.queues)


@attrs.frozen
class GarnetDimension:
    """One of the three dimensions of a Garnet network: separate rings for every queue, or switches that all queues share."""

    network: GarnetNetwork = attrs.field(repr=False)
    index: int

    @property
    def name(self) -> str:
        """The name of the topology."""
        return "switch" if self.network.topology == "NV_Switch" and self.index > 0 else "ring"

    @property
    def size(self) -> int:
        """Positions."""
        return self.network.sizes[self.index]

    @property
    def queue_directions(self) -> tuple[int, ...]:
        """The direction of each queue of the system layer: +1 clockwise, -1 anticlockwise."""
        count = self.network.queues[self.index]
        return (1,) * count if self.index == 0 else (1,) * (count // 2) + (-1,) * (count - count // 2)

    def scaled(self, bandwidth: float, latency: float) -> None:
        """No other Garnet: its links have whole widths in bits and latencies in cycles."""

    def hops(self, source: int, destination: int) -> int:
        """Links of the route: two through a switch, else along the ring in its only or its shorter direction."""
        if self.name == "switch":
            return 2
        ahead = (destination - source) % self.size
        return ahead if self.index == 0 else min(ahead, self.size - ahead)

    def is_symmetric(self, peer: Peer) -> bool:
        """True for distances; at a switch always."""
        return peer.operator == "shift" or (peer.operator == "xor" and self.name == "switch")

    def links_per_message(self) -> int:
        """One link: a message stays on its ring, and a packet takes one switch."""
        return 1

    def links_per_npu(self) -> int:
        """A link for each queue: one ring or one switch each."""
        return self.network.queues[self.index]


@attrs.frozen
class Torus3dOptions:
    """Options of a Torus3D. A cycle is 1 ns."""

    npus: int = option(minimum=1, help="NPUs")
    packages: int = option(minimum=1, help="packages, of npus / packages NPUs each")
    package_rows: int = option(1, minimum=1, help="rows of packages")
    local_rings: int = option(1, minimum=1, help="rings within a package, one way")
    horizontal_rings: int = option(1, minimum=1, help="rings along a row, each way")
    vertical_rings: int = option(1, minimum=1, help="rings along a column, each way")
    tile_link_width_bits: int = option(256, minimum=1, help="width of the links of a local ring", unit="bits/ns")
    package_link_width_bits: int = option(256, minimum=1, help="width of the other links", unit="bits/ns")
    local_link_latency_ns: int = option(1, minimum=1, help="latency of links within a package, and between NPU and router", unit="ns")
    package_link_latency_ns: int = option(1, minimum=1, help="latency of the other links", unit="ns")


@attrs.frozen
class NvSwitchOptions:
    """Options of an NV_Switch. A cycle is 1 ns."""

    npus: int = option(minimum=1, help="NPUs")
    packages: int = option(minimum=1, help="packages, of npus / packages NPUs each")
    package_rows: int = option(1, minimum=1, help="rows of packages")
    local_rings: int = option(1, minimum=1, help="rings within a package, one way")
    links_per_tile: int = option(1, minimum=1, help="switches, each with a link to every NPU")
    horizontal_rings: int = option(1, minimum=1, help="virtual networks for each switch")
    tile_link_width_bits: int = option(256, minimum=1, help="width of the links of a local ring", unit="bits/ns")
    package_link_width_bits: int = option(256, minimum=1, help="width of the links to switches", unit="bits/ns")
    local_link_latency_ns: int = option(1, minimum=1, help="latency of links within a package, and between NPU and router", unit="ns")
    package_link_latency_ns: int = option(1, minimum=1, help="latency of the links to switches", unit="ns")


def torus3d(options: Torus3dOptions) -> list[Dimension]:
    """The three dimensions of a Torus3D."""
    return _dimensions("Torus3D", options, options.vertical_rings, 1)


def nv_switch(options: NvSwitchOptions) -> list[Dimension]:
    """The two dimensions of an NV_Switch. Raises InputError for more than one row."""
    if options.package_rows > 1:
        raise InputError(f"package_rows is {options.package_rows}; expected 1 for an NV_Switch, which has no queues for a third dimension")
    return _dimensions("NV_Switch", options, 1, options.links_per_tile)


def _dimensions(topology: str, o: Torus3dOptions | NvSwitchOptions, vertical_rings: int, links_per_tile: int) -> list[Dimension]:
    if o.npus % o.packages:
        raise InputError(f"{o.npus} NPUs do not make {o.packages} packages of the same size; expected a divisor of {o.npus} for packages")
    if o.packages % o.package_rows:
        raise InputError(f"{o.packages} packages do not make {o.package_rows} rows; expected a divisor of {o.packages} for package_rows")
    network = GarnetNetwork(
        topology,
        o.npus,
        o.packages,
        o.package_rows,
        o.local_rings,
        vertical_rings,
        o.horizontal_rings,
        links_per_tile,
        o.tile_link_width_bits,
        o.package_link_width_bits,
        o.local_link_latency_ns,
        o.package_link_latency_ns,
    )
    made = []
    # The switches of NV_Switch join all packages: their dimension is the last.
    for index, size in enumerate(network.sizes[: 2 if topology == "NV_Switch" else 3]):
        width = o.tile_link_width_bits if index == 0 else o.package_link_width_bits
        latency = o.local_link_latency_ns if index == 0 else o.package_link_latency_ns
        shape = GarnetDimension(network, index)
        made.append(Dimension(shape, size, shape.links_per_npu(), width / 8, latency, o.local_link_latency_ns))
    return made


class Link(NamedTuple):
    """A link between routers, for one virtual network or (-1) for those of a switch."""

    source: int
    sink: int
    vnet: int
    local: bool


class Ports:
    """Numbers of ports: first those of interfaces, then as many idle ones, then links in the order of the routers at their other end."""

    def __init__(self, links: Sequence[Link], nodes: int, vnets: int) -> None:
        self._at_sink: dict[Link, int] = {}
        self._at_source: dict[Link, int] = {}
        self._inputs: dict[int, int] = {}
        self._outputs: dict[int, int] = {}
        self._number(links, self._at_sink, self._inputs, nodes, vnets, here=1, there=0)
        self._number(links, self._at_source, self._outputs, nodes, vnets, here=0, there=1)

    @staticmethod
    def _number(
        links: Sequence[Link], numbers: dict[Link, int], counts: dict[int, int], nodes: int, vnets: int, here: int, there: int
    ) -> None:
        at_router: dict[int, list[Link]] = {}
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

    def of(self, link: Link) -> dict[str, int]:
        """The ports of a link."""
        return {"source_port": self._at_source[link], "sink_port": self._at_sink[link]}


def rings(network: GarnetNetwork) -> list[tuple[int, int, bool, list[int]]]:
    """Each ring: its virtual network, its step (+1 or -1), whether it is local, and its NPUs in order."""
    local, columns, _ = network.sizes
    directions = [(v, 1, 0) for v in range(network.local_rings)]
    if network.topology == "Torus3D":
        vnet = network.local_rings
        for dimension, count in ((1, network.horizontal_rings), (2, network.vertical_rings)):
            directions += [(vnet + place, 1 if place < count else -1, dimension) for place in range(2 * count)]
            vnet += 2 * count
    found = []
    strides = (1, local, local * columns)
    for vnet, step, dimension in directions:
        size, stride = network.sizes[dimension], strides[dimension]
        if size == 1:
            continue
        for first in range(network.npus):
            if first // stride % size:
                continue
            found.append((vnet, step, dimension == 0, [first + place * stride for place in range(size)]))
    return found


def build(network: GarnetNetwork, settings: Settings, clock_ps: int) -> Network:
    """The network, as domains. Raises InputError if it is too large."""
    of_npu = network.local_rings + 2 * (network.horizontal_rings + network.vertical_rings + network.links_per_tile)
    if network.npus * of_npu > MAX_CHANNELS:
        raise InputError(f"{network.npus} NPUs with up to {of_npu} links each; expected at most {MAX_CHANNELS} links for flits")
    rules = settings.rules(network.vnets, clock_ps)
    made = Network(network.npus, network.vnets, vnet_choice(network), rules["clock_ps"], rules["representatives"])
    links: list[Link] = []
    all_rings = rings(network)
    for vnet, step, is_local, members in all_rings:
        links += [Link(npu, members[(place + step) % len(members)], vnet, is_local) for place, npu in enumerate(members)]
    switched = network.topology == "NV_Switch"
    if switched:
        for npu in range(network.npus):
            for switch in range(network.npus, network.npus + network.links_per_tile):
                links += [Link(npu, switch, -1, False), Link(switch, npu, -1, False)]
    ports = Ports(links, network.npus, network.vnets)
    wires = _Wires(network, 8 * settings.flit_bytes)
    rules["credit_parts"] = True
    if rules["vc_classes"] == "at_entry":
        # On a one-way ring, choosing a half of the virtual channels at entry does not break the circle of waiting.
        rules["vc_classes"] = "at_crossing"
    parts = _Parts(ports, wires, rules, settings)
    known: dict[Any, Shape] = {}
    for vnet, step, is_local, members in all_rings:
        of_ring = [Link(npu, members[(place + step) % len(members)], vnet, is_local) for place, npu in enumerate(members)]
        key = (vnet, step, tuple(tuple(ports.of(link).values()) for link in of_ring), tuple(map(ports.counts, members)))
        if key not in known:
            known[key] = _ring(vnet, step, members, of_ring, parts)
        made.add_domain(known[key], members)
    if switched:
        to_switches = [link for link in links if link.vnet < 0]
        made.add_domain(_switches(network, to_switches, parts), list(range(network.npus)))
    return made


def vnet_choice(network: GarnetNetwork) -> VnetChoice:
    """As in ASTRA-sim 1.0, every queue of the system layer is a virtual network, with rings of its own: those of the first dimension first.

    A network of one ring has one for all queues.
    """
    return VnetChoice.by_queue(range(network.vnets)) if network.vnets > 1 else VnetChoice.single()


class _Wires:
    """Latency and width of links, in the core's terms."""

    def __init__(self, network: GarnetNetwork, flit_width: int) -> None:
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
class _Parts:
    """The settings that all domains of a network share."""

    ports: Ports
    wires: _Wires
    rules: dict[str, Any]
    settings: Settings


def _ring(vnet: int, step: int, members: Sequence[int], links: Sequence[Link], parts: _Parts) -> Shape:
    ports, wires, settings = parts.ports, parts.wires, parts.settings
    count = len(members)
    shape = Shape.make(parts.rules, [[place] for place in range(count)], [count], list(range(count)))
    place_of = {npu: place for place, npu in enumerate(members)}
    for place in range(count):
        ends = {**wires.interface(), "first_vnet": vnet, "source_port": vnet, "sink_port": vnet}
        for _ in range(settings.interface_lanes or 1):
            shape.add_lane(place, vnet, {**ends, "name": f"interface {place} to router"}, {**ends, "name": f"router to interface {place}"})
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
    shape.finish(settings.vcs)
    return shape


def _switches(network: GarnetNetwork, links: Sequence[Link], parts: _Parts) -> Shape:
    ports, wires, settings = parts.ports, parts.wires, parts.settings
    nodes, first = network.npus, network.local_rings
    coordinates = [[npu] for npu in range(nodes)] + [[-1]] * network.links_per_tile
    shape = Shape.make(parts.rules, coordinates, [nodes], list(range(nodes)))
    for npu in range(nodes):
        for vnet in range(first, network.vnets):
            ends = {**wires.interface(), "first_vnet": vnet, "source_port": vnet, "sink_port": vnet}
            for _ in range(settings.interface_lanes or network.links_per_tile):
                shape.add_lane(npu, vnet, {**ends, "name": f"NPU {npu} to its router"}, {**ends, "name": f"router to NPU {npu}"})
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
    shape.finish(settings.vcs)
    return shape
