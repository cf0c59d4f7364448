"""The workloads `layers` and `collective`."""

from __future__ import annotations

import functools
from typing import Any

import attrs
from astra_sim import InputError, option
from astra_sim.context import Context
from astra_sim.errors import located
from astra_sim.graph import ExecutionGraph, Pass
from astra_sim.layers import LayeredProgram, LayerOptions, PassOptions
from astra_sim.providers import options_of
from astra_sim.schedule import Collective
from astra_sim.units import scaled_float32

from astra_sim_training_loops.loops import micro


@attrs.frozen
class LayersOptions:
    """Options of a layered workload."""

    loop: str = option(help="training loop that runs the layers")
    layers: tuple[LayerOptions, ...] = option(help="the layers, first to last")
    name: str = option("", help="name of the workload")
    loop_options: dict[str, Any] = option(factory=dict, help="options of the training loop")
    footprint_bytes: int | None = option(None, minimum=0, help="memory that each NPU needs; checked where memory is limited", unit="bytes")
    single_precision: bool = option(False, help="scale times and sizes in 32-bit floating point, as ASTRA-sim 1.0 does")


@attrs.frozen
class CollectiveOptions:
    """Options of a single collective."""

    collective: str = option("all_reduce", choices=tuple(Collective), help="which collective")
    bytes: int = option(minimum=0, help="bytes that each NPU puts in; a system may need at least 1", unit="bytes")
    update_ns: float = option(0.0, minimum=0, help="time to use the result", unit="ns")


def layers(options: LayersOptions, context: Context) -> ExecutionGraph:
    """A layered workload. Raises InputError where loop and layers do not fit."""
    if not options.layers:
        raise InputError("layers is empty; expected at least one layer")
    provider = context.plugins.get("training_loop", options.loop)
    loop_options = options_of(provider, options.loop_options, f"loop_options of {options.loop}")
    program = LayeredProgram(options.layers, context, f"loop {options.loop}", scaled_float32 if options.single_precision else None)
    arguments = () if loop_options is None else (loop_options,)
    try:
        provider.create(None, program, *arguments)
    except InputError as error:
        raise located(error, f"loop {options.loop}") from None
    return program.build(options.footprint_bytes)


def collective(options: CollectiveOptions, context: Context) -> ExecutionGraph:
    """One collective over all NPUs, issued once per pass at time 0."""
    program = LayeredProgram([_only_layer(options)], context, Pass.WEIGHT_GRADIENT, smallest_collective=0)
    micro(program)
    return program.build()


@functools.lru_cache(maxsize=256)
def _only_layer(options: CollectiveOptions) -> LayerOptions:
    exchange = PassOptions(collective=options.collective, collective_bytes=options.bytes)
    return LayerOptions(name=options.collective, weight_gradient=exchange, update_ns=options.update_ns)
