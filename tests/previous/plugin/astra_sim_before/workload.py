"""The workload: what every NPU does, as an execution graph."""

from __future__ import annotations

import attrs
from astra_sim import option
from astra_sim.context import Context
from astra_sim.graph import ExecutionGraph, Pass
from astra_sim.layers import LayeredProgram, LayerOptions, PassOptions


@attrs.frozen
class StepOptions:
    """Options of the workload."""

    steps: int = option(4, minimum=1, maximum=10_000, help="steps of an iteration")
    compute_us: float = option(100.0, minimum=0, help="computing in each step", unit="us")
    bytes: int = option(1_000_000, minimum=1, help="bytes that each NPU all-reduces in each step", unit="bytes")
    overlap: bool = option(False, help="the next step begins before the all-reduce has ended")


def workload(options: StepOptions, context: Context) -> ExecutionGraph:
    """The graph. `LayeredProgram` scales times and bytes as the options of the run say (--compute-scale, --comm-scale)."""
    step = PassOptions(compute_ns=options.compute_us * 1000, collective="all_reduce", collective_bytes=options.bytes)
    layers = [LayerOptions(name=f"step{number}", weight_gradient=step) for number in range(options.steps)]
    program = LayeredProgram(layers, context, "before_workload")
    for _ in program.iterations():
        for number in range(options.steps):
            program.compute(number, Pass.WEIGHT_GRADIENT)
            program.communicate(number, Pass.WEIGHT_GRADIENT, program.all_dimensions(), blocking=not options.overlap)
        for number in range(options.steps if options.overlap else 0):
            program.wait(number, Pass.WEIGHT_GRADIENT)
    return program.build()
