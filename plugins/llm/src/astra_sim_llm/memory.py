"""Memory of a rank, stage by stage: weights, gradients, optimizer, activations in flight, logits, buffers, caches. In bytes.

Sources: arXiv 2205.05198 (activations of a block, recomputation, interleaving, the head), 1910.02054 (ZeRO), 2304.11277 (FSDP).
Not counted: what the driver, communicators and the allocator keep for themselves, and gradients of activations within a block.
"""

from __future__ import annotations

import functools

import attrs
from astra_sim import InputError, option

from astra_sim_llm.counts import (
    BlockKind,
    Parameters,
    block_kind,
    block_parameters,
    embedding_parameters,
    head_parameters,
    key_heads_of_rank,
    stage_parameters,
)
from astra_sim_llm.divisibility import divides, schedule_allows
from astra_sim_llm.in_flight import FOLDED, chunks_of_stages, even_stages, in_flight
from astra_sim_llm.models import Model
from astra_sim_llm.parallelism import Parallelism

RECOMPUTE = ("none", "selective", "full", "full_early_stop")
SCHEDULES = ("gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", "dualpipe")

WEIGHT = 2
"""Bytes of a weight in fp16 or bf16, which FP8 recipes keep too."""
OPTIMIZER = 12
"""Bytes that Adam keeps for a parameter: weight, first and second moment in fp32."""
HALF = 2
"""Bytes of an activation in fp16 or bf16."""
PREFETCHED = 2
"""Units whose weights are gathered at once with ZeRO-3 or FSDP: the one that computes, and the next."""


@attrs.frozen(cache_hash=True)
class TrainingSetup:
    """What decides how much memory a rank needs. Raises InputError where parts contradict each other.

    `layers_of_stage` has the numbers of a stage's layers, chunk after chunk; a rank of DualPipe has those of both of its stages. Blocks of
    multi-token prediction are numbered after the last layer; where no stage lists them, they lie with the head.
    """

    model: Model
    parallel: Parallelism
    layers_of_stage: tuple[tuple[int, ...], ...]
    sequence: int = option(minimum=1, help="sequence length", unit="tokens")
    micro_batch: int = option(1, minimum=1, help="sequences of a micro-batch")
    micro_batches: int = option(1, minimum=1, help="micro-batches of an iteration for each replica")
    precision: str = option("bf16", choices=("fp16", "bf16", "fp8", "mxfp8"), help="inputs of products")
    gradients: str = option("fp32", choices=("fp32", "same"), help="precision in which gradients are kept")
    recompute: str = option("none", choices=RECOMPUTE, help="activations that are computed again")
    recompute_layers: int | None = option(None, minimum=0, help="first layers of each chunk that are computed again; none: all")
    attention: str = option("flash", choices=("flash", "unfused"), help="attention kernels")
    schedule: str = option("1f1b", choices=SCHEDULES, help="pipeline schedule")
    mode: str = option("train", choices=("train", "prefill", "decode"), help="training or inference")
    kv_length: int = option(
        0, minimum=0, help="tokens of a sequence in the cache at its fullest; at least those of the pass", unit="tokens"
    )

    def __attrs_post_init__(self) -> None:
        if len(self.layers_of_stage) != self.parallel.pipeline:
            raise InputError(f"layers_of_stage lists {len(self.layers_of_stage)} stages; expected pipeline, {self.parallel.pipeline}")
        known = self.model.layers + self.model.mtp_layers
        unknown = {layer for layers in self.layers_of_stage for layer in layers if not 0 <= layer < known}
        if unknown:
            raise InputError(f"layers_of_stage lists layer {min(unknown)}; expected numbers from 0 to {known - 1}")
        if self.recompute_layers is not None and self.recompute not in ("full", "full_early_stop"):
            raise InputError(f"recompute_layers is {self.recompute_layers} and recompute {self.recompute!r}; expected 'full'")

    @property
    def chunks(self) -> int:
        """Chunks of a stage."""
        if self.schedule in FOLDED:
            return 2
        return self.parallel.virtual_stages if self.schedule == "interleaved" else 1

    @property
    def tokens(self) -> int:
        """Tokens of a micro-batch on a rank: a share of those of its context-parallel group."""
        length = 1 if self.mode == "decode" else self.sequence
        return _share(self.micro_batch * length, self.parallel.context)

    @property
    def fp8(self) -> bool:
        """Whether inputs of products have a byte an element."""
        return self.precision in ("fp8", "mxfp8")


