"""What each NPU spends its time on: compute, communication that nothing hides, memory, and nothing at all.

Communication is a collective from its issue to its end, and a message from when it is sent to when it arrives, at both its ends: a receiver
that waits for a message which is not on its way is idle. At each instant an NPU computes, or else communicates (exposed), or else accesses
memory, or else is idle; so these four add up to when it finished.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import NamedTuple

import attrs

from astra_sim.graph import Communicate, Compute, MemoryAccess, Operation, Receive, Send, operation_rows, peer_of
from astra_sim.report.details import computes
from astra_sim.rows import packed
from astra_sim.run.npu_times import NpuTimes


class Span(NamedTuple):
    """What an operation, by its number, does from `begin_ps` to `end_ps`."""

    begin_ps: int
    end_ps: int
    operation: int

    @property
    def ps(self) -> int:
        """How long it is."""
        return self.end_ps - self.begin_ps


@attrs.frozen(eq=False)
class NpuSpans:
    """What an NPU does, by what it is."""

    compute: list[Span] = attrs.field(factory=list)
    communication: list[Span] = attrs.field(factory=list)
    memory: list[Span] = attrs.field(factory=list)


@attrs.frozen(eq=False)
class NpuShares:
    """What an NPU that stands for `members` spends its time on until it has finished (picoseconds).

    `communication_ps` is hidden or exposed. `exposed_by` says which operation is waited for: of those under way at an instant the one that
    began first.
    """

    members: Sequence[int]
    operations: Sequence[Operation]
    spans: NpuSpans
    finish_ps: int
    compute_ps: int
    communication_ps: int
    exposed_ps: int
    memory_ps: int
    exposed_by: Mapping[int, int]

    @property
    def idle_ps(self) -> int:
        """In which it does nothing."""
        return self.finish_ps - self.compute_ps - self.exposed_ps - self.memory_ps


def shares_of(times: Sequence[NpuTimes], npus: int) -> list[NpuShares]:
    """What the NPUs that were simulated of `npus` spend their time on. Those that do the same at the same times are looked at once."""
    messages = _Messages(times, npus)
    known: dict[tuple[object, ...], NpuShares] = {}
    shares = []
    for own in times:
        arriving = messages.arriving_at(own)
        moments = (packed(each, "q") for each in (own.ready_ps, own.ended_ps, own.sends, own.sent_ps))
        key = id(own.operations), *moments, tuple(arriving.items())
        if key not in known:
            known[key] = _shares(own, _spans(own, arriving))
        shares.append(attrs.evolve(known[key], members=own.members))
    return shares


def _spans(own: NpuTimes, arriving: Mapping[int, tuple[int, int]]) -> NpuSpans:
    """What an NPU does, and when."""
    found, rows = NpuSpans(), operation_rows(own.operations)
    sent = dict(zip(own.sends, own.sent_ps, strict=True))
    times = repeat(-1) if rows.times is None else rows.times
    for number, (kind, ready, ended, time) in enumerate(zip(rows.kind_of, own.ready_ps, own.ended_ps, times, strict=False)):
        operation = rows.kinds[kind]
        match operation:
            case Compute() if not operation.idle:
                span = Span(ended - (operation.duration_ps if time < 0 else time), ended, number)
                (found.compute if computes(operation) else found.communication).append(span)
            case Communicate():
                found.communication.append(Span(ready, ended, number))
            case Send():
                found.communication.append(Span(sent.get(number, ended), ended, number))
            case Receive():
                found.communication.append(Span(*arriving.get(number, (ended, ended)), number))
            case MemoryAccess():
                found.memory.append(Span(ready, ended, number))
    return found


def _shares(own: NpuTimes, spans: NpuSpans) -> NpuShares:
    """The same, added up."""
    exposed_by: dict[int, int] = defaultdict(int)
    compute = communication = memory = 0
    for time, computing, under_way, accessing in _instants(spans):
        communication += time if under_way is not None else 0
        if computing:
            compute += time
        elif under_way is not None:
            exposed_by[under_way] += time
        elif accessing:
            memory += time
    finish, exposed = max(own.ended_ps, default=0), sum(exposed_by.values())
    return NpuShares(own.members, own.operations, spans, finish, compute, communication, exposed, memory, exposed_by)


def _instants(spans: NpuSpans) -> Iterator[tuple[int, bool, int | None, bool]]:
    """The times between which nothing begins or ends: how long, whether the NPU computes, which communication is under way, and memory."""
    edges: list[tuple[int, int, int, Span]] = []
    for kind, each in enumerate((spans.compute, spans.communication, spans.memory)):
        for span in each:
            if span.ps:
                edges += ((span.begin_ps, kind, 1, span), (span.end_ps, kind, -1, span))
    edges.sort(key=lambda edge: edge[0])
    active, before = [0, 0, 0], 0
    under_way: list[Span] = []
    for at, kind, change, span in edges:
        if at > before:
            while under_way and under_way[0].end_ps <= before:
                heapq.heappop(under_way)
            first = under_way[0].operation if active[1] else None
            yield at - before, active[0] > 0, first, active[2] > 0
            before = at
        active[kind] += change
        if kind == 1 and change > 0:
            heapq.heappush(under_way, span)


class _Messages:
    """When messages between NPUs were on their way: the n-th to arrive from an NPU, of a tag and size, is that of the n-th receive."""

    def __init__(self, times: Sequence[NpuTimes], npus: int) -> None:
        self._npus = npus
        self._on_their_way: dict[tuple[int, int, int, int], list[tuple[int, int, int]]] = defaultdict(list)
        for own in times:
            kinds = operation_rows(own.operations)
            for number, sent in zip(own.sends, own.sent_ps, strict=True):
                kind = kinds.kinds[kinds.kind_of[number]]
                assert isinstance(kind, Send)
                meeting = own.npu, peer_of(kind, own.npu, npus), kind.tag, kind.bytes
                self._on_their_way[meeting].append((own.ended_ps[number], sent, number))
        for sends in self._on_their_way.values():
            sends.sort()

    def arriving_at(self, own: NpuTimes) -> dict[int, tuple[int, int]]:
        """From when to when the message of each receive of an NPU was on its way."""
        receives: dict[tuple[int, int, int, int], list[tuple[int, int]]] = defaultdict(list)
        rows = operation_rows(own.operations)
        kinds = {number: kind for number, kind in enumerate(rows.kinds) if isinstance(kind, Receive)}
        for number, kind_number in enumerate(rows.kind_of) if kinds else ():
            if (kind := kinds.get(kind_number)) is not None:
                meeting = peer_of(kind, own.npu, self._npus), own.npu, kind.tag, kind.bytes
                receives[meeting].append((own.ready_ps[number], number))
        return {
            number: (sent, arrived)
            for meeting, each in receives.items()
            for (_, number), (arrived, sent, _) in zip(sorted(each), self._on_their_way.get(meeting, ()), strict=False)
        }
