"""The queues of the compiled engine on Python's side: jobs by number, and orders that are asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from astra_sim.engines import MAX_PICOSECONDS, CausalKey, Job, Order, PhaseStep, RuleOrder, Standing, place_of, too_long
from astra_sim.errors import PluginError

from astra_sim_engine import _compiled

MAX_PRIORITY = 1 << 62

StepRow = tuple[int, int, int, int, int, int, CausalKey]
"""A phase step as the machine takes it: class and priority of its job, age, queue, phase, delay and causal key."""


class _MadeJobs(dict[tuple[int, int], Job]):
    """Jobs by class and priority, each made when it is first looked at."""

    def __init__(self, classes: Sequence[tuple[str, int, int]]) -> None:
        super().__init__()
        self._classes = classes

    def __missing__(self, key: tuple[int, int]) -> Job:
        job_class, priority = key
        job = self[key] = Job(priority, *self._classes[job_class])
        return job


class _Jobs(Sequence[Job]):
    """The jobs of a queue. They are gone when the order has answered."""

    __slots__ = ("_jobs", "_jobs_by_class")

    def __init__(self, jobs: _compiled.Jobs, jobs_by_class: _MadeJobs) -> None:
        self._jobs = jobs
        self._jobs_by_class = jobs_by_class

    def __len__(self) -> int:
        return len(self._jobs)

    @overload
    def __getitem__(self, place: int) -> Job: ...
    @overload
    def __getitem__(self, place: slice) -> list[Job]: ...
    def __getitem__(self, place: int | slice) -> Job | list[Job]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        return self._jobs_by_class[self._jobs[place]]


class CompiledQueues:
    """The orders of all queues and the jobs that are in them.

    The machine knows a job by the number of its class and by its priority. It follows rules itself; orders that are functions are asked
    here, with jobs that are made when they are first looked at.
    """

    def __init__(self) -> None:
        self._orders: list[Order] = []
        self._number_of: dict[tuple[str, int, int], int] = {}
        self._classes: list[tuple[str, int, int]] = []
        self._jobs_by_class = _MadeJobs(self._classes)

    def add(self, queues: Sequence[tuple[int, Order]]) -> list[tuple[int, list[tuple[bool, bool, bool]]]]:
        """Take the queues of an NPU; returns the slots and the rules of each as the machine takes them."""
        self._orders = [order for _, order in queues]
        rules = [order.rules if isinstance(order, RuleOrder) else () for order in self._orders]
        return [
            (slots, [(rule.key is None, rule.before_equal, rule.in_turn is not None) for rule in of_order])
            for (slots, _), of_order in zip(queues, rules, strict=True)
        ]

    def steps(self, chunks: Sequence[Sequence[PhaseStep]], now: int) -> list[list[StepRow]]:
        """The steps of chunks as the machine takes them. Raises RunError if a delay, PluginError if a priority is too large."""
        rows: dict[int, list[StepRow]] = {}  # chunks that are alike share their steps
        for steps in chunks:
            if id(steps) not in rows:
                rows[id(steps)] = [self._row(step, now) for step in steps]
        return [rows[id(steps)] for steps in chunks]

    def _row(self, step: PhaseStep, now: int) -> StepRow:
        if step.delay > MAX_PICOSECONDS:
            raise too_long(now)
        if abs(step.job.priority) > MAX_PRIORITY:
            raise PluginError(f"a chunk has the priority {step.job.priority}; expected -{MAX_PRIORITY} to {MAX_PRIORITY}")
        return self._job_class(step.job), step.job.priority, step.age, step.queue, step.phase, step.delay, step.causal_key

    def standing(self, queue: int, job_class: int) -> Standing:
        """The state of a job of that class in a queue that follows rules."""
        order = self._orders[queue]
        assert isinstance(order, RuleOrder)
        return order.standing(Job(0, *self._classes[job_class]))

    def place(self, queue: int, jobs: _compiled.Jobs, running: int, job: tuple[int, int]) -> int:
        """The index at which the order of a queue puts a job."""
        return place_of(self._orders[queue], _Jobs(jobs, self._jobs_by_class), running, self._jobs_by_class[job])

    def _job_class(self, job: Job) -> int:
        """The class number of a job, without its priority."""
        number = self._number_of.setdefault(job[1:], len(self._classes))
        if number == len(self._classes):
            self._classes.append(job[1:])
        return number
