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

    file: str = option(help="the algorithm, in the XML format of MSCCL")


def msccl(request: Request, options: MscclOptions) -> Schedule:
    """The algorithm in the file. A chunk has buffer bytes / nchunksperloop bytes; a message of several is truncated once.

    Raises InputError where the file is wrong or its algorithm does not do the collective that it names, ScheduleError where it is for
    another collective or number of ranks.
    """
    algorithm = read_algorithm(options.file)
    if algorithm.collective is not request.collective:
        raise request.unsupported("msccl", f"{options.file} is for {algorithm.collective}")
    if len(algorithm.gpus) != request.ranks:
        raise request.unsupported("msccl", f"{options.file} is for {len(algorithm.gpus)} ranks")
    events = events_in_order(algorithm)
    flow = follow(algorithm, events)
    for number, blocks in algorithm.gpus.items():
        if not any(event.rank == number and event.kind != "l" for event in events):
            line = min((block.line for block in blocks.values()), default=1)
            raise algorithm.error(line, f"gpu {number} sends and receives nothing")
    size = request.bytes * (request.ranks if request.collective is Collective.ALL_GATHER else 1)
    programs = []
    for number in range(request.ranks):
        own = [event for event in events if event.rank == number]
        programs.append(RankProgram(tuple(_Program(algorithm, flow, own, size).steps()), starts=1))
    return Schedule.per_rank(request, programs)


class _Program:
    """The steps of a rank: sends in order, before each the receives that it needs.

    A send waits for all receives posted so far, for the kernel counts messages and does not tell them apart. Two messages of a rank
    to another meet receives in the order in which they are sent.
    """

    def __init__(self, algorithm: Algorithm, flow: DataFlow, events: list[Event], size: int) -> None:
        self._algorithm, self._flow, self._size = algorithm, flow, size
        self._sends = [event for event in events if event.kind == "s"]
        self._receives = sorted((event for event in events if event.kind == "r"), key=lambda event: event.message.place)  # type: ignore[union-attr]
        self._bits = {event: 1 << bit for bit, event in enumerate(event for event in events if event.kind == "r")}

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
        """Takes from the receives that are left those needed, and those of messages sent before by the same ranks."""
        last = {event.peer: event for event in self._receives if self._bits[event] & needs}
        found: list[Event] = []
        left: list[Event] = []
        ended: set[int] = set()
        for event in self._receives:
            (found if event.peer in last and event.peer not in ended else left).append(event)
            if last.get(event.peer) is event:
                ended.add(event.peer)
        self._receives = left
        return found

    def _receive(self, event: Event) -> Step:
        return receive(rank(event.peer), self._bytes(event), after=0, reduce=event in self._flow.reduced)

    def _bytes(self, event: Event) -> int:
        return self._size * event.step.count // self._algorithm.chunks

    def _pieces(self, chunk: Hashable) -> Iterable[Hashable]:
        """The pieces that a chunk is, of a buffer of as many as both chunks and ranks divide."""
        if not isinstance(chunk, int):
            return [chunk]
        each = math.lcm(self._algorithm.chunks, len(self._algorithm.gpus)) // self._algorithm.chunks
        return range(chunk * each, (chunk + 1) * each)
