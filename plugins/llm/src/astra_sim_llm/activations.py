"""Activations that a rank keeps, for blocks, the embedding and the head (arXiv 2205.05198, section 4). In bytes."""

from __future__ import annotations

import attrs
from astra_sim.memo import cached

from astra_sim_llm.adapters import BY_COLUMNS, target_sizes
from astra_sim_llm.counts import BlockKind, block_kind, key_heads_of_rank, share
from astra_sim_llm.in_flight import in_flight
from astra_sim_llm.options import Lora
from astra_sim_llm.training_setup import TrainingSetup, end_chunks, layers_on, stage_chunks

HALF = 2
"""Bytes of an activation in fp16 or bf16."""


@attrs.frozen
class BlockActivations:
    """Bytes of a block and micro-batch on a rank.

    `saved`: for the backward pass, without scores. `scores`: of attention that is not fused. `products`: those that deferred weight
    gradients still need, the inputs of products and the gradients of their outputs (32 s b h of a GPT's 34, arXiv 2401.10241).
    `of_modules`: those of `saved` that recomputed modules make again.
    """

    saved: int
    scores: int
    products: int
    of_modules: int = 0


@cached("LLM: activations of blocks", 256)
def block_activations(setup: TrainingSetup, kind: BlockKind) -> BlockActivations:
    """Activations of a block. For a GPT `s b h (10 + 24/t + 5 a s/(h t))`, with sequence parallelism all of it divided by t.

    Outside of the split products, for a token: inputs of two norms (4h), of the products behind them (4h), two dropout masks (2h).
    Within: queries, keys, values and the context of a rank's heads; the outputs of the first feed-forward product and the input of the
    second (2 bytes a matrix and element of the width). With LoRA x A of each adapter, too, and
    not the inputs of products that have none.
    """
    model = setup.model
    block = model.kind(model.layers) if kind == "prediction" else kind
    attention, feed_forward = _attention(setup), _experts(setup) if block == "moe" else _dense(setup, model.width)
    masks = 2 * model.hidden if setup.drops else 0
    # Inputs of two norms, and their outputs, the inputs of the joining product, which are not kept if it is frozen.
    projection_inputs = (8 if setup.lora is None else 4) * model.hidden if kind == "prediction" else 0
    kept_bytes = share((2 * HALF * model.hidden + masks + projection_inputs) * setup.tokens, _sequence_share(setup))
    scores = 0
    if setup.attention == "unfused":
        heads = share(model.heads, setup.parallel.tensor)
        # The output of softmax takes 2 bytes; with dropout its mask takes 1, and its output 2 (arXiv 2205.05198, section 4.1).
        scores = (5 if setup.drops else 2) * heads * setup.key_length * setup.tokens
    low_rank, products = (0, attention.products + feed_forward.products) if setup.lora is None else _adapters(setup, setup.lora)
    saved = kept_bytes + attention.saved + feed_forward.saved + low_rank
    return BlockActivations(saved, scores, products, of_modules=_of_modules(setup, block == "moe"))


@attrs.frozen
class _LlmPart:
    """Bytes of a part of a block: those it keeps, and those its weight gradients need."""

    saved: int
    products: int


def _input_bytes(setup: TrainingSetup, product: str) -> int:
    """Bytes of an element that only a product reads again: for its weight gradient, or for that of its adapter, which is in 16 bits."""
    if setup.lora is not None:
        return HALF if product in setup.lora.targets else 0
    return 1 if setup.fp8 else HALF


def _adapters(setup: TrainingSetup, lora: Lora) -> tuple[int, int]:
    """Bytes of x A of the adapters of a block, and those that their weight gradients need: x, dY, x A and its gradient."""
    low_rank = HALF * lora.rank * setup.tokens
    sizes = target_sizes(setup.model, lora, setup.parallel)
    needed = 0
    for name, (n, k) in sizes.items():
        within = HALF * (n if name in BY_COLUMNS else k) * setup.tokens
        needed += hidden_bytes(setup) + within + 2 * low_rank
    return len(sizes) * low_rank, needed


