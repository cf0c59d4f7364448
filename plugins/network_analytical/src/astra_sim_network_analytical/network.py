"""The analytical network, its delay formula without congestion, and the cost model of ASTRA-sim 1.0."""

from __future__ import annotations

from itertools import repeat

from astra_sim import InputError
from astra_sim.fabric.graph import pattern_of
from astra_sim.memo import cached
from astra_sim.network import DelayParts, Network, RouteDelayNetwork
from astra_sim.platform import MOST_NPUS, Dimension, Platform
from astra_sim.units import GIB, PS_PER_NS

from astra_sim_network_analytical.options import AnalyticalOptions
from astra_sim_network_analytical.rounding import ROUNDINGS, delay_ps
from astra_sim_network_analytical.topologies import FullyConnected, Ring, Switch


def analytical(options: AnalyticalOptions, platform: Platform) -> Network:
    """The network of the options: the formula, or links that carry one message after another, in C++ if that is installed.

    Raises InputError if the network cannot simulate the platform.
    """
    if options.model == "nccl":
        if options.congestion != "unaware":
            raise InputError("model is nccl and congestion is aware; expected congestion=unaware, for whole collectives use no links")
        from astra_sim_network_analytical.nccl import NcclNetwork

        return NcclNetwork(options, platform)
    for name in ("device", "parameters", "channels", "nic_efficiency", "fabric_latency"):
        if getattr(options, name) is not None:
            raise InputError(f"{name} is given, which model=nccl alone reads")
    if options.congestion == "unaware":
        return _formula(options, platform)
    from astra_sim_network_analytical.congestion import CompiledFifoNetwork, FifoNetwork
    from astra_sim_network_analytical.link_map import LinkMap

    links = LinkMap(platform.wired())
    try:
        return CompiledFifoNetwork(options, links, platform)
    except ImportError:
        return FifoNetwork(options, links, platform)


@cached("analytical: formulas", 16)
def _formula(options: AnalyticalOptions, platform: Platform) -> AnalyticalNetwork:
    """The formula, with the delays it remembers, for all runs on a platform."""
    return AnalyticalNetwork(options, platform)


class AnalyticalNetwork(RouteDelayNetwork):
    """Every message takes hops * link latency + bytes / bandwidth + 2 * NIC latency (+ router latency at a switch).

    Messages do not contend. Bandwidth is that of the links that one message uses side by side. In a dimension with an `hbm_scale`, a
    message takes at least that share of the time to read it from memory.
    """

    remedy = "messages do not wait for each other: congestion=aware (--set network.congestion=aware) or --network plugin:packet is right"

    def __init__(self, options: AnalyticalOptions, platform: Platform) -> None:
        super().__init__(platform)
        self.accounting_dimension = "lowest" if options.accounting_dimension == "lowest" else "highest"
        self._rounding = options.rounding
        self._bandwidth = []
        for number, dimension in enumerate(platform.dimensions):
            links = dimension.topology.links_per_message()
            if links < 1:
                raise InputError(f"dimension {number}: {dimension.links} links are too few for a message to use one")
            if not dimension.topology.is_uniform():
                raise InputError(
                    f"dimension {number}: the links of the {dimension.topology.name} differ, and a delay formula has one bandwidth and "
                    "latency; expected congestion=aware"
                )
            self._bandwidth.append(dimension.link_bandwidth * links)

    def route_delay(self, dimension: int, hops: int, size: int) -> int:
        """Picoseconds a message takes."""
        d = self.platform.dimensions[dimension]
        router = d.router_latency_ns if pattern_of(d) == "switch" else 0.0
        transfer = size / self._bandwidth[dimension]
        picoseconds = delay_ps(self._rounding, hops * d.link_latency_ns, transfer, 2 * d.nic_latency_ns, router)
        memory_ns = (d.hbm_latency_ns + size / d.hbm_bandwidth) * d.hbm_scale
        return max(picoseconds, round(memory_ns * PS_PER_NS))

    def delay_parts(self, dimension: int, hops: int, size: int) -> DelayParts:
        """The terms of the formula."""
        d = self.platform.dimensions[dimension]
        router = d.router_latency_ns if pattern_of(d) == "switch" else 0.0
        latency = (hops * d.link_latency_ns + 2 * d.nic_latency_ns + router) * PS_PER_NS
        transfer = size / self._bandwidth[dimension] * PS_PER_NS
        memory = (d.hbm_latency_ns + size / d.hbm_bandwidth) * d.hbm_scale * PS_PER_NS
        return DelayParts(latency, transfer, memory if memory > latency + transfer else 0.0)

    def function_table(self) -> object | None:
        """The formula in C++; None if this package was installed without it, or a table of hops would be too large."""
        try:
            from astra_sim_network_analytical import _core
        except ImportError:
            return None
        rows = []
        for number, d in enumerate(self.platform.dimensions):
            hops = _hops(d)
            if hops is None:
                return None
            router = d.router_latency_ns if pattern_of(d) == "switch" else 0.0
            memory = d.hbm_latency_ns, d.hbm_bandwidth, d.hbm_scale
            rows.append((d.size, hops, self._bandwidth[number], d.link_latency_ns, d.nic_latency_ns, router, *memory))
        return _core.delay_table(rows, ROUNDINGS.index(self._rounding), self.accounting_dimension == "lowest")

    def statistics(self) -> dict[str, object]:
        """The cost of the network."""
        return {"cost_usd": cost_usd(self.platform)}


