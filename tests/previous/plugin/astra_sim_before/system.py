"""The system layer: how an NPU cuts collectives into chunks and phases, and in which queues they wait."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from astra_sim import option
from astra_sim.context import Algorithm, Context
from astra_sim.graph import Communicate
from astra_sim.platform import Group, LogicalDimension
from astra_sim.schedule import Request
from astra_sim.system import ChunkPlan, PhasePlan, QueuePlan, RuleOrder, System, SystemSession


@attrs.frozen
class ChunkOptions:
    """Options of the system layer."""

    splits: int = option(1, minimum=1, maximum=100_000, help="chunks into which a collective is cut")
    slots: int = option(1, minimum=1, help="chunks of a dimension that run at a time")
    endpoint_delay_ns: int = option(10, minimum=0, help="time an endpoint needs for every message", unit="ns")
    algorithm: str = option("ring", help="algorithm of all collectives")


class ChunkedSystem(System):
    """Equal chunks pass through the dimensions of a collective in order: an all-reduce of two dimensions is one in each."""

    def __init__(self, options: ChunkOptions, context: Context) -> None:
        self._options = options
        self._algorithm = context.algorithm(options.algorithm, "algorithm")
        self.endpoint_ps = options.endpoint_delay_ns * 1000

    def session(self, dimensions: Sequence[LogicalDimension]) -> SystemSession:
        """A new session for programs whose collectives speak of these dimensions."""
        return _Session(self._options, self._algorithm, dimensions)


class _Session(SystemSession):
    def __init__(self, options: ChunkOptions, algorithm: Algorithm, dimensions: Sequence[LogicalDimension]) -> None:
        self.queues = [QueuePlan(options.slots, RuleOrder()) for _ in dimensions]
        self._splits = options.splits
        self._algorithm = algorithm
        self._dimensions = dimensions

    def issue(self, operation: Communicate, now_ps: int) -> list[ChunkPlan]:
        """The chunks of a collective. Of one that is smaller than its chunks there is one chunk."""
        splits = self._splits if operation.bytes >= self._splits else 1
        each, more = divmod(operation.bytes, splits)
        chunks = [ChunkPlan(None, self._phases(operation, each + (number < more))) for number in range(splits)]
        return [chunk for chunk in chunks if chunk.phases]

    def _phases(self, operation: Communicate, size: int) -> tuple[PhasePlan, ...]:
        """A phase for each dimension of more than one rank. Each begins with the bytes that the one before has left."""
        stages: list[tuple[int, LogicalDimension | Group]] = [(index, self._dimensions[index]) for index in operation.dimensions]
        if operation.group is not None:
            stages = [(0, Group(operation.group))]
        phases = []
        for index, ranks in stages:
            if ranks.size > 1:
                schedule = self._algorithm.schedule(Request(operation.collective, ranks.size, size))
                phases.append(PhasePlan(index, ranks, operation.collective, size, schedule, index))
                size = schedule.output_bytes
        return tuple(phases)

    def repeats(self, operation: Communicate) -> bool:
        """What `issue` answers depends on the collective alone."""
        return True
