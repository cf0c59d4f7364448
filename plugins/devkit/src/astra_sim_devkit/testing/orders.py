"""Calls orders of queues and orders of dimensions, and checks the results."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from astra_sim.engines import Job, Order
from astra_sim.platform import LogicalDimension, Platform
from astra_sim.providers import call
from astra_sim.schedule import Collective
from astra_sim.system import DimensionOrder

from astra_sim_devkit.testing.requirement import require

_QUEUES = 500
_LONGEST = 6
_CHUNKS = 8


def check_queue_order(order: Order) -> None:
    """Raise AssertionError unless a queue's order gives places behind the jobs that have started, which depend on nothing else.

    Priorities are compared only: others that are ordered alike give the same place.
    """
    draw = random.Random(1)
    asked = []
    for _ in range(_QUEUES):
        jobs = [_job(draw) for _ in range(draw.randint(0, _LONGEST))]
        started, job = draw.randint(0, len(jobs)), _job(draw)
        place = _place(order, jobs, started, job)
        queue = f"in a queue of {len(jobs)} jobs, {started} of which have started,"
        require(type(place) is int and started <= place <= len(jobs), f"{queue} it gave place {place!r}; expected {started} to {len(jobs)}")
        again = _place(order, jobs, started, job)
        require(place == again, f"{queue} it gave place {place}, and when asked again {again!r}")
        *others, other = [each._replace(priority=3 * each.priority + 7) for each in (*jobs, job)]
        moved = _place(order, others, started, other)
        require(place == moved, f"{queue} it gave place {place}, and {moved!r} with other priorities that are ordered alike")
        asked.append((queue, jobs, started, job, place))
    for queue, jobs, started, job, place in reversed(asked):
        again = _place(order, jobs, started, job)
        require(place == again, f"{queue} it gave place {place}, and when asked again, after others, {again!r}")


def _job(draw: random.Random) -> Job:
    return Job(draw.randint(-3, 3), draw.choice(list(Collective)).value, draw.choice((0, 1, 1000, 10**9)), draw.randint(0, 3))


def _place(order: Order, jobs: Sequence[Job], started: int, job: Job) -> object:
    copied = list(jobs)
    place = call("the order of a queue", order, copied, started, job)
    require(copied == list(jobs), "it changed the list of jobs that it was given")
    return place


def check_dimension_order(make: Callable[[Platform], object], platform: Platform) -> None:
    """Raise AssertionError unless an order of dimensions cuts collectives into chunks that pass through each dimension once."""
    dimensions = platform.logical_dimensions()
    for collective in Collective:
        for usable in ([True] * len(dimensions), [index > 0 for index in range(len(dimensions))]):
            first = _chunks(_order_of(make, platform), collective, dimensions, usable)
            again = _chunks(_order_of(make, platform), collective, dimensions, usable)
            require(first == again, f"{collective}: it gave {first}, and made anew {again}")
    order = _order_of(make, platform)
    if order.has_memory:
        return
    for collective in Collective:
        usable = [True] * len(dimensions)
        first = _chunks(order, collective, dimensions, usable)
        again = _chunks(order, collective, dimensions, usable)
        require(first == again, f"{collective}: it gave {first}, and when asked again {again}; expected has_memory = True then")


def _order_of(make: Callable[[Platform], object], platform: Platform) -> DimensionOrder:
    order = make(platform)
    require(isinstance(order, DimensionOrder), f"it made {order!r}, which is not a DimensionOrder")
    assert isinstance(order, DimensionOrder)
    return order


def _chunks(
    order: DimensionOrder, collective: Collective, dimensions: Sequence[LogicalDimension], usable: Sequence[bool]
) -> list[tuple[int, list[int]]]:
    """The chunks into which an order cuts a collective, each with its order of dimensions, all of them checked."""
    size = 1 << 20
    rest = _CHUNKS * size - 1  # the last chunk is a smaller one
    total, chunks = rest, []
    order.begin(collective, 0)
    while rest > 0:
        copied = list(dimensions), list(usable)
        taken, way = order.chunk(collective, rest, size, *copied)
        require(copied == (list(dimensions), list(usable)), f"{collective}: it changed the lists that it was given")
        asked = f"{collective}: of {rest} bytes left, with {size} asked for,"
        require(type(taken) is int and 0 < taken <= rest, f"{asked} it gave a chunk of {taken!r} bytes; expected 1 to {rest}")
        every = list(range(len(dimensions)))
        require(sorted(way) == every, f"{asked} it gave the order {list(way)}; expected each of the dimensions {every} once")
        chunks.append((taken, list(way)))
        rest -= taken
        require(
            len(chunks) <= 100 * _CHUNKS, f"{collective}: it cut {total} bytes into more than {100 * _CHUNKS} chunks of {size} asked for"
        )
    return chunks