_LARGEST_MATRIX = 1024


def _hops(dimension: Dimension) -> list[int] | None:
    """Hops of a dimension, by distance if nothing else matters, else by source and destination; None if that table is too large.

    A topology of another package is asked for the hops of every pair, so that this does not depend on its `is_symmetric`.
    """
    topology, size = dimension.topology, dimension.size
    if type(topology) in (Ring, FullyConnected, Switch):
        return [0, *(dimension.hops(0, distance) for distance in range(1, size))]
    if size > _LARGEST_MATRIX:
        return None
    return [hops for source in range(size) for hops in _row(dimension, source)]


def _row(dimension: Dimension, source: int) -> list[int]:
    """The hops from a position to each. Raises PluginError, as `Dimension.hops`, for what is no such number."""
    others = [*range(source), *range(source + 1, dimension.size)]
    row = list(map(dimension.topology.hops, repeat(source), others))
    if row and (set(map(type, row)) != {int} or min(row) < 0 or max(row) >= MOST_NPUS):
        row = [dimension.hops(source, other) for other in others]
    return [*row[:source], 0, *row[source:]]


# Dollars per GiB/s of a link, a switch port and a network interface (ASTRA-sim 1.0).
_PRICES: dict[str, tuple[float, float | None, float | None]] = {
    "tile": (1.0, None, None),
    "package": (4.0, 13.0, 0.0),
    "node": (4.0, 13.0, 0.0),
    "pod": (7.4, 23.7, 47.8),
}


def cost_usd(platform: Platform) -> float | None:
    """The cost of links, switches and network interfaces; None if a part has no price (a switch on a tile)."""
    if any(dimension.topology.is_part for dimension in platform.dimensions):
        platform = platform.wired()  # parts of one dimension have no links of their own
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
    """The price of a dimension in USD, None if its pattern or packaging has no price."""
    link, switch, nic = _PRICES[d.packaging]
    bandwidth = d.link_bandwidth * 1e9 / GIB
    groups = npus // d.size
    pattern = pattern_of(d)
    if pattern == "ring":
        return link * (groups * d.size * (d.links // 2)) * bandwidth
    if pattern == "fully_connected":
        return link * (groups * (d.size * (d.size - 1) // 2) * (d.links // max(1, d.size - 1))) * bandwidth
    if pattern != "switch" or switch is None or nic is None:
        return None
    switches = npus // below
    ports = below * d.links * switches
    return link * ports * bandwidth + switch * switches * bandwidth * below * d.links + nic * ports * bandwidth
