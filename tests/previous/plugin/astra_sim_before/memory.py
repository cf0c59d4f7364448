"""The memory model: how long accesses take, and what fits. Times are whole picoseconds."""

from __future__ import annotations

import attrs
from astra_sim import option
from astra_sim.memory import Memory
from astra_sim.units import GIB


@attrs.frozen
class PoolOptions:
    """Options of the model."""

    bandwidth_gb_per_s: float = option(2000.0, above=0, help="bandwidth of an NPU's own memory", unit="10^9 bytes/s")
    capacity_gib: float | None = option(None, above=0, help="size of it; none: not limited", unit="2^30 bytes")
    pool_bandwidth_gb_per_s: float = option(100.0, above=0, help="bandwidth of the pool", unit="10^9 bytes/s")
    latency_ns: float = option(1000.0, minimum=0, help="latency of an access to the pool", unit="ns")


class PooledMemory(Memory):
    """Own memory takes bytes / bandwidth; the pool has a latency besides, and serves one NPU after another."""

    def __init__(self, options: PoolOptions) -> None:
        self._options = options

    def access_ps(self, size: int, write: bool) -> int:
        """Picoseconds of an access to own memory."""
        return round(size * 1000 / self._options.bandwidth_gb_per_s)

    def remote_access_ps(self, size: int, write: bool) -> int:
        """Picoseconds of an access to the pool, once it is its turn."""
        return round(self._options.latency_ns * 1000 + size * 1000 / self._options.pool_bandwidth_gb_per_s)

    def remote_port(self, npu: int) -> int:
        """All NPUs use one port."""
        return 0

    def capacity_bytes(self) -> float | None:
        """Bytes of own memory. None: not limited."""
        return None if self._options.capacity_gib is None else self._options.capacity_gib * GIB
