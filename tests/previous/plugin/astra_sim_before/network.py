"""The network: it takes messages, and says when they arrive. Times are whole picoseconds."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import attrs
from astra_sim import option
from astra_sim.network import DelayParts, EventNetwork, Message, RouteDelayNetwork
from astra_sim.platform import Platform


@attrs.frozen
class SenderOptions:
    """Options of the network."""

    bandwidth_gb_per_s: float = option(50.0, above=0, help="bandwidth with which an NPU sends", unit="10^9 bytes/s")
    latency_ns: int = option(500, minimum=0, help="from the end of sending to the arrival", unit="ns")


class SenderNetwork(EventNetwork):
    """The messages of an NPU leave it one after another."""

    def __init__(self, options: SenderOptions, platform: Platform) -> None:
        super().__init__(platform)
        self._ps_per_byte = 1000 / options.bandwidth_gb_per_s
        self._latency_ps = options.latency_ns * 1000
        self.begin()

    def begin(self) -> int:
        """Forget the run before. Times of the result are not moved."""
        self._free_at: dict[int, int] = {}  # when an NPU can send again
        self._under_way: list[tuple[int, int]] = []  # a heap of (arrival, number)
        self._busy_ps = 0
        return 0

    def inject(self, time: int, messages: Sequence[Message]) -> None:
        """Take messages that are sent now."""
        for message in messages:
            sending = round(message.bytes * self._ps_per_byte)
            end = max(time, self._free_at.get(message.source, 0)) + sending
            self._free_at[message.source] = end
            self._busy_ps += sending
            heapq.heappush(self._under_way, (end + self._latency_ps, message.number))

    def advance(self, until: int | None) -> tuple[int, list[int]] | None:
        """Go on to the next arrivals, if they are not after `until`: their time, and all messages of that time."""
        if not self._under_way or (until is not None and self._under_way[0][0] > until):
            return None
        time = self._under_way[0][0]
        numbers = []
        while self._under_way and self._under_way[0][0] == time:
            numbers.append(heapq.heappop(self._under_way)[1])
        return time, numbers

    def statistics(self) -> dict[str, object]:
        """Figures for the result."""
        return {"sending_ns": self._busy_ps / 1000}


class WireNetwork(RouteDelayNetwork):
    """Messages never wait: the latency of each hop, and the bytes over the bandwidth of the dimension."""

    def route_delay(self, dimension: int, hops: int, size: int) -> int:
        """Picoseconds from sending to arrival."""
        parts = self.delay_parts(dimension, hops, size)
        return round(parts.latency_ps + parts.bandwidth_ps)

    def delay_parts(self, dimension: int, hops: int, size: int) -> DelayParts:
        """The share of latency and that of bandwidth."""
        wires = self.platform.dimensions[dimension]
        return DelayParts(hops * wires.link_latency_ns * 1000, size * 1000 / wires.link_bandwidth)
