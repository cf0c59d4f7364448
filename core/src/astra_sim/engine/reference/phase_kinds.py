"""Kinds of phases: what is said of a phase before the run, however often it happens then.

A phase belongs to groups of NPUs of one size. Its schedule says what their ranks do, and its kind how it ends, how long an endpoint
needs for a token of it, and in which queue its messages are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from astra_sim.engine.interface import CausalKey, check_groups
from astra_sim.schedule import LoweredProgram


class Groups(NamedTuple):
    """Groups of NPUs that run phases together; with `loop_back` the first NPU of the first group represents all."""

    groups: Sequence[Sequence[int]]
    loop_back: bool


class GroupSchedule(NamedTuple):
    """A schedule for groups: one program for all ranks, or one for each."""

    programs: Sequence[LoweredProgram]
    groups: Groups


class PhaseKind:
    """A phase, as often as it happens. `causal_key` is the one with which it ended last."""

    __slots__ = ("barrier", "causal_key", "endpoint_ps", "queue", "schedule", "together")

    def __init__(self, schedule: GroupSchedule, queue: int, together: bool, endpoint_ps: int, barrier: bool) -> None:
        self.schedule = schedule
        self.queue = queue
        self.together = together
        self.endpoint_ps = endpoint_ps
        self.barrier = barrier
        self.causal_key: CausalKey = ()


class PhaseKinds:
    """The groups, schedules and kinds of phases, by number. An endpoint needs `endpoint_ps` for a token unless its kind says otherwise."""

    def __init__(self, npus: int, endpoint_ps: int) -> None:
        self._npus = npus
        self._endpoint_ps = endpoint_ps
        self._groups: list[Groups] = []
        self._schedules: list[GroupSchedule] = []
        self._kinds: list[PhaseKind] = []

    def __getitem__(self, number: int) -> PhaseKind:
        return self._kinds[number]

    def add_groups(self, groups: Sequence[Sequence[int]], loop_back: bool) -> int:
        """Groups of one size. Returns their number. Raises ValueError."""
        check_groups(groups, self._npus)
        self._groups.append(Groups(groups, loop_back))
        return len(self._groups) - 1

    def add_schedule(self, programs: Sequence[LoweredProgram], groups: int) -> int:
        """A schedule for groups. Returns its number. Raises ValueError."""
        ranks = len(self._groups[groups].groups[0])
        if len(programs) not in (1, ranks):
            raise ValueError(f"{len(programs)} programs for groups of {ranks}; expected 1 or {ranks}")
        self._schedules.append(GroupSchedule(programs, self._groups[groups]))
        return len(self._schedules) - 1

    def add_phase(self, schedule: int, queue: int, together: bool, endpoint_ps: int | None, barrier: bool) -> int:
        """A phase that runs a schedule. Returns its number."""
        endpoint_ps = self._endpoint_ps if endpoint_ps is None else endpoint_ps
        self._kinds.append(PhaseKind(self._schedules[schedule], queue, together, endpoint_ps, barrier))
        return len(self._kinds) - 1

    def causal_key(self, phase: int) -> CausalKey:
        """The latest causal key of the ranks with which a phase ended last; empty if they end each by itself."""
        return self._kinds[phase].causal_key
