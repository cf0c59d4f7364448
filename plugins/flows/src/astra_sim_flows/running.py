"""Messages without a workload: flows that start at a time, or when others have ended, on any network."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping, Sequence

import attrs
from astra_sim.errors import InputError, RunError
from astra_sim.experiments import contain_exits
from astra_sim.fabric import Fabric
from astra_sim.fabric.paths import UNREACHABLE
from astra_sim.network import EventNetwork, Message, MessageFigures, Network, RouteDelayNetwork, advance, inject, not_under_way
from astra_sim.providers import call


@attrs.frozen
class Flow:
    """A message: it starts `start_ps` picoseconds after the last of the flows `after` has ended, or after the start of the run.

    `after` are places in the list of flows.
    """

    source: int
    destination: int
    bytes: int
    start_ps: int = 0
    after: tuple[int, ...] = ()
    traffic_class: int = -1


@attrs.frozen
class FlowTimes:
    """The times of a flow, in picoseconds. It ends when its sender knows that it has arrived; on most networks when it arrives."""

    started: int
    received: int
    ended: int
    figures: MessageFigures | None


@contain_exits()
def run_flows(network: Network, flows: Sequence[Flow]) -> list[FlowTimes]:
    """Run flows, and return the times of each.

    Raises InputError if flows wait for each other in a circle, and the errors of the network.
    """
    check_order(flows)
    moved = _Delays(network) if isinstance(network, RouteDelayNetwork) else network
    what = f"network {type(network).__name__}"
    call(f"{what}: keep_message_figures", moved.keep_message_figures)
    call(f"{what}: begin", moved.begin)
    run = _FlowRun(moved, flows)
    run.go()
    figures = moved.message_figures()
    return [run.times(place, figures) for place in range(len(flows))]


def check_order(flows: Sequence[Flow]) -> None:
    """Raise InputError if flows wait for each other in a circle."""
    circle = circle_of(flows)
    if circle:
        listed = ", which waits for ".join(f"number {place + 1}" for place in circle)
        raise InputError(f"flows of the list wait for each other in a circle: {listed}, which waits for the first")


def circle_of(flows: Sequence[Flow]) -> list[int]:
    """Flows that wait for each other in a circle, each for the next one; none if there is no circle."""
    waits = [len(flow.after) for flow in flows]
    ready = deque(place for place, count in enumerate(waits) if not count)
    then = _followers(flows)
    while ready:
        for place in then[ready.popleft()]:
            waits[place] -= 1
            if not waits[place]:
                ready.append(place)
    blocked = {place for place, count in enumerate(waits) if count}
    way: list[int] = []
    place = min(blocked, default=-1)
    while blocked and place not in way:
        way.append(place)
        place = next(before for before in flows[place].after if before in blocked)
    return way[way.index(place) :] if blocked else []


class _FlowRun:
    """One run: flows that wait for a time, and those that are under way."""

    def __init__(self, network: EventNetwork, flows: Sequence[Flow]) -> None:
        self._network = network
        self._flows = flows
        self._waits = [len(flow.after) for flow in flows]
        self._then = _followers(flows)
        self._later: list[tuple[int, int, int]] = []  # time, order, place
        self._order = 0
        self._sent = [-1] * len(flows)
        self._received = [-1] * len(flows)
        self._ended = [-1] * len(flows)
        self._left = len(flows)
        self._now = 0

    def go(self) -> None:
        """Let all flows end."""
        for place, flow in enumerate(self._flows):
            if not flow.after:
                self._start(place, flow.start_ps)
        while self._left:
            until = self._later[0][0] - 1 if self._later else None
            answer = advance(self._network, self._now, until)
            if answer is not None:
                self._take(*answer)
            elif not self._later:
                waiting = self._received.index(-1)
                raise RunError(f"the network has nothing under way, and flow number {waiting + 1} of the list has not arrived")
            else:
                self._inject_next()

    def times(self, place: int, figures: Mapping[int, MessageFigures]) -> FlowTimes:
        """The times of a flow."""
        times = figures.get(place)
        if times is not None:
            return FlowTimes(times.started, times.received, times.ended, times)
        return FlowTimes(self._sent[place], self._received[place], self._ended[place], None)

    def _start(self, place: int, time: int) -> None:
        heapq.heappush(self._later, (time, self._order, place))
        self._order += 1

    def _inject_next(self) -> None:
        """Hand over the flows that start next: before anything else happens at that time."""
        time = self._now = self._later[0][0]
        batch = []
        while self._later and self._later[0][0] == time:
            batch.append(heapq.heappop(self._later)[2])
        self._inject(time, batch)

    def _inject(self, time: int, places: Sequence[int]) -> None:
        messages = []
        for place in places:
            flow = self._flows[place]
            self._sent[place] = time
            messages.append(Message(place, flow.source, flow.destination, flow.bytes, -1, place + 1, flow.traffic_class))
        inject(self._network, time, messages)

    def _take(self, time: int, arrived: Sequence[int], sent: Sequence[int]) -> None:
        self._now = time
        for place in arrived:
            if not 0 <= place < len(self._sent) or self._sent[place] < 0 or self._received[place] >= 0:
                raise not_under_way(self._network, place)
            self._received[place] = time
        for place in sent if self._network.reports_completion else arrived:
            if not 0 <= place < len(self._sent) or self._received[place] < 0 or self._ended[place] >= 0:
                raise not_under_way(self._network, place)
            self._end(place, time)

    def _end(self, place: int, time: int) -> None:
        self._ended[place] = time
        self._left -= 1
        for follower in self._then[place]:
            self._waits[follower] -= 1
            if self._waits[follower]:
                continue
            if self._flows[follower].start_ps:
                self._start(follower, time + self._flows[follower].start_ps)
            else:
                self._inject(time, [follower])  # at once: the network has not gone on since


class _Delays(EventNetwork):
    """A network without contention as one with events."""

    def __init__(self, network: RouteDelayNetwork) -> None:
        super().__init__(network.platform)
        self._network = network
        self._under_way: list[tuple[int, int]] = []

    def inject(self, time: int, messages: Sequence[Message]) -> None:
        """Every message has its delay."""
        for message in messages:
            delay = self._network.message_delay(message.source, message.destination, message.bytes)
            heapq.heappush(self._under_way, (time + delay, message.number))

    def advance(self, until: int | None) -> tuple[int, list[int]] | None:
        """The next arrivals."""
        if not self._under_way or (until is not None and self._under_way[0][0] > until):
            return None
        time = self._under_way[0][0]
        numbers = []
        while self._under_way and self._under_way[0][0] == time:
            numbers.append(heapq.heappop(self._under_way)[1])
        return time, numbers


def _followers(flows: Sequence[Flow]) -> list[list[int]]:
    then: list[list[int]] = [[] for _ in flows]
    for place, flow in enumerate(flows):
        for before in flow.after:
            then[before].append(place)
    return then


class IdealTimes:
    """The ideal time of flows, alone and without headers: latencies of the shortest path, and the bytes over its narrowest link."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self._rows: dict[int, list[tuple[int, float, float]]] = {}

    def ns(self, source: int, destination: int, size: int) -> float | None:
        """Nanoseconds of a flow; None if there is no way."""
        if destination not in self._rows:
            self._rows[destination] = self._to(destination)
        distance, latency, bandwidth = self._rows[destination][source]
        return None if distance == UNREACHABLE else latency + size / bandwidth

    def _to(self, destination: int) -> list[tuple[int, float, float]]:
        """Of each node: the distance to a destination, latencies in ns, and the smallest bandwidth in bytes/ns. NPUs may forward."""
        row = [(UNREACHABLE, 0.0, float("inf"))] * self._fabric.nodes
        row[destination] = (0, 0.0, float("inf"))
        for node, (distance, first) in self._fabric.graph.paths_to(destination, through_npus=True).items():
            if node != destination:
                link = self._fabric.links[first]
                _, latency, bandwidth = row[link.target]
                row[node] = (distance, latency + link.latency_ns, min(bandwidth, link.bandwidth))
        return row
