"""Asks a collective algorithm for schedules, and moves pieces along them."""

from __future__ import annotations

from collections.abc import Callable

from astra_sim._boundary import call
from astra_sim.errors import PluginError, ScheduleError
from astra_sim.schedule import Collective, Request, Schedule
from astra_sim.setup.schedule_bytes import performed
from astra_sim.testing.pieces import check_schedule

RANKS = (2, 3, 4, 5, 8, 12, 16)
_PIECE = 1000
_REST = 7
"""Bytes that no number of ranks divides, on top of those of the pieces."""


def check_collective(algorithm: Callable[[Request], object], ranks: tuple[int, ...] = RANKS) -> dict[tuple[Collective, int], Schedule]:
    """Check every schedule that an algorithm gives, by moving pieces along it and comparing them with the bytes of messages.

    Sizes that it refuses with ScheduleError are passed over, but it must accept one. Returns the schedules by collective and
    number of ranks.
    """
    accepted = {}
    for collective in Collective:
        for n in ranks:
            for instance in range(2):
                for direction in (1, -1):
                    for size in (_PIECE * n + _REST, _PIECE * n):
                        schedule = _checked(algorithm, Request(collective, n, size, direction, instance))
                        if schedule is not None:
                            accepted[collective, n] = schedule
    if not accepted:
        raise PluginError(f"it serves no collective on {' or '.join(map(str, ranks))} ranks")
    return accepted


def _checked(algorithm: Callable[[Request], object], request: Request) -> Schedule | None:
    """The schedule for a request, None where it is refused. Raises PluginError where it is wrong."""
    where = f"{request.collective} on {request.ranks} ranks"
    try:
        schedule = call(where, algorithm, request)
    except ScheduleError:
        return None
    if not isinstance(schedule, Schedule):
        raise PluginError(f"for {request} it returned {schedule!r}, which is not a Schedule")
    try:
        schedule.check(request.ranks)
        check_schedule(schedule, performed(schedule, request))
    except (AssertionError, ScheduleError) as error:
        raise PluginError(f"{where}: {error}") from None
    return schedule
