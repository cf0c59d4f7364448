"""Details of a result on request: timelines, the critical path, files of the network, ends of NPUs; from the run, or from a pickle."""

from __future__ import annotations

import functools
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from astra_sim.graph import (
    Communicate,
    Composite,
    Compute,
    ExecutionGraph,
    MemoryAccess,
    Operation,
    Receive,
    Send,
    Unit,
    Wait,
    operation_rows,
    peer_of,
)
from astra_sim.network import Network
from astra_sim.report.amounts import to_ns
from astra_sim.report.labels import POINT_TO_POINT, computes, group_of, place_of
from astra_sim.report.network_files import link_loads, network_files
from astra_sim.run.record import CarriedMessage, NpuRecord, RunRecord

if TYPE_CHECKING:
    from astra_sim.report.attribution import Attribution
    from astra_sim.report.audit import Finding
    from astra_sim.report.breakdown import Breakdown
    from astra_sim.report.npu_shares import NpuUses
    from astra_sim.report.unit_times import OperationTimes, UnitTimes
    from astra_sim.run.critical_path import CriticalPath, SegmentOrigin

NpuTables = dict[str, list[dict[str, Any]]]
"""Tables by name, of rows in plain Python."""


MessageKey = tuple[int, int, int, int, int]
"""A message between two operations: source, destination, bytes, tag, and the how many-th of these, from 0 in the order of arrival."""


@attrs.define
class Interval:
    """Something on an NPU that began and ended (nanoseconds): an operation, a phase of a chunk, or a message that an operation sends.

    `lane` is the stream in which it runs: `compute`, `CPU`, `memory`, `waiting`, `recorded communication`, or `collectives`, `send` and
    `receive`, behind the name of the group that communicates, as in `tp collectives`. Intervals are in the lane of their dimension,
    `dimension 0`; single messages of collectives are in `messages sent` and `messages received`. `name` is that of the layer, or of the
    operation if it belongs to none. `layer`, `training_pass` (forward, input_gradient, weight_gradient) and `group` are "" if there
    is none. `bytes` is the size of a collective, a message or an access, and the bytes of each rank before a phase. `operation` is the
    place in the program of the NPU; `chunk` and `phase` count from 0 (-1: none).
    `peer` is the NPU to which a message goes, or from which it comes; `message` is the same for a send, its message and its receive.
    `sent_ns` is when the message of a send was on its way. A receive begins when it is posted, and takes no time if its message is there.
    """

    kind: str
    name: str
    lane: str
    begin_ns: float
    end_ns: float
    layer: str = ""
    training_pass: str = ""
    group: str = ""
    bytes: int | None = None
    operation: int = -1
    chunk: int = -1
    phase: int = -1
    peer: int | None = None
    message: MessageKey | None = None
    sent_ns: float | None = None


@attrs.define
class PathInterval:
    """A part of the critical path: the cause of the time from `begin_ns` to `end_ns`, on which NPU, and its origin.

    `kind` is that of `PathRow`; `operation`, `chunk` and `phase` are those of the `Interval` that contains it (-1: in none).
    """

    kind: str
    name: str
    npu: int
    begin_ns: float
    end_ns: float
    layer: str = ""
    training_pass: str = ""
    collective: str = ""
    group: str = ""
    dimension: int | None = None
    operation: int = -1
    chunk: int = -1
    phase: int = -1


@attrs.frozen(eq=False, repr=False)
class Timeline:
    """The timeline of an NPU: iterate over it for its `Interval`s, those of operations first, in the order of the program.

    The NPU is the first of `npus` NPUs that run the same program. The intervals are kept in columns, so that even a million are small.
    """

    npu: int
    npus: int
    _labels: Sequence[tuple[Any, ...]]
    _label: Sequence[int]
    _begin_ns: Sequence[float]
    _end_ns: Sequence[float]
    _operation: Sequence[int]
    _phases: Mapping[int, tuple[int, int]]  # chunk and phase, of intervals with one
    _messages: Mapping[int, tuple[MessageKey | None, float | None]]

    @classmethod
    def of(cls, npu: int, npus: int, intervals: Iterable[Interval]) -> Timeline:
        """The intervals in columns; their common values are stored once."""
        known: dict[tuple[Any, ...], int] = {}
        label, operation = array("I"), array("i")
        begins: list[float] = []
        ends: list[float] = []
        phases: dict[int, tuple[int, int]] = {}
        messages: dict[int, tuple[MessageKey | None, float | None]] = {}
        for number, each in enumerate(intervals):
            key = each.kind, each.name, each.lane, each.layer, each.training_pass, each.group, each.bytes, each.peer
            label.append(known.setdefault(key, len(known)))
            begins.append(each.begin_ns)
            ends.append(each.end_ns)
            operation.append(each.operation)
            if each.chunk >= 0:
                phases[number] = each.chunk, each.phase
            if each.message is not None or each.sent_ns is not None:
                messages[number] = each.message, each.sent_ns
        return cls(npu, npus, list(known), label, begins, ends, operation, phases, messages)

    def __iter__(self) -> Iterator[Interval]:
        columns = zip(self._label, self._begin_ns, self._end_ns, self._operation, strict=True)
        for number, (label, begin, end, operation) in enumerate(columns):
            kind, name, lane, layer, training_pass, group, size, peer = self._labels[label]
            chunk, phase = self._phases.get(number, (-1, -1))
            message, sent_ns = self._messages.get(number, (None, None))
            yield Interval(
                kind, name, lane, begin, end, layer, training_pass, group, size, operation, chunk, phase, peer, message, sent_ns
            )  # fmt: skip


