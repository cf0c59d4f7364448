"""Scale-up and scale-out as one platform: servers whose NPUs meet over NVLink, and NICs on a Clos fabric."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import attrs
from astra_sim import InputError, option
from astra_sim.fabric.graph import LARGEST_FABRIC
from astra_sim.platform import Dimension, Preset, Topology
from astra_sim.schedule import Peer

from astra_sim_platforms.clos import Clos, ClosSwitchOptions, sized


@attrs.frozen
class RailOptimizedOptions(ClosSwitchOptions):
    """Options of servers on rails. Defaults are those of DGX H100; machines.toml has their sources."""

    servers: int = option(minimum=2, help="servers")
    npus_per_server: int = option(8, minimum=2, help="NPUs of a server, around one switch")
    rails: int | None = option(
        None,
        minimum=1,
        help="NPU i of a server hangs on rail i modulo rails; 1 is a plain Clos; default: as many as npus_per_server",
    )
    nvlink_bandwidth_gb_per_s: float = option(450.0, above=0, help="bandwidth of an NPU to its server's switch", unit="10^9 bytes/s")
    nvlink_latency_ns: float = option(600.0, minimum=0, help="latency of a message within a server", unit="ns")
    nic_bandwidth_gb_per_s: float = option(50.0, above=0, help="bandwidth of a NIC, of which an NPU has one", unit="10^9 bytes/s")
    nic_latency_ns: float = option(2700.0, minimum=0, help="latency of a message between NPUs at one leaf", unit="ns")
    uplink_bandwidth_gb_per_s: float | None = option(
        None, above=0, help="bandwidth of a link between switches; default: of a NIC", unit="10^9 bytes/s"
    )
    uplink_latency_ns: float = option(0.0, minimum=0, help="latency of links between switches", unit="ns")


@attrs.frozen
class Links:
    """Bandwidth (bytes/ns) and latency (ns) of the links of one kind."""

    bandwidth: float
    latency_ns: float


@attrs.frozen
class Servers(Topology):
    """Servers of `scale_out.server` NPUs around a switch each, with NICs on a Clos fabric.

    Nodes after the NPUs are the switches of the servers, then NICs if they are nodes, then the switches of the Clos fabric. NICs are
    nodes if `scale_out.shared` NPUs share one, and if NPUs of a server meet at a leaf: so the path over the server's switch is the
    shorter. A link to a shared NIC costs two, for NPUs that share it are to meet at the server's switch, too.
    """

    scale_out: Clos
    nvlink: Links
    nic: Links
    uplink: Links
    name: str = attrs.field(default="rail_optimized", init=False)

    @property
    def size(self) -> int:
        """The NPUs."""
        return self.scale_out.size

    @property
    def nics(self) -> int:
        """The NICs that are nodes."""
        meet = self.scale_out.server > self.scale_out.rails and self.scale_out.leaf_npus > 1
        return self.size // self.scale_out.shared if meet else 0

    def destination_order(self) -> Sequence[int]:
        """Those of the Clos fabric."""
        return self.scale_out.destination_order()

    def hops(self, source: int, destination: int) -> int:
        """Two within a server, else those of the Clos fabric, and two more if NICs are nodes."""
        if source // self.scale_out.server == destination // self.scale_out.server:
            return 2
        return self.scale_out.hops(source, destination) + (2 if self.nics else 0)

    def is_symmetric(self, peer: Peer) -> bool:
        """Not known."""
        return False

    def links_per_message(self) -> int:
        """One."""
        return 1

    def links_per_npu(self) -> int:
        """The NICs of an NPU; its link to the server's switch is another kind."""
        return self.scale_out.planes

    def is_uniform(self) -> bool:
        """No: a formula takes the dimensions."""
        return False

    def link_count(self) -> int:
        """The links, each way counted."""
        return self.scale_out.link_count() + 2 * (self.size + self.nics)

    def links(self) -> list[tuple[int, int, float, float, float, int]]:
        """Source, target, bytes/ns, ns, error rate and cost. Raises InputError if they are too many to list."""
        if self.link_count() > LARGEST_FABRIC:
            raise InputError(f"a {self.name} of {self.size} NPUs has {self.link_count()} links; expected at most {LARGEST_FABRIC}")
        listed: list[tuple[int, int, float, float, float, int]] = []
        first_nic = self.size + self.size // self.scale_out.server
        for a, b, links in self._pairs():
            to_shared = self.scale_out.shared > 1 and a < self.size and first_nic <= b < first_nic + self.nics
            cost = 2 if to_shared else 1
            listed += [(*ends, links.bandwidth, links.latency_ns, 0.0, cost) for ends in ((a, b), (b, a))]
        return listed

    def _pairs(self) -> Iterator[tuple[int, int, Links]]:
        """The links: NPUs to the switch of their server, NPUs to network interfaces, and those of the scale-out network."""
        size = self.size
        server, shared = self.scale_out.server, self.scale_out.shared
        first_nic = size + size // server
        more = first_nic + self.nics - size
        for npu in range(size):
            yield npu, size + npu // server, self.nvlink
        for npu in range(size if self.nics else 0):
            yield npu, first_nic + npu // shared, Links(self.nic.bandwidth, 0.0)
        for a, b, *_ in self.scale_out.pairs():
            if a >= size:
                yield a + more, b + more, self.uplink
            elif not self.nics:
                yield a, b + more, self.nic
            elif a % shared == 0:
                yield first_nic + a // shared, b + more, self.nic

    def scaled(self, bandwidth: float, latency: float) -> Servers:
        """The servers with all links of `bandwidth` and `latency` times their own."""
        return self.scaled_in(1, bandwidth, latency).scaled_in(0, bandwidth, latency)

    def scaled_in(self, dimension: int, bandwidth: float, latency: float) -> Servers:
        """The same for the links of one dimension: NVLink is 0, NICs and the fabric behind them 1."""

        def times(links: Links) -> Links:
            return Links(links.bandwidth * bandwidth, links.latency_ns * latency)

        if dimension == 0:
            return attrs.evolve(self, nvlink=times(self.nvlink))
        return attrs.evolve(self, nic=times(self.nic), uplink=times(self.uplink))


