# SPDX-License-Identifier: GPL-2.0-only
"""Options of the network `ns3`."""

from __future__ import annotations

import attrs
from astra_sim import InputError, option

CONGESTION_CONTROLS = ("cubic", "newreno", "dctcp")

_DCTCP_THRESHOLD = 65


@attrs.frozen
class Ns3Options:
    """Options of the network. If a default is that of Linux or ns-3, its help states it."""

    congestion_control: str = option("cubic", choices=CONGESTION_CONTROLS, help="how senders share links; cubic is that of Linux")
    hystart: bool = option(
        True, help="cubic: slow start ends before there are losses (Linux and ns-3), where round trips are short at some 20 segments"
    )
    connections: str = option(
        "pair",
        choices=("pair", "message"),
        help="pair: messages of an NPU to another, of one traffic class, follow each other on a connection that stays, with its window; "
        "message: each has a connection of its own, which begins in slow start",
    )
    segment_bytes: int = option(
        1460,
        minimum=1,
        maximum=65455,
        help="bytes of a message in a packet; 42 bytes of headers come on top (Ethernet's 1500)",
        unit="bytes",
    )
    initial_window: int = option(10, minimum=1, maximum=10**6, help="segments that a connection begins with (RFC 6928)", unit="segments")
    delayed_ack_segments: int = option(
        1, minimum=1, maximum=1000, help="segments for each acknowledgement; 2 in ns-3, which leaves the last one to delayed_ack_ms"
    )
    delayed_ack_ms: float = option(40.0, above=0, maximum=1e6, help="longest delay of an acknowledgement (Linux)", unit="ms")
    min_rto_ms: float = option(
        200.0, above=0, maximum=1e6, help="shortest time without acknowledgement after which a segment is sent again (Linux)", unit="ms"
    )
    connect_timeout_ms: float = option(1000.0, above=0, maximum=1e6, help="the same while a connection is made (RFC 6298)", unit="ms")
    retries: int = option(
        6, minimum=1, maximum=1000, help="repetitions of a segment before the run is given up (ns-3); of a handshake 29 at most"
    )
    send_buffer_kib: int = option(
        512,
        minimum=4,
        maximum=2**20,
        help="most bytes of a connection under way; Linux goes up to 4096, but ns-3 looks through it with every segment",
        unit="KiB",
    )
    receive_buffer_kib: int = option(6144, minimum=4, maximum=2**20, help="the largest window of a receiver (Linux)", unit="KiB")
    queue_packets: int = option(
        500, minimum=1, maximum=10**6, help="packets that wait at a port of a switch before it drops (DCTCP's paper: 700 kB)"
    )
    nic_queue_packets: int = option(
        0, minimum=0, maximum=10**6, help="the same at a port of an NPU; 0: no limit, as Linux holds back a sender whose interface is busy"
    )
    ecn_threshold_packets: int | None = option(
        None,
        minimum=1,
        maximum=10**6,
        help="dctcp: queue length in packets from which packets are marked; default 65 (its paper, 10 Gbit/s)",
    )
    switch_latency_ns: float = option(0.0, minimum=0, maximum=1e9, help="time through a switch, on links that enter one", unit="ns")
    npu_forwarding: bool = option(True, help="packets pass through NPUs where some pairs have no way over switches; false: an error")
    error_rate: float = option(0.0, minimum=0, maximum=1, help="probability that a packet is lost, on links that have none of their own")
    seed: int = option(1, minimum=1, maximum=4294944442, help="seed of losses, and of which of several shortest paths a connection takes")

    def __attrs_post_init__(self) -> None:
        if self.ecn_threshold_packets is not None and self.congestion_control != "dctcp":
            raise InputError(
                f"ecn_threshold_packets is {self.ecn_threshold_packets}, and congestion_control {self.congestion_control!r};"
                " expected 'dctcp', as others do not look at marks"
            )
        if not self.hystart and self.congestion_control != "cubic":
            raise InputError(f"hystart is false, and congestion_control {self.congestion_control!r}; expected 'cubic', which alone has it")

    @property
    def mark_packets(self) -> int:
        """The queue from which on packets are marked."""
        return self.ecn_threshold_packets or _DCTCP_THRESHOLD
