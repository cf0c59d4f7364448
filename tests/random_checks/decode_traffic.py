"""Decoding: what a kernel of attention reads of the cache, what products read of the weights, and their operations, by closed forms.

A token reads each weight of a layer once (of experts those that some token meets), and of each sequence its keys and values: 2 k d elements
a token of the cache for k key and value heads on a rank, with latent attention r + d_rope for all heads (arXiv 2405.04434). What is read of
the cache is what memory holds of it. Prefill makes keys and values of heads, and reads no cache.
"""

from __future__ import annotations

import math
from pathlib import Path
from random import Random
from typing import Any

import astra_sim
import attrs
from astra_sim.shapes import ELEMENT_BYTES, Attention, Gemm, GroupedGemm
from astra_sim_llm.counts import attention_parameters, block_parameters
from astra_sim_llm.memory import key_value_bytes, memory_of
from astra_sim_llm.models import form_of
from astra_sim_llm.plan import TrainingPlan
from astra_sim_llm.steps import LlmRun
from support.llm_experiments import experiment
from support.llm_graphs import graph_of

IN_TESTS = 40
IN_NIGHTLY = 2000

LATENT = ((128, 512, 128, 64, 128), (32, 16, 16, 8, 16), (96, 64, 24, 8, 40))
"""Ranks of queries, of keys and values, and sizes without position, with position, and of values."""


def check(seed: int, folder: Path) -> list[str]:
    """A layer of a random model in inference, and a run whose kernels take as long as their bytes."""
    arguments = _arguments(seed)
    try:
        plan, _ = graph_of(arguments)
    except astra_sim.InputError:
        return []
    options = plan.options
    keys = (options.kv_length or plan.setup.sequence) + options.decode_tokens if options.mode == "decode" else None
    result = []
    model = plan.model
    first_of = {form_of(model, layer): layer for layer in reversed(range(model.layers))}
    for (kind, _), layer in first_of.items():
        for what, counted, expected in _forms(plan, keys, layer):
            if not math.isclose(counted, expected, rel_tol=1e-9):
                result.append(f"{options.mode}, {kind}: {what}: {counted:.6g}; expected {expected:.6g} ({arguments['workload']})")
    if options.mode == "decode":
        result += _timed(arguments, plan)
    return result


def _arguments(seed: int) -> dict[str, Any]:
    """A random experiment of inference, with all kinds of heads."""
    random = Random(seed)
    while True:
        arguments = experiment(random, 16)
        workload = arguments["workload"]
        if workload["mode"] == "decode" or (workload["mode"] == "prefill" and random.random() < 0.3):
            break
    model = workload["model"]
    if random.random() < 0.4:
        model["mla"] = dict(zip(("query_rank", "key_value_rank", "nope", "rope", "value"), random.choice(LATENT), strict=True))
        model.pop("kv_heads", None)
    elif random.random() < 0.4:
        model.update(window=random.choice((1, 64, 5000)), full_interval=random.choice((0, 2)))
    if workload["mode"] == "decode":
        workload["kv_length"] = random.choice((1, 100, 4096))
    workload["detail"] = random.choice(("kernel", "layer", "pass"))
    arguments["passes"] = 1
    return arguments


