"""The training loop: it goes through the passes of all layers, and writes what every NPU does."""

from __future__ import annotations

import attrs
from astra_sim import option
from astra_sim.graph import Pass
from astra_sim.layers import LayeredProgram


@attrs.frozen
class LoopOptions:
    """Options of the loop."""

    overlap: bool = option(True, help="exchange gradients during the backward pass; false: one layer after another when it has ended")


def write(program: LayeredProgram, options: LoopOptions) -> None:
    """Write the operations of all iterations."""
    everywhere = program.all_dimensions()
    layers = range(len(program.layers))
    for _ in program.iterations():
        for layer in layers:
            program.compute(layer, Pass.FORWARD)
            program.communicate(layer, Pass.FORWARD, everywhere, blocking=True)
        for layer in reversed(layers):
            program.compute(layer, Pass.WEIGHT_GRADIENT)
            if options.overlap:
                program.communicate(layer, Pass.WEIGHT_GRADIENT, everywhere)
            if layer > 0:
                program.compute(layer, Pass.INPUT_GRADIENT)
                program.communicate(layer, Pass.INPUT_GRADIENT, everywhere, blocking=True)
        for layer in layers:
            if options.overlap:
                program.wait(layer, Pass.WEIGHT_GRADIENT)
            else:
                program.communicate(layer, Pass.WEIGHT_GRADIENT, everywhere, blocking=True)
