"""Orders of a queue: where a chunk that enters goes."""

from __future__ import annotations

from collections.abc import Sequence

from astra_sim.engine import Job, Order


def fifo() -> Order:
    """By priority, equal ones first come first served."""
    return _behind_priority


def _behind_priority(jobs: Sequence[Job], started: int, job: Job) -> int:
    place = started
    while place < len(jobs) and jobs[place].priority >= job.priority:
        place += 1
    return place