def _forms(plan: TrainingPlan, keys: int | None, layer: int) -> list[tuple[str, float, float]]:
    """What is counted in a forward pass of a layer, and what the closed form gives."""
    model, parallel, options = plan.model, plan.parallel, plan.options
    runs = [step for step in plan.block(keys).forward(layer) if isinstance(step, LlmRun)]
    heads, key_heads = model.heads // parallel.tensor, max(1, model.key_heads // parallel.tensor)
    cores = [run.shape for run in runs if isinstance(run.shape, Attention)]
    queries = options.micro_batch * (1 if keys else plan.setup.sequence // parallel.context)
    size = 1 if options.fp8_attention else 2
    mla = model.mla
    result: list[tuple[str, float, float]] = []
    if keys is not None:
        seen = min(keys, model.window_of(layer) or keys)
        tokens = options.micro_batch * seen
        latent = mla.key_value_rank + mla.rope if mla else 0
        cache = tokens * size * (latent if mla else 2 * key_heads * model.head_size)
        widths = latent + mla.key_value_rank if mla else 2 * model.head_size
        operands = size * queries * heads * widths
        result.append(
            ("bytes of attention", sum(core.count_bytes(ELEMENT_BYTES[core.element_type or "bf16"]) for core in cores), cache + operands)
        )
        result.append(
            (
                "operations of attention",
                sum(core.operations for core in cores),
                heads * widths * (2 * tokens - options.micro_batch * (seen == keys)),
            )
        )
        micro_batches = plan.setup.micro_batches
        result.append(("cache of a layer", key_value_bytes(plan.setup, layer), cache * micro_batches))
    elif options.attention == "flash" and parallel.context == 1:
        widths = model.head_size + model.value_size
        expanded = size * options.micro_batch * plan.setup.sequence * widths * (heads + key_heads)
        result.append(("bytes of attention", sum(core.count_bytes(ELEMENT_BYTES[core.element_type or "bf16"]) for core in cores), expanded))
    # Products: those of attention read each of its weights once, and multiply each with each token.
    names = {"qkv", "latent down", "query up", "key value up", "query absorb", "value up", "projection"}
    products = [run.shape for run in runs if run.name in names and isinstance(run.shape, Gemm)]
    weights = attention_parameters(model, parallel)
    result.append(("weights of attention", sum(one.batch * one.k * one.n for one in products), weights))
    down = model.hidden * (mla.query_rank + mla.key_value_rank + mla.rope) if mla else 0
    saved = queries - queries // parallel.tensor if parallel.sequence else 0  # tensor ranks share the tokens of what they all have
    operations = 2 * (weights * queries - down * saved)
    result.append(("operations of its products", sum(one.operations for one in products), operations))
    own = block_parameters(attrs.evolve(model, expert_biases=False), model.kind(layer), parallel)
    others = [run.shape for run in runs if run.name not in names and isinstance(run.shape, Gemm)]
    grouped = [run.shape for run in runs if isinstance(run.shape, GroupedGemm)]
    rest = sum(one.batch * one.k * one.n for one in others) + sum(one.experts * one.k * one.n for one in grouped)
    expected = own.feed_forward + own.router + own.experts
    result.append(("weights of the feed-forward part", rest, expected))
    return result


def _timed(arguments: dict[str, Any], plan: TrainingPlan) -> list[str]:
    """On a device that is bound by its memory a token takes at least its weights and its cache over the bandwidth."""
    bandwidth = 100.0
    compute = {"plugin": "roofline", "peak_tera_ops_per_s": 1e6, "memory_bandwidth_gb_per_s": bandwidth}
    workload = {key: value for key, value in arguments["workload"].items() if key != "cuda_graphs"}
    result = astra_sim.simulate(**arguments | {"compute": compute, "workload": workload})
    least = []
    for stage in range(plan.parallel.pipeline):
        use = memory_of(plan.setup, stage)
        matrices = sum(
            block_parameters(plan.model, plan.model.kind(layer), plan.parallel).block_matrices for layer in plan.layers_of_stage(stage)
        )
        started = plan.options.kv_length or plan.setup.sequence
        cache = use.key_value_cache * started // (started + plan.options.decode_tokens)
        size = 1 if plan.setup.fp8 else 2
        least.append(plan.options.decode_tokens * (cache + plan.setup.micro_batches * size * matrices) / bandwidth)
    spent = sum(least) / len(least)
    if result.breakdown["compute"] * 1e9 < spent * (1 - 1e-9):
        return [f"kernels take {result.breakdown['compute'] * 1e9:.0f} ns; weights and cache alone need {spent:.0f} ns ({workload})"]
    return []
