"""The critical path of a run in terms of its workload: from the links that an engine keeps to parts with the causes of the time.

Parts follow one another from the start of the run to its end, and their picoseconds add up to its makespan. A phase that was timed before
the run is taken apart by running it once more by itself. The time of a message is split into latency and bandwidth by its network; on
a network where messages wait for each other any time beyond an empty network is queueing.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import attrs

from astra_sim._boundary import call
from astra_sim.engine.interface import LinkKind, PathEdge
from astra_sim.graph import Communicate, Composite, Compute, MemoryAccess, Operation, Unit
from astra_sim.network import DelayParts, EventNetwork, Message, Network, RouteDelayNetwork, advance, inject
from astra_sim.platform import Group, LogicalDimension, Route
from astra_sim.run.described_plans import PlannedPhase
from astra_sim.run.finished import FinishedRun
from astra_sim.run.npu_durations import on_accelerator
from astra_sim.system import SystemSession


class SegmentKind(enum.StrEnum):
    """The causes of the time of a part of the path.

    `UPDATE`: a layer uses the result of its collective. `RECORDED`: communication takes the time in its trace. `QUEUEING`: a
    message waits for others in the network, or an access for its port of remote memory. `NETWORK`: a message, if its time on an empty
    network is not known. `COLLECTIVE`: one that the network prices as a whole. `RENDEZVOUS`: a receiver asks for its
    message. `OVERHEAD`: a processor sends or receives a message, `PROCESSOR`: a message or an operation waits for a processor. `START`: the
    network begins before the workload.
    """

    COMPUTE = "compute"
    IDLE = "idle"
    MEMORY = "memory"
    UPDATE = "update"
    RECORDED = "recorded"
    LATENCY = "latency"
    BANDWIDTH = "bandwidth"
    QUEUEING = "queueing"
    NETWORK = "network"
    ENDPOINT = "endpoint"
    REDUCTION = "reduction"
    BUS = "bus"
    COLLECTIVE = "collective"
    RENDEZVOUS = "rendezvous"
    OVERHEAD = "overhead"
    PROCESSOR = "processor"
    START = "start"


@attrs.frozen(eq=False, repr=False)
class SegmentOrigin:
    """The origin of a part of the path: an operation of a program, and of a collective the chunk (-1: none), phase and ranks.

    The operation is one of a composite if that of the program at `index` is one.

    `own_endpoint`: the endpoint delay of the phase is not the system's.
    """

    program: int = -1
    index: int = -1
    operation: Operation | None = None
    chunk: int = -1
    phase: int = -1
    ranks: LogicalDimension | Group | None = None
    own_endpoint: bool = False


NOWHERE = SegmentOrigin()
"""The place of parts that belong to no operation."""


class PathSegment(NamedTuple):
    """A part of the critical path: the cause of its `ps` picoseconds, from `begin` on, on which NPU, and its origin.

    `dimension` is the platform's (None: in none of them), of a collective that is priced as a whole the outermost that its ranks cross.
    `latency_ps` and `bandwidth_ps` are the parts due to the links of that dimension, without rounding; if unknown they
    are 0.
    """

    kind: SegmentKind
    begin: int
    ps: int
    npu: int
    origin: SegmentOrigin
    dimension: int | None = None
    latency_ps: float = 0.0
    bandwidth_ps: float = 0.0


@attrs.frozen(eq=False, repr=False)
class CriticalPath:
    """The parts of a path.

    `exact`: a small change makes each as much longer as it states, because messages follow from known bandwidths and latencies, and
    nothing has waited for events outside the path. `rounded`: but for whole nanoseconds of messages. `cut_by_bandwidth`: with
    other bandwidths chunks would have other sizes.
    """

    segments: Sequence[PathSegment]
    exact: bool
    rounded: bool
    cut_by_bandwidth: bool = False


class _PathPiece(NamedTuple):
    """A part of a link: the same as `PathSegment`, without its place."""

    kind: SegmentKind
    ps: int
    dimension: int | None = None
    latency_ps: float = 0.0
    bandwidth_ps: float = 0.0


class _PathMessages:
    """Takes the times of messages apart. `empty` is a network like that of the run on which nothing has been sent, if there is one."""

    def __init__(self, network: Network, empty: Network | None) -> None:
        self._network = network
        self._empty = empty if isinstance(empty, EventNetwork) else None
        self._known: dict[tuple[int, int, int], tuple[int, DelayParts | None]] = {}
        self._delays: dict[tuple[Route, int], DelayParts | None] = {}
        self._pieces: dict[tuple[int, int, int, int], Sequence[_PathPiece]] = {}
        self.exact = isinstance(network, RouteDelayNetwork)
        self.rounded = False

    def pieces(self, source: int, destination: int, size: int, ps: int) -> Sequence[_PathPiece]:
        """The parts of the time of a message that took `ps` picoseconds."""
        key = source, destination, size, ps
        value = self._pieces.get(key)
        if value is None:
            value = self._pieces[key] = _spent(self._taken_apart(*key))
        return value

    def _taken_apart(self, source: int, destination: int, size: int, ps: int) -> list[_PathPiece]:
        """The same, with pieces that take no time."""
        key = source, destination, size
        if key not in self._known:
            self._known[key] = self._split(*key)
        dimension, parts = self._known[key]
        if parts is None:
            return [_PathPiece(SegmentKind.NETWORK, ps, dimension)]
        if parts.memory_ps:
            return [_PathPiece(SegmentKind.MEMORY, ps, dimension)]
        alone = parts.latency_ps + parts.bandwidth_ps
        waiting = 0
        if isinstance(self._network, RouteDelayNetwork):
            # Half a picosecond is rounding to whole ones; more means that the network rounds its terms to nanoseconds.
            self.rounded |= abs(alone - ps) > 0.6
        else:
            waiting = max(0, ps - round(alone))
        latency = min(round(parts.latency_ps), ps - waiting)
        return [
            _PathPiece(SegmentKind.LATENCY, latency, dimension, parts.latency_ps),
            _PathPiece(SegmentKind.BANDWIDTH, ps - waiting - latency, dimension, 0.0, parts.bandwidth_ps),
            _PathPiece(SegmentKind.QUEUEING, waiting, dimension),
        ]

    def _split(self, source: int, destination: int, size: int) -> tuple[int, DelayParts | None]:
        """The dimension of a message, and its time if nothing else is on the way."""
        network = self._network
        route = network.route(source, destination)
        if not isinstance(network, RouteDelayNetwork):
            if self._empty is None:
                return route.dimension, None
            latency = _alone(self._empty, source, destination, 1)
            return route.dimension, DelayParts(latency, max(0, _alone(self._empty, source, destination, size) - latency))
        if not network.delays_by_pair and (route, size) not in self._delays:
            what = f"network {type(network).__name__}: delay_parts"
            self._delays[route, size] = call(what, network.delay_parts, *route, size)
        parts = self._delays.get((route, size))
        # If the network does not give them, the time of an empty message is latency.
        if parts is None:
            self.exact = False
            latency = network.message_delay(source, destination, 0)
            parts = DelayParts(latency, network.message_delay(source, destination, size) - latency)
        return route.dimension, parts


def _spent(pieces: Iterable[_PathPiece]) -> list[_PathPiece]:
    """The pieces that take some time, or would if something were rounded less."""
    return [piece for piece in pieces if piece.ps or piece.latency_ps or piece.bandwidth_ps]


def _alone(network: EventNetwork, source: int, destination: int, size: int) -> int:
    """Picoseconds of a message on an empty network."""
    call(f"network {type(network).__name__}: begin", network.begin)
    inject(network, 0, [Message(1, source, destination, size)])
    delivery = advance(network, 0, None)
    return delivery[0] if delivery is not None else 0


def make_path(run: FinishedRun, session: SystemSession, empty: Network | None) -> CriticalPath:
    """The critical path of a run. It begins with the time that the network has taken before the workload starts."""
    start_ps = run.start_ps
    messages = _PathMessages(run.inputs.network, empty)
    builder = _Parts(run, messages)
    parts = [PathSegment(SegmentKind.START, 0, start_ps, 0, NOWHERE)] if start_ps else []
    placed = builder.placed(run.engine.record.critical_path())
    ends = builder.ends_of_composites(placed)
    for number, (link, place, phase) in enumerate(placed):
        begin = start_ps + link.begin
        if number in ends:
            parts += builder.parts_of_composite(ends[number], link, place, start_ps)
            continue
        for piece in builder.pieces(link, place, phase):
            parts.append(PathSegment(piece.kind, begin, piece.ps, link.npu, place, *piece[2:]))
            begin += piece.ps
    within = [builder.alone(operation) for operation in builder.in_composites.values()]
    # The time of compute on an NPU may depend on when it starts.
    exact = messages.exact and not builder.waited and run.inputs.npu_ps is None and all(path.exact for path in within)
    return CriticalPath(parts, exact, messages.rounded or any(path.rounded for path in within), session.cuts_by_bandwidth)


class _Parts:
    """Finds the origins of links, and takes them apart."""

    def __init__(self, run: FinishedRun, messages: _PathMessages) -> None:
        self._inputs = run.inputs
        self._durations = run.durations
        self._collectives = run.collectives
        self._messages = messages
        self._programs = programs = run.programs
        self._program_of = {npu: number for number, program in enumerate(programs) for npu in program.npus} if len(programs) > 1 else {}
        self._places: dict[tuple[int, int, int], SegmentOrigin] = {}
        self._within_composites: dict[tuple[int, int, int], SegmentOrigin] = {}
        self._timed: dict[int, list[_PathPiece]] = {}
        self._tokens: dict[tuple[int, int], Sequence[_PathPiece]] = {}
        self._in_collectives: dict[tuple[int, int, int], Sequence[tuple[SegmentOrigin, _PathPiece]]] = {}
        self.waited = False
        """Whether something on the path waited for an event outside the path."""
        self.in_composites: dict[int, Communicate] = {}
        """The collectives of composites on the path."""

    def placed(self, links: Sequence[PathEdge]) -> list[tuple[PathEdge, SegmentOrigin, PlannedPhase | None]]:
        """Links with their origins. A link without one leads to the next link: it has that one's origin."""
        result: list[tuple[PathEdge, SegmentOrigin, PlannedPhase | None]] = []
        place, phase = NOWHERE, None
        for link in reversed(links):
            # A request that was there before its message was offered leads to that.
            if link.task >= 0 and not (link.kind == LinkKind.REQUEST and link.to < 0):
                # A message belongs to the operation of its receiver, one between two tasks to the sender.
                npu = link.to if link.kind == LinkKind.MESSAGE and link.to in self._program_of else link.npu
                phase = self._collectives.planned[link.step] if link.step >= 0 else None
                place = self._place(self._program_of.get(npu, 0), link.task, link.step, phase)
            result.append((link, place, phase))
        return result[::-1]

    def ends_of_composites(self, placed: Sequence[tuple[PathEdge, SegmentOrigin, PlannedPhase | None]]) -> dict[int, Composite | None]:
        """Links that are composites, by number. One that the next continues has None: its time belongs to the chain that ends there."""
        result: dict[int, Composite | None] = {}
        last = -1
        for number, (link, place, _) in enumerate(placed):
            if link.kind != LinkKind.TASK or link.task < 0 or not isinstance(place.operation, Composite):
                continue
            rows = self._inputs.rows(self._programs[place.program].operations)
            composite = rows.kinds[rows.kind_of[link.task]]
            assert isinstance(composite, Composite)
            if last >= 0 and any(one is result[last] for one in composite.chain()[:-1]):  # those between take no time
                result[last] = None
            result[number] = composite
            last = number
        return result

    def parts_of_composite(self, composite: Composite | None, link: PathEdge, place: SegmentOrigin, start_ps: int) -> Iterator[PathSegment]:
        """The parts of a composite, with its continuation: the operations of which the last ends it, one after another."""
        if composite is None:
            return
        times = self._inputs.composites.times(composite)
        begin = start_ps + link.end - times.end
        for number, first, last in times.path():
            operation = times.kinds[number]
            if isinstance(operation, Communicate):
                self.in_composites[id(operation)] = operation
                for where, piece in self._collective(place.program, place.index, operation):
                    yield PathSegment(piece.kind, begin + first, piece.ps, link.npu, where, *piece[2:])
                    first += piece.ps
            elif last > first:
                within = self._within(place.program, place.index, operation)
                yield PathSegment(_kind_of(operation), begin + first, last - first, link.npu, within)

    def alone(self, operation: Communicate) -> CriticalPath:
        """The critical path of a collective of a composite, which has run alone."""
        path = self._inputs.composites.alone(operation).path
        assert path is not None
        return path

    def _collective(self, program: int, index: int, operation: Communicate) -> Sequence[tuple[SegmentOrigin, _PathPiece]]:
        """The pieces of a collective of a composite, those that differ in nothing but their length as one."""
        key = program, index, id(operation)
        if key not in self._in_collectives:
            pieces: dict[tuple[int, SegmentKind, int | None], tuple[SegmentOrigin, _PathPiece]] = {}
            for part in self.alone(operation).segments:
                # What the network takes before any workload counts once, for the run.
                if part.kind is SegmentKind.START:
                    continue
                piece = _PathPiece(part.kind, part.ps, *part[5:])
                same = id(part.origin), part.kind, part.dimension
                where = pieces[same][0] if same in pieces else attrs.evolve(part.origin, program=program, index=index, operation=operation)
                pieces[same] = where, _sum(pieces[same][1], piece, 1) if same in pieces else piece
            self._in_collectives[key] = list(pieces.values())
        return self._in_collectives[key]

    def _within(self, program: int, index: int, operation: Operation) -> SegmentOrigin:
        """The place of an operation of a composite."""
        key = program, index, id(operation)
        if key not in self._within_composites:
            self._within_composites[key] = SegmentOrigin(program, index, operation)
        return self._within_composites[key]

    def pieces(self, link: PathEdge, place: SegmentOrigin, phase: PlannedPhase | None) -> Sequence[_PathPiece]:
        """The parts of the time of a link."""
        ps = link.end - link.begin
        match link.kind:
            case LinkKind.MESSAGE | LinkKind.POINT_TO_POINT:
                return self._messages.pieces(link.npu, link.to, link.bytes, ps)
            case LinkKind.REQUEST | LinkKind.POINT_TO_POINT_REQUEST if link.to >= 0:
                pieces = self._messages.pieces(link.npu, link.to, link.bytes, ps)
                return [piece._replace(kind=SegmentKind.RENDEZVOUS) for piece in pieces]
            case LinkKind.TOKEN:
                key = ps, id(phase.plan) if phase is not None else -1
                if key not in self._tokens:
                    self._tokens[key] = _spent(self._token(ps, phase))
                return self._tokens[key]
            case LinkKind.BUS:
                self.waited = True  # when a bus is free depends on more than its event before
                return _spent([_PathPiece(SegmentKind.BUS, ps, _dimension_of(phase))])
            case LinkKind.TASK:
                return _spent(self._task(link, place.operation))
            case LinkKind.OVERHEAD:
                overhead_ps = self._inputs.overhead_ps(link.bytes, link.npu == link.to)
                return _spent(self._after_processor(ps, overhead_ps, SegmentKind.OVERHEAD))
            case LinkKind.STEP if ps and phase is not None:
                return self._timed_pieces(phase)
        return _spent([_PathPiece(SegmentKind.IDLE, ps)])

    def _place(self, program: int, task: int, step: int, phase: PlannedPhase | None) -> SegmentOrigin:
        key = program, task, step
        if key not in self._places:
            operation = self._programs[program].operations[task]
            place = SegmentOrigin(program, task, operation)
            if phase is not None:
                own_endpoint = phase.plan.endpoint_ps is not None
                place = SegmentOrigin(program, task, operation, phase.chunk, phase.phase, phase.plan.logical, own_endpoint)
            self._places[key] = place
        return self._places[key]

    def _after_processor(self, ps: int, handled_ps: int, kind: SegmentKind) -> list[_PathPiece]:
        """The event after the wait for a processor, which depends on more than past events."""
        self.waited |= ps > handled_ps
        return [_PathPiece(SegmentKind.PROCESSOR, ps - handled_ps), _PathPiece(kind, handled_ps)]

    def _task(self, link: PathEdge, operation: Operation | None) -> list[_PathPiece]:
        """The parts of an operation's own time.

        An access of remote memory may wait for its port first, and computing for a processor that handles messages.
        """
        ps = link.end - link.begin
        if self._inputs.shares_processors and operation is not None and on_accelerator(operation):
            assert isinstance(operation, Compute)
            taken = -1 if self._durations is None else self._durations.taken_ps(link.npu, link.task)
            return self._after_processor(ps, operation.duration_ps if taken < 0 else taken, SegmentKind.COMPUTE)
        waiting = 0
        if isinstance(operation, MemoryAccess) and operation.remote:
            waiting = ps - self._inputs.memory.checked_ps(operation.bytes, operation.write, operation.remote)
            self.waited |= waiting > 0
        return [_PathPiece(SegmentKind.QUEUEING, waiting), _PathPiece(_kind_of(operation), ps - waiting)]

    def _token(self, ps: int, phase: PlannedPhase | None) -> list[_PathPiece]:
        """The parts of the time of an endpoint for a token: its delay, then adding up what it has received."""
        dimension = _dimension_of(phase)
        if phase is not None and phase.plan.counted is not None:
            crossed = [number for number, blocks in enumerate(self._inputs.platform.shape(phase.plan.logical).blocks) if blocks > 1]
            return [_PathPiece(SegmentKind.COLLECTIVE, ps, max(crossed, default=None))]
        system = self._inputs.system
        delay = system.endpoint_ps if phase is None or phase.plan.endpoint_ps is None else phase.plan.endpoint_ps
        # A shared bus replaces the endpoint delay, and its transfers are links of their own.
        endpoint = 0 if system.bus is not None else min(ps, delay)
        return [_PathPiece(SegmentKind.ENDPOINT, endpoint, dimension), _PathPiece(SegmentKind.REDUCTION, ps - endpoint, dimension)]

    def _timed_pieces(self, phase: PlannedPhase) -> list[_PathPiece]:
        """The parts of the time of a phase that was timed before the run: its own critical path, if it runs alone."""
        plan, cost = phase.plan, phase.cost
        assert cost is not None
        if id(cost) not in self._timed:
            pieces: dict[tuple[SegmentKind, int | None], _PathPiece] = {}
            for link, times in self._collectives.phase_links(plan).items():
                for piece in self.pieces(link, NOWHERE, phase):
                    key = piece.kind, piece.dimension
                    pieces[key] = _sum(pieces.get(key, _PathPiece(piece.kind, 0, piece.dimension)), piece, times)
            self._timed[id(cost)] = _spent(pieces.values())
        return self._timed[id(cost)]


def _sum(one: _PathPiece, other: _PathPiece, times: int) -> _PathPiece:
    """An edge share with a multiple of another added."""
    latency, bandwidth = one.latency_ps + times * other.latency_ps, one.bandwidth_ps + times * other.bandwidth_ps
    return _PathPiece(one.kind, one.ps + times * other.ps, one.dimension, latency, bandwidth)


def _dimension_of(phase: PlannedPhase | None) -> int | None:
    """The platform's dimension of the ranks of a phase."""
    return phase.plan.logical.physical if phase is not None else None


def _kind_of(operation: Operation | None) -> SegmentKind:
    """The parts of an operation's own time."""
    match operation:
        case Compute() if operation.idle:
            return SegmentKind.IDLE
        case Compute() if operation.unit not in (Unit.ACCELERATOR, Unit.CPU):
            return SegmentKind.RECORDED
        case Compute():
            return SegmentKind.COMPUTE
        case MemoryAccess():
            return SegmentKind.MEMORY
        case Communicate():
            return SegmentKind.UPDATE
    return SegmentKind.IDLE
