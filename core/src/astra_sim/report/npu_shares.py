"""The time of each NPU by use: compute, exposed communication, memory, and idle.

These are the definitions that all tables, `docs/using.md` and the breakdown of the workload `llm` share. Communication is a collective
from its issue to its end, and a message from when it is sent to when it arrives, at both its ends: a receiver that waits for a message
which is not on its way is idle. At each instant an NPU computes, or else communicates (exposed), or else accesses memory, or else is idle;
so these four add up to when it finished. An instant of exposed communication belongs to one of the operations under way: to one of the
first parallelism that the workload names (`ExecutionGraph.exposed_first`), of these to the one that ends next. So if collectives are
served one after another, in whatever order, it is the one that is being served.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from itertools import repeat
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from astra_sim.errors import InputError
from astra_sim.graph import Communicate, Compute, MemoryAccess, Operation, Receive, Send, operation_rows, peer_of
from astra_sim.report.amounts import to_ns
from astra_sim.report.labels import computes
from astra_sim.rows import packed
from astra_sim.run.npu_times import NpuTimes

if TYPE_CHECKING:
    from astra_sim.report.result import Result

Span = tuple[int, int, int]
"""The interval of an operation (picoseconds), its use, and its number."""

_COMPUTE, _COMMUNICATION, _MEMORY = range(3)


class NpuSpans(NamedTuple):
    """The intervals of an NPU, by use."""

    compute: list[Span]
    communication: list[Span]
    memory: list[Span]


class NpuShares(NamedTuple):
    """The time by use of an NPU that represents `members`, until it has finished (picoseconds).

    `communication_ps` is hidden or exposed. `exposed_by` names the operation of exposed time.
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


class NpuUses(NamedTuple):
    """The times (begin and end, ns) in which NPUs that do the same compute, communicate and access memory. Those of one use may overlap."""

    npus: Sequence[int]
    compute: Sequence[tuple[float, float]]
    communication: Sequence[tuple[float, float]]
    memory: Sequence[tuple[float, float]]

    @classmethod
    def of(cls, shares: NpuShares) -> NpuUses:
        """Those of the intervals of `shares`."""
        return cls(shares.members, *([(to_ns(begin), to_ns(end)) for begin, end, _ in spans] for spans in shares.spans))


def npu_uses(result: Result) -> list[NpuUses]:
    """When all NPUs of a run compute, communicate and access memory; NPUs that do the same share an entry.

    Raises InputError if the run was not asked for the times of all NPUs (`simulate(..., npu_times=True)`), or this is a copy of its result.
    """
    uses = result._details.npu_uses
    if uses is None:
        raise InputError("this result has no times of operations: expected one of simulate(..., npu_times=True), and no copy of it")
    return uses


def shares_of(
    times: Sequence[NpuTimes], npus: int, rank_of: Callable[[Operation], int] = lambda operation: 0, only_first: bool = False
) -> list[NpuShares]:
    """The time by use of the simulated NPUs among `npus`, or of the first of them.

    Those that do the same at the same times are looked at once. Exposed time belongs to operations of the lowest rank by `rank_of` first.
    """
    messages = _MessageShares(times, npus)
    known: dict[tuple[object, ...], NpuShares] = {}
    shares = []
    for of_npu in times[:1] if only_first else times:
        arriving = messages.arriving_at(of_npu)
        moments = (packed(each, "q") for each in (of_npu.ready_ps, of_npu.ended_ps, of_npu.sends, of_npu.sent_ps))
        key = id(of_npu.operations), *moments, tuple(arriving.items())
        if key not in known:
            known[key] = _shares(of_npu, _spans(of_npu, arriving), rank_of)
        shares.append(known[key]._replace(members=of_npu.members))
    return shares


def _spans(of_npu: NpuTimes, arriving: Mapping[int, tuple[int, int]]) -> NpuSpans:
    """The intervals of an NPU with their times, without those of zero length."""
    npu_spans, rows = NpuSpans([], [], []), operation_rows(of_npu.operations)
    sent = dict(zip(of_npu.sends, of_npu.sent_ps, strict=True))
    times = repeat(-1) if rows.times is None else rows.times
    where = [_where(kind, npu_spans) for kind in rows.kinds]
    for number, (kind, begin, end, time) in enumerate(zip(rows.kind_of, of_npu.ready_ps, of_npu.ended_ps, times, strict=False)):
        spans = where[kind]
        if spans is None:
            continue
        match operation := rows.kinds[kind]:
            case Compute():  # it may have been ready earlier, and have waited for its unit
                begin = end - (operation.duration_ps if time < 0 else time)
            case Send():
                begin = sent.get(number, end)
            case Receive():
                begin, end = arriving.get(number, (end, end))
        if end > begin:
            spans.append((begin, end, number))
    return npu_spans


