"""What this package offers: every hook of version 0.1.0."""

from __future__ import annotations

from astra_sim import CollectiveProvider, FileFormat, Provider, SchedulerProvider, hookimpl

from astra_sim_before.scheduler import newest_first


@hookimpl
def astra_workloads() -> list[Provider]:
    return [
        Provider(
            "before_workload",
            "Steps that compute and then all-reduce over all NPUs",
            factory="astra_sim_before.workload:workload",
            options="astra_sim_before.workload:StepOptions",
            examples=[{}, {"steps": 3, "overlap": True}],
        ),
    ]


@hookimpl
def astra_training_loops() -> list[Provider]:
    return [
        Provider(
            "before_training_loop",
            "Data parallel; gradients layer by layer, or after the backward pass",
            factory="astra_sim_before.training_loop:write",
            options="astra_sim_before.training_loop:LoopOptions",
            examples=[{}, {"overlap": False}],
        ),
    ]


@hookimpl
def astra_systems() -> list[Provider]:
    return [
        Provider(
            "before_system",
            "Equal chunks, through all dimensions in order, one queue each",
            factory="astra_sim_before.system:ChunkedSystem",
            options="astra_sim_before.system:ChunkOptions",
            examples=[{}, {"splits": 3, "algorithm": "direct"}],
        ),
    ]


@hookimpl
def astra_collectives() -> list[CollectiveProvider]:
    return [
        CollectiveProvider(
            "before_collective",
            "One other rank after another, some messages in flight",
            factory="astra_sim_before.collective:schedule",
            options="astra_sim_before.collective:WindowOptions",
            examples=[{}, {"window": 3}],
            pure=True,
        ),
    ]


@hookimpl
def astra_schedulers() -> list[SchedulerProvider]:
    return [
        SchedulerProvider(
            "before_scheduler",
            "Largest phase first, or the one with most phases to come",
            factory="astra_sim_before.scheduler:order",
            options="astra_sim_before.scheduler:OrderOptions",
            examples=[{}, {"by": "remaining"}],
            orders="queue",
        ),
        SchedulerProvider("before_newest", "Newest first", lambda: newest_first, orders="queue"),
        SchedulerProvider("before_last", "Last dimension first", "astra_sim_before.scheduler:LastFirst", orders="dimensions"),
    ]


@hookimpl
def astra_platforms() -> list[Provider]:
    return [
        Provider(
            "before_platform",
            "A ring with chords: links to the next NPUs, and to those some places on",
            factory="astra_sim_before.platform:dimensions",
            options="astra_sim_before.platform:ChordOptions",
            examples=[{"size": 8, "link_bandwidth_gb_per_s": 50}, {"size": 9, "chord": 4, "link_bandwidth_gb_per_s": 50}],
        ),
    ]


@hookimpl
def astra_networks() -> list[Provider]:
    return [
        Provider(
            "before_network",
            "Every NPU sends one message at a time; nothing else is in the way",
            factory="astra_sim_before.network:SenderNetwork",
            options="astra_sim_before.network:SenderOptions",
            examples=[{}, {"latency_ns": 0}],
        ),
        Provider("before_wires", "Messages never wait", "astra_sim_before.network:WireNetwork"),
        Provider(
            "before_bus",
            "All messages share one bus, in C++",
            factory="astra_sim_before.table_network:BusNetwork",
            options="astra_sim_before.table_network:BusOptions",
            examples=[{}, {"latency_ns": 0}],
        ),
    ]


@hookimpl
def astra_computes() -> list[Provider]:
    return [
        Provider(
            "before_compute",
            "A rate of operations, and a time to launch each kernel",
            factory="astra_sim_before.compute:RateCompute",
            options="astra_sim_before.compute:RateOptions",
            examples=[{}, {"tera_ops_per_s": 1, "launch_ns": 0}],
        ),
    ]


@hookimpl
def astra_memories() -> list[Provider]:
    return [
        Provider(
            "before_memory",
            "Local memory, and one pool for all NPUs",
            factory="astra_sim_before.memory:PooledMemory",
            options="astra_sim_before.memory:PoolOptions",
            examples=[{}, {"capacity_gib": 80, "latency_ns": 0}],
        ),
    ]


@hookimpl
def astra_formats() -> list[FileFormat]:
    return [
        FileFormat(
            "before_format",
            "CSV of layers: name, operations of a pass, gradient_bytes",
            kinds=("workload",),
            recognises="astra_sim_before.format:recognises",
            read="astra_sim_before.format:read",
        ),
    ]


@hookimpl
def astra_reports() -> list[Provider]:
    return [
        Provider(
            "before_report",
            "Times of all runs in one CSV file",
            factory="astra_sim_before.report:write",
            options="astra_sim_before.report:ReportOptions",
            examples=[{}, {"unit": "ms"}],
        ),
    ]


@hookimpl
def astra_commands() -> list[Provider]:
    return [
        Provider("before_command", "Say how fast the links of a platform are.", "astra_sim_before.command:links"),
    ]
