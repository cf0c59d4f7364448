"""Plans of collectives for all runs: those that follow from the session's key and from the collective alone.

A plan is kept as a tuple: returning the same tuple again promises that nothing in it has changed.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from astra_sim.memo import Cache, ObjectCaches, is_hashable
from astra_sim.schedule import Collective
from astra_sim.system import ChunkPlan, PhasePlan

PhasesKey = tuple[Collective, int, tuple[int, ...]]
"""A collective, the bytes of a chunk, and the dimensions that it passes through in order."""

PlanKey = tuple[Collective, int, tuple[int, ...], bool]
"""A collective, its bytes, its dimensions, and whether it is urgent."""

MOST_SESSIONS = 16
MOST_PLANNED = 20_000
"""The number of chunks and schedule steps of the plans of equal sessions together."""


class CachedPlan(NamedTuple):
    """The chunks of a collective, and the phases that were asked for when it was planned, in that order."""

    chunks: tuple[ChunkPlan, ...]
    phases: tuple[tuple[PhasesKey, tuple[PhasePlan, ...]], ...]

    @property
    def size(self) -> int:
        """Its chunks and the steps of its schedules."""
        steps = sum(len(program.steps) for _, phases in self.phases for phase in phases for program in phase.schedule.programs)
        return 1 + len(self.chunks) + steps


class _Content:
    """Stands for the content of sessions that are alike: it is hashed once for a session, not again with each collective."""


PlanCache = Cache[PlanKey, CachedPlan]

_contents: Cache[Hashable, _Content] = Cache("systems: sessions", MOST_SESSIONS)
_plans: ObjectCaches[PlanKey, CachedPlan] = ObjectCaches("systems: plans", MOST_PLANNED, largest=MOST_PLANNED // 4)


def plan_cache(content: Hashable) -> PlanCache | None:
    """The plans of all sessions with this content; None if it cannot be hashed."""
    return _plans.of(_contents.value(content, _Content)) if is_hashable(content) else None
