"""Collectives: their chunks, planned when the first NPU issues them.

The NPUs that run one program share the plans of its collectives. Programs may share the collectives of a group: the n-th that one issues
there is the n-th of the others. Collectives that repeat become the same chunks, which are planned once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from astra_sim.engine.interface import COLLECTIVE, PhaseStep, UnlikeCollectivesError
from astra_sim.engine.reference.chunks import Chunks, StepRun
from astra_sim.engine.reference.events import Events
from astra_sim.engine.reference.phases import Phase, Phases
from astra_sim.rows import kinds_of

if TYPE_CHECKING:
    from astra_sim.engine.interface import Task
    from astra_sim.engine.reference.tasks import Program, TaskRun


class CollectivePlan:
    """Plans of collectives: the steps of each chunk, the number of the first among those of all plans, and the number of uses."""

    __slots__ = ("chunks", "first_step", "uses")

    def __init__(self, chunks: Sequence[Sequence[PhaseStep]], first_step: int) -> None:
        self.chunks = chunks
        self.first_step = first_step
        self.uses = 0

    def steps(self) -> int:
        """The number of steps of the chunks."""
        return sum(map(len, self.chunks))


class CollectiveRun:
    """A collective that was issued, as the `number`-th: its plan, its phases, who issued it first, and how many programs have not."""

    __slots__ = ("first", "number", "phases", "plan", "programs_left")

    def __init__(self, number: int, plan: CollectivePlan, first: TaskRun) -> None:
        self.number = number
        self.plan = plan
        self.phases: dict[tuple[int, int], Phase] = {}
        self.first = first
        self.programs_left = 0


class Issued:
    """A collective as a program has issued it, until its last NPU has."""

    __slots__ = ("collective", "npus_left")

    def __init__(self, collective: CollectiveRun, npus: int) -> None:
        self.collective = collective
        self.npus_left = npus


class Collectives:
    """The collectives that were issued, and their plans."""

    def __init__(self, events: Events, phases: Phases, chunks: Chunks) -> None:
        self._events = events
        self._phases = phases
        self._chunks = chunks
        self._plans: list[CollectivePlan] = []
        self._repeated: dict[int, CollectivePlan] = {}
        self._count = 0
        self._issued: dict[tuple[int, int], Issued] = {}  # by program and task
        self._programs_of: Counter[int] = Counter()  # by group, how many programs share its collectives
        self._ordinals: Counter[tuple[int, int]] = Counter()  # by program and group, how many it has issued
        self._shared: dict[tuple[int, int], CollectiveRun] = {}  # by group and ordinal

    def add_program(self, tasks: Sequence[Task]) -> None:
        """Count a program among those that share the collectives of its groups."""
        self._programs_of.update({task.group for task in kinds_of(tasks) if task.kind == COLLECTIVE and task.group >= 0})

    def uses(self) -> list[int]:
        """The number of collectives that became each plan."""
        return [plan.uses for plan in self._plans]

    def issue(self, task: TaskRun) -> int:
        """Start the chunks of a collective on an NPU. Returns how many those are."""
        collective = self._issued_as(task)
        plan = collective.plan
        task.chunks = len(plan.chunks)
        number = plan.first_step
        for chunk, steps in enumerate(plan.chunks):
            step_runs: list[StepRun] = []
            for place, step in enumerate(steps):
                step_runs.append(self._chunks.make(task, step, number, chunk, place, collective.number))
                number += 1
                if step.phase >= 0:
                    step_runs[-1].rank = self._phase_of(collective, chunk, place, step).by_npu[task.npu]
            for earlier, later in pairwise(step_runs):
                earlier.following = later
            self._chunks.start(step_runs[0])
        return len(plan.chunks)

    def _phase_of(self, collective: CollectiveRun, chunk: int, place: int, step: PhaseStep) -> Phase:
        if (chunk, place) not in collective.phases:
            collective.phases[chunk, place] = self._phases.start_phase(step.phase)
        return collective.phases[chunk, place]

    def _issued_as(self, task: TaskRun) -> CollectiveRun:
        """The plan of a collective from when the first NPU of its program issued it, which may be this one."""
        key = task.program.number, task.number
        if key not in self._issued:
            self._issued[key] = Issued(self._share(task), task.program.npus)
        issued = self._issued[key]
        issued.npus_left -= 1
        # Long runs issue many collectives; what all NPUs have issued is not looked up again.
        if not issued.npus_left:
            del self._issued[key]
        return issued.collective

    def _share(self, task: TaskRun) -> CollectiveRun:
        """The plan of a collective from when the first program issued it, which may be this one."""
        program, group = task.program.number, task.task.group
        if group < 0:
            return self._make(task)
        ordinal = self._ordinals[program, group]
        self._ordinals[program, group] += 1
        collective = self._shared.get((group, ordinal))
        # The first program to come plans for all: a group may be shared by programs that come to it at different times.
        if collective is None:
            collective = self._shared[group, ordinal] = self._make(task)
            collective.programs_left = self._programs_of[group]
        first = collective.first
        if first.task.collective != task.task.collective:
            raise UnlikeCollectivesError((program, task.number), (first.program.number, first.number), ordinal + 1)
        collective.programs_left -= 1
        if not collective.programs_left:
            del self._shared[group, ordinal]
        return collective

    def _make(self, task: TaskRun) -> CollectiveRun:
        """A collective that is issued now."""
        plan = self._plan(task.program, task)
        plan.uses += 1
        self._count += 1
        return CollectiveRun(self._count - 1, plan, task)

    def _plan(self, program: Program, task: TaskRun) -> CollectivePlan:
        """The plan of a collective; one that repeats is planned once."""
        number = task.task.collective
        if task.task.repeats and number in self._repeated:
            return self._repeated[number]
        chunks = program.issue(task.number, self._events.now)
        plan = CollectivePlan(chunks, self._plans[-1].first_step + self._plans[-1].steps() if self._plans else 0)
        self._plans.append(plan)
        if task.task.repeats:
            self._repeated[number] = plan
        return plan
