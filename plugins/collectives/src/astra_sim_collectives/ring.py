"""Ring: every rank sends to the next one and receives from the one before, one message at a time."""

from __future__ import annotations

import math
from functools import partial

from astra_sim.schedule import Collective, Request, Schedule, exchange, shift


def ring(request: Request) -> Schedule:
    """The ring algorithm: a reduce-scatter and an all-gather of n - 1 steps each make an all-reduce.

    Blocks are bytes // n. The all-to-all passes every block on from rank to rank: a block of distance d takes d steps.
    """
    n, way = request.ranks, request.direction
    step = partial(exchange, shift(way))
    block = request.bytes // n
    match request.collective:
        case Collective.ALL_REDUCE:
            steps = [
                step(block, times=n - 1, reduce=True, pieces=lambda k: [-k * way]),
                step(block, times=n - 1, pieces=lambda k: [(1 - k) * way]),
            ]
        case Collective.REDUCE_SCATTER:
            steps = [step(block, times=n - 1, reduce=True, pieces=lambda k: [-k * way])]
        case Collective.ALL_GATHER:
            steps = [step(request.bytes, times=n - 1, pieces=lambda k: [-k * way])]
        case _:
            steps = [step(block, times=n * (n - 1) // 2, pieces=lambda k: [_block(k, way)])]
    return Schedule.shared(request, steps, cycle=(1, n - 1))


def _block(k: int, way: int) -> tuple[int, int]:
    """Origin and destination, relative to the sender, of the block in step k: first those of distance 1, then 2, ..."""
    distance = (math.isqrt(8 * k + 1) + 1) // 2
    hop = k - distance * (distance - 1) // 2
    return -hop * way, (distance - hop) * way
