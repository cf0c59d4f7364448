"""Hooks."""

from __future__ import annotations

from astra_sim import FileFormat, Provider, hookimpl

_HERE = "astra_sim_systems"


@hookimpl
def astra_systems() -> list[Provider]:
    return [
        Provider(
            "astra1",
            "Chunks, phases and queues of ASTRA-sim 1.0; a phase ends on all NPUs at once",
            factory=f"{_HERE}.astra1:Astra1System",
            options=f"{_HERE}.astra1:Astra1Options",
        )
    ]


@hookimpl
def astra_schedulers() -> list[Provider]:
    queues, dimensions, themis = f"{_HERE}.queue_orders", f"{_HERE}.dimension_orders", f"{_HERE}.themis:ThemisOptions"
    return [
        Provider("fifo", "Queue: by priority, then first come first served", f"{queues}:fifo"),
        Provider("rg", "Queue: reduce-scatters and all-gathers in turn", f"{queues}:rg"),
        Provider("smallest_first", "Queue: smallest phase first", f"{queues}:smallest_first"),
        Provider("less_remaining_phase_first", "Queue: fewest phases to come first", f"{queues}:less_remaining_phase_first"),
        Provider("ascending", "Dimensions: first to last, for all-gather last to first", f"{dimensions}:Ascending"),
        Provider("round_robin", "Dimensions: each chunk starts one dimension further on", f"{dimensions}:RoundRobin"),
        Provider("offline_greedy", "Dimensions: Themis, least loaded first", f"{_HERE}.themis:OfflineGreedy", themis),
        Provider("offline_greedy_flex", "Dimensions: Themis, with chunks as large as the gap", f"{_HERE}.themis:OfflineGreedyFlex", themis),
    ]


@hookimpl
def astra_formats() -> list[FileFormat]:
    return [
        FileFormat(
            "astra-sim-1-system",
            "Text system file of ASTRA-sim 1.0",
            kinds=("system",),
            recognises=f"{_HERE}.astra1_file:recognises",
            read=f"{_HERE}.astra1_file:read",
        )
    ]
