"""When every simulated NPU did its operations, if tables of all NPUs are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from astra_sim.engine.interface import Engine
from astra_sim.graph import NpuProgram, Operation
from astra_sim.run.finished import FinishedRun
from astra_sim.run.lowering import unit_of
from astra_sim.run.symmetry import Scope


class NpuTimes(NamedTuple):
    """When an NPU did its operations (picoseconds): ready, ended, and of those that send (by number) when the message was on its way.

    It represents `members`, itself the first. `units` holds the unit that each kind of operations needs (-1: none), of which an NPU
    does one operation at a time.
    """

    members: Sequence[int]
    operations: Sequence[Operation]
    ready_ps: Sequence[int]
    ended_ps: Sequence[int]
    sends: Sequence[int]
    sent_ps: Sequence[int]
    units: Sequence[int] = ()

    @property
    def npu(self) -> int:
        """The NPU."""
        return self.members[0]


def observe_every_npu(engine: Engine, programs: Sequence[NpuProgram]) -> None:
    """Let an engine keep the moments of all NPUs that it simulates, before it has their programs."""
    for program in programs:
        for npu in program.npus:
            engine.record.observe(npu)


def times_of_npus(run: FinishedRun) -> list[NpuTimes]:
    """The moments of all NPUs that an engine has simulated, by number. The operations of composites are after those of the program."""
    inputs = run.inputs
    if run.choice.scope is Scope.CLASSES:
        members: dict[int, Sequence[int]] = {one.representative: one.members for one in run.choice.classes}
    elif run.choice.scope is Scope.ALL_NPUS:
        members = {npu: (npu,) for program in run.programs for npu in program.npus}
    else:
        members = {0: range(inputs.platform.npus)}
    result = []
    for program in run.programs:
        expanded = inputs.expanded(program.operations)
        whole = expanded.rows is inputs.rows(program.operations)
        units = [unit_of(kind, inputs.system) if whole else -1 for kind in expanded.rows.kinds]
        for npu in program.npus:
            ready, ended = expanded.times(*map(run.later, run.engine.record.times(npu)))
            sends, sent = run.engine.record.sends(npu)
            operations = run.recorded(npu, program.operations)
            result.append(NpuTimes(members[npu], operations, ready, ended, sends, run.later(sent), units))
    return sorted(result, key=lambda each: each.npu)
