"""Plans of collectives that are kept from run to run: those that follow from what the session is and from the collective alone.

A plan is kept as a tuple. Who is given the same tuple again may rely on it that nothing in it has changed.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from astra_sim.options import can_be_kept
from astra_sim.schedule import Collective
from astra_sim.system import ChunkPlan, PhasePlan

PhasesKey = tuple[Collective, int, tuple[int, ...]]
"""A collective, the bytes of a chunk, and the dimensions that it passes through in order."""

PlanKey = tuple[Collective, int, tuple[int, ...], bool]
"""A collective, its bytes, its dimensions, and whether it is urgent."""


class KeptPlan(NamedTuple):
    """The chunks of a collective, and the phases that were asked for when it was planned, in that order."""

    chunks: tuple[ChunkPlan, ...]
    phases: tuple[tuple[PhasesKey, tuple[PhasePlan, ...]], ...]


class KeptPlans:
    """The plans of sessions that are alike, until they are large: then it begins anew."""

    _MOST = 20_000
    """How many chunks and steps of schedules they may have together."""

    def __init__(self) -> None:
        self._plans: dict[PlanKey, KeptPlan] = {}
        self._size = 0

    def get(self, key: PlanKey) -> KeptPlan | None:
        """The plan that is kept under a key, if any."""
        return self._plans.get(key)

    def add(self, key: PlanKey, plan: KeptPlan) -> None:
        """Keep a plan, unless it takes more than a quarter of the room."""
        steps = sum(len(program.steps) for _, phases in plan.phases for phase in phases for program in phase.schedule.programs)
        size = 1 + len(plan.chunks) + steps
        if size > self._MOST // 4:
            return
        if self._size + size > self._MOST:
            self._plans.clear()
            self._size = 0
        self._plans[key] = plan
        self._size += size


_MOST_SESSIONS = 16
_of_sessions: dict[Hashable, KeptPlans] = {}


def kept_plans(session: Hashable) -> KeptPlans | None:
    """The plans of all sessions with what `session` says; None where that cannot be kept. The latest sessions count."""
    if not can_be_kept(session):
        return None
    plans = _of_sessions.pop(session, None) or KeptPlans()
    _of_sessions[session] = plans  # the last one
    if len(_of_sessions) > _MOST_SESSIONS:
        del _of_sessions[next(iter(_of_sessions))]
    return plans
