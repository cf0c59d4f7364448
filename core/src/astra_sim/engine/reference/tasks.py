"""The tasks of NPUs: their programs, who waits for whom, and the units that they need.

A task is ready when those it waits for have ended. If its program uses units, an NPU does one task of a unit at a time: of those that
are ready the one with the lowest priority, which is its number unless the program has other priorities. The action of a task when it begins
depends on its kind: it takes its delay or a computed time, on its NPU's processor if it computes, uses the port of its NPU's
memory for so long, sends or receives a message, or issues the chunks of a collective, and ends its delay after the last of them.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from astra_sim.engine.interface import (
    ACCESS,
    COLLECTIVE,
    COMPUTE,
    JOIN,
    MAX_UNITS,
    RECEIVE,
    SEND,
    TIMER,
    Issue,
    Task,
    check_program,
    task_rows,
)
from astra_sim.engine.reference.agreement import Agreements
from astra_sim.engine.reference.collectives import Collectives
from astra_sim.engine.reference.durations import TaskDurations
from astra_sim.engine.reference.events import Events, TaskEnd
from astra_sim.engine.reference.point_to_point import PointToPoint
from astra_sim.rows import kinds_of

_TAKE_TIME = (TIMER, ACCESS, SEND, RECEIVE, COMPUTE)


class Program(NamedTuple):
    """A program: its number, by how many NPUs it is run, who plans its collectives, and whether its tasks need units."""

    number: int
    npus: int
    issue: Issue
    has_units: bool


class TaskRun:
    """A task of an NPU: for how many tasks it waits, who waits for it, when it was ready, began and ended (-1: not yet).

    Of a collective, `chunks` have not ended yet.
    """

    __slots__ = ("began_at", "chunks", "ended_at", "npu", "number", "priority", "program", "ready_at", "successors", "task", "waits")

    def __init__(self, npu: int, number: int, priority: int, task: Task, program: Program) -> None:
        self.npu = npu
        self.number = number
        self.priority = priority
        self.task = task
        self.program = program
        self.waits = len(task.after)
        self.chunks = 0
        self.successors: list[TaskRun] = []
        self.ready_at = self.began_at = self.ended_at = -1


def _order(task: TaskRun) -> tuple[int, int, int]:
    """Tasks that are ready at once start in the order of these: by NPU, then by priority."""
    return task.npu, task.priority, task.number


class Units:
    """The units of an NPU: which are busy, and the ready tasks of each by priority; the last is for tasks that need none.

    Collectives that need a unit are ready by themselves: if NPUs agree on the order of theirs, one may have to wait for another.
    """

    __slots__ = ("_agreements", "_collectives", "_npu", "_ready", "busy")

    def __init__(self, npu: int, agreements: Agreements) -> None:
        self._npu = npu
        self._agreements = agreements
        self._ready: list[list[tuple[int, int, TaskRun]]] = [[] for _ in range(MAX_UNITS + 1)]
        self._collectives: list[dict[int, TaskRun]] = [{} for _ in range(MAX_UNITS)]
        self.busy = [False] * MAX_UNITS

    def add(self, task: TaskRun) -> None:
        """A task is ready."""
        if _takes_turns(task):
            self._collectives[task.task.unit][task.number] = task
        else:
            heapq.heappush(self._ready[task.task.unit], (task.priority, task.number, task))

    def next(self) -> TaskRun | None:
        """Take the ready task of the lowest priority whose unit is not busy, and make it busy."""
        units = [unit for unit in range(MAX_UNITS) if not self.busy[unit]]
        heaps = [self._ready[unit] for unit in (*units, MAX_UNITS)]
        agreed = [self._next_collective(unit) for unit in units]
        # All units compete: what begins first in an instant is decided by priorities, not by the numbers of units.
        tasks = [heap[0][-1] for heap in heaps if heap] + [task for task in agreed if task is not None]
        if not tasks:
            return None
        task = min(tasks, key=_order)
        unit = task.task.unit
        if unit >= 0:
            self.busy[unit] = True
        if not _takes_turns(task):
            heapq.heappop(self._ready[unit])
            return task
        del self._collectives[unit][task.number]
        agreement = self._agreements.of_unit(self._npu, unit)
        if agreement is not None:
            agreement.take(self._npu, (task.number, 0))
        return task

    def ready(self) -> list[TaskRun]:
        """The ready tasks."""
        return [task for heap in self._ready for _, _, task in heap] + [task for ready in self._collectives for task in ready.values()]

    def _next_collective(self, unit: int) -> TaskRun | None:
        """The collective that may take a unit next; None if it is not ready."""
        ready, agreement = self._collectives[unit], self._agreements.of_unit(self._npu, unit)
        wanted = agreement.next(self._npu) if agreement is not None else None
        if wanted is not None:
            return ready.get(wanted[0])
        return min(ready.values(), key=_order, default=None)


def _takes_turns(task: TaskRun) -> bool:
    """Whether a task is a collective that needs a unit."""
    return task.task.kind == COLLECTIVE and task.task.unit >= 0


class Tasks:
    """The tasks of all NPUs."""

    def __init__(
        self,
        events: Events,
        durations: TaskDurations,
        collectives: Collectives,
        point_to_point: PointToPoint,
        agreements: Agreements,
        npus: int,
    ) -> None:
        self._events = events
        self._durations = durations
        self._agreements = agreements
        self._collectives = collectives
        self._point_to_point = point_to_point
        self._npus = npus
        self._programs = 0
        self._tasks: dict[int, list[TaskRun]] = {}
        self._units: dict[int, Units] = {}
        self._to_start: list[TaskRun] = []
        self._ended_at = [-1] * npus
        self._ended = 0

    # -- building ------------------------------------------------------------------------------------------------------

    def add_program(self, tasks: Sequence[Task], npus: Sequence[int], issue: Issue, agreement: int) -> None:
        """Let NPUs run a program, which is of an agreement (-1: of none)."""
        rows = task_rows(tasks)
        check_program(rows, npus, self._npus)
        for number, one in enumerate(tasks):
            for other in one.after:
                if not 0 <= other < number:
                    raise ValueError(f"task {number} waits for task {other}; expected earlier ones")
        program = Program(self._programs, len(npus), issue, any(task.unit >= 0 for task in kinds_of(tasks)))
        self._programs += 1
        self._collectives.add_program(tasks)
        if agreement >= 0:
            self._agreements.join(agreement, npus)
        for npu in npus:
            if npu in self._tasks:
                raise ValueError(f"NPU {npu} has a program already")
            priorities = range(len(tasks)) if rows.priorities is None else rows.priorities
            runs = [TaskRun(npu, number, *each, program) for number, each in enumerate(zip(priorities, tasks, strict=True))]
            self._tasks[npu] = runs
            # So every list of successors is in the order in which they start.
            for task in sorted(runs, key=_order):
                for other in task.task.after:
                    runs[other].successors.append(task)
                if not task.waits:
                    self._to_start.append(task)

    # -- answers -------------------------------------------------------------------------------------------------------

    def times(self, npu: int) -> tuple[list[int], list[int]]:
        """When the tasks of an NPU were ready and when they ended (-1: not yet)."""
        tasks = self._tasks[npu]
        return [task.ready_at for task in tasks], [task.ended_at for task in tasks]

    def sends(self, npu: int) -> tuple[list[int], list[int]]:
        """The sends of an NPU that have begun, by number of the task: the tasks, and when they began."""
        begun = [task for task in self._tasks[npu] if task.task.kind == SEND and task.began_at >= 0]
        return [task.number for task in begun], [task.began_at for task in begun]

    def ended_at(self) -> list[int]:
        """When the last task of each NPU so far ended (-1: none has)."""
        return self._ended_at

    def unfinished(self) -> list[tuple[int, int, bool]]:
        """The tasks that have not ended: NPU, number, and whether it has begun; one that is ready may wait for its unit."""
        waiting = {task for units in self._units.values() for task in units.ready()}
        return [
            (npu, task.number, task.ready_at >= 0 and task not in waiting)
            for npu, tasks in sorted(self._tasks.items())
            for task in tasks
            if task.ended_at < 0
        ]

    @property
    def ended(self) -> int:
        """Tasks that have ended, of all NPUs."""
        return self._ended

    # -- running -------------------------------------------------------------------------------------------------------

    def start_all(self) -> None:
        """Make the tasks of new programs ready if they wait for nothing."""
        starting, self._to_start = sorted(self._to_start, key=_order), []
        for npu, group in groupby(starting, key=lambda task: task.npu):
            # With units, all tasks of an NPU are ready before any begins: what one that ends at once releases takes its turn among them.
            tasks = list(group)
            if tasks[0].program.has_units:
                self._pump_units(npu, tasks)
                continue
            for task in tasks:
                self._start(task)

    def finish(self, task: TaskRun) -> None:
        """A task has ended: those that wait for nothing else are ready."""
        self._end(task)
        if task.program.has_units:
            self._pump_units(task.npu, [successor for successor in task.successors if self._release(successor)])
            return
        for successor in task.successors:
            if self._release(successor):
                self._start(successor)

    def chunk_ended(self, task: TaskRun) -> None:
        """A chunk of a collective has ended; its delay begins when all have."""
        task.chunks -= 1
        if not task.chunks:
            self._begin(task)

    def _pump_units(self, npu: int, tasks: Sequence[TaskRun]) -> None:
        """Make tasks ready, and begin those that find their unit free in order of priority."""
        units = self._units.setdefault(npu, Units(npu, self._agreements))
        self._add_ready(units, tasks)
        while (task := units.next()) is not None:
            if task.task.kind in _TAKE_TIME:
                self._begin(task)
            elif task.task.kind == JOIN or not self._collectives.issue(task):
                self._end(task)
                self._add_ready(units, [successor for successor in task.successors if self._release(successor)])

    def _add_ready(self, units: Units, tasks: Sequence[TaskRun]) -> None:
        for task in tasks:
            task.ready_at = self._events.now
            units.add(task)

    def _start(self, task: TaskRun) -> None:
        """Make a task ready that waits for nothing, and its dependents if it ends at once."""
        # No recursion, since a chain of joins may be longer than Python's stack. Reversed, so that what a task releases starts in order of
        # priority, and each with all that it releases before the next: chunks enter their queues in this order.
        stack = [task]
        while stack:
            current = stack.pop()
            current.ready_at = self._events.now
            if current.task.kind in _TAKE_TIME:
                self._begin(current)
            elif current.task.kind == JOIN or not self._collectives.issue(current):
                self._end(current)
                stack.extend(reversed([successor for successor in current.successors if self._release(successor)]))

    def _release(self, task: TaskRun) -> bool:
        """Take one wait off a task; whether that was the last."""
        task.waits -= 1
        return not task.waits

    def _begin(self, task: TaskRun) -> None:
        """A task begins that takes time; of a collective, the delay after its chunks."""
        task.began_at = self._events.now
        # Numbered as it begins: what ends in one instant is in the order in which its NPU began it.
        order = self._events.next_end_order(task.npu)
        if task.task.kind in (SEND, RECEIVE):
            self._point_to_point.begin(task, order)
            return
        now = self._events.now
        end = self._durations.end_of(task.npu, task.number, task.task, now)
        self._events.push_end(end, task.npu, TaskEnd(task), (now,), order)

    def _end(self, task: TaskRun) -> None:
        task.ended_at = self._ended_at[task.npu] = self._events.now
        self._ended += 1
        if task.task.unit >= 0:
            self._units[task.npu].busy[task.task.unit] = False
