"""The busy time of each unit of each NPU: its accelerator, its CPU, communication and memory.

A unit is busy from when an operation begins to its end, and overlaps on a unit count once. Unlike in `npu_shares`, a receive
counts from when it is posted, and hiding is not considered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, NamedTuple

from astra_sim.graph import Communicate, Compute, MemoryAccess, Operation, Receive, Send, Unit, operation_rows
from astra_sim.report.amounts import to_ns
from astra_sim.rows import Rows
from astra_sim.run.npu_times import NpuTimes


class UnitTimes(NamedTuple):
    """The busy time of the units of NPUs until they have finished (nanoseconds); None: the unit was not used.

    `npus` do the same at the same times.
    """

    npus: tuple[int, ...]
    finish_ns: float
    accelerator_ns: float | None = None
    cpu_ns: float | None = None
    communication_ns: float | None = None
    memory_ns: float | None = None


class OperationTimes(NamedTuple):
    """When NPUs that do the same at the same times do each operation of their program, in nanoseconds.

    `operations` holds the places of the operations in the program, without those that do nothing; `begin_ns` is when each was issued.
    `source` gives for one of `npus` the record of each place in the file of its program (`Rows.source`); None if there is no such file.
    """

    npus: tuple[int, ...]
    operations: Sequence[int]
    begin_ns: Sequence[float]
    end_ns: Sequence[float]
    source: Callable[[int], Iterable[Mapping[str, Any]]] | None = None


_FIELDS = {Unit.ACCELERATOR: "accelerator_ns", Unit.CPU: "cpu_ns", Unit.COMMUNICATION: "communication_ns", Unit.NONE: "communication_ns"}
_MEMORY = "memory_ns"


def unit_times(times: Sequence[NpuTimes]) -> list[UnitTimes]:
    """The busy time of the units of all NPUs, from the moments of those that were simulated."""
    return [_of_npu(of_npu) for of_npu in times]


def operation_times(times: Sequence[NpuTimes]) -> list[OperationTimes]:
    """When all NPUs do their operations, from the moments of those that were simulated."""
    result = []
    for of_npu in times:
        lasting = list(_lasting(of_npu))
        places, begins, ends = [each[0] for each in lasting], [to_ns(each[2]) for each in lasting], [to_ns(each[3]) for each in lasting]
        result.append(OperationTimes(tuple(of_npu.members), places, begins, ends, operation_rows(of_npu.operations).source))
    return result


def _of_npu(of_npu: NpuTimes) -> UnitTimes:
    spans: dict[str, list[tuple[int, int]]] = {}
    for _, field, begin, end in _lasting(of_npu):
        spans.setdefault(field, []).append((begin, end))
    busy = {field: to_ns(_covered(each)) for field, each in spans.items()}
    return UnitTimes(tuple(of_npu.members), to_ns(max(of_npu.ended_ps, default=0)), **busy)


def _lasting(of_npu: NpuTimes) -> Iterator[tuple[int, str, int, int]]:
    """Of each operation that keeps a unit busy: its place, the field of the unit, and when it began and ended (picoseconds)."""
    rows = operation_rows(of_npu.operations)
    fields = [_field(kind) for kind in rows.kinds]
    durations = repeat(-1) if rows.times is None else rows.times
    issued = _issued(of_npu, rows) | dict(zip(of_npu.sends, of_npu.sent_ps, strict=True))
    for number, (kind, begin, end, time) in enumerate(zip(rows.kind_of, of_npu.ready_ps, of_npu.ended_ps, durations, strict=False)):
        field, operation = fields[kind], rows.kinds[kind]
        if field is None:
            continue
        # It may have been ready earlier, and have waited for its unit.
        if isinstance(operation, Compute):
            yield number, field, end - (operation.duration_ps if time < 0 else time), end
        else:
            yield number, field, issued.get(number, begin), end


def _issued(of_npu: NpuTimes, rows: Rows[Operation]) -> dict[int, int]:
    """When operations that need a unit got it (picoseconds), by their places; they may have been ready earlier."""
    result: dict[int, int] = {}
    for unit in {unit for unit in of_npu.units if unit >= 0}:
        places = [number for number, kind in enumerate(rows.kind_of) if of_npu.units[kind] == unit]
        places.sort(key=lambda number: (of_npu.ended_ps[number], of_npu.ready_ps[number]))
        ended = 0
        for number in places:
            result[number] = max(of_npu.ready_ps[number], ended)
            ended = of_npu.ended_ps[number]
    return result


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
