"""When each message of a plan is sent: a greedy matching in time.

A message starts as soon as its data are there and all links of its route are free; of several the one with the highest priority goes
first. A link is busy for bytes over its bandwidth, and a message arrives when the slowest link has passed it, after its latency. So links
of unlike bandwidth each carry as much as they can (Won et al., TACOS, MICRO 2024, expand a fabric in time like this).
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Sequence
from typing import Any

import attrs

from astra_sim_synthesis.edges import RankEdge

_LOOK = 24
"""Messages that wait for a port of which one is looked for that can start."""


@attrs.define(eq=False, slots=True)
class Transfer:
    """A message of a plan: its edge, the pieces it carries, its bytes, and the transfers that must have arrived at its source.

    `priority`: smaller goes first. `reduce`: its data is added. Times are in nanoseconds, -1 until they are known.
    """

    edge: RankEdge
    pieces: Sequence[Hashable]
    bytes: int
    needs: list[Transfer]
    reduce: bool = False
    priority: tuple[int, ...] = ()
    start: float = -1.0
    arrival: float = -1.0


def schedule_in_time(transfers: Sequence[Transfer], bandwidth: Sequence[float], step_ns: float) -> float:
    """Give each transfer its times. Returns when the last arrives (ns). An endpoint handles each message for `step_ns`."""
    run = _TimedRun(transfers, bandwidth, step_ns)
    run.go()
    return max((transfer.arrival for transfer in transfers), default=0.0)


class _TimedRun:
    def __init__(self, transfers: Sequence[Transfer], bandwidth: Sequence[float], step_ns: float) -> None:
        self._transfers = transfers
        self._per_byte = [1.0 / float(each) for each in bandwidth]
        self._free = [0.0] * len(self._per_byte)
        self._step_ns = step_ns
        number = {id(transfer): place for place, transfer in enumerate(transfers)}
        self._waiting = [len(transfer.needs) for transfer in transfers]
        self._followers: list[list[int]] = [[] for _ in transfers]
        for place, transfer in enumerate(transfers):
            for needed in transfer.needs:
                self._followers[number[id(needed)]].append(place)
        self._queues: dict[int, list[tuple[tuple[int, ...], int]]] = {}
        self._events: list[tuple[float, int, int]] = []
        self._woken: dict[int, float] = {}

    def go(self) -> None:
        for place, waiting in enumerate(self._waiting):
            if not waiting:
                self._enqueue(place)
        for port in list(self._queues):
            heapq.heappush(self._events, (0.0, 1, port))
        while self._events:
            now = self._events[0][0]
            ports = set()
            while self._events and self._events[0][0] <= now + 1e-9:
                _, kind, which = heapq.heappop(self._events)
                if kind:
                    ports.add(which)
                    continue
                for follower in self._followers[which]:
                    self._waiting[follower] -= 1
                    if not self._waiting[follower]:
                        ports.add(self._enqueue(follower))
            for port in sorted(ports):
                self._serve(port, now)

    def _enqueue(self, place: int) -> int:
        transfer = self._transfers[place]
        port = transfer.edge.links[0]
        heapq.heappush(self._queues.setdefault(port, []), (transfer.priority, place))
        return port

    def _serve(self, port: int, now: float) -> None:
        """Start the messages that can start at a port now."""
        queue = self._queues.get(port)
        if not queue:
            return
        if self._free[port] > now + 1e-9:
            self._wake(port, self._free[port], now)
            return
        passed: list[Any] = []
        earliest = float("inf")
        while queue and len(passed) < _LOOK:
            entry = heapq.heappop(queue)
            edge = self._transfers[entry[1]].edge
            ready = max(self._free[link] for link in edge.links)
            if ready <= now + 1e-9:
                self._start(entry[1], now)
                earliest = self._free[port]
                break
            passed.append(entry)
            earliest = min(earliest, ready)
        for entry in passed:
            heapq.heappush(queue, entry)
        if queue:
            self._wake(port, earliest, now)

    def _wake(self, port: int, at: float, now: float) -> None:
        """Look at a port again at a time, unless that is to happen already."""
        if not now + 1e-9 < self._woken.get(port, -1.0) <= at:
            self._woken[port] = at
            heapq.heappush(self._events, (at, 1, port))

    def _start(self, place: int, now: float) -> None:
        transfer = self._transfers[place]
        slowest = 0.0
        for link in transfer.edge.links:
            busy = transfer.bytes * self._per_byte[link]
            self._free[link] = now + busy
            slowest = max(slowest, busy)
        transfer.start = now
        transfer.arrival = now + slowest + transfer.edge.latency_ns + self._step_ns
        heapq.heappush(self._events, (transfer.arrival, 0, place))
