"""Data flow of an MSCCL algorithm: follow every chunk from buffer to buffer and check the result."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import attrs
from astra_sim.schedule import Collective

from astra_sim_collectives.msccl_graph import MscclEvent
from astra_sim_collectives.msccl_xml import REDUCING, SENDING, BufferPlace, MscclAlgorithm

_BASE = 1 << 32


@attrs.frozen
class BufferValue:
    """The contents of a chunk of a buffer: the sum of ranks' data in `chunk`, each as often as its digit of `times` (in base `_BASE`).

    `received` is the receive that brought it as it is.
    """

    chunk: Hashable
    times: int
    received: MscclEvent | None = None


@attrs.frozen
class DataFlow:
    """The chunks that every send carries, and the receives whose data are added to the buffer."""

    carried: dict[MscclEvent, list[Hashable]]
    reduced: set[MscclEvent]


@attrs.define
class Buffers:
    """The content of the buffers of all ranks, chunk by chunk. `chunks` is the number of chunks of the larger of input and output.

    In place, the smaller of the two is a part of the larger.
    """

    collective: Collective
    ranks: int
    chunks: int
    in_place: bool
    _held: dict[tuple[int, BufferPlace], BufferValue] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        chunks = self._share if self.collective is Collective.ALL_GATHER else self.chunks
        for rank in range(self.ranks):
            for offset in range(chunks):
                self.write(rank, BufferPlace("i", offset), BufferValue(self._name(rank, offset), _BASE**rank))

    @property
    def _share(self) -> int:
        return self.chunks // self.ranks

    def _name(self, rank: int, offset: int) -> Hashable:
        """The name of chunk `offset` of a rank's input."""
        if self.collective is Collective.ALL_GATHER:
            return rank * self._share + offset
        return (rank, offset) if self.collective is Collective.ALL_TO_ALL else offset

    def _at(self, rank: int, place: BufferPlace) -> tuple[int, BufferPlace]:
        """The location of a chunk."""
        buffer, offset = place
        if self.in_place and buffer != "s":
            smaller = {Collective.ALL_GATHER: "i", Collective.REDUCE_SCATTER: "o"}.get(self.collective)
            return rank, BufferPlace("io", offset + rank * self._share if buffer == smaller else offset)
        return rank, place

    def read(self, rank: int, place: BufferPlace) -> BufferValue | None:
        """The content of a chunk; None: empty."""
        return self._held.get(self._at(rank, place))

    def write(self, rank: int, place: BufferPlace, value: BufferValue) -> None:
        """Let a chunk hold something."""
        self._held[self._at(rank, place)] = value

    def wrong(self) -> str | None:
        """Describe the error in a rank's output; None: each rank has the chunks that its collective promises."""
        kind, ranks, everyone = self.collective, self.ranks, sum(_BASE**rank for rank in range(self.ranks))
        for rank in range(ranks):
            for offset in range(self._share if kind is Collective.REDUCE_SCATTER else self.chunks):
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
                held = self.read(rank, BufferPlace("o", offset))
                if held is None or (held.chunk, held.times) != right:
                    return (
                        f"at the end gpu {rank} has {_words(held)} in chunk {offset} of its output; expected {_words(BufferValue(*right))}"
                    )
        return None


def follow(algorithm: MscclAlgorithm, events: Sequence[MscclEvent]) -> DataFlow:
    """Do all events, in order. Raises InputError if a step reads an empty chunk, or the result is not that of the collective."""
    return _Follower(algorithm).follow(events)


class _Follower:
    def __init__(self, algorithm: MscclAlgorithm) -> None:
        self._algorithm = algorithm
        self._buffers = Buffers(algorithm.collective, len(algorithm.gpus), algorithm.chunks, algorithm.in_place)
        self._flow = DataFlow({}, set())

    def follow(self, events: Sequence[MscclEvent]) -> DataFlow:
        sent: dict[MscclEvent, list[BufferValue]] = {}
        passing: dict[int, list[BufferValue]] = {}
        for event in events:
            step = event.step
            if event.kind == "s":
                values = passing.pop(id(step), None) or self._read(event, step.source)
                sent[event] = values
                self._flow.carried[event] = [value.chunk for value in values]
                continue
            if event.kind == "r":
                assert event.message is not None
                values = [BufferValue(value.chunk, value.times, event) for value in sent.pop(event.message)]
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
                    self._buffers.write(event.rank, BufferPlace(step.target.buffer, step.target.offset + further), value)
        wrong = self._buffers.wrong()
        if wrong is not None:
            raise self._algorithm.error(1, f"algo: {wrong}")
        return self._flow

    def _read(self, event: MscclEvent, place: BufferPlace | None) -> list[BufferValue]:
        assert place is not None
        values = []
        for further in range(event.step.count):
            value = self._buffers.read(event.rank, BufferPlace(place.buffer, place.offset + further))
            if value is None:
                raise self._algorithm.error(
                    event.step.line, f"step: gpu {event.rank} reads chunk {place.offset + further} of buffer {place.buffer}, which is empty"
                )
            values.append(value)
        return values

    def _add(self, event: MscclEvent, some: list[BufferValue], others: list[BufferValue]) -> list[BufferValue]:
        sums = []
        for a, b in zip(some, others, strict=True):
            if a.chunk != b.chunk:
                raise self._algorithm.error(event.step.line, f"step: gpu {event.rank} adds chunk {a.chunk} to chunk {b.chunk}")
            self._flow.reduced.update(value.received for value in (a, b) if value.received is not None)
            sums.append(BufferValue(a.chunk, a.times + b.times))
        return sums


def _words(value: BufferValue | None) -> str:
    if value is None:
        return "nothing"
    ranks, rank, rest = [], 0, value.times
    while rest:
        rest, times = divmod(rest, _BASE)
        if times:
            ranks.append(str(rank) if times == 1 else f"{rank} ({times} times)")
        rank += 1
    return f"chunk {value.chunk} of gpu {', '.join(ranks)}"
