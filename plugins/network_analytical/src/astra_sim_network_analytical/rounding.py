"""Rounding of times to whole numbers: the rules of ASTRA-sim, and picoseconds. `native/rounding.hpp` is the same in C++."""

from __future__ import annotations

from astra_sim.units import PS_PER_NS

ROUNDINGS = ("nanosecond", "nanosecond_sum", "picosecond")
"""Round down to whole ns after every term (ASTRA-sim 1.0), round the sum down to whole ns (2.x), round the sum to whole ps."""


def delay_ps(rounding: str, links_ns: float, transfer_ns: float, interfaces_ns: float = 0.0, router_ns: float = 0.0) -> int:
    """Picoseconds of a message: latency of links, time of transfer, latency of network interfaces and of a router, in nanoseconds."""
    if rounding == "nanosecond":
        delay = int(links_ns)
        delay = int(delay + transfer_ns)
        delay = int(delay + interfaces_ns)
        return int(delay + router_ns) * PS_PER_NS
    total = links_ns + interfaces_ns + router_ns + transfer_ns
    return int(total) * PS_PER_NS if rounding == "nanosecond_sum" else round(total * PS_PER_NS)
