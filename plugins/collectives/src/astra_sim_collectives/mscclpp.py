"""MSCCL++: an algorithm from an execution plan, in the JSON format that its language writes."""

from __future__ import annotations

import attrs
from astra_sim import InputError, option
from astra_sim.schedule import Collective, RankProgram, Request, Schedule

from astra_sim_collectives.mscclpp_events import PlanEvent, events_of, follow_data
from astra_sim_collectives.mscclpp_plan import read_plan
from astra_sim_collectives.rank_steps import RankSteps


@attrs.frozen
class MscclppOptions:
    """Options of an algorithm in a plan."""

    file: str = option(help="the plan, in the JSON format of MSCCL++", path="path")
    signal_bytes: int = option(8, minimum=0, maximum=1 << 20, help="bytes of a signal, and of the request of a get", unit="bytes")


def mscclpp(request: Request, options: MscclppOptions) -> Schedule:
    """The algorithm of the plan. A chunk has buffer bytes / chunks bytes; a message of several is truncated once.

    Raises InputError if the file is wrong or its algorithm does not do the collective that it names, ScheduleError if it is for
    another collective or number of ranks.
    """
    plan = read_plan(options.file)
    ranks = len(plan.blocks)
    if plan.collective is not request.collective:
        raise request.unsupported("mscclpp", f"{options.file} is for {plan.collective}")
    if ranks != request.ranks:
        raise request.unsupported("mscclpp", f"{options.file} is for {ranks} ranks")
    events = events_of(plan)
    flow = follow_data(plan, events)
    size = request.bytes * (ranks if request.collective is Collective.ALL_GATHER else 1)

    def bytes_of(event: PlanEvent) -> tuple[int, int]:
        if not event.chunks:
            return options.signal_bytes, options.signal_bytes
        data = size * event.chunks // plan.chunks
        return (2 * data, data) if event.packets else (data, 0)

    of_rank: list[list[PlanEvent]] = [[] for _ in range(ranks)]
    for event in events:
        if event.kind != "l":
            of_rank[event.rank].append(event)
    for number, own in enumerate(of_rank):
        if not own:
            raise InputError(f"{options.file}: gpus[{number}] sends and receives nothing")
    programs = [RankProgram(tuple(RankSteps(plan.chunks, ranks, flow, own, bytes_of).steps()), starts=1) for own in of_rank]
    return Schedule.per_rank(request, programs)
