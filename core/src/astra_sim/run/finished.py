"""A run whose engine has finished, before it is recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from astra_sim.engine.interface import Engine
from astra_sim.graph import NpuProgram, Operation
from astra_sim.rows import column
from astra_sim.run.collectives import CollectiveLowering
from astra_sim.run.inputs import RunInputs
from astra_sim.run.npu_durations import NpuDurations
from astra_sim.run.symmetry import ScopeSelection


class FinishedRun(NamedTuple):
    """An engine that has finished, and what it has run: programs, and the collectives that were planned for them.

    The engine counts from the start of the workload, which is at `start_ps` (picoseconds). `durations` are the times of computing, if they
    differ between NPUs.
    """

    inputs: RunInputs
    choice: ScopeSelection
    programs: Sequence[NpuProgram]
    collectives: CollectiveLowering
    engine: Engine
    start_ps: int
    durations: NpuDurations | None

    @property
    def operations(self) -> Sequence[Operation]:
        """The program of NPU 0."""
        return self.programs[0].operations

    def later(self, times: Sequence[int]) -> Sequence[int]:
        """Moments of the engine as those of the run (picoseconds)."""
        return column((time + self.start_ps for time in times), "q") if self.start_ps else times

    def recorded(self, npu: int, operations: Sequence[Operation]) -> Sequence[Operation]:
        """The program of an NPU with its times of computing, followed by the operations of its composites."""
        if self.durations is not None:
            return self.durations.rows(npu)
        rows = self.inputs.expanded(operations).rows
        return operations if rows is self.inputs.rows(operations) else rows
