"""Hooks."""

from __future__ import annotations

from astra_sim import FileFormat, Provider, hookimpl

_HERE = "astra_sim_memory"


@hookimpl
def astra_memories() -> list[Provider]:
    return [
        Provider(
            "local",
            "Local memory of an NPU: latency and bandwidth",
            f"{_HERE}.local:LocalMemory",
            f"{_HERE}.local:LocalOptions",
            examples=[{}, {"latency_ns": 100, "rounding": "picosecond", "capacity_gib": 80}],
            pure=True,
        ),
        Provider(
            "remote",
            "Memory outside of the NPUs: one for each, one for each node, or a pool",
            factory=f"{_HERE}.remote:RemoteMemory",
            options=f"{_HERE}.remote:RemoteOptions",
            examples=[{"bandwidth_gb_per_s": 25, "latency_ns": 1000}],
            pure=True,
        ),
    ]


@hookimpl
def astra_formats() -> list[FileFormat]:
    return [
        FileFormat(
            "astra-sim-2-memory",
            "JSON memory file of ASTRA-sim 2.x",
            kinds=("memory",),
            recognises=f"{_HERE}.astra2_file:recognises",
            read=f"{_HERE}.astra2_file:read",
        )
    ]
