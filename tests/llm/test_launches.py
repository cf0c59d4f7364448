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
from astra_sim_llm.products import Dispatch, ProductWork
from astra_sim_llm.steps import LlmExchange, LlmRun, Step
from astra_sim_llm.templates import Compiler, OperationTypes

from llm.runs import EXPERTS, platform, run

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
    [(0, 2000), (300, 2300), (560, 2810), (1000, 5450), (2000, 11450)],
)
def test_kernels_and_exchanges_wait_for_their_launches(launch_ps: int, kernels_ps: int) -> None:
    """A kernel, an exchange, and four equal kernels that take 1000 ps together, so that six launches have to come one after another.

    With 560 ps the first kernel ends at 1560, the exchange at 2360, and the last of four, launched at 3360, 250 ps later.
    """
    steps: list[Step] = [kernel(), LlmExchange("activations", "tp", Collective.ALL_REDUCE, 8), kernel(4)]
    assert length(steps, launch_ps, "layer") == length(steps, launch_ps, "kernel") == kernels_ps
    assert length(steps, launch_ps, "pass") == kernels_ps + EXCHANGE_PS


def test_the_host_has_no_lead_behind_a_result_that_it_waits_for() -> None:
    """Of three kernels of 1000 ps, launched in 300 ps each, the first waits 300 ps, and the one after the awaited 300 more."""
    steps: list[Step] = [kernel(), kernel(), kernel()]
    awaited: list[Step] = [kernel(), attrs.evolve(kernel(), awaited=True), kernel()]
    assert [length(each, 300, "layer") for each in (steps, awaited)] == [3300, 3600]
    assert length(awaited, 0, "layer") == 3000


def test_a_launch_of_an_exchange_at_the_end_of_a_pass_is_waited_for() -> None:
    steps: list[Step] = [kernel(), LlmExchange("activations", "tp", Collective.ALL_REDUCE, 8)]
    assert length(steps, 2000, "layer") == 2000 + 1000 + 1000


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
    def sent(dispatch: str, nodes: int = 1, axis: str = "ep", limit: int | None = None) -> int:
        work = ProductWork(1, 4096, dispatch=Dispatch(dispatch, nodes, limit))
        block = Block(QWEN, Parallelism(expert=8, data=8), work)
        return next(step.bytes for step in block.forward(0) if isinstance(step, LlmExchange) and step.axis == axis)

    def copies(parts: int) -> float:
        return parts * (1 - math.comb(128 - 128 // parts, 8) / math.comb(128, 8))

    size = 4096 * 2048 * 2
    assert sent("experts") == 8 * size
    assert sent("ranks") == sent("nodes") == pytest.approx(copies(8) * size, rel=1e-6)
    # Over two nodes a token is in nearly both; a limit of one is below that.
    assert sent("nodes", 2, "ep_nodes") == pytest.approx(copies(2) * size, rel=1e-6)
    assert copies(2) == pytest.approx(1.994, abs=1e-3)
    assert sent("nodes", 2, "ep_nodes", limit=1) == size
    assert sent("nodes", 2, "ep_node") == sent("ranks")


def test_nodes_of_experts_come_from_the_platform() -> None:
    """Four ranks have the experts: on one node of four, or on two nodes of two, where half of the exchange crosses."""
    options: dict[str, Any] = {"model": EXPERTS, "expert_parallel": 4, "global_batch": 8, "dispatch": "nodes"}
    one, two = (run(4, {"platform": platform(*sizes)}, **options) for sizes in ((4,), (2, 2)))
    ranks = [run(4, {"platform": platform(*sizes)}, **{**options, "dispatch": "ranks"}) for sizes in ((4,), (2, 2))]
    assert one.finish_ns == ranks[0].finish_ns
    assert two.finish_ns != ranks[1].finish_ns


def test_a_plain_all_to_all_is_sorted_by_expert() -> None:
    def sorts(experts_of_rank: int, dispatch: str) -> list[float]:
        ranks = 128 // experts_of_rank
        block = Block(QWEN, Parallelism(expert=ranks, data=ranks), ProductWork(1, 4096, dispatch=Dispatch(dispatch)))
        steps = [*block.forward(0), *block.backward(0)]
        return [step.shape.count_bytes(2) for step in steps if isinstance(step, LlmRun) and step.name == "sort"]

    assert sorts(16, "experts") == [4 * 4096 * 8 * 2048] * 4
    assert sorts(16, "ranks") == sorts(1, "experts") == []


def biases(dispatch: str, **work: Any) -> tuple[list[float], list[int]]:
    """Bytes an element, and launches, of the biases of experts: forward and backward, of 16 experts on a rank."""
    model = attrs.evolve(QWEN, expert_biases=True)
    block = Block(model, Parallelism(expert=8, data=8), ProductWork(1, 4096, dispatch=Dispatch(dispatch), **work))
    steps = [step for step in (*block.forward(0), *block.backward(0)) if isinstance(step, LlmRun) and step.name == "expert bias"]
    elements = 4096 * 8 * 2048
    return [step.shape.count_bytes(2) / elements for step in steps], [step.launches for step in steps]


def test_biases_of_experts_are_added_expert_by_expert() -> None:
    """In 16 bits: b p (2 bytes), t + b p (6), joined (4); with weights in fp32 b p (4), the sum (10), joined (8), cast (6).

    Back in 16 bits: the parts joined (4), g p and its sum (6), g b and its sum (6).
    """
    assert biases("experts") == ([12, 16], [2 * 16 + 1, 4 * 16 + 1])
    assert biases("nodes") == ([28, 40], [2 * 16 + 2, 5 * 16 + 2])
    assert biases("nodes", fused_experts=True) == ([], [])


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
