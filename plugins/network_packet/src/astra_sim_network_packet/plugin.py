"""Hooks."""

from __future__ import annotations

from astra_sim import FileFormat, Provider, hookimpl

_HERE = "astra_sim_network_packet"


@hookimpl
def astra_networks() -> list[Provider]:
    return [
        Provider(
            "packet",
            "Flits, virtual channels and credits, cycle by cycle (wormhole or virtual cut-through)",
            factory=f"{_HERE}.network:PacketNetwork",
            options=f"{_HERE}.options:PacketOptions",
            examples=[{}, {"preset": "booksim"}],
        )
    ]


@hookimpl
def astra_formats() -> list[FileFormat]:
    return [
        FileFormat(
            "garnet-network",
            "Text network file of Garnet under ASTRA-sim 1.0",
            kinds=("network", "platform"),
            recognises=f"{_HERE}.garnet_file:recognises",
            read=f"{_HERE}.garnet_file:read",
        )
    ]


@hookimpl
def astra_commands() -> list[Provider]:
    return [Provider("traffic", "Drive a platform with synthetic traffic: latency against throughput.", f"{_HERE}.traffic:traffic")]
