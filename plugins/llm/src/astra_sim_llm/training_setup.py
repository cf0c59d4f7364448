"""The settings that determine the memory of a rank, and the blocks of each stage."""

from __future__ import annotations

import attrs
from astra_sim import InputError, option
from astra_sim.memo import cached

from astra_sim_llm.counts import BlockKind, block_kind, share
from astra_sim_llm.in_flight import FOLDED, chunks_of_stages
from astra_sim_llm.models import Model
from astra_sim_llm.options import CAST_TO, PRECISIONS, RECOMPUTE, RECOMPUTE_MODULES, SCHEDULES, Lora
from astra_sim_llm.parallelism import Parallelism


@attrs.frozen(cache_hash=True)
class TrainingSetup:
    """The settings that determine the memory of a rank. Raises InputError if parts contradict each other.

    `layers_of_stage` has the numbers of a stage's layers, chunk after chunk; a rank of DualPipe has those of both of its stages. Blocks of
    multi-token prediction are numbered after the last layer; if no stage lists them, they are with the head in training, and are left
    out in inference.
    """

    model: Model
    parallel: Parallelism
    layers_of_stage: tuple[tuple[int, ...], ...]
    sequence: int = option(minimum=1, help="sequence length", unit="tokens")
    micro_batch: int = option(1, minimum=1, help="sequences of a micro-batch")
    micro_batches: int = option(1, minimum=1, help="micro-batches of an iteration for each replica")
    precision: str = option("bf16", choices=PRECISIONS, help="inputs of products")
    gradients: str = option("fp32", choices=("fp32", "same"), help="precision in which gradients are kept")
    accumulation: str = option("shards", choices=("shards", "whole"), help="the gradients that ZeRO-2 and 3 keep between micro-batches")
    saved_inputs: str = option("shards", choices=("shards", "whole"), help="what sequence parallelism keeps of inputs of products")
    recompute: str = option("none", choices=RECOMPUTE, help="activations that are computed again")
    recompute_layers: int | None = option(None, minimum=0, help="first layers of each chunk that are computed again; none: all")
    recompute_modules: tuple[str, ...] = option((), choices=RECOMPUTE_MODULES, help="parts of blocks that are computed again")
    attention: str = option("flash", choices=("flash", "unfused"), help="attention kernels")
    fp8_attention: bool = option(False, help="queries, keys and values of attention are cast to fp8")
    schedule: str = option("1f1b", choices=SCHEDULES, help="pipeline schedule")
    extra_ahead: int = option(0, minimum=0, help="forward passes that go ahead beyond those of the schedule")
    mode: str = option("train", choices=("train", "prefill", "decode"), help="training or inference")
    kv_length: int = option(
        0, minimum=0, help="tokens of a sequence in the cache at its fullest; at least those of the pass", unit="tokens"
    )
    lora: Lora | None = option(None, help="adapters that are trained beside frozen weights")

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
        return share(self.micro_batch * length, self.parallel.context)

    @property
    def key_length(self) -> int:
        """Keys that the last query of a sequence sees; in inference those in the cache."""
        if self.mode == "train":
            return self.sequence
        return max(self.kv_length, 1 if self.mode == "decode" else self.sequence)

    @property
    def shards_gradients(self) -> bool:
        """Whether a rank keeps its shard of the gradients alone, so that each backward pass reduces its own."""
        return self.parallel.zero >= 2 and self.accumulation == "shards"

    @property
    def drops(self) -> bool:
        """Whether there are dropout masks."""
        return self.model.dropout and self.mode == "train"

    @property
    def fp8(self) -> bool:
        """Whether inputs of products have a byte an element; those of NVFP4 count as that in memory."""
        return self.precision in CAST_TO


def end_chunks(setup: TrainingSetup, stage: int) -> tuple[int | None, int | None]:
    """The chunks of a stage at the ends of the model: that with the embedding, and that with the head."""
    last = setup.parallel.pipeline - 1
    if setup.schedule == "dualpipe":  # two copies of the model, in opposite directions
        return {0: (0, 1), last: (1, 0)}.get(stage, (None, None))
    # A V ends on the stage on which it begins.
    head = 0 if setup.schedule == "zb-v" else last
    return (0 if stage == 0 else None, setup.chunks - 1 if stage == head else None)


@cached("LLM: layers of chunks", 64)
def stage_chunks(setup: TrainingSetup) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """The layers of each chunk of each stage, in training with those of multi-token prediction."""
    chunks = chunks_of_stages(setup.layers_of_stage, setup.schedule, setup.chunks)
    model = setup.model
    extra = range(model.layers, model.layers + model.mtp_layers)
    if setup.mode == "train" and not any(layer >= model.layers for layers in setup.layers_of_stage for layer in layers):
        for stage in range(setup.parallel.pipeline):
            head = end_chunks(setup, stage)[1]
            if head is not None:
                chunks[stage][head] += extra
    return tuple(tuple(tuple(layers) for layers in stage) for stage in chunks)


def layers_on(setup: TrainingSetup, stage: int) -> list[int]:
    """The layers of a stage, chunk after chunk."""
    return [layer for chunk in stage_chunks(setup)[stage] for layer in chunk]


def kinds_on(setup: TrainingSetup, stage: int) -> set[BlockKind]:
    """The kinds of blocks on a stage."""
    return {block_kind(setup.model, layer) for layer in layers_on(setup, stage)}
