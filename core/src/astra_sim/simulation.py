"""One run: an execution graph on a system, a network and a memory model, put into the engine."""

from __future__ import annotations

import contextlib
import enum
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple

import attrs

from astra_sim.boundary import call, picoseconds
from astra_sim.classes import NpuClass, find_classes, peer_of
from astra_sim.engine import (
    ACCESS,
    COLLECTIVE,
    CONTROL_BYTES,
    JOIN,
    RECEIVE,
    SEND,
    TIMER,
    Engine,
    Job,
    MakeEngine,
    Part,
    PartRecords,
    Task,
    UnlikeCollectivesError,
    choose_engine,
)
from astra_sim.errors import DeadlockError, InputError, PluginError, RunError
from astra_sim.graph import (
    Communicate,
    Compute,
    ExecutionGraph,
    MemoryAccess,
    Operation,
    RankProgram,
    Receive,
    Send,
    Unit,
    Wait,
    operation_rows,
    waits_of,
)
from astra_sim.models import Memory
from astra_sim.network import EventNetwork, Network, RouteDelayNetwork
from astra_sim.phases import NotSymmetricError, PhaseCost, PhaseTimer, describe, messages
from astra_sim.platform import Group, LogicalDimension
from astra_sim.routes import Routes
from astra_sim.rows import Column, Rows, column, kinds_of
from astra_sim.schedule import Collective, Schedule, lower
from astra_sim.system import ChunkPlan, PhasePlan, System, check_chunks

EVENTS_PER_REPORT = 100_000
_LINES_OF_A_DEADLOCK = 20
MAX_NPUS = 1 << 20


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


class PhaseRecord(NamedTuple):
    """A phase of a chunk on NPU 0: where it belongs, when it was queued, started and ended (picoseconds), and its messages.

    `dimensions` are those of the program in which it counts.
    """

    operation: int
    chunk: int
    phase: int
    plan: PhasePlan
    dimensions: tuple[int, ...]
    queued_ps: int
    started_ps: int
    ended_ps: int
    delay_sum: int
    received: int


@attrs.frozen(eq=False)
class PhaseRecords:
    """The phases of all chunks on NPU 0, in the order in which they were issued. `records` say which of the planned ones each is."""

    records: PartRecords
    planned: Sequence[PlannedPhase]

    def __iter__(self) -> Iterator[PhaseRecord]:
        for task, part, queued, started, ended, delay_sum, received in self.records:
            planned = self.planned[part]
            if planned.cost is not None:
                delay_sum, received = planned.cost.delay_sum, planned.cost.received
            place = planned.chunk, planned.phase, planned.plan, tuple(planned.sent)
            yield PhaseRecord(task, *place, queued, started, ended, delay_sum, received)


@attrs.frozen(eq=False)
class Sends:
    """The messages that operations of NPU 0 send: number of the operation and when it began (picoseconds).

    `sent` says for each kind of operation the dimensions of the program in which a message counts, with its bytes.
    """

    operation: Sequence[int]
    begun_ps: Sequence[int]
    sent: Sequence[Mapping[int, int]]


@attrs.define(slots=True)
class Trace:
    """What happened on NPU 0: begin and end of every operation of the graph and of every phase, and totals of the run.

    An operation that is a collective begins when it is issued. `npu_end_ps` is when each simulated NPU had done its last operation. All
    these moments include `start_ps`, when the workload starts: what the network answers to `begin`.
    """

    start_ps: int
    finish_ps: int
    begin_ps: Sequence[int]
    end_ps: Sequence[int]
    phases: PhaseRecords
    sends: Sends
    npu_end_ps: list[int]
    payload: list[int]
    messages: int
    simulated_npus: int
    events: int


class Scope(enum.Enum):
    """How much of the platform is simulated."""

    PHASES = "one NPU stands for all, and a phase is one event"
    ONE_NPU = "one NPU stands for all, message by message"
    CLASSES = "the first NPU of each class stands for the others, message by message"
    ALL_NPUS = "every NPU and every message"


_MOVING, _COMPUTING, _COMPUTING_ON_CPU = range(3)
"""Units of an NPU that does one operation of each sort at a time."""

_UNITS = {Unit.ACCELERATOR: _COMPUTING, Unit.CPU: _COMPUTING_ON_CPU, Unit.COMMUNICATION: _MOVING, Unit.NONE: -1}


