"""From collectives to phase steps of the engine, and their traffic.

This is the one way back: the engine calls `CollectiveLowering.issue` when the first NPU has come to a collective, and only then is it
planned. A system layer may plan by earlier collectives and by the clock (queues that take turns, the loads of Themis), and the order
in which NPUs issue collectives is known in the run alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from itertools import chain

from astra_sim.engine.interface import Engine, PathEdge, PhaseStep
from astra_sim.engine.orders import Job
from astra_sim.errors import DeadlockError, InputError, ScheduleError, located
from astra_sim.graph import Communicate, NpuProgram, counts_by_platform
from astra_sim.limits import MAX_MESSAGES
from astra_sim.network import EventNetwork
from astra_sim.platform import Group, LogicalDimension
from astra_sim.run.communicators import Communicator, Communicators
from astra_sim.run.describe import OperationNames
from astra_sim.run.described_plans import DescribedPlan, DescribedPlanCache, PlannedPhase, Traffic
from astra_sim.run.inputs import RunInputs, check_ranks
from astra_sim.run.phase_cost import PhaseCost, PhaseTimer
from astra_sim.run.routes import RunRoutes, messages_of
from astra_sim.run.symmetry import ScheduleSymmetry, Scope, ScopeSelection, is_closed, is_exact
from astra_sim.schedule import Schedule, lower
from astra_sim.system import ChunkPlan, PhasePlan, SystemSession


class NotSymmetricError(Exception):
    """A collective that was planned in the run has a schedule on which an NPU cannot represent those it was to represent."""


class CollectiveLowering:
    """Plans collectives as the engine asks for them. `planned` and `traffic` keep the result of each, in order of the answers."""

    def __init__(
        self,
        inputs: RunInputs,
        session: SystemSession,
        choice: ScopeSelection,
        schedules: ScheduleSymmetry,
        programs: Sequence[NpuProgram],
        communicators: Communicators,
        names: OperationNames,
        engine: Engine,
    ) -> None:
        self._inputs = inputs
        self._session = session
        self._scope = choice.scope
        self._schedules = schedules
        self._routes = RunRoutes(inputs.network)
        self._timer = PhaseTimer(inputs, self._routes, schedules) if choice.times_phases(inputs.system) else None
        timed = self._timer is not None and choice.scope is Scope.PHASES
        self._cache = DescribedPlanCache(inputs, (choice.scope, session.later_first, inputs.engine) if timed else None)
        self._programs = programs
        self._communicators = communicators
        self._names = names
        one_group = choice.scope is not Scope.ALL_NPUS
        self._phases = EnginePhases(engine, one_group, together=inputs.system.phases_end_together)
        self._moves: dict[tuple[Schedule, LogicalDimension | Group, Communicator], tuple[Sequence[int], int]] = {}
        self.planned: list[PlannedPhase] = []
        self.traffic: list[Traffic] = []

    def issue(self, program: int, index: int, now: int) -> list[list[PhaseStep]]:
        """The chunks of a collective, planned when the first NPU of its group issues it.

        Raises NotSymmetricError if the run must start over with every NPU. A plan of each kind of collective is looked at before the
        run (`symmetry.choose`): this comes only of system layers that plan other schedules at other times, or for other sizes.
        """
        operation = self._programs[program].operations[index]
        assert isinstance(operation, Communicate)
        communicator = self._communicators.of(program, operation)
        try:
            chunks = self._inputs.plan(self._session, operation, now)
        except InputError as error:
            raise located(error, self._names(index, program)) from None
        try:
            described = self._cache.get(chunks)
            if described is None:
                described = self._describe(chunks, communicator)
                self._cache.add(chunks, described)
        except ScheduleError as error:  # errors of a network or a memory model are not located: engines ask them at different times
            raise located(error, self._names(index, program)) from None
        except DeadlockError as error:
            raise DeadlockError(f"{self._names(index, program)}: {error}", error.waiting) from None
        self.planned.extend(described.planned)
        self.traffic.append(described.traffic)
        return described.steps

    def _describe(self, chunks: Sequence[ChunkPlan], communicator: Communicator) -> DescribedPlan:
        """The description of a plan for the engine and the record."""
        planned = self._planned(chunks, communicator)
        traffic = Traffic([0] * len(self._inputs.platform.dimensions))
        # Chunks that are alike share their phases, and so their steps.
        known: dict[tuple[int, int | None], tuple[list[PhaseStep], Traffic]] = {}
        steps = []
        for chunk, phases in zip(chunks, planned, strict=True):
            key = id(chunk.phases), chunk.priority
            if key not in known:
                known[key] = self._steps(chunk, phases, communicator)
            steps.append(known[key][0])
            traffic.add(known[key][1].payload, known[key][1].messages)
        if self._scope is Scope.ALL_NPUS:
            self._check_messages(traffic.messages, planned)
        return DescribedPlan(tuple(chain.from_iterable(planned)), steps, traffic)

    def _check_messages(self, messages: int, planned: Sequence[Sequence[PlannedPhase]]) -> None:
        """Raise ScheduleError if a collective has more messages than can be simulated one by one."""
        npus = self._inputs.platform.npus
        waits = isinstance(self._inputs.network, EventNetwork)
        if messages <= (MAX_MESSAGES // npus if waits else MAX_MESSAGES):  # no message crosses more links than there are NPUs
            return
        if messages > MAX_MESSAGES:
            raise ScheduleError(f"it has {messages} messages on {npus} NPUs; expected at most {MAX_MESSAGES} that are simulated one by one")
        phases = {(plan.schedule, id(plan.logical)): plan for chunk in planned for plan in (phase.plan for phase in chunk)}
        hops = max(self._routes.mean_hops(plan.schedule, plan.logical) for plan in phases.values())
        if messages * hops > MAX_MESSAGES:
            raise ScheduleError(
                f"its {messages} messages on {npus} NPUs cross {hops:.6g} links each, on a network where messages wait for each other;"
                f" expected at most {MAX_MESSAGES} crossings"
            )

    def phase_links(self, plan: PhasePlan) -> Counter[PathEdge]:
        """The links of the critical path of a phase that was timed beforehand, and how many there are like each."""
        assert self._timer is not None
        assert isinstance(plan.logical, LogicalDimension)
        return self._timer.links(plan.schedule, plan.logical, plan.endpoint_ps)

    def _planned(self, chunks: Sequence[ChunkPlan], communicator: Communicator) -> list[list[PlannedPhase]]:
        """The phases of chunks, described. Many are equal: the description of one in this collective is used again."""
        known: dict[Hashable, tuple[PhaseCost | None, Mapping[int, int]]] = {}
        described: dict[int, list[tuple[PhasePlan, PhaseCost | None, Mapping[int, int]]]] = {}
        for chunk in chunks:
            if id(chunk.phases) not in described:
                described[id(chunk.phases)] = [(plan, *self._described(plan, communicator, known)) for plan in chunk.phases]
        return [
            [PlannedPhase(number, place, *each) for place, each in enumerate(described[id(chunk.phases)])]
            for number, chunk in enumerate(chunks)
        ]

    def _described(
        self, plan: PhasePlan, communicator: Communicator, known: dict[Hashable, tuple[PhaseCost | None, Mapping[int, int]]]
    ) -> tuple[PhaseCost | None, Mapping[int, int]]:
        """The time of a phase, and the bytes it sends; `known` caches other phases of the collective."""
        key = plan.schedule, id(plan.logical), plan.dimension, plan.endpoint_ps
        if key not in known:
            check_ranks(plan)
            self._check_members(plan, communicator)
            known[key] = self._cost(plan), self._sent(plan)
        return known[key]

    def _check_members(self, plan: PhasePlan, communicator: Communicator) -> None:
        """Raise if a phase runs on NPUs that do not issue its collective: NotSymmetricError, or InputError if all are simulated."""
        if not self._communicators.several or isinstance(plan.logical, Group):
            return
        if not is_closed([plan.logical], communicator.npus):
            if self._scope is not Scope.ALL_NPUS:
                raise NotSymmetricError
            raise InputError(
                f"it runs on groups of {plan.logical.size} NPUs, {plan.logical.stride} apart, and NPUs of them run programs that share no"
                " such collective; expected an algorithm for each of its dimensions"
            )

    def _cost(self, plan: PhasePlan) -> PhaseCost | None:
        """The time of a phase, if it is known beforehand. Raises NotSymmetricError."""
        if not is_exact(self._scope, self._inputs, self._schedules, plan.schedule, plan.logical):
            raise NotSymmetricError
        if self._timer is None or isinstance(plan.logical, Group):
            return None
        return self._timer.cost(plan.schedule, plan.logical, plan.endpoint_ps)

    def _sent(self, plan: PhasePlan) -> Mapping[int, int]:
        """The dimensions in which a phase counts (`accounting_dimensions`), with the bytes that NPU 0 sends there."""
        schedule = plan.counted or plan.schedule
        if counts_by_platform(self._inputs.graph):
            rendezvous = self._inputs.system.rendezvous and plan.counted is None
            sent = self._routes.payload(schedule, plan.logical, rendezvous)
            result = {dimension: size for dimension, size in enumerate(sent) if size}
            return result or {plan.logical.physical or 0: 0}
        if isinstance(plan.logical, Group):
            return self._routes.sent_in_group(schedule, plan.logical, self._inputs.graph.dimensions)
        return {plan.dimension: schedule.bytes_sent_by_first}

    def _steps(
        self, chunk: ChunkPlan, phases: Sequence[PlannedPhase], communicator: Communicator
    ) -> tuple[list[PhaseStep], Traffic]:  # fmt: skip
        """The phase steps of a chunk, and their traffic."""
        steps = []
        traffic = Traffic([0] * len(self._inputs.platform.dimensions))
        # ASTRA-sim counts priorities up (LIFO) or down (FIFO) with every collective; urgent ones have a fixed one instead.
        age = (1 if self._session.later_first else -1) if chunk.priority is None else 0
        for phase in phases:
            plan, cost = phase.plan, phase.cost
            job = Job(chunk.priority or 0, plan.collective, plan.bytes, len(phases) - 1 - phase.phase)
            if cost is not None:
                steps.append(PhaseStep(job, plan.queue, -1, cost.duration_ps, cost.causal_key, age))
            else:
                steps.append(PhaseStep(job, plan.queue, self._phases.number(plan, communicator), age=age))
            sent, count = self._moved(plan, communicator)
            # Of classes the engine counts the messages that it simulates itself.
            traffic.add(sent, count if cost is not None or self._scope is not Scope.CLASSES else 0)
        return steps, traffic

    def _moved(self, plan: PhasePlan, communicator: Communicator) -> tuple[Sequence[int], int]:
        """Bytes that NPU 0 sends in a phase, for each physical dimension, and the messages of all NPUs."""
        key = plan.counted or plan.schedule, plan.logical, communicator
        if key not in self._moves:
            rendezvous = self._inputs.system.rendezvous and plan.counted is None
            sent = self._routes.payload(key[0], plan.logical, rendezvous) if 0 in communicator.npus else ()
            self._moves[key] = sent, messages_of(plan.schedule, plan.logical, len(communicator.npus), rendezvous)
        return self._moves[key]


class EnginePhases:
    """The groups, schedules and phases that the engine has, each given to it once.

    With `one_group` the first NPU of a communicator represents all of it. With `together` phases end on all its NPUs at once.
    """

    def __init__(self, engine: Engine, one_group: bool, together: bool) -> None:
        self._engine = engine
        self._one_group = one_group
        self._together = together
        self._groups: dict[tuple[LogicalDimension | Group, Communicator], int] = {}
        self._schedules: dict[tuple[Schedule, LogicalDimension | Group, Communicator], int] = {}
        self._phases: dict[tuple[int, int, int | None], int] = {}

    def number(self, plan: PhasePlan, communicator: Communicator) -> int:
        """The number of a phase of a communicator that is simulated message by message."""
        schedule = self._schedule(plan.schedule, plan.logical, communicator)
        key = schedule, plan.queue, plan.endpoint_ps
        if key not in self._phases:
            # A priced collective has no messages that would make its ranks wait for each other, so the engine does.
            barrier = plan.counted is not None
            self._phases[key] = self._engine.add_phase(schedule, plan.queue, self._together, plan.endpoint_ps, barrier)
        return self._phases[key]

    def _schedule(self, schedule: Schedule, logical: LogicalDimension | Group, communicator: Communicator) -> int:
        key = schedule, logical, communicator
        if key not in self._schedules:
            self._schedules[key] = self._engine.add_schedule(lower(schedule), self._groups_of(logical, communicator))
        return self._schedules[key]

    def _groups_of(self, logical: LogicalDimension | Group, communicator: Communicator) -> int:
        key = logical, communicator
        if key not in self._groups:
            if isinstance(logical, Group):
                groups: Sequence[Sequence[int]] = [logical.members]
            else:
                # One rank of one group is enough where it represents all: messages loop back to it (`loop_back` below).
                groups = logical.groups_among(communicator.npus[:1] if self._one_group else communicator.npus)
            dimension = logical if isinstance(logical, LogicalDimension) else None
            self._groups[key] = self._engine.add_groups(groups, dimension, loop_back=self._one_group)
        return self._groups[key]
