"""The workloads `layers` and `collective`."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import attrs
from astra_sim import InputError, option
from astra_sim.context import Context
from astra_sim.errors import PluginError, located
from astra_sim.graph import ExecutionGraph, Pass, check_graph
from astra_sim.layers import LayeredProgram, LayerOptions, PassOptions
from astra_sim.memo import Cache, is_hashable
from astra_sim.providers import Provider, options_of
from astra_sim.schedule import Collective
from astra_sim.units import scaled_float32
from astra_sim.value_objects import ValueObject

from astra_sim_training_loops.loops import micro

_MOST_OPERATIONS = 4096
_graphs: Cache[Hashable, ExecutionGraph] = Cache("graphs of layered workloads", 64)


@attrs.frozen(eq=False, repr=False)
class LayersOptions(ValueObject):
    """Options of a layered workload."""

    loop: str = option(help="training loop that runs the layers")
    layers: tuple[LayerOptions, ...] = option(help="the layers, first to last")
    name: str = option("", help="name of the workload")
    loop_options: dict[str, Any] = option(factory=dict, help="options of the training loop")
    footprint_bytes: int | None = option(None, minimum=0, help="memory that each NPU needs; checked where memory is limited", unit="bytes")
    single_precision: bool = option(False, help="scale times and sizes in 32-bit floating point, as ASTRA-sim 1.0 does")


@attrs.frozen(eq=False, repr=False)
class CollectiveOptions(ValueObject):
    """Options of a single collective."""

    collective: str = option("all_reduce", choices=tuple(Collective), help="which collective")
    bytes: int = option(minimum=0, help="bytes that each NPU puts in; a system may need at least 1", unit="bytes")
    update_ns: float = option(0.0, minimum=0, help="time to use the result", unit="ns")


def layers(options: LayersOptions, context: Context) -> ExecutionGraph:
    """A layered workload. Raises InputError if loop and layers do not fit."""
    if not options.layers:
        raise InputError("layers is empty; expected at least one layer")
    provider = context.plugins.get("training_loop", options.loop)
    loop_options = options_of(provider, options.loop_options, f"loop_options of {options.loop}")
    if not provider.pure:
        return _write(options, provider, loop_options, context)
    run, platform = context.run, context.platform.logical_dimensions()
    clock = context.tick_ps, run.passes, run.compute_scale, run.comm_scale, context.compute
    return _shared_graph(
        (provider, loop_options, options.layers, options.single_precision, options.footprint_bytes, platform, *clock),
        lambda: _write(options, provider, loop_options, context),
    )


def _shared_graph(key: Hashable, write: Callable[[], ExecutionGraph]) -> ExecutionGraph:
    """The graph of a pure loop, from its options, layers and sizes alone: the same object for all runs with that key."""
    graph = _graphs.get(key)
    if graph is None:
        graph = write()
        if is_hashable(key) and len(graph.operations) <= _MOST_OPERATIONS:
            graph = attrs.evolve(graph, shared=True)
            _graphs.add(key, graph)
    return graph


def _write(options: LayersOptions, provider: Provider, loop_options: Any, context: Context) -> ExecutionGraph:
    """The graph that a loop writes for the layers. Errors name the loop."""
    program = LayeredProgram(options.layers, context, f"loop {options.loop}", scaled_float32 if options.single_precision else None)
    arguments = () if loop_options is None else (loop_options,)
    try:
        provider.create(None, program, *arguments)
    except InputError as error:
        raise located(error, f"loop {options.loop}") from None
    graph = program.build(options.footprint_bytes)
    try:
        check_graph(graph, context.platform.npus)
    except ValueError as error:
        raise PluginError(f"loop {options.loop}: {error}") from None
    return graph


def collective(options: CollectiveOptions, context: Context) -> ExecutionGraph:
    """One collective over all NPUs, issued once per pass at time 0."""
    program = LayeredProgram([_only_layer(options)], context, Pass.WEIGHT_GRADIENT, smallest_collective=0)
    micro(program)
    return program.build()


def _only_layer(options: CollectiveOptions) -> LayerOptions:
    exchange = PassOptions(collective=options.collective, collective_bytes=options.bytes)
    return LayerOptions(name=options.collective, weight_gradient=exchange, update_ns=options.update_ns)