def rail_optimized(options: RailOptimizedOptions) -> Preset:
    """Servers on rails: logical dimensions of a server and of the NPUs of one place, and their fabric. Raises InputError."""
    server = options.npus_per_server
    rails = server if options.rails is None else options.rails
    if server % rails:
        raise InputError(f"npus_per_server is {server} and rails is {rails}; expected a divisor of npus_per_server for rails")
    nvlink = Links(float(options.nvlink_bandwidth_gb_per_s), options.nvlink_latency_ns / 2)
    nic = Links(float(options.nic_bandwidth_gb_per_s), options.nic_latency_ns / 2)
    uplink_bandwidth = options.uplink_bandwidth_gb_per_s
    uplink = Links(nic.bandwidth if uplink_bandwidth is None else float(uplink_bandwidth), float(options.uplink_latency_ns))
    scale_out = sized(options, options.servers * server, rails, uplink.bandwidth / nic.bandwidth, server=server)
    topology = Servers(scale_out, nvlink, nic, uplink)
    dimensions: tuple[dict[str, Any], ...] = (
        {
            "topology": "switch",
            "size": server,
            "link_bandwidth_gb_per_s": nvlink.bandwidth,
            "link_latency_ns": nvlink.latency_ns,
        },
        {
            "topology": "switch",
            "size": options.servers,
            "links": options.planes,
            "link_bandwidth_gb_per_s": nic.bandwidth,
            "link_latency_ns": nic.latency_ns,
            "packaging": "pod",
        },
    )
    return Preset(dimensions, "", physical=physical(topology, options.switch_latency_ns))


def physical(topology: Servers, switch_latency_ns: float = 0.0) -> Dimension:
    """The one dimension of servers on a fabric."""
    nic = topology.nic
    return Dimension(topology, topology.size, topology.links_per_npu(), nic.bandwidth, nic.latency_ns, router_latency_ns=switch_latency_ns)
