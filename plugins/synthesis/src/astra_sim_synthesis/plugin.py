"""Hooks."""

from __future__ import annotations

from astra_sim import CollectiveProvider, Provider, hookimpl

_HERE = "astra_sim_synthesis"


@hookimpl
def astra_collectives() -> list[CollectiveProvider]:
    return [
        CollectiveProvider(
            "synthesized",
            "Designed for the fabric of all NPUs: trees, rounds or exchanges, whichever is fastest there",
            f"{_HERE}.collective:synthesized",
            f"{_HERE}.collective:SynthesizedOptions",
            whole_platform=True,
            takes_platform=True,
            pure=True,
        )
    ]


@hookimpl
def astra_commands() -> list[Provider]:
    return [
        Provider(
            "synthesize", "Design a collective for a fabric, with its proof and its gap to a lower bound.", f"{_HERE}.command:synthesize"
        )
    ]
