"""Orders of a queue: where a chunk that enters goes. Chunks that have started stay in front.

A chunk in an all-reduce or all-to-all phase is always ordered by priority (ASTRA-sim 1.0).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from astra_sim.engine import Job, Order
from astra_sim.schedule import Collective

_PAIR = {Collective.REDUCE_SCATTER, Collective.ALL_GATHER}


def fifo() -> Order:
    """By priority, equal ones first come first served."""
    return _by_priority


def smallest_first() -> Order:
    """By bytes of the phase, smallest first."""
    return _unless_fixed(lambda waiting, job: waiting.bytes < job.bytes)


def less_remaining_phase_first() -> Order:
    """By the number of phases still to come, fewest first."""
    return _unless_fixed(lambda waiting, job: waiting.remaining < job.remaining)


def rg() -> Order:
    """Reduce-scatters and all-gathers in turn, as far as priorities allow."""
    return _alternating


def _by_priority(jobs: Sequence[Job], started: int, job: Job) -> int:
    place = started
    while place < len(jobs) and jobs[place].priority >= job.priority:
        place += 1
    return place


def _unless_fixed(goes_before: Callable[[Job, Job], bool]) -> Order:
    """Behind those that go before, except where only priority counts."""

    def order(jobs: Sequence[Job], started: int, job: Job) -> int:
        if job.kind not in _PAIR:
            return _by_priority(jobs, started, job)
        place = started
        while place < len(jobs) and goes_before(jobs[place], job):
            place += 1
        return place

    return order


def _alternating(jobs: Sequence[Job], started: int, job: Job) -> int:
    if job.kind not in _PAIR:
        return _by_priority(jobs, started, job)
    # The one behind those that have started keeps its place, too.
    place = started + 1 if started else 0
    while place < len(jobs):
        before = jobs[place - 1].kind if place else None
        turn = {before, jobs[place].kind} == _PAIR
        if jobs[place].priority <= job.priority and not turn:
            break
        place += 1
    return min(place, len(jobs))
