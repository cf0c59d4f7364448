"""One run: an execution graph on a system, a network and a memory model, put into the engine."""

from __future__ import annotations

import enum
from collections.abc import Callable

import attrs

from astra_sim.boundary import call
from astra_sim.engine import CALL, JOIN, PHASE, TIMER, Barrier, Engine, Job, PhaseRun
from astra_sim.errors import DeadlockError, InputError, PluginError
from astra_sim.graph import Communicate, Compute, ExecutionGraph, MemoryAccess, Wait
from astra_sim.models import Memory
from astra_sim.network import Network, RouteDelayNetwork
from astra_sim.phases import PhaseTimer, Routes, describe, is_symmetric, messages
from astra_sim.platform import Platform
from astra_sim.schedule import LoweredProgram, Schedule, lower
from astra_sim.system import ChunkPlan, PhasePlan, System

EVENTS_PER_REPORT = 100_000
_LINES_OF_A_DEADLOCK = 20
MAX_NPUS = 1 << 20


@attrs.define(slots=True)
class PhaseRecord:
    """A phase of a chunk on NPU 0: where it belongs, when it was queued, started and ended (picoseconds), and its messages."""

    operation: int
    chunk: int
    phase: int
    plan: PhasePlan
    queued_ps: int
    started_ps: int
    ended_ps: int
    delay_sum: int
    received: int


@attrs.define(slots=True)
class Trace:
    """What happened on NPU 0: begin and end of every operation of the graph and of every phase, and totals of the run.

    An operation that is a collective begins when it is issued.
    """

    finish_ps: int
    begin_ps: list[int]
    end_ps: list[int]
    active: list[bool]
    phases: list[PhaseRecord]
    payload: list[int]
    messages: int
    simulated_npus: int
    events: int


class Scope(enum.Enum):
    """How much of the platform is simulated."""

    PHASES = "one NPU stands for all, and a phase is one event"
    ONE_NPU = "one NPU stands for all, message by message"
    ALL_NPUS = "every NPU and every message"


class _NotSymmetric(Exception):
    """A schedule on which one NPU cannot stand for all."""


