"""Hooks."""

from __future__ import annotations

from astra_sim import Provider, hookimpl


@hookimpl
def astra_commands() -> list[Provider]:
    return [
        Provider(
            "convert",
            "Convert workloads and traces: text of ASTRA-sim 1.0, TOML, Chakra, JSON.",
            "astra_sim_chakra.convert:convert",
        )
    ]
