"""When every simulated NPU did its operations, if tables of all NPUs are asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from astra_sim.engine.interface import Engine
from astra_sim.graph import NpuProgram, Operation
from astra_sim.run.inputs import RunInputs
from astra_sim.run.lowering import unit_of
from astra_sim.run.npu_durations import NpuDurations
from astra_sim.run.symmetry import Scope, ScopeSelection


@attrs.frozen(eq=False, repr=False)
class NpuTimes:
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
            engine.observe(npu)


def times_of_npus(
    inputs: RunInputs,
    engine: Engine,
    choice: ScopeSelection,
    programs: Sequence[NpuProgram],
    later: Callable[[Sequence[int]], Sequence[int]],
    durations: NpuDurations | None = None,
) -> list[NpuTimes]:
    """The moments of all NPUs that an engine has simulated, by number; `later` adds when the workload starts.

    The operations of composites are after those of the program.
    """
    npus = inputs.platform.npus
    if choice.scope is Scope.CLASSES:
        members: dict[int, Sequence[int]] = {one.representative: one.members for one in choice.classes}
    elif choice.scope is Scope.ALL_NPUS:
        members = {npu: (npu,) for program in programs for npu in program.npus}
    else:
        members = {0: range(npus)}
    result = []
    for program in programs:
        expanded = inputs.expanded(program.operations)
        for npu in program.npus:
            ready, ended = expanded.times(*map(later, engine.times(npu)))
            sends, sent = engine.sends(npu)
            whole = expanded.rows is inputs.rows(program.operations)
            operations = program.operations if whole else expanded.rows
            operations = operations if durations is None else durations.rows(npu)
            units = [unit_of(kind, inputs.system) if whole else -1 for kind in expanded.rows.kinds]
            result.append(
                NpuTimes(
                    members=members[npu],
                    operations=operations,
                    ready_ps=ready,
                    ended_ps=ended,
                    sends=sends,
                    sent_ps=later(sent),
                    units=units,
                )
            )
    return sorted(result, key=lambda each: each.npu)
