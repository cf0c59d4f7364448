"""Hooks."""

from __future__ import annotations

from astra_sim import Provider, hookimpl

_HERE = "astra_sim_network_auto"


@hookimpl
def astra_networks() -> list[Provider]:
    return [
        Provider(
            "auto",
            "Parts of a run on another network (packet), each kind once, with a bound of the error",
            factory=f"{_HERE}.network:auto_network",
            options=f"{_HERE}.options:AutoOptions",
            examples=[{}, {"target": "analytical?congestion=aware", "error": "5%"}],
            takes_networks=True,
        )
    ]
