"""What must hold without any measurement of time: FLOPs and memory against closed forms, orders of passes against bubbles, volumes."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
from astra_sim.options import structure
from astra_sim.schedule import Collective
from astra_sim_llm import counts, schedules
from astra_sim_llm.in_flight import even_stages
from astra_sim_llm.memory import memory_of, state_bytes
from astra_sim_llm.models import MODELS, Model
from astra_sim_llm.operations import Block
from astra_sim_llm.parallelism import Parallelism
from astra_sim_llm.products import ProductWork
from astra_sim_llm.schedules import PassKind
from astra_sim_llm.steps import LlmExchange
from astra_sim_llm.training_setup import TrainingSetup

from validation.iterations import Line, experiment, lines


@attrs.frozen
class Check:
    """A value that is known, and the one that astra gives. `rounding` is what the known one may be off by, relatively."""

    part: str
    name: str
    known: float
    found: float
    rounding: float = 0.0

    @property
    def error(self) -> float:
        """The relative difference."""
        return self.found / self.known - 1 if self.known else float(self.found != 0)

    @property
    def holds(self) -> bool:
        """Whether the two are equal, or differ by no more than rounding."""
        return abs(self.error) <= max(self.rounding, 1e-12)


FLOPS, MEMORY, ORDERS, VOLUMES = PARTS = (
    "FLOPs a token, published rows",
    "memory, the 12 values of arXiv 2205.05198",
    "pipeline orders, bubbles",
    "tensor-parallel volumes of a block",
)
_FLOPS_TOLERANCE = 0.005


def checks() -> list[Check]:
    """All checks."""
    return [*flops(), *memory(), *orders(), *volumes()]


def flops() -> Iterator[Check]:
    """FLOPs a token as Megatron-Bridge counts them (the causal half): the rate that a row states over its tokens a second."""
    for line in lines():
        if "model_tflops" in line and line["source"]["repo"].endswith("Megatron-Bridge"):
            value, rate = float(line["value"]), float(line["model_tflops"])
            model: Model = structure(Model, experiment(line).workload["model"], "model")
            if "w/o MTP" in (line["model"].get("variant") or ""):
                model = attrs.evolve(model, mtp_layers=0)
            if line["stack"].startswith("gpt-oss") and line["stack"] < "gpt-oss-26.06":
                # These releases count the gated part of SwiGLU alone, which GPT-OSS's activation is not, and no windows.
                model = attrs.evolve(model, gated=False, window=None, full_interval=0)
            counted = 3 * counts.forward_flops(model, line["model"]["seq"])
            yield Check(FLOPS, _name(line), rate * 1e12 / value, counted, _FLOPS_TOLERANCE + 0.5 / rate + _rounded(value) / value)


def _name(line: Line) -> str:
    return f"{line['model']['name']}, line {line['id']}"


def _rounded(tokens_per_s: float) -> float:
    """By how much a rate of tokens may be rounded: late releases give multiples of 16 or 32."""
    return 16.0 if tokens_per_s % 16 == 0 else 0.5


_PAPER = {
    "megatron-22b": ("1f1b", 1, 1, 4, 1),
    "gpt3-175b": ("interleaved", 8, 3, 1, 64),
    "megatron-530b": ("interleaved", 35, 3, 1, 280),
    "megatron-1t": ("1f1b", 64, 1, 1, 512),
}
"""Of the four models: schedule, stages, virtual stages, micro-batch, micro-batches; eight tensor-parallel ranks."""


def memory() -> Iterator[Check]:
    """Bytes of a rank of the first stage: states of the matrices, activations with nothing recomputed, and with the least of them."""
    tensor = 8
    for name, (schedule, stages, chunks, micro_batch, micro_batches) in _PAPER.items():
        model = MODELS[name]
        s, b, h, layers, a = 2048, micro_batch, model.hidden, model.layers, model.heads
        in_flight = layers * (stages * chunks + stages - 1) // (stages * chunks) if chunks > 1 else layers

        def made(sequence: bool, recompute: str, name: str = name) -> TrainingSetup:
            schedule, stages, chunks, micro_batch, micro_batches = _PAPER[name]
            parallel = Parallelism(tensor=tensor, sequence=sequence, pipeline=stages, virtual_stages=chunks)
            layers = even_stages(MODELS[name].layers, stages, chunks, schedule)
            return TrainingSetup(
                MODELS[name], parallel, layers, sequence=2048, micro_batch=micro_batch, micro_batches=micro_batches, precision="fp16",
                attention="unfused", recompute=recompute, schedule=schedule,
            )  # fmt: skip

        plain = made(False, "none")
        matrices = counts.stage_parameters(model, plain.layers_of_stage[0], True, False, plain.parallel).block_matrices
        yield Check(MEMORY, f"{name}: states", 18 * 12 * h * h * layers / (stages * tensor), state_bytes(plain, matrices))
        whole = s * b * h * in_flight
        none = whole * (10 + 24 / tensor + 5 * a * s / (h * tensor))
        yield Check(MEMORY, f"{name}: activations", none, memory_of(plain, 0).activations)
        yield Check(MEMORY, f"{name}: activations, least", whole * 34 / tensor, memory_of(made(True, "selective"), 0).activations)


def orders() -> Iterator[Check]:
    """Lengths of orders where all stages take as long: passes of all micro-batches, and the bubble."""
    forward, inputs, weights = 2.0, 3.0, 2.0
    backward = inputs + weights
    times = {PassKind.FORWARD: forward, PassKind.BACKWARD: backward, PassKind.INPUT: inputs, PassKind.WEIGHT: weights}
    for stages in (2, 4, 8):
        for micro_batches in (stages, 4 * stages):
            work = micro_batches * (forward + backward)
            one = (stages - 1) * (forward + backward)
            zero = (stages - 1) * (forward + inputs - weights)
            for schedule, chunks, bubble in (("gpipe", 1, one), ("1f1b", 1, one), ("interleaved", 2, one / 2), ("zb-h1", 1, zero)):
                order = schedules.order_of(schedule, stages, micro_batches, chunks)
                of_chunk = {kind: time / chunks for kind, time in times.items()}
                name = f"{schedule}, {stages} stages, {micro_batches} micro-batches"
                yield Check(ORDERS, name, work + bubble, schedules.makespan(order, schedule, of_chunk))


def volumes() -> Iterator[Check]:
    """Bytes that a rank sends on a ring for the tensor parallelism of a block, forward and backward."""
    model, b, s = MODELS["gpt3-175b"], 1, 2048
    for tensor in (2, 4, 8):
        whole = 2 * b * s * model.hidden
        for sequence, factor in ((False, 4 * 2), (True, 10)):
            block = Block(model, Parallelism(tensor=tensor, sequence=sequence), ProductWork(b, s, precision="fp16", flash=False))
            sent = sum(_sent(step, tensor) for step in (*block.forward(0), *block.backward(0)) if isinstance(step, LlmExchange))
            yield Check(VOLUMES, f"{tensor} ranks, sequence parallel: {sequence}", factor * (tensor - 1) / tensor * whole, sent)


def _sent(step: LlmExchange, ranks: int) -> float:
    share = {Collective.ALL_REDUCE: 2 * (ranks - 1) / ranks, Collective.REDUCE_SCATTER: (ranks - 1) / ranks}
    return step.bytes * share.get(step.collective, ranks - 1)
