"""The interface of memory models: the time of accesses, and the capacity.

Example:

Memory of 2 bytes/ps and 80 GiB, and a pool behind one port for all NPUs, of 0.1 bytes/ps and a latency of 1 us:

    >>> from astra_sim.memory import Memory
    >>> class Pooled(Memory):
    ...     def access_ps(self, size, write):
    ...         return size // 2
    ...
    ...     def remote_access_ps(self, size, write):
    ...         return 1_000_000 + 10 * size
    ...
    ...     def remote_port(self, npu):
    ...         return 0
    ...
    ...     def capacity_bytes(self):
    ...         return 80 * 2**30
    >>> memory = Pooled()
    >>> memory.reduce_ps(1000)
    1500
    >>> memory.require(100 * 2**30, "the model")
    Traceback (most recent call last):
    ...
    astra_sim.errors.InputError: the model needs 100.000 GiB of memory; an NPU has 80.000 GiB

All four NPUs read 1 MB from the pool, one after another, in 11 us each:

    >>> from astra_sim import simulate
    >>> from astra_sim.graph import ExecutionGraph, MemoryAccess
    >>> graph = ExecutionGraph([MemoryAccess(after=(), bytes=1_000_000, remote=True)], dimensions=(), layers=())
    >>> result = simulate(workload=graph, platform="plugin:switch?size=4&link_bandwidth_gb_per_s=50", memory=memory)
    >>> result.earliest_finish_ns, result.finish_ns
    (11000, 44000)
"""

from __future__ import annotations

import abc
from typing import ClassVar

from astra_sim._boundary import NOT_NEGATIVE, TIME, Contract, Lazily, call, picoseconds, whole
from astra_sim.errors import InputError
from astra_sim.units import GIB

__all__ = ["Memory"]


class Memory(Contract, abc.ABC):
    """A memory model: the time of accesses to an NPU's own memory, and to memory outside of it."""

    _kind = "memory"
    _answers: ClassVar = {
        "remote_port": whole(-(2**63)).optional(),
        "capacity_bytes": NOT_NEGATIVE.optional(),
        "reduce_ps": TIME,
        "checked_ps": TIME,
    }

    @abc.abstractmethod
    def access_ps(self, size: int, write: bool) -> int:
        """Picoseconds to read, or to `write`, `size` bytes of an NPU's own memory; at least 0."""

    def remote_access_ps(self, size: int, write: bool) -> int:
        """Picoseconds to read or write `size` bytes of remote memory, once it is its turn. Raises InputError if there is none."""
        raise InputError(
            f"{size} bytes are {'written to' if write else 'read from'} remote memory, which memory {type(self).__name__} does not have"
        )

    def remote_port(self, npu: int) -> int | None:
        """Number of the port of remote memory that an NPU uses: accesses at a port take turns. None: its accesses never wait."""
        return None

    def capacity_bytes(self) -> float | None:
        """Bytes that an NPU's own memory holds. None: it is not limited."""
        return None

    def require(self, size: int, what: str) -> None:
        """Raise InputError if `what`, which needs `size` bytes of an NPU's own memory, does not fit."""
        capacity = self.capacity_bytes()
        if capacity is not None and size > capacity:
            raise InputError(f"{what} needs {size / GIB:.3f} GiB of memory; an NPU has {capacity / GIB:.3f} GiB")

    def reduce_ps(self, size: int) -> int:
        """Picoseconds to add `size` received bytes to a buffer: one write and two reads."""
        return self.checked_ps(size, True) + 2 * self.checked_ps(size, False)

    def checked_ps(self, size: int, write: bool, remote: bool = False) -> int:
        """The value of `access_ps` or `remote_access_ps`. Raises PluginError if it is no time, InputError if it is too long."""
        access, where = (self.remote_access_ps, "remote ") if remote else (self.access_ps, "")
        what = Lazily(lambda: f"memory {type(self).__name__}: the time to {'write' if write else 'read'} {size} {where}bytes")
        return picoseconds(call(what, access, size, write), what)
