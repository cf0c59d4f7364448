"""Composites of a run: the time of each, and the operations it represents in the record of the run.

A composite is one task of the engine. In the record its operations are rows after those of the program, at the times at which they
began and ended within it, and its collectives have the phases, bytes and messages that they have when they run alone.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import accumulate, chain, repeat
from typing import TYPE_CHECKING, Any, NamedTuple

import attrs

from astra_sim.engine.interface import EngineType, PhaseStepRecord, PhaseStepRecords
from astra_sim.graph import Communicate, Composite, Compute, ExecutionGraph, Operation, Wait, graph_kinds, operation_rows
from astra_sim.platform import LogicalDimension
from astra_sim.rows import Column, Dependencies, Rows, column, packed, view
from astra_sim.run.alone import AloneRuns

if TYPE_CHECKING:
    from astra_sim.run.described_plans import PlannedPhase
    from astra_sim.run.record import RunRecord


Within = Callable[[Composite], tuple[int, list[tuple[Operation, int, int]]]]
"""The time of a composite, and its operations, each with its begin and end from that of the composite (picoseconds)."""


class ChainTimes(NamedTuple):
    """When the operations of a composite, and of those that it continues, begin and end (picoseconds from the begin of the first).

    `kinds` has the kind of each, `waits` those that each waits for. The composite itself takes from `begin` to `end`, when its operation
    `last` ends (-1: it has none); its own operations are those from `first` up to `stop`. The lists may go on with those of a composite
    that continues it.
    """

    kinds: list[Operation]
    waits: list[Sequence[int]]
    begins: list[int]
    ends: list[int]
    first: int
    stop: int
    begin: int
    end: int
    last: int

    @property
    def ps(self) -> int:
        """The time of the composite."""
        return self.end - self.begin

    def path(self) -> list[tuple[int, int, int]]:
        """The chain of operations that ends last, from the begin of the first composite to the end of this: (number, begin, end)."""
        result, number = [], self.last
        while number >= 0:
            result.append((number, self.begins[number], self.ends[number]))
            number = max(self.waits[number], key=self.ends.__getitem__, default=-1)
        return result[::-1]


class CompositeTimes:
    """The times of composites, if collectives take the time that a function returns; each composite is computed once."""

    def __init__(self, collective_ps: Callable[[Communicate], int]) -> None:
        self._collective_ps = collective_ps
        self._computed: dict[int, tuple[Composite, ChainTimes]] = {}
        self._alike: dict[Hashable, tuple[Rows[Operation], ChainTimes]] = {}  # of equal rows: those with their times, but for the kinds

    def of(self, composite: Composite) -> ChainTimes:
        """The times of a composite."""
        if id(composite) not in self._computed:
            before = None if composite.previous is None else self.of(composite.previous)
            self._computed[id(composite)] = composite, self._times(composite, before)  # kept, so that its number stays its own
        return self._computed[id(composite)][1]

    def _times(self, composite: Composite, before: ChainTimes | None) -> ChainTimes:
        """The times of a composite; those with the same columns and durations share them."""
        rows = operation_rows(composite.operations)
        durations = tuple(map(self._duration_ps, map(rows.kinds.__getitem__, numbers := tuple(dict.fromkeys(rows.kind_of)))))
        # Composites of several layers share the columns of their order and differ in their kinds: equal durations give equal times.
        where = None if before is None else (id(before.ends), before.first, before.stop, before.begin, before.end, before.last)
        key = id(rows.kind_of), id(rows.after), numbers, durations, composite.until, where
        if key not in self._alike:
            self._alike[key] = rows, self._computed_times(rows, dict(zip(numbers, durations, strict=True)), composite.until, before)
        kinds = list[Operation]()
        if before is not None:
            kinds = before.kinds if len(before.kinds) == before.stop else before.kinds[: before.stop]
        kinds.extend(map(rows.kinds.__getitem__, rows.kind_of))
        return self._alike[key][1]._replace(kinds=kinds)

    def _computed_times(
        self, rows: Rows[Operation], durations: Mapping[int, int], until: Sequence[int], before: ChainTimes | None
    ) -> ChainTimes:
        """The times of rows after those of another composite, of which the kinds are left out."""
        waits, begins, ends = list[Sequence[int]](), list[int](), list[int]()
        if before is not None:
            # These lists are continued in place: with a copy for each composite, a chain of n layers would cost n * n.
            waits, begins, ends = before.waits, before.begins, before.ends
            if len(ends) > before.stop:  # another composite continues it, too
                waits, begins, ends = (each[: before.stop] for each in (waits, begins, ends))  # type: ignore[assignment]
        first = len(ends)
        for row, kind in enumerate(rows.kind_of):
            after = rows.after[row].tolist()
            begin = max([ends[each] for each in after], default=0)
            waits.append(after)
            begins.append(begin)
            ends.append(begin + durations[kind])
        begin = 0 if before is None else before.end
        last = max(until or range(first + len(rows)), key=ends.__getitem__, default=-1)
        # Its operations ended while the composite before still ran, so the path to its end is that of the other.
        if before is not None and last >= 0 and ends[last] < begin:
            last = before.last
        end = max(begin, ends[last] if last >= 0 else 0)
        return ChainTimes(kinds=[], waits=waits, begins=begins, ends=ends, first=first, stop=len(ends), begin=begin, end=end, last=last)

    def _duration_ps(self, operation: Operation) -> int:
        match operation:
            case Compute():
                return operation.duration_ps
            case Communicate():
                return self._collective_ps(operation)
        return 0


class _Collectives:
    """The collectives of composites, each run alone once."""

    def __init__(self, dimensions: tuple[LogicalDimension, ...], alone: AloneRuns, path: bool, explain: Any) -> None:
        self._dimensions = dimensions
        self._alone = alone
        self._path = path
        self._explain = explain
        self._records: dict[int, RunRecord] = {}

    @property
    def engine(self) -> EngineType:
        """The function that runs them."""
        return self._alone.engine

    def record(self, operation: Communicate) -> RunRecord:
        """The run of a collective alone."""
        if id(operation) not in self._records:
            self._records[id(operation)] = self._alone.record(operation, self._dimensions, self._path, self._explain)
        return self._records[id(operation)]

    def ps(self, operation: Communicate) -> int:
        """The time of a collective alone."""
        record = self.record(operation)
        return record.finish_ps - record.start_ps

    def planned(self) -> list[PlannedPhase]:
        """The phases of all."""
        records = {id(record): record for record in self._records.values()}
        return [phase for record in records.values() for phase in record.planned]


class Composites:
    """The composites of a run; `alone` runs their collectives, with `path` so that they have critical paths.

    `explain` is that of `simulate_graph`.

    All collectives run when this is made: before the network runs anything else.
    """

    def __init__(self, graph: ExecutionGraph, alone: AloneRuns, path: bool = False, explain: Any = None) -> None:
        self._collectives = _Collectives(graph.dimensions, alone, path, explain)
        self._times = CompositeTimes(self._collectives.ps)
        self._expanded: dict[int, ExpandedProgram] = {}
        composites = [kind for kind in graph_kinds(graph) if isinstance(kind, Composite)]
        for composite in composites:
            self._times.of(composite)
        self.any = bool(composites)
        """Whether the run has composites."""

    def times(self, composite: Composite) -> ChainTimes:
        """When the operations of a composite begin and end."""
        return self._times.of(composite)

    def alone(self, operation: Communicate) -> RunRecord:
        """The run of a collective of a composite alone."""
        return self._collectives.record(operation)

    def within(self, composite: Composite) -> tuple[int, list[tuple[Operation, int, int]]]:
        """The time of a composite, and its operations, each with its begin and end from that of the composite (picoseconds)."""
        times = self.times(composite)
        operations = slice(times.first, times.stop)
        moments = ((each - times.begin for each in every) for every in (times.begins[operations], times.ends[operations]))
        return times.ps, list(zip(times.kinds[operations], *moments, strict=True))

    def expanded(self, rows: Rows[Operation]) -> ExpandedProgram:
        """A program with the operations of its composites; one without composites stays as it is."""
        if id(rows) not in self._expanded:
            self._expanded[id(rows)] = ExpandedProgram(rows, self.within if self.any else None, self._collectives)
        return self._expanded[id(rows)]

    def planned(self) -> list[PlannedPhase]:
        """The phases of the collectives of all composites."""
        return self._collectives.planned()

    def moved(self, rows: Rows[Operation], dimensions: int) -> tuple[list[int], int]:
        """The communication of a program's composites: bytes that NPU 0 sends in each dimension, and messages of all NPUs.

        The messages are those of a platform on which all NPUs run the program.
        """
        payload, messages = [0] * dimensions, 0
        if not self.any:
            return payload, messages
        counts = Counter(rows.kind_of)
        for number, kind in enumerate(rows.kinds):
            if isinstance(kind, Composite) and counts[number]:
                inner = operation_rows(kind.operations)
                for kind_number, often in Counter(inner.kind_of).items():
                    if isinstance(operation := inner.kinds[kind_number], Communicate):
                        record, often = self.alone(operation), often * counts[number]
                        messages += often * record.messages
                        for dimension, size in enumerate(record.payload):
                            payload[dimension] += often * size
        return payload, messages


class _CompositePart(NamedTuple):
    """The operations of a composite as rows: their kinds in the expanded program, and begin and end of each from that of the composite.

    `collectives` are those of the rows that are, with their numbers.
    """

    ps: int
    kinds: Column
    begins: Sequence[int]
    ends: Sequence[int]
    collectives: Sequence[tuple[int, Communicate]]

    def phases(self, runs: _Collectives, first: dict[int, int], planned: list[PlannedPhase]) -> PhaseStepRecords:
        """The phases of its collectives, by the number of the row and from the begin of the composite.

        `first` is where the planned phases of a collective begin among all `planned` ones; new ones are added.
        """
        columns: tuple[list[int], ...] = tuple([] for _ in PhaseStepRecord._fields)
        task, step, queued, started, finished, delay_sum, received = columns
        for place, operation in self.collectives:
            alone = runs.record(operation)
            steps, begin = alone.phases.records, self.begins[place] - alone.start_ps
            if id(alone) not in first:
                first[id(alone)] = len(planned)
                planned.extend(alone.phases.planned)
            task.extend(repeat(place, len(steps)))
            step.extend(map(first[id(alone)].__add__, steps.step))
            for times, more in ((queued, steps.queued_at), (started, steps.started_at), (finished, steps.ended_at)):
                times.extend(map(begin.__add__, more))
            delay_sum.extend(steps.delay_sum)
            received.extend(steps.received)
        return PhaseStepRecords(*(array("q", each) for each in columns))


def _part(ps: int, operations: Sequence[tuple[Operation, int, int]], kinds: list[Operation], known: dict[int, int]) -> _CompositePart:
    """The rows of a composite that takes `ps`, whose kinds are added to `kinds` if they are not `known`."""
    numbers, begins, ends, collectives = list[int](), list[int](), list[int](), list[tuple[int, Communicate]]()
    for operation, begin, end in operations:
        if isinstance(operation, Wait):
            continue
        if id(operation) not in known:
            known[id(operation)] = len(kinds)
            kinds.append(operation)
        if isinstance(operation, Communicate):
            collectives.append((len(numbers), operation))
        numbers.append(known[id(operation)])
        begins.append(begin)
        ends.append(end)
    return _CompositePart(ps, column(numbers, "I"), begins, ends, collectives)


class ExpandedProgram:
    """A program and after it, row by row, the operations of its composites; their dependencies are left out."""

    def __init__(self, program: Rows[Operation], within: Within | None, runs: _Collectives) -> None:
        """`within` gives the operations of a composite (`Composites.within`; None: there are no composites)."""
        self._program = program
        self._runs = runs
        kinds: list[Operation] = list(program.kinds)
        known: dict[int, int] = {}
        parts: dict[int, _CompositePart] = {}
        used = set(program.kind_of) if within is not None else set()
        for number, kind in enumerate(program.kinds):
            if within is not None and isinstance(kind, Composite) and number in used:
                parts[number] = _part(*within(kind), kinds, known)
        self._composite_rows = [row for row, kind in enumerate(program.kind_of) if kind in parts] if parts else []
        used_kinds = [program.kind_of[row] for row in self._composite_rows]
        place_of = {kind: place for place, kind in enumerate(dict.fromkeys(used_kinds))}
        self._parts = [parts[kind] for kind in place_of]
        self._numbers = column(map(place_of.__getitem__, used_kinds), "I")
        self.rows = self._rows(kinds) if self._composite_rows else program

    def _begins(self, ended: Sequence[int]) -> Column:
        """When the composites of a program began; `ended` is when its rows ended."""
        durations = [part.ps for part in self._parts]
        return column((ended[row] - durations[part] for row, part in zip(self._composite_rows, self._numbers, strict=True)), "q")

    def _rows(self, kinds: Sequence[Operation]) -> Rows[Operation]:
        """The rows of the program with one row for each composite below them."""
        program, count = self._program, len(self._program)
        kinds_of_part = [part.kinds.tobytes() for part in self._parts]
        kind_of = view(b"".join([packed(program.kind_of, "I"), *map(kinds_of_part.__getitem__, self._numbers)]), "I")
        more = len(kind_of) - count
        waits = len(program.after.rows)
        after = Dependencies(column(chain(program.after.end, repeat(waits, more)), "Q"), program.after.rows)
        times = None if program.times is None else column(chain(program.times, repeat(-1, more)), "q")
        names = program.name

        def name(row: int) -> str:
            assert names is not None
            return names(row) if row < count else getattr(kinds[kind_of[row]], "name", "")

        def make(kind: Operation, row: int, after: tuple[int, ...]) -> Operation:
            return program.make(kind, row, after) if row < count else attrs.evolve(kind, after=())

        return Rows(kinds, kind_of, after, make, times, None if names is None else name)

    def times(self, ready: Sequence[int], ended: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
        """When rows were ready and ended, of those of the program."""
        if not self._composite_rows:
            return ready, ended
        begins, engine = self._begins(ended), self._runs.engine
        return (
            _continued(engine, ready, [part.begins for part in self._parts], self._numbers, begins),
            _continued(engine, ended, [part.ends for part in self._parts], self._numbers, begins),
        )

    def phases(
        self, records: PhaseStepRecords, planned: Sequence[PlannedPhase], ended: Sequence[int]
    ) -> tuple[PhaseStepRecords, Sequence[PlannedPhase]]:
        """The phases of the program's collectives with those of the collectives of its composites, and the plans of all."""
        if not self._composite_rows:
            return records, planned
        everything, first = list(planned), dict[int, int]()
        parts = [part.phases(self._runs, first, everything) for part in self._parts]
        lengths = [len(part.kinds) for part in self._parts]
        places = column(accumulate(map(lengths.__getitem__, self._numbers), initial=len(self._program)), "q")[:-1]
        begins, nothing = self._begins(ended), column(repeat(0, len(self._composite_rows)), "q")
        offsets = places, nothing, begins, begins, begins, nothing, nothing
        columns = (
            _continued(self._runs.engine, getattr(records, name), [getattr(part, name) for part in parts], self._numbers, offset)
            for name, offset in zip(PhaseStepRecord._fields, offsets, strict=True)
        )
        return PhaseStepRecords(*columns), everything


def _continued(engine: EngineType, values: Sequence[int], parts: Sequence[Sequence[int]], numbers: Column, offsets: Column) -> Column:
    """A column, and after it parts of others in the order of `numbers`, each with an offset added to its members."""
    return view(packed(values, "q") + engine.repeated([packed(part, "q") for part in parts], numbers, offsets), "q")
