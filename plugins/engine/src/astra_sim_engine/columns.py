"""Sums over the columns of a run, in C++: as `astra_sim.engine.columns` does in Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from astra_sim.engines import PhaseStepRecords, Spans, Use
from astra_sim.rows import Column, Rows, packed, view

from astra_sim_engine import _compiled


def computing(rows: Rows[Any], durations: Sequence[int], ended: Sequence[int]) -> tuple[int, int]:
    """The total time of tasks, and the time they cover. Tasks of a kind whose duration is negative are left out."""
    times = b"" if rows.times is None else rows.times.tobytes()
    return _compiled.computing(rows.kind_of.tobytes(), list(durations), times, packed(ended, "q"))


def uses_of(records: PhaseStepRecords, groups_of: Sequence[Sequence[int]], groups: int) -> tuple[list[int], list[Use]]:
    """For each phase step how often there is a record of it, and for each group of steps its use."""
    columns = [packed(each, "q") for each in (records.step, records.queued_at, records.started_at, records.ended_at)]
    counts, uses = _compiled.uses_of(columns, list(groups_of), groups)
    return counts, [Use(spent, Spans(view(begins, "q"), view(ends, "q"))) for spent, begins, ends in uses]


def repeated(parts: Sequence[bytes], numbers: Column, offsets: Column) -> bytes:
    """Columns of 64 bits one after another, in the order of `numbers`, each with an offset added to its members."""
    return _compiled.repeated(parts, numbers.tobytes(), offsets.tobytes())
