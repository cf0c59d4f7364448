"""Hooks."""

from __future__ import annotations

from astra_sim import FileFormat, Provider, hookimpl

_HERE = "astra_sim_torch"


@hookimpl
def astra_workloads() -> list[Provider]:
    return [
        Provider(
            "torch_capture",
            "A step of a PyTorch script, as astra capture torch recorded it",
            f"{_HERE}.workload:torch_capture",
            f"{_HERE}.workload:CaptureOptions",
            examples=f"{_HERE}.examples:workload",
        )
    ]


@hookimpl
def astra_formats() -> list[FileFormat]:
    return [
        FileFormat(
            "torch_capture",
            "a step of a PyTorch script, as astra capture torch recorded it",
            kinds=("workload",),
            recognises=f"{_HERE}.capture_file:recognises",
            read=f"{_HERE}.capture_file:read",
        )
    ]


@hookimpl
def astra_commands() -> list[Provider]:
    summary = "Record compute and communication of ranks of a PyTorch script."
    return [Provider("capture torch", summary, f"{_HERE}.capture_command:capture")]
