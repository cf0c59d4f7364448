"""Sums over the columns of a run, in Python: the functions of `EngineType` that need no run. Other engines may be faster."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import repeat
from typing import Any, NamedTuple

import attrs

from astra_sim.engine.interface import PhaseStepRecords
from astra_sim.rows import Column, Rows, view
from astra_sim.value_objects import ValueObject


@attrs.frozen(eq=False, repr=False)
class Spans(ValueObject):
    """Disjoint spans of time, in order: when each begins and ends."""

    begins: Sequence[int] = attrs.field(eq=tuple)
    ends: Sequence[int] = attrs.field(eq=tuple)

    def __reduce__(self) -> tuple[Any, ...]:
        return Spans, (array("q", self.begins), array("q", self.ends))

    @property
    def covered(self) -> int:
        """The time that they take."""
        return sum(self.ends) - sum(self.begins)


class Use(NamedTuple):
    """The time that phase steps take from start to end, added up, and the spans in which at least one is queued or running."""

    spent: int
    spans: Spans


def computing(rows: Rows[Any], durations: Sequence[int], ended: Sequence[int]) -> tuple[int, int]:
    """The total time of tasks, and the time they cover. Tasks of a kind whose duration is negative are left out.

    `ended` is the time at which each task ended, `durations` the time of each kind, but for rows with a time of their own.
    """
    kind_of, times = rows.kind_of, rows.times
    stated = repeat(-1) if times is None else times
    spent = [(durations[kind] if time < 0 or durations[kind] < 0 else time) for kind, time in zip(kind_of, stated, strict=False)]
    spans = [(end - time, end) for time, end in zip(spent, ended, strict=True) if time >= 0]
    return sum(end - begin for begin, end in spans), union(spans).covered


def uses_of(records: PhaseStepRecords, groups_of: Sequence[Sequence[int]], groups: int) -> tuple[list[int], list[Use]]:
    """For each phase step how often there is a record of it, and for each group of steps its use; `groups_of` gives the groups of each."""
    counts = [0] * len(groups_of)
    spent = [0] * groups
    spans: list[list[tuple[int, int]]] = [[] for _ in range(groups)]
    for record in records:
        counts[record.step] += 1
        for group in groups_of[record.step]:
            spent[group] += record.ended_at - record.started_at
            spans[group].append((record.queued_at, record.ended_at))
    return counts, [Use(time, union(each)) for time, each in zip(spent, spans, strict=True)]


def repeated(parts: Sequence[bytes], numbers: Column, offsets: Column) -> bytes:
    """Columns of 64 bits one after another, in the order of `numbers`, each with an offset added to its members."""
    columns = [view(part, "q") for part in parts]
    merged = array("q")
    for number, offset in zip(numbers, offsets, strict=True):
        merged.extend(map(offset.__add__, columns[number]))
    return merged.tobytes()


def union(spans: Sequence[tuple[int, int]]) -> Spans:
    """Disjoint spans that cover the same time."""
    merged: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((begin, end))
    return Spans([begin for begin, _ in merged], [end for _, end in merged])
