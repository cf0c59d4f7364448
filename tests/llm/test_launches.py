"""Kernels that a host launches one by one: a pass takes at least as long; graphs and fused kernels need fewer launches."""

from __future__ import annotations

import math
from typing import Any

import attrs
import pytest
from astra_sim import InputError
from astra_sim.graph import Composite, Compute, Pass
from astra_sim.run.composites import CompositeTimes
from astra_sim.schedule import Collective
from astra_sim.shapes import Attention, Cast, Elementwise
from astra_sim_llm.models import MODELS
from astra_sim_llm.operations import Block
from astra_sim_llm.parallelism import Parallelism
from astra_sim_llm.products import ProductWork
from astra_sim_llm.steps import LlmExchange, LlmRun, Step
from astra_sim_llm.templates import Compiler, OperationTypes

from llm.runs import EXPERTS, run

QWEN = MODELS["qwen3-30b-a3b"]
STACK = {"plugin": "gpu", "device": "h100", "stack": {"launch_us": 50.0}}
KERNEL_PS, EXCHANGE_PS = 1000, 800


def length(steps: list[Step], launch_ps: int, detail: str) -> int:
    """How long the kernels of a pass take together, with `pass` also its exchanges (picoseconds)."""
    kinds = OperationTypes()
    compiler = Compiler(kinds, lambda _: KERNEL_PS, lambda _: EXCHANGE_PS, lambda _: (0,), detail, 0.0, launch_ps)
    template = compiler.compile(steps, Pass.FORWARD, "pass")
    operations = [kinds.operations[kind] for kind in template.kinds]
    times = CompositeTimes(lambda _: EXCHANGE_PS)
    return sum(
        times.of(operation).ps if isinstance(operation, Composite) else operation.duration_ps
        for operation in operations
        if isinstance(operation, (Compute, Composite))
    )


def kernel(launches: int = 1) -> LlmRun:
    return LlmRun("kernel", Elementwise(read_bytes=1), launches=launches)


@pytest.mark.parametrize(
    ("launch_ps", "kernels_ps"),
    [(0, 2000), (300, 2000), (560, 2000), (1000, 4200), (2000, 9200)],
)
def test_a_pass_waits_for_its_launches(launch_ps: int, kernels_ps: int) -> None:
    """Five launches, beside two kernels and an exchange one after another."""
    steps: list[Step] = [kernel(), LlmExchange("activations", "tp", Collective.ALL_REDUCE, 8), kernel(4)]
    assert length(steps, launch_ps, "layer") == length(steps, launch_ps, "kernel") == kernels_ps
    assert length(steps, launch_ps, "pass") == kernels_ps + EXCHANGE_PS


def launches(**work: Any) -> int:
    """Launches of a block's forward and backward pass, with 16 experts a rank."""
    block = Block(QWEN, Parallelism(expert=8, data=8), ProductWork(1, 4096, **{"precision": "mxfp8", **work}))
    return sum(step.launches for step in (*block.forward(0), *block.backward(0)) if isinstance(step, LlmRun))


def test_experts_are_launched_one_by_one() -> None:
    products, casts = 6 * 16, 4 * 16
    assert launches(precision="bf16") - launches(precision="bf16", cuda_graphs="router") == 6  # router, best, and their gradients
    assert launches() - launches(precision="bf16") == 2 * (casts + 4)  # those of queries and projections, too
    assert launches(precision="fp8") - launches() == casts + 4
    assert products + 2 * casts < launches(cuda_graphs="attention") < products + 2 * casts + 20


def test_fused_kernels_of_experts_are_fewer() -> None:
    def casts(fused: bool) -> list[Cast]:
        block = Block(QWEN, Parallelism(expert=8, data=8), ProductWork(1, 4096, precision="mxfp8", fused_experts=fused))
        steps = [*block.forward(0), *block.backward(0)]
        return [step.shape for step in steps if isinstance(step, LlmRun) and isinstance(step.shape, Cast)]

    def batches(fused: bool) -> list[int]:
        steps = [shape.batch for shape in casts(fused)]
        return sorted(steps, reverse=True)

    assert batches(False) == [16] * 4 + [1] * 4
    assert batches(True) == [1] * 6


def test_launches_make_small_passes_longer() -> None:
    options: dict[str, Any] = {"model": EXPERTS, "global_batch": 16}
    alone, eager = (run(8, {"compute": compute}, **options) for compute in ("plugin:gpu?device=h100&stack=kernels", STACK))
    graph = run(8, {"compute": STACK}, **options, cuda_graphs="iteration")
    routers = run(8, {"compute": STACK}, **options, cuda_graphs="router")
    assert graph.finish_ns == alone.finish_ns < routers.finish_ns < eager.finish_ns
    assert all(run(8, {"compute": STACK}, **options, detail=detail).finish_ns == eager.finish_ns for detail in ("kernel", "pass"))


def test_a_token_is_sent_once_to_a_rank() -> None:
    def sent(once: bool) -> int:
        block = Block(QWEN, Parallelism(expert=8, data=8), ProductWork(1, 4096, once_to_ranks=once))
        return next(step.bytes for step in block.forward(0) if isinstance(step, LlmExchange))

    expected = 8 * (1 - math.comb(112, 8) / math.comb(128, 8))
    assert sent(False) == 4096 * 8 * 2048 * 2
    assert sent(True) == pytest.approx(4096 * expected * 2048 * 2, rel=1e-6)


def test_attention_in_fp8() -> None:
    def shapes(fp8: bool) -> list[Any]:
        block = Block(QWEN, Parallelism(), ProductWork(1, 4096, precision="fp8", fp8_attention=fp8))
        return [step.shape for step in block.forward(0) if isinstance(step, LlmRun)]

    (plain,), (narrow,) = ([shape for shape in shapes(fp8) if isinstance(shape, Attention)] for fp8 in (False, True))
    assert narrow == attrs.evolve(plain, element_type="fp8")
    assert sum(isinstance(shape, Cast) for shape in shapes(True)) == sum(isinstance(shape, Cast) for shape in shapes(False)) + 1


@pytest.mark.parametrize("tensor", [2, 4])
def test_experts_are_decoded_with_tensor_ranks(tensor: int) -> None:
    """Tensor ranks, which all have the tokens, send a share of them each, and gather what comes back."""
    options: dict[str, Any] = {
        "model": EXPERTS,
        "mode": "decode",
        "tensor_parallel": tensor,
        "micro_batch": 8,
        "global_batch": 8 * 8 // tensor,
    }
    result = run(8, **options)
    assert result.figures["breakdown"]["tp"] > 0
    assert run(8, **options, expert_parallel=2).figures["breakdown"]["ep"] > 0


def test_products_of_four_bits_are_faster_and_have_casts() -> None:
    options: dict[str, Any] = {"model": {"layers": 4, "hidden": 4096, "heads": 32, "vocab": 8192, "sequence": 4096}, "global_batch": 16}
    compute = {"compute": "plugin:gpu?device=gb200&stack=kernels"}
    times = [run(8, compute, **options, precision=precision).compute_ns for precision in ("nvfp4", "mxfp8", "bf16")]
    assert times == sorted(times)
    assert times[0] < 0.95 * times[1]
    with pytest.raises(InputError, match="has no peak rate for nvfp4"):
        run(8, {"compute": "plugin:gpu?device=h100"}, **options, precision="nvfp4")
