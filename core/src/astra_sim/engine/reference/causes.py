"""Causes: which event has brought about which, if a run is to be explained.

Each event was scheduled when another one happened. So from the last event a chain of links leads back to the start: each is the time
from when an event was scheduled to when it happened, and all together are the time of the run. That is its critical path: if an event
had to wait for several others, the last of them has scheduled it.
"""

from __future__ import annotations

from typing import NamedTuple

from astra_sim.engine.interface import LinkKind, PathEdge


class Label(NamedTuple):
    """An event for the record of causes: its kind, task and number of phase step (-1: none, or not yet)."""

    kind: LinkKind
    task: int = -1
    step: int = -1


class EventKey(NamedTuple):
    """An event that was scheduled and has not happened: by whom, as which thing of its NPU, and whether as an end."""

    npu: int
    order: int
    is_end: bool


class Entry:
    """A link, and the one that leads to its begin: it begins when that ends, and at 0 if there is none."""

    __slots__ = ("bytes", "end", "label", "npu", "parent", "to")

    def __init__(self, parent: Entry | None) -> None:
        # Links refer back only, so a chain that leads to nothing that is to come is freed with its last link.
        self.parent = parent
        self.end = self.npu = 0
        self.to = -1
        self.bytes = 0
        self.label = Label(LinkKind.TASK)


class Causes:
    """The chains of links that lead to events."""

    def __init__(self, messages: bool = False) -> None:
        """With `messages` all that have arrived are kept, too."""
        self.messages: list[PathEdge] = []
        self._keeps_messages = messages
        self._scheduled: dict[EventKey, Entry] = {}
        self._under_way: dict[int, Entry] = {}
        self._now: Entry | None = None
        self._last: Entry | None = None
        self._delivered: Entry | None = None

    def schedule(self, key: EventKey, time: int) -> None:
        """The current event schedules another one."""
        entry, self._delivered = self._delivered or Entry(self._now), None
        entry.end = time
        entry.npu = key.npu
        self._scheduled[key] = self._last = entry

    def carry(self, to: int, size: int) -> None:
        """The event that was scheduled last is the arrival of a message."""
        assert self._last is not None
        self._last.to, self._last.bytes = to, size

    def send(self, message: int, to: int, size: int) -> None:
        """The current event hands a message to a network with events."""
        entry = self._under_way[message] = Entry(self._now)
        entry.to, entry.bytes = to, size

    def deliver(self, message: int) -> None:
        """The next event that is scheduled is the arrival of such a message."""
        self._delivered = self._under_way.pop(message)

    def happens(self, key: EventKey, label: Label) -> None:
        """An event happens now."""
        self._now = self._scheduled.pop(key)
        self._now.label = label
        if self._keeps_messages and label.kind in (LinkKind.MESSAGE, LinkKind.POINT_TO_POINT):
            self.messages.append(_link(self._now))

    def path(self) -> list[PathEdge]:
        """The links that lead to the last event, in order."""
        links, entry = [], self._now
        while entry is not None:
            links.append(_link(entry))
            entry = entry.parent
        return links[::-1]


def _link(entry: Entry) -> PathEdge:
    """An entry as a link."""
    label, begin = entry.label, entry.parent.end if entry.parent is not None else 0
    return PathEdge(label.kind, begin, entry.end, entry.npu, label.task, label.step, entry.to, entry.bytes)