@attrs.define(slots=True)
class _Traffic:
    """What a collective moves: the bytes that NPU 0 sends in each physical dimension, and the messages of all NPUs."""

    payload: list[int]
    messages: int = 0


def simulate_graph(
    graph: ExecutionGraph,
    system: System,
    network: Network,
    memory: Memory,
    symmetry: bool = True,
    engine: str = "auto",
    progress: Callable[[int, int], None] | None = None,
) -> Trace:
    """Simulate a graph on the platform of the network, as little of it as gives the same answer.

    One NPU can stand for all on a network without contention, where phases end everywhere at once and no memory is shared. Unless
    endpoints share a bus, a phase then takes the same time whatever else happens. `engine` is "python", "compiled" or "auto" (compiled
    where it is installed). `progress` is told (simulated picoseconds, events) now and then.
    Raises DeadlockError if the run cannot finish.
    """
    make_engine = choose_engine(engine)
    scope, classes, platform = Scope.ALL_NPUS, None, network.platform
    if symmetry and isinstance(network, RouteDelayNetwork) and _never_wait_for_memory(graph, memory, platform.npus):
        if _npus_are_alike(graph):
            scope = Scope.PHASES if system.bus is None else Scope.ONE_NPU
        else:
            classes = find_classes(graph, network)
            scope = Scope.ALL_NPUS if classes is None else Scope.CLASSES
    if scope is not Scope.ALL_NPUS:
        try:
            return _Simulation(graph, system, network, memory, scope, make_engine, classes).run(progress)
        except NotSymmetricError:
            pass
    if platform.npus > MAX_NPUS:
        raise InputError(f"{platform.npus} NPUs cannot be simulated one by one, which this run needs; at most {MAX_NPUS} can")
    return _Simulation(graph, system, network, memory, Scope.ALL_NPUS, make_engine).run(progress)


def _npus_are_alike(graph: ExecutionGraph) -> bool:
    """Whether all NPUs run one program, without messages between two of them and without groups."""
    return not graph.others and not any(
        isinstance(operation, (Send, Receive)) or _is_in_group(operation) for operation in kinds_of(graph.operations)
    )


def _never_wait_for_memory(graph: ExecutionGraph, memory: Memory, npus: int) -> bool:
    return not _uses_remote_memory(graph) or all(port < 0 for port in _ports(memory, npus))


def _is_in_group(operation: Operation) -> bool:
    return isinstance(operation, Communicate) and operation.group is not None


def _uses_remote_memory(graph: ExecutionGraph) -> bool:
    programs = (graph.operations, *(program.operations for program in graph.others))
    return any(isinstance(operation, MemoryAccess) and operation.remote for operations in programs for operation in kinds_of(operations))


def _ports(memory: Memory, npus: int) -> list[int]:
    """The ports at which NPUs use remote memory, numbered from 0 on; -1 where accesses never wait."""
    what = f"memory {type(memory).__name__}: remote_port"
    given = [call(what, memory.remote_port, npu) for npu in range(npus)]
    numbers = {port: number for number, port in enumerate(dict.fromkeys(port for port in given if port is not None))}
    return [-1 if port is None else numbers[port] for port in given]


def _begin(network: EventNetwork) -> int:
    """Begin a run on a network; returns its start in picoseconds. Raises PluginError where that is no time."""
    what = f"network {type(network).__name__}: begin"
    return picoseconds(call(what, network.begin), what)


@contextlib.contextmanager
def _watching(network: Network, engine: Engine, progress: Callable[[int, int], None] | None) -> Iterator[None]:
    """Let `progress` hear from a network, too, that simulates for long between two events of the engine."""
    if progress is None or not isinstance(network, EventNetwork):
        yield
        return
    raised: list[BaseException] = []

    def tell(time: int) -> None:
        try:
            progress(time, engine.events)
        except BaseException as error:
            raised.append(error)
            raise

    watch, what = network.watch, f"network {type(network).__name__}: watch"
    call(what, watch, tell)
    try:
        yield
    except PluginError:
        if raised:  # for which the network is not to blame
            raise raised[0] from None
        raise
    finally:
        call(what, watch, None)


