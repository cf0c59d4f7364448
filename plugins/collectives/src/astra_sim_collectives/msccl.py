"""MSCCL: an algorithm from an XML file, as MSCCL and its tools write it."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable

import attrs
from astra_sim import option
from astra_sim.schedule import Collective, RankProgram, Request, Schedule, Step, rank, receive, send

from astra_sim_collectives.msccl_data import DataFlow, follow
from astra_sim_collectives.msccl_graph import Event, events_in_order
from astra_sim_collectives.msccl_xml import Algorithm, read_algorithm


@attrs.frozen
class MscclOptions:
    """Options of an algorithm in a file."""

    file: str = option(help="the algorithm, in the XML format of MSCCL", path="path")


def msccl(request: Request, options: MscclOptions) -> Schedule:
    """The algorithm in the file. A chunk has buffer bytes / nchunksperloop bytes; a message of several is truncated once.

    Raises InputError if the file is wrong or its algorithm does not do the collective that it names, ScheduleError if it is for
    another collective or number of ranks.
    """
    algorithm = read_algorithm(options.file)
    if algorithm.collective is not request.collective:
        raise request.unsupported("msccl", f"{options.file} is for {algorithm.collective}")
    if len(algorithm.gpus) != request.ranks:
        raise request.unsupported("msccl", f"{options.file} is for {len(algorithm.gpus)} ranks")
    events = events_in_order(algorithm)
    flow = follow(algorithm, events)
    of_rank: list[list[Event]] = [[] for _ in range(request.ranks)]
    for event in events:
        if event.kind != "l":
            of_rank[event.rank].append(event)
    for number, own in enumerate(of_rank):
        if not own:
            line = min((block.line for block in algorithm.gpus[number].values()), default=1)
            raise algorithm.error(line, f"gpu {number} sends and receives nothing")
    size = request.bytes * (request.ranks if request.collective is Collective.ALL_GATHER else 1)
    programs = [RankProgram(tuple(_Program(algorithm, flow, own, size).steps()), starts=1) for own in of_rank]
    return Schedule.per_rank(request, programs)


def _sent(event: Event) -> int:
    """The place of a receive's send in the order of all events."""
    assert event.message is not None
    return event.message.place


class _Program:
    """The steps of a rank: sends in order, before each the receives that it needs.

    A send waits for all receives posted so far, since the kernel counts messages and does not tell them apart. Two messages of a rank
    to another meet receives in the order in which they are sent.
    """

    def __init__(self, algorithm: Algorithm, flow: DataFlow, events: list[Event], size: int) -> None:
        self._algorithm, self._flow, self._size = algorithm, flow, size
        self._sends = [event for event in events if event.kind == "s"]
        self._receives = sorted((event for event in events if event.kind == "r"), key=_sent)
        self._bits = {event: 1 << bit for bit, event in enumerate(event for event in events if event.kind == "r")}
        self._posted = 0

    def steps(self) -> Iterable[Step]:
        posted = 0
        for event in self._sends:
            for needed in self._needed(event.needs):
                posted += 1
                yield self._receive(needed)
            pieces = [name for chunk in self._flow.carried[event] for name in self._pieces(chunk)]
            yield send(rank(event.peer), self._bytes(event), after=1 + posted, pieces=pieces)
        for event in self._receives:
            yield self._receive(event)

    def _needed(self, needs: int) -> list[Event]:
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

    def _receive(self, event: Event) -> Step:
        return receive(rank(event.peer), self._bytes(event), after=0, reduce=event in self._flow.reduced)

    def _bytes(self, event: Event) -> int:
        return self._size * event.step.count // self._algorithm.chunks

    def _pieces(self, chunk: Hashable) -> Iterable[Hashable]:
        """The pieces of a chunk. A buffer has as many pieces as both the number of chunks and the number of ranks divide."""
        if not isinstance(chunk, int):
            return [chunk]
        each = math.lcm(self._algorithm.chunks, len(self._algorithm.gpus)) // self._algorithm.chunks
        return range(chunk * each, (chunk + 1) * each)
