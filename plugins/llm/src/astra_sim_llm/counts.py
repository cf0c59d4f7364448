"""Counts of a model: its parameters, whole or on one rank, and the FLOPs of its tokens. A multiply-add is two FLOPs.

Sources: arXiv 2205.05198 (appendix A) and 2104.04473 for the closed forms of Megatron-LM, arXiv 2412.19437 for multi-token prediction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Literal

import attrs

from astra_sim_llm.models import LayerKind, Model
from astra_sim_llm.parallelism import Parallelism

WHOLE = Parallelism()
"""No parallelism: counts are those of the whole model."""

# -- Parameters --------------------------------------------------------------------------------------------------------


@attrs.frozen
class ParameterCounts:
    """Numbers of parameters, by part. `vectors` are those of norms and biases, `adapters` those of LoRA."""

    attention: int = 0
    feed_forward: int = 0
    router: int = 0
    experts: int = 0
    prediction: int = 0
    vectors: int = 0
    embedding: int = 0
    head: int = 0
    adapters: int = 0

    def __add__(self, other: ParameterCounts) -> ParameterCounts:
        return ParameterCounts(*(a + b for a, b in zip(attrs.astuple(self), attrs.astuple(other), strict=True)))

    def __mul__(self, factor: int) -> ParameterCounts:
        return ParameterCounts(*(factor * number for number in attrs.astuple(self)))

    @property
    def total(self) -> int:
        """All parameters."""
        return sum(attrs.astuple(self))

    @property
    def shared(self) -> int:
        """Parameters that are not of routed experts: data-parallel ranks are their replicas."""
        return self.total - self.experts

    @property
    def block_matrices(self) -> int:
        """Parameters of the products within blocks."""
        return self.attention + self.feed_forward + self.router + self.experts + self.prediction


def attention_parameters(model: Model, parallel: Parallelism = WHOLE) -> int:
    """Matrices of an attention part. A rank has whole heads; with fewer key and value heads than ranks, each has one.

    Latent attention: the two products down to the low ranks are not split (Megatron-LM calls them duplicated).
    """
    heads = share(model.heads, parallel.tensor)
    output = heads * model.value_size * model.hidden
    mla = model.mla
    if mla is None:
        return model.hidden * (heads + 2 * key_heads_of_rank(model, parallel)) * model.head_size + output
    down = model.hidden * (mla.query_rank + mla.key_value_rank + mla.rope)
    up = heads * (mla.query_rank * (mla.nope + mla.rope) + mla.key_value_rank * (mla.nope + mla.value))
    return down + up + output


def key_heads_of_rank(model: Model, parallel: Parallelism) -> int:
    """Key and value heads of a rank: a share, but at least one."""
    return share(model.key_heads, parallel.tensor)


def feed_forward_parameters(model: Model, width: int, tensor: int = 1) -> int:
    """Matrices of a feed-forward part of a width."""
    return model.branches * model.hidden * share(width, tensor)


def layer_parameters(model: Model, kind: LayerKind, parallel: Parallelism = WHOLE) -> ParameterCounts:
    """Parameters of a block, or of a rank's share of it.

    Norms, biases that are added after a reduction, and the router are whole on each rank.
    """
    attention = attention_parameters(model, parallel)
    vectors = _norms_and_biases(model, kind, parallel)
    if kind == "dense":
        return ParameterCounts(
            attention=attention, feed_forward=feed_forward_parameters(model, model.width, parallel.tensor), vectors=vectors
        )
    return ParameterCounts(
        attention=attention,
        feed_forward=feed_forward_parameters(model, model.shared_experts * model.expert_ffn, parallel.tensor),
        router=model.hidden * model.experts,
        experts=share(model.experts, parallel.expert) * _expert_parameters(model, parallel.expert_tensor),
        vectors=vectors,
    )


def _expert_parameters(model: Model, tensor: int = 1) -> int:
    """Parameters of an expert: its matrices, and its biases if it has some."""
    biases = (model.branches - 1) * share(model.expert_ffn, tensor) + model.hidden
    return feed_forward_parameters(model, model.expert_ffn, tensor) + (biases if model.expert_biases else 0)


def tensors(model: Model, units: Iterable[int | Literal["embedding", "head"]]) -> int:
    """The number of parameter tensors of units of a dense model: numbers of blocks, or ends. Queries, keys and values are one tensor."""
    biases = 1 if model.biases else 0
    attention = 2 * (1 + biases) if model.mla is None else 7  # latent: two products down, two up and one out, and two norms
    attention += 2 * model.query_norms + (model.query_biases and not biases)
    block = attention + (2 + model.branches) * (1 + biases)  # two norms
    ends = {"embedding": 1 + model.learned_positions, "head": (not model.tied) + 1 + biases}
    # Each module of multi-token prediction has a product and three norms of its own (arXiv 2412.19437, 2.2).
    return sum(ends[unit] if isinstance(unit, str) else block + 4 * (unit >= model.layers) for unit in units)


def matrices(model: Model, units: Iterable[int | Literal["embedding", "head"]]) -> int:
    """The number of those tensors that are matrices."""
    block = (2 if model.mla is None else 5) + model.branches
    ends = {"embedding": 1 + model.learned_positions, "head": not model.tied}
    return sum(ends[unit] if isinstance(unit, str) else block + (unit >= model.layers) for unit in units)


def _norms_and_biases(model: Model, kind: LayerKind, parallel: Parallelism) -> int:
    """Parameters of a block that are no matrices."""
    # LayerNorm has a weight and a bias; models without biases have RMSNorm.
    per_norm = 2 if model.biases else 1
    vectors = 2 * per_norm * model.hidden
    if model.mla is not None:
        vectors += model.mla.query_rank + model.mla.key_value_rank
    if model.query_norms:
        vectors += 2 * model.head_size
    # Qwen2 has these biases and no others.
    if model.biases or model.query_biases:
        vectors += (share(model.heads, parallel.tensor) + 2 * key_heads_of_rank(model, parallel)) * model.head_size
    if model.expert_biases:
        vectors += model.hidden + (model.experts if kind == "moe" else 0)
    if model.biases:
        vectors += model.hidden
        if kind == "dense":
            vectors += (model.branches - 1) * share(model.width, parallel.tensor) + model.hidden
    return vectors


def prediction_parameters(model: Model, parallel: Parallelism = WHOLE) -> ParameterCounts:
    """Parameters of a module of multi-token prediction: a product of 2 hidden x hidden, three norms, and a block.

    Embedding and head are those of the model.
    """
    block = layer_parameters(model, model.kind(model.layers), parallel)
    projection = 2 * model.hidden * share(model.hidden, parallel.tensor)
    return block + ParameterCounts(prediction=projection, vectors=3 * (2 if model.biases else 1) * model.hidden)


def embedding_parameters(model: Model, parallel: Parallelism = WHOLE) -> ParameterCounts:
    """Parameters of the embedding of tokens, a share of the vocabulary each, and of positions, whole on each rank."""
    positions = model.sequence * model.hidden if model.learned_positions else 0
    return ParameterCounts(embedding=share(model.vocab, parallel.tensor) * model.hidden + positions)


def head_parameters(model: Model, parallel: Parallelism = WHOLE, with_embedding: bool = True) -> ParameterCounts:
    """Parameters of the last norm and the output layer.

    Tied weights count once if the embedding is on the same rank (`with_embedding`); elsewhere the rank has a copy of them.
    """
    copied = model.tied and with_embedding
    return ParameterCounts(
        head=0 if copied else share(model.vocab, parallel.tensor) * model.hidden,
        vectors=(2 if model.biases else 1) * model.hidden,
    )


BlockKind = Literal["dense", "moe", "prediction"]
"""A block, or a module of multi-token prediction with its block."""


def block_kind(model: Model, layer: int) -> BlockKind:
    """The kind of a block by its number; from `model.layers` on they are those of multi-token prediction."""
    return model.kind(layer) if layer < model.layers else "prediction"


def block_parameters(model: Model, kind: BlockKind, parallel: Parallelism = WHOLE) -> ParameterCounts:
    """Parameters of a block, or of a module of multi-token prediction."""
    return prediction_parameters(model, parallel) if kind == "prediction" else layer_parameters(model, kind, parallel)


def stage_parameters(
    model: Model, layers: Iterable[int], has_embedding: bool, has_head: bool, parallel: Parallelism = WHOLE
) -> ParameterCounts:
    """Parameters of a rank whose pipeline stage has these layers, and the embedding or the head."""
    total = ParameterCounts()
    for kind, number in Counter(block_kind(model, layer) for layer in layers).items():
        total += block_parameters(model, kind, parallel) * number
    if has_embedding:
        total += embedding_parameters(model, parallel)
    if has_head:
        total += head_parameters(model, parallel, with_embedding=has_embedding)
    return total


def parameters(model: Model) -> ParameterCounts:
    """Parameters of the whole model, with its modules of multi-token prediction."""
    return stage_parameters(model, range(model.layers + model.mtp_layers), True, True)


def active_parameters(model: Model) -> int:
    """Parameters that a token meets: without the routed experts that are not chosen for it."""
    idle = (model.experts - model.top_k) * _expert_parameters(model)
    return parameters(model).total - idle * _expert_layers(model)


def _expert_layers(model: Model) -> int:
    return sum(model.kind(layer) == "moe" for layer in range(model.layers + model.mtp_layers))


def share(number: int, ranks: int) -> int:
    """A rank's share, rounded up if the ranks do not divide the number."""
    return -(-number // ranks)


# -- FLOPs -------------------------------------------------------------------------------------------------------------


def core_flops(model: Model, layer: int, sequence: int, causal: bool = True) -> int:
    """FLOPs of a token in the attention core of a layer, forward: scores and their products with values.

    `causal` counts half of the square, as flash attention computes; else all of it, as Megatron-LM counts. With a window each token has as
    many keys as it is wide, but for the causal ones of the first tokens.
    """
    window = min(model.window_of(layer) or sequence, sequence)
    widths = model.heads * (model.head_size + model.value_size)
    return widths * (2 * window * sequence - window**2) // sequence if causal else 2 * window * widths


def layer_flops(model: Model, layer: int, sequence: int, causal: bool = True) -> int:
    """FLOPs of a token in a layer, forward, without its router (`router_flops`), as Megatron-core counts."""
    matrices = attention_parameters(model)
    if model.kind(layer) == "dense":
        matrices += feed_forward_parameters(model, model.width)
    else:
        matrices += feed_forward_parameters(model, (model.top_k + model.shared_experts) * model.expert_ffn)
    return 2 * matrices + core_flops(model, layer, sequence, causal)


def router_flops(model: Model) -> int:
    """FLOPs of a token in the router of a block with experts, forward. Model FLOPs leave them out."""
    return 2 * model.hidden * model.experts


def head_flops(model: Model) -> int:
    """FLOPs of a token in the output layer, forward."""
    return 2 * model.hidden * model.vocab


def blocks_flops(model: Model, sequence: int, causal: bool = True) -> int:
    """FLOPs of a token in all blocks, forward, with those of multi-token prediction."""
    flops = sum(layer_flops(model, layer, sequence, causal) for layer in range(model.layers + model.mtp_layers))
    # The product that joins two states: 2 hidden x hidden, at two FLOPs each.
    return flops + model.mtp_layers * 4 * model.hidden**2


def forward_flops(model: Model, sequence: int, causal: bool = True) -> int:
    """FLOPs of a token, forward: the blocks, and an output layer for each token that is predicted."""
    return blocks_flops(model, sequence, causal) + (1 + model.mtp_layers) * head_flops(model)


def training_flops(model: Model, sequence: int, causal: bool = True) -> int:
    """Model FLOPs of a token in training: the backward pass takes twice those of the forward pass. Neither recomputation nor routers
    are counted."""
    return 3 * forward_flops(model, sequence, causal)


def iteration_flops(model: Model, sequence: int, batch: int, causal: bool = True) -> int:
    """Model FLOPs of an iteration over a global batch of sequences."""
    return batch * sequence * training_flops(model, sequence, causal)


def recomputed_flops(model: Model, sequence: int, recompute: str, causal: bool = True) -> int:
    """FLOPs of a token that are computed again: "full" the blocks, "selective" the attention cores, "none" nothing.

    "full_early_stop" leaves out the last product of each block, whose output nothing keeps.
    """
    if recompute == "none":
        return 0
    if recompute == "selective":
        return sum(core_flops(model, layer, sequence, causal) for layer in range(model.layers + model.mtp_layers))
    again = blocks_flops(model, sequence, causal)
    return again if recompute == "full" else again - _last_product_flops(model)


def _last_product_flops(model: Model) -> int:
    """FLOPs of a token in the last products of the feed-forward parts; shared experts are done before routed ones."""
    experts = _expert_layers(model)
    dense = model.layers + model.mtp_layers - experts
    return 2 * model.hidden * (dense * model.width + experts * model.top_k * model.expert_ffn)


def megatron_flops(batch: int, sequence: int, layers: int, hidden: int, vocab: int) -> float:
    """Model FLOPs of an iteration of a GPT, `72 B s L h^2 (1 + s/6h + V/12Lh)` (arXiv 2205.05198, appendix A; the full square)."""
    return 72 * batch * sequence * layers * hidden**2 * (1 + sequence / (6 * hidden) + vocab / (12 * layers * hidden))


def megatron_recompute_flops(batch: int, sequence: int, layers: int, hidden: int, vocab: int) -> float:
    """FLOPs of an iteration of a GPT with full recomputation, `96 B s L h^2 (1 + s/6h + V/16Lh)` (arXiv 2104.04473, equation 3)."""
    return 96 * batch * sequence * layers * hidden**2 * (1 + sequence / (6 * hidden) + vocab / (16 * layers * hidden))