@attrs.frozen
class MemoryUse:
    """Bytes of a rank, by use."""

    weights: int
    gradients: int = 0
    optimizer: int = 0
    activations: int = 0
    """Activations of blocks in flight."""
    embedding: int = 0
    """Dropout masks of the embedding, of all micro-batches in flight."""
    logits: int = 0
    """Logits in fp32, and the inputs of the output layer and its norm."""
    recomputed: int = 0
    """The working set of recomputation: what one block keeps while its backward pass runs."""
    buffers: int = 0
    """Gathered weights and unreduced gradients of ZeRO, gathered activations of sequence parallelism, messages, FP8 copies of weights."""
    key_value_cache: int = 0

    @property
    def total(self) -> int:
        """All bytes."""
        return sum(attrs.astuple(self))


def memory_of(setup: TrainingSetup, stage: int) -> MemoryUse:
    """Memory of a rank of a pipeline stage; stage 0 is the first."""
    if setup.mode != "train":
        return _inference(setup, stage)
    kept = _parameters(setup, stage)
    parallel = setup.parallel
    activations, embedding, logits = _in_flight(setup, stage)
    return MemoryUse(
        weights=_sharded(kept, WEIGHT, parallel, parallel.zero >= 3),
        gradients=_sharded(kept, gradient_bytes(setup), parallel, parallel.zero >= 2),
        optimizer=_sharded(kept, OPTIMIZER, parallel, parallel.zero >= 1),
        activations=activations,
        embedding=embedding,
        logits=logits,
        recomputed=max((_working_set(setup, kind) for kind in _kinds(setup, stage)), default=0),
        buffers=_buffers(setup, stage, kept),
    )


def peak(setup: TrainingSetup) -> tuple[int, MemoryUse]:
    """The stage whose ranks need most memory, the first of them, and what they need."""
    uses = [memory_of(setup, stage) for stage in range(setup.parallel.pipeline)]
    stage = max(range(len(uses)), key=lambda index: uses[index].total)
    return stage, uses[stage]


def gradient_bytes(setup: TrainingSetup) -> int:
    """Bytes of the gradient of a parameter."""
    return 4 if setup.gradients == "fp32" else WEIGHT


def state_bytes(setup: TrainingSetup, parameters: int) -> int:
    """Bytes of weights, gradients and optimizer without ZeRO: 18 a parameter with gradients in fp32."""
    return (WEIGHT + gradient_bytes(setup) + OPTIMIZER) * parameters


# -- What lies where ---------------------------------------------------------------------------------------------------


def end_chunks(setup: TrainingSetup, stage: int) -> tuple[int | None, int | None]:
    """The chunks of a stage at the ends of the model: that with the embedding, and that with the head."""
    last = setup.parallel.pipeline - 1
    if setup.schedule == "dualpipe":  # two copies of the model, in opposite directions
        return {0: (0, 1), last: (1, 0)}.get(stage, (None, None))
    head = 0 if setup.schedule == "zb-v" else last
    return (0 if stage == 0 else None, setup.chunks - 1 if stage == head else None)


