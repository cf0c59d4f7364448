"""Hooks."""

from __future__ import annotations

from astra_sim import Provider, hookimpl

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
        )
    ]


@hookimpl
def astra_commands() -> list[Provider]:
    summary = "Show the memory of a large language model's ranks, and search what fits."
    return [Provider("memory", summary, f"{_HERE}.memory_command:memory")]
