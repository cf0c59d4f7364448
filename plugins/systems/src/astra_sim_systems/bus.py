"""The bus that the endpoints of an NPU share on the way to its memory, by the parameters of LogGP, as ASTRA-sim's files give them."""

from __future__ import annotations

from astra_sim.system import BusOptions

from astra_sim_systems.options import ChunkingOptions


def bus_of(options: ChunkingOptions) -> BusOptions | None:
    """The bus that the options describe, or None if endpoints share none."""
    if not options.shared_bus:
        return None
    return BusOptions(
        L=options.bus_latency_ns,
        o=options.bus_overhead_ns,
        g=options.bus_gap_ns,
        G=options.bus_gap_per_byte_ns,
        reduction_delay=options.bus_reduction_delay,
    )