@functools.lru_cache(maxsize=64)
def _stage_chunks(setup: TrainingSetup) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """The layers of each chunk of each stage, with those of multi-token prediction."""
    chunks = chunks_of_stages(setup.layers_of_stage, setup.schedule, setup.chunks)
    model = setup.model
    extra = range(model.layers, model.layers + model.mtp_layers)
    if not any(layer >= model.layers for layers in setup.layers_of_stage for layer in layers):
        for stage in range(setup.parallel.pipeline):
            head = end_chunks(setup, stage)[1]
            if head is not None:
                chunks[stage][head] += extra
    return tuple(tuple(tuple(layers) for layers in stage) for stage in chunks)


def _layers(setup: TrainingSetup, stage: int) -> list[int]:
    return [layer for chunk in _stage_chunks(setup)[stage] for layer in chunk]


def _kinds(setup: TrainingSetup, stage: int) -> set[BlockKind]:
    return {block_kind(setup.model, layer) for layer in _layers(setup, stage)}


def _parameters(setup: TrainingSetup, stage: int) -> Parameters:
    embedding, head = end_chunks(setup, stage)
    return stage_parameters(setup.model, _layers(setup, stage), embedding is not None, head is not None, setup.parallel)


def _sharded(kept: Parameters, size: int, parallel: Parallelism, is_sharded: bool) -> int:
    """Bytes of what has `size` bytes a parameter. Experts have fewer replicas, so fewer shards, than the rest."""
    if not is_sharded:
        return size * kept.total
    return _share(size * kept.shared, parallel.shards) + _share(size * kept.experts, parallel.expert_shards)


def _buffers(setup: TrainingSetup, stage: int, kept: Parameters) -> int:
    parallel, model = setup.parallel, setup.model
    size = 0
    if parallel.zero >= 2:
        gathered = _largest_unit(setup, stage)
        size += gathered * (gradient_bytes(setup) + (PREFETCHED * WEIGHT if parallel.zero >= 3 else 0))
    if setup.fp8:  # a copy, and one transposed
        blocks = [block_parameters(model, kind, parallel).block_matrices for kind in _kinds(setup, stage)]
        size += 2 * (max(blocks, default=0) if parallel.zero >= 3 and parallel.shards > 1 else kept.block_matrices)
    if parallel.sequence and parallel.tensor > 1:
        size += HALF * setup.tokens * model.hidden
    if parallel.pipeline > 1:  # an activation and a gradient that arrive
        size += 2 * _hidden_bytes(setup)
    return size


def _largest_unit(setup: TrainingSetup, stage: int) -> int:
    """Parameters of the largest unit that ZeRO gathers or reduces at once: a block, the embedding, or the head."""
    model, parallel = setup.model, setup.parallel
    embedding, head = end_chunks(setup, stage)
    units = [block_parameters(model, kind, parallel) for kind in _kinds(setup, stage)]
    units += [embedding_parameters(model, parallel)] if embedding is not None else []
    units += [head_parameters(model, parallel, embedding is not None)] if head is not None else []
    sizes = [(unit.shared if parallel.shards > 1 else 0) + (unit.experts if parallel.expert_shards > 1 else 0) for unit in units]
    return max(sizes, default=0)


# -- Activations -------------------------------------------------------------------------------------------------------


@attrs.frozen
class BlockActivations:
    """Bytes of a block and micro-batch on a rank.

    `kept`: for the backward pass, without scores. `scores`: of attention that is not fused. `products`: what weight gradients that are put
    off still need, the inputs of products and the gradients of their outputs (32 s b h of a GPT's 34, arXiv 2401.10241).
    """

    kept: int
    scores: int
    products: int


