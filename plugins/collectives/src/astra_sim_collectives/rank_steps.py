"""The program of a rank from its sends and receives in an order in which all of them can happen."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

from astra_sim.schedule import Step, rank, receive, send

from astra_sim_collectives.msccl_data import DataFlow
from astra_sim_collectives.msccl_graph import MscclEvent


def _sent(event: MscclEvent) -> int:
    """The place of a receive's send in the order of all events."""
    assert event.message is not None
    return event.message.place


class RankSteps:
    """The steps of a rank: sends in order, before each the receives that it needs. `bytes_of` is the size of a message, and how many
    bytes of it carry no data.

    A send waits for all receives posted so far, since the kernel counts messages and does not tell them apart. Two messages of a rank
    to another meet receives in the order in which they are sent.
    """

    def __init__(
        self, chunks: int, ranks: int, flow: DataFlow, events: Sequence[MscclEvent], bytes_of: Callable[[Any], tuple[int, int]]
    ) -> None:
        self._chunks, self._ranks, self._flow, self._bytes = chunks, ranks, flow, bytes_of
        self._sends = [event for event in events if event.kind == "s"]
        self._receives = sorted((event for event in events if event.kind == "r"), key=_sent)
        self._bits = {event: 1 << bit for bit, event in enumerate(event for event in events if event.kind == "r")}
        self._posted = 0

    def steps(self) -> Iterable[Step]:
        """The steps, in order."""
        posted = 0
        for event in self._sends:
            for needed in self._needed(event.needs):
                posted += 1
                yield self._receive(needed)
            pieces = [name for chunk in self._flow.carried[event] for name in self._pieces(chunk)]
            size, overhead = self._bytes(event)
            yield send(rank(event.peer), size, after=1 + posted, pieces=pieces, overhead_bytes=overhead)
        for event in self._receives:
            yield self._receive(event)

    def _needed(self, needs: int) -> list[MscclEvent]:
        """Take, from the receives that are left, those that `needs` names, and those of messages that the same ranks sent earlier."""
        missing = needs & ~self._posted
        end = 0
        while missing:
            missing &= ~self._bits[self._receives[end]]
            end += 1
        last = {event.peer: _sent(event) for event in self._receives[:end] if self._bits[event] & needs}
        posted = [event for event in self._receives[:end] if _sent(event) <= last.get(event.peer, -1)]
        self._receives[:end] = [event for event in self._receives[:end] if _sent(event) > last.get(event.peer, -1)]
        for event in posted:
            self._posted |= self._bits[event]
        return posted

    def _receive(self, event: MscclEvent) -> Step:
        size, overhead = self._bytes(event)
        reduces = event in self._flow.reduced
        return receive(rank(event.peer), size, after=0, reduce=reduces, memory_bytes=(size - overhead) * reduces)

    def _pieces(self, chunk: Hashable) -> Iterable[Hashable]:
        """The pieces of a chunk. A buffer has as many pieces as both the number of chunks and the number of ranks divide."""
        if not isinstance(chunk, int):
            return [chunk]
        each = math.lcm(self._chunks, self._ranks) // self._chunks
        return range(chunk * each, (chunk + 1) * each)
