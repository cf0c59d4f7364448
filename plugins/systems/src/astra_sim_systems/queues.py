"""The queues of an NPU: how many each dimension has, the direction of each, and whose turn it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from astra_sim.platform import Group, LogicalDimension, Platform
from astra_sim.schedule import Collective


class QueueSlot(NamedTuple):
    """A queue of a dimension (counted there from 0) and the direction of its traffic: 1, or -1 for the opposite one."""

    place: int
    direction: int


SlotRule = Callable[[Collective, Collective, Sequence[int]], Sequence[QueueSlot]]
"""The queues that a phase may use, in turn, given the collective, the collective of the phase itself, and the directions of the queues."""


def all_slots(collective: Collective, kind: Collective, directions: Sequence[int]) -> Sequence[QueueSlot]:
    """Every queue, each in its own direction."""
    return [QueueSlot(place, direction) for place, direction in enumerate(directions)]


class _RoundRobin:
    """The number of phases that each NPU has put into some queues, which take turns."""

    def __init__(self) -> None:
        self._of_all = 0
        self._of_groups: Counter[int] = Counter()

    def take(self, logical: LogicalDimension | Group) -> int:
        """Count a phase of all NPUs or of a group; returns how many its first NPU has put there before."""
        if not isinstance(logical, Group):
            self._of_all += 1
            return self._of_all - 1 + self._of_groups[0]
        # Members of a group may have put different numbers of phases there; the first decides, so that all take the same queue.
        before = self._of_all + self._of_groups[logical.members[0]]
        self._of_groups.update(logical.members)
        return before


class SystemQueues:
    """The queues of each dimension of a program. Those that a phase may use (`rule`) take turns."""

    def __init__(self, dimensions: Sequence[LogicalDimension], platform: Platform, per_dimension: int, rule: SlotRule) -> None:
        self.directions = [_directions(logical, platform, per_dimension) for logical in dimensions]
        self._first = [sum(map(len, self.directions[:index])) for index in range(len(dimensions))]
        self._rule = rule
        self._slots: dict[tuple[Collective, Collective, int], tuple[QueueSlot, ...]] = {}
        self._round_robins: dict[tuple[int, tuple[QueueSlot, ...]], _RoundRobin] = {}

    def take(self, collective: Collective, kind: Collective, dimension: int, logical: LogicalDimension | Group) -> tuple[int, int]:
        """The number of the queue whose turn it is for a phase that does `kind` of a collective, and the phase's direction."""
        key = collective, kind, dimension
        if key not in self._slots:
            self._slots[key] = tuple(self._rule(collective, kind, self.directions[dimension]))
        slots = self._slots[key]
        round_robin = self._round_robins.setdefault((dimension, slots), _RoundRobin())
        slot = slots[round_robin.take(logical) % len(slots)]
        return self._first[dimension] + slot.place, slot.direction

    def take_turns(self, dimension: int) -> bool:
        """Whether a dimension has several queues."""
        return len(self.directions[dimension]) > 1


def _directions(logical: LogicalDimension, platform: Platform, per_dimension: int) -> Sequence[int]:
    """The direction of each queue of a dimension: from its topology, or 1 for the first half and -1 for the others."""
    if logical.physical is not None:
        directions = platform.dimensions[logical.physical].topology.queue_directions
        if directions:
            return directions
    # Of an odd number of queues, the one in the middle runs in the opposite direction (ASTRA-sim 1.0).
    return [1 if per_dimension == 1 or place < per_dimension // 2 else -1 for place in range(per_dimension)]
