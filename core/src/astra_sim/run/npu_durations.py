"""Compute times of each NPU, if they differ: requested when an operation begins, and kept for the record."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import repeat
from typing import Any

import attrs

from astra_sim.compute import NpuPs, Started
from astra_sim.errors import InputError
from astra_sim.graph import Compute, NpuProgram, Operation, Unit
from astra_sim.rows import Rows, column
from astra_sim.run.inputs import RunInputs


def on_accelerator(operation: Operation) -> bool:
    """Whether an operation computes on the accelerator, and takes any time: it may take another time on another NPU, or wait there."""
    return isinstance(operation, Compute) and not operation.idle and operation.unit is Unit.ACCELERATOR and operation.duration_ps > 0


class NpuDurations:
    """The times of operations on each NPU of a run, which starts at `start_ps`. Raises InputError if operations are simulated as one."""

    def __init__(self, inputs: RunInputs, npu_ps: NpuPs, programs: Sequence[NpuProgram], start_ps: int) -> None:
        if inputs.composites.any:
            raise InputError(
                "operations that are simulated as one take the same time on all NPUs, and computing does not in this run;"
                " expected single ones (workload llm: detail=layer)"
            )
        self._npu_ps = npu_ps
        self._start_ps = start_ps
        self._durations: dict[int, tuple[Rows[Operation], array[int]]] = {}
        for program in programs:
            rows = inputs.rows(program.operations)
            for npu in program.npus:
                self._durations[npu] = rows, array("q", [-1]) * len(rows)

    def ps(self, npu: int, number: int, begin: int) -> int:
        """The time of an operation that an NPU begins then."""
        rows, result = self._durations[npu]
        time = rows.times[number] if rows.times is not None else -1
        kind: Any = rows.kinds[rows.kind_of[number]]  # a Compute
        duration_ps = time if time >= 0 else kind.duration_ps
        taken = result[number] = self._npu_ps(Started(npu, number, kind.iteration, self._start_ps + begin, duration_ps))
        return taken

    def taken_ps(self, npu: int, number: int) -> int:
        """The time of an operation on an NPU; -1 if it is the same on all."""
        return self._durations[npu][1][number]

    def all_rows(self) -> list[Rows[Operation]]:
        """The programs of all NPUs that were simulated, each with its own times."""
        return list(map(self.rows, self._durations))

    def rows(self, npu: int) -> Rows[Operation]:
        """The program of an NPU with the times that its operations have taken there."""
        rows, result = self._durations[npu]
        stated = repeat(-1, len(rows)) if rows.times is None else rows.times
        times = column((asked if asked >= 0 else time for asked, time in zip(result, stated, strict=True)), "q")

        def make(kind: Operation, row: int, after: tuple[int, ...]) -> Operation:
            operation = rows.make(kind, row, after)
            return attrs.evolve(operation, duration_ps=result[row]) if result[row] >= 0 and isinstance(operation, Compute) else operation

        return attrs.evolve(rows, make=make, times=times)
