"""Hooks."""

from __future__ import annotations

from astra_sim import Provider, hookimpl


@hookimpl
def astra_memories() -> list[Provider]:
    return [
        Provider(
            "local",
            "Local memory of an NPU: latency and bandwidth",
            factory="astra_sim_memory.local:LocalMemory",
            options="astra_sim_memory.local:LocalOptions",
        )
    ]
