"""From collectives to phase steps of the engine, and what they move.

This is the one way back: the engine calls `CollectiveLowering.issue` when the first NPU has come to a collective, and only then is it
planned. A system layer may plan by what was issued before and by the clock (queues that take turns, the loads of Themis), and the order
in which NPUs issue collectives is known in the run alone.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import chain

import attrs

from astra_sim.engine import Engine, Job, MakeEngine, PhaseStep
from astra_sim.errors import DeadlockError, InputError
from astra_sim.graph import Communicate, NpuProgram
from astra_sim.network import RouteDelayNetwork
from astra_sim.platform import Group, LogicalDimension
from astra_sim.run.inputs import RunInputs, check_ranks
from astra_sim.run.phase_cost import PhaseCost, PhaseTimer
from astra_sim.run.routes import Routes, messages_of
from astra_sim.run.symmetry import Choice, ScheduleSymmetry, Scope, suits
from astra_sim.run.words import OperationNames
from astra_sim.schedule import Schedule, lower
from astra_sim.system import ChunkPlan, PhasePlan, SystemSession


class NotSymmetricError(Exception):
    """A collective that was planned in the run has a schedule on which an NPU cannot stand for those it was to stand for."""


@attrs.frozen(slots=True)
class PlannedPhase:
    """A phase of a chunk as it was planned, with what it takes where that is known beforehand.

    `sent` holds the dimensions of the program in which it counts, with the bytes that NPU 0 sends there.
    """

    chunk: int
    phase: int
    plan: PhasePlan
    cost: PhaseCost | None
    sent: Mapping[int, int]


@attrs.define(slots=True)
class Traffic:
    """What a collective moves: the bytes that NPU 0 sends in each physical dimension, and the messages of all NPUs."""

    payload: list[int]
    messages: int = 0


class CollectiveLowering:
    """Plans collectives as the engine asks for them. `planned` and `traffic` keep what became of each, in order of the answers."""

    def __init__(
        self,
        inputs: RunInputs,
        session: SystemSession,
        choice: Choice,
        schedules: ScheduleSymmetry,
        programs: Sequence[NpuProgram],
        names: OperationNames,
        engine: Engine,
        make_engine: MakeEngine,
    ) -> None:
        self._inputs = inputs
        self._session = session
        self._scope = choice.scope
        self._schedules = schedules
        self._routes = Routes(inputs.network)
        self._timer = self._make_timer(make_engine) if choice.scope is Scope.PHASES else None
        self._programs = programs
        self._names = names
        npus = choice.npu_numbers(inputs.platform.npus)
        one_group = choice.scope is not Scope.ALL_NPUS
        self._phases = EnginePhases(engine, npus, one_group, together=inputs.system.phases_end_together)
        self.planned: list[PlannedPhase] = []
        self.traffic: list[Traffic] = []

    def _make_timer(self, make_engine: MakeEngine) -> PhaseTimer:
        system, network = self._inputs.system, self._inputs.network
        assert isinstance(network, RouteDelayNetwork)
        reduce_ps = self._inputs.reduce_ps
        return PhaseTimer(network, self._routes, self._schedules, system.endpoint_ps, reduce_ps, system.rendezvous, make_engine)

    def issue(self, program: int, index: int, now: int) -> list[list[PhaseStep]]:
        """The chunks of a collective, planned when the first NPU of its group issues it.

        Raises NotSymmetricError where the run must start over with every NPU. A plan of each kind of collective is looked at before the
        run (`symmetry.choose`): this comes only of system layers that plan other schedules at other times, or for other sizes.
        """
        operation = self._programs[program].operations[index]
        assert isinstance(operation, Communicate)
        try:
            chunks = self._inputs.plan(self._session, operation, now)
            planned = self._planned(chunks)
            traffic = Traffic([0] * len(self._inputs.platform.dimensions))
            steps = [self._steps(chunk, phases, traffic) for chunk, phases in zip(chunks, planned, strict=True)]
        except InputError as error:
            raise type(error)(f"{self._names(index, program)}: {error}") from None
        except DeadlockError as error:
            raise DeadlockError(f"{self._names(index, program)}: {error}", error.waiting) from None
        self.planned.extend(chain.from_iterable(planned))
        self.traffic.append(traffic)
        return steps

    def _planned(self, chunks: Sequence[ChunkPlan]) -> list[list[PlannedPhase]]:
        """The phases of chunks, described. Many are alike: what has been said of one in this collective is not worked out again."""
        known: dict[Hashable, tuple[PhaseCost | None, Mapping[int, int]]] = {}
        planned = []
        for number, chunk in enumerate(chunks):
            phases = []
            for place, plan in enumerate(chunk.phases):
                key = plan.schedule, id(plan.logical), plan.dimension, plan.endpoint_ps
                if key not in known:
                    check_ranks(plan)
                    known[key] = self._cost(plan), self._sent(plan)
                phases.append(PlannedPhase(number, place, plan, *known[key]))
            planned.append(phases)
        return planned

    def _cost(self, plan: PhasePlan) -> PhaseCost | None:
        """What a phase takes, where that is known beforehand. Raises NotSymmetricError."""
        if not suits(self._scope, self._inputs, self._schedules, plan.schedule, plan.logical):
            raise NotSymmetricError
        if self._timer is None:
            return None
        assert isinstance(plan.logical, LogicalDimension)
        return self._timer.cost(plan.schedule, plan.logical, plan.endpoint_ps)

    def _sent(self, plan: PhasePlan) -> Mapping[int, int]:
        """The dimensions of the program in which a phase counts, with the bytes that NPU 0 sends there."""
        schedule = plan.counted or plan.schedule
        if isinstance(plan.logical, Group):
            return self._routes.sent_in_group(schedule, plan.logical, self._inputs.graph.dimensions)
        return {plan.dimension: sum(step.bytes * step.times for step in schedule.program(0).steps if step.send_to is not None)}

    def _steps(self, chunk: ChunkPlan, phases: Sequence[PlannedPhase], traffic: Traffic) -> list[PhaseStep]:
        """The phase steps of a chunk; adds to `traffic` what they move."""
        steps = []
        age = (1 if self._session.later_first else -1) if chunk.priority is None else 0
        for phase in phases:
            plan, cost = phase.plan, phase.cost
            job = Job(chunk.priority or 0, plan.collective, plan.bytes, len(phases) - 1 - phase.phase)
            if cost is not None:
                steps.append(PhaseStep(job, plan.queue, -1, cost.duration_ps, cost.history, age))
                sent, count = cost.payload, cost.messages
            else:
                steps.append(PhaseStep(job, plan.queue, self._phases.number(plan), age=age))
                rendezvous = self._inputs.system.rendezvous
                sent = self._routes.payload(plan.schedule, plan.logical, rendezvous)
                count = messages_of(plan.schedule, plan.logical, self._inputs.platform.npus, rendezvous)
            if plan.counted is not None:
                sent = self._routes.payload(plan.counted, plan.logical, rendezvous=False)
            traffic.messages += count
            for dimension, size in enumerate(sent):
                traffic.payload[dimension] += size
        return steps


class EnginePhases:
    """The groups, schedules and phases that the engine has, each given to it once.

    With `one_group` the first NPU of the group of NPU 0 stands for all. With `together` phases end everywhere at once.
    """

    def __init__(self, engine: Engine, npus: int, one_group: bool, together: bool) -> None:
        self._engine = engine
        self._npus = npus
        self._one_group = one_group
        self._together = together
        self._groups: dict[LogicalDimension | Group, int] = {}
        self._schedules: dict[tuple[Schedule, LogicalDimension | Group], int] = {}
        self._phases: dict[tuple[int, int, int | None], int] = {}

    def number(self, plan: PhasePlan) -> int:
        """The number of a phase that is simulated message by message."""
        schedule = self._schedule(plan.schedule, plan.logical)
        key = schedule, plan.queue, plan.endpoint_ps
        if key not in self._phases:
            barrier = plan.counted is not None
            self._phases[key] = self._engine.add_phase(schedule, plan.queue, self._together, plan.endpoint_ps, barrier)
        return self._phases[key]

    def _schedule(self, schedule: Schedule, logical: LogicalDimension | Group) -> int:
        key = schedule, logical
        if key not in self._schedules:
            self._schedules[key] = self._engine.add_schedule(lower(schedule), self._groups_of(logical))
        return self._schedules[key]

    def _groups_of(self, logical: LogicalDimension | Group) -> int:
        if logical not in self._groups:
            groups = [logical.group(0)] if self._one_group else logical.groups(self._npus)
            dimension = logical if isinstance(logical, LogicalDimension) else None
            self._groups[logical] = self._engine.add_groups(groups, dimension, loop_back=self._one_group)
        return self._groups[logical]
