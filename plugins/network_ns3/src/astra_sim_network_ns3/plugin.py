# SPDX-License-Identifier: GPL-2.0-only
"""Hooks. The network is offered if it has been built, which takes the wheel ns3."""

from __future__ import annotations

from importlib.util import find_spec

from astra_sim import Provider, hookimpl

_HERE = "astra_sim_network_ns3"


@hookimpl
def astra_networks() -> list[Provider]:
    if find_spec(f"{_HERE}._core") is None:
        return []
    return [
        Provider(
            "ns3",
            "TCP in ns-3, packet by packet: NewReno, CUBIC, DCTCP (slow: for some NPUs and some MB)",
            factory=f"{_HERE}.network:Ns3Network",
            options=f"{_HERE}.options:Ns3Options",
            examples=[{}, {"congestion_control": "dctcp"}, {"congestion_control": "newreno", "connections": "message"}],
        )
    ]
