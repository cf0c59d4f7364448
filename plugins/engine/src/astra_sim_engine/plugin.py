"""Hooks."""

from __future__ import annotations

from astra_sim import Provider, hookimpl


@hookimpl
def astra_engines() -> list[Provider]:
    summary = "Tasks, queues and messages in C++, with the results of the engine in Python"
    return [Provider("compiled", summary, factory="astra_sim_engine.machine:CompiledEngine")]
