"""The messages of a plan of MSCCL++, their dependencies, and their data.

A put is a message with data, and a signal a small one that comes behind it: a wait needs both. A get is a request, and a message back that
leaves when the request is there. Packets are messages of twice the bytes, for the flags in them; who reads them waits for them.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Sequence

import attrs
from astra_sim import InputError

from astra_sim_collectives.msccl_data import Buffers, BufferValue, DataFlow
from astra_sim_collectives.msccl_graph import MscclEvent, in_order
from astra_sim_collectives.msccl_xml import BufferPlace
from astra_sim_collectives.mscclpp_plan import (
    GETTING,
    PACKETS,
    PUTTING,
    REDUCING,
    REDUCING_AND_SENDING,
    SIGNALLING,
    WAITING,
    BufferSpan,
    ExecutionPlan,
    Operation,
)


@attrs.define(eq=False, slots=True)
class PlanEvent(MscclEvent):
    """An event of an operation (`step`). A send takes the data of `source`: chunks of its rank, or the data of another event; None: it is a
    signal or a request. Others write to `targets`. `sums` are the terms of a local event, or its source if it is a copy. `packets`: with
    flags.
    """

    source: BufferSpan | PlanEvent | None = None
    sums: Sequence[BufferSpan | PlanEvent] = ()
    targets: Sequence[BufferSpan] = ()
    packets: bool = False

    @property
    def chunks(self) -> int:
        """Chunks of a message; 0: it carries no data."""
        source = self.source if self.kind == "s" else getattr(self.message, "source", None)
        if source is None:
            return 0
        return source.length if isinstance(source, BufferSpan) else source.chunks_held

    @property
    def chunks_held(self) -> int:
        """Chunks that a local event makes."""
        operation: Operation = self.step
        return operation.targets[0].length


def events_of(plan: ExecutionPlan) -> list[PlanEvent]:
    """All events, each after those it waits for. Raises InputError if signals and waits do not match, or all wait for each other."""
    builder = _EventBuilder(plan)
    for rank, blocks in enumerate(plan.blocks):
        for number, block in enumerate(blocks):
            builder.add_block(rank, number, block)
    events = builder.finished()
    ordered = in_order(events)
    if len(ordered) < len(events):
        event = next(event for event in events if event.place < 0)
        raise InputError(f"{plan.path}: {event.step.where}: {event.step.name} waits here for ever: operations wait for each other")
    return ordered


class _EventBuilder:
    def __init__(self, plan: ExecutionPlan) -> None:
        self._plan = plan
        self._events: list[PlanEvent] = []
        self._signals: dict[Hashable, deque[list[PlanEvent]]] = defaultdict(deque)
        self._waits: dict[Hashable, deque[PlanEvent]] = defaultdict(deque)
        self._releases: dict[tuple[int, int], list[PlanEvent]] = defaultdict(list)
        self._acquires: dict[tuple[int, int], list[PlanEvent]] = defaultdict(list)
        self._barriers: dict[tuple[int, int, int], list[tuple[PlanEvent, PlanEvent]]] = defaultdict(list)
        self._previous: PlanEvent | None = None
        self._arrived: dict[int, list[PlanEvent]] = {}  # at each peer, of the puts of the block so far

    def _add(self, kind: str, rank: int, op: Operation, peer: int, follows: bool = True, **data: object) -> PlanEvent:
        """An event, after the one before it in its thread block."""
        event = PlanEvent(kind, rank, op, peer, **data)  # type: ignore[arg-type]
        if follows:
            if self._previous is not None:
                event.after.append(self._previous)
            self._previous = event
        self._events.append(event)
        return event

    def _message(
        self, rank: int, op: Operation, peer: int, targets: Sequence[BufferSpan] = (), follows: bool = True, **data: object
    ) -> PlanEvent:
        """A send, and its arrival at another rank, which is returned: nothing has to happen there before."""
        sent = self._add("s", rank, op, peer, follows, **data)
        arrival = self._add("r", peer, op, rank, follows=False, targets=targets, packets=sent.packets)
        arrival.message = sent
        return arrival

    def add_block(self, rank: int, number: int, block: Sequence[Operation]) -> None:
        """The events of a thread block."""
        self._previous, self._arrived = None, defaultdict(list)
        barriers: dict[int, int] = defaultdict(int)
        for op in block:
            if op.name in PUTTING:
                self._put(rank, op)
            elif op.name in GETTING:
                self._get(rank, op)
            elif op.name in REDUCING:
                self._reduce(rank, op, list(op.sources))
            elif op.name == "barrier":
                arrive, leave = self._add("l", rank, op, -1), self._add("l", rank, op, -1)
                self._barriers[rank, op.barrier, barriers[op.barrier]].append((arrive, leave))
                barriers[op.barrier] += 1
            elif op.name in WAITING:
                for end in op.channels:
                    self._waits[end.peer, rank, end.type, end.number].append(self._add("l", rank, op, -1))
            elif op.name not in SIGNALLING:
                self._local(rank, op)
            if op.name in SIGNALLING and op.name not in PUTTING:
                for end in op.channels:
                    arrival = self._message(rank, op, end.peer)
                    self._signals[rank, end.peer, end.type, end.number].append([arrival, *self._arrived[end.peer]])

    def _local(self, rank: int, op: Operation) -> None:
        """An operation that sends nothing and adds nothing."""
        if not op.sources:
            event = self._add("l", rank, op, -1)
            for semaphore in op.semaphores:
                (self._releases if op.name == "sem_release" else self._acquires)[rank, semaphore].append(event)
        for source, target in zip(op.sources, op.targets, strict=True):
            self._add("l", rank, op, -1, sums=(source,), targets=(target,), packets=op.name == "cpkt")

    def _put(self, rank: int, op: Operation) -> None:
        """Data to other ranks; with a signal behind it, which is a part of the message."""
        sources = op.sources * len(op.targets) if len(op.sources) == 1 else op.sources
        for source, target in zip(sources, op.targets, strict=True):
            arrival = self._message(rank, op, target.rank, (target,), source=source, packets=op.name in PACKETS)
            self._arrived[target.rank].append(arrival)
        if op.name in SIGNALLING:
            for end in op.channels:
                self._signals[rank, end.peer, end.type, end.number].append(list(self._arrived[end.peer]))

    def _get(self, rank: int, op: Operation) -> None:
        """Data from other ranks: a request, and its reply. All requests of an operation leave at once."""
        before, arrivals = self._previous, []
        local = [source for source in op.sources if source.rank == rank]
        others = [source for source in op.sources if source.rank != rank]
        for number, source in enumerate(others):
            self._previous = before
            request = self._message(rank, op, source.rank)
            targets = (op.targets[number],) if op.name == "get" else ()
            arrival = self._message(source.rank, op, rank, targets, follows=False, source=source)
            assert isinstance(arrival.message, PlanEvent)
            arrival.message.after.append(request)
            arrivals.append(arrival)
        if op.name == "get":
            self._add("l", rank, op, -1).after += arrivals
        else:
            self._reduce(rank, op, [*local, *arrivals], arrivals)

    def _reduce(self, rank: int, op: Operation, sums: Sequence[BufferSpan | PlanEvent], arrivals: Sequence[PlanEvent] = ()) -> None:
        """A sum, which is written here when some data have arrived, and sent to others if the operation does so."""
        here = [target for target in op.targets if target.rank == rank]
        total = self._add("l", rank, op, -1, sums=sums, targets=here, packets=op.name in ("recpkt", "recspkt"))
        total.after += arrivals
        for target in op.targets if op.name in REDUCING_AND_SENDING else ():
            if target.rank != rank:
                arrival = self._message(rank, op, target.rank, (target,), source=total, packets=op.name in PACKETS)
                self._arrived[target.rank].append(arrival)

    def finished(self) -> list[PlanEvent]:
        """All events, with the dependencies of waits, barriers, semaphores and readers of packets."""
        for key, waits in self._waits.items():
            signals = self._signals[key]
            for wait in waits:
                if not signals:
                    raise self._error(wait, f"waits for gpu {key[0]}, which signals less often there")  # type: ignore[index]
                wait.after += signals.popleft()
        for pairs in self._barriers.values():
            arrivals = [arrive for arrive, _ in pairs]
            for _, leave in pairs:
                leave.after += arrivals
        for (rank, semaphore), acquires in self._acquires.items():
            free, releases = self._plan.semaphores[rank][semaphore], self._releases[rank, semaphore]
            for number, acquire in enumerate(acquires[free:]):
                if number >= len(releases):
                    raise self._error(acquire, f"semaphore {semaphore} is released {len(releases)} times; expected one more")
                acquire.after.append(releases[number])
        self._wait_for_packets()
        return self._events

    def _wait_for_packets(self) -> None:
        """Readers of packets wait for the event that writes them, which has to be one for each chunk."""
        writers: dict[tuple[int, int], PlanEvent] = {}
        for event in self._events:
            for span in event.targets if event.packets else ():
                for chunk in range(span.first, span.first + span.length) if span.buffer == "s" else ():
                    if (span.rank, chunk) in writers:
                        raise self._error(event, f"writes packets to chunk {chunk} of the scratch buffer of gpu {span.rank} again")
                    writers[span.rank, chunk] = event
        for event in self._events:
            sources: Sequence[BufferSpan | PlanEvent | None] = event.sums if event.kind == "l" else (event.source,)
            if event.step.name not in PACKETS or event.step.name == "cpkt" or event.kind == "r":
                continue
            for source in sources:
                packets = isinstance(source, BufferSpan) and source.buffer == "s"
                for chunk in range(source.first, source.first + source.length) if isinstance(source, BufferSpan) and packets else ():
                    if (event.rank, chunk) not in writers:
                        raise self._error(event, f"reads packets of chunk {chunk} of the scratch buffer, which is never written")
                    writer = writers[event.rank, chunk]
                    if writer not in event.after:
                        event.after.append(writer)

    def _error(self, event: PlanEvent, what: str) -> InputError:
        return InputError(f"{self._plan.path}: {event.step.where}: {event.step.name}: {what}")


def follow_data(plan: ExecutionPlan, events: Sequence[PlanEvent]) -> DataFlow:
    """The content of every message. Raises InputError if empty chunks are read, or the result is not that of the collective."""
    buffers = Buffers(plan.collective, len(plan.blocks), plan.chunks, plan.in_place)
    flow, held = DataFlow({}, set()), dict[PlanEvent, list[BufferValue]]()

    def read(event: PlanEvent, source: BufferSpan | PlanEvent) -> list[BufferValue]:
        if isinstance(source, PlanEvent):
            return held[source]
        values = [
            buffers.read(source.rank, BufferPlace(source.buffer, chunk)) for chunk in range(source.first, source.first + source.length)
        ]
        if None in values:
            chunk = source.first + values.index(None)
            where = f"chunk {chunk} of buffer {source.buffer} of gpu {source.rank}"
            raise InputError(f"{plan.path}: {event.step.where}: {event.step.name} reads {where}, which is empty")
        return [value for value in values if value is not None]

    for event in events:
        if event.kind == "s":
            held[event] = read(event, event.source) if event.source is not None else []
            flow.carried[event] = [value.chunk for value in held[event]]
            continue
        if event.kind == "r":
            assert isinstance(event.message, PlanEvent)
            held[event] = [BufferValue(value.chunk, value.times, event) for value in held[event.message]]
        elif event.sums:
            held[event] = _added(plan, flow, event, [read(event, each) for each in event.sums])
        for target in event.targets:
            for chunk, value in zip(range(target.first, target.first + target.length), held[event], strict=True):
                buffers.write(target.rank, BufferPlace(target.buffer, chunk), value)
    wrong = buffers.wrong()
    if wrong is not None:
        raise InputError(f"{plan.path}: {wrong}")
    return flow


def _added(plan: ExecutionPlan, flow: DataFlow, event: PlanEvent, parts: Sequence[list[BufferValue]]) -> list[BufferValue]:
    """The sums of chunks; received data are reduced then."""
    if len(parts) == 1:
        return parts[0]
    result = []
    for values in zip(*parts, strict=True):
        if len({value.chunk for value in values}) > 1:
            names = ", ".join(str(value.chunk) for value in values)
            raise InputError(f"{plan.path}: {event.step.where}: {event.step.name} adds chunks {names}; expected the same one")
        flow.reduced.update(value.received for value in values if value.received is not None)
        result.append(BufferValue(values[0].chunk, sum(value.times for value in values)))
    return result
