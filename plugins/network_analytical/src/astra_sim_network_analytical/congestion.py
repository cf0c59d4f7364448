"""The congestion-aware network: every directed link carries one message after another. `native/fifo.hpp` is the same in C++.

A message crosses the dimensions in which its source and destination differ, in ascending order, and in each the links of its route. A
free link takes a message at once; other messages wait in the order in which they came. It takes bytes / bandwidth to put a message
on a link, and the link's latency more until it is at the other end.

Events of one instant happen in the order in which they were scheduled. When a transfer begins, the message's arrival is scheduled first,
and then the end of the transfer. Messages injected in that instant come after all of these.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from astra_sim import InputError
from astra_sim.errors import AstraError
from astra_sim.function_table import CompiledNetwork
from astra_sim.network import EventNetwork, LinkLoad, Message, OwnerLoad
from astra_sim.platform import Platform
from astra_sim.units import MAX_PICOSECONDS

from astra_sim_network_analytical.link_figures import DimensionLinkFigures, LinkFigures, listed, loads, owner_loads, statistics, totals
from astra_sim_network_analytical.link_map import LinkMap
from astra_sim_network_analytical.options import AnalyticalOptions
from astra_sim_network_analytical.rounding import ROUNDINGS, delay_ps

if TYPE_CHECKING:
    from astra_sim_network_analytical._core import Fifo

LONGEST_HOP_PS = 1 << 53


class _UnderWay:
    """A message under way: the NPU that it is at or left last, and its next dimension and node.

    `fresh`: it has not left the NPU in this dimension yet. `bandwidth`: that of the slowest link so far.
    """

    __slots__ = ("bandwidth", "bytes", "destination", "dimension", "fresh", "link", "node", "npu", "number", "owner", "position")

    def __init__(self, message: Message) -> None:
        self.number = message.number
        self.bytes = message.bytes
        self.npu = self.owner = message.source
        self.destination = message.destination
        self.dimension = -1
        self.node = self.position = self.link = -1
        self.fresh = True
        self.bandwidth = float("inf")


class _Link:
    """A link: when it is free (time and order of that event), and the messages that wait."""

    __slots__ = ("busy_ps", "bytes", "free", "largest_queue", "messages", "waiting")

    def __init__(self) -> None:
        self.free = (0, 0)
        self.waiting: deque[_UnderWay] = deque()
        self.messages = self.bytes = self.busy_ps = self.largest_queue = 0


class _OwnerWaits:
    """The loads of a link by owner, and for how long messages of one owner waited for those of another (ps). `owner_waits.hpp` in C++."""

    __slots__ = ("busy_ps", "bytes", "queued_ps", "sending", "wait_ps")

    def __init__(self, owners: int) -> None:
        self.sending = 0
        self.bytes, self.busy_ps, self.queued_ps = ([0] * owners for _ in range(3))
        self.wait_ps = [[0] * owners for _ in range(owners)]

    def wait(self, owner: int, left_ps: int, transfer_ps: int) -> None:
        """A message joins the queue: it waits for the rest of the one that is sent, and for all that are in the queue."""
        waits = self.wait_ps[owner]
        waits[self.sending] += left_ps
        for other, queued in enumerate(self.queued_ps):
            waits[other] += queued
        self.queued_ps[owner] += transfer_ps

    def start(self, owner: int, size: int, transfer_ps: int) -> None:
        """A transfer begins."""
        self.sending = owner
        self.bytes[owner] += size
        self.busy_ps[owner] += transfer_ps


def _held_bytes(options: AnalyticalOptions) -> float:
    """The part of a message that a node receives before it passes it on."""
    return 0.0 if options.switching == "cut_through" else math.inf


class FifoNetwork(EventNetwork):
    """The network in Python."""

    accounting_dimension = "lowest"
    counts_owners = True
    forgets = True

    def __init__(self, options: AnalyticalOptions, link_map: LinkMap, platform: Platform | None = None) -> None:
        super().__init__(platform or link_map.platform)
        self._options = options
        self._map = link_map
        self._wired = link_map.platform
        self._rounding = options.rounding
        self._cut_through = options.switching == "cut_through"
        self.held_bytes = _held_bytes(options)
        self.begin()

    def begin(self) -> int:
        """Clear the messages and figures of the last run."""
        self._order = 0
        self._now = 0
        # (time, order, a message that reaches a node, or a link that becomes free)
        self._events: list[tuple[int, int, _UnderWay | _Link]] = []
        self._links: dict[int, _Link] = {}
        self._owner_waits: dict[int, _OwnerWaits] = {}
        self._arrived: deque[tuple[int, int]] = deque()
        return 0

    def inject(self, time: int, messages: Sequence[Message]) -> None:
        """Take messages. Raises InputError if one has no route."""
        self._run(time)
        self._now = time
        now = (time, self._order)
        for message in messages:
            if not (0 <= message.source < self.platform.npus and 0 <= message.destination < self.platform.npus) or message.bytes < 0:
                raise InputError(f"a message of {message.bytes} bytes from NPU {message.source} to NPU {message.destination} has no route")
            if message.source == message.destination:
                raise InputError(f"a message from NPU {message.source} to itself has no route")
            under_way = _UnderWay(message)
            under_way.owner = self.owners[message.source] if self.owners else 0
            self._go_on(under_way, now)

    def advance(self, until: int | None) -> tuple[int, list[int]] | None:
        """Go on to the next instant at which messages arrive."""
        while self._events and not self._arrived and (until is None or self._events[0][0] <= until):
            self._run(self._events[0][0])
        if not self._arrived or (until is not None and self._arrived[0][0] > until):
            return None
        time = self._arrived[0][0]
        numbers = []
        while self._arrived and self._arrived[0][0] == time:
            numbers.append(self._arrived.popleft()[1])
        return time, numbers

    def statistics(self) -> dict[str, object]:
        """Figures of dimensions and links."""
        figures = self._figures()
        of_links = {"links": listed(self._map, figures)} if self._options.link_figures else {}
        return {**statistics(self._map, totals(self._map, figures), self._now), **of_links}

    def links(self) -> list[LinkLoad]:
        """The load of every link that carried something."""
        return loads(self._map, self._figures(), self._now)

    def owner_loads(self) -> list[OwnerLoad]:
        """The load of every link that carried something, by owner."""
        return owner_loads(
            self._map, ((number, each.bytes, each.busy_ps, each.wait_ps) for number, each in sorted(self._owner_waits.items()))
        )

    def _figures(self) -> list[LinkFigures]:
        """The figures of the links, by number."""
        return [
            LinkFigures(number, link.messages, link.bytes, link.busy_ps, link.largest_queue) for number, link in sorted(self._links.items())
        ]

    def _run(self, until: int) -> None:
        """Let everything happen up to a time."""
        while self._events and self._events[0][0] <= until:
            time, order, what = heapq.heappop(self._events)
            self._now = time
            if isinstance(what, _Link):
                first = what.waiting.popleft()
                if self.owners:
                    self._waits_at(first).queued_ps[first.owner] -= self._transfer_ps(first)
                self._start(first, what, time)
                if what.waiting:
                    heapq.heappush(self._events, (*what.free, what))
            else:
                self._go_on(what, (time, order))

    def _go_on(self, message: _UnderWay, now: tuple[int, int]) -> None:
        """A message is at a node: it has arrived, or requests its next link."""
        if message.fresh and not self._enter(message):
            self._arrived.append((now[0], message.number))
            return
        dimension = self._map.dimensions[message.dimension]
        message.link = dimension.next_link(message.node, message.position)
        number = self._map.number(message.npu, message.dimension, message.link)
        link = self._links.get(number)
        if link is None:
            link = self._links[number] = _Link()
        if link.waiting or link.free > now:
            if not link.waiting:
                heapq.heappush(self._events, (*link.free, link))
            link.waiting.append(message)
            link.largest_queue = max(link.largest_queue, len(link.waiting))
            if self.owners:
                self._waits_at(message).wait(message.owner, link.free[0] - now[0], self._transfer_ps(message))
        else:
            self._start(message, link, now[0])

    def _waits_at(self, message: _UnderWay) -> _OwnerWaits:
        """The loads by owner of the link that a message requests."""
        number = self._map.number(message.npu, message.dimension, message.link)
        if number not in self._owner_waits:
            self._owner_waits[number] = _OwnerWaits(max(self.owners) + 1)
        return self._owner_waits[number]

    def _transfer_ps(self, message: _UnderWay) -> int:
        """How long it takes to put a message at a node on its next link."""
        link_bandwidth = self._map.dimensions[message.dimension].bandwidth_of(message.link)
        bandwidth = min(message.bandwidth, link_bandwidth) if self._cut_through else link_bandwidth
        return delay_ps(self._rounding, 0.0, message.bytes / bandwidth)

    def _enter(self, message: _UnderWay) -> bool:
        """Let a message at an NPU enter the next dimension in which it differs from its destination; False if there is none."""
        platform = self._wired
        for index in range(message.dimension + 1, len(platform.dimensions)):
            node, position = platform.coordinate(message.npu, index), platform.coordinate(message.destination, index)
            if node != position:
                message.dimension, message.node, message.position = index, node, position
                return True
        return False

    def _start(self, message: _UnderWay, link: _Link, now: int) -> None:
        """Put a message on a link."""
        dimension = self._map.dimensions[message.dimension]
        link_bandwidth = dimension.bandwidth_of(message.link)
        bandwidth = message.bandwidth = min(message.bandwidth, link_bandwidth) if self._cut_through else link_bandwidth
        transfer_ns = message.bytes / bandwidth
        router_ns = dimension.router_latency_ns if message.node >= dimension.size else 0.0
        interfaces_ns = dimension.nic_latency_ns if message.fresh else 0.0
        waits = self._waits_at(message) if self.owners else None
        self._move(message)
        last = message.fresh
        if last:
            interfaces_ns += dimension.nic_latency_ns
        # The head moves on before the rest, unless this node needs the whole message.
        whole = not self._cut_through or message.npu == message.destination
        hop = delay_ps(self._rounding, dimension.latency_of(message.link), transfer_ns if whole else 0.0, interfaces_ns, router_ns)
        transfer = delay_ps(self._rounding, 0.0, transfer_ns)
        if max(hop, transfer) >= LONGEST_HOP_PS or now + hop > MAX_PICOSECONDS:
            raise InputError(f"a message of {message.bytes} bytes takes longer than can be simulated")
        heapq.heappush(self._events, (now + hop, self._order, message))
        link.free = (now + transfer, self._order + 1)
        self._order += 2
        link.messages += 1
        link.bytes += message.bytes
        link.busy_ps += transfer
        if waits is not None:
            waits.start(message.owner, message.bytes, transfer)

    def _move(self, message: _UnderWay) -> None:
        """Move a message to the other end of its link. If that is its destination in this dimension, it enters the next dimension."""
        dimension = self._map.dimensions[message.dimension]
        message.node = dimension.target(message.link)
        message.fresh = message.node == message.position
        if message.fresh:
            message.npu += (message.position - self._wired.coordinate(message.npu, message.dimension)) * self._wired.strides[
                message.dimension
            ]


class CompiledFifoNetwork(CompiledNetwork["Fifo"]):
    """The network in C++. Raises ImportError if this package was installed without it."""

    accounting_dimension = "lowest"
    counts_owners = True
    forgets = True

    def __init__(self, options: AnalyticalOptions, link_map: LinkMap, platform: Platform | None = None) -> None:
        from astra_sim_network_analytical import _core

        super().__init__(platform or link_map.platform)
        self._make = _core.Fifo
        self._options = options
        self._map = link_map
        self.held_bytes = _held_bytes(options)
        self._rows = [links.row() for links in link_map.dimensions]

    def make_core(self) -> Fifo:
        """The links of a run."""
        owners = list(self.owners)
        count = max(owners, default=-1) + 1
        return self._make(self._rows, ROUNDINGS.index(self._options.rounding), self._options.switching == "cut_through", owners, count)

    def failure(self, why: str) -> AstraError:
        """A message that has no route, or takes too long."""
        return InputError(why)

    def statistics(self) -> dict[str, object]:
        """Figures of dimensions and links."""
        core = self.core
        of_links = {"links": listed(self._map, self._figures())} if self._options.link_figures else {}
        return {**statistics(self._map, [DimensionLinkFigures(*each) for each in core.totals()], core.now), **of_links}

    def links(self) -> list[LinkLoad]:
        """The load of every link that carried something."""
        return loads(self._map, self._figures(), self.core.now)

    def owner_loads(self) -> list[OwnerLoad]:
        """The load of every link that carried something, by owner."""
        count = max(self.owners, default=-1) + 1
        return owner_loads(
            self._map,
            (
                (number, size, busy, [waits[at : at + count] for at in range(0, len(waits), count)])
                for number, (size, busy, waits) in (self.core.owner_figures() if count else ())
            ),
        )

    def _figures(self) -> list[LinkFigures]:
        """The figures of the links."""
        return [LinkFigures(*link) for link in self.core.figures()]
