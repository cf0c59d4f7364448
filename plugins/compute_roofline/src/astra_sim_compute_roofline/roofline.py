"""Roofline (Williams, Waterman, Patterson 2009)."""

from __future__ import annotations

import attrs
from astra_sim import option
from astra_sim.models import Compute, MissingWork, Work


@attrs.frozen
class RooflineOptions:
    """Options of the roofline model."""

    peak_tera_ops_per_s: float = option(above=0, help="peak rate of arithmetic operations", unit="10^12 operations/s")
    memory_bandwidth_gb_per_s: float | None = option(None, above=0, help="memory bandwidth; none: it is no bottleneck", unit="10^9 bytes/s")
    efficiency: float = option(1.0, above=0, maximum=1, help="share of the peak rate that is reached")


class Roofline(Compute):
    """Work takes the longer of operations / (peak * efficiency) and bytes / bandwidth, rounded to whole nanoseconds."""

    def __init__(self, options: RooflineOptions) -> None:
        self._ops_per_ns = options.peak_tera_ops_per_s * 1e3 * options.efficiency
        self._bytes_per_ns = options.memory_bandwidth_gb_per_s

    def duration_ns(self, work: Work) -> float:
        """Nanoseconds that the work takes. Raises MissingWork where operations, or bytes if they matter, are not given."""
        if work.operations is None:
            raise MissingWork("it has no operations, which the roofline model needs")
        computing = work.operations / self._ops_per_ns
        if self._bytes_per_ns is None:
            return round(computing)
        if work.bytes is None:
            raise MissingWork("it has no bytes, which the roofline model needs to apply a memory bandwidth")
        return round(max(computing, work.bytes / self._bytes_per_ns))
