"""What an MSCCL algorithm does with data: follows every chunk from buffer to buffer and says whether the result is right."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import attrs
from astra_sim.schedule import Collective

from astra_sim_collectives.msccl_graph import Event
from astra_sim_collectives.msccl_xml import REDUCING, SENDING, Algorithm, Place

_BASE = 1 << 32


@attrs.frozen
class Value:
    """The contents of a chunk of a buffer: the sum of ranks' data in `chunk`, each as often as its digit of `times` (in base `_BASE`) says.

    `received` is the receive that brought it as it is.
    """

    chunk: Hashable
    times: int
    received: Event | None = None


@attrs.frozen
class DataFlow:
    """The chunks that every send carries, and the receives whose data are added to the buffer."""

    carried: dict[Event, list[Hashable]]
    reduced: set[Event]


def follow(algorithm: Algorithm, events: Sequence[Event]) -> DataFlow:
    """Do all events, in order. Raises InputError if a step reads an empty chunk, or the result is not that of the collective."""
    return _Follower(algorithm).follow(events)


class _Follower:
    def __init__(self, algorithm: Algorithm) -> None:
        self._algorithm = algorithm
        self._ranks = len(algorithm.gpus)
        self._share = algorithm.chunks // self._ranks
        self._held: dict[tuple[int, Place], Value] = {}
        self._flow = DataFlow({}, set())
        for rank in range(self._ranks):
            own = self._share if algorithm.collective is Collective.ALL_GATHER else algorithm.chunks
            for offset in range(own):
                self._held[self._at(rank, Place("i", offset), 0)] = Value(self._name(rank, offset), _BASE**rank)

    def _name(self, rank: int, offset: int) -> Hashable:
        """The name of chunk `offset` of a rank's input."""
        if self._algorithm.collective is Collective.ALL_GATHER:
            return rank * self._share + offset
        return (rank, offset) if self._algorithm.collective is Collective.ALL_TO_ALL else offset

    def _at(self, rank: int, place: Place, further: int) -> tuple[int, Place]:
        """A chunk of a buffer. In place, the smaller of input and output is a part of the larger."""
        buffer, offset = place.buffer, place.offset + further
        if self._algorithm.in_place and buffer != "s":
            smaller = {Collective.ALL_GATHER: "i", Collective.REDUCE_SCATTER: "o"}.get(self._algorithm.collective)
            return rank, Place("io", offset + rank * self._share if buffer == smaller else offset)
        return rank, Place(buffer, offset)

    def follow(self, events: Sequence[Event]) -> DataFlow:
        sent: dict[Event, list[Value]] = {}
        passing: dict[int, list[Value]] = {}
        for event in events:
            step = event.step
            if event.kind == "s":
                values = passing.pop(id(step), None) or self._read(event, step.source)
                sent[event] = values
                self._flow.carried[event] = [value.chunk for value in values]
                continue
            if event.kind == "r":
                assert event.message is not None
                values = [Value(value.chunk, value.times, event) for value in sent.pop(event.message)]
                if step.type in REDUCING:
                    values = self._add(event, values, self._read(event, step.source))
                if step.type in SENDING:
                    passing[id(step)] = values
            elif step.type == "nop":
                continue
            else:
                values = self._read(event, step.source)
                if step.type == "re":
                    values = self._add(event, values, self._read(event, step.target))
            for further, value in enumerate(values):
                if step.target is not None:
                    self._held[self._at(event.rank, step.target, further)] = value
        self._check_result()
        return self._flow

    def _read(self, event: Event, place: Place | None) -> list[Value]:
        assert place is not None
        values = []
        for further in range(event.step.count):
            value = self._held.get(self._at(event.rank, place, further))
            if value is None:
                raise self._algorithm.error(
                    event.step.line, f"step: gpu {event.rank} reads chunk {place.offset + further} of buffer {place.buffer}, which is empty"
                )
            values.append(value)
        return values

    def _add(self, event: Event, some: list[Value], others: list[Value]) -> list[Value]:
        sums = []
        for a, b in zip(some, others, strict=True):
            if a.chunk != b.chunk:
                raise self._algorithm.error(event.step.line, f"step: gpu {event.rank} adds chunk {a.chunk} to chunk {b.chunk}")
            self._flow.reduced.update(value.received for value in (a, b) if value.received is not None)
            sums.append(Value(a.chunk, a.times + b.times))
        return sums

    def _check_result(self) -> None:
        """Check that every rank ends with the chunks that its collective promises."""
        kind, ranks, everyone = self._algorithm.collective, self._ranks, sum(_BASE**rank for rank in range(self._ranks))
        for rank in range(ranks):
            for offset in range(self._share if kind is Collective.REDUCE_SCATTER else self._algorithm.chunks):
                source, rest = divmod(offset, max(1, self._share))
                match kind:
                    case Collective.ALL_REDUCE:
                        right: tuple[Hashable, int] = offset, everyone
                    case Collective.REDUCE_SCATTER:
                        right = rank * self._share + offset, everyone
                    case Collective.ALL_GATHER:
                        right = offset, _BASE**source
                    case _:
                        right = (source, rank * self._share + rest), _BASE**source
                held = self._held.get(self._at(rank, Place("o", offset), 0))
                if held is None or (held.chunk, held.times) != right:
                    raise self._algorithm.error(
                        1,
                        f"algo: at the end gpu {rank} has {_words(held)} in chunk {offset} of its output; expected {_words(Value(*right))}",
                    )


def _words(value: Value | None) -> str:
    if value is None:
        return "nothing"
    ranks, rank, rest = [], 0, value.times
    while rest:
        rest, times = divmod(rest, _BASE)
        if times:
            ranks.append(str(rank) if times == 1 else f"{rank} ({times} times)")
        rank += 1
    return f"chunk {value.chunk} of gpu {', '.join(ranks)}"
