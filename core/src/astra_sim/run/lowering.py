"""From operations of a graph to tasks of the engine. The plans of collectives are in `collectives.py`."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial

from astra_sim._boundary import call
from astra_sim.engine.interface import ACCESS, COLLECTIVE, COMPUTE, JOIN, RECEIVE, SEND, TIMER, Task
from astra_sim.graph import Communicate, Composite, Compute, MemoryAccess, Operation, Receive, Send, Unit, Wait, cached_for
from astra_sim.rows import Column, Rows, column
from astra_sim.run.communicators import Communicator, Communicators
from astra_sim.run.inputs import RunInputs
from astra_sim.run.npu_durations import on_accelerator
from astra_sim.schedule import Collective
from astra_sim.system import System, SystemSession

_MOVING, _COMPUTING, _COMPUTING_ON_CPU = range(3)
"""Units of an NPU that does one operation at a time of computing, of computing on the CPU, and of moving data."""

_UNITS = {Unit.ACCELERATOR: _COMPUTING, Unit.CPU: _COMPUTING_ON_CPU, Unit.COMMUNICATION: _MOVING, Unit.NONE: -1}

_CollectiveKey = tuple[Collective, int, tuple[int, ...], tuple[int, ...] | None, str, int | None, Communicator]


def unit_of(operation: Operation, system: System) -> int:
    """The unit of its NPU that an operation needs; -1: none."""
    # In ASTRA-sim 2.x a receive needs no unit and is never held back.
    if not system.one_at_a_time or isinstance(operation, (Wait, Receive)):
        return -1
    return _UNITS[operation.unit]


class TaskLowering:
    """Makes tasks of operations. `communicators` lists the programs that share a collective."""

    def __init__(self, inputs: RunInputs, session: SystemSession, communicators: Communicators) -> None:
        self._inputs = inputs
        self._system = inputs.system
        self._memory = inputs.memory
        self._session = session
        self._communicators = communicators
        self._computes = inputs.npu_ps is not None or inputs.shares_processors
        self._groups: dict[Communicator, int] = {}
        self._alike: dict[_CollectiveKey, int] = {}
        self._forms: list[Hashable] = []  # by number: the key of equal collectives of several groups with the same chunks; None: none
        self._agreements: dict[Hashable, int] = {}

    def agreement(self, tasks: Rows[Task]) -> int:
        """The number of those programs that begin chunks in one order, for one of them with these tasks; -1: each NPU has its own order."""
        if self._system.own_orders:
            return -1
        in_common = _in_common(tasks, self._forms) if self._communicators.several else None
        return self._agreements.setdefault(in_common, len(self._agreements))

    def lower(self, program: int, operations: Sequence[Operation]) -> Rows[Task]:
        """The tasks of a program, which is the run's of that number."""
        rows = self._inputs.rows(operations)
        graph = self._inputs.graph
        is_shared = graph.shared and operations is graph.operations
        if not is_shared or cached_for(graph, "accesses memory", lambda: bool(_places(rows.kinds, MemoryAccess))):
            return _with_tasks(rows, [self._task(program, kind) for kind in rows.kinds])
        collectives = cached_for(graph, "places of collectives", lambda: _places(rows.kinds, Communicate))
        # The plan of a collective depends on the session; tasks of other operations on the units of the system alone.
        issued = tuple(self._task(program, rows.kinds[place]) for place in collectives)
        cached: Rows[Task] = cached_for(
            graph, ("tasks", self._system.one_at_a_time, self._computes, issued), partial(self._lowered, program, rows, issued)
        )
        return cached

    def _lowered(self, program: int, rows: Rows[Operation], issued: Sequence[Task]) -> Rows[Task]:
        """The tasks of a program whose collectives are `issued`."""
        collectives = iter(issued)
        return _with_tasks(rows, [next(collectives) if isinstance(kind, Communicate) else self._task(program, kind) for kind in rows.kinds])

    def _task(self, program: int, operation: Operation) -> Task:
        """An operation as the engine takes it, without its dependencies."""
        unit = unit_of(operation, self._system)
        match operation:
            case Communicate():
                return self._collective(program, operation, unit)
            case Wait():
                return Task(JOIN, 0)
            case Send():
                return Task(SEND, 0, unit=unit, peer=operation.to, bytes=operation.bytes, tag=operation.tag)
            case Receive():
                return Task(RECEIVE, 0, peer=operation.source, bytes=operation.bytes, tag=operation.tag)
            case MemoryAccess():
                time = self._memory.checked_ps(operation.bytes, operation.write, operation.remote)
                return Task(ACCESS if operation.remote else TIMER, time, unit=unit)
            case Composite():
                time = self._inputs.composites.times(operation).ps
                return Task(TIMER if time else JOIN, time, unit=unit)
            case Compute() if self._computes and on_accelerator(operation):
                return Task(COMPUTE, operation.duration_ps, unit=unit)
        # Computing of no time is no event: the loops of ASTRA-sim 1.0 go on within the tick.
        return Task(TIMER if operation.duration_ps else JOIN, operation.duration_ps, unit=unit)

    def _collective(self, program: int, operation: Communicate, unit: int) -> Task:
        communicator = self._communicators.of(program, operation)
        what = operation.collective, operation.bytes, operation.dimensions
        key = *what, operation.group, operation.algorithm, operation.priced_ps, communicator
        group = self._groups.setdefault(communicator, len(self._groups)) if self._communicators.several else -1
        repeats = call("whether a collective repeats", self._session.repeats, operation)
        number = self._alike.setdefault(key, len(self._alike))
        if number == len(self._forms):
            form = *what, len(operation.group or ()), operation.algorithm, operation.priced_ps
            self._forms.append(form if repeats else None)
        return Task(COLLECTIVE, operation.update_ps, unit=unit, group=group, collective=number, repeats=repeats and not operation.urgent)


