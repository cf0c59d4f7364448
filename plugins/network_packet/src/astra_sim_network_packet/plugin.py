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
def astra_platforms() -> list[Provider]:
    garnet = f"{_HERE}.garnet_topologies"
    own = f"{_HERE}.topologies"
    link = {"link_bandwidth_gb_per_s": 25, "link_latency_ns": 500}
    return [
        Provider(
            "torus3d",
            "Garnet's torus: rings of packages, rows and columns",
            f"{garnet}:torus3d",
            f"{garnet}:Torus3dOptions",
            examples=[{"npus": 16, "packages": 8, "package_rows": 2}],
        ),
        Provider("mesh", "Lines of NPUs in several dimensions", f"{own}:mesh", f"{own}:MeshOptions", examples=[{"sizes": [4, 5], **link}]),
        Provider(
            "fat_tree", "k-ary n-tree of switches", f"{own}:fat_tree", f"{own}:FatTreeOptions", examples=[{"arity": 2, "levels": 3, **link}]
        ),
        Provider(
            "dragonfly",
            "Groups of routers, all joined",
            f"{own}:dragonfly",
            f"{own}:DragonflyOptions",
            examples=[{"routers": 3, "npus": 2, **link}],
        ),
        Provider(
            "nv_switch",
            "Garnet's packages around switches",
            f"{garnet}:nv_switch",
            f"{garnet}:NvSwitchOptions",
            examples=[{"npus": 16, "packages": 4}],
        ),
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
