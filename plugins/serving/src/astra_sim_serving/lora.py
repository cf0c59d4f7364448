"""LoRA adapters: low-rank products beside those of the model, which requests choose (Hu et al., arXiv 2106.09685).

A product of a layer gets the sum of two more for the tokens of an adapter: to `rank` elements and back. Kernels for batches of several
adapters read the weights of those that are in the batch, and the tokens (Punica, arXiv 2310.18547); they take as long as these bytes, or
as one product of all tokens if that takes longer.
Models with experts have adapters of attention alone, as in vLLM.
"""

from __future__ import annotations

from typing import NamedTuple

import attrs
from astra_sim.compute import Compute, Work
from astra_sim.models import ModelDescription
from astra_sim.shapes import Elementwise, Gemm

from astra_sim_serving.batch import AdapterUse
from astra_sim_serving.model_memory import ACTIVATION_BYTES, Sharding, key_heads
from astra_sim_serving.scheduler import Batch

RANK_BYTES = 4
"""Bytes of an element between the two products."""


class Product(NamedTuple):
    """A product that has an adapter, on a rank: elements in and out, and products of the model that it joins (q, k and v: 3)."""

    entered: int
    left: int
    joint: int = 1

    def weight_bytes(self, rank: int) -> tuple[int, int]:
        """Bytes of the weights of both products of an adapter."""
        return self.entered * rank * self.joint * ACTIVATION_BYTES, rank * self.left * ACTIVATION_BYTES


def adapted_products(model: ModelDescription, layer: int, tensor: int) -> list[Product]:
    """The products of a layer that have adapters. Ranks share them as they share the model's: by columns, then by rows."""
    h, heads = model.hidden, model.heads // tensor
    queries, width = heads * model.head_size, model.width // tensor
    attention = [Product(h, queries + 2 * key_heads(model, tensor) * model.head_size, 3), Product(queries, h)]
    if model.kind(layer) != "dense":
        return attention
    return [*attention, Product(h, (model.branches - 1) * width, model.branches - 1), Product(width, h)]


def adapter_bytes(model: ModelDescription, sharding: Sharding, rank: int) -> int:
    """Bytes of an adapter on a rank, in the stage with the most."""
    return max(
        sum(sum(product.weight_bytes(rank)) for layer in layers for product in adapted_products(model, layer, sharding.tensor))
        for layers in sharding.stages(model.layers)
    )


@attrs.define(eq=False)
class AdapterTimes:
    """Microseconds of the products of adapters in all layers. `load_us` is the time in which one comes from the host."""

    model: ModelDescription
    sharding: Sharding
    rank: int
    compute: Compute
    load_us: float
    _known: dict[tuple[int, int], float] = attrs.field(factory=dict)

    def layers_us(self, use: AdapterUse) -> float:
        """The products for the tokens of several adapters."""
        if not use.tokens:
            return 0.0
        key = use.tokens, use.adapters
        if key not in self._known:
            layers = (adapted_products(self.model, layer, self.sharding.tensor) for layer in range(self.model.layers))
            self._known[key] = sum(self._product_us(product, use) for products in layers for product in products)
        return self._known[key]

    def _product_us(self, product: Product, use: AdapterUse) -> float:
        """The two products beside one of the model."""
        first, second = product.weight_bytes(self.rank)
        between = use.tokens * self.rank * product.joint * RANK_BYTES
        output = use.tokens * product.left * ACTIVATION_BYTES
        width = self.rank * product.joint
        kernels = (
            (
                Elementwise(read_bytes=use.tokens * product.entered * ACTIVATION_BYTES + use.adapters * first, write_bytes=between),
                Gemm(m=use.tokens, n=width, k=product.entered),
            ),
            (
                Elementwise(read_bytes=between + use.adapters * second + output, write_bytes=output),
                Gemm(m=use.tokens, n=product.left, k=self.rank),
            ),
        )
        return sum(max(self.compute.duration_ns(Work(shape=shape)) for shape in shapes) for shapes in kernels) / 1e3


@attrs.define(eq=False)
class AdapterPlaces:
    """The adapters on the device of an instance, of which the one that was used last the longest ago gives way. `loads` counts."""

    places: int
    loads: int = 0
    _adapters: dict[int, None] = attrs.field(factory=dict)

    def use(self, batch: Batch) -> AdapterUse:
        """Load the adapters of a batch on the device, and return those it uses."""
        tokens, active = 0, dict[int, None]()
        for sequence, computed in batch:
            if sequence.request.adapter >= 0:
                tokens += computed + sequence.drafts
                active[sequence.request.adapter] = None
        loads = sum(adapter not in self._adapters for adapter in active)
        for adapter in active:
            self._adapters.pop(adapter, None)
        self._adapters |= active
        while len(self._adapters) > self.places:
            del self._adapters[next(iter(self._adapters))]
        self.loads += loads
        return AdapterUse(tokens, len(active), loads)