@functools.lru_cache(maxsize=256)
def block_activations(setup: TrainingSetup, kind: BlockKind) -> BlockActivations:
    """Activations of a block. For a GPT `s b h (10 + 24/t + 5 a s/(h t))`, with sequence parallelism all of it divided by t.

    Outside of the split products, for a token: inputs of two norms (4h), of the products behind them (4h), two dropout masks (2h).
    Within: queries, keys, values and the context of a rank's heads; the outputs of the first feed-forward product and the input of the
    second (2 bytes a matrix and element of the width).
    """
    model = setup.model
    block = model.kind(model.layers) if kind == "prediction" else kind
    attention, feed_forward = _attention(setup), _experts(setup) if block == "moe" else _dense(setup, model.width)
    masks = 2 * model.hidden if model.dropout else 0
    joined = 8 * model.hidden if kind == "prediction" else 0  # inputs of two norms, and what they give to the product that joins them
    own = _share((2 * HALF * model.hidden + masks + joined) * setup.tokens, _sequence_share(setup))
    scores = 0
    if setup.attention == "unfused":
        heads = _share(model.heads, setup.parallel.tensor)
        scores = (5 if model.dropout else 2) * heads * setup.sequence * setup.tokens
    return BlockActivations(
        kept=own + attention.kept + feed_forward.kept, scores=scores, products=attention.products + feed_forward.products
    )


@attrs.frozen
class _Part:
    """Bytes of a part of a block: what it keeps, and what its weight gradients need."""

    kept: int
    products: int


def _input_bytes(setup: TrainingSetup) -> int:
    """Bytes of an element that only a product reads again."""
    return 1 if setup.fp8 else HALF


def _attention(setup: TrainingSetup) -> _Part:
    """Norm's output, queries, keys, values and context; of latent attention also the low ranks before and behind their norms."""
    model, tokens, read = setup.model, setup.tokens, _input_bytes(setup)
    heads = _share(model.heads, setup.parallel.tensor)
    mla = model.mla
    if mla is None:
        outputs = (heads + 2 * key_heads_of_rank(model, setup.parallel)) * model.head_size
        low, low_inputs = 0, 0
    else:
        outputs = heads * (2 * model.head_size + mla.value)
        low, low_inputs = mla.query_rank + mla.key_value_rank + mla.rope, mla.query_rank + mla.key_value_rank
    context = heads * model.value_size
    shared = _share((read * (model.hidden + low_inputs) + HALF * low) * tokens, _sequence_share(setup))
    kept = shared + HALF * (outputs + context) * tokens
    return _Part(kept, kept + _hidden_bytes(setup))


def _dense(setup: TrainingSetup, width: int) -> _Part:
    """Norm's output, outputs of the first product, which are what the activation reads, and the input of the second."""
    model, read = setup.model, _input_bytes(setup)
    inner = _feed_forward_bytes(setup, _share(width, setup.parallel.tensor)) * setup.tokens
    kept = _share(read * model.hidden * setup.tokens, _sequence_share(setup)) + inner
    return _Part(kept, kept + _hidden_bytes(setup))


def _feed_forward_bytes(setup: TrainingSetup, width: int) -> int:
    return (HALF * (setup.model.branches - 1) + _input_bytes(setup)) * width


def _experts(setup: TrainingSetup) -> _Part:
    """Of a token norm's output, logits of the router in fp32, and the shared experts; of each of its K copies, after dispatch, the input,
    the inner part, and the output of an expert.

    Loads are balanced: a rank has `K * tokens * expert_tensor / t` copies, whatever the number of ranks with experts.
    """
    model, parallel, read = setup.model, setup.parallel, _input_bytes(setup)
    copies = _share(model.top_k * setup.tokens * parallel.expert_tensor, parallel.tensor)
    inner = _feed_forward_bytes(setup, _share(model.expert_ffn, parallel.expert_tensor))
    routed = (read * model.hidden + inner + HALF * model.hidden) * copies
    shared = _feed_forward_bytes(setup, _share(model.shared_experts * model.expert_ffn, parallel.tensor)) * setup.tokens
    own = _share((read * model.hidden + 4 * model.experts) * setup.tokens, _sequence_share(setup))
    return _Part(own + routed + shared, own + routed + shared + _hidden_bytes(setup))