@attrs.frozen(eq=False, repr=False)
class RunTimeline:
    """The same, made from the record of the run during iteration. A pickled or deep copy is a `Timeline`, without the graph."""

    _graph: ExecutionGraph
    _platform_npus: int
    _group_names: Mapping[tuple[int, ...], str]
    _record: NpuRecord
    _carried: Sequence[CarriedMessage] = ()

    @property
    def npu(self) -> int:
        """The NPU."""
        return self._record.npu

    @property
    def npus(self) -> int:
        """The number of NPUs that run the same program."""
        return self._record.npus

    def __reduce__(self) -> tuple[Any, ...]:
        result = Timeline.of(self.npu, self.npus, self)
        return Timeline, tuple(getattr(result, field.name) for field in attrs.fields(Timeline))

    def __iter__(self) -> Iterator[Interval]:
        record, operations = self._record, self._record.operations
        rows = operation_rows(operations)
        described = [self._described(kind) for kind in rows.kinds]
        messages = self._messages()
        sent = dict(zip(record.sends.operation, record.sends.begun_ps, strict=True)) if messages else {}
        for index, operation in enumerate(operations):
            begin, end = record.begin_ps[index], record.end_ps[index]
            if isinstance(operation, Compute):
                begin = max(begin, end - operation.duration_ps)  # it was ready earlier if it had to wait for its unit
            if isinstance(operation, Composite) or getattr(operation, "idle", False):  # its parts are rows of their own
                continue
            if end > begin or isinstance(operation, Receive):
                kind, lane, layer, training_pass, group = described[rows.kind_of[index]]
                size: int | None = getattr(operation, "bytes", None)
                message = messages.get(index)
                peer = None if message is None else message[message[0] == self.npu]
                yield Interval(
                    kind, self._graph.layer_of(operation), lane, to_ns(begin), to_ns(end), layer, training_pass, group, size, index,
                    peer=peer, message=message, sent_ns=to_ns(sent[index]) if index in sent else None,
                )  # fmt: skip
        for phase in record.phases:
            operation = operations[phase.operation]
            layer, training_pass = place_of(operation, self._graph)
            group = group_of(operation, self._graph, self._group_names, phase.plan.logical)
            name = f"{self._graph.layer_of(operation)} chunk {phase.chunk} phase {phase.phase + 1}"
            yield Interval(
                phase.plan.collective.value, name, lane_of_dimensions(phase.dimensions or (phase.plan.dimension,)),
                to_ns(phase.started_ps), to_ns(phase.ended_ps), layer, training_pass, group, phase.plan.bytes,
                phase.operation, phase.chunk, phase.phase,
            )  # fmt: skip
        for index, begun in zip(record.sends.operation, record.sends.begun_ps, strict=True):
            for dimension in record.sends.sent[rows.kind_of[index]]:
                operation = operations[index]
                _, _, layer, training_pass, group = described[rows.kind_of[index]]
                name, size = f"{self._graph.layer_of(operation)} message".strip(), getattr(operation, "bytes", None)
                message = messages.get(index)
                yield Interval(
                    "message", name, lane_of_dimensions((dimension,)), to_ns(begun), to_ns(record.end_ps[index]), layer, training_pass,
                    group, size, index, peer=None if message is None else message[1], message=message,
                )  # fmt: skip

        for number, carried in enumerate(self._carried):
            sends = carried.source == self.npu
            if not sends and carried.destination != self.npu:
                continue
            _, _, layer, training_pass, group = self._described(carried.operation)
            name = f"{self._graph.layer_of(carried.operation)} chunk {carried.chunk} phase {carried.phase + 1}"
            lane = f"messages {'sent' if sends else 'received'}"
            yield Interval(
                "message sent" if sends else "message received", name, lane, to_ns(carried.begin_ps), to_ns(carried.end_ps), layer,
                training_pass, group, carried.bytes, carried.sent_by if sends else carried.number, carried.chunk, carried.phase,
                carried.destination if sends else carried.source, (carried.source, carried.destination, carried.bytes, -1, number),
            )  # fmt: skip

    def _described(self, operation: Operation) -> tuple[str, str, str, str, str]:
        """Kind, lane, layer, pass and group of an operation."""
        group = group_of(operation, self._graph, self._group_names)
        return _kind(operation), _lane(operation, group), *place_of(operation, self._graph), group

    def _messages(self) -> dict[int, MessageKey]:
        """The messages that operations send and receive, by the place of these. They meet in the order in which they arrive."""
        record, operations = self._record, self._record.operations
        rows = operation_rows(operations)
        ends: dict[int, tuple[int, int, int, int, bool]] = {}
        for number, kind in enumerate(rows.kinds):
            if isinstance(kind, (Send, Receive)):
                peer = peer_of(kind, self.npu, self._platform_npus)
                sends = isinstance(kind, Send)
                source, destination = (self.npu, peer) if sends else (peer, self.npu)
                ends[number] = source, destination, kind.bytes, kind.tag, sends
        if not ends:
            return {}
        rows_with_ends = [index for index, number in enumerate(rows.kind_of) if number in ends]
        counts: dict[tuple[int, int, int, int, bool], int] = {}
        message_keys: dict[int, MessageKey] = {}
        for index in sorted(rows_with_ends, key=lambda index: (record.end_ps[index], record.begin_ps[index], index)):
            key = ends[rows.kind_of[index]]
            place = counts.get(key, 0)
            counts[key] = place + 1
            message_keys[index] = (*key[:4], place)
        return message_keys


