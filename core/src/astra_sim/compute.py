"""The interface of compute models: work to time.

Example:

A model of a device that does 10^14 operations a second, and takes 2 us to launch each kernel:

    >>> from astra_sim.compute import Compute, ExpectedError, MissingWork, Work
    >>> from astra_sim.shapes import Gemm
    >>> class Rate(Compute):
    ...     memory_bytes = 80 * 2**30
    ...
    ...     def duration_ns(self, work):
    ...         operations = work.count_operations()
    ...         if operations is None:
    ...             raise MissingWork("it has neither operations nor a shape")
    ...         return 2000 + operations / 1e5
    ...
    ...     def expected_error(self, npus, configuration):
    ...         # Of 12 published runs, five of which are like this one, 90 % are within 10 %.
    ...         return ExpectedError(within=0.1, share=0.9, runs=12, near=5.0) if npus <= 1024 else None
    >>> [Rate().duration_ns(work) for work in (Work(operations=1e9), Work(shape=Gemm(m=1000, n=1000, k=500)))]
    [12000.0, 12000.0]
    >>> Rate().duration_ns(Work(bytes=1e6))
    Traceback (most recent call last):
    ...
    astra_sim.compute.MissingWork: it has neither operations nor a shape
    >>> Rate().expected_error(npus=64, configuration={"sequence": 4096}).within
    0.1

A run with it: a layer of 10^9 operations in each of two passes, and a collective.

    >>> from astra_sim import simulate
    >>> backward = {"operations": 1e9, "collective": "all_reduce", "collective_bytes": 1_000_000}
    >>> layer = {"name": "dense", "forward": {"operations": 1e9}, "weight_gradient": backward}
    >>> workload = {"plugin": "layers", "loop": "data", "layers": [layer]}
    >>> platform = "plugin:switch?size=8&link_bandwidth_gb_per_s=50&link_latency_ns=500"
    >>> simulate(workload=workload, platform=platform, compute=Rate()).compute_ns
    24000

A variation of runs, which a plugin offers as a section of an experiment: computing on NPU 0 takes half as long again.

    >>> from astra_sim import Experiment, Provider, hookimpl
    >>> from astra_sim.commands import Plugins
    >>> from astra_sim.compute import Started, Variation
    >>> from astra_sim.fabric import LinkChange
    >>> def slow_first(started: Started) -> int:
    ...     return started.duration_ps * 3 // 2 if started.npu == 0 else started.duration_ps
    >>> links = [LinkChange("NPU 0", "switch 0", bandwidth=0.5)]  # networks that simulate links look at it
    >>> class Wear:
    ...     @hookimpl
    ...     def astra_variations(self):
    ...         return [Provider("wear", "NPU 0 is slow, and so is a link", lambda platform: Variation(npu_ps=slow_first, links=links))]
    >>> plugins = Plugins()
    >>> plugins.register(Wear())
    >>> worn = Experiment(plugin_sections={"wear": {}})
    >>> simulate(worn, workload=workload, platform=platform, compute=Rate(), network="plugin:flow", plugins=plugins).compute_ns
    36000
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import attrs

from astra_sim._boundary import FIGURES, FLAG, NOT_NEGATIVE, POSITIVE, TEXT, Contract, Expected, each
from astra_sim.errors import InputError
from astra_sim.fabric.links import LinkChange
from astra_sim.shapes import ELEMENT_BYTES, Kernel
from astra_sim.value_objects import ValueObject

if TYPE_CHECKING:
    from astra_sim.platform import Platform

__all__ = ["Compute", "ExpectedError", "MissingWork", "Started", "Variation", "Work"]


@attrs.define(slots=True)
class Work:
    """The computation of one pass of a layer, as far as the workload knows it.

    `recorded_ns` is a measured time in nanoseconds, `operations` counts arithmetic operations (a multiply-add is two), `bytes` is the
    memory traffic, `shape` is the computed operation (`astra_sim.shapes`). None: not given.
    """

    recorded_ns: float | None = None
    operations: float | None = None
    bytes: float | None = None
    shape: Kernel | None = None

    def count_operations(self) -> float | None:
        """The operations as given, or those of the shape: two for each multiply-add. None if neither is known."""
        if self.operations is not None or self.shape is None:
            return self.operations
        return self.shape.operations

    def count_bytes(self, element_bytes: float) -> float | None:
        """The memory traffic as given, or that of the shape: every operand once, with the bytes of its own element type if it has one."""
        if self.bytes is not None or self.shape is None:
            return self.bytes
        element_type = self.shape.element_type
        return self.shape.count_bytes(element_bytes if element_type is None else ELEMENT_BYTES[element_type])


class Started(NamedTuple):
    """An operation on the accelerator of an NPU when it starts there: its place in the program, its pass, and its time by `duration_ns`."""

    npu: int
    number: int
    iteration: int
    start_ps: int
    duration_ps: int


@attrs.frozen(eq=False, repr=False)
class ExpectedError(ValueObject):
    """The error of a simulated workload against measurements, from published runs that are like it.

    The relative errors of a `share` of them, weighted by how near they are, are at most `within`. `runs` is how many there are, `near` how
    many of them count (the sum of their weights), `nearest` names some. `extrapolates` lists values outside of all of them.
    """

    within: float
    share: float
    runs: int
    near: float
    nearest: tuple[str, ...] = ()
    extrapolates: tuple[str, ...] = ()


NpuPs = Callable[[Started], int]
"""The time of an operation on the NPU on which it starts (picoseconds)."""


@attrs.frozen(eq=False, repr=False)
class Variation(ValueObject):
    """The deviations of a run from its models: the time of each operation on its NPU (None: that of the compute model), and other links."""

    npu_ps: NpuPs | None = None
    links: Sequence[LinkChange] = ()


class MissingWork(InputError):
    """The workload lacks information that a compute model needs; the message names it."""


def _are_tables(tables: Any, compute: Any) -> bool:
    return isinstance(tables, Mapping) and all(isinstance(key, str) and isinstance(table, Mapping) for key, table in tables.items())


class Compute(Contract, abc.ABC):
    """A compute model: work to time. `memory_bytes` is the memory of its device, if it knows it, `memory_margin_bytes` the part that the
    driver, communicators and fragmentation take, which a workload does not count.

    `collective_share` is the share of the bandwidth between nodes that its software reaches: the bandwidths of all dimensions of the
    platform but the innermost are multiplied by it before a network is made.

    `launch_us` is how long its host takes to launch a kernel, for workloads that know how many kernels a pass launches; 0: no time.

    `device` is the device that it knows the kernels of, as platforms name theirs (`Platform.device`); "": none that has a name.
    `workload_defaults` are options of workloads that its software implies, by the name of the workload's plugin, in tables as an
    experiment has them: a workload takes those that the experiment does not give.

    `varies`: the same operation takes another time on another NPU, or at another moment (`npu_duration_ps`). Then every NPU is
    simulated.
    """

    _kind = "compute"
    _attributes: ClassVar = {
        "memory_bytes": NOT_NEGATIVE.optional(),
        "memory_margin_bytes": NOT_NEGATIVE,
        "collective_share": POSITIVE,
        "launch_us": NOT_NEGATIVE,
        "varies": FLAG,
        "device": TEXT,
        "workload_defaults": Expected("tables of options by the name of a workload", _are_tables),
    }
    _answers: ClassVar = {
        "peak_ops_per_s": NOT_NEGATIVE.optional(),
        "mismatches": each("a list of texts", TEXT),
        "statistics": FIGURES,
        "expected_error": Expected(
            "an ExpectedError, or None", lambda answer, compute: answer is None or isinstance(answer, ExpectedError)
        ),
    }

    memory_bytes: float | None = None
    memory_margin_bytes: float = 0.0
    collective_share: float = 1.0
    launch_us: float = 0.0
    varies: bool = False
    device: str = ""
    workload_defaults: Mapping[str, Mapping[str, Any]] = MappingProxyType({})

    def for_platform(self, platform: Platform) -> Compute:
        """The model on a platform, which may name the device that was not given. Asked once, before all else. Raises InputError."""
        return self

    def for_workload(self, name: str, traits: Collection[str]) -> Compute:
        """The model for a workload, by its plugin and properties (`Provider.traits`), from which its software may follow.

        Asked once, after `for_platform`. Raises InputError.
        """
        return self

    def peak_ops_per_s(self, element_type: str) -> float | None:
        """Operations a second that the device can do at most on elements of a type; None if that is not known."""
        return None

    def direct_all_reduce_us(self, ranks: int, size: int) -> float | None:
        """Microseconds of an all-reduce of `size` bytes in which the NPUs of a node read each other's memory, as inference servers do.

        None: the model does not know, or such sizes go over the network.
        """
        return None

    @abc.abstractmethod
    def duration_ns(self, work: Work) -> float:
        """Nanoseconds that the work takes, at least 0. Raises MissingWork if the work lacks what this model needs."""

    def npu_duration_ps(self, npu: int, start_ps: int, duration_ps: int) -> int:
        """Picoseconds that an operation takes on an NPU if it starts at a moment of the run; `duration_ps`: by `duration_ns`, and scaled.

        Asked of a model that `varies`, once for each operation on the accelerator that takes time, when it starts. The answer depends on
        the arguments alone.
        """
        return duration_ps

    def expected_error(self, npus: int, configuration: Mapping[str, Any]) -> ExpectedError | None:
        """The error bound of an iteration time of training; None: no measured runs are like it.

        `configuration` has `parameters`, `experts` (a layer), `sequence`, `global_batch`, `micro_batch`, `precision`, `zero`, `recompute`,
        and `tensor_parallel`, `pipeline_parallel`, `context_parallel`, `expert_parallel`.
        """
        return None

    def mismatches(self, precision: str) -> Sequence[str]:
        """Warnings about parts of the model that do not match each other, or the precision of the products ("": unknown)."""
        return ()

    def statistics(self) -> dict[str, object]:
        """Facts about the model for the result, by name: the device, the software, the error. Ready for JSON."""
        return {}