def _sequence_share(setup: TrainingSetup) -> int:
    """Ranks that share what lies outside of the split products."""
    return setup.parallel.tensor if setup.parallel.sequence else 1


def _hidden_bytes(setup: TrainingSetup) -> int:
    """Bytes of a micro-batch between two blocks."""
    return _share(HALF * setup.tokens * setup.model.hidden, _sequence_share(setup))


def _kept_block(setup: TrainingSetup, layer: int, index: int) -> int:
    """Bytes that a block, the index-th of its chunk, keeps from its forward to its backward pass."""
    parts = block_activations(setup, block_kind(setup.model, layer))
    if _is_recomputed(setup, index):
        return _hidden_bytes(setup)
    return parts.kept + (parts.scores if setup.recompute != "selective" else 0)


def _is_recomputed(setup: TrainingSetup, index: int) -> bool:
    if setup.recompute not in ("full", "full_early_stop"):
        return False
    return setup.recompute_layers is None or index < setup.recompute_layers


def _working_set(setup: TrainingSetup, kind: BlockKind) -> int:
    parts = block_activations(setup, kind)
    if setup.recompute == "selective":
        return parts.scores
    return parts.kept + parts.scores if _is_recomputed(setup, 0) else 0


def head_activations(setup: TrainingSetup) -> int:
    """Bytes of the head and a micro-batch: `4 s b V/t` for each token that is predicted, and the inputs of norm and product."""
    model = setup.model
    logits = 4 * setup.tokens * _share(model.vocab, setup.parallel.tensor)
    return (1 + model.mtp_layers) * logits + 2 * _hidden_bytes(setup)


def _in_flight(setup: TrainingSetup, stage: int) -> tuple[int, int, int]:
    """Bytes of blocks, of the embedding and of the head at the schedule's fullest state."""
    blocks = [sum(_kept_block(setup, layer, index) for index, layer in enumerate(chunk)) for chunk in _stage_chunks(setup)[stage]]
    at_embedding, at_head = end_chunks(setup, stage)
    mask = _hidden_bytes(setup) // HALF if setup.model.dropout else 0
    head = head_activations(setup)
    parallel = setup.parallel

    def split(counts: tuple[float, ...]) -> tuple[int, int, int]:
        return (
            int(sum(count * size for count, size in zip(counts, blocks, strict=True))),
            0 if at_embedding is None else int(counts[at_embedding] * mask),
            0 if at_head is None else int(counts[at_head] * head),
        )

    states = in_flight(setup.schedule, stage, parallel.pipeline, setup.chunks, setup.micro_batches)
    activations, embedding, logits = max(map(split, states), key=sum)
    return activations + _put_off(setup, stage), embedding, logits


def _put_off(setup: TrainingSetup, stage: int) -> int:
    """Bytes for weight gradients that ZB-H1 puts off: stage r those of r micro-batches, so that all stages hold about as much."""
    if setup.schedule != "zb-h1":
        return 0
    waiting = min(stage, max(0, setup.micro_batches - (setup.parallel.pipeline - stage)))
    return waiting * sum(block_activations(setup, block_kind(setup.model, layer)).products for layer in _layers(setup, stage))


# -- Inference ---------------------------------------------------------------------------------------------------------


def _inference(setup: TrainingSetup, stage: int) -> MemoryUse:
    """Weights, one block's activations, logits of the last token of each sequence, and keys and values of all sequences."""
    kept = _parameters(setup, stage)
    fullest = (block_activations(setup, kind) for kind in _kinds(setup, stage))
    has_head = end_chunks(setup, stage)[1] is not None
    return MemoryUse(
        weights=WEIGHT * kept.total - (kept.block_matrices if setup.fp8 else 0),
        activations=max((parts.kept + parts.scores for parts in fullest), default=0),
        logits=4 * setup.micro_batch * _share(setup.model.vocab, setup.parallel.tensor) if has_head else 0,
        buffers=2 * _hidden_bytes(setup) if setup.parallel.pipeline > 1 else 0,
        key_value_cache=len(_layers(setup, stage)) * key_value_bytes(setup),
    )


