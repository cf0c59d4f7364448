"""One run: an execution graph on a system, a network and a memory model, put into the engine."""

from __future__ import annotations

import enum
from collections.abc import Callable

import attrs

from astra_sim.boundary import call
from astra_sim.engine import ACCESS, COLLECTIVE, JOIN, TIMER, Job, MakeEngine, Part, Task, choose_engine
from astra_sim.errors import DeadlockError, InputError, PluginError
from astra_sim.graph import Communicate, ExecutionGraph, MemoryAccess, Operation, Wait
from astra_sim.models import Memory
from astra_sim.network import EventNetwork, Network, RouteDelayNetwork
from astra_sim.phases import PhaseCost, PhaseTimer, Routes, describe, is_symmetric, messages
from astra_sim.platform import LogicalDimension, Platform
from astra_sim.schedule import Schedule, lower
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
    engine: str = "auto",
    progress: Callable[[int, int], None] | None = None,
) -> Trace:
    """Simulate a graph, as little of the platform as gives the same answer.

    One NPU can stand for all on a network without contention, where phases end everywhere at once and no memory is shared. Unless
    endpoints share a bus, a phase then takes the same time whatever else happens. `engine` is "python", "compiled" or "auto" (compiled
    where it is installed). `progress` is told (simulated picoseconds, events) now and then.
    Raises DeadlockError if the run cannot finish.
    """
    make_engine = choose_engine(engine)
    scope = Scope.ALL_NPUS
    alike = not _uses_remote_memory(graph) or all(port < 0 for port in _ports(memory, platform.npus))
    if symmetry and alike and isinstance(network, RouteDelayNetwork) and system.phases_end_together:
        scope = Scope.PHASES if system.bus is None else Scope.ONE_NPU
    if scope is not Scope.ALL_NPUS:
        try:
            return _Simulation(graph, platform, system, network, memory, scope, make_engine).run(progress)
        except _NotSymmetric:
            pass
    if isinstance(network, EventNetwork):
        call(f"network {type(network).__name__}: begin", network.begin)
    if platform.npus > MAX_NPUS:
        raise InputError(f"{platform.npus} NPUs cannot be simulated one by one, which this run needs; at most {MAX_NPUS} can")
    return _Simulation(graph, platform, system, network, memory, Scope.ALL_NPUS, make_engine).run(progress)


def _uses_remote_memory(graph: ExecutionGraph) -> bool:
    return any(isinstance(operation, MemoryAccess) and operation.remote for operation in graph.operations)


def _ports(memory: Memory, npus: int) -> list[int]:
    """The ports at which NPUs use remote memory, numbered from 0 on; -1 where accesses never wait."""
    what = f"memory {type(memory).__name__}: remote_port"
    given = [call(what, memory.remote_port, npu) for npu in range(npus)]
    numbers = {port: number for number, port in enumerate(dict.fromkeys(port for port in given if port is not None))}
    return [-1 if port is None else numbers[port] for port in given]


