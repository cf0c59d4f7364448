"""Circulant schedules: all ranks do the same, in as few rounds as there are doublings, with no byte more than needed.

In each round of an all-gather a rank has the pieces of the ranks after it, and gets as many again from the rank behind those: for any
number of ranks, not powers of two alone (Bruck et al., 1997; Traeff, Optimal, non-pipelined reduce-scatter and all-reduce, 2024). A
reduce-scatter is that backwards.
"""

from __future__ import annotations

from collections.abc import Iterator

from astra_sim.schedule import Collective, Request, Schedule, Step, exchange, shift


def circulant(request: Request) -> Schedule:
    """The schedule of an all-gather, reduce-scatter or all-reduce. Raises ScheduleError for an all-to-all."""
    match request.collective:
        case Collective.ALL_GATHER:
            return Schedule.shared(request, _spread(request, request.bytes, 1))
        case Collective.REDUCE_SCATTER:
            return Schedule.shared(request, _sums(request))
        case Collective.ALL_REDUCE:
            return Schedule.shared(request, [*_sums(request), *_spread(request, request.bytes, request.ranks)])
        case _:
            raise request.unsupported("circulant", "it spreads or sums the data of all ranks")


def _rounds(ranks: int) -> list[tuple[int, int]]:
    """The pieces that a rank has before each round, and those that it gets."""
    result, has = [], 1
    while has < ranks:
        result.append((has, min(has, ranks - has)))
        has += result[-1][1]
    return result


def _spread(request: Request, size: int, parts: int) -> Iterator[Step]:
    for has, more in _rounds(request.ranks):
        yield exchange(shift(-has), size * more // parts, pieces=range(more))


def _sums(request: Request) -> Iterator[Step]:
    for has, more in reversed(_rounds(request.ranks)):
        yield exchange(shift(has), request.bytes * more // request.ranks, reduce=True, pieces=range(has, has + more))
