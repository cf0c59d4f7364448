"""Hooks."""

from __future__ import annotations

from astra_sim import FileFormat, Provider, hookimpl

_HERE = "astra_sim_compute_systolic"


@hookimpl
def astra_computes() -> list[Provider]:
    return [
        Provider(
            "systolic",
            "Cycles of a systolic array for a layer's shape, as SCALE-Sim counts them",
            factory=f"{_HERE}.compute:Systolic",
            options=f"{_HERE}.compute:SystolicOptions",
            examples=[{}, {"dataflow": "os", "array_rows": 32, "array_cols": 16}, {"dataflow": "is", "array_rows": 8, "array_cols": 8}],
        )
    ]


@hookimpl
def astra_commands() -> list[Provider]:
    return [
        Provider("systolic", "Cycles, stalls and traffic of layers on a systolic array.", f"{_HERE}.systolic_command:systolic"),
        Provider(
            "generate", "Generate a workload from layers, a parallelisation and a compute model.", f"{_HERE}.generate.command:generate"
        ),
    ]


@hookimpl
def astra_formats() -> list[FileFormat]:
    return [
        FileFormat(
            "scale-sim-configuration",
            "Configuration file of SCALE-Sim",
            kinds=("compute",),
            recognises=f"{_HERE}.scale_sim_files:recognises_configuration",
            read=f"{_HERE}.scale_sim_files:read_compute",
        )
    ]
