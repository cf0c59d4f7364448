"""Hooks."""

from __future__ import annotations

from astra_sim import FileFormat, Provider, hookimpl

_HERE = "astra_sim_network_analytical"


@hookimpl
def astra_networks() -> list[Provider]:
    return [
        Provider(
            "analytical",
            "Delay formula without contention: hops * latency + bytes / bandwidth",
            factory=f"{_HERE}.network:AnalyticalNetwork",
            options=f"{_HERE}.network:AnalyticalOptions",
        )
    ]


@hookimpl
def astra_platforms() -> list[Provider]:
    options = f"{_HERE}.topologies:DimensionOptions"
    return [
        Provider("ring", "NPUs in a ring, links in both directions", f"{_HERE}.topologies:ring", options),
        Provider("fully_connected", "A link between every two NPUs", f"{_HERE}.topologies:fully_connected", options),
        Provider("switch", "NPUs around one switch", f"{_HERE}.topologies:switch", f"{_HERE}.topologies:SwitchOptions"),
        Provider(
            "torus",
            "Rings in several dimensions, all links alike",
            f"{_HERE}.topologies:torus",
            f"{_HERE}.topologies:TorusOptions",
        ),
    ]


@hookimpl
def astra_formats() -> list[FileFormat]:
    return [
        FileFormat(
            "astra-sim-1-network",
            "JSON network file of ASTRA-sim 1.0 (analytical)",
            kinds=("network", "platform"),
            recognises=f"{_HERE}.astra1_file:recognises",
            read=f"{_HERE}.astra1_file:read",
        )
    ]
