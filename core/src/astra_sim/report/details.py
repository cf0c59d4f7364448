"""What a result gives on request: timelines, files of the network, ends of NPUs; from the run, or from a pickle."""

from __future__ import annotations

import functools
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from astra_sim._boundary import call
from astra_sim.graph import Communicate, Compute, ExecutionGraph, Operation, Unit, operation_rows
from astra_sim.network import EventNetwork, Network
from astra_sim.run.record import NpuRecord, RunRecord
from astra_sim.units import PS_PER_NS

if TYPE_CHECKING:
    from astra_sim.report.audit import Finding
    from astra_sim.report.breakdown import Breakdown
    from astra_sim.report.unit_times import UnitTimes

NpuTables = dict[str, list[dict[str, Any]]]
"""Tables by name, of rows in plain Python."""


def to_ns(picoseconds: int) -> int | float:
    """Picoseconds as nanoseconds; whole where they are whole."""
    whole, rest = divmod(picoseconds, PS_PER_NS)
    return picoseconds / PS_PER_NS if rest else whole


@attrs.define
class Interval:
    """Something on an NPU that began and ended (nanoseconds): an operation, a phase of a chunk, or a message that an operation sends.

    Operations are in the lanes `program` and `collectives`, what is on its way in that of a dimension.
    """

    kind: str
    name: str
    lane: str
    begin_ns: float
    end_ns: float


@attrs.frozen(eq=False, repr=False)
class Timeline:
    """What happened on an NPU: iterate over it for its `Interval`s, those of operations first, in the order of the program.

    The NPU is the first of `npus` NPUs that run the same program. The intervals are kept in columns, so that even a million are small.
    """

    npu: int
    npus: int
    _words: tuple[list[str], list[str], list[str]]
    _begin_ns: Sequence[float]
    _end_ns: Sequence[float]

    def __iter__(self) -> Iterator[Interval]:
        return map(Interval, *self._words, self._begin_ns, self._end_ns)


@attrs.frozen(eq=False, repr=False)
class RunTimeline:
    """The same, made from the record of the run while somebody iterates. A pickled or deep copy is a `Timeline`, without the graph."""

    _layers: Sequence[str]
    _record: NpuRecord

    @property
    def npu(self) -> int:
        """The NPU."""
        return self._record.npu

    @property
    def npus(self) -> int:
        """How many NPUs run the same program."""
        return self._record.npus

    def __reduce__(self) -> tuple[Any, ...]:
        known: dict[str, str] = {}  # equal texts are one object, which is pickled once
        words: tuple[list[str], list[str], list[str]] = ([], [], [])
        begins, ends = [], []
        for interval in self:
            for column, word in zip(words, (interval.kind, interval.name, interval.lane), strict=True):
                column.append(known.setdefault(word, word))
            begins.append(interval.begin_ns)
            ends.append(interval.end_ns)
        return Timeline, (self.npu, self.npus, words, begins, ends)

    def __iter__(self) -> Iterator[Interval]:
        record, operations = self._record, self._record.operations
        for index, operation in enumerate(operations):
            begin, end = record.begin_ps[index], record.end_ps[index]
            if isinstance(operation, Compute):
                begin = max(begin, end - operation.duration_ps)  # it was ready earlier where it had to wait for its unit
            if end > begin and not getattr(operation, "idle", False):
                kind = operation.collective.value if isinstance(operation, Communicate) else _kind(operation)
                lane = "collectives" if isinstance(operation, Communicate) else "program"
                yield Interval(kind, self._name(operation), lane, to_ns(begin), to_ns(end))
        for phase in record.phases:
            name = f"{self._name(operations[phase.operation])} chunk {phase.chunk} phase {phase.phase + 1}"
            lane = "dimension " + " and ".join(map(str, phase.dimensions or (phase.plan.dimension,)))
            yield Interval(phase.plan.collective.value, name, lane, to_ns(phase.started_ps), to_ns(phase.ended_ps))
        kind_of = operation_rows(operations).kind_of
        for index, begun in zip(record.sends.operation, record.sends.begun_ps, strict=True):
            for dimension in record.sends.sent[kind_of[index]]:
                name = f"{self._name(operations[index])} message".strip()
                yield Interval("message", name, f"dimension {dimension}", to_ns(begun), to_ns(record.end_ps[index]))

    def _name(self, operation: Operation) -> str:
        """The layer of an operation, or its own name."""
        name: str = self._layers[operation.layer] if operation.layer >= 0 else getattr(operation, "name", "")
        return name