def _where(operation: Operation, spans: NpuSpans) -> list[Span] | None:
    """Among which spans an operation is; None: it does nothing itself."""
    match operation:
        case Compute() if not operation.idle:
            return spans.compute if computes(operation) else spans.communication
        case Communicate() | Send() | Receive():
            return spans.communication
        case MemoryAccess():
            return spans.memory
    return None


def _shares(of_npu: NpuTimes, spans: NpuSpans, rank_of: Callable[[Operation], int]) -> NpuShares:
    """The same, added up over the instants between which nothing begins or ends."""
    rows = operation_rows(of_npu.operations)
    ranks = [rank_of(kind) for kind in rows.kinds]
    exposed_by: dict[int, int] = defaultdict(int)
    compute = communication = memory = before = 0
    active = [0, 0, 0]
    under_way: list[tuple[int, int, int]] = []  # rank, end and number of communication
    edges = [(at, kind, span) for kind, each in enumerate(spans) for span in each for at in span[:2]]
    edges.sort(key=itemgetter(0))
    for at, kind, span in edges:
        if at > before:
            time, before = at - before, at
            if active[_COMMUNICATION]:
                communication += time
            if active[_COMPUTE]:
                compute += time
            elif active[_COMMUNICATION]:
                while under_way[0][1] < at:
                    heappop(under_way)
                exposed_by[under_way[0][2]] += time
            elif active[_MEMORY]:
                memory += time
        change = 1 if at == span[0] else -1
        active[kind] += change
        if kind == _COMMUNICATION and change > 0:
            heappush(under_way, (ranks[rows.kind_of[span[2]]], span[1], span[2]))
    finish, exposed = max(of_npu.ended_ps, default=0), sum(exposed_by.values())
    return NpuShares(
        members=of_npu.members,
        operations=of_npu.operations,
        spans=spans,
        finish_ps=finish,
        compute_ps=compute,
        communication_ps=communication,
        exposed_ps=exposed,
        memory_ps=memory,
        exposed_by=exposed_by,
    )


class _MessageShares:
    """When messages between NPUs were on their way: the n-th to arrive from an NPU, of a tag and size, is that of the n-th receive."""

    def __init__(self, times: Sequence[NpuTimes], npus: int) -> None:
        self._npus = npus
        self._on_their_way: dict[tuple[int, int, int, int], list[tuple[int, int, int]]] = defaultdict(list)
        for of_npu in times:
            kinds = operation_rows(of_npu.operations)
            for number, sent in zip(of_npu.sends, of_npu.sent_ps, strict=True):
                kind = kinds.kinds[kinds.kind_of[number]]
                assert isinstance(kind, Send)
                meeting = of_npu.npu, peer_of(kind, of_npu.npu, npus), kind.tag, kind.bytes
                self._on_their_way[meeting].append((of_npu.ended_ps[number], sent, number))
        for sends in self._on_their_way.values():
            sends.sort()

    def arriving_at(self, of_npu: NpuTimes) -> dict[int, tuple[int, int]]:
        """From when to when the message of each receive of an NPU was on its way."""
        receives: dict[tuple[int, int, int, int], list[tuple[int, int]]] = defaultdict(list)
        rows = operation_rows(of_npu.operations)
        kinds = {number: kind for number, kind in enumerate(rows.kinds) if isinstance(kind, Receive)}
        for number, kind_number in enumerate(rows.kind_of) if kinds else ():
            if (kind := kinds.get(kind_number)) is not None:
                meeting = peer_of(kind, of_npu.npu, self._npus), of_npu.npu, kind.tag, kind.bytes
                receives[meeting].append((of_npu.ready_ps[number], number))
        return {
            number: (sent, arrived)
            for meeting, each in receives.items()
            for (_, number), (arrived, sent, _) in zip(sorted(each), self._on_their_way.get(meeting, ()), strict=False)
        }
