"""From layers to the compute and the collectives of one NPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import attrs
from astra_sim import InputError
from astra_sim.compute import Compute, MissingWork, Work
from astra_sim.providers import call
from astra_sim.shapes import Shape
from astra_sim.units import PS_PER_NS, picoseconds

from astra_sim_compute_systolic.generate.layers import ModelLayer
from astra_sim_compute_systolic.generate.parallelism import CUSTOMIZED, LayerExchange, Machine, share_of

PASSES = ("forward", "input_gradient", "weight_gradient")


class GeneratedPass(NamedTuple):
    """One pass: its matrix product or convolution, the time for it, and its collective."""

    shape: Shape
    compute_ns: float
    exchange: LayerExchange


@attrs.frozen
class GeneratedLayer:
    """A layer of a workload, as one NPU sees it."""

    name: str
    policy: str
    weights: bool
    passes: tuple[GeneratedPass, GeneratedPass, GeneratedPass]


@attrs.frozen
class GeneratedWorkload:
    """A workload."""

    policy: str
    layers: tuple[GeneratedLayer, ...]

    def footprint_bytes(self, element_bytes: int) -> int:
        """The least memory of an NPU: weights, their gradients, and the input of every layer until its backward pass."""
        elements = 0
        for layer in self.layers:
            forward = layer.passes[0].shape
            elements += forward.input_elements + (2 * forward.gemm.n * forward.gemm.k if layer.weights else 0)
        return elements * element_bytes


def generate_workload(
    layers: Sequence[ModelLayer], policy: str, machine: Machine, element_bytes: int, compute: Compute
) -> GeneratedWorkload:
    """Spread layers over the machine and time them. Raises InputError naming the layer."""
    generated = []
    for layer in layers:
        layer_policy = layer.policy if policy == CUSTOMIZED else policy
        if layer_policy is None:
            raise InputError(f"layer {layer.name}: it names no parallelisation, which {CUSTOMIZED} needs for every layer")
        share = share_of(
            name=layer.name, shape=layer.shape, weights=layer.weights, policy=layer_policy, machine=machine, element_bytes=element_bytes
        )
        shapes: tuple[Shape, Shape, Shape] = (share.forward, share.input_gradient, share.weight_gradient)
        times = [_time(compute, shape, f"layer {layer.name}, {name}") for shape, name in zip(shapes, PASSES, strict=True)]
        passes = tuple(GeneratedPass(*values) for values in zip(shapes, times, share.exchanges, strict=True))
        generated.append(GeneratedLayer(layer.name, layer_policy, layer.weights, passes))  # type: ignore[arg-type]
    return GeneratedWorkload(policy, tuple(generated))


def _time(compute: Compute, shape: Shape, where: str) -> float:
    what = f"{where}: compute {type(compute).__name__}"
    try:
        nanoseconds: float = call(what, compute.duration_ns, Work(shape=shape))
    except MissingWork as error:
        raise InputError(f"{where}: {error}") from None
    picoseconds(nanoseconds * PS_PER_NS, what)
    return nanoseconds
