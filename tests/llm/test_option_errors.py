"""Wrong options of the workload `llm`: one message that names the option and its value, and what was expected."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from astra_sim import AstraError, InputError
from astra_sim_llm.models import Model
from astra_sim_llm.options import LlmOptions, Overlap

from llm.runs import EXPERTS, MODEL, run

WRONG: tuple[Any, ...] = (-1, 0, 1.5, "x", "", True, [], {}, 10**30, float("nan"), ["a"], {"a": 1}, 3, 7)


def _refusals(name: str, make: Any) -> int:
    """How many values are refused; each error names the option."""
    result = [message for message in (_said(make(value)) for value in WRONG) if message is not None]
    assert [message for message in result if name not in message or "\n" in message] == []
    return len(result)


def _said(options: dict[str, Any]) -> str | None:
    """The error of a run; None where it runs."""
    try:
        run(**options)
    except AstraError as error:
        return str(error)
    return None


@pytest.mark.parametrize("name", [field.name for field in attrs.fields(LlmOptions)])
def test_a_wrong_value_is_named(name: str) -> None:
    assert _refusals(name, lambda value: {name: value}) >= 8


@pytest.mark.parametrize("name", [field.name for field in attrs.fields(Overlap)])
def test_a_wrong_value_of_overlap_is_named(name: str) -> None:
    assert _refusals(name, lambda value: {"overlap": {name: value}}) >= 8


@pytest.mark.parametrize("name", [field.name for field in attrs.fields(Model)])
def test_a_wrong_value_of_a_model_is_named(name: str) -> None:
    assert _refusals(name, lambda value: {"model": MODEL | {name: value}}) >= 8


NO_EFFECT: dict[str, tuple[dict[str, Any], str]] = {
    "tokens to decode in training": ({"decode_tokens": 2}, "decode_tokens is 2, .* mode = decode"),
    "a cache in training": ({"kv_length": 5}, "kv_length is 5, .* mode = decode"),
    "a cache before a prompt": ({"mode": "prefill", "kv_length": 5}, "kv_length is 5, .* mode = decode"),
    "a schedule in inference": ({"mode": "prefill", "schedule": "gpipe"}, "schedule is gpipe, .* mode = train"),
    "gradients in inference": ({"mode": "decode", "gradients": "same"}, "gradients is same, .* mode = train"),
    "an optimizer in inference": ({"mode": "decode", "optimizer_bytes": 20.0}, "optimizer_bytes is 20.0, .* mode = train"),
    "the slowest node in inference": ({"mode": "prefill", "scatter": 0.1}, "scatter is 0.1, .* mode = train"),
    "sharded states in inference": ({"mode": "prefill", "zero": 1}, "zero is 1, .* mode = train"),
    "recomputation in inference": ({"mode": "prefill", "recompute": "full"}, "recompute is full, .* mode = train"),
    "gradients beside passes in inference": ({"mode": "prefill", "overlap": {"dp": True}}, "overlap.dp is true, .* mode = train"),
    "a backward pass in inference": ({"mode": "prefill", "overlap": {"tp": "backward"}}, "overlap.tp is backward, .* mode = train"),
    "a shared token": (
        {"mode": "decode", "tensor_parallel": 2, "sequence_parallel": True},
        "sequence_parallel is true, .* expected false",
    ),
    "chunks in inference": ({"mode": "decode", "pipeline_parallel": 2, "virtual_stages": 2}, "virtual_stages is 2 .* expected 1"),
    "room of experts": ({"capacity_factor": 1.5}, "capacity_factor is 1.5, .* without experts"),
    "busy experts": ({"expert_skew": 2.0}, "expert_skew is 2.0, .* without experts"),
    "nodes of experts": ({"node_limit": 2}, "node_limit is 2, .* without experts"),
    "shares of experts": ({"expert_tensor_parallel": 1}, "expert_tensor_parallel is 1, .* without experts"),
    "ranks of experts": ({"expert_parallel": 2}, "expert_parallel is 2, .* no experts"),
    "exchanges of experts": ({"overlap": {"ep": True}}, "overlap.ep is true, .* without experts"),
    "exchanges of experts on one rank": ({"model": EXPERTS, "overlap": {"ep": True}}, "overlap.ep is true, .* expert_parallel is 1"),
    "nodes of one rank": ({"model": EXPERTS, "node_limit": 1}, "node_limit is 1, .* expert_parallel is 1"),
    "busy experts with room": (
        {"model": EXPERTS, "expert_skew": 2.0, "capacity_factor": 1.5},
        "expert_skew is 2.0, .* capacity_factor",
    ),
    "a way to share a sequence": ({"context": "ulysses"}, "context is ulysses, .* context_parallel is 1"),
    "nothing that slows compute": ({"overlap": {"contention": 0.5}}, "overlap.contention is 0.5, .* overlap.dp nor overlap.ep"),
    "chunks with another schedule": (
        {"pipeline_parallel": 2, "virtual_stages": 2, "schedule": "gpipe"},
        "virtual_stages is 2 and schedule gpipe; expected interleaved",
    ),
    "chunks of one stage": ({"virtual_stages": 2}, "virtual_stages = 2, and pipeline_parallel 1"),
    "a group that shards nothing": ({"shard_group": 2}, "shard_group is 2 and zero is 0"),
}


@pytest.mark.parametrize("case", NO_EFFECT)
def test_an_option_without_effect_is_refused(case: str) -> None:
    options, words = NO_EFFECT[case]
    with pytest.raises(InputError, match=words):
        run(**options)


TOGETHER: dict[str, tuple[dict[str, Any], str]] = {
    "weights that are gone before their gradients": (
        {"pipeline_parallel": 2, "schedule": "zb-h1", "zero": 3, "detail": "pass"},
        "zero is 3 and schedule zb-h1; expected at most 1",
    ),
    "too many ranks": ({"tensor_parallel": 3}, "tensor_parallel .* is 3; expected a divisor of the platform's 8 NPUs"),
    "too few replicas": ({"data_parallel": 4}, "data_parallel is 4; expected the platform's 8 NPUs"),
    "a batch that cannot be dealt": ({"global_batch": 12}, "global_batch is 12; expected a multiple .* 1 \\* 8"),
    "micro-batches of interleaving": (
        {"pipeline_parallel": 4, "virtual_stages": 1, "schedule": "interleaved", "global_batch": 6},
        "interleaved has 3 micro-batches for 4 stages; expected a multiple",
    ),
    "micro-batches of both ends": ({"pipeline_parallel": 2, "schedule": "dualpipe"}, "dualpipe has 2 stages and 2 micro-batches"),
    "graphs where launches take no time": (
        {"cuda_graphs": "attention"},
        "cuda_graphs is attention, which has no effect on a compute model without launch_us",
    ),
    "graphs of routers that are not there": ({"cuda_graphs": "router"}, "cuda_graphs is router, .* on a model without experts"),
    "attention in fp8 beside products in bf16": ({"fp8_attention": True}, "fp8_attention is true, .* with precision bf16"),
    "sums for all without shards": ({"reduction": "all"}, "reduction is all, .* where zero is 0; expected 1 or 2"),
    "what is kept between micro-batches without shards": (
        {"zero": 1, "accumulation": "whole"},
        "accumulation is whole, .* where zero is 1; expected 2 or 3",
    ),
    "copies where nothing is exchanged": (
        {"collective_buffers": "copies", "tensor_parallel": 8},
        "collective_buffers is copies, .* data_parallel is 1",
    ),
    "inputs that are not shared": ({"saved_inputs": "whole"}, "saved_inputs is whole, .* without sequence parallelism"),
    "buckets of nothing that runs beside": ({"overlap": {"bucket": 5}}, "overlap.bucket is 5, .* unless overlap.dp is true"),
    "broadcasts without shards": ({"update": "broadcast"}, "update is broadcast, .* unless zero is 1 or 2"),
    "broadcasts beside passes": (
        {"zero": 1, "update": "broadcast", "overlap": {"dp": True}},
        "update is broadcast, .* overlap.gathers is false",
    ),
    "groups of experts that are sent to each": (
        {"model": EXPERTS, "expert_parallel": 4, "expert_groups": [2, 1]},
        "expert_groups is .*, .* where dispatch is experts; expected ranks or nodes",
    ),
    "groups that do not divide experts": (
        {"model": EXPERTS, "expert_parallel": 4, "dispatch": "ranks", "expert_groups": [3, 1]},
        r"expert_groups is \[3, 1\]; expected a divisor of 4 experts, and as many",
    ),
    "groups of too few experts": (
        {"model": EXPERTS, "expert_parallel": 4, "dispatch": "ranks", "expert_groups": [4, 1]},
        r"expert_groups is \[4, 1\]; .* 2 experts or more",
    ),
    "NICs of gathers": ({"zero": 1, "nics": 4}, "nics is 4, .* where update is gather; expected broadcast"),
    "the slowest of one replica": ({"scatter": 0.1, "tensor_parallel": 8}, "scatter is 0.1, .* data_parallel is 1"),
    "gathers without shards": ({"overlap": {"gathers": True}}, "overlap.gathers is true, .* where zero is 0"),
    "modules beside full recomputation": (
        {"recompute": "full", "recompute_modules": ["layernorm"]},
        "recompute_modules is .*, which has no effect beside full recomputation",
    ),
    "latents that are not there": ({"recompute_modules": ["mla_up_proj"]}, "no effect in mla_up_proj, which the model does not have"),
    "experts that are not there": ({"recompute_modules": ["moe_act"]}, "no effect in moe_act, which the model does not have"),
    "dense parts that are not there": ({"model": EXPERTS, "recompute_modules": ["mlp"]}, "no effect in mlp, which the model does not"),
    "activations within products": (
        {"model": EXPERTS, "recompute_modules": ["moe_act"], "fused_experts": True},
        "no effect in moe_act, which is part of the products before",
    ),
    "modules in inference": ({"mode": "prefill", "recompute_modules": ["layernorm"]}, "recompute_modules is .*, .* mode = train"),
    "a dispatch to one rank": ({"model": EXPERTS, "dispatch": "ranks"}, "dispatch is ranks, .* where expert_parallel is 1"),
    "a token on several ranks": ({"mode": "decode", "context_parallel": 2}, "mode is decode and context_parallel 2; expected 1"),
    "layers that are not dealt": ({"pipeline_parallel": 2, "stages": [1, 2]}, "stages is \\[1, 2\\]; expected 2 numbers"),
    "an unknown model": ({"model": "gpt5"}, "model is 'gpt5'; .*config.json"),
}


@pytest.mark.parametrize("case", TOGETHER)
def test_options_that_do_not_fit_each_other_are_refused(case: str) -> None:
    options, words = TOGETHER[case]
    with pytest.raises(InputError, match=words):
        run(**options)


@pytest.mark.parametrize(("compute", "plugin"), [({"plugin": "systolic"}, "systolic"), ({"plugin": "recorded"}, "recorded")])
def test_a_compute_model_that_does_not_price_a_kernel_names_it(compute: dict[str, Any], plugin: str) -> None:
    with pytest.raises(InputError, match="kernel '"):
        run(arguments={"compute": compute})


def test_an_option_that_is_gone_says_what_to_do_without_it() -> None:
    result = _said({"rank_order": "tp-cp-ep-dp-pp"})
    assert result is not None
    assert result.endswith("the option rank_order is gone: ranks are always numbered tp-cp-ep-dp-pp, the first fastest")
