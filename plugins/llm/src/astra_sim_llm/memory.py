"""Memory of a rank, stage by stage: weights, gradients, optimizer, activations in flight, logits, buffers, caches. In bytes.

Sources: arXiv 2205.05198 (activations of a block, recomputation, interleaving, the head), 1910.02054 (ZeRO), 2304.11277 (FSDP).
Not counted: gradients of activations within a block, and memory that the driver, communicators and the allocator keep, for which a
margin of the device's memory is left free (`Capacity`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import attrs
from astra_sim import InputError
from astra_sim.compute import Compute
from astra_sim.units import GIB

from astra_sim_llm.activations import HALF, activations_of, block_activations, hidden_bytes, working_set
from astra_sim_llm.adapters import adapter_parameters, trained
from astra_sim_llm.counts import (
    BlockKind,
    ParameterCounts,
    block_parameters,
    embedding_parameters,
    head_parameters,
    key_heads_of_rank,
    share,
    stage_parameters,
)
from astra_sim_llm.parallelism import Parallelism
from astra_sim_llm.training_setup import TrainingSetup, end_chunks, kinds_on, layers_on

WEIGHT = 2
"""Bytes of a weight in fp16 or bf16; with FP8 weights are kept in a byte each, as they are and transposed."""
OPTIMIZER = 12
"""Bytes that Adam keeps for a parameter: weight, first and second moment in fp32."""
PREFETCHED = 2
"""Units whose weights are gathered at once with ZeRO-3 or FSDP: the one that computes, and the next."""


UnitKind = BlockKind | Literal["embedding", "head"]
"""The parts that ZeRO gathers or reduces at once: a block, the embedding, or the output layer with its norm."""


@attrs.frozen
class LlmMemoryUse:
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
    """The working set of recomputation: the activations of one block while its backward pass runs."""
    buffers: int = 0
    """Gathered weights and unreduced gradients of ZeRO, gathered activations of sequence parallelism, messages."""
    key_value_cache: int = 0

    @property
    def total(self) -> int:
        """All bytes."""
        return sum(attrs.astuple(self))


@attrs.frozen
class Capacity:
    """The memory of an NPU, and the margin of it that is left free (bytes)."""

    total: float
    margin: float

    @property
    def usable(self) -> int:
        """The memory that a rank needs, in whole bytes."""
        return int(self.total - self.margin)

    def __str__(self) -> str:
        margin = f", {self.margin / GIB:.2f} of it margin" if self.margin else ""
        return f"{self.total / GIB:.2f} GiB{margin}"


def capacity_of(compute: Compute, margin_gib: float | None, total_bytes: float | None = None) -> Capacity | None:
    """The memory of the compute model's device, or `total_bytes`, with the margin that is given, or that of the device.

    None if it is not known. Raises InputError for a margin that nothing has, or that leaves nothing.
    """
    total = compute.memory_bytes if total_bytes is None else total_bytes
    if total is None:
        if margin_gib is not None:
            raise InputError(
                f"memory_margin is {margin_gib:g} GiB, which has no effect: the compute model does not know the memory of an NPU"
            )
        return None
    margin = compute.memory_margin_bytes if margin_gib is None else margin_gib * GIB
    if margin >= total:
        raise InputError(f"memory_margin is {margin / GIB:.2f} GiB; expected less than the memory of an NPU, {total / GIB:.2f} GiB")
    return Capacity(total, margin)


def memory_of(setup: TrainingSetup, stage: int) -> LlmMemoryUse:
    """Memory of a rank of a pipeline stage; stage 0 is the first."""
    if setup.mode != "train":
        return _inference(setup, stage)
    result, updated = stage_parameters_of(setup, stage), trained_parameters_of(setup, stage)
    parallel = setup.parallel
    activations, embedding, logits = activations_of(setup, stage)
    return LlmMemoryUse(
        weights=_sharded(result, WEIGHT, parallel, parallel.zero >= 3),
        gradients=_sharded(updated, gradient_bytes(setup), parallel, setup.shards_gradients),
        optimizer=_sharded(updated, OPTIMIZER, parallel, parallel.zero >= 1),
        activations=activations,
        embedding=embedding,
        logits=logits,
        recomputed=max((working_set(setup, kind) for kind in kinds_on(setup, stage)), default=0),
        buffers=_buffers(setup, stage),
    )


def peak(setup: TrainingSetup) -> tuple[int, LlmMemoryUse]:
    """The stage whose ranks need most memory, the first of them, and its memory."""
    uses = [memory_of(setup, stage) for stage in range(setup.parallel.pipeline)]
    stage = max(range(len(uses)), key=lambda index: uses[index].total)
    return stage, uses[stage]


def gradient_bytes(setup: TrainingSetup) -> int:
    """Bytes of the gradient of a parameter."""
    return 4 if setup.gradients == "fp32" else WEIGHT


def state_bytes(setup: TrainingSetup, parameters: int) -> int:
    """Bytes of weights, gradients and optimizer without ZeRO: 18 a parameter with gradients in fp32."""
    return (WEIGHT + gradient_bytes(setup) + OPTIMIZER) * parameters


def stage_parameters_of(setup: TrainingSetup, stage: int) -> ParameterCounts:
    """Parameters of a rank of a pipeline stage, with embedding or head if they are there."""
    embedding, head = end_chunks(setup, stage)
    layers = layers_on(setup, stage)
    frozen = stage_parameters(setup.model, layers, embedding is not None, head is not None, setup.parallel)
    return frozen + adapter_parameters(setup.model, setup.lora, setup.parallel) * len(layers)


def trained_parameters_of(setup: TrainingSetup, stage: int) -> ParameterCounts:
    """Those of them that have gradients and states of the optimizer."""
    return trained(stage_parameters_of(setup, stage), setup.lora)


def _sharded(stored: ParameterCounts, size: int, parallel: Parallelism, is_sharded: bool) -> int:
    """Bytes of a state of `size` bytes a parameter. Experts have fewer replicas, so fewer shards, than the rest."""
    if not is_sharded:
        return size * stored.total
    return share(size * stored.shared, parallel.shards) + share(size * stored.experts, parallel.expert_shards)


def _buffers(setup: TrainingSetup, stage: int) -> int:
    parallel = setup.parallel
    unreduced = gradient_bytes(setup) if setup.shards_gradients else 0  # a gradient is whole until it is reduced
    gathered = PREFETCHED * WEIGHT if parallel.zero >= 3 else 0
    units = units_on(setup, stage).values() if unreduced or gathered else ()
    size = unreduced * _largest(parallel, [trained(unit, setup.lora) for unit in units]) + gathered * _largest(parallel, units)
    if parallel.sequence and parallel.tensor > 1:  # the input of a product, gathered from all tensor ranks
        size += HALF * setup.tokens * setup.model.hidden
    if parallel.pipeline > 1:  # an activation and a gradient that arrive
        size += 2 * hidden_bytes(setup)
    return size


def _largest(parallel: Parallelism, units: Iterable[ParameterCounts]) -> int:
    """Parameters of the largest of the units that ZeRO gathers or reduces at once, as far as they have several shards."""
    sizes = [(unit.shared if parallel.shards > 1 else 0) + (unit.experts if parallel.expert_shards > 1 else 0) for unit in units]
    return max(sizes, default=0)


def units_on(setup: TrainingSetup, stage: int) -> dict[UnitKind, ParameterCounts]:
    """The kinds of units on a stage, each with its parameters on a rank."""
    model, parallel = setup.model, setup.parallel
    embedding, head = end_chunks(setup, stage)
    adapters = adapter_parameters(model, setup.lora, parallel)
    units: dict[UnitKind, ParameterCounts] = {kind: block_parameters(model, kind, parallel) + adapters for kind in kinds_on(setup, stage)}
    if embedding is not None:
        units["embedding"] = embedding_parameters(model, parallel)
    if head is not None:
        units["head"] = head_parameters(model, parallel, embedding is not None)
    return units


# -- Inference ---------------------------------------------------------------------------------------------------------


def _inference(setup: TrainingSetup, stage: int) -> LlmMemoryUse:
    """Weights, one block's activations, logits of the last token of each sequence, and keys and values of all sequences."""
    result = stage_parameters_of(setup, stage)
    fullest = (block_activations(setup, kind) for kind in kinds_on(setup, stage))
    has_head = end_chunks(setup, stage)[1] is not None
    return LlmMemoryUse(
        # Without a backward pass there is no transposed copy: in FP8 a weight of a block takes a byte; embedding and head keep 16 bits.
        weights=WEIGHT * result.total - (result.block_matrices if setup.fp8 else 0),
        activations=max((parts.saved + parts.scores for parts in fullest), default=0),
        logits=4 * setup.micro_batch * share(setup.model.vocab, setup.parallel.tensor) if has_head else 0,
        buffers=2 * hidden_bytes(setup) if setup.parallel.pipeline > 1 else 0,
        key_value_cache=sum(key_value_bytes(setup, layer) for layer in layers_on(setup, stage)),
    )


def key_value_bytes(setup: TrainingSetup, layer: int) -> int:
    """Bytes of a layer's keys and values of all sequences of a replica: of latent attention the low rank, whole on each tensor rank.

    Only those in a window are kept. With FP8 attention they are kept as its kernel reads them, in a byte an element.
    """
    model = setup.model
    element = 1 if setup.fp8_attention else HALF
    keys = min(setup.key_length, model.window_of(layer) or setup.key_length)
    cached = share(keys * setup.micro_batch * setup.micro_batches, setup.parallel.context)
    if model.mla is not None:
        return element * cached * (model.mla.key_value_rank + model.mla.rope)
    return element * cached * 2 * key_heads_of_rank(model, setup.parallel) * model.head_size
