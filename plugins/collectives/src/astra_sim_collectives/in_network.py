"""In the network: a switch reduces the data of all ranks, and sends them the result."""

from __future__ import annotations

from astra_sim.schedule import Collective, Request, Schedule, exchange, shift


def in_network(request: Request) -> Schedule:
    """Every rank sends its data once, and gets its result once; one message through the switch to the next rank represents both.

    Its size is that of the larger of the two: bytes, or for an all-gather the data of the n - 1 other ranks. Endpoints reduce nothing.
    Raises ScheduleError for all-to-all, in which a switch has nothing to reduce or to multicast.
    """
    n, collective = request.ranks, request.collective
    if collective is Collective.ALL_TO_ALL:
        raise request.unsupported("in_network", "a switch adds up or multiplies data, and all pieces of an all-to-all differ")
    size = request.bytes * (n - 1) if collective is Collective.ALL_GATHER else request.bytes
    # The receiver of a reduce-scatter gets the piece that is its own.
    pieces = [request.direction] if collective is Collective.REDUCE_SCATTER else range(n)
    return Schedule.shared(request, [exchange(shift(request.direction), size, pieces=[("all", piece) for piece in pieces])])
