"""Chunks of collectives on an NPU, and the queues of its dimensions through which they pass.

A chunk passes through its phase steps one after another. A step may be in a queue of the NPU: it takes the place that the queue's order
gives it, and begins when it is among the first `slots`. It is a phase, which the ranks run message by message, or the time that the
phase takes if that is known before the run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import attrs

from astra_sim.engine.interface import LinkKind, PhaseStep, PhaseStepRecord, PhaseStepRecords, RankState
from astra_sim.engine.orders import Job, Order
from astra_sim.engine.reference.agreement import Agreements, Key
from astra_sim.engine.reference.causes import Label
from astra_sim.engine.reference.events import Events, StepEnd
from astra_sim.engine.reference.phases import POSTED, Phases, Rank
from astra_sim.engine.reference.queues import Queue, make_queue

if TYPE_CHECKING:
    from astra_sim.engine.reference.tasks import TaskRun


@attrs.define(eq=False, repr=False)
class StepRun:
    """A phase step of a chunk on an NPU: the collective (`task`) it belongs to, its places, and the times of its events (-1: not yet).

    `number` counts through the steps of all plans, `chunk` through those of the collective, `place` through the steps of the chunk, of
    which `following` is the next. `rank` runs it, if it is a phase.

    `key` identifies its chunk on all NPUs of the program; a chunk waits in one queue at a time.
    """

    task: TaskRun
    step: PhaseStep
    number: int
    chunk: int
    place: int
    job: Job
    queue: Queue[StepRun] | None
    rank: Rank | None = None
    following: StepRun | None = None
    queued_at: int = -1
    started_at: int = -1
    ended_at: int = -1
    key: Key = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.key = self.task.number, self.chunk


class Chunks:
    """The chunks of all NPUs, and their queues. `chunk_ended` is called with the collective of a chunk that has ended."""

    def __init__(self, events: Events, phases: Phases, agreements: Agreements, npus: int, chunk_ended: Callable[[TaskRun], None]) -> None:
        self._events = events
        self._phases = phases
        self._agreements = agreements
        self._chunk_ended = chunk_ended
        self._queues: list[list[Queue[StepRun]]] = [[] for _ in range(npus)]
        self._steps: dict[int, list[StepRun]] = {}

    def add_queues(self, queues: Sequence[tuple[int, Order]]) -> None:
        """Give every NPU queues: the slots and the order of each."""
        for slots, order in queues:
            for queues_of_npu in self._queues:
                queues_of_npu.append(make_queue(slots, order))

    # -- answers -------------------------------------------------------------------------------------------------------

    def records(self, npu: int) -> PhaseStepRecords:
        """The phase steps of chunks on an NPU, in the order in which they were issued."""
        records = []
        for step in self._steps.get(npu, ()):
            measured = (step.rank.delay_sum, step.rank.received) if step.rank else (0, 0)
            records.append(PhaseStepRecord(step.task.number, step.number, step.queued_at, step.started_at, step.ended_at, *measured))
        return PhaseStepRecords(*zip(*records, strict=True)) if records else PhaseStepRecords(*[()] * len(PhaseStepRecord._fields))

    def blocked_ranks(self) -> list[RankState]:
        """The ranks of phases that have begun and not ended, by task, chunk, place and NPU."""
        steps = [
            step for steps_of_npu in self._steps.values() for step in steps_of_npu if step.rank and step.started_at >= 0 > step.ended_at
        ]
        return [
            RankState(
                step.task.number,
                step.chunk,
                step.place,
                step.task.npu,
                rank.rank,
                rank.members,
                rank.program,
                rank.tokens,
                rank.received,
                rank.next_action,
                [receipt for receipt, state in enumerate(rank.receipts) if state == POSTED],
            )
            for step in sorted(steps, key=lambda step: (step.task.number, step.chunk, step.place, step.task.npu))
            if (rank := step.rank)
        ]

    def label(self, kind: LinkKind, step: StepRun | None) -> Label:
        """The event of a chunk's step on its NPU; None: it has not begun."""
        return Label(kind) if step is None else Label(kind, step.task.number, step.number)

    # -- running -------------------------------------------------------------------------------------------------------

    def make(self, task: TaskRun, step: PhaseStep, number: int, chunk: int, place: int, age: int) -> StepRun:
        """A phase step of a collective on the NPU of `task`; the priority of its job grows by its own age with that of the collective."""
        job = step.job._replace(priority=step.job.priority + step.age * age)
        step_run = StepRun(task, step, number, chunk, place, job, self._queues[task.npu][step.queue] if step.queue >= 0 else None)
        self._steps.setdefault(task.npu, []).append(step_run)
        return step_run

    def start(self, step: StepRun) -> None:
        """Make a step ready."""
        step.queued_at = self._events.now
        if step.queue is None:
            self._begin(step)
            return
        step.queue.enter(step, step.key, step.job)
        self._pump(step.task.npu, step.step.queue)

    def finish(self, step: StepRun) -> None:
        """A step has ended: go on to the next of its chunk, and let others have its slot."""
        step.ended_at = self._events.now
        if step.queue is not None:
            step.queue.leave(step)
        following = step.following
        if following is None:
            self._chunk_ended(step.task)
        else:
            following.queued_at = self._events.now
            if following.queue is None:
                self._begin(following)
            else:
                following.queue.enter(following, following.key, following.job)
        # The queue that a chunk leaves goes on before the one that it enters.
        if step.queue is not None:
            self._pump(step.task.npu, step.step.queue)
        if following is not None and following.queue is not None:
            self._pump(step.task.npu, following.step.queue)

    def _pump(self, npu: int, number: int) -> None:
        """Begin the steps that have a slot in a queue, in the order that NPUs have agreed on if they do."""
        queue, agreement = self._queues[npu][number], self._agreements.of_queue(npu, number)
        while (step := queue.start(agreement.next(npu) if agreement else None)) is not None:
            if agreement is not None:
                agreement.take(npu, step.key)
            self._begin(step)

    def _begin(self, step: StepRun) -> None:
        now, npu = self._events.now, step.task.npu
        step.started_at = now
        order = self._events.next_end_order(npu)
        if step.rank is not None:
            self._phases.begin(step.rank, step, order)
            return
        end = now + step.step.delay
        # A phase of a known time is ordered as if its messages were simulated: it ends with the key that they had (`run/phase_cost.py`).
        causal_key = tuple(end - offset for offset in step.step.causal_key) or (now,)
        self._events.push_end(end, npu, StepEnd(step), causal_key, order)
