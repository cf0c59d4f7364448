"""The delay formula of ASTRA-sim 1.0, and its cost model."""

from __future__ import annotations

import attrs
from astra_sim import InputError, option
from astra_sim.network import RouteDelayNetwork
from astra_sim.platform import Dimension, Platform
from astra_sim.schedule import Peer
from astra_sim.units import GIB, PS_PER_NS


@attrs.frozen
class AnalyticalOptions:
    """Options of the analytical network."""

    rounding: str = option(
        "nanosecond",
        choices=("nanosecond", "picosecond"),
        help="nanosecond: cut to whole ns after every term, as ASTRA-sim 1.0 does; picosecond: round the sum once",
    )


class AnalyticalNetwork(RouteDelayNetwork):
    """Every message takes hops * link latency + bytes / bandwidth + 2 * NIC latency (+ router latency at a switch).

    Nothing contends. Bandwidth is that of the links that one message uses side by side. Where a dimension has an `hbm_scale`, a message
    takes at least that share of the time to read it from memory.
    """

    def __init__(self, options: AnalyticalOptions, platform: Platform) -> None:
        super().__init__(platform)
        self._whole_ns = options.rounding == "nanosecond"
        self._bandwidth = []
        for number, dimension in enumerate(platform.dimensions):
            links = dimension.topology.links_per_message()
            if links < 1:
                raise InputError(f"dimension {number}: {dimension.links} links are too few for a message to use one")
            self._bandwidth.append(dimension.link_bandwidth * links)

    def route_delay(self, dimension: int, hops: int, size: int) -> int:
        """Picoseconds a message takes."""
        d = self.platform.dimensions[dimension]
        router = d.router_latency_ns if d.topology.name == "switch" else 0.0
        if self._whole_ns:
            delay = int(hops * d.link_latency_ns)
            delay = int(delay + size / self._bandwidth[dimension])
            delay = int(delay + 2 * d.nic_latency_ns)
            delay = int(delay + router)
            picoseconds = delay * PS_PER_NS
        else:
            latency = hops * d.link_latency_ns + 2 * d.nic_latency_ns + router
            picoseconds = round((latency + size / self._bandwidth[dimension]) * PS_PER_NS)
        memory_ns = (d.hbm_latency_ns + size / d.hbm_bandwidth) * d.hbm_scale
        return max(picoseconds, round(memory_ns * PS_PER_NS))

    def function_table(self) -> object | None:
        """The formula in C++; None where this package was installed without it, or a topology is too large to be written down."""
        try:
            from astra_sim_network_analytical import _core
        except ImportError:
            return None
        rows = []
        for number, d in enumerate(self.platform.dimensions):
            hops = _hops(d)
            if hops is None:
                return None
            router = d.router_latency_ns if d.topology.name == "switch" else 0.0
            memory = d.hbm_latency_ns, d.hbm_bandwidth, d.hbm_scale
            rows.append((d.size, hops, self._bandwidth[number], d.link_latency_ns, d.nic_latency_ns, router, *memory))
        return _core.delay_table(rows, self._whole_ns)

    def statistics(self) -> dict[str, object]:
        """The cost of the network."""
        return {"cost_usd": cost_usd(self.platform)}


_LARGEST_MATRIX = 1024


def _hops(dimension: Dimension) -> list[int] | None:
    """Hops of a dimension by distance where that is all that counts, else by source and destination; None where that is too much."""
    topology, size = dimension.topology, dimension.size
    if all(topology.is_symmetric(Peer("shift", distance)) for distance in range(1, size)):
        return [0, *(topology.hops(0, distance) for distance in range(1, size))]
    if size > _LARGEST_MATRIX:
        return None
    return [topology.hops(a, b) if a != b else 0 for a in range(size) for b in range(size)]


# Dollars per GiB/s of a link, a switch port and a network interface (ASTRA-sim 1.0).
_PRICES: dict[str, tuple[float, float | None, float | None]] = {
    "tile": (1.0, None, None),
    "package": (4.0, 13.0, 0.0),
    "node": (4.0, 13.0, 0.0),
    "pod": (7.4, 23.7, 47.8),
}


def cost_usd(platform: Platform) -> float | None:
    """What the links, switches and network interfaces cost; None where there is no price for a part (a switch on a tile)."""
    total = 0.0
    below = 1
    for dimension in platform.dimensions:
        below *= dimension.size
        cost = _dimension_cost(dimension, platform.npus, below)
        if cost is None:
            return None
        total += cost
    return total


def _dimension_cost(d: Dimension, npus: int, below: int) -> float | None:
    link, switch, nic = _PRICES[d.packaging]
    bandwidth = d.link_bandwidth * 1e9 / GIB
    groups = npus // d.size
    if d.topology.name == "ring":
        return link * (groups * d.size * (d.links // 2)) * bandwidth
    if d.topology.name == "fully_connected":
        return link * (groups * (d.size * (d.size - 1) // 2) * (d.links // max(1, d.size - 1))) * bandwidth
    if d.topology.name != "switch" or switch is None or nic is None:
        return None
    switches = npus // below
    ports = below * d.links * switches
    return link * ports * bandwidth + switch * switches * bandwidth * below * d.links + nic * ports * bandwidth
