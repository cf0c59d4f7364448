"""Layers whose passes may say what they multiply, for compute models that take the time from a shape."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from astra_sim import InputError, option
from astra_sim.components import Context
from astra_sim.graph import Pass
from astra_sim.layers import LayeredProgram, LayerOptions, PassOptions
from astra_sim.models import Compute, Convolution, Gemm, Shape, Work


@attrs.frozen
class ShapedPassOptions(PassOptions):
    """One pass of a layer, with its shape."""

    gemm: Gemm | None = option(None, help="product of matrices that is computed: m, n, k")
    convolution: Convolution | None = option(None, help="convolution that is computed")

    def __attrs_post_init__(self) -> None:
        if self.gemm is not None and self.convolution is not None:
            raise InputError("gemm and convolution are given; one of the two is right")

    @property
    def shape(self) -> Shape | None:
        """The shape, if it is given."""
        return self.gemm if self.gemm is not None else self.convolution


@attrs.frozen
class ShapedLayerOptions(LayerOptions):
    """A layer of such passes."""

    forward: ShapedPassOptions = option(ShapedPassOptions(), help="forward pass")
    input_gradient: ShapedPassOptions = option(ShapedPassOptions(), help="backward pass, gradient of the input")
    weight_gradient: ShapedPassOptions = option(ShapedPassOptions(), help="backward pass, gradient of the weights")


class ShapedProgram(LayeredProgram):
    """A program that shows the compute model the shape of every pass."""

    def __init__(self, layers: Sequence[ShapedLayerOptions], context: Context, single_precision: bool, where: str) -> None:
        self._with_shape = _WithShape(context.compute)
        super().__init__(layers, attrs.evolve(context, compute=self._with_shape), single_precision, where)

    def _duration(self, layer: int, training_pass: Pass) -> int:
        options: ShapedPassOptions = getattr(self.layers[layer], training_pass.value)
        self._with_shape.shape = options.shape
        return super()._duration(layer, training_pass)


class _WithShape(Compute):
    """A compute model that is told the shape of the work besides."""

    def __init__(self, model: Compute) -> None:
        self._model = model
        self.shape: Shape | None = None

    def duration_ns(self, work: Work) -> float:
        """Nanoseconds that the work takes."""
        return self._model.duration_ns(attrs.evolve(work, shape=self.shape))
