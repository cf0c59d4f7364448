"""System layers of several jobs as one: each plans the collectives of its jobs, with queues of its own on every NPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate

import attrs
from astra_sim import InputError
from astra_sim.graph import Communicate
from astra_sim.platform import Group, LogicalDimension, Platform
from astra_sim.system import ChunkPlan, QueueAssignment, QueuePlan, System, SystemSession

from astra_sim_goodput.jobs_graph import JobGraph, block_sizes

_SHARED = ("endpoint_ps", "tick_ps", "phases_end_together", "one_at_a_time", "own_orders", "rendezvous", "replay_only", "bus", "send_class")
"""Attributes that belong to the machine, not to a job."""


@attrs.frozen(eq=False)
class SystemChoice:
    """The number of the system layer that plans a collective: by the NPUs of its group, or by its dimensions in the merged graph."""

    of_npu: Mapping[int, int]
    of_dimension: Mapping[int, int]

    @classmethod
    def of(cls, jobs: Sequence[JobGraph], numbers: Sequence[int], platform: Platform) -> SystemChoice:
        """That of the jobs of a merged graph (`jobs_graph.merged`), with the number of each job's system layer."""
        first = len(platform.logical_dimensions())
        of_npu: dict[int, int] = {}
        of_dimension: dict[int, int] = {}
        for job, number in zip(jobs, numbers, strict=True):
            of_npu |= dict.fromkeys(job.ranks, number)
            if block_sizes(platform, job.ranks) is not None:
                of_dimension |= dict.fromkeys(range(first, first + len(job.graph.dimensions)), number)
                first += len(job.graph.dimensions)
        return cls(of_npu, of_dimension)

    def number(self, operation: Communicate) -> int:
        """The number for a collective."""
        return self.of_npu[operation.group[0]] if operation.group else self.of_dimension[operation.dimensions[0]]


class JobsSystem(System):
    """System layers side by side. Raises InputError if they want the machine to be different."""

    def __init__(self, systems: Sequence[System], choice: SystemChoice, where: str) -> None:
        self._systems, self._choice = systems, choice
        first = systems[0]
        for name in _SHARED:
            values = [getattr(each, name) for each in systems]
            if any(value != values[0] for value in values):
                expected = f"{name} of systems: {', '.join(map(str, values))}; expected one value, since jobs share the machine"
                raise InputError(f"{where}: {expected}")
            setattr(self, name, values[0])
        for name in ("reduce_ps", "send_overhead_ps", "receive_overhead_ps", "overhead_on_compute", "own_orders_advice"):
            setattr(self, name, getattr(first, name))

    def session(self, dimensions: Sequence[LogicalDimension]) -> SystemSession:
        """A session of each."""
        return _JobsSession([each.session(dimensions) for each in self._systems], self._choice)


class _JobsSession(SystemSession):
    """The sessions of several system layers: the queues of each behind those of the ones before."""

    def __init__(self, sessions: Sequence[SystemSession], choice: SystemChoice) -> None:
        self._sessions, self._choice = sessions, choice
        self._first = [0, *accumulate(len(each.queues) for each in sessions)]
        self.queues: Sequence[QueuePlan] = [queue for each in sessions for queue in each.queues]
        self.later_first = sessions[0].later_first
        self.cuts_by_bandwidth = any(each.cuts_by_bandwidth for each in sessions)
        self._shifted: dict[int, tuple[Sequence[ChunkPlan], Sequence[ChunkPlan]]] = {}

    def issue(self, operation: Communicate, now_ps: int) -> Sequence[ChunkPlan]:
        """The plan of the job's own system layer, with its queues."""
        number = self._choice.number(operation)
        chunks = self._sessions[number].issue(operation, now_ps)
        first = self._first[number]
        if not first:
            return chunks
        if not isinstance(chunks, tuple):
            return [_moved(chunk, first) for chunk in chunks]
        if id(chunks) not in self._shifted:  # a tuple never changes, and is kept so that its id stays its own
            self._shifted[id(chunks)] = chunks, tuple(_moved(chunk, first) for chunk in chunks)
        return self._shifted[id(chunks)][1]

    def assign_queue(self, operation: Communicate, dimension: int, logical: LogicalDimension | Group) -> QueueAssignment:
        """The queue of the job's own system layer."""
        number = self._choice.number(operation)
        queue, priority = self._sessions[number].assign_queue(operation, dimension, logical)
        return QueueAssignment(queue if queue < 0 else queue + self._first[number], priority)

    def repeats(self, operation: Communicate) -> bool:
        """The answer of the job's own system layer."""
        return self._sessions[self._choice.number(operation)].repeats(operation)


def _moved(chunk: ChunkPlan, first: int) -> ChunkPlan:
    """A chunk whose queues count from `first` on."""
    phases = (phase if phase.queue < 0 else attrs.evolve(phase, queue=phase.queue + first) for phase in chunk.phases)
    return attrs.evolve(chunk, phases=tuple(phases))
