"""Parts of blocks that are recomputed by themselves: their kernels, and the memory that they save."""

from __future__ import annotations

from typing import Any

import pytest
from astra_sim_llm.activations import block_activations, working_set
from astra_sim_llm.memory import peak
from astra_sim_llm.models import MODELS, Model
from astra_sim_llm.operations import Block
from astra_sim_llm.options import RECOMPUTE_MODULES
from astra_sim_llm.parallelism import Parallelism
from astra_sim_llm.products import ProductWork
from astra_sim_llm.steps import LlmRun
from astra_sim_llm.training_setup import TrainingSetup

from llm.runs import EXPERTS, run

DEEPSEEK, TOKENS = MODELS["deepseek-v3"], 4096


def recomputed(layer: int, *modules: str, model: Model = DEEPSEEK, **work: Any) -> list[str]:
    """The names of recomputed kernels of a layer: the first three of DeepSeek-V3 have no experts."""
    block = Block(model, Parallelism(), ProductWork(1, TOKENS, recompute_modules=modules, **work))
    return [step.name for step in block.recompute(layer, "none") if isinstance(step, LlmRun)]


def test_kernels_of_modules() -> None:
    assert recomputed(5) == []
    assert recomputed(5, "layernorm") == ["norm", "norm"]
    assert recomputed(5, "moe_act") == ["activation"]
    assert recomputed(5, "mla_up_proj") == ["query up", "key value up", "rotary"]
    assert recomputed(0, "mlp") == ["fc1", "activation", "fc2"]
    assert recomputed(5, "mlp") == recomputed(0, "moe_act") == recomputed(5, "moe_act", fused_experts=True) == []
    assert recomputed(0, "mla_up_proj", precision="mxfp8") == ["cast", "query up", "cast", "key value up", "rotary"]


def test_modules_beside_the_core_of_attention() -> None:
    block = Block(MODELS["gpt3-175b"], Parallelism(), ProductWork(1, 64, flash=False, recompute_modules=("layernorm",)))
    assert [step.name for step in block.recompute(0, "selective")] == ["attention", "transpose", "norm", "norm"]


def setup(*modules: str, **choices: Any) -> TrainingSetup:
    return TrainingSetup(DEEPSEEK, Parallelism(), (tuple(range(DEEPSEEK.layers)),), sequence=TOKENS, recompute_modules=modules, **choices)


@pytest.mark.parametrize(
    ("module", "kind", "bytes_of_token"),
    [
        ("layernorm", "moe", 2 * 2 * 7168),
        ("moe_act", "moe", 8 * 2 * 2048),
        ("mla_up_proj", "dense", 2 * 128 * (2 * 192 + 128)),
        ("mlp", "dense", 3 * 2 * 18432),
        ("mlp", "moe", 0),
        ("moe_act", "dense", 0),
    ],
)
def test_memory_of_modules(module: str, kind: Any, bytes_of_token: int) -> None:
    """Outputs of norms, inputs of the second products of eight experts, queries, keys and values, and all within a dense part."""
    plain, less = (block_activations(each, kind) for each in (setup(), setup(module)))
    assert less.of_modules == working_set(setup(module), kind) == bytes_of_token * TOKENS
    assert (less.saved, plain.of_modules) == (plain.saved, 0)


def test_modules_need_less_memory_and_more_time() -> None:
    """One block at a time is made again."""
    whole, less = (peak(each)[1] for each in (setup(), setup(*RECOMPUTE_MODULES)))
    layers = [block_activations(setup(*RECOMPUTE_MODULES), kind).of_modules for kind in ("dense",) * 3 + ("moe",) * 58 + ("prediction",)]
    assert whole.activations - less.activations == sum(layers)
    assert less.recomputed == max(layers)
    compute = {"compute": "plugin:gpu?device=h100&stack=kernels"}
    plain, longer = (run(8, compute, model=EXPERTS, recompute_modules=modules) for modules in ((), ("layernorm", "moe_act")))
    assert longer.finish_ns > plain.finish_ns
