"""Hooks."""

from __future__ import annotations

from astra_sim import FileFormat, Provider, hookimpl

_HERE = "astra_sim_xla"


@hookimpl
def astra_workloads() -> list[Provider]:
    return [
        Provider(
            "hlo",
            "A partitioned program of XLA, from its HLO text",
            f"{_HERE}.workload:hlo",
            f"{_HERE}.workload:HloOptions",
            examples=f"{_HERE}.examples:workload",
        )
    ]


@hookimpl
def astra_formats() -> list[FileFormat]:
    return [
        FileFormat(
            "hlo",
            "HLO text of XLA, partitioned, as --xla_dump_to writes it",
            kinds=("workload",),
            recognises=f"{_HERE}.workload:recognises",
            read=f"{_HERE}.workload:read",
        )
    ]


@hookimpl
def astra_commands() -> list[Provider]:
    return [Provider("capture jax", "Compile a JAX script for faked devices, and keep its HLO.", f"{_HERE}.capture_command:capture")]
