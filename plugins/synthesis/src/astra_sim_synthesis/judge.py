"""The time of a schedule on a network: one collective of all NPUs, simulated by itself."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from typing import Any

import attrs
from astra_sim.commands import Components, Experiment, Plugins, build, run_components
from astra_sim.graph import Communicate, ExecutionGraph, Pass
from astra_sim.platform import LogicalDimension
from astra_sim.schedule import Collective, Request, Schedule
from astra_sim.system import ChunkPlan, PhasePlan, QueuePlan, System, SystemSession


class _FixedSession(SystemSession):
    """The one collective of a run, carried out by one schedule."""

    def __init__(self, schedule: Schedule, whole: LogicalDimension, queue: QueuePlan) -> None:
        self._schedule, self._whole = schedule, whole
        self.queues = [queue]

    def issue(self, operation: Communicate, now_ps: int) -> Sequence[ChunkPlan]:
        phase = PhasePlan(0, self._whole, operation.collective, operation.bytes, self._schedule, 0)
        return (ChunkPlan(None, (phase,)),)


@attrs.frozen(eq=False)
class Judge:
    """A network and a system layer on which schedules are compared."""

    components: Components

    @classmethod
    def of(cls, platform: Any, network: Any, system: Any, plugins: Plugins, assignments: Sequence[str] = ()) -> Judge:
        """Build them. Raises InputError if something does not fit."""
        experiment = Experiment()
        for kind, spec in (("platform", platform), ("network", network), ("system", system)):
            if spec is not None:
                experiment.use(kind, spec, plugins, where=kind)
        experiment.use("workload", ExecutionGraph((), (), ()), plugins)
        for assignment in assignments:
            experiment.set(assignment)
        return cls(build(experiment, plugins))

    @property
    def endpoint_ns(self) -> float:
        """The time of an endpoint for each message."""
        return self.components.system.endpoint_ps / 1000

    def time_ns(self, schedule: Schedule, collective: Collective, size: int) -> float:
        """The time of a schedule."""
        platform = self.components.platform
        fixed: System = copy.copy(self.components.system)
        queue = self.components.system.session(platform.logical_dimensions()).queues[0]
        fixed.session = lambda dimensions: _FixedSession(schedule, platform.whole(), queue)  # type: ignore[method-assign]
        return self._run(attrs.evolve(self.components, system=fixed), collective, size)

    def chosen_ns(self, collective: Collective, size: int) -> float:
        """The times of the algorithms of the system layer: those of `auto`, unless others were chosen."""
        return self._run(self.components, collective, size)

    def phases(self, request: Request) -> Sequence[PhasePlan]:
        """The phases in which the system layer does a collective by itself, as one chunk; none if it makes several chunks."""
        dimensions = self.components.platform.logical_dimensions()
        session = self.components.system.session(dimensions)
        chunks = session.issue(_operation(request.collective, request.bytes, len(dimensions)), 0)
        return chunks[0].phases if len(chunks) == 1 else ()

    def _run(self, components: Components, collective: Collective, size: int) -> float:
        dimensions = components.platform.logical_dimensions()
        graph = ExecutionGraph((_operation(collective, size, len(dimensions)),), dimensions, (), None, ())
        result = run_components(attrs.evolve(components, graph=graph), f"{collective} of {size} bytes", time.perf_counter())
        return float(result.finish_ns)


def _operation(collective: Collective, size: int, dimensions: int) -> Communicate:
    return Communicate((), collective, size, tuple(range(dimensions)), -1, Pass.FORWARD)
