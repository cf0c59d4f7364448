"""Hooks."""

from __future__ import annotations

from astra_sim import Provider, hookimpl

_HERE = "astra_sim_explain"


@hookimpl
def astra_explainers() -> list[Provider]:
    return [
        Provider(
            "critical_path",
            "The critical path of a run, effects of changes, and lower bounds",
            f"{_HERE}.what_if:explain_run",
            f"{_HERE}.options:ExplainOptions",
        )
    ]


@hookimpl
def astra_commands() -> list[Provider]:
    return [
        Provider("compare", "Run an experiment with several choices and print one table.", f"{_HERE}.compare:compare"),
        Provider("explain", "Explain the time of a run, and the effects of changes.", f"{_HERE}.explain_command:explain"),
        Provider("rerun", "Run a result again, and compare it with its record.", f"{_HERE}.rerun:rerun"),
    ]
