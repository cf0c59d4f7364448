"""MSCCL: an algorithm from an XML file, as MSCCL and its tools write it."""

from __future__ import annotations

import attrs
from astra_sim import option
from astra_sim.schedule import Collective, RankProgram, Request, Schedule

from astra_sim_collectives.msccl_data import follow
from astra_sim_collectives.msccl_graph import MscclEvent, events_in_order
from astra_sim_collectives.msccl_xml import read_algorithm
from astra_sim_collectives.rank_steps import RankSteps


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
    of_rank: list[list[MscclEvent]] = [[] for _ in range(request.ranks)]
    for event in events:
        if event.kind != "l":
            of_rank[event.rank].append(event)
    for number, own in enumerate(of_rank):
        if not own:
            line = min((block.line for block in algorithm.gpus[number].values()), default=1)
            raise algorithm.error(line, f"gpu {number} sends and receives nothing")
    size = request.bytes * (request.ranks if request.collective is Collective.ALL_GATHER else 1)

    def bytes_of(event: MscclEvent) -> tuple[int, int]:
        return size * event.step.count // algorithm.chunks, 0

    programs = [RankProgram(tuple(RankSteps(algorithm.chunks, request.ranks, flow, own, bytes_of).steps()), starts=1) for own in of_rank]
    return Schedule.per_rank(request, programs)
