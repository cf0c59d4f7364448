"""Hooks."""

from __future__ import annotations

from astra_sim import Provider, hookimpl


@hookimpl
def astra_commands() -> list[Provider]:
    return [
        Provider(
            "compat install",
            "Write programs that ASTRA-sim's run scripts start, with its names, options and output.",
            "astra_sim_compat.install:install",
        )
    ]