def lane_of_dimensions(dimensions: Sequence[int]) -> str:
    """The lane of intervals in some dimensions of a program."""
    return "dimension " + " and ".join(map(str, dimensions))


def path_intervals(path: CriticalPath, graph: ExecutionGraph, group_names: Mapping[tuple[int, ...], str]) -> Iterator[PathInterval]:
    """The parts of a critical path, in time; those of one place and kind that follow each other are one."""
    last: PathInterval | None = None
    known: dict[int, tuple[str, str, str, str, str]] = {}
    for part in path.segments:
        origin = part.origin
        if not part.ps:
            continue
        if id(origin) not in known:
            known[id(origin)] = _words_of(origin, graph, group_names)
        name, layer, training_pass, collective, group = known[id(origin)]
        where = part.dimension, origin.index, origin.chunk, origin.phase
        begin, end = to_ns(part.begin), to_ns(part.begin + part.ps)
        path_interval = PathInterval(part.kind.value, name, part.npu, begin, end, layer, training_pass, collective, group, *where)
        if last is not None and last.end_ns == begin and attrs.evolve(last, begin_ns=begin, end_ns=end) == path_interval:
            last.end_ns = end
            continue
        if last is not None:
            yield last
        last = path_interval
    if last is not None:
        yield last


def _words_of(origin: SegmentOrigin, graph: ExecutionGraph, group_names: Mapping[tuple[int, ...], str]) -> tuple[str, str, str, str, str]:
    """The name, layer, training pass, collective and group of the origin of a part of the path; "" if there is none."""
    operation = origin.operation
    if operation is None:
        return "", "", "", "", ""
    collective = operation.collective.value if isinstance(operation, Communicate) else ""
    return graph.layer_of(operation), *place_of(operation, graph), collective, group_of(operation, graph, group_names, origin.ranks)


@attrs.frozen(eq=False, repr=False)
class Details:
    """Details of a result on request."""

    npu_end_ps: Sequence[int]
    _reports: dict[str, str]
    timelines: Sequence[Timeline | RunTimeline]
    findings: list[Finding]
    _tables: dict[bool, NpuTables | None] = attrs.field(factory=lambda: {True: None, False: None})
    unit_times: list[UnitTimes] | None = None
    attribution: Attribution | None = None
    path: Sequence[PathInterval] | None = None
    operation_times: list[OperationTimes] | None = None  # which a copy does not have
    npu_uses: list[NpuUses] | None = None  # nor these

    @property
    def has_npu_tables(self) -> bool:
        """Whether the run has kept the times of all NPUs."""
        return self._tables[True] is not None

    def npu_tables(self, every: bool) -> NpuTables | None:
        """Tables of the time of all NPUs, with all rows or a few; None if they were not asked for."""
        return self._tables[every]

    def network_reports(self) -> dict[str, str]:
        """Files of the network, by name."""
        return dict(self._reports)


