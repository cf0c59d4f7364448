"""Hooks."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from astra_sim import Provider, hookimpl

if TYPE_CHECKING:
    from astra_sim.models import ModelDescription

_HERE = "astra_sim_llm"


@hookimpl
def astra_workloads() -> list[Provider]:
    return [
        Provider(
            "llm",
            "Training or inference of a large language model: parallelisms, pipeline schedules, recomputation, sharding",
            factory=f"{_HERE}.workload:llm",
            options=f"{_HERE}.options:LlmOptions",
            examples=f"{_HERE}.examples:examples",
            takes=f"{_HERE}.stack_defaults:taken",
            traits=f"{_HERE}.stack_defaults:traits",
        )
    ]


@hookimpl
def astra_commands() -> list[Provider]:
    summary = "Show the memory of a large language model's ranks, and search for setups that fit."
    return [Provider("memory", summary, f"{_HERE}.memory_command:memory")]


_MODELS = {
    "gpt3-175b": "GPT-3 of 175e9 parameters",
    "megatron-22b": "GPT of 22e9 parameters (Megatron-LM)",
    "megatron-530b": "GPT of 530e9 parameters (Megatron-LM)",
    "megatron-1t": "GPT of 10^12 parameters (Megatron-LM)",
    "llama2-7b": "Llama 2 7B",
    "llama2-13b": "Llama 2 13B",
    "llama2-70b": "Llama 2 70B",
    "llama3-8b": "Llama 3 and 3.1 8B",
    "llama3-70b": "Llama 3, 3.1 and 3.3 70B",
    "llama3-405b": "Llama 3.1 405B",
    "mixtral-8x7b": "Mixtral 8x7B",
    "mixtral-8x22b": "Mixtral 8x22B",
    "qwen3-8b": "Qwen3 8B",
    "qwen3-32b": "Qwen3 32B",
    "qwen3-30b-a3b": "Qwen3 30B-A3B, a mixture of experts",
    "qwen3-235b-a22b": "Qwen3 235B-A22B, a mixture of experts",
    "deepseek-v3": "DeepSeek-V3 and R1, a mixture of experts with latent attention",
}
"""Models by name, with a description of each."""
ALIASES = {
    **{f"llama-2-{size}": f"llama2-{size}" for size in ("7b", "13b", "70b")},
    **{f"llama-{version}-{size}": f"llama3-{size}" for version in ("3", "3.1") for size in ("8b", "70b")},
    "llama-3.1-405b": "llama3-405b",
    "llama-3.3-70b": "llama3-70b",
}
"""Names that their makers use, of models with the same dimensions."""


def _described(name: str) -> ModelDescription:
    from astra_sim_llm.models import MODELS

    return MODELS[name]


@hookimpl
def astra_models() -> list[Provider]:
    summary = "A model from a config.json of Hugging Face, or from the folder that holds one"
    options = f"{_HERE}.model_files:ConfigFile"
    file = Provider(
        "hugging_face", summary, f"{_HERE}.model_files:of_config", options=options, examples=f"{_HERE}.model_files:examples"
    )  # fmt: skip
    names = _MODELS | {alias: _MODELS[name] for alias, name in ALIASES.items()}
    described = (Provider(each, title, functools.partial(_described, ALIASES.get(each, each)), pure=True) for each, title in names.items())
    return [*described, file]