@attrs.frozen(eq=False, repr=False)
class Details:
    """What a result gives on request."""

    npu_end_ps: Sequence[int]
    _reports: dict[str, str]
    timelines: Sequence[Timeline | RunTimeline]
    findings: list[Finding]
    _tables: dict[bool, NpuTables | None] = attrs.field(factory=lambda: {True: None, False: None})
    unit_times: list[UnitTimes] | None = None

    @property
    def has_npu_tables(self) -> bool:
        """Whether the run has kept the times of all NPUs."""
        return self._tables[True] is not None

    def npu_tables(self, every: bool) -> NpuTables | None:
        """Tables of the time of all NPUs, with all rows or a few; None where they were not asked for."""
        return self._tables[every]

    def network_reports(self) -> dict[str, str]:
        """Files of the network, by name."""
        return dict(self._reports)


@attrs.frozen(eq=False, repr=False)
class RunDetails:
    """The same, computed from the run on request. A pickled or deep copy is `Details`, without the graph and the network.

    `audit` finds what is faster than the wires allow.
    """

    _graph: ExecutionGraph
    _run: RunRecord
    _backend: Network
    _audit: Callable[[], list[Finding]]
    _group_names: Mapping[tuple[int, ...], str] = attrs.field(factory=dict)
    _breakdown: list[Breakdown] = attrs.field(factory=list)  # made when it is asked for

    def __reduce__(self) -> tuple[Any, ...]:
        tables = {every: self.npu_tables(every) for every in (True, False)}
        return Details, (array("q", self.npu_end_ps), self.network_reports(), self.timelines, self.findings, tables, self.unit_times)

    @functools.cached_property
    def findings(self) -> list[Finding]:
        """Where the result is faster than the wires allow."""
        return self._audit()

    @property
    def has_npu_tables(self) -> bool:
        """Whether the run has kept the times of all NPUs."""
        return self._run.npu_times is not None

    def npu_tables(self, every: bool) -> NpuTables | None:
        """Tables of the time of all NPUs, with all rows or a few; None where they were not asked for."""
        if self._run.npu_times is None:
            return None
        if not self._breakdown:
            from astra_sim.report.breakdown import breakdown  # which needs this module

            self._breakdown.append(breakdown(self._graph, self._run.npu_times, self._backend, self._group_names))
        return self._breakdown[0].tables(every)

    @property
    def unit_times(self) -> list[UnitTimes] | None:
        """How long the units of all NPUs are busy; None where that was not asked for."""
        if self._run.npu_times is None:
            return None
        from astra_sim.report.unit_times import unit_times  # which needs this module

        return unit_times(self._run.npu_times)

    @property
    def npu_end_ps(self) -> Sequence[int]:
        """When each simulated NPU had done its last operation."""
        return self._run.npu_end_ps

    @property
    def timelines(self) -> Sequence[Timeline | RunTimeline]:
        """What happened on the NPUs that were observed, NPU 0 first."""
        return [RunTimeline(self._graph.layers, record) for record in self._run.observed]

    def network_reports(self) -> dict[str, str]:
        """Files of the network, by name."""
        return call("reports of the network", self._backend.reports) if isinstance(self._backend, EventNetwork) else {}


def computes(operation: Compute) -> bool:
    """Whether an operation is computing that belongs to a layer, not communication that takes a recorded time."""
    return not operation.idle and operation.unit in (Unit.ACCELERATOR, Unit.CPU)


def _kind(operation: Operation) -> str:
    """What to call an operation in the timeline."""
    return "communicate" if isinstance(operation, Compute) and not computes(operation) else type(operation).__name__.lower()
