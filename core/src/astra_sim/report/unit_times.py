"""How long each unit of each NPU is busy: its accelerator, its CPU, communication and memory.

A unit is busy from when an operation begins to its end, and what overlaps on a unit counts once. Other than in `npu_shares`, a receive
counts from when it is posted, and nothing is said of what hides what.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat

import attrs

from astra_sim.graph import Communicate, Compute, MemoryAccess, Operation, Receive, Send, Unit, operation_rows
from astra_sim.report.details import to_ns
from astra_sim.run.npu_times import NpuTimes


@attrs.frozen
class UnitTimes:
    """How long the units of NPUs are busy until they have finished (nanoseconds); None: the unit has had nothing to do.

    `npus` do the same at the same times.
    """

    npus: tuple[int, ...]
    finish_ns: float
    accelerator_ns: float | None = None
    cpu_ns: float | None = None
    communication_ns: float | None = None
    memory_ns: float | None = None


_FIELDS = {Unit.ACCELERATOR: "accelerator_ns", Unit.CPU: "cpu_ns", Unit.COMMUNICATION: "communication_ns", Unit.NONE: "communication_ns"}
_MEMORY = "memory_ns"


def unit_times(times: Sequence[NpuTimes]) -> list[UnitTimes]:
    """How long the units of all NPUs are busy, from the moments of those that were simulated."""
    return [_of_npu(own) for own in times]


def _of_npu(own: NpuTimes) -> UnitTimes:
    rows = operation_rows(own.operations)
    fields = [_field(kind) for kind in rows.kinds]
    durations = repeat(-1) if rows.times is None else rows.times
    sent = dict(zip(own.sends, own.sent_ps, strict=True))
    spans: dict[str, list[tuple[int, int]]] = {field: [] for field in fields if field is not None}
    for number, (kind, begin, end, time) in enumerate(zip(rows.kind_of, own.ready_ps, own.ended_ps, durations, strict=False)):
        field, operation = fields[kind], rows.kinds[kind]
        if field is None:
            continue
        if isinstance(operation, Compute):  # it may have been ready earlier, and have waited for its unit
            begin = end - (operation.duration_ps if time < 0 else time)
        spans[field].append((sent.get(number, begin), end))
    busy = {field: to_ns(_covered(each)) for field, each in spans.items() if each}
    return UnitTimes(tuple(own.members), to_ns(max(own.ended_ps, default=0)), **busy)


def _field(operation: Operation) -> str | None:
    """The field in which an operation counts; None: it keeps no unit busy."""
    match operation:
        case Compute():
            return None if operation.idle else _FIELDS[operation.unit]
        case Communicate() | Send() | Receive():
            return _FIELDS[Unit.COMMUNICATION]
        case MemoryAccess():
            return _MEMORY
    return None


def _covered(spans: Iterable[tuple[int, int]]) -> int:
    """The time in which at least one of some spans lasts."""
    covered = reached = 0
    for begin, end in sorted(spans):
        covered += max(0, end - max(begin, reached))
        reached = max(reached, end)
    return covered
