"""The topologies of a Garnet network file: Torus3D and NV_Switch.

NPUs are numbered local, column, row, the first varying fastest.
"""

from __future__ import annotations

import attrs
from astra_sim import InputError, option
from astra_sim.fabric import Wire, both_ways
from astra_sim.fabric.links import Pattern
from astra_sim.platform import Dimension, Topology
from astra_sim.schedule import Peer


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
class GarnetDimension(Topology):
    """One of the three dimensions of a Garnet network: separate rings for every queue, or switches that all queues share."""

    network: GarnetNetwork = attrs.field(repr=False)
    index: int

    @property
    def name(self) -> str:
        """The name of the topology."""
        return self.pattern

    @property
    def pattern(self) -> Pattern:
        """The network of the NPUs for each queue."""
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
        if self.pattern == "switch":
            return 2
        ahead = (destination - source) % self.size
        return ahead if self.index == 0 else min(ahead, self.size - ahead)

    def is_symmetric(self, peer: Peer) -> bool:
        """True for distances; at a switch always."""
        return peer.operator == "shift" or (peer.operator == "xor" and self.pattern == "switch")

    def wires(self) -> list[Wire]:
        """A ring for each queue, in its direction, or the links to each switch."""
        size = self.size
        if self.pattern == "switch":
            switches = range(size, size + self.network.links_per_tile)
            return both_ways(Wire(place, switch) for place in range(size) for switch in switches)
        around = range(size) if size > 1 else range(0)
        return [Wire(place, (place + direction) % size) for direction in self.queue_directions for place in around]

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
    local_rings: int = option(1, minimum=1, maximum=4096, help="rings within a package, one way")
    horizontal_rings: int = option(1, minimum=1, maximum=4096, help="rings along a row, each way")
    vertical_rings: int = option(1, minimum=1, maximum=4096, help="rings along a column, each way")
    tile_link_width_bits: int = option(256, minimum=1, help="width of the links of a local ring", unit="bits/ns")
    package_link_width_bits: int = option(256, minimum=1, help="width of the other links", unit="bits/ns")
    local_link_latency_ns: int = option(
        1, minimum=1, maximum=1_000_000, help="latency within a package, and between NPU and router", unit="ns"
    )
    package_link_latency_ns: int = option(1, minimum=1, maximum=1_000_000, help="latency of the other links", unit="ns")


@attrs.frozen
class NvSwitchOptions:
    """Options of an NV_Switch. A cycle is 1 ns."""

    npus: int = option(minimum=1, help="NPUs")
    packages: int = option(minimum=1, help="packages, of npus / packages NPUs each")
    package_rows: int = option(1, minimum=1, help="rows of packages")
    local_rings: int = option(1, minimum=1, maximum=4096, help="rings within a package, one way")
    links_per_tile: int = option(1, minimum=1, maximum=4096, help="switches, each with a link to every NPU")
    horizontal_rings: int = option(1, minimum=1, maximum=4096, help="virtual networks for each switch")
    tile_link_width_bits: int = option(256, minimum=1, help="width of the links of a local ring", unit="bits/ns")
    package_link_width_bits: int = option(256, minimum=1, help="width of the links to switches", unit="bits/ns")
    local_link_latency_ns: int = option(
        1, minimum=1, maximum=1_000_000, help="latency within a package, and between NPU and router", unit="ns"
    )
    package_link_latency_ns: int = option(1, minimum=1, maximum=1_000_000, help="latency of the links to switches", unit="ns")


def torus3d(options: Torus3dOptions) -> list[Dimension]:
    """The three dimensions of a Torus3D."""
    return _dimensions("Torus3D", options, options.vertical_rings, 1)


def nv_switch(options: NvSwitchOptions) -> list[Dimension]:
    """The two dimensions of an NV_Switch. Raises InputError for more than one row."""
    if options.package_rows > 1:
        raise InputError(f"package_rows is {options.package_rows}; expected 1 for an NV_Switch, which has no queues for a third dimension")
    return _dimensions("NV_Switch", options, 1, options.links_per_tile)


def _dimensions(topology: str, o: Torus3dOptions | NvSwitchOptions, vertical_rings: int, links_per_tile: int) -> list[Dimension]:
    """The dimensions of a network of Garnet: NPUs of a package, then packages. Raises InputError for sizes that do not divide."""
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
    dimensions = []
    # The switches of NV_Switch join all packages: their dimension is the last.
    for index, size in enumerate(network.sizes[: 2 if topology == "NV_Switch" else 3]):
        width = o.tile_link_width_bits if index == 0 else o.package_link_width_bits
        latency = o.local_link_latency_ns if index == 0 else o.package_link_latency_ns
        shape = GarnetDimension(network, index)
        dimensions.append(
            Dimension(
                topology=shape,
                size=size,
                links=shape.links_per_npu(),
                link_bandwidth=width / 8,
                link_latency_ns=latency,
                nic_latency_ns=o.local_link_latency_ns,
            )
        )
    return dimensions
