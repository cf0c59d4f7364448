"""For which receptions an endpoint charges the pass through local memory, as ASTRA-sim 1.0 counts them."""

from __future__ import annotations

from astra_sim.schedule import Collective


def is_charged(collective: Collective, starts: int, rest: int, reception: int) -> bool:
    """Whether the reception of that number (from 0) is charged.

    Tokens come in cycles of `starts` that cost nothing and `rest` that do; the tokens at the start are the first of them. A
    reduce-scatter charges those of every cycle, an all-reduce of every other cycle.
    """
    cycle, place = divmod(starts + reception, starts + rest)
    if place < starts:
        return False
    return collective is Collective.REDUCE_SCATTER or (collective is Collective.ALL_REDUCE and cycle % 2 == 0)