@attrs.frozen(eq=False, repr=False)
class RunDetails:
    """The same, computed from the run on request. A pickled or deep copy is `Details`, without the graph and the network.

    `audit` finds parts that are faster than the wires allow.
    """

    _graph: ExecutionGraph
    _run: RunRecord
    _backend: Network
    _audit: Callable[[], list[Finding]]
    _group_names: Mapping[tuple[int, ...], str] = attrs.field(factory=dict)

    def __reduce__(self) -> tuple[Any, ...]:
        tables = {every: self.npu_tables(every) for every in (True, False)}
        path = None if self.path is None else list(self.path)
        return Details, (
            array("q", self.npu_end_ps),
            self.network_reports(),
            self.timelines,
            self.findings,
            tables,
            self.unit_times,
            self.attribution,
            path,
        )

    @functools.cached_property
    def findings(self) -> list[Finding]:
        """Parts of the result that are faster than the wires allow."""
        return self._audit()

    @property
    def has_npu_tables(self) -> bool:
        """Whether the run has kept the times of all NPUs."""
        return self._run.npu_times is not None

    def npu_tables(self, every: bool) -> NpuTables | None:
        """Tables of the time of all NPUs, with all rows or a few; None if they were not asked for."""
        return None if self._breakdown is None else self._breakdown.tables(every)

    @property
    def npu_uses(self) -> list[NpuUses] | None:
        """When NPUs compute, communicate and access memory; None if that was not asked for."""
        from astra_sim.report.npu_shares import NpuUses

        return None if self._breakdown is None else [NpuUses.of(share) for share in self._breakdown.shares]

    @functools.cached_property
    def _breakdown(self) -> Breakdown | None:
        """The times of all NPUs by use; None if the run has not kept them."""
        if self._run.npu_times is None:
            return None
        from astra_sim.report.breakdown import Breakdown  # which a run without these tables does not need

        npus, links = self._backend.platform.npus, link_loads(self._backend)
        return Breakdown(self._run.npu_times, npus, links, self._graph, self._group_names)

    @functools.cached_property
    def attribution(self) -> Attribution | None:
        """The time of NPU 0 by use; None if it has very many operations, or times of others that it depends on are not kept."""
        from astra_sim.report.attribution import MOST_OPERATIONS, attribution_of, share_of_first

        run, first = self._run, self._run.observed[0]
        if len(first.operations) > MOST_OPERATIONS:
            return None
        share = share_of_first(self._graph, first, run.npu_times, self._backend.platform.npus, self._group_names)
        return None if share is None else attribution_of(share, self._graph, run.finish_ps)

    @property
    def unit_times(self) -> list[UnitTimes] | None:
        """The busy time of the units of all NPUs; None if it was not requested."""
        from astra_sim.report.unit_times import unit_times

        return None if self._run.npu_times is None else unit_times(self._run.npu_times)

    @property
    def operation_times(self) -> list[OperationTimes] | None:
        """When all NPUs did their operations; None if that was not asked for."""
        from astra_sim.report.unit_times import operation_times

        return None if self._run.npu_times is None else operation_times(self._run.npu_times)

    @property
    def npu_end_ps(self) -> Sequence[int]:
        """When each simulated NPU had done its last operation."""
        return self._run.npu_end_ps

    @property
    def timelines(self) -> Sequence[Timeline | RunTimeline]:
        """The timelines of the observed NPUs, NPU 0 first."""
        npus = self._backend.platform.npus
        carried = self._run.carried or ()
        return [RunTimeline(self._graph, npus, self._group_names, record, carried) for record in self._run.observed]

    @property
    def path(self) -> Iterable[PathInterval] | None:
        """The critical path, in time; None if it was not asked for."""
        return None if self._run.path is None else path_intervals(self._run.path, self._graph, self._group_names)

    def network_reports(self) -> dict[str, str]:
        """Files of the network, by name."""
        return network_files(self._backend)


def _lane(operation: Operation, group: str) -> str:
    """The stream in which an operation runs; that of communication bears the name of its group."""
    match operation:
        case Compute() if not computes(operation):
            return "recorded communication"
        case Compute():
            return "CPU" if operation.unit is Unit.CPU else "compute"
        case MemoryAccess():
            return "memory"
        case Wait():
            return "waiting"
    stream = "collectives" if isinstance(operation, Communicate) else type(operation).__name__.lower()
    return f"{group} {stream}" if group not in ("", POINT_TO_POINT) else stream


def _kind(operation: Operation) -> str:
    """The name of an operation in the timeline."""
    if isinstance(operation, Communicate):
        return operation.collective.value
    return "communicate" if isinstance(operation, Compute) and not computes(operation) else type(operation).__name__.lower()
