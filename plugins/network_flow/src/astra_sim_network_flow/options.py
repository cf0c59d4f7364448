"""Options of the flow network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
from astra_sim import option

_WINDOW = 4_194_304
PRESETS: Mapping[str, Mapping[str, Any]] = {
    "ideal": {
        "bandwidth_factor": 1.0,
        "latency_factor": 1.0,
        "fairness": "equal",
        "connections": "queue",
        "weight_bytes": 0.0,
        "window_bytes": 0.0,
        "ack_share": 0.0,
        "tolerance": 0.001,
    },
    "simgrid_cm02": {
        "bandwidth_factor": 1.0,
        "latency_factor": 1.0,
        "fairness": "rtt",
        "connections": "message",
        "weight_bytes": 0.0,
        "window_bytes": _WINDOW,
        "ack_share": 0.05,
        "tolerance": 0.0,
    },
    "simgrid_lv08": {
        "bandwidth_factor": 0.97,
        "latency_factor": 13.01,
        "fairness": "rtt",
        "connections": "message",
        "weight_bytes": 20537.0,
        "window_bytes": _WINDOW,
        "ack_share": 0.05,
        "tolerance": 0.0,
    },
}
"""The values of presets. The figures of TCP are those of SimGrid's models CM02 and LV08 (Velho and Legrand, SIMUTools 2009)."""


@attrs.frozen
class FlowOptions:
    """Options of the flow network."""

    preset: str = option(
        "ideal",
        choices=tuple(PRESETS),
        help="defaults of options whose default is none: links as they are, or TCP as SimGrid models it",
    )
    routing: str = option(
        "destination",
        choices=("destination", "hash", "first", "split", "valiant", "ugal"),
        help="which of several shortest paths a message takes: that of its destination (d-mod-k); by a hash of its ends (ECMP); over the "
        "first link; split: equal parts over all of them (packet spraying); valiant: equal parts over paths through every other switch "
        "next to NPUs; ugal: that, or split, whichever has less in the way when it begins",
    )
    npus_forward: str = option(
        "if_needed",
        choices=("if_needed", "always", "never"),
        help="whether messages pass through NPUs within a dimension: if no switches lead on; wherever that is shorter; never",
    )
    seed: int = option(0, minimum=0, help="hash: another number gives other paths")
    bandwidth_factor: float | None = option(None, above=0, maximum=1, help="share of the bandwidth of links that flows can use")
    latency_factor: float | None = option(None, minimum=0, help="factor on latencies before a message begins to flow")
    fairness: str | None = option(
        None, choices=("equal", "rtt"), help="flows that share a link have equal weights; or one over their round trip time, as with TCP"
    )
    connections: str | None = option(
        None,
        choices=("queue", "message"),
        help="queue: messages from an NPU to another go one after another, those of each queue of the system layer and the sends of each "
        "tag, as on queue pairs and channels of NCCL; message: each has a share of its links at once, as transfers in SimGrid",
    )
    weight_bytes: float | None = option(
        None, minimum=0, help="rtt: bytes whose time each link adds to the round trip time (SimGrid's weight-S)", unit="bytes"
    )
    window_bytes: float | None = option(
        None, minimum=0, help="a flow moves at most this in two latencies of its route (SimGrid's TCP-gamma); 0: no limit", unit="bytes"
    )
    ack_share: float | None = option(
        None, minimum=0, maximum=1, help="share of its rate that a flow takes on the way back (SimGrid's cross-traffic: 0.05)"
    )
    tolerance: float | None = option(
        None,
        minimum=0,
        maximum=1,
        help="when a message has ended, others get its share of links later by up to this part of the time that it took, which is much "
        "faster where many messages end one by one; 0: at once",
    )
    link_figures: bool = option(False, help="the result has figures of every link that carried something")

    def resolved(self) -> FlowOptions:
        """The options with those of the preset if none is given."""
        return attrs.evolve(self, **{name: value for name, value in PRESETS[self.preset].items() if getattr(self, name) is None})
