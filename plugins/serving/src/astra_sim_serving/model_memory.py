"""Memory of a model on an NPU: weights, keys and values of a token, and the blocks that fit beside them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import attrs
from astra_sim import CapacityError
from astra_sim.models import ModelDescription
from astra_sim.shapes import ELEMENT_BYTES
from astra_sim.units import GIB

ACTIVATION_BYTES = 2
"""Bytes of an element of activations."""


@attrs.frozen
class Sharding:
    """The parallelism of an instance.

    `tensor` ranks share each product, `data` times as many have requests of their own, and all of these share the experts: `expert` of them
    the experts as wholes, the others each expert. `pipeline` times as many share the layers.
    """

    tensor: int = 1
    expert: int = 1
    data: int = 1
    pipeline: int = 1

    @property
    def npus(self) -> int:
        """NPUs of an instance."""
        return self.stage_npus * self.pipeline

    @property
    def stage_npus(self) -> int:
        """NPUs that have the same layers."""
        return self.tensor * self.data

    def npus_of_rank(self, npus: Sequence[int], rank: int) -> tuple[int, ...]:
        """The NPUs of a rank of data parallelism in all stages, of those of an instance (none: they are not known)."""
        starts = range(rank * self.tensor, len(npus), self.stage_npus)
        return tuple(npu for start in starts for npu in npus[start : start + self.tensor])

    def stages(self, layers: int) -> list[range]:
        """The layers of each stage of the pipeline; the first stages have one more if they are not alike."""
        each, more = divmod(layers, self.pipeline)
        bounds = [number * each + min(number, more) for number in range(self.pipeline + 1)]
        return [range(begin, end) for begin, end in itertools.pairwise(bounds)]


def attention_parameters(model: ModelDescription, tensor: int) -> int:
    """Parameters of the attention of a layer on a rank."""
    h, heads = model.hidden, model.heads // tensor
    if model.mla is not None:
        m = model.mla
        ranks = h * (m.query_rank + m.key_value_rank + m.rope)
        up = m.query_rank * heads * (m.nope + m.rope) + m.key_value_rank * heads * (m.nope + m.value)
        return ranks + up + heads * m.value * h
    return h * model.head_size * (2 * heads + 2 * key_heads(model, tensor))


def key_heads(model: ModelDescription, tensor: int) -> int:
    """Key and value heads of a rank: at least one, which several ranks then have."""
    return max(1, model.key_heads // tensor)


def layer_parameters(model: ModelDescription, layer: int, sharding: Sharding) -> int:
    """Parameters of a layer on a rank, norms and biases left out."""
    attention = attention_parameters(model, sharding.tensor)
    if model.kind(layer) == "dense":
        return attention + model.branches * model.hidden * model.width // sharding.tensor
    expert = model.branches * model.hidden * model.expert_ffn
    routed, shared = model.experts * expert // sharding.stage_npus, model.shared_experts * expert // sharding.tensor
    return attention + routed + shared + model.hidden * model.experts


def weight_bytes(model: ModelDescription, sharding: Sharding, element_type: str) -> int:
    """Bytes of the weights of a rank, in the stage with the most; the embedding and the output layer have 16 bits."""
    end = model.vocab * model.hidden // sharding.tensor * ACTIVATION_BYTES
    stages = sharding.stages(model.layers)
    result = []
    for number, layers in enumerate(stages):
        ends = (number == 0) + (number == len(stages) - 1) - (model.tied and len(stages) == 1)
        of_layers = sum(layer_parameters(model, layer, sharding) for layer in layers)
        result.append(math.ceil(of_layers * ELEMENT_BYTES[element_type]) + ends * end)
    return max(result)


def kv_bytes_per_token(model: ModelDescription, sharding: Sharding, element_type: str) -> int:
    """Bytes of the keys and values of a token on a rank, in the layers of its stage."""
    layers = len(sharding.stages(model.layers)[0])
    if model.mla is not None:
        return math.ceil(layers * (model.mla.key_value_rank + model.mla.rope) * ELEMENT_BYTES[element_type])
    return math.ceil(2 * layers * key_heads(model, sharding.tensor) * model.head_size * ELEMENT_BYTES[element_type])


def activation_bytes(model: ModelDescription, sharding: Sharding, tokens: int, sequences: int) -> int:
    """Bytes of the activations of an iteration at most: two hidden states, the feed-forward part and the logits."""
    width = max(model.width if model.has_dense_layers else 0, model.top_k * model.expert_ffn)
    per_token = 2 * model.hidden + 2 * width // sharding.tensor
    return (tokens * per_token + sequences * model.vocab // sharding.tensor) * ACTIVATION_BYTES


@attrs.frozen
class ServingMemoryUse:
    """Memory of an NPU in bytes: the usable part, and the part of that before keys and values."""

    usable: float
    weights: int
    activations: int
    margin: float
    adapters: int = 0

    def blocks(self, block_bytes: int) -> int:
        """Blocks of keys and values that fit. Raises CapacityError if none does, with the bytes that are missing."""
        left = self.usable - self.weights - self.adapters - self.activations - self.margin
        if left < block_bytes:
            needed = self.weights + self.adapters + self.activations + self.margin + block_bytes
            adapters = f" {self.adapters / GIB:.1f} GiB of adapters," if self.adapters else ""
            raise CapacityError(
                f"the model does not fit: {self.weights / GIB:.1f} GiB of weights,{adapters} {self.activations / GIB:.1f} GiB of"
                f" activations and {self.margin / GIB:.1f} GiB of contexts and graphs leave nothing of"
                f" {self.usable / GIB:.1f} GiB for keys and values;"
                f" {(needed - self.usable) / GIB:.1f} GiB are missing on each NPU",
                needed,
                self.usable,
            )
        return int(left // block_bytes)
