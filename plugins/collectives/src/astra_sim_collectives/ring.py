"""Ring: every rank sends to the next one and receives from the one before, one message at a time, in one direction or in both."""

from __future__ import annotations

import math
from collections.abc import Hashable
from functools import partial

import attrs
from astra_sim import option
from astra_sim.limits import MAX_RING
from astra_sim.schedule import Collective, Request, Schedule, exchange, shift


@attrs.frozen
class RingAlgorithmOptions:
    """Options of the ring algorithm."""

    directions: int = option(
        1, minimum=1, maximum=2, help="2: half of every block goes round the other way, on the links of the other direction"
    )


def ring(request: Request, options: RingAlgorithmOptions = RingAlgorithmOptions()) -> Schedule:
    """The ring algorithm: a reduce-scatter and an all-gather of n - 1 steps each make an all-reduce.

    Blocks are bytes // n. The all-to-all passes every block on from rank to rank: a block of distance d takes d steps. With 2
    `directions` each step sends half of the block to the next rank and half to the one before; two ranks have one direction.
    Raises ScheduleError on more than MAX_RING ranks.
    """
    if request.ranks > MAX_RING:
        raise request.unsupported("ring", f"it has as many steps as ranks; expected at most {MAX_RING} ranks")
    if options.directions == 2 and request.ranks > 2:
        return _both_directions(request)
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


def _both_directions(request: Request) -> Schedule:
    """The steps of both directions in turn. Each waits for all messages of the steps before, because it sends on their data."""
    n, collective = request.ranks, request.collective
    size = request.bytes if collective is Collective.ALL_GATHER else request.bytes // n
    halves = (request.direction, "lower", size - size // 2), (-request.direction, "upper", size // 2)
    steps = [
        exchange(shift(way), half, after=2 + 2 * number, reduce=reduce, pieces=[(part, piece)])
        for number in range(_rounds(collective, n))
        for way, part, half in halves
        for reduce, piece in (_sent(collective, n, number, way),)
    ]
    return Schedule.shared(request, steps, starts=2, cycle=(2, 2 * (n - 1)))


def _rounds(collective: Collective, n: int) -> int:
    """The messages of a rank in one direction."""
    if collective is Collective.ALL_TO_ALL:
        return n * (n - 1) // 2
    return (2 if collective is Collective.ALL_REDUCE else 1) * (n - 1)


def _sent(collective: Collective, n: int, number: int, way: int) -> tuple[bool, Hashable]:
    """Whether a rank's message in a step is reduced, and its piece, relative to the rank.

    A reduce-scatter leaves a rank both halves of the block with its own number.
    """
    if collective is Collective.ALL_TO_ALL:
        return False, _block(number, way)
    if collective is Collective.ALL_GATHER:
        return False, -number * way
    return number < n - 1, (-1 - number if number < n - 1 else n - 1 - number) * way


def _block(k: int, way: int) -> tuple[int, int]:
    """Origin and destination, relative to the sender, of the block in step k: first those of distance 1, then 2, ..."""
    distance = (math.isqrt(8 * k + 1) + 1) // 2
    hop = k - distance * (distance - 1) // 2
    return -hop * way, (distance - hop) * way
