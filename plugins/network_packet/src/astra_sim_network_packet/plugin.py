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
        )
    ]


@hookimpl
def astra_platforms() -> list[Provider]:
    garnet = f"{_HERE}.garnet_topologies"
    return [
        Provider("torus3d", "Garnet's torus: rings of packages, rows and columns", f"{garnet}:torus3d", f"{garnet}:Torus3dOptions"),
        Provider("mesh", "Lines of NPUs in several dimensions", f"{_HERE}.topologies:mesh", f"{_HERE}.topologies:MeshOptions"),
        Provider("fat_tree", "k-ary n-tree of switches", f"{_HERE}.topologies:fat_tree", f"{_HERE}.topologies:FatTreeOptions"),
        Provider("dragonfly", "Groups of routers, all joined", f"{_HERE}.topologies:dragonfly", f"{_HERE}.topologies:DragonflyOptions"),
        Provider("nv_switch", "Garnet's packages around switches", f"{garnet}:nv_switch", f"{garnet}:NvSwitchOptions"),
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
