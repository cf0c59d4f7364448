"""The options that both system layers have."""

from __future__ import annotations

import attrs
from astra_sim import option
from astra_sim.value_objects import ValueObject


@attrs.frozen(eq=False, repr=False)
class ChunkingOptions(ValueObject):
    """Options of the system layer. An algorithm is a name for all dimensions, or a list with one for each."""

    scheduling_policy: str = option("lifo", choices=("lifo", "fifo"), help="lifo: later collectives go first; fifo: earlier ones")
    admission: str = option(
        "common",
        choices=("common", "own"),
        help="order in which NPUs of a program begin chunks: common: that of the first NPU to begin each; own: each its own, as ASTRA-sim "
        "does: where NPUs are out of step they may wait for each other, which is an error",
    )
    endpoint_delay_ns: int = option(10, minimum=0, help="time an endpoint needs for every message, before it can go on", unit="ns")
    send_overhead_ns: int = option(
        0, minimum=0, help="time that the processor of an NPU spends on each message that it sends (o of LogGP)", unit="ns"
    )
    receive_overhead_ns: int = option(0, minimum=0, help="time that it spends on each message that it receives", unit="ns")
    overhead_per_byte_ns: float = option(0.0, minimum=0, help="time that it spends on each byte of them, at both ends", unit="ns/byte")
    overhead_on: str = option(
        "compute",
        choices=("compute", "network"),
        help="processor that spends these times; compute: the one that computes, which does one or the other; network: one beside it",
    )
    active_chunks_per_dimension: int = option(1, minimum=1, help="chunks of a dimension that run at a time, shared among its queues")
    splits: int = option(1, minimum=1, maximum=1_000_000, help="chunks into which a collective is cut")
    all_reduce: str | tuple[str, ...] = option(
        "auto", help="algorithm for all-reduce; auto: by topology; auto?synthesize=true: designed, if over all NPUs", specs="collective"
    )
    all_gather: str | tuple[str, ...] = option("auto", help="algorithm for all-gather", specs="collective")
    reduce_scatter: str | tuple[str, ...] = option("auto", help="algorithm for reduce-scatter", specs="collective")
    all_to_all: str | tuple[str, ...] = option("auto", help="algorithm for all-to-all", specs="collective")
    collective_optimization: str = option(
        "local_bw_aware",
        choices=("baseline", "local_bw_aware"),
        help="all-reduce over several dimensions: baseline does one on each; local_bw_aware reduce-scatters, all-reduces, all-gathers",
    )
    intra_dimension_scheduling: str = option("fifo", help="order of a queue (a scheduler plugin)")
    inter_dimension_scheduling: str = option("ascending", help="order of dimensions (a scheduler plugin)")
    traffic_classes: tuple[int, ...] = option(
        (),
        minimum=0,
        maximum=7,
        help="traffic class of the messages of collectives: one for each dimension of the program, or one for all; 0: the network chooses",
    )
    send_traffic_class: int = option(
        0, minimum=0, maximum=7, help="traffic class of messages between two NPUs (pipelines, traces); 0: the network chooses"
    )
    shared_bus: bool = option(False, help="endpoints share a bus to memory (LogGP) instead of taking the endpoint delay")
    bus_latency_ns: int = option(0, minimum=0, help="LogGP L of that bus", unit="ns")
    bus_overhead_ns: int = option(0, minimum=0, help="LogGP o of that bus", unit="ns")
    bus_gap_ns: int = option(0, minimum=0, help="LogGP g of that bus: between transfers", unit="ns")
    bus_gap_per_byte_ns: float = option(0.0, minimum=0, help="LogGP G of that bus", unit="ns/byte")
    bus_reduction_delay: int = option(1, minimum=0, help="ns to reduce 100 bytes that have crossed that bus, on top of 50 ns")