class _Simulation:
    """Puts a graph into the engine and runs it."""

    def __init__(
        self,
        graph: ExecutionGraph,
        platform: Platform,
        system: System,
        network: Network,
        memory: Memory,
        scope: Scope,
        make_engine: MakeEngine,
    ) -> None:
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
            self._timer = PhaseTimer(network, system.endpoint_ps, memory, system.rendezvous, make_engine)
        self._npus = platform.npus if scope is Scope.ALL_NPUS else 1
        self._engine = make_engine(self._npus, network, system.endpoint_ps, memory.reduce_ps, system.rendezvous, system.bus)
        self._groups: dict[LogicalDimension, int] = {}
        self._schedules: dict[tuple[Schedule, LogicalDimension], int] = {}
        self._planned: dict[tuple[int, int, int], tuple[PhasePlan, PhaseCost | None]] = {}
        self._payload = [0] * len(platform.dimensions)
        self._messages = 0
        self._active = [False] * len(graph.operations)

    def run(self, progress: Callable[[int, int], None] | None = None) -> Trace:
        """Run to the end."""
        engine = self._engine
        engine.add_queues([(queue.slots, queue.order) for queue in self._session.queues])
        if _uses_remote_memory(self._graph):
            engine.add_ports(_ports(self._memory, self._npus))
        engine.add_program([self._task(operation) for operation in self._graph.operations], range(self._npus), self._issue)
        while engine.run(EVENTS_PER_REPORT):
            if progress is not None:
                progress(engine.now, engine.events)
        self._check_finished()
        return self._trace()

    # -- building ------------------------------------------------------------------------------------------------------

    def _task(self, operation: Operation) -> Task:
        """An operation as the engine takes it."""
        if isinstance(operation, Communicate):
            return Task(COLLECTIVE, operation.update_ps, operation.after)
        if isinstance(operation, Wait):
            return Task(JOIN, 0, operation.after + operation.pending)
        if isinstance(operation, MemoryAccess):
            time = self._memory.checked_ps(operation.bytes, operation.write, operation.remote)
            return Task(ACCESS if operation.remote else TIMER, time, operation.after)
        return Task(TIMER if operation.duration_ps else JOIN, operation.duration_ps, operation.after)

    def _issue(self, index: int, now: int) -> list[list[Part]]:
        """The chunks of a collective, planned when the first NPU issues it."""
        operation = self._graph.operations[index]
        assert isinstance(operation, Communicate)
        name = f"system {type(self._system).__name__}"
        try:
            chunks: list[ChunkPlan] = call(name, self._session.issue, operation, now)
            parts = [self._parts(index, number, chunk) for number, chunk in enumerate(chunks)]
        except InputError as error:
            raise type(error)(f"{self._name(index)}: {error}") from None
        except DeadlockError as error:
            raise DeadlockError(f"{self._name(index)}: {error}", error.waiting) from None
        if not all(parts):
            raise PluginError(f"{name} planned a chunk without phases")
        self._active[index] = bool(chunks)
        return parts

    def _parts(self, index: int, number: int, chunk: ChunkPlan) -> list[Part]:
        parts = []
        for place, plan in enumerate(chunk.phases):
            job = Job(chunk.priority, plan.collective, plan.bytes, len(chunk.phases) - 1 - place)
            cost = self._timer.cost(plan.schedule, plan.logical) if self._timer is not None else None
            if cost is not None:
                parts.append(Part(job, plan.queue, -1, cost.duration_ps, cost.trail))
                sent, count = cost.payload, cost.messages
            else:
                parts.append(Part(job, plan.queue, self._phase(plan)))
                sent = self._routes.payload(plan.schedule, plan.logical, self._system.rendezvous)
                count = messages(plan.schedule, plan.logical, self._platform, self._system.rendezvous)
            self._planned[index, number, place] = plan, cost
            self._messages += count
            for dimension, size in enumerate(sent):
                self._payload[dimension] += size
        return parts

    def _phase(self, plan: PhasePlan) -> int:
        """A phase of the engine."""
        key = plan.schedule, plan.logical
        if key not in self._schedules:
            one = self._scope is Scope.ONE_NPU
            if one and not is_symmetric(plan.schedule, plan.logical, self._platform):
                raise _NotSymmetric
            if plan.logical not in self._groups:
                groups = [plan.logical.group(0)] if one else plan.logical.groups(self._npus)
                self._groups[plan.logical] = self._engine.add_groups(groups, plan.logical, loop_back=one)
            self._schedules[key] = self._engine.add_schedule(lower(plan.schedule), self._groups[plan.logical])
        return self._engine.add_phase(self._schedules[key], plan.queue, self._system.phases_end_together)

    # -- after the run -------------------------------------------------------------------------------------------------

    def _trace(self) -> Trace:
        engine = self._engine
        phases = []
        for record in engine.parts(0):
            plan, cost = self._planned[record.task, record.chunk, record.part]
            measured = record if cost is None else cost
            phases.append(
                PhaseRecord(
                    record.task,
                    record.chunk,
                    record.part,
                    plan,
                    record.queued_at,
                    record.started_at,
                    record.ended_at,
                    measured.delay_sum,
                    measured.received,
                )
            )
        begin, end = engine.times(0)
        return Trace(
            engine.now,
            begin,
            end,
            self._active,
            phases,
            self._payload,
            engine.messages if self._scope is Scope.ALL_NPUS else self._messages,
            self._npus,
            engine.events,
        )

    def _check_finished(self) -> None:
        engine = self._engine
        unfinished = engine.unfinished()
        if not unfinished:
            return
        waiting: list[str] = []
        left = {(npu, index) for npu, index, _ in unfinished}
        for npu, index, ready in unfinished:
            if not ready:
                operation = self._graph.operations[index]
                waits = operation.after + (operation.pending if isinstance(operation, Wait) else ())
                missing = [other for other in waits if (npu, other) in left]
                waiting.append(f"NPU {npu}: {self._name(index)} waits for " + ", ".join(self._name(o) for o in missing[:3]))
        stuck: list[str] = []
        for state in engine.stuck():
            where = f"{self._name(state.task)}, chunk {state.chunk}, phase {state.part + 1}"
            stuck.extend(f"{line} ({where})" for line in describe(state))
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
            memory = " of remote memory" if operation.remote else ""
            return f"operation {index} ({'write' if operation.write else 'read'} of {operation.bytes} bytes{memory}{where})"
        what = (
            f"{operation.collective} of {operation.bytes} bytes" if isinstance(operation, Communicate) else type(operation).__name__.lower()
        )
        return f"operation {index} ({what}{where}, {operation.training_pass}, iteration {operation.iteration})"