def key_value_bytes(setup: TrainingSetup) -> int:
    """Bytes of a layer's keys and values of all sequences of a replica: of latent attention the low rank, whole on each tensor rank."""
    model = setup.model
    length = max(setup.kv_length, 1 if setup.mode == "decode" else setup.sequence)
    cached = _share(length * setup.micro_batch * setup.micro_batches, setup.parallel.context)
    if model.mla is not None:
        return HALF * cached * (model.mla.key_value_rank + model.mla.rope)
    return HALF * cached * 2 * key_heads_of_rank(model, setup.parallel) * model.head_size


# -- What would fit ----------------------------------------------------------------------------------------------------


@attrs.frozen
class Suggestion:
    """A change of a setup, as words, and the bytes that its fullest rank then needs."""

    change: str
    setup: TrainingSetup
    bytes: int


def suggestions(setup: TrainingSetup, capacity_bytes: int, most_tensor: int | None = None) -> list[Suggestion]:
    """Single changes with which a training run would fit that does not; none where it fits. The one that leaves most memory is last.

    Twice the tensor or pipeline ranks halve the replicas, where they can be halved, else take twice the NPUs. `most_tensor` is the limit on
    tensor parallelism, such as the NPUs of a node.
    """
    if setup.mode != "train" or peak(setup)[1].total <= capacity_bytes:
        return []
    changes = [item for item in _changes(setup) if most_tensor is None or item[1].parallel.tensor <= most_tensor]
    made = [Suggestion(words, changed, peak(changed)[1].total) for words, changed in changes]
    return sorted((item for item in made if item.bytes <= capacity_bytes), key=lambda item: -item.bytes)


def _changes(setup: TrainingSetup) -> list[tuple[str, TrainingSetup]]:
    parallel = setup.parallel
    changes = []
    if setup.recompute == "none" and setup.attention == "unfused":
        changes.append(("recompute = selective", attrs.evolve(setup, recompute="selective")))
    if not (setup.recompute.startswith("full") and setup.recompute_layers is None):
        changes.append(("recompute = full", attrs.evolve(setup, recompute="full", recompute_layers=None)))
    levels = range(parallel.zero + 1, 4) if parallel.shards > 1 else ()
    changes += [(f"zero = {level}", attrs.evolve(setup, parallel=attrs.evolve(parallel, zero=level))) for level in levels]
    words, wider, rounds = _doubled(setup, "tensor")
    if divides(setup.model, wider, setup.sequence):
        changes.append((words, attrs.evolve(setup, parallel=wider, micro_batches=rounds)))
    words, longer, rounds = _doubled(setup, "pipeline")
    layers, stages = setup.model.layers, longer.pipeline
    if divides(setup.model, longer, setup.sequence) and schedule_allows(setup.schedule, layers, stages, setup.chunks, rounds):
        split = even_stages(layers, stages, setup.chunks, setup.schedule)
        changes.append((words, attrs.evolve(setup, parallel=longer, layers_of_stage=split, micro_batches=rounds)))
    return changes


def _doubled(setup: TrainingSetup, axis: str) -> tuple[str, Parallelism, int]:
    """A parallel layout with twice the ranks of an axis, in words too, and its micro-batches: those of the same global batch."""
    parallel = setup.parallel
    size = 2 * getattr(parallel, axis)
    words = f"{axis}_parallel = {size}"
    if parallel.data % 2 or parallel.shard_group is not None:
        return f"{words} on {2 * parallel.ranks} NPUs", attrs.evolve(parallel, **{axis: size}), setup.micro_batches
    changed = attrs.evolve(parallel, **{axis: size}, data=parallel.data // 2)
    return words, changed, 2 * setup.micro_batches


def _share(number: int, ranks: int) -> int:
    return -(-number // ranks)
