"""From operations of a graph to tasks of the engine. What a collective becomes is in `collectives.py`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from astra_sim._boundary import call
from astra_sim.engine import ACCESS, COLLECTIVE, JOIN, RECEIVE, SEND, TIMER, Task
from astra_sim.graph import Communicate, Compute, MemoryAccess, Operation, Receive, Send, Unit, Wait, operation_rows
from astra_sim.rows import Column, Rows
from astra_sim.run.inputs import RunInputs
from astra_sim.schedule import Collective
from astra_sim.system import System, SystemSession

_MOVING, _COMPUTING, _COMPUTING_ON_CPU = range(3)
"""Units of an NPU that does one operation at a time of computing, of computing on the CPU, and of moving data."""

_UNITS = {Unit.ACCELERATOR: _COMPUTING, Unit.CPU: _COMPUTING_ON_CPU, Unit.COMMUNICATION: _MOVING, Unit.NONE: -1}

_CollectiveKey = tuple[Collective, int, tuple[int, ...], tuple[int, ...] | None, str]


def unit_of(operation: Operation, system: System) -> int:
    """The unit of its NPU that an operation needs; -1: none."""
    if not system.one_at_a_time or isinstance(operation, (Wait, Receive)):
        return -1
    if isinstance(operation, Compute):
        return _UNITS[operation.unit]
    return _MOVING


class TaskLowering:
    """Makes tasks of operations. `shared` says that several programs may share the collectives of a group."""

    def __init__(self, inputs: RunInputs, session: SystemSession, shared: bool) -> None:
        self._system = inputs.system
        self._memory = inputs.memory
        self._session = session
        self._shared = shared
        self._groups: dict[tuple[int, ...] | None, int] = {}
        self._alike: dict[_CollectiveKey, int] = {}

    def lower(self, operations: Sequence[Operation]) -> Rows[Task]:
        """The tasks of a program."""
        rows = operation_rows(operations)
        tasks = [self._task(kind) for kind in rows.kinds]
        return Rows(tasks, rows.kind_of, rows.after, partial(_task_of_row, rows.times), rows.times)

    def _task(self, operation: Operation) -> Task:
        """An operation as the engine takes it, but for what it waits for."""
        unit = unit_of(operation, self._system)
        match operation:
            case Communicate():
                return self._collective(operation, unit)
            case Wait():
                return Task(JOIN, 0)
            case Send():
                return Task(SEND, 0, unit=unit, peer=operation.to, bytes=operation.bytes, tag=operation.tag)
            case Receive():
                return Task(RECEIVE, 0, peer=operation.source, bytes=operation.bytes, tag=operation.tag)
            case MemoryAccess():
                time = self._memory.checked_ps(operation.bytes, operation.write, operation.remote)
                return Task(ACCESS if operation.remote else TIMER, time, unit=unit)
        return Task(TIMER if operation.duration_ps else JOIN, operation.duration_ps, unit=unit)

    def _collective(self, operation: Communicate, unit: int) -> Task:
        key = operation.collective, operation.bytes, operation.dimensions, operation.group, operation.algorithm
        group = self._groups.setdefault(operation.group, len(self._groups)) if self._shared else -1
        repeats = not operation.urgent and call("whether a collective repeats", self._session.repeats, operation)
        number = self._alike.setdefault(key, len(self._alike))
        return Task(COLLECTIVE, operation.update_ps, unit=unit, group=group, collective=number, repeats=repeats)


def _task_of_row(times: Column | None, task: Task, row: int, after: tuple[int, ...]) -> Task:
    if times is not None and times[row] >= 0:
        return task._replace(after=after, delay=times[row])
    return task._replace(after=after)
