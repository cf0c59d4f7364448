"""The algorithm: in step k every rank sends to the one k further on, and receives from the one k before."""

from __future__ import annotations

import attrs
from astra_sim import option
from astra_sim.schedule import Collective, Request, Schedule, exchange, shift


@attrs.frozen
class WindowOptions:
    """Options of the algorithm."""

    window: int = option(1, minimum=1, help="messages in flight at a time")


def schedule(request: Request, options: WindowOptions) -> Schedule:
    """What every rank does, in order. An all-reduce is a reduce-scatter and an all-gather; blocks are bytes // ranks."""
    n, way, block = request.ranks, request.direction, request.bytes // request.ranks
    distances = [k * way for k in range(1, n)]
    # Pieces are numbered relative to the sender. Those of the rank at distance d go there, and are reduced there.
    scatter = [exchange(shift(d), block, reduce=True, pieces=[d]) for d in distances]
    starts = min(options.window, n - 1)
    match request.collective:
        case Collective.REDUCE_SCATTER:
            steps = scatter
        case Collective.ALL_GATHER:
            steps = [exchange(shift(d), request.bytes, pieces=[0]) for d in distances]
        case Collective.ALL_REDUCE:
            # The own block is complete when those of all others have arrived: only then it is sent on.
            steps = scatter + [exchange(shift(d), block, after_arrivals=n - 1, pieces=[0]) for d in distances]
        case Collective.ALL_TO_ALL:
            steps = [exchange(shift(d), block, pieces=[(0, d)]) for d in distances]
        case _:
            raise request.unsupported("before_collective", "it knows no such collective")
    return Schedule.shared(request, steps, starts=starts)
