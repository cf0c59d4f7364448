"""Hooks."""

from __future__ import annotations

from astra_sim import FileFormat, Provider, hookimpl

_HERE = "astra_sim_network_analytical"


@hookimpl
def astra_networks() -> list[Provider]:
    return [
        Provider(
            "analytical",
            "Latency and bandwidth of links: a delay formula, or with congestion a queue for every link",
            factory=f"{_HERE}.network:analytical",
            options=f"{_HERE}.options:AnalyticalOptions",
            examples=[
                {},
                {"rounding": "picosecond", "accounting_dimension": "lowest"},
                {"model": "nccl", "device": "h100", "nic_efficiency": 0.9},
                {"model": "nccl", "device": "h100", "fabric_latency": "efa"},
                {"congestion": "aware"},
                {"congestion": "aware", "switching": "cut_through", "rounding": "picosecond"},
            ],
        )
    ]


@hookimpl
def astra_platforms() -> list[Provider]:
    options = f"{_HERE}.topologies:DimensionOptions"
    link = {"link_bandwidth_gb_per_s": 25, "link_latency_ns": 500}
    return [
        Provider(
            "ring",
            "NPUs in a ring, links in both directions",
            f"{_HERE}.topologies:ring",
            f"{_HERE}.topologies:RingOptions",
            examples=[{"size": size, "links": 2, **link} for size in (2, 7, 8)],
            pure=True,
        ),
        Provider(
            "fully_connected",
            "A link between every two NPUs",
            f"{_HERE}.topologies:fully_connected",
            options,
            examples=[{"size": 5, "links": 4, **link}],
            pure=True,
        ),
        Provider(
            "switch",
            "NPUs around one switch",
            f"{_HERE}.topologies:switch",
            f"{_HERE}.topologies:SwitchOptions",
            examples=[{"size": 6, **link}],
            pure=True,
        ),
    ]


@hookimpl
def astra_commands() -> list[Provider]:
    return [Provider("calibrate collective", "Fit NCCL in a node to measured collectives.", f"{_HERE}.calibrate_command:collective")]


@hookimpl
def astra_formats() -> list[FileFormat]:
    return [
        FileFormat(
            "astra-sim-1-network",
            "JSON network file of ASTRA-sim 1.0 (analytical)",
            kinds=("network", "platform"),
            recognises=f"{_HERE}.astra1_file:recognises",
            read=f"{_HERE}.astra1_file:read",
        ),
        FileFormat(
            "astra-sim-2-network",
            "YAML network file of ASTRA-sim 2.x (analytical)",
            kinds=("network", "platform"),
            recognises=f"{_HERE}.astra2_file:recognises",
            read=f"{_HERE}.astra2_file:read",
        ),
    ]
