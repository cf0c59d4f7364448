"""When every simulated NPU did its operations, where tables of all NPUs are asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from astra_sim.engine import Engine
from astra_sim.graph import NpuProgram, Operation
from astra_sim.run.symmetry import Choice, Scope


@attrs.frozen(eq=False, repr=False)
class NpuTimes:
    """When an NPU did its operations (picoseconds): ready, ended, and of those that send (by number) when the message was on its way.

    It stands for `members`, itself the first.
    """

    members: Sequence[int]
    operations: Sequence[Operation]
    ready_ps: Sequence[int]
    ended_ps: Sequence[int]
    sends: Sequence[int]
    sent_ps: Sequence[int]

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
    engine: Engine, choice: Choice, programs: Sequence[NpuProgram], npus: int, later: Callable[[Sequence[int]], Sequence[int]]
) -> list[NpuTimes]:
    """The moments of all NPUs that an engine has simulated of `npus`, by number; `later` adds when the workload starts."""
    if choice.scope is Scope.CLASSES:
        members: dict[int, Sequence[int]] = {one.representative: one.members for one in choice.classes}
    elif choice.scope is Scope.ALL_NPUS:
        members = {npu: (npu,) for program in programs for npu in program.npus}
    else:
        members = {0: range(npus)}
    found = []
    for program in programs:
        for npu in program.npus:
            ready, ended = engine.times(npu)
            sends, sent = engine.sends(npu)
            found.append(NpuTimes(members[npu], program.operations, later(ready), later(ended), sends, later(sent)))
    return sorted(found, key=lambda each: each.npu)
