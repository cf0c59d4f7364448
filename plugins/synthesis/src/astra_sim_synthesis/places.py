"""Where ranks hold the pieces of a plan in a file: in their input, their output, or, on the way to others, in their scratch buffer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from astra_sim.schedule import Collective, Schedule
from astra_sim.schedule_bytes import cut_of


class ChunkPlace(NamedTuple):
    """A chunk of a buffer: i (input), o (output) or s (scratch)."""

    buffer: str
    chunk: int


class MessageRun(NamedTuple):
    """Chunks of a message that are contiguous at both ends: the first at the sender and at the receiver, and their number."""

    source: ChunkPlace
    target: ChunkPlace
    chunks: int


class PiecePlaces:
    """The places of all pieces. Piece (a, b) of an all-to-all is at rank a in its input, and at its last rank in the output.

    Other collectives are in place, in the larger of the two buffers. `scratch[rank]` are chunks of a rank's scratch buffer so far.
    """

    def __init__(self, schedule: Schedule, kind: Collective) -> None:
        self._kind = kind
        self._pieces = cut_of(schedule)
        self._relayed: dict[tuple[int, object], int] = {}
        self.scratch = [0] * schedule.ranks

    def at(self, rank: int, name: object) -> ChunkPlace:
        """The place of a piece at a rank."""
        if self._kind is not Collective.ALL_TO_ALL:
            assert isinstance(name, int)
            return ChunkPlace(in_place_buffer(self._kind), name)
        assert isinstance(name, tuple)
        owner, piece = name
        if rank == owner:
            return ChunkPlace("i", piece)
        if rank == piece // self._pieces:
            return ChunkPlace("o", owner * self._pieces + piece % self._pieces)
        if (rank, name) not in self._relayed:
            self._relayed[rank, name] = self.scratch[rank]
            self.scratch[rank] += 1
        return ChunkPlace("s", self._relayed[rank, name])

    def runs(self, names: Sequence[object], sender: int, receiver: int) -> list[MessageRun]:
        """The runs of a message."""
        result: list[MessageRun] = []
        for name in names:
            source, target = self.at(sender, name), self.at(receiver, name)
            if result and _after(result[-1].source, result[-1].chunks) == source and _after(result[-1].target, result[-1].chunks) == target:
                result[-1] = result[-1]._replace(chunks=result[-1].chunks + 1)
            else:
                result.append(MessageRun(source, target, 1))
        return result


def in_place_buffer(kind: Collective) -> str:
    """The buffer in which a collective other than an all-to-all happens."""
    return "o" if kind is Collective.ALL_GATHER else "i"


def _after(place: ChunkPlace, count: int) -> ChunkPlace:
    return ChunkPlace(place.buffer, place.chunk + count)