def _in_common(tasks: Rows[Task], forms: Sequence[Hashable]) -> Hashable:
    """The attributes in which tasks of programs must agree to begin chunks in one order: all but their times.

    Collectives of different groups count as equal if they have one form (`forms`, by their numbers): then they become the same chunks,
    whenever they are issued. Programs that exchange messages besides may wait for each other through these, so theirs must be of the same
    groups.
    """
    # Joins, timers and computing differ in time alone, and times may differ: a stage of a pipeline may have more layers than another.
    kinds = [kind._replace(kind=TIMER if kind.kind in (JOIN, COMPUTE) else kind.kind, delay=0) for kind in tasks.kinds]
    described: list[Hashable] = list(kinds)
    if not any(kind.kind in (SEND, RECEIVE) for kind in kinds):
        # Which groups a program has does not matter, only which of its collectives share one: numbered in order of appearance, programs
        # of different groups are equal.
        groups = {group: place for place, group in enumerate(dict.fromkeys(kind.group for kind in kinds))}
        described = [
            (kind._replace(group=groups[kind.group], collective=-1), forms[kind.collective])
            if kind.kind == COLLECTIVE and forms[kind.collective] is not None
            else kind
            for kind in kinds
        ]
    numbers: dict[Hashable, int] = {}
    number_of = [numbers.setdefault(each, len(numbers)) for each in described]
    kind_of = column(map(number_of.__getitem__, tasks.kind_of), "I")
    priorities = b"" if tasks.priorities is None else tasks.priorities.tobytes()
    return tuple(numbers), kind_of.tobytes(), priorities, tasks.after.end.tobytes(), tasks.after.rows.tobytes()


def _with_tasks(rows: Rows[Operation], tasks: Sequence[Task]) -> Rows[Task]:
    """The rows of a program with tasks as kinds."""
    return Rows(tasks, rows.kind_of, rows.after, partial(_task_of_row, rows.times), rows.times, priorities=rows.priorities)


def _places(kinds: Sequence[Operation], cls: type) -> list[int]:
    """Which of some kinds are of a class."""
    return [place for place, kind in enumerate(kinds) if isinstance(kind, cls)]


def _task_of_row(times: Column | None, task: Task, row: int, after: tuple[int, ...]) -> Task:
    if times is not None and times[row] >= 0:
        return task._replace(after=after, delay=times[row])
    return task._replace(after=after)
