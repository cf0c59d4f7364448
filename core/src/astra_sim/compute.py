"""What a compute model is: work to time."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import attrs

from astra_sim.errors import InputError
from astra_sim.shapes import ELEMENT_BYTES, Kernel

if TYPE_CHECKING:
    from astra_sim.platform import Platform


@attrs.define(slots=True)
class Work:
    """The computation of one pass of a layer, as far as the workload knows it.

    `recorded_ns` is a measured time in nanoseconds, `operations` counts arithmetic operations (a multiply-add is two), `bytes` is the
    memory traffic, `shape` is what is computed (`astra_sim.shapes`). None: not given.
    """

    recorded_ns: float | None = None
    operations: float | None = None
    bytes: float | None = None
    shape: Kernel | None = None

    def count_operations(self) -> float | None:
        """The operations as given, or those of the shape: two for each multiply-add. None where neither is known."""
        if self.operations is not None or self.shape is None:
            return self.operations
        return self.shape.operations

    def count_bytes(self, element_bytes: float) -> float | None:
        """The memory traffic as given, or that of the shape: every operand once, with the bytes of its own element type if it has one."""
        if self.bytes is not None or self.shape is None:
            return self.bytes
        own = self.shape.element_type
        return self.shape.count_bytes(element_bytes if own is None else ELEMENT_BYTES[own])


class MissingWork(InputError):
    """The workload does not give what a compute model needs; the message says what."""


class Compute(abc.ABC):
    """A compute model: work to time. `memory_bytes` is the memory of its device, where it knows it, `memory_margin_bytes` what of it the
    driver, communicators and fragmentation take, which a workload does not count.

    `collective_share` is what its software reaches of the bandwidth between nodes: the bandwidths of all dimensions of the platform but
    the innermost are multiplied by it before a network is made.

    `launch_us` is how long its host takes to launch a kernel, for workloads that know how many kernels a pass launches; 0: no time.

    `device` is the device that it knows the kernels of, as platforms name theirs (`Platform.device`); "": none that has a name.
    `workload_defaults` are options of workloads that its software implies, by the name of the workload's plugin, in tables as an
    experiment has them: a workload takes those that the experiment does not give.
    """

    memory_bytes: float | None = None
    memory_margin_bytes: float = 0.0
    collective_share: float = 1.0
    launch_us: float = 0.0
    device: str = ""
    workload_defaults: Mapping[str, Mapping[str, Any]] = MappingProxyType({})

    def for_platform(self, platform: Platform) -> Compute:
        """The model on a platform, which may name the device that was not given. Asked once, before all else. Raises InputError."""
        return self

    def peak_ops_per_s(self, element_type: str) -> float | None:
        """Operations a second that the device can do at most on elements of a type; None where that is not known."""
        return None

    @abc.abstractmethod
    def duration_ns(self, work: Work) -> float:
        """Nanoseconds that the work takes, at least 0. Raises MissingWork where the work lacks what this model needs."""

    def mismatches(self, precision: str) -> Sequence[str]:
        """What of the model was not made for each other, or not for products of elements of a precision ("": it is not known), in words."""
        return ()

    def statistics(self) -> dict[str, object]:
        """What the result says of the model, by name: the device, the software, how well it is known. Ready for JSON."""
        return {}
