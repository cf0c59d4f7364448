"""What frameworks do otherwise than Megatron-core: copies from and to buffers of collectives, inputs that are kept whole, buckets."""

from __future__ import annotations

from typing import Any

import pytest
from astra_sim_llm import counts
from astra_sim_llm.activations import block_activations
from astra_sim_llm.models import Model
from astra_sim_llm.options import LlmOptions
from astra_sim_llm.plan import make_plan

from llm.runs import MODEL, run

LARGE: dict[str, Any] = {"layers": 4, "hidden": 1024, "heads": 16, "vocab": 1024, "sequence": 512}
PER_NS = 100
"""Bytes that the memory of the compute model moves in a nanosecond."""
BY_BYTES = {"compute": {"plugin": "roofline", "peak_tera_ops_per_s": 1e6, "memory_bandwidth_gb_per_s": PER_NS}}


def computes_ns(**options: Any) -> float:
    """Nanoseconds of compute where only bytes take time."""
    return float(run(8, BY_BYTES, model=LARGE, **options).compute_ns)


@pytest.mark.parametrize("overlap", [False, True])
def test_gradients_are_copied_into_buffers_that_are_reduced(overlap: bool) -> None:
    parameters = counts.parameters(Model(**LARGE)).total
    options: dict[str, Any] = {"overlap": {"dp": overlap}, "gradients": "same"}
    more = computes_ns(collective_buffers="copies", **options) - computes_ns(**options)
    assert more * PER_NS == pytest.approx(4 * parameters, rel=0.01)


@pytest.mark.parametrize("overlap", [False, True])
def test_weights_are_copied_out_of_buffers_and_their_shards_into_them(overlap: bool) -> None:
    """Gathered twice, but for the head: 4 bytes a parameter, and 10 of a shard, which is fp32 before. Gradients: 4 of 16 bits."""
    model = Model(**LARGE)
    parameters, head = counts.parameters(model).total, counts.head_parameters(model).total
    gathered = 2 * parameters - head
    options: dict[str, Any] = {"zero": 3, "overlap": {"dp": overlap}, "gradients": "same"}
    more = computes_ns(collective_buffers="copies", **options) - computes_ns(**options)
    assert more * PER_NS == pytest.approx(4 * gathered + 10 * gathered / 8 + 4 * parameters, rel=0.01)


def test_kept_inputs_are_not_gathered_again_and_take_memory() -> None:
    """Two of a block, each of which Megatron-core gathers once more in a backward pass."""
    payloads, saved = [], []
    for inputs in ("shards", "whole"):
        options: dict[str, Any] = {"model": MODEL, "global_batch": 8, "tensor_parallel": 8, "saved_inputs": inputs}
        payloads.append(run(8, **options).network["payload_bytes"])
        plan = make_plan(LlmOptions(**options | {"model": Model(**MODEL)}), 8)
        saved.append(block_activations(plan.setup, "dense").saved)
    tokens, width, layers = MODEL["sequence"], MODEL["hidden"], MODEL["layers"]
    assert payloads[0] - payloads[1] == 8 * 2 * layers * 2 * tokens * width // 8 * 7  # of 8 micro-batches, all shares but a rank's
    assert saved[1] - saved[0] == 2 * 2 * tokens * width * 7 // 8


def test_small_buckets_leave_less_to_the_end() -> None:
    """The last bucket alone is reduced when nothing else is left."""
    ends = [run(8, model=LARGE, overlap={"dp": True, **bucket}).exposed_comm_ns for bucket in ({}, {"bucket": 1000})]
    assert ends[1] < ends[0]


@pytest.mark.parametrize(("gradients", "size"), [("fp32", 12 - 6), ("same", 6)])
def test_a_kernel_that_adds_gradients_moves_them_three_times(gradients: str, size: int) -> None:
    """12 bytes of fp32, which fused products would read and write, 6 more than 16 bits written; 6 of 16 bits."""
    model = Model(**LARGE)
    products = counts.parameters(model).total - counts.embedding_parameters(model).total
    apart, fused = (computes_ns(gradients=gradients, fused_gradients=fused) for fused in (False, True))
    assert (apart - fused) * PER_NS == pytest.approx(size * products, rel=0.02)
