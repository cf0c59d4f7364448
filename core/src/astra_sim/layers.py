"""Layered workloads: layers with three passes, and the program that a training loop writes from them.

Example:

A training loop writes what every NPU does. This one exchanges the gradients of a layer while it computes those of the layer before, and
waits for them before the layer's next forward pass:

    >>> from astra_sim.graph import Pass
    >>> from astra_sim.layers import LayeredProgram
    >>> def overlapping(program: LayeredProgram) -> None:
    ...     layers = range(len(program.layers))
    ...     for _ in program.iterations():
    ...         for layer in layers:
    ...             program.wait(layer, Pass.WEIGHT_GRADIENT)
    ...             program.compute(layer, Pass.FORWARD)
    ...         for layer in reversed(layers):
    ...             program.compute(layer, Pass.WEIGHT_GRADIENT)
    ...             program.communicate(layer, Pass.WEIGHT_GRADIENT, program.all_dimensions())
    ...             if layer > 0:
    ...                 program.compute(layer, Pass.INPUT_GRADIENT)
    ...     for layer in layers:
    ...         program.wait(layer, Pass.WEIGHT_GRADIENT)

A workload makes the layers, and writes its program with the loop:

    >>> from astra_sim.layers import LayerOptions, PassOptions
    >>> from astra_sim.shapes import Gemm
    >>> def two_layers(context):
    ...     gradient = PassOptions(gemm=Gemm(m=1024, n=1024, k=256), collective="all_reduce", collective_bytes=2 * 1024**2)
    ...     product = PassOptions(gemm=Gemm(m=256, n=1024, k=1024))
    ...     names = ("first", "second")
    ...     layers = [LayerOptions(name=name, forward=product, input_gradient=product, weight_gradient=gradient) for name in names]
    ...     program = LayeredProgram(layers, context, "workload two_layers")
    ...     overlapping(program)
    ...     return program.build(footprint_bytes=2 * 2 * 1024**2)

A plugin offers both, so that tables of layers may name the loop, too. In a run of two iterations the exchange of the second layer is hidden
behind computing; that of the first is exposed, since nothing is left to compute.

    >>> from astra_sim import Provider, hookimpl, simulate
    >>> from astra_sim.commands import Plugins
    >>> class Overlapping:
    ...     @hookimpl
    ...     def astra_workloads(self):
    ...         return [Provider("two_layers", "Two equal layers", two_layers)]
    ...
    ...     @hookimpl
    ...     def astra_training_loops(self):
    ...         return [Provider("overlapping", "Gradients are exchanged during the backward pass", overlapping)]
    >>> plugins = Plugins()
    >>> plugins.register(Overlapping())
    >>> platform = "plugin:switch?size=8&link_bandwidth_gb_per_s=50&link_latency_ns=500"
    >>> compute = "plugin:roofline?peak_tera_ops_per_s=10&memory_bandwidth_gb_per_s=2000"
    >>> result = simulate(workload="plugin:two_layers", platform=platform, compute=compute, passes=2, plugins=plugins)
    >>> [(layer.name, layer.weight_gradient.total_comm_ns, layer.weight_gradient.exposed_comm_ns) for layer in result.layers]
    [('first', 158938, 158938), ('second', 158938, 0)]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import attrs

from astra_sim._boundary import call, picoseconds
from astra_sim.compute import MissingWork, Work
from astra_sim.context import Context
from astra_sim.errors import InputError, in_figures
from astra_sim.graph import ExecutionGraph, Pass, ProgramBuilder
from astra_sim.options import option
from astra_sim.platform import LogicalDimension, Platform
from astra_sim.schedule import Collective
from astra_sim.shapes import Attention, Cast, Convolution, Elementwise, Gemm, GroupedGemm, Kernel, OptimizerStep
from astra_sim.units import PS_PER_NS

__all__ = ["LayerOptions", "LayeredProgram", "PassOptions"]

MAX_BYTES = 1 << 62

Scale = Callable[[float, float], int]
"""A rule for scaling: (a workload's value, factor of the run) -> an integer."""


@attrs.frozen(cache_hash=True)
class PassOptions:
    """One pass of a layer: its compute, and the collective it needs. Raises InputError if two shapes are given."""

    compute_ns: float | None = option(None, minimum=0, help="recorded compute time", unit="ns")
    operations: float | None = option(None, minimum=0, help="arithmetic operations; a multiply-add is two")
    memory_bytes: float | None = option(None, minimum=0, help="memory traffic", unit="bytes")
    collective: str | None = option(None, choices=tuple(Collective), help="collective that the pass issues; none: it issues none")
    collective_bytes: int = option(0, minimum=0, help="bytes that each NPU puts into the collective", unit="bytes")
    collective_group: str | None = option(
        None, choices=("expert", "expert_data"), help="NPUs that join, in loops with expert parallelism; none: those of the pass"
    )
    gemm: Gemm | None = option(None, help="product of matrices that is computed: m, n, k")
    convolution: Convolution | None = option(None, help="convolution that is computed")
    grouped_gemm: GroupedGemm | None = option(None, help="products of matrices of several experts that are computed at once")
    attention: Attention | None = option(None, help="attention that is computed")
    elementwise: Elementwise | None = option(None, help="kernel that is bound by memory, in bytes")
    cast: Cast | None = option(None, help="change of element type")
    optimizer_step: OptimizerStep | None = option(None, help="step of an optimizer")
    remote_read_bytes: int = option(0, minimum=0, help="bytes read from remote memory before computing", unit="bytes")
    remote_write_bytes: int = option(0, minimum=0, help="bytes written to remote memory after computing", unit="bytes")

    def __attrs_post_init__(self) -> None:
        if len(self._shapes) > 1:
            first, second, *_ = self._shapes
            raise InputError(f"{first.kind} and {second.kind} are given; expected one of the two")

    @property
    def shape(self) -> Kernel | None:
        """The shape, if it is given."""
        return next(iter(self._shapes), None)

    @property
    def _shapes(self) -> list[Kernel]:
        shapes = (self.gemm, self.convolution, self.grouped_gemm, self.attention, self.elementwise, self.cast, self.optimizer_step)
        return [shape for shape in shapes if shape is not None]


@attrs.frozen(cache_hash=True)
class LayerOptions:
    """A layer."""

    name: str = option(help="name of the layer")
    forward: PassOptions = option(PassOptions(), help="forward pass")
    input_gradient: PassOptions = option(PassOptions(), help="backward pass, gradient of the input")
    weight_gradient: PassOptions = option(PassOptions(), help="backward pass, gradient of the weights")
    update_ns: float = option(0.0, minimum=0, help="time to use the result of one of the layer's collectives", unit="ns")
    loop: str | None = option(None, help="how this layer is parallelised, for loops that ask layer by layer")


class LayeredProgram:
    """The program that a training loop writes: compute, collectives and waits, layer by layer, for all passes.

    `layers` are those of the workload, `passes` how often the loop runs. `dimensions` are those that collectives speak of; a loop that
    splits one puts the new list in its place before it writes anything. `where` begins the messages of errors. A loop that sets
    `whole_gathers` takes the bytes of an all-gather for those of its result, not for those that an NPU puts in.

    `scale` multiplies times (ns) and sizes (bytes) by the factors of the run; without it times are cut to the clock of the system layer.
    """

    def __init__(
        self, layers: Sequence[LayerOptions], context: Context, where: str, scale: Scale | None = None, smallest_collective: int = 1
    ) -> None:
        self.layers = layers
        self.passes = context.run.passes
        self.platform: Platform = context.platform
        self.dimensions: tuple[LogicalDimension, ...] = context.platform.logical_dimensions()
        self.where = where
        self.whole_gathers = False
        self._context = context
        self._scale = scale
        self._smallest_collective = smallest_collective
        self._builder = ProgramBuilder()
        self._durations: dict[tuple[int, Pass], int] = {}

    def all_dimensions(self) -> tuple[int, ...]:
        """Every dimension."""
        return tuple(range(len(self.dimensions)))

    def iterations(self) -> Iterator[int]:
        """The training iterations, to loop over; operations belong to the current one."""
        for iteration in range(self.passes):
            self._builder.iteration = iteration
            yield iteration

    def collective(self, layer: int, training_pass: Pass) -> Collective | None:
        """The collective that a pass of a layer needs, or None."""
        name = self._options(layer, training_pass).collective
        return Collective(name) if name is not None else None

    def compute(self, layer: int, training_pass: Pass) -> None:
        """Compute a pass of a layer, with its reads from remote memory before and its writes after.

        Raises InputError if the layer does not give what the compute model needs, or the time is too long.
        """
        options = self._options(layer, training_pass)
        if options.remote_read_bytes:
            self._builder.access(options.remote_read_bytes, layer, remote=True)
        self._builder.compute(self._duration(layer, training_pass), layer, training_pass)
        if options.remote_write_bytes:
            self._builder.access(options.remote_write_bytes, layer, write=True, remote=True)

    def idle(self, duration_ps: int) -> None:
        """Do nothing for so long (picoseconds)."""
        self._builder.idle(duration_ps)

    def communicate(
        self,
        layer: int,
        training_pass: Pass,
        dimensions: Sequence[int],
        *,
        blocking: bool = False,
        urgent: bool = False,
        groups: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        """Issue the collective of a pass of a layer, if it has one, over `dimensions` (positions in the list of that name).

        The loop goes on at once, or when the collective has ended if it is `blocking`; an `urgent` one goes before all others. `groups` are
        the dimensions of each `collective_group` that the loop has. Raises InputError if the bytes of the collective, with the run's
        scale, are too few or too many, and if the loop does not have its group.
        """
        options = self._options(layer, training_pass)
        collective = self.collective(layer, training_pass)
        if collective is None:
            return
        if options.collective_group is not None:
            if groups is None or options.collective_group not in groups:
                name, group = self.layers[layer].name, options.collective_group
                raise InputError(
                    f"{self.where}: layer {name}, {training_pass}: collective_group is {group!r}, which this loop does not have"
                )
            dimensions = groups[options.collective_group]
        size = self._size(options.collective_bytes)
        if self.whole_gathers and collective is Collective.ALL_GATHER:
            size = -(-size // math.prod(self.dimensions[dimension].size for dimension in dimensions))
        if size < self._smallest_collective:
            name, least = self.layers[layer].name, self._smallest_collective
            raise InputError(f"{self.where}: layer {name}, {training_pass}: {collective} of {size} bytes; expected at least {least}")
        update = picoseconds(self.layers[layer].update_ns * PS_PER_NS, f"{self.where}: layer {self.layers[layer].name}: update_ns")
        self._builder.communicate(collective, size, dimensions, layer, training_pass, update_ps=update, blocking=blocking, urgent=urgent)

    def wait(self, layer: int, training_pass: Pass, *, until_first: bool = False) -> None:
        """Wait for the collectives issued for a pass of a layer. For `until_first` see `graph.Wait`."""
        self._builder.wait(layer, training_pass, until_first=until_first)

    def build(self, footprint_bytes: int | None = None) -> ExecutionGraph:
        """The graph of everything written; `footprint_bytes` is the memory that an NPU needs for it (None: not known)."""
        return self._builder.build(self.dimensions, [layer.name for layer in self.layers], footprint_bytes)

    def _options(self, layer: int, training_pass: Pass) -> PassOptions:
        options: PassOptions = getattr(self.layers[layer], training_pass.value)
        return options

    def _duration(self, layer: int, training_pass: Pass) -> int:
        """The compute time of a layer in a pass (ps), asked of the compute model once. Raises InputError that names both."""
        key = layer, training_pass
        if key not in self._durations:
            options = self._options(layer, training_pass)
            work = Work(options.compute_ns, options.operations, options.memory_bytes, options.shape)
            where = f"{self.where}: layer {self.layers[layer].name}, {training_pass}"
            what = f"{where}: compute {type(self._context.compute).__name__}"
            try:
                nanoseconds = call(what, self._context.compute.duration_ns, work)
            except MissingWork as error:
                raise InputError(f"{where}: {error}") from None
            picoseconds(nanoseconds, f"{what}: the time it gives")
            if self._scale is None:
                scaled = self._context.scaled_ps(nanoseconds)
            else:
                scaled = self._scale(nanoseconds, self._context.run.compute_scale) * PS_PER_NS
            self._durations[key] = picoseconds(scaled, f"{where}: the compute time")
        return self._durations[key]

    def _size(self, size: int) -> int:
        factor = self._context.run.comm_scale
        scale = self._scale(size, factor) if self._scale is not None else size if factor == 1 else int(size * factor)
        if scale >= MAX_BYTES:
            raise InputError(f"{self.where}: a collective of {in_figures(scale)} bytes; expected less than 2^62")
        return scale
