"""Recursive halving and doubling: exchanges with ranks whose numbers differ in one bit."""

from __future__ import annotations

from astra_sim.platform import is_power_of_two
from astra_sim.schedule import Collective, Request, Schedule, exchange, xor

from astra_sim_collectives.charge import is_charged


def halving_doubling(request: Request) -> Schedule:
    """Reduce-scatter by halving (partners 1, 2, 4, ...), all-gather by doubling (n/2, ..., 2, 1), all-reduce by both.

    Every halving truncates. Raises ScheduleError unless the
    number of ranks is a power of two, and for all-to-all.
    """
    n, collective = request.ranks, request.collective
    if not is_power_of_two(n):
        raise request.unsupported("halving_doubling", "it needs a power of two")
    if collective is Collective.ALL_TO_ALL:
        raise request.unsupported("halving_doubling", "it has no all-to-all")
    bits = n.bit_length() - 1
    halving = [(1 << bit, range(1 << bit, n, 2 << bit), True) for bit in range(bits)]
    doubling = [(1 << bit, range(0, n, 2 << bit), False) for bit in reversed(range(bits))]
    halves = [request.bytes >> bit for bit in range(1, bits + 1)]
    match collective:
        case Collective.REDUCE_SCATTER:
            rounds, sizes = halving, halves
        case Collective.ALL_GATHER:
            rounds, sizes = doubling, [request.bytes << bit for bit in range(bits)]
        case _:
            # Between the two halves the size is halved and doubled once more, so its last bit is lost (ASTRA-sim 1.0).
            rounds, sizes = halving + doubling, halves + [halves[-1] // 2 * 2 << bit for bit in range(bits)]
    steps = []
    for number, ((mask, pieces, reduce), size) in enumerate(zip(rounds, sizes, strict=True)):
        # The endpoint charges the size of the message that the reception allows to be sent.
        charged = sizes[number + 1] if number + 1 < len(sizes) and is_charged(collective, 1, bits - 1, number) else 0
        steps.append(exchange(xor(mask), size, reduce=reduce, memory_bytes=charged, pieces=pieces))
    last = sizes[-1] // 2 if collective is Collective.REDUCE_SCATTER else sizes[-1] * 2
    return Schedule.shared(request, steps, cycle=(1, bits - 1), last_bytes=last)
