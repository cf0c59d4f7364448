"""Hooks."""

from __future__ import annotations

from astra_sim import FileFormat, Provider, hookimpl

_HERE = "astra_sim_platforms"
_NODES = {
    "dgx_1": "NVIDIA DGX-1: 8 V100 on rings of NVLink",
    "dgx_2": "NVIDIA DGX-2: 16 V100 around NVSwitch",
    "dgx_a100": "NVIDIA DGX A100: 8 A100 around NVSwitch",
    "dgx_h100": "NVIDIA DGX H100: 8 H100 around NVSwitch",
    "dgx_h200": "NVIDIA DGX H200: 8 H200 around NVSwitch",
    "dgx_b200": "NVIDIA DGX B200: 8 B200 around NVSwitch",
    "hgx_b200": "NVIDIA HGX B200: 8 B200 around NVSwitch",
    "gb200_nvl72": "NVIDIA GB200 NVL72: racks of 72 GPUs around NVLink switches",
    "gb300_nvl72": "NVIDIA GB300 NVL72: racks of 72 GPUs around NVLink switches",
}
_PODS = {
    "tpu_v4": "Google TPU v4: a slice of a pod, a 3-D torus",
    "tpu_v5p": "Google TPU v5p: a slice of a pod, a 3-D torus",
}


@hookimpl
def astra_platforms() -> list[Provider]:
    nodes = [
        Provider(name, summary, f"{_HERE}.machines:{name}", f"{_HERE}.machines:NodeOptions", examples=[{}, {"nodes": 4}])
        for name, summary in _NODES.items()
    ]
    pods = [
        Provider(name, summary, f"{_HERE}.machines:{name}", f"{_HERE}.machines:PodOptions", examples=[{"shape": "4x4x8"}, {"chips": 64}])
        for name, summary in _PODS.items()
    ]
    return [*_topologies(), *nodes, *pods]


@hookimpl
def astra_formats() -> list[FileFormat]:
    return [
        FileFormat(
            "nccl-topology",
            "Topology XML of NCCL (NCCL_TOPO_DUMP_FILE, NCCL_TOPO_FILE)",
            kinds=("platform",),
            recognises=f"{_HERE}.nccl_xml:recognises",
            read=f"{_HERE}.nccl_topology:read",
        ),
        FileFormat(
            "infragraph",
            "Infrastructure in InfraGraph, JSON or YAML",
            kinds=("platform",),
            recognises=f"{_HERE}.infragraph_file:recognises",
            read=f"{_HERE}.infragraph:read",
        ),
        FileFormat(
            "htsim-topology",
            "Fat tree of HTSim (-topo)",
            kinds=("platform",),
            recognises=f"{_HERE}.htsim_topology:recognises",
            read=f"{_HERE}.htsim_topology:read",
        ),
    ]


def _topologies() -> list[Provider]:
    """The topologies of this package."""
    garnet, own = f"{_HERE}.garnet", f"{_HERE}.topologies"
    link = {"link_bandwidth_gb_per_s": 25, "link_latency_ns": 500}
    return [
        Provider(
            "torus",
            "Rings in several dimensions, all links alike",
            f"{_HERE}.topologies:torus",
            f"{_HERE}.topologies:TorusOptions",
            examples=[{"sizes": [4, 7], **link}],
            pure=True,
        ),
        Provider(
            "graph",
            "NPUs and switches joined as in a file, each link with its own figures",
            f"{_HERE}.graph:graph",
            f"{_HERE}.graph:GraphOptions",
            examples=f"{_HERE}.examples:graph",
        ),
        Provider(
            "nccl_topology",
            "A node from NCCL's topology XML: GPUs, NVLink, PCIe; nodes of one kind joined NIC by NIC",
            f"{_HERE}.nccl_topology:nccl_topology",
            f"{_HERE}.nccl_topology:NcclTopologyOptions",
            examples=f"{_HERE}.examples:nccl_topology",
        ),
        Provider(
            "infragraph",
            "Devices, instances and edges from a file of InfraGraph",
            f"{_HERE}.infragraph:infragraph",
            f"{_HERE}.infragraph:InfraGraphOptions",
            examples=f"{_HERE}.examples:infragraph",
        ),
        Provider(
            "htsim_topology",
            "A fat tree from a topology file of HTSim",
            f"{_HERE}.htsim_topology:htsim_topology",
            f"{_HERE}.htsim_topology:HtsimTopologyOptions",
            examples=f"{_HERE}.examples:htsim_topology",
        ),
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
        Provider(
            "clos",
            "Leaf and spine switches, or three levels, with oversubscription, rails and planes",
            f"{_HERE}.clos:clos",
            f"{_HERE}.clos:ClosOptions",
            examples=[{"npus": 32, "rails": 4, "ports": 8, **link}, {"npus": 32, "levels": 3, "ports": 8, "planes": 2, **link}],
        ),
        Provider(
            "dragonfly_plus",
            "Dragonfly+: groups of leaves and spines, all joined",
            f"{_HERE}.dragonfly_plus:dragonfly_plus",
            f"{_HERE}.dragonfly_plus:DragonflyPlusOptions",
            examples=[{"leaves": 2, "npus": 2, **link}],
        ),
        Provider(
            "hyperx",
            "Switches in a grid, in each of its dimensions every two joined",
            f"{_HERE}.hyperx:hyperx",
            f"{_HERE}.hyperx:HyperXOptions",
            examples=[{"sizes": [3, 4], "npus": 2, **link}],
        ),
        Provider(
            "slim_fly",
            "Slim Fly: switches that are two links apart at most",
            f"{_HERE}.slim_fly:slim_fly",
            f"{_HERE}.slim_fly:SlimFlyOptions",
            examples=[{"q": 3, "npus": 1, **link}],
        ),
        Provider(
            "rail_optimized",
            "Servers of NPUs around NVLink switches, and NICs on the rails of a Clos fabric",
            f"{_HERE}.servers:rail_optimized",
            f"{_HERE}.servers:RailOptimizedOptions",
            examples=[{"servers": 4}, {"servers": 4, "rails": 1, "ports": 16, "oversubscription": 3.0}],
        ),
    ]
