"""Ring, fully connected and switched dimensions, as ASTRA-sim 1.0 defines them."""

from __future__ import annotations

import attrs
from astra_sim import InputError, option
from astra_sim.fabric import Wire
from astra_sim.fabric.links import UniformLinks
from astra_sim.limits import MAX_NPUS
from astra_sim.platform import Dimension, Topology, bytes_per_ns, is_power_of_two
from astra_sim.schedule import Peer
from astra_sim.value_objects import ValueObject


@attrs.frozen(eq=False, repr=False)
class DimensionOptions(ValueObject):
    """Options of a dimension. Bandwidth is given in one of two units."""

    size: int = option(minimum=1, maximum=MAX_NPUS, help="NPUs along the dimension")
    links: int = option(1, minimum=1, help="links of each NPU")
    link_bandwidth_gb_per_s: float | None = option(None, above=0, help="bandwidth of a link and direction", unit="10^9 bytes/s")
    link_bandwidth_gib_per_s: float | None = option(None, above=0, help="the same, as ASTRA-sim counts", unit="2^30 bytes/s")
    link_latency_ns: float = option(0.0, minimum=0, help="latency of a link", unit="ns")
    nic_latency_ns: float = option(0.0, minimum=0, help="latency of a network interface, at either end", unit="ns")
    router_latency_ns: float = option(0.0, minimum=0, help="latency of the switch", unit="ns")
    hbm_latency_ns: float = option(0.0, minimum=0, help="latency of the memory that feeds the links", unit="ns")
    hbm_bandwidth_bytes_per_ns: float = option(1.0, above=0, help="bandwidth of that memory", unit="bytes/ns")
    hbm_scale: float = option(0.0, minimum=0, help="factor on that memory's delay; 0: it is no bottleneck")
    packaging: str = option("node", choices=("tile", "package", "node", "pod"), help="packaging of the links, for the cost model")


@attrs.frozen(eq=False, repr=False)
class RingOptions(DimensionOptions):
    """Options of a ring."""

    both_ways: bool = option(
        False,
        help="true: in the delay formula and on network packet a message has the bandwidth of both directions, as in ASTRA-sim 1.0; "
        "false, and on all other networks: of the one that it takes",
    )


@attrs.frozen(eq=False, repr=False)
class SwitchOptions(DimensionOptions):
    """Options of a switched dimension. Bandwidth is given in one of two units."""

    in_network_reduction: bool = option(False, help="the switch can reduce data of all NPUs, and send the result to them")


@attrs.frozen(eq=False, repr=False)
class Ring(ValueObject, Topology):
    """NPUs in a ring. Links come in pairs, one for each direction; an odd link is not used."""

    size: int
    ports: int
    name: str = "ring"
    both_ways: bool = False

    def hops(self, source: int, destination: int) -> int:
        """Links in the shorter direction."""
        distance = abs(source - destination)
        return min(distance, self.size - distance)

    def is_symmetric(self, peer: Peer) -> bool:
        """True for any distance, and for bit patterns of one bit, which are a distance in one direction or the other."""
        return peer.operator == "shift" or (peer.operator == "xor" and is_power_of_two(peer.value))

    def links_per_message(self) -> int:
        """The links of one direction; with `both_ways` of both, as in ASTRA-sim 1.0."""
        return self.ports // 2 * (2 if self.both_ways else 1)

    def links_per_npu(self) -> int:
        """All links in pairs."""
        return self.ports // 2 * 2

    def uniform_links(self) -> UniformLinks:
        """A pair of links between neighbours. Two NPUs are joined by one pair."""
        return UniformLinks("ring", self.size, float(self.ports // 2))

    def wires(self) -> list[Wire]:
        """A pair of links between neighbours. Two NPUs are joined by one pair."""
        return self.uniform_links().wires()


@attrs.frozen(eq=False, repr=False)
class FullyConnected(ValueObject, Topology):
    """A link between every two NPUs, or several: as many as `ports` allows for each."""

    size: int
    ports: int
    name: str = "fully_connected"

    def hops(self, source: int, destination: int) -> int:
        """One."""
        return 1

    def is_symmetric(self, peer: Peer) -> bool:
        """Always."""
        return peer.operator != "rank"

    def links_per_message(self) -> int:
        """The links between two NPUs."""
        return self.ports // max(1, self.size - 1)

    def links_per_npu(self) -> int:
        """The links to all others."""
        return self.ports // max(1, self.size - 1) * (self.size - 1)

    def uniform_links(self) -> UniformLinks:
        """A pair of links between every two NPUs."""
        return UniformLinks("fully_connected", self.size, float(self.links_per_message()))

    def wires(self) -> list[Wire]:
        """A pair of links between every two NPUs."""
        return self.uniform_links().wires()


@attrs.frozen(eq=False, repr=False)
class Switch(ValueObject, Topology):
    """NPUs around one switch: two hops between any two."""

    size: int
    ports: int
    name: str = "switch"
    in_network_reduction: bool = False

    def hops(self, source: int, destination: int) -> int:
        """Two."""
        return 2

    def is_symmetric(self, peer: Peer) -> bool:
        """Always."""
        return peer.operator != "rank"

    def links_per_message(self) -> int:
        """All of them."""
        return self.ports

    def links_per_npu(self) -> int:
        """All of them."""
        return self.ports

    def uniform_links(self) -> UniformLinks:
        """A pair of links between each NPU and the switch, as wide as all links of the NPU."""
        return UniformLinks("switch", self.size, float(self.ports))

    def wires(self) -> list[Wire]:
        """A pair of links between each NPU and the switch, as wide as all links of the NPU."""
        return self.uniform_links().wires()


def ring(options: RingOptions) -> list[Dimension]:
    """A ring."""
    if options.links < 2:
        raise InputError("links is 1; a ring needs links in pairs, at least 2")
    return [_dimension(Ring(options.size, options.links, both_ways=options.both_ways), options)]


def fully_connected(options: DimensionOptions) -> list[Dimension]:
    """A fully connected dimension."""
    if options.links < options.size - 1:
        raise InputError(f"links is {options.links}; {options.size} fully connected NPUs need at least {options.size - 1} links each")
    return [_dimension(FullyConnected(options.size, options.links), options)]


def switch(options: SwitchOptions) -> list[Dimension]:
    """A switched dimension."""
    return [_dimension(Switch(options.size, options.links, in_network_reduction=options.in_network_reduction), options)]


def _dimension(topology: Ring | FullyConnected | Switch, options: DimensionOptions) -> Dimension:
    """A dimension with the options that all of these topologies share. Raises InputError."""
    bandwidths = options.link_bandwidth_gb_per_s, options.link_bandwidth_gib_per_s
    if (bandwidths[0] is None) == (bandwidths[1] is None):
        raise InputError("exactly one of link_bandwidth_gb_per_s and link_bandwidth_gib_per_s must be given")
    bandwidth = float(bandwidths[0]) if bandwidths[0] is not None else bytes_per_ns(bandwidths[1])  # type: ignore[arg-type]
    return Dimension(
        topology=topology,
        size=options.size,
        links=options.links,
        link_bandwidth=bandwidth,
        link_latency_ns=options.link_latency_ns,
        nic_latency_ns=options.nic_latency_ns,
        router_latency_ns=options.router_latency_ns,
        hbm_latency_ns=options.hbm_latency_ns,
        hbm_bandwidth=options.hbm_bandwidth_bytes_per_ns,
        hbm_scale=options.hbm_scale,
        packaging=options.packaging,
    )
