"""The receptions for which an endpoint charges a pass through local memory, by ASTRA-sim 1.0's count."""

from __future__ import annotations

from collections.abc import Iterator

from astra_sim.schedule import Collective


def is_charged(collective: Collective, starts: int, rest: int, reception: int) -> bool:
    """Whether the reception of that number (from 0) is charged.

    Tokens come in cycles: `starts` tokens that cost nothing, then `rest` tokens that do. The tokens at the start are the first of them. A
    reduce-scatter charges those of every cycle, an all-reduce of every other cycle.
    """
    cycle, place = divmod(starts + reception, starts + rest)
    if place < starts:
        return False
    return collective is Collective.REDUCE_SCATTER or (collective is Collective.ALL_REDUCE and cycle % 2 == 0)


def charged_alike(collective: Collective, starts: int, rest: int, receptions: range) -> Iterator[tuple[int, int]]:
    """The beginnings and ends of runs of receptions that are all charged, or none of them."""
    if receptions and collective not in (Collective.REDUCE_SCATTER, Collective.ALL_REDUCE):
        yield receptions.start, receptions.stop
        return
    begin = receptions.start
    while begin < receptions.stop:
        place = (starts + begin) % (starts + rest)
        end = min(receptions.stop, begin + (starts if place < starts else starts + rest) - place)
        yield begin, end
        begin = end
