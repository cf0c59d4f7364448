"""A network by a formula, on which a run costs next to nothing: messages take latency and bytes over bandwidth, and never wait."""

from __future__ import annotations

import math

from astra_sim.network import RouteDelayNetwork
from astra_sim.units import PS_PER_NS


class FormulaNetwork(RouteDelayNetwork):
    """Messages never wait for each other: the latencies of their links, and their bytes at the bandwidth of one."""

    def route_delay(self, dimension: int, hops: int, size: int) -> int:
        """Picoseconds of a message of `size` bytes over `hops` links of a dimension."""
        links = self.platform.dimensions[dimension]
        return math.ceil(PS_PER_NS * (hops * links.link_latency_ns + size / links.link_bandwidth))