class _Simulation:
    """Puts a graph into the engine and runs it."""

    def __init__(
        self,
        graph: ExecutionGraph,
        system: System,
        network: Network,
        memory: Memory,
        scope: Scope,
        make_engine: MakeEngine,
        classes: Sequence[NpuClass] | None = None,
    ) -> None:
        self._graph = graph
        self._network = network
        self._platform = network.platform
        self._system = system
        self._network = network
        self._memory = memory
        self._session = call(f"system {type(system).__name__}: session", system.session, graph.dimensions)
        self._scope = scope
        self._routes = Routes(network)
        self._timer: PhaseTimer | None = None
        reduce_ps = system.reduce_ps or memory.reduce_ps
        if scope is Scope.PHASES:
            assert isinstance(network, RouteDelayNetwork)
            self._timer = PhaseTimer(network, self._routes, system.endpoint_ps, reduce_ps, system.rendezvous, make_engine)
        self._classes = classes
        self._npus = self._platform.npus if scope in (Scope.ALL_NPUS, Scope.CLASSES) else 1
        self._start_ps = _begin(network) if isinstance(network, EventNetwork) else 0
        self._engine = make_engine(self._npus, network, system.endpoint_ps, reduce_ps, system.rendezvous, system.bus)
        self._programs = graph.programs(self._npus)
        if classes is not None:
            self._programs = [RankProgram(self._programs[one.program].operations, one.members[:1]) for one in classes]
        self._groups: dict[LogicalDimension | Group, int] = {}
        self._schedules: dict[tuple[Schedule, LogicalDimension | Group], int] = {}
        self._phases: dict[tuple[int, int, int | None], int] = {}
        # What the engine counts: programs, groups in which programs share collectives, and collectives that are alike.
        self._running: list[int] = []
        self._sharing: dict[tuple[int, ...] | None, int] = {}
        self._alike: dict[tuple[Collective, int, tuple[int, ...], tuple[int, ...] | None, str], int] = {}
        self._planned: list[PlannedPhase] = []
        self._traffic: list[_Traffic] = []
        self._payload = [0] * len(self._platform.dimensions)

    def run(self, progress: Callable[[int, int], None] | None = None) -> Trace:
        """Run to the end."""
        engine = self._engine
        engine.add_queues([(queue.slots, queue.order) for queue in self._session.queues])
        if _uses_remote_memory(self._graph):
            engine.add_ports(_ports(self._memory, self._npus))
        self._running = [number for number, program in enumerate(self._programs) if program.npus]
        for number in self._running:
            rows = operation_rows(self._programs[number].operations)
            tasks = [self._task(kind) for kind in rows.kinds]
            engine.add_program(
                Rows(tasks, rows.kind_of, rows.after, partial(_made, rows.times), rows.times),
                self._programs[number].npus,
                partial(self._issue, number),
            )
        try:
            with _watching(self._network, engine, progress):
                while engine.run(EVENTS_PER_REPORT):
                    if progress is not None:
                        progress(self._start_ps + engine.now, engine.events)
        except UnlikeCollectivesError as error:
            raise InputError(self._unlike(error)) from None
        self._check_finished()
        return self._trace()

    # -- building ------------------------------------------------------------------------------------------------------

    def _task(self, operation: Operation) -> Task:
        """An operation as the engine takes it, but for what it waits for."""
        unit = self._unit(operation)
        match operation:
            case Communicate():
                key = operation.collective, operation.bytes, operation.dimensions, operation.group, operation.algorithm
                group = self._sharing.setdefault(operation.group, len(self._sharing)) if len(self._running) > 1 else -1
                repeats = not operation.urgent and call("whether a collective repeats", self._session.repeats, operation)
                number = self._alike.setdefault(key, len(self._alike))
                return Task(COLLECTIVE, operation.update_ps, unit=unit, group=group, collective=number, repeats=repeats)
            case Wait():
                return Task(JOIN, 0)
            case Send():
                return Task(SEND, 0, unit=unit, peer=operation.to, bytes=operation.bytes, tag=operation.tag)
            case Receive():
                return Task(RECEIVE, 0, peer=operation.source, bytes=operation.bytes, tag=operation.tag)
            case MemoryAccess():
                time = self._memory.checked_ps(operation.bytes, operation.write, operation.remote)
                return Task(ACCESS if operation.remote else TIMER, time, unit=unit)
        return Task(TIMER if operation.duration_ps else JOIN, operation.duration_ps, unit=unit)

    def _unit(self, operation: Operation) -> int:
        """The unit of its NPU that an operation needs; -1: none."""
        if not self._system.one_at_a_time or isinstance(operation, (Wait, Receive)):
            return -1
        if isinstance(operation, Compute):
            return _UNITS[operation.unit]
        return _MOVING

    def _issue(self, program: int, index: int, now: int) -> list[list[Part]]:
        """The chunks of a collective, planned when the first NPU of its group issues it."""
        operation = self._programs[program].operations[index]
        assert isinstance(operation, Communicate)
        name = f"system {type(self._system).__name__}"
        try:
            chunks: list[ChunkPlan] = call(name, self._session.issue, operation, now)
            call(name, check_chunks, chunks, operation.bytes, self._platform.npus)
            traffic = _Traffic([0] * len(self._payload))
            planned = [
                [PlannedPhase(number, place, plan, self._cost(plan), self._sent(plan)) for place, plan in enumerate(chunk.phases)]
                for number, chunk in enumerate(chunks)
            ]
            parts = [self._parts(chunk, phases, traffic) for chunk, phases in zip(chunks, planned, strict=True)]
        except InputError as error:
            raise type(error)(f"{self._name(index, program)}: {error}") from None
        except DeadlockError as error:
            raise DeadlockError(f"{self._name(index, program)}: {error}", error.waiting) from None
        self._planned.extend(chain.from_iterable(planned))
        self._traffic.append(traffic)
        return parts

    def _unlike(self, error: UnlikeCollectivesError) -> str:
        """What is wrong where NPUs share a collective that is not the same for them, in words."""
        (program, index), (first, first_index) = ((self._running[number], task) for number, task in (error.issued, error.first))
        return (
            f"NPU {self._programs[program].npus[0]}: {self._name(index, program)} is collective number {error.ordinal} of its group,"
            f" but that of NPU {self._programs[first].npus[0]} is {self._name(first_index, first)}"
        )

    def _cost(self, plan: PhasePlan) -> PhaseCost | None:
        """What a phase takes, where that is known beforehand."""
        if self._timer is None:
            return None
        if not self._system.phases_end_together and not self._routes.is_symmetric(plan.schedule, plan.logical):
            raise NotSymmetricError
        return self._timer.cost(plan.schedule, plan.logical, plan.endpoint_ps)

    def _sent(self, plan: PhasePlan) -> Mapping[int, int]:
        """The dimensions of the program in which a phase counts, with the bytes that NPU 0 sends there."""
        if isinstance(plan.logical, Group):
            return self._routes.sent_in_group(plan.schedule, plan.logical, self._graph.dimensions)
        return {plan.dimension: sum(step.bytes * step.times for step in plan.schedule.program(0).steps if step.send_to is not None)}

    def _parts(self, chunk: ChunkPlan, phases: Sequence[PlannedPhase], traffic: _Traffic) -> list[Part]:
        parts = []
        age = (1 if self._session.later_first else -1) if chunk.priority is None else 0
        for phase in phases:
            plan, cost = phase.plan, phase.cost
            job = Job(chunk.priority or 0, plan.collective, plan.bytes, len(phases) - 1 - phase.phase)
            if cost is not None:
                parts.append(Part(job, plan.queue, -1, cost.duration_ps, cost.trail, age))
                sent, count = cost.payload, cost.messages
            else:
                parts.append(Part(job, plan.queue, self._phase(plan), age=age))
                sent = self._routes.payload(plan.schedule, plan.logical, self._system.rendezvous)
                count = messages(plan.schedule, plan.logical, self._platform.npus, self._system.rendezvous)
            traffic.messages += count
            for dimension, size in enumerate(sent):
                traffic.payload[dimension] += size
        return parts

    def _phase(self, plan: PhasePlan) -> int:
        """A phase of the engine."""
        key = plan.schedule, plan.logical
        if key not in self._schedules:
            if self._scope is not Scope.ALL_NPUS and not self._routes.is_symmetric(plan.schedule, plan.logical):
                raise NotSymmetricError
            self._schedules[key] = self._engine.add_schedule(lower(plan.schedule), self._groups_of(plan.logical))
        made = self._schedules[key], plan.queue, plan.endpoint_ps
        if made not in self._phases:
            self._phases[made] = self._engine.add_phase(made[0], plan.queue, self._system.phases_end_together, plan.endpoint_ps)
        return self._phases[made]

    def _groups_of(self, logical: LogicalDimension | Group) -> int:
        """Groups of the engine."""
        if logical not in self._groups:
            one = self._scope is not Scope.ALL_NPUS
            groups = [logical.group(0)] if one else logical.groups(self._npus)
            dimension = logical if isinstance(logical, LogicalDimension) else None
            self._groups[logical] = self._engine.add_groups(groups, dimension, loop_back=one)
        return self._groups[logical]

    # -- after the run -------------------------------------------------------------------------------------------------

    def _trace(self) -> Trace:
        engine = self._engine
        records = engine.parts(0)
        begin, end = engine.times(0)
        messages = 0
        for traffic, uses in zip(self._traffic, engine.uses(), strict=True):
            messages += traffic.messages * uses
            for dimension, size in enumerate(traffic.payload):
                self._payload[dimension] += size * uses
        self._add_sends()
        return Trace(
            self._start_ps,
            self._start_ps + engine.now,
            _later(begin, self._start_ps),
            _later(end, self._start_ps),
            PhaseRecords(self._with_start(records), self._planned),
            self._sends(),
            self._ended_at(),
            self._payload,
            self._count_messages(messages),
            self._npus if self._classes is None else len(self._classes),
            engine.events,
        )

    def _with_start(self, records: PartRecords) -> PartRecords:
        """Records of the engine, which counts from the start of the workload, with the start in their moments."""
        start = self._start_ps
        return attrs.evolve(
            records,
            queued_at=_later(records.queued_at, start),
            started_at=_later(records.started_at, start),
            ended_at=_later(records.ended_at, start),
        )

    def _ended_at(self) -> list[int]:
        """When each NPU ended, or the one that stands for all."""
        times = [self._start_ps + max(time, 0) for time in self._engine.ended_at()]
        for one in self._classes or ():
            for npu in one.members:
                times[npu] = times[one.members[0]]
        return times

    def _count_messages(self, planned: int) -> int:
        """Messages of all NPUs, of which collectives have planned so many."""
        if self._scope is Scope.ALL_NPUS:
            return self._engine.messages
        return planned if self._classes is None else self._engine.messages * len(self._classes[0].members)

    def _sends(self) -> Sends:
        """The messages that operations of NPU 0 send."""
        npus, dimensions = self._platform.npus, self._graph.dimensions
        sent: list[Mapping[int, int]] = []
        for kind in operation_rows(self._programs[0].operations).kinds:
            number = self._routes.logical(peer_of(kind, 0, npus), dimensions) if isinstance(kind, Send) else None
            sent.append({number: kind.bytes} if isinstance(kind, Send) and number is not None else {})
        tasks, begun = self._engine.sends(0)
        return Sends(tasks, _later(begun, self._start_ps), sent)

    def _add_sends(self) -> None:
        """Count the payload of what operations of NPU 0 send; with the rendezvous protocol, of what they ask others for too."""
        rows = operation_rows(self._programs[0].operations)
        counts = Counter(rows.kind_of)
        for number, kind in enumerate(rows.kinds):
            if isinstance(kind, Send) or (isinstance(kind, Receive) and self._system.rendezvous):
                dimension = self._network.route(0, peer_of(kind, 0, self._platform.npus)).dimension
                self._payload[dimension] += counts[number] * (kind.bytes if isinstance(kind, Send) else CONTROL_BYTES)

    def _check_finished(self) -> None:
        engine = self._engine
        unfinished, unreceived = engine.unfinished(), self._unreceived()
        lost = self._lost_messages()
        if not unfinished:
            if lost:
                raise PluginError(lost.removesuffix("; "))
            if unreceived:
                head = "messages have arrived for which no receive is there"
                raise RunError("\n  ".join([head, *_shown(unreceived)]))
            return
        waiting: list[str] = []
        left = {(npu, index) for npu, index, _ in unfinished}
        holders = self._holders(unfinished)
        program_of = {npu: number for number, program in enumerate(self._programs) for npu in program.npus}
        letters: list[str] = []
        for npu, index, begun in unfinished:
            program = program_of[npu]
            operation = self._programs[program].operations[index]
            if not begun:
                missing = [other for other in waits_of(operation) if (npu, other) in left]
                if not missing:
                    missing = holders[npu, self._unit(operation)]
                waiting.append(
                    f"NPU {npu}: {self._name(index, program)} waits for " + ", ".join(self._name(o, program) for o in missing[:3])
                )
            elif isinstance(operation, (Send, Receive)):
                peer, what = peer_of(operation, npu, self._platform.npus), "message" if isinstance(operation, Receive) else "receive"
                letters.append(f"NPU {npu}: {self._name(index, program)} waits for a {what} of NPU {peer} with tag {operation.tag}")
        stuck: list[str] = []
        for state in engine.stuck():
            where = f"{self._name(state.task, program_of[state.npu])}, chunk {state.chunk}, phase {state.part + 1}"
            stuck.extend(f"{line} ({where})" for line in describe(state))
        # Messages that do not come explain the rest.
        stuck.sort(key=lambda line: "waits for a message" not in line)
        waiting = letters + unreceived + stuck + waiting
        now_ns = (self._start_ps + engine.now) / 1000
        head = f"{lost}the run cannot finish: at {now_ns:g} ns nothing is left to happen, and {len(unfinished)} operations wait"
        raise DeadlockError("\n  ".join([head, *_shown(waiting)]), waiting)

    def _unreceived(self) -> list[str]:
        """The messages that have arrived and that nothing receives, in words."""
        lines = []
        for source, destination, tag, size, count in self._engine.unreceived():
            number = next(number for number, program in enumerate(self._programs) if source in program.npus)
            rows = operation_rows(self._programs[number].operations)
            alike = {kind for kind, found in enumerate(rows.kinds) if self._is_such_a_send(found, source, destination, tag, size)}
            # The n-th send meets the n-th receive, so it is the last ones that nothing receives.
            sends = [place for place, kind in enumerate(rows.kind_of) if kind in alike][-count:]
            lines += [
                f"NPU {source}: {self._name(place, number)} to NPU {destination} with tag {tag} is received by none" for place in sends
            ]
        return lines

    def _is_such_a_send(self, operation: Operation, source: int, destination: int, tag: int, size: int) -> bool:
        """Whether an operation of an NPU sends such a message to another."""
        if not isinstance(operation, Send) or (operation.tag, operation.bytes) != (tag, size):
            return False
        return peer_of(operation, source, self._platform.npus) == destination

    def _lost_messages(self) -> str:
        """Before an error: how many messages the network was given and has not delivered, now that it has no more deliveries."""
        lost = self._engine.undelivered
        if not lost:
            return ""
        name = type(self._network).__name__
        return f"network {name} lost {lost} of {self._engine.messages} messages: it says that none is under way, and they did not arrive; "

    def _holders(self, unfinished: Sequence[tuple[int, int, bool]]) -> dict[tuple[int, int], list[int]]:
        """The operations that have begun and not ended, by NPU and unit: at most one for each unit."""
        program_of = {npu: program for program in self._programs for npu in program.npus}
        holders: dict[tuple[int, int], list[int]] = defaultdict(list)
        for npu, index, begun in unfinished:
            if begun:
                holders[npu, self._unit(program_of[npu].operations[index])].append(index)
        return holders

    def _name(self, index: int, program: int = 0) -> str:
        """An operation, in words."""
        operation = self._programs[program].operations[index]
        layer = self._graph.layers[operation.layer] if 0 <= operation.layer < len(self._graph.layers) else None
        where = f" of layer {layer}" if layer else ""
        if isinstance(operation, MemoryAccess):
            memory = " of remote memory" if operation.remote else ""
            return f"operation {index} ({'write' if operation.write else 'read'} of {operation.bytes} bytes{memory}{where})"
        if isinstance(operation, (Send, Receive)):
            return f"operation {index} ({type(operation).__name__.lower()} of {operation.bytes} bytes{where}{_quoted(operation.name)})"
        what = type(operation).__name__.lower()
        if isinstance(operation, Communicate):
            algorithm = f" by {operation.algorithm}" if operation.algorithm else ""
            what = f"{operation.collective} of {operation.bytes} bytes{algorithm}"
        if not isinstance(operation, Wait) and operation.name:
            return f"operation {index} ({what}{_quoted(operation.name)})"
        return f"operation {index} ({what}{where}, {operation.training_pass}, iteration {operation.iteration})"


def _shown(lines: Sequence[str]) -> list[str]:
    """The first lines, and how many more there are."""
    more = [f"and {len(lines) - _LINES_OF_A_DEADLOCK} more"] if len(lines) > _LINES_OF_A_DEADLOCK else []
    return [*lines[:_LINES_OF_A_DEADLOCK], *more]


def _later(times: Sequence[int], by: int) -> Sequence[int]:
    """Moments as so much later ones (picoseconds)."""
    return column((time + by for time in times), "q") if by else times


def _quoted(name: str) -> str:
    return f", {name!r}" if name else ""


def _made(times: Column | None, task: Task, row: int, after: tuple[int, ...]) -> Task:
    if times is not None and times[row] >= 0:
        return task._replace(after=after, delay=times[row])
    return task._replace(after=after)
