"""Hooks."""

from __future__ import annotations

from astra_sim import Provider, hookimpl


@hookimpl
def astra_commands() -> list[Provider]:
    return [
        Provider("assert", "Check figures of experiments against budgets, for continuous integration.", "astra_sim_sweep.commands:assert_"),
        Provider(
            "search", "Find the best design under constraints: one objective, or a front of two.", "astra_sim_sweep.search_command:search"
        ),
        Provider("sweep", "Run an experiment over axes: thousands of runs, one table.", "astra_sim_sweep.commands:sweep"),
    ]
