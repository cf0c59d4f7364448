"""Hooks."""

from __future__ import annotations

from astra_sim import FileFormat, Provider, hookimpl

_HERE = "astra_sim_network_roce"


@hookimpl
def astra_networks() -> list[Provider]:
    return [
        Provider(
            "roce",
            "RDMA over Ethernet, packet by packet: switches with PFC and ECN, queue pairs, congestion control",
            factory=f"{_HERE}.network:RoceNetwork",
            options=f"{_HERE}.options:RoceOptions",
            examples=[
                {},
                {"preset": "reference", "ecn": False, "npu_forwarding": True},
                {"congestion_control": "dcqcn"},
                {"congestion_control": "hpcc", "load_balancing": "spray_random"},
                {"congestion_control": "swift"},
            ],
        )
    ]


@hookimpl
def astra_platforms() -> list[Provider]:
    return [
        Provider(
            "ns3_topology",
            "NPUs, switches and links of a topology file of ASTRA-sim's ns-3 back end, or of SimAI",
            f"{_HERE}.ns3_topology:ns3_topology",
            f"{_HERE}.ns3_topology:TopologyFileOptions",
            examples=f"{_HERE}.examples:topology",
        )
    ]


@hookimpl
def astra_formats() -> list[FileFormat]:
    return [
        FileFormat(
            "ns3-network",
            "config.txt of ASTRA-sim's ns-3 back end",
            kinds=("network", "platform"),
            recognises=f"{_HERE}.ns3_config:recognises",
            read=f"{_HERE}.ns3_config:read",
        ),
        FileFormat(
            "ns3-topology",
            "Topology file of ASTRA-sim's ns-3 back end, or of SimAI",
            kinds=("platform",),
            recognises=f"{_HERE}.ns3_topology:recognises",
            read=f"{_HERE}.ns3_topology:read",
        ),
        FileFormat(
            "logical-dims",
            "Logical dimensions of ASTRA-sim's ns-3 back end (JSON)",
            kinds=("platform",),
            recognises=f"{_HERE}.logical_dims:recognises",
            read=f"{_HERE}.logical_dims:read",
        ),
    ]
