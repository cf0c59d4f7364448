"""Checks that need no experiment: that a component loads, documents its options, and keeps what its kind promises."""

from __future__ import annotations

import click

from astra_sim.errors import PluginError, ScheduleError
from astra_sim.options import describe_options
from astra_sim.providers import FileFormat, Provider, load
from astra_sim.schedule import Collective, Request, Schedule, lower
from astra_sim.testing.pieces import check_schedule

RANKS = (2, 3, 4, 5, 8, 12, 16)


def check_component(kind: str, component: Provider | FileFormat) -> None:
    """Check one component. Raises an exception that says what is wrong."""
    if isinstance(component, FileFormat):
        load(component.read, component.name)
        if component.is_of(""):
            raise PluginError("it recognises an empty text as its own")
        return
    if not component.summary:
        raise PluginError("it has no summary")
    options = component.load_options()
    for option in describe_options(options):
        if not option.help:
            raise PluginError(f"option {option.name} has no help text (make it with astra_sim.option)")
    factory = component.load_factory()
    if kind == "command" and not isinstance(factory, click.Command):
        raise PluginError(f"it is {factory!r}, which is not a click command")
    if kind == "collective" and not any(option.default == "required" for option in describe_options(options)):
        check_collective(factory if options is None else lambda request: factory(request, options()))


def check_collective(algorithm: object, ranks: tuple[int, ...] = RANKS) -> dict[tuple[Collective, int], Schedule]:
    """Check every schedule that an algorithm (request -> Schedule) gives, by moving pieces along it.

    Sizes that it refuses with ScheduleError are passed over, but it must accept one. Returns the schedules by collective and
    number of ranks.
    """
    accepted = {}
    for collective in Collective:
        for n in ranks:
            for instance in range(2):
                for direction in (1, -1):
                    request = Request(collective, n, 1000 * n, direction, instance)
                    try:
                        schedule = algorithm(request)  # type: ignore[operator]
                    except ScheduleError:
                        continue
                    if not isinstance(schedule, Schedule):
                        raise PluginError(f"for {request} it returned {schedule!r}, which is not a Schedule")
                    lower(schedule)
                    performed = request if schedule.collective is None else Request(schedule.collective, n, request.bytes)
                    try:
                        check_schedule(schedule, performed)
                    except AssertionError as error:
                        raise PluginError(f"{collective} on {n} ranks: {error}") from None
                    accepted[collective, n] = schedule
    if not accepted:
        raise PluginError(f"it serves no collective on any of {ranks} ranks")
    return accepted