def _attention(setup: TrainingSetup) -> _LlmPart:
    """Norm's output, queries, keys, values and context; of latent attention also the low ranks before and behind their norms."""
    model, tokens, read = setup.model, setup.tokens, _input_bytes(setup, "qkv")
    heads = share(model.heads, setup.parallel.tensor)
    mla = model.mla
    if mla is None:
        outputs = (heads + 2 * key_heads_of_rank(model, setup.parallel)) * model.head_size
        low, low_inputs = 0, 0
    else:
        outputs = _latent_outputs(setup)
        low, low_inputs = mla.query_rank + mla.key_value_rank + mla.rope, mla.query_rank + mla.key_value_rank
    context = heads * model.value_size
    if mla is None and setup.saved_inputs == "whole":
        result = (read * model.hidden + HALF * (outputs + context)) * tokens
        return _LlmPart(result, result + hidden_bytes(setup))
    shared = share((read * (model.hidden + low_inputs) + HALF * low) * tokens, _sequence_share(setup))
    result = shared + HALF * (outputs + context) * tokens
    return _LlmPart(result, result + hidden_bytes(setup))


def _of_modules(setup: TrainingSetup, has_experts: bool) -> int:
    """Bytes of outputs of norms, of second inputs of experts, of queries, keys and values from latents, and within dense parts."""
    model, modules, result = setup.model, setup.recompute_modules, 0
    if "layernorm" in modules:
        norms = _input_bytes(setup, "qkv") + _input_bytes(setup, "fc1")
        result += share(norms * model.hidden * setup.tokens, _sequence_share(setup))
    if "mla_up_proj" in modules and model.mla is not None:
        result += HALF * _latent_outputs(setup) * setup.tokens
    if "moe_act" in modules and has_experts:
        result += _input_bytes(setup, "fc2") * share(model.expert_ffn, setup.parallel.expert_tensor) * _copies(setup)
    if "mlp" in modules and not has_experts:
        result += _feed_forward_bytes(setup, share(model.width, setup.parallel.tensor)) * setup.tokens
    return result


def _latent_outputs(setup: TrainingSetup) -> int:
    """Elements of queries, keys and values of a token that latents give."""
    mla = setup.model.mla
    return 0 if mla is None else share(setup.model.heads, setup.parallel.tensor) * (2 * setup.model.head_size + mla.value)


def _copies(setup: TrainingSetup) -> int:
    """Copies of tokens for the experts of a rank."""
    return share(setup.model.top_k * setup.tokens * setup.parallel.expert_tensor, setup.parallel.tensor)


def _dense(setup: TrainingSetup, width: int) -> _LlmPart:
    """Norm's output, outputs of the first product, which the activation reads, and the input of the second."""
    model, read = setup.model, _input_bytes(setup, "fc1")
    inner = _feed_forward_bytes(setup, share(width, setup.parallel.tensor)) * setup.tokens
    result = share(read * model.hidden * setup.tokens, _input_share(setup)) + inner
    return _LlmPart(result, result + hidden_bytes(setup))


def _feed_forward_bytes(setup: TrainingSetup, width: int) -> int:
    return (HALF * (setup.model.branches - 1) + _input_bytes(setup, "fc2")) * width


def _experts(setup: TrainingSetup) -> _LlmPart:
    """Of a token norm's output, logits of the router in fp32, and the shared experts; of each of its K copies, after dispatch, the input,
    the inner part, and the output of an expert.

    Loads are balanced: a rank has `K * tokens * expert_tensor / t` copies, whatever the number of ranks with experts.
    """
    model, parallel, read = setup.model, setup.parallel, _input_bytes(setup, "fc1")
    copies = _copies(setup)
    inner = _feed_forward_bytes(setup, share(model.expert_ffn, parallel.expert_tensor))
    routed = (read * model.hidden + inner + HALF * model.hidden) * copies
    shared = _feed_forward_bytes(setup, share(model.shared_experts * model.expert_ffn, parallel.tensor)) * setup.tokens
    ranks = _input_share(setup) if model.shared_experts else _sequence_share(setup)
    bytes_read = share(read * model.hidden * setup.tokens, ranks) + share(4 * model.experts * setup.tokens, _sequence_share(setup))
    return _LlmPart(bytes_read + routed + shared, bytes_read + routed + shared + hidden_bytes(setup))


