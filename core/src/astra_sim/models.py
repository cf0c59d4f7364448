"""What compute and memory models are."""

from __future__ import annotations

import abc

import attrs

from astra_sim.boundary import call, picoseconds
from astra_sim.errors import InputError


@attrs.define(slots=True)
class Work:
    """The computation of one pass of a layer, as far as the workload knows it.

    `recorded_ns` is a measured time, `operations` counts arithmetic operations (a multiply-add is two), `bytes` is the memory
    traffic. None: not given.
    """

    recorded_ns: float | None = None
    operations: float | None = None
    bytes: float | None = None


class MissingWork(InputError):
    """The workload does not give what a compute model needs; the message says what."""


class Compute(abc.ABC):
    """A compute model: work to time."""

    @abc.abstractmethod
    def duration_ns(self, work: Work) -> float:
        """Nanoseconds that the work takes. Raises MissingWork where the work lacks what this model needs."""


class Memory(abc.ABC):
    """A memory model: the time of accesses to an NPU's memory."""

    @abc.abstractmethod
    def access_ps(self, size: int, write: bool) -> int:
        """Picoseconds to read or write `size` bytes."""

    def reduce_ps(self, size: int) -> int:
        """Picoseconds to add `size` received bytes to a buffer: one write and two reads (ASTRA-sim 1.0)."""
        return self.checked_ps(size, True) + 2 * self.checked_ps(size, False)

    def checked_ps(self, size: int, write: bool) -> int:
        """What `access_ps` says. Raises PluginError if that is no time, InputError if it is too long."""
        what = f"memory {type(self).__name__}: the time to {'write' if write else 'read'} {size} bytes"
        return picoseconds(call(what, self.access_ps, size, write), what)