def simulate_graph(
    graph: ExecutionGraph,
    platform: Platform,
    system: System,
    network: Network,
    memory: Memory,
    symmetry: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Trace:
    """Simulate a graph, as little of the platform as gives the same answer.

    One NPU can stand for all on a network without contention, where phases end everywhere at once. Unless endpoints share a bus, a phase
    then takes the same time whatever else happens. `progress` is told (simulated picoseconds, events) now and then.
    Raises DeadlockError if the run cannot finish.
    """
    scope = Scope.ALL_NPUS
    if symmetry and isinstance(network, RouteDelayNetwork) and system.phases_end_together:
        scope = Scope.PHASES if system.bus is None else Scope.ONE_NPU
    if scope is not Scope.ALL_NPUS:
        try:
            return _Simulation(graph, platform, system, network, memory, scope).run(progress)
        except _NotSymmetric:
            pass
    if platform.npus > MAX_NPUS:
        raise InputError(f"{platform.npus} NPUs cannot be simulated one by one, which this run needs; at most {MAX_NPUS} can")
    return _Simulation(graph, platform, system, network, memory, Scope.ALL_NPUS).run(progress)


class _Simulation:
    """Puts a graph into the engine and runs it."""

    def __init__(self, graph: ExecutionGraph, platform: Platform, system: System, network: Network, memory: Memory, scope: Scope) -> None:
        self._graph = graph
        self._platform = platform
        self._system = system
        self._memory = memory
        self._session = system.session(graph.dimensions)
        self._scope = scope
        self._routes = Routes(platform)
        self._timer: PhaseTimer | None = None
        if scope is Scope.PHASES:
            assert isinstance(network, RouteDelayNetwork)
            self._timer = PhaseTimer(network, system.endpoint_ps, memory, system.rendezvous)
        self._npus = platform.npus if scope is Scope.ALL_NPUS else 1
        self._engine = Engine(network, system.endpoint_ps, memory.reduce_ps, system.rendezvous, system.bus)
        self._begin: list[list[int]] = []
        self._end: list[list[int]] = []
        self._plans: dict[int, tuple[list[ChunkPlan], list[list[Barrier]]]] = {}
        self._issued: dict[int, int] = {}
        self._phases: list[tuple[int, int, int, PhasePlan, int, int, int, PhaseRun | None]] = []
        self._payload = [0] * len(platform.dimensions)
        self._messages = 0
        self._lowered: dict[Schedule, tuple[LoweredProgram, ...]] = {}
        self._running: dict[int, tuple[int, int, int, PhaseRun]] = {}
        self._active = [False] * len(graph.operations)
        self._first_queue: list[int] = []

    def run(self, progress: Callable[[int, int], None] | None = None) -> Trace:
        """Run to the end."""
        engine = self._engine
        for npu in range(self._npus):
            self._add_npu(npu)
        for npu in range(self._npus):
            for index, operation in enumerate(self._graph.operations):
                if not operation.after and not (isinstance(operation, Wait) and operation.pending):
                    engine.start(self._begin[npu][index])
        while engine.run(EVENTS_PER_REPORT) is not None:
            if progress is not None:
                progress(engine.now, engine.events)
        self._check_finished()
        return self._trace()

    # -- building ------------------------------------------------------------------------------------------------------

    def _add_npu(self, npu: int) -> None:
        engine = self._engine
        queues = [engine.add_queue(queue.slots, queue.order) for queue in self._session.queues]
        self._first_queue.append(queues[0] if queues else 0)
        begin: list[int] = []
        end: list[int] = []
        for index, operation in enumerate(self._graph.operations):
            if isinstance(operation, Communicate):
                begin.append(engine.add_task(CALL, npu=npu))
                end.append(engine.add_task(TIMER, operation.update_ps, npu=npu))
                engine.payload[begin[-1]] = self._issuer(npu, index, operation, end[-1])
                engine.precede(begin[-1], end[-1])
            else:
                task = self._add_plain(npu, operation)
                begin.append(task)
                end.append(task)
            for other in operation.after:
                engine.precede(end[other], begin[index])
            for other in operation.pending if isinstance(operation, Wait) else ():
                engine.precede(end[other], begin[index])
        self._begin.append(begin)
        self._end.append(end)

    def _add_plain(self, npu: int, operation: Compute | Wait | MemoryAccess) -> int:
        if isinstance(operation, Compute) and operation.duration_ps:
            return self._engine.add_task(TIMER, operation.duration_ps, npu=npu)
        if isinstance(operation, MemoryAccess):
            return self._engine.add_task(TIMER, self._memory.checked_ps(operation.bytes, operation.write), npu=npu)
        return self._engine.add_task(JOIN, npu=npu)

    def _issuer(self, npu: int, index: int, operation: Communicate, end: int) -> Callable[[int], None]:
        def issue(now: int) -> None:
            chunks, barriers = self._plan(index, operation, now)
            if not chunks:
                self._engine.kind[end] = JOIN
            for number, chunk in enumerate(chunks):
                self._add_chunk(npu, index, number, chunk, barriers[number] if barriers else None, end)

        return issue

    def _plan(self, index: int, operation: Communicate, now: int) -> tuple[list[ChunkPlan], list[list[Barrier]]]:
        """The chunks of a collective: planned when the first NPU issues it, forgotten when the last has."""
        if index not in self._plans:
            barriers: list[list[Barrier]] = []
            try:
                chunks: list[ChunkPlan] = call(f"system {type(self._system).__name__}", self._session.issue, operation, now)
                for chunk in chunks:
                    if not chunk.phases:
                        raise PluginError(f"system {type(self._system).__name__} planned a chunk without phases")
                    self._count(chunk)
                    if self._timer is None:
                        barriers.append([self._open(plan) for plan in chunk.phases])
            except InputError as error:
                raise type(error)(f"{self._name(index)}: {error}") from None
            except DeadlockError as error:
                raise DeadlockError(f"{self._name(index)}: {error}", error.waiting) from None
            self._active[index] = bool(chunks)
            self._plans[index] = chunks, barriers
            self._issued[index] = 0
        self._issued[index] += 1
        if self._issued[index] == self._npus:
            return self._plans.pop(index)
        return self._plans[index]

    def _count(self, chunk: ChunkPlan) -> None:
        for plan in chunk.phases:
            if self._timer is not None:
                cost = self._timer.cost(plan.schedule, plan.logical)
                sent, number = cost.payload, cost.messages
            else:
                sent = self._routes.payload(plan.schedule, plan.logical, self._system.rendezvous)
                number = messages(plan.schedule, plan.logical, self._platform, self._system.rendezvous)
            self._messages += number
            for dimension, size in enumerate(sent):
                self._payload[dimension] += size

    def _open(self, plan: PhasePlan) -> Barrier:
        """The parts of all NPUs in a phase, ready to start."""
        programs = self._lowered.get(plan.schedule)
        if programs is None:
            programs = self._lowered[plan.schedule] = lower(plan.schedule)
        barrier = Barrier(self._system.phases_end_together)
        for npu in range(self._npus):
            rank = plan.logical.index(npu)
            PhaseRun(npu, rank, plan.logical.group(npu), programs[rank % len(programs)], barrier)
        if self._scope is Scope.ONE_NPU:
            if not is_symmetric(plan.schedule, plan.logical, self._platform):
                raise _NotSymmetric
            barrier.loop_back(plan.logical.group(0))
        return barrier

    def _add_chunk(self, npu: int, index: int, number: int, chunk: ChunkPlan, barriers: list[Barrier] | None, end: int) -> None:
        engine = self._engine
        first = previous = -1
        for phase, plan in enumerate(chunk.phases):
            job = Job(chunk.priority, plan.collective, plan.bytes, len(chunk.phases) - 1 - phase)
            queue = self._first_queue[npu] + plan.queue
            run = None
            if barriers is None:
                assert self._timer is not None
                cost = self._timer.cost(plan.schedule, plan.logical)
                task = engine.add_task(TIMER, cost.duration_ps, queue=queue, payload=job, trail=cost.trail, npu=npu)
                if npu == 0:
                    self._phases.append((index, number, phase, plan, task, cost.delay_sum, cost.received, None))
            else:
                run = barriers[phase].by_npu[npu]
                task = engine.add_task(PHASE, queue=queue, payload=(job, run), npu=npu)
                self._running[task] = (index, number, phase, run)
                if npu == 0:
                    self._phases.append((index, number, phase, plan, task, 0, 0, run))
            if previous < 0:
                first = task
            else:
                engine.precede(previous, task)
            previous = task
        engine.precede(previous, end)
        engine.start(first)

    # -- after the run -------------------------------------------------------------------------------------------------

    def _trace(self) -> Trace:
        engine = self._engine
        phases = [
            PhaseRecord(
                index,
                chunk,
                phase,
                plan,
                engine.ready_at[task],
                engine.started_at[task],
                engine.finished_at[task],
                delay_sum if run is None else run.delay_sum,
                received if run is None else run.received,
            )
            for index, chunk, phase, plan, task, delay_sum, received, run in self._phases
        ]
        return Trace(
            engine.now,
            [engine.ready_at[task] for task in self._begin[0]],
            [engine.finished_at[task] for task in self._end[0]],
            self._active,
            phases,
            self._payload,
            engine.messages if self._scope is Scope.ALL_NPUS else self._messages,
            self._npus,
            engine.events,
        )

    def _check_finished(self) -> None:
        engine = self._engine
        unfinished = [
            (npu, index) for npu in range(self._npus) for index, task in enumerate(self._end[npu]) if engine.finished_at[task] < 0
        ]
        if not unfinished:
            return
        waiting: list[str] = []
        for npu, index in unfinished:
            operation = self._graph.operations[index]
            if engine.ready_at[self._begin[npu][index]] < 0:
                waits = operation.after + (operation.pending if isinstance(operation, Wait) else ())
                missing = [o for o in waits if engine.finished_at[self._end[npu][o]] < 0]
                waiting.append(f"NPU {npu}: {self._name(index)} waits for " + ", ".join(self._name(o) for o in missing[:3]))
        stuck: list[str] = []
        for task, (index, chunk, phase, run) in self._running.items():
            if engine.started_at[task] >= 0 and engine.finished_at[task] < 0:
                where = f"{self._name(index)}, chunk {chunk}, phase {phase + 1}"
                stuck.extend(f"{line} ({where})" for line in describe(run))
        # Messages that do not come explain the rest.
        stuck.sort(key=lambda line: "waits for a message" not in line)
        waiting = stuck + waiting
        head = f"the run cannot finish: at {engine.now / 1000:g} ns nothing is left to happen, and {len(unfinished)} operations wait"
        more = [f"and {len(waiting) - _LINES_OF_A_DEADLOCK} more"] if len(waiting) > _LINES_OF_A_DEADLOCK else []
        raise DeadlockError("\n  ".join([head, *waiting[:_LINES_OF_A_DEADLOCK], *more]), waiting)

    def _name(self, index: int) -> str:
        """An operation, in words."""
        operation = self._graph.operations[index]
        layer = self._graph.layers[operation.layer] if 0 <= operation.layer < len(self._graph.layers) else None
        where = f" of layer {layer}" if layer else ""
        if isinstance(operation, MemoryAccess):
            return f"operation {index} ({'write' if operation.write else 'read'} of {operation.bytes} bytes{where})"
        what = (
            f"{operation.collective} of {operation.bytes} bytes" if isinstance(operation, Communicate) else type(operation).__name__.lower()
        )
        return f"operation {index} ({what}{where}, {operation.training_pass}, iteration {operation.iteration})"
