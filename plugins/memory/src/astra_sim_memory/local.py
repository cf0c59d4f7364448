"""Local memory."""

from __future__ import annotations

import attrs
from astra_sim import option
from astra_sim.memory import Memory
from astra_sim.units import GIB, PS_PER_NS
from astra_sim.value_objects import ValueObject


@attrs.frozen(eq=False, repr=False)
class LocalOptions(ValueObject):
    """Options of local memory. The defaults are those of ASTRA-sim 1.0."""

    bandwidth_bytes_per_ns: float = option(500_000.0, above=0, help="bandwidth for reads and for writes", unit="bytes/ns = GB/s")
    latency_ns: float = option(0.0, minimum=0, help="latency of an access", unit="ns")
    rounding: str = option("nanosecond", choices=("nanosecond", "picosecond"), help="nanosecond: rounded down, as in ASTRA-sim 1.0")
    capacity_gib: float | None = option(None, above=0, help="size, for checks that a model fits; none: not limited", unit="2^30 bytes")


class LocalMemory(Memory):
    """An access takes latency + bytes / bandwidth."""

    def __init__(self, options: LocalOptions) -> None:
        self._options = options

    def access_ps(self, size: int, write: bool) -> int:
        """Picoseconds to read or write `size` bytes."""
        delay = self._options.latency_ns + size / self._options.bandwidth_bytes_per_ns
        return int(delay) * PS_PER_NS if self._options.rounding == "nanosecond" else round(delay * PS_PER_NS)

    def capacity_bytes(self) -> float | None:
        """Bytes that it holds. None: unlimited."""
        return None if self._options.capacity_gib is None else self._options.capacity_gib * GIB
