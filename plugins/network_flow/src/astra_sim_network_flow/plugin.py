"""Hooks."""

from __future__ import annotations

from astra_sim import Provider, hookimpl

_HERE = "astra_sim_network_flow"


@hookimpl
def astra_networks() -> list[Provider]:
    return [
        Provider(
            "flow",
            "Messages as flows that share links max-min fairly, on any graph",
            factory=f"{_HERE}.network:FlowNetwork",
            options=f"{_HERE}.options:FlowOptions",
            examples=[{}, {"routing": "split"}, {"routing": "destination", "link_figures": True}, {"preset": "simgrid_lv08"}],
        )
    ]
