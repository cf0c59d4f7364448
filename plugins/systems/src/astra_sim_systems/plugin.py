"""Hooks."""

from __future__ import annotations

from astra_sim import FileFormat, Provider, SchedulerProvider, hookimpl

_HERE = "astra_sim_systems"


@hookimpl
def astra_systems() -> list[Provider]:
    return [
        Provider(
            "astra1",
            "Chunks, phases and queues of ASTRA-sim 1.0; a phase ends on all NPUs at once",
            factory=f"{_HERE}.astra1:Astra1System",
            options=f"{_HERE}.options:ChunkingOptions",
            examples=[{}, {"splits": 3, "all_reduce": "direct"}, {"collective_optimization": "baseline"}],
        ),
        Provider(
            "astra2",
            "Chunks, phases and queues of ASTRA-sim 2.x; every NPU goes on by itself, with one operation of each kind at a time",
            factory=f"{_HERE}.astra2:Astra2System",
            options=f"{_HERE}.astra2:Astra2Options",
            examples=[{}, {"splits": 4, "intra_dimension_scheduling": "rg", "inter_dimension_scheduling": "offline_greedy"}],
        ),
    ]


@hookimpl
def astra_schedulers() -> list[SchedulerProvider]:
    queues, dimensions, themis = f"{_HERE}.queue_orders", f"{_HERE}.dimension_orders", f"{_HERE}.themis"
    options = f"{themis}:ThemisOptions"
    return [
        SchedulerProvider("fifo", "By priority, then first come first served", f"{queues}:fifo", orders="queue", pure=True),
        SchedulerProvider("rg", "Reduce-scatters and all-gathers in turn", f"{queues}:rg", orders="queue", pure=True),
        SchedulerProvider("smallest_first", "Smallest phase first", f"{queues}:smallest_first", orders="queue", pure=True),
        SchedulerProvider(
            "less_remaining_phase_first", "Fewest remaining phases first", f"{queues}:less_remaining_phase_first", orders="queue", pure=True
        ),
        SchedulerProvider(
            "ascending", "First to last, for all-gather last to first", f"{dimensions}:Ascending", orders="dimensions", pure=True
        ),
        SchedulerProvider("round_robin", "Each chunk starts one dimension further on", f"{dimensions}:RoundRobin", orders="dimensions"),
        SchedulerProvider(
            "offline_greedy", "Themis: least loaded dimension first", f"{themis}:OfflineGreedy", options, orders="dimensions"
        ),
        SchedulerProvider(
            "offline_greedy_flex", "Themis, with chunks as large as the gap", f"{themis}:OfflineGreedyFlex", options, orders="dimensions"
        ),
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
        ),
        FileFormat(
            "astra-sim-2-system",
            "JSON system file of ASTRA-sim 2.x",
            kinds=("system",),
            recognises=f"{_HERE}.astra2_file:recognises",
            read=f"{_HERE}.astra2_file:read",
        ),
    ]
