"""Requests of compute units to memory channels: loads, stores and counters, as messages between NPUs.

A load is a request to a channel and a line back, a store a line to a channel and an acknowledgement back. A counter lives at a channel of
the GPU that waits for it: a release is a message to that channel, an acquire a request to it whose reply leaves when the counter has the
value. Each counter has a tag of its own, so releases of one are never taken for those of another.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence

import attrs
from astra_sim.graph import Compute, Operation, Pass, Receive, Send, Wait
from astra_sim.schedule import Peer

_LOAD, _LINE, _STORE, _ACKNOWLEDGE, _FIRST_COUNTER = range(5)


@attrs.frozen
class GpuParts:
    """The NPUs of a GPU: its compute units, then its memory channels. GPUs follow each other."""

    units: int
    channels: int

    @property
    def npus(self) -> int:
        """NPUs of a GPU."""
        return self.units + self.channels

    def unit(self, gpu: int, number: int) -> int:
        """The NPU of a compute unit."""
        return gpu * self.npus + number

    def channel(self, gpu: int, number: int) -> int:
        """The NPU of a memory channel."""
        return gpu * self.npus + self.units + number


@attrs.frozen
class RequestLimits:
    """Sizes of requests (bytes), loads and stores of a workgroup in flight, and the time to add a line to another (ps a byte)."""

    line_bytes: int
    control_bytes: int
    loads: int
    stores: int
    add_ps_per_byte: float


class Requests:
    """The operations of all NPUs, which grow request by request. Operations are named by their numbers in the program of their NPU."""

    def __init__(self, parts: GpuParts, limits: RequestLimits) -> None:
        self.parts = parts
        self.limits = limits
        self.programs: dict[int, list[Operation]] = defaultdict(list)
        self.lines = 0
        """Loads and stores."""
        self._tags: dict[Hashable, int] = {}
        self._releases: dict[tuple[int, int], list[int]] = defaultdict(list)

    def _add(self, npu: int, operation: Operation) -> int:
        self.programs[npu].append(operation)
        return len(self.programs[npu]) - 1

    def _send(self, source: int, to: int, size: int, tag: int, after: Sequence[int]) -> int:
        """Send a message when operations of its source have ended. Returns the number of the receive, at the other NPU."""
        self._add(source, Send(tuple(after), Peer("rank", to), size, tag))
        return self._add(to, Receive((), Peer("rank", source), size, tag))

    def _exchange(self, unit: int, channel: int, sizes: tuple[int, int], tags: tuple[int, int], after: Sequence[int]) -> int:
        """A request to a channel and its reply. Returns the number of the reply's receive."""
        arrived = self._send(unit, channel, sizes[0], tags[0], after)
        return self._send(channel, unit, sizes[1], tags[1], (arrived,))

    # -- Data ----------------------------------------------------------------------------------------------------------

    def channel_of(self, gpu: int, address: int) -> int:
        """The channel of a byte of a GPU's memory: lines are dealt out to channels one by one."""
        return self.parts.channel(gpu, address // self.limits.line_bytes % self.parts.channels)

    def load(self, unit: int, gpu: int, address: int, size: int, after: Sequence[int]) -> int:
        """Load a line, or a part of one. Returns the operation that has the data."""
        self.lines += 1
        return self._exchange(unit, self.channel_of(gpu, address), (self.limits.control_bytes, size), (_LOAD, _LINE), after)

    def store(self, unit: int, gpu: int, address: int, size: int, after: Sequence[int]) -> int:
        """Store a line, or a part of one. Returns the operation that has the acknowledgement."""
        self.lines += 1
        sizes = size, self.limits.control_bytes
        return self._exchange(unit, self.channel_of(gpu, address), sizes, (_STORE, _ACKNOWLEDGE), after)

    def add(self, unit: int, size: int, terms: Sequence[int]) -> int:
        """Add up lines that have arrived, in the compute unit. Returns the operation that has the sum."""
        duration = round(self.limits.add_ps_per_byte * size * (len(terms) - 1))
        return self._add(unit, Compute(tuple(terms), duration, name="reduce"))

    def join(self, unit: int, operations: Iterable[int]) -> int:
        """An operation that ends with the last of some."""
        return self._add(unit, Wait(tuple(dict.fromkeys(operations)), (), -1, Pass.FORWARD))

    # -- Counters ------------------------------------------------------------------------------------------------------

    def _counter(self, gpu: int, key: Hashable) -> tuple[int, int]:
        """The channel and the tag of a counter at a GPU. Acquires have the tag above."""
        number = self._tags.setdefault((gpu, key), len(self._tags))
        return self.parts.channel(gpu, number % self.parts.channels), _FIRST_COUNTER + 3 * number

    def release(self, unit: int, gpu: int, key: Hashable, after: Sequence[int]) -> None:
        """Add one to a counter at a GPU."""
        channel, tag = self._counter(gpu, key)
        self._releases[channel, tag].append(self._send(unit, channel, self.limits.control_bytes, tag, after))

    def acquire(self, unit: int, gpu: int, key: Hashable, releases: range, after: Sequence[int]) -> Acquire:
        """Wait for some of the releases of a counter at the unit's GPU, in the order in which they are written.

        `finish` must follow when all releases are there.
        """
        channel, tag = self._counter(gpu, key)
        arrived = self._send(unit, channel, self.limits.control_bytes, tag + 1, after)
        reply = self._add(unit, Receive((), Peer("rank", channel), self.limits.control_bytes, tag + 2))
        return Acquire(unit, channel, tag, releases, arrived, reply)

    def finish(self, acquires: Iterable[Acquire]) -> None:
        """Let the channels reply to acquires: each when it and the releases that it waits for have arrived."""
        for each in acquires:
            released = self._releases[each.channel, each.tag]
            after = each.arrived, *(released[number] for number in each.releases)
            self._add(each.channel, Send(after, Peer("rank", each.unit), self.limits.control_bytes, each.tag + 2))

    def released(self, gpu: int, key: Hashable) -> int:
        """How often a counter at a GPU is released."""
        return len(self._releases[self._counter(gpu, key)])


@attrs.frozen
class Acquire:
    """An acquire whose reply has not been written yet: its compute unit, channel, counter's tag, releases, request and reply."""

    unit: int
    channel: int
    tag: int
    releases: range
    arrived: int
    reply: int
