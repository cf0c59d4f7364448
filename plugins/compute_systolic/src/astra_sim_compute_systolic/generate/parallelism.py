"""The distribution of layers over NPUs: the rules of ASTRA-sim 1.0's workload generator.

A layer multiplies its input (m x k) with weights (k x n). Data parallelism splits the batch m, model parallelism the outputs n. Of N
NPUs in P packages, Q = N / P to a package, each holds a part of every layer; quotients are rounded down.
"""

from __future__ import annotations

from typing import NamedTuple

import attrs
from astra_sim import InputError
from astra_sim.shapes import Convolution, Gemm, Shape

LAYER_POLICIES = ("DATA", "MODEL", "HYBRID_DATA_MODEL", "HYBRID_MODEL_DATA")
CUSTOMIZED = "HYBRID_CUSTOMIZED"
POLICIES = (*LAYER_POLICIES, CUSTOMIZED)


@attrs.frozen
class Machine:
    """The number of NPUs, and of the packages they are in."""

    npus: int
    packages: int

    def __attrs_post_init__(self) -> None:
        for name in ("npus", "packages"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; expected at least 1")
        if self.npus % self.packages:
            raise InputError(
                f"{self.npus} NPUs cannot be divided into {self.packages} equal packages; expected a number that divides {self.npus}"
            )

    @property
    def npus_per_package(self) -> int:
        """NPUs in a package."""
        return self.npus // self.packages


class LayerExchange(NamedTuple):
    """A collective, as the text workload names it, and the bytes that each NPU puts in. NONE: no collective, 0 bytes."""

    collective: str
    size: int


NOTHING = LayerExchange("NONE", 0)


class Share(NamedTuple):
    """One NPU's part of a layer: the matrix product and the collective of each pass."""

    forward: Shape
    input_gradient: Gemm
    weight_gradient: Gemm
    exchanges: tuple[LayerExchange, LayerExchange, LayerExchange]


def share_of(name: str, shape: Shape, weights: bool, policy: str, machine: Machine, element_bytes: int) -> Share:
    """One NPU's share of a layer. Raises InputError if the layer is too small to split.

    A layer without weights is split by rows over all NPUs, whatever the policy: samples and attention heads do not depend on each other.
    """
    npus, packages, inside = machine.npus, machine.packages, machine.npus_per_package
    if not weights:
        local = _split(name, shape, npus, 1)
        return Share(local, *_gradients(local), (NOTHING, NOTHING, NOTHING))
    gemm = shape.gemm
    outputs = gemm.m * gemm.n * element_bytes
    inputs = shape.input_elements * element_bytes
    parameters = gemm.k * gemm.n * element_bytes
    data_ways, model_ways = {
        "DATA": (npus, 1),
        "MODEL": (1, npus),
        "HYBRID_DATA_MODEL": (packages, inside),
        "HYBRID_MODEL_DATA": (inside, packages),
    }[policy]
    local = _split(name, shape, data_ways, model_ways)
    activations = (NOTHING, NOTHING)
    if policy != "DATA":
        activations = (LayerExchange("ALLGATHER", outputs // npus), LayerExchange("REDUCESCATTER", inputs // data_ways))
    gradient = NOTHING if policy == "MODEL" else LayerExchange("ALLREDUCE", parameters // model_ways)
    return Share(local, *_gradients(local), (*activations, gradient))


def _split(name: str, shape: Shape, data_ways: int, model_ways: int) -> Shape:
    """The part of a shape that one NPU keeps when batch and outputs are split."""
    if isinstance(shape, Convolution):
        batch = _quotient(name, "the batch", shape.batch, data_ways)
        return attrs.evolve(shape, batch=batch, filters=_quotient(name, "the filters", shape.filters, model_ways))
    return Gemm(m=_quotient(name, "m", shape.m, data_ways), n=_quotient(name, "n", shape.n, model_ways), k=shape.k)


def _quotient(name: str, what: str, size: int, parts: int) -> int:
    if size < parts:
        raise InputError(f"layer {name}: {what} is {size}, which cannot be split {parts} ways; expected at least {parts}")
    return size // parts


def _gradients(local: Shape) -> tuple[Gemm, Gemm]:
    """The products of the backward pass: gradient of the input, gradient of the weights."""
    gemm = local.gemm
    return Gemm(m=gemm.m, n=gemm.k, k=gemm.n), Gemm(m=gemm.k, n=gemm.n, k=gemm.m)
