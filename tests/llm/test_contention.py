"""What runs beside compute: how much it slows compute, and which tensor-parallel exchanges are beside which products."""

from __future__ import annotations

from typing import Any

import pytest
from astra_sim import simulate
from astra_sim.graph import Compute, Pass
from astra_sim.schedule import Collective
from astra_sim.shapes import Elementwise
from astra_sim_llm.models import MODELS
from astra_sim_llm.operations import Block
from astra_sim_llm.parallelism import Parallelism
from astra_sim_llm.products import ProductWork
from astra_sim_llm.steps import LlmExchange, LlmRun, Step
from astra_sim_llm.templates import FIRE_AND_FORGET, Compiler, OperationTypes

KERNEL_PS, EXCHANGE_PS = 1000, 800


def length(steps: list[Step], contention: float) -> int:
    """How long the kernels of a pass take together (picoseconds)."""
    kinds = OperationTypes()
    compiler = Compiler(kinds, lambda _: KERNEL_PS, lambda _: EXCHANGE_PS, lambda _: (0,), "layer", contention)
    template = compiler.compile(steps, Pass.FORWARD, "pass")
    operations = [kinds.operations[kind] for kind in template.kinds]
    return sum(operation.duration_ps for operation in operations if isinstance(operation, Compute))


def run() -> LlmRun:
    return LlmRun("kernel", Elementwise(read_bytes=1))


def exchange(overlapped_with: int) -> LlmExchange:
    return LlmExchange("gradients", "dp", Collective.ALL_REDUCE, 8, overlapped_with)


@pytest.mark.parametrize(
    ("steps", "slower"),
    [
        ([run(), exchange(FIRE_AND_FORGET)], 0),
        ([exchange(FIRE_AND_FORGET), run()], 400),
        ([exchange(FIRE_AND_FORGET), exchange(FIRE_AND_FORGET), run()], 500),
        ([exchange(FIRE_AND_FORGET), exchange(FIRE_AND_FORGET), exchange(FIRE_AND_FORGET), run(), run()], 1000),
        ([exchange(1), run(), run()], 400),
        ([exchange(1), exchange(2), run(), run()], 800),
    ],
)
def test_a_kernel_is_slowed_once_however_many_exchanges_there_are(steps: list[Step], slower: int) -> None:
    kernels = sum(isinstance(step, LlmRun) for step in steps)
    assert length(steps, 0.0) == kernels * KERNEL_PS
    assert length(steps, 0.5) == kernels * KERNEL_PS + slower


def exchanges(overlap: str) -> list[tuple[str, int]]:
    """The exchanges of a block's gradients, with how many kernels each runs beside."""
    work = ProductWork(1, 2048, precision="fp16", flash=False, tp_overlap=overlap)
    block = Block(MODELS["megatron-22b"], Parallelism(tensor=8, sequence=True), work)
    return [(step.collective.value, step.overlapped_with) for step in block.backward(0) if isinstance(step, LlmExchange)]


def test_the_saved_input_alone_is_gathered_beside_the_input_gradient() -> None:
    """Of each half of a block: the gradient of the output is gathered, then the saved input, and that of the input is reduced."""
    gather, reduce = "all_gather", "reduce_scatter"
    assert exchanges("none") == [(gather, 0), (reduce, 0), (gather, 0)] * 2
    assert exchanges("gather") == [(gather, 0), (gather, 1), (reduce, 0)] * 2
    assert exchanges("backward") == [(gather, 0), (gather, 1), (reduce, 1)] * 2


def test_an_iteration_becomes_shorter_with_each_overlap() -> None:
    def seconds(**overlap: Any) -> float:
        workload = {"plugin": "llm", "model": "megatron-22b", "global_batch": 4, "micro_batch": 4, "precision": "fp16", "detail": "pass"}
        result = simulate(
            platform="plugin:dgx_a100",
            system="plugin:astra2",
            compute="plugin:gpu?device=a100-80",
            workload={**workload, "tensor_parallel": 8, "check_memory": False, "overlap": overlap},
        )
        assert result.figures is not None
        return float(result.figures["iteration_s"])

    times = [seconds(tp=overlap) for overlap in ("none", "gather", "backward", "userbuffers")]
    assert times == sorted(times, reverse=True)
    assert len(set(times)) == 4
