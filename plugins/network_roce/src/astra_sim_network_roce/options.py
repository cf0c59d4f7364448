"""Options of the network `roce`, and the presets that give their defaults."""

from __future__ import annotations

from typing import Any, ClassVar

import attrs
from astra_sim import option

ALGORITHMS = ("none", "dcqcn", "hpcc", "timely", "dctcp", "pint", "swift")
BALANCING = ("destination", "ecmp", "spray_random", "spray_round_robin", "flowlet", "adaptive", "valiant", "ugal")

# `reference` is ASTRA-sim's ns-3 back end; `default` the same without the features of that program alone.
PRESETS: dict[str, dict[str, Any]] = {
    "default": {
        "time_resolution": "ps",
        "payload_bytes": 4096,
        "header_bytes": 58,
        "gap_bytes": 20,
        "ack_bytes": 62,
        "least_ack_bytes": 64,
        "pfc_bytes": 64,
        "completion": "arrival",
        "connections": "queue",
        "start_rounds": 0,
        "blocked_pairs_hold": False,
        "rto_us": 1000.0,
        "slow_restart": True,
        "equal_cost_paths": "ascending",
        "load_balancing": "destination",
        "npu_forwarding": True,
        "scale_ecn": True,
        "covering_headroom": True,
        "thresholds_wrap": False,
        "divides_by_window": False,
        "rate_ai_mbps": 40.0,
        "alpha_interval_us": 55.0,
        "decrease_interval_us": 50.0,
        "increase_interval_us": 55.0,
        "fast_recovery": 5,
    },
    "reference": {
        "time_resolution": "ns",
        "payload_bytes": 1000,
        "header_bytes": 36,
        "gap_bytes": 0,
        "ack_bytes": 34,
        "least_ack_bytes": 48,
        "pfc_bytes": 31,
        "completion": "ack",
        "connections": "message",
        "start_rounds": 2,
        "blocked_pairs_hold": True,
        "rto_us": 0.0,
        "slow_restart": False,
        "equal_cost_paths": "descending",
        "load_balancing": "ecmp",
        "npu_forwarding": False,
        "scale_ecn": False,
        "covering_headroom": False,
        "thresholds_wrap": True,
        "divides_by_window": True,
        "rate_ai_mbps": 50.0,
        "alpha_interval_us": 1.0,
        "decrease_interval_us": 4.0,
        "increase_interval_us": 900.0,
        "fast_recovery": 1,
    },
}

_KMIN = ("25:100", "40:160", "50:200", "100:400", "200:800", "400:1600")
_KMAX = ("25:400", "40:640", "50:800", "100:1600", "200:3200", "400:6400")
_PMAX = ("25:0.2", "40:0.2", "50:0.2", "100:0.2", "200:0.2", "400:0.2")


