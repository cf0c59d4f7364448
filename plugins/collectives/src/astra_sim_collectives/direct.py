"""Direct: every rank sends straight to every other rank."""

from __future__ import annotations

from collections.abc import Hashable

import attrs
from astra_sim import option
from astra_sim.schedule import Collective, Request, Schedule, Step, exchange, shift
from astra_sim.value_objects import ValueObject

from astra_sim_collectives.charge import charged_alike, is_charged

MAX_RANKS = 1 << 20


@attrs.frozen(eq=False, repr=False)
class DirectOptions(ValueObject):
    """Options of the direct algorithm."""

    window: int | None = option(None, minimum=1, help="messages in flight at a time; none: to all other ranks at once")


def direct(request: Request, options: DirectOptions) -> Schedule:
    """The direct algorithm: send j goes to the rank at distance j + 1. Blocks are bytes // n.

    An all-reduce sends its second half when all blocks of the first have arrived. Raises ScheduleError on more than MAX_RANKS.
    """
    n, way, collective = request.ranks, request.direction, request.collective
    others = n - 1
    if n > MAX_RANKS:
        raise request.unsupported("direct", f"every rank would send to all others; expected at most {MAX_RANKS} ranks")
    starts = others if options.window is None else min(options.window, others)
    charged = starts * others if request.in_group else starts
    size = request.bytes if collective is Collective.ALL_GATHER else request.bytes // n
    reduces = collective in (Collective.ALL_REDUCE, Collective.REDUCE_SCATTER)

    def step(begin: int, end: int, *, gather: bool) -> Step:
        """The sends from `begin` to `end`, of which the endpoint charges all or none."""
        first = (begin % others + 1) * way

        def pieces(k: int) -> list[Hashable]:
            distance = first + k * way
            return [0] if gather else [(0, distance)] if collective is Collective.ALL_TO_ALL else [distance]

        return exchange(
            shift(first),
            size,
            times=end - begin,
            stride=way,
            reduce=reduces and not gather,
            memory_bytes=size if is_charged(collective, starts, charged, begin) else 0,
            after_arrivals=others if begin >= others else 0,
            pieces=pieces,
        )

    gather = collective is Collective.ALL_GATHER
    steps = [step(*run, gather=gather) for run in charged_alike(collective, starts, charged, range(others))]
    if collective is Collective.ALL_REDUCE:
        steps += [step(*run, gather=True) for run in charged_alike(collective, starts, charged, range(others, 2 * others))]
    return Schedule.shared(request, steps, starts=starts, cycle=(starts, charged))
