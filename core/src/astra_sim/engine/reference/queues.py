"""A queue of an NPU: entries that run, as many as it has slots, and others that wait in its order."""

from __future__ import annotations

import abc
from typing import Generic, TypeVar

from astra_sim.engine.orders import Job, Order, RuleOrder, Standing, place_of
from astra_sim.engine.reference.agreement import Key
from astra_sim.engine.reference.waiting import Waiting, WaitingNode

Entry = TypeVar("Entry")


class Queue(abc.ABC, Generic[Entry]):
    """A queue of `slots`, of which `running` are taken. Raises ValueError for a queue without slots."""

    def __init__(self, slots: int) -> None:
        if slots < 1:
            raise ValueError(f"a queue has {slots} slots; expected at least 1")
        self.slots = slots
        self.running = 0

    @abc.abstractmethod
    def enter(self, entry: Entry, key: Key, job: Job) -> None:
        """Let something wait at the place that the order gives it. Raises PluginError."""

    def start(self, wanted: Key | None = None) -> Entry | None:
        """Give the next one a slot, or the one with the key that is wanted; None if no slot is free, or it does not wait here."""
        if self.running == self.slots:
            return None
        entry = self._next() if wanted is None else self._take(wanted)
        if entry is not None:
            self.running += 1
        return entry

    def leave(self, entry: Entry) -> None:
        """Let something that runs go."""
        self.running -= 1

    @abc.abstractmethod
    def _next(self) -> Entry | None:
        """The next one, which is about to run."""

    @abc.abstractmethod
    def _take(self, key: Key) -> Entry | None:
        """The one with a key, which is about to run; None if it does not wait here."""


class AskedQueue(Queue[Entry]):
    """A queue whose order is a function. It is shown all jobs, those that run in front."""

    def __init__(self, slots: int, order: Order) -> None:
        super().__init__(slots)
        self._order = order
        self._jobs: list[Job] = []
        self._entries: list[Entry] = []
        self._keys: list[Key] = []

    def enter(self, entry: Entry, key: Key, job: Job) -> None:
        """Ask for the place."""
        place = place_of(self._order, self._jobs, self.running, job)
        self._jobs.insert(place, job)
        self._entries.insert(place, entry)
        self._keys.insert(place, key)

    def leave(self, entry: Entry) -> None:
        """Let something that runs go."""
        super().leave(entry)
        place = self._entries.index(entry)
        del self._entries[place]
        del self._jobs[place]
        del self._keys[place]

    def _next(self) -> Entry | None:
        return self._entries[self.running] if self.running < len(self._entries) else None

    def _take(self, key: Key) -> Entry | None:
        if key not in self._keys[self.running :]:
            return None
        # A running job stays in front: the place of the job that starts now is behind those that run.
        place = self._keys.index(key, self.running)
        self._entries.insert(self.running, self._entries.pop(place))
        self._jobs.insert(self.running, self._jobs.pop(place))
        self._keys.insert(self.running, self._keys.pop(place))
        return self._entries[self.running]


class RuledQueue(Queue[Entry]):
    """A queue whose order is rules. Only waiting jobs have a place."""

    def __init__(self, slots: int, order: RuleOrder) -> None:
        super().__init__(slots)
        self._order = order
        self._rules = order.rules
        self._waiting: Waiting[tuple[Entry, Key]] = Waiting()
        self._nodes: dict[Key, WaitingNode[tuple[Entry, Key]]] = {}
        self._standings: dict[tuple[str, int, int], Standing] = {}

    def enter(self, entry: Entry, key: Key, job: Job) -> None:
        """Find the place by the rule for this kind of job."""
        # Of a job only the priority differs from others of its kind, bytes and remaining phases; the order is asked once about those.
        standing = self._standings.get(job[1:])
        if standing is None:
            standing = self._standings[job[1:]] = self._order.standing(job)
        rule = self._rules[standing.rule]
        seen = zip(self._rules, standing.keys, standing.sides, strict=True)
        marks = [(-job.priority if by.key is None else mark, side) for by, mark, side in seen]
        # Keys are whole numbers: those at least as high as one are those above the number before it.
        limit = marks[standing.rule][0] - rule.before_equal
        first_stays = rule.in_turn is not None and self.running > 0
        self._nodes[key] = self._waiting.insert(self._waiting.place(standing.rule, limit, first_stays), (entry, key), marks)

    def _next(self) -> Entry | None:
        if not len(self._waiting):
            return None
        entry, key = self._waiting.pop()
        del self._nodes[key]
        return entry

    def _take(self, key: Key) -> Entry | None:
        node = self._nodes.pop(key, None)
        return None if node is None else self._waiting.take(node)[0]


def make_queue(slots: int, order: Order) -> Queue[Entry]:
    """A queue with an order."""
    return RuledQueue(slots, order) if isinstance(order, RuleOrder) else AskedQueue(slots, order)