@attrs.frozen
class RoceOptions:
    """Options of the network. Those that are not given are of the preset, or as in docs/roce.md."""

    renamed_options: ClassVar[dict[str, str]] = {"equal_ways": "equal_cost_paths"}

    preset: str = option("default", choices=tuple(PRESETS), help="reference: ASTRA-sim's ns-3 back end to the nanosecond")
    seed: int = option(1, minimum=0, maximum=2**62, help="seed of marking at random, of loss, PINT, spraying and flowlets")
    exact: str | None = option(
        None,
        choices=("every-event",),
        help="every-event: simulate also periods in which the network repeats itself; the answers are the same",
    )
    time_resolution: str | None = option(None, choices=("ps", "ns"), help="tick of the clock; default ps, reference ns")

    # Packets
    payload_bytes: int | None = option(
        None, minimum=1, maximum=1 << 20, help="bytes of a message in a packet; default 4096, reference 1000", unit="bytes"
    )
    header_bytes: int | None = option(
        None, minimum=0, maximum=65536, help="headers of a packet of data; default 58 (Ethernet, IP, UDP, BTH), reference 36", unit="bytes"
    )
    gap_bytes: int | None = option(
        None, minimum=0, maximum=65536, help="preamble and gap on the wire around each packet; default 20, reference 0", unit="bytes"
    )
    ack_bytes: int | None = option(
        None, minimum=1, maximum=65536, help="an acknowledgement without telemetry; default 62, reference 34", unit="bytes"
    )
    least_ack_bytes: int | None = option(
        None, minimum=1, maximum=65536, help="an acknowledgement at least; default 64, reference 48", unit="bytes"
    )
    pfc_bytes: int | None = option(None, minimum=1, maximum=65536, help="a pause or resume; default 64, reference 31", unit="bytes")
    completion: str | None = option(
        None,
        choices=("arrival", "ack"),
        help="a message has arrived with its last byte (default), or when the sender has the last acknowledgement (reference)",
    )
    connections: str | None = option(
        None,
        choices=("queue", "message"),
        help="queue: messages from an NPU to another share a queue pair, on which they go one after another, those of each queue of the "
        "system layer and the sends of each tag, as with NCCL (default); message: each has one of its own (reference)",
    )

    # Switches
    buffer_mib: float | None = option(
        None,
        above=0,
        maximum=1 << 20,
        help="memory of a switch that its ports share; default: 32, or more if its ports need it; reference 32",
        unit="MiB",
    )
    headroom_factor: float = option(3.0, minimum=0, maximum=1e6, help="headroom of a port, in bandwidth times delay of its link")
    covering_headroom: bool | None = option(
        None, help="headroom of a port is never less than the data that come in before a pause takes effect; false: headroom_factor alone"
    )
    pfc: bool = option(True, help="switches pause who sends too much; false: they drop")
    ecn: bool = option(True, help="switches mark packets that leave long queues")
    ecn_kmin: tuple[str, ...] = option(_KMIN, help="queue length up to which no packet is marked, each RATE:SIZE", unit="Gbit/s:kB")
    ecn_kmax: tuple[str, ...] = option(_KMAX, help="queue length beyond which every packet is marked, each RATE:SIZE", unit="Gbit/s:kB")
    ecn_pmax: tuple[str, ...] = option(_PMAX, help="share of packets marked at kmax, each RATE:SHARE", unit="Gbit/s:1")
    switch_latency_ns: float = option(0.0, minimum=0, maximum=1e9, help="time through a switch, on links that enter one", unit="ns")
    npu_forwarding: bool | None = option(
        None, help="where some NPUs have no way over switches, each has a switch inside; default true, reference false: an error"
    )

    # Ways
    load_balancing: str | None = option(
        None,
        choices=BALANCING,
        help="which of several paths of equal cost a packet takes: that of its destination (d-mod-k), by a hash of its message (ecmp), or "
        "another for each packet or burst; valiant: through another switch next to NPUs, at random for each packet; ugal: the one with "
        "fewer bytes queued; default destination, reference ecmp",
    )
    flowlet_gap_ns: float = option(500.0, minimum=0, maximum=1e9, help="flowlet: pause after which a message may change its way", unit="ns")
    equal_cost_paths: str | None = option(
        None, choices=("ascending", "descending"), help="order of paths of equal cost by the number of the switch; reference descending"
    )

    # Network interfaces
    windows: bool = option(True, help="bytes in flight are limited to bandwidth times round-trip time")
    common_window: bool = option(True, help="the largest such product and longest round trip of all pairs, not of the pair")
    variable_window: bool = option(True, help="windows shrink with the rate")
    pacing: bool = option(True, help="packets leave at the rate of their message, not at that of the line")
    acks_first: bool = option(False, help="acknowledgements leave an interface also while their queue is paused")
    ack_interval_bytes: int = option(1, minimum=1, maximum=2**62, help="bytes received before an acknowledgement is sent", unit="bytes")
    chunk_bytes: int = option(4000, minimum=1, maximum=2**62, help="pieces to whose start back_to_chunk goes", unit="bytes")
    back_to_chunk: bool = option(False, help="after a loss a message goes back to the start of a chunk, not of the lost packet")
    nack_gap_us: float = option(500.0, minimum=0, maximum=1e9, help="time between two refusals (NACK) of the same byte", unit="us")
    rto_us: float | None = option(
        None, minimum=0, maximum=1e9, help="sent again after so long without acknowledgement; default 1000, reference 0: never", unit="us"
    )
    slow_restart: bool | None = option(
        None,
        help="a loss halves the data in flight of a message, a timeout leaves one packet of it, and timeouts in a row double, drawn at "
        "random; reference false: none of this",
    )
    error_rate: float = option(0.0, minimum=0, maximum=1, help="probability that a packet is lost, on links that have none of their own")
    link_down: tuple[str, ...] = option((), help="links that fail, each TIME:NODE:NODE; switches by their number in the file", unit="us")

    # Congestion control
    congestion_control: str = option("none", choices=ALGORITHMS, help="none: line rate and windows")
    min_rate_mbps: float = option(100.0, above=0, help="lowest rate of a message", unit="Mbit/s")
    rate_ai_mbps: float | None = option(
        None, minimum=0, help="additive increase (DCQCN, HPCC, PINT, TIMELY); default 40, reference 50", unit="Mbit/s"
    )
    rate_hai_mbps: float = option(100.0, minimum=0, help="hyper increase (DCQCN, TIMELY)", unit="Mbit/s")
    gain: float = option(1 / 256, above=0, maximum=1, help="weight of new samples in alpha (DCQCN, DCTCP)")
    alpha_interval_us: float | None = option(
        None, above=0, maximum=1e9, help="DCQCN: time between updates of alpha; default 55, reference 1", unit="us"
    )
    decrease_interval_us: float | None = option(
        None, above=0, maximum=1e9, help="DCQCN: time between decreases; default 50, reference 4", unit="us"
    )
    increase_interval_us: float | None = option(
        None, above=0, maximum=1e9, help="DCQCN: time between increases; default 55, reference 900", unit="us"
    )
    fast_recovery: int | None = option(
        None, minimum=0, maximum=10**6, help="DCQCN: increases that only halve the way to the target; default 5, reference 1"
    )
    clamp_target: bool = option(False, help="DCQCN: every decrease sets the target")
    target_utilisation: float = option(0.95, above=0, maximum=1, help="HPCC, PINT: utilisation of links to reach (eta)")
    stages: int = option(0, minimum=0, maximum=10**6, help="HPCC, PINT: additive increases in a row (maxStage); 5 in the paper")
    telemetry_unit: int = option(1, minimum=1, maximum=1024, help="HPCC: factor on the units in which switches count (INT_MULTI)")
    fast_reaction: bool = option(True, help="HPCC, PINT: every acknowledgement counts, not one in a round trip")
    rate_of_hop: bool = option(False, help="HPCC: a rate for each hop, of which the lowest counts (MULTI_RATE)")
    sampled_feedback: bool = option(False, help="HPCC: hops without a queue count once in a round trip")
    pint_base: float = option(1.05, above=1, maximum=2, help="PINT: packets carry utilisation as a power of this")
    pint_share: float = option(1.0, above=0, maximum=1, help="PINT: share of acknowledgements that count")
    dctcp_rate_ai_mbps: float = option(1000.0, minimum=0, help="DCTCP: increase in a round trip", unit="Mbit/s")
    timely_low_us: float = option(50.0, minimum=0, maximum=1e9, help="TIMELY: round trip below which rates grow", unit="us")
    timely_high_us: float = option(500.0, above=0, maximum=1e9, help="TIMELY: round trip above which rates fall", unit="us")
    timely_round_us: float = option(20.0, above=0, maximum=1e9, help="TIMELY: round trip by which the gradient is divided", unit="us")
    swift_base_us: float = option(25.0, minimum=0, maximum=1e9, help="Swift: target of the delay", unit="us")
    swift_hop_us: float = option(1.0, minimum=0, maximum=1e9, help="Swift: growth of the target with each switch", unit="us")
    swift_range_us: float = option(25.0, minimum=0, maximum=1e9, help="Swift: growth of the target for the smallest window", unit="us")
    swift_largest_window: float = option(100.0, minimum=1, maximum=1e6, help="Swift: largest window", unit="packets")

    # Records
    fct: bool = option(False, help="write fct.txt among the reports: times of every message (astra flows does)")
    pfc_log: bool = option(False, help="write pfc.txt among the reports: every pause and resume")
    qlen_interval_us: float = option(
        0.0, minimum=0, maximum=1e9, help="write qlen.csv among the reports: queues of switches after each so long; 0: none", unit="us"
    )

    def chosen(self, name: str) -> Any:
        """The value of an option, or that of the preset."""
        value = getattr(self, name, None)
        return PRESETS[self.preset][name] if value is None else value
