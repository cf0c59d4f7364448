"""Slices of a program: stretches of it that nothing else overlaps, whatever takes how long.

An operation is a *gate* if all earlier operations have ended when it begins, and all later ones wait for it. Between two gates is a
slice: nothing is under way when it begins, so it takes as long in the run as by itself.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import attrs
from astra_sim.graph import Communicate, Operation, Pass, Wait, waits_of

_FOR_PEOPLE = {"layer": -1, "training_pass": Pass.FORWARD, "iteration": 0, "name": "", "parallelism": ""}
"""Fields that do not affect the time of an operation, with their values in a slice."""


@attrs.frozen(eq=False)
class PartSlice:
    """Operations `begin` to `end` of a program, which wait for each other alone (by their places in the slice)."""

    begin: int
    end: int
    operations: tuple[Operation, ...]

    @property
    def collectives(self) -> list[int]:
        """The places of its collectives in the slice."""
        return [place for place, operation in enumerate(self.operations) if isinstance(operation, Communicate)]

    def network_part(self) -> PartSlice:
        """Its collective alone if it has just one, for nothing else uses the network; else all of it."""
        places = self.collectives
        if len(places) != 1:
            return self
        begin = self.begin + places[0]
        return PartSlice(begin, begin + 1, (attrs.evolve(self.operations[places[0]], after=()),))

    def content(self) -> Hashable:
        """The key of its time: equal for slices that take the same time."""
        return tuple(map(content_of, self.operations))


def slices_of(operations: Sequence[Operation]) -> Iterator[PartSlice]:
    """The slices of a program, in order."""
    waits = [waits_of(operation) for operation in operations]
    begins = [0, *(gate for gate in _gates(waits) if gate)]
    for begin, end in zip(begins, [*begins[1:], len(operations)], strict=True):
        if begin < end:
            yield PartSlice(begin, end, tuple(_within(operation, begin) for operation in operations[begin:end]))


def _gates(waits: Sequence[tuple[int, ...]]) -> list[int]:
    """The gates of a program, from the dependencies of each operation."""
    last_wait = [max(each, default=-1) for each in waits]
    later_wait_for = len(waits)  # the first operation that all later ones wait for, if only through others
    waited_for = [False] * len(waits)
    for number in reversed(range(len(waits))):
        waited_for[number] = later_wait_for >= number
        later_wait_for = min(later_wait_for, last_wait[number])
    open_: set[int] = set()
    gates = []
    for number, each in enumerate(waits):
        open_.difference_update(each)
        if not open_ and waited_for[number]:
            gates.append(number)
        open_.add(number)
    return gates


def _within(operation: Operation, begin: int) -> Operation:
    """An operation of a slice, without fields that are for people alone."""
    changes: dict[str, Any] = {name: value for name, value in _FOR_PEOPLE.items() if hasattr(operation, name)}
    changes["after"] = tuple(number - begin for number in operation.after if number >= begin)
    if isinstance(operation, Wait):
        changes["pending"] = tuple(number - begin for number in operation.pending if number >= begin)
    return attrs.evolve(operation, **changes)


def content_of(operation: Operation) -> Hashable:
    """What the time of an operation depends on."""
    return type(operation), *(getattr(operation, field.name) for field in attrs.fields(type(operation)) if field.name not in _FOR_PEOPLE)
