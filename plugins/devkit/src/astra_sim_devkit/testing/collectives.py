"""Asks a collective algorithm for schedules, and moves pieces along them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import attrs
from astra_sim.errors import PluginError, ScheduleError
from astra_sim.providers import call
from astra_sim.schedule import Collective, Request, Schedule, Step, lower
from astra_sim.schedule_bytes import check_bytes, performed

from astra_sim_devkit.testing.pieces import check_schedule
from astra_sim_devkit.testing.requirement import require

RANKS = tuple(range(2, 17))
_PIECE = 1000
_REST = 7
"""Bytes that no number of ranks divides, on top of those of the pieces."""

_LARGE = 1 << 22
_MOST_MOVED = 5
_REPETITIONS = 64
"""Of a step that is repeated more often, the pieces of the first ones are compared."""


def check_collective(
    algorithm: Callable[[Request], object], ranks: tuple[int, ...] = RANKS, scales: bool = True
) -> dict[tuple[Collective, int], Schedule]:
    """Check every schedule that an algorithm gives, by moving pieces along it and comparing them with the bytes of messages.

    It is called for each again in another order, and must return the same; and its earlier results must stay as they are. Sizes that it
    refuses with ScheduleError are skipped, but it must accept one. `scales`: messages grow with the collective. Returns the schedules by
    collective and number of ranks.
    """
    requests = list(_requests(ranks))
    schedules: dict[Request, Schedule | None] = {}
    outlines: dict[Request, Hashable] = {}
    checked: set[Hashable] = set()
    for request in requests:
        schedule = schedules[request] = _asked(algorithm, request)
        outlines[request] = outline = _outline(schedule)
        what = request.collective, request.bytes, outline
        if schedule is not None and what not in checked:
            _check(schedule, request, scales)
            checked.add(what)
    accepted = {(request.collective, request.ranks): schedule for request, schedule in schedules.items() if schedule is not None}
    if not accepted:
        raise PluginError(f"it serves no collective on {' or '.join(map(str, ranks))} ranks")
    for request, schedule in schedules.items():
        changed = f"its schedule for {_words(request)} has changed since it gave it; expected new steps for each schedule"
        require(_outline(schedule) == outlines[request], changed)
    random.Random(1).shuffle(requests)
    for request in requests:
        again = _outline(_asked(algorithm, request)) == outlines[request]
        require(again, f"for {_words(request)} it gave another schedule when it was asked again, in another order; expected the same")
    return accepted


def _requests(ranks: tuple[int, ...]) -> Iterator[Request]:
    """Every collective, both ways round, in a dimension and in a group, of bytes that ranks divide and others."""
    for collective, n, instance, direction in itertools.product(Collective, ranks, range(2), (1, -1)):
        for size in (_PIECE * n + _REST, _PIECE * n, 1, _LARGE + _REST):
            yield Request(collective, n, size, direction, instance)
        yield Request(collective, n, _PIECE * n, direction, instance, in_group=True)


def _words(request: Request) -> str:
    return f"{request.collective} of {request.bytes} bytes on {request.ranks} ranks"


def _asked(algorithm: Callable[[Request], object], request: Request) -> Schedule | None:
    """The schedule for a request, None if it is refused."""
    try:
        schedule = call(f"{request.collective} on {request.ranks} ranks", algorithm, request)
    except ScheduleError:
        return None
    if not isinstance(schedule, Schedule):
        raise PluginError(f"for {request} it returned {schedule!r}, which is not a Schedule")
    return schedule


def _check(schedule: Schedule, request: Request, scales: bool) -> None:
    """Raise PluginError if the schedule for a request is wrong.

    On many ranks pieces are moved for one size alone; the bytes of the others are compared.
    """
    try:
        schedule.check(request.ranks)
        if request.ranks <= _MOST_MOVED or request.bytes == _PIECE * request.ranks + _REST:
            check_schedule(schedule, performed(schedule, request), scales)
        else:
            lower(schedule)
            check_bytes(schedule, request, scales)
    except (AssertionError, ScheduleError) as error:
        raise PluginError(f"{request.collective} on {request.ranks} ranks: {error}") from None


def _outline(schedule: Schedule | None) -> Hashable:
    """The properties that two schedules for the same request must share; None if it is refused."""
    if schedule is None:
        return None
    programs: dict[int, Hashable] = {}
    for program in schedule.programs:
        if id(program) not in programs:
            steps = tuple(_step(step) for step in program.steps)
            programs[id(program)] = steps, program.starts, program.cycle, program.last_bytes
    return schedule.ranks, schedule.output_bytes, schedule.collective, tuple(programs[id(program)] for program in schedule.programs)


def _step(step: object) -> Hashable:
    if not isinstance(step, Step):
        return repr(step)
    pieces: Any = step.pieces
    if callable(pieces):
        pieces = tuple(tuple(pieces(number)) for number in range(min(step.times, _REPETITIONS) if type(step.times) is int else 0))
    elif iter(pieces) is pieces:
        pieces = None  # those of an iterator can be read once
    return *attrs.astuple(step, recurse=False, filter=lambda field, _: field.name != "pieces"), pieces if pieces is None else tuple(pieces)