def _sequence_share(setup: TrainingSetup) -> int:
    """Ranks that share the tensors outside of the split products."""
    return setup.parallel.tensor if setup.parallel.sequence else 1


def _input_share(setup: TrainingSetup) -> int:
    """Ranks that share the inputs of products that are kept."""
    return 1 if setup.saved_inputs == "whole" else _sequence_share(setup)


def hidden_bytes(setup: TrainingSetup) -> int:
    """Bytes of a micro-batch between two blocks."""
    return share(HALF * setup.tokens * setup.model.hidden, _sequence_share(setup))


def _kept_block(setup: TrainingSetup, layer: int, index: int) -> int:
    """Bytes that a block, the index-th of its chunk, keeps from its forward to its backward pass."""
    parts = block_activations(setup, block_kind(setup.model, layer))
    if _is_recomputed(setup, index):
        return hidden_bytes(setup)
    return parts.saved - parts.of_modules + (parts.scores if setup.recompute != "selective" else 0)


def _is_recomputed(setup: TrainingSetup, index: int) -> bool:
    if setup.recompute not in ("full", "full_early_stop"):
        return False
    return setup.recompute_layers is None or index < setup.recompute_layers


def working_set(setup: TrainingSetup, kind: BlockKind) -> int:
    """Bytes of a block and micro-batch that recomputation brings back for its backward pass."""
    parts = block_activations(setup, kind)
    if _is_recomputed(setup, 0):
        return parts.saved + parts.scores
    return parts.of_modules + (parts.scores if setup.recompute == "selective" else 0)


def head_activations(setup: TrainingSetup) -> int:
    """Bytes of the head and a micro-batch: `4 s b V/t` for each token that is predicted, and the inputs of norm and product.

    That of the product is not kept if it is frozen.
    """
    model = setup.model
    logits = 4 * setup.tokens * share(model.vocab, setup.parallel.tensor)
    return (1 + model.mtp_layers) * logits + (2 if setup.lora is None else 1) * hidden_bytes(setup)


def activations_of(setup: TrainingSetup, stage: int) -> tuple[int, int, int]:
    """Bytes of blocks, of the embedding and of the head at the schedule's fullest state."""
    blocks = [sum(_kept_block(setup, layer, index) for index, layer in enumerate(chunk)) for chunk in stage_chunks(setup)[stage]]
    at_embedding, at_head = end_chunks(setup, stage)
    mask = hidden_bytes(setup) // HALF if setup.drops and setup.lora is None else 0
    head = head_activations(setup)
    parallel = setup.parallel

    def split(counts: tuple[float, ...]) -> tuple[int, int, int]:
        return (
            int(sum(count * size for count, size in zip(counts, blocks, strict=True))),
            0 if at_embedding is None else int(counts[at_embedding] * mask),
            0 if at_head is None else int(counts[at_head] * head),
        )

    states = in_flight(setup.schedule, stage, parallel.pipeline, setup.chunks, setup.micro_batches, setup.extra_ahead)
    # Chunks differ in bytes: the state with most micro-batches need not be the fullest.
    activations, embedding, logits = max(map(split, states), key=sum)
    return activations + _put_off(setup, stage), embedding, logits


def _put_off(setup: TrainingSetup, stage: int) -> int:
    """Bytes for weight gradients that ZB-H1 puts off: stage r those of r micro-batches, so that all stages hold about as much."""
    if setup.schedule != "zb-h1":
        return 0
    waiting = min(stage, max(0, setup.micro_batches - (setup.parallel.pipeline - stage)))
    return waiting * sum(block_activations(setup, block_kind(setup.model, layer)).products for layer in layers_on(setup, stage))
