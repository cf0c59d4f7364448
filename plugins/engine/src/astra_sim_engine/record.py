"""The record of a run of the compiled engine: columns and numbers of the machine as the values of `astra_sim.engines`."""

from __future__ import annotations

from collections.abc import Sequence

from astra_sim.engines import CausalKey, LinkKind, PathEdge, PhaseStepRecords, RankState
from astra_sim.rows import view

from astra_sim_engine import _compiled
from astra_sim_engine.schedules import Schedules


class CompiledRecord:
    """Reads what a machine has recorded; `schedules` are those that its ranks run."""

    def __init__(self, machine: _compiled.Machine, schedules: Schedules) -> None:
        self._machine = machine
        self._schedules = schedules

    def keep_causes(self, messages: bool = False) -> None:
        """Keep which event brings about which; with `messages` all of these, too."""
        self._machine.keep_causes(messages)

    def observe(self, npu: int) -> None:
        """Keep the moments of an NPU."""
        self._machine.observe(npu)

    def times(self, npu: int) -> tuple[Sequence[int], Sequence[int]]:
        """When the tasks of an observed NPU were ready and when they ended (-1: not yet)."""
        ready, ended = self._machine.times(npu)
        return view(ready, "q"), view(ended, "q")

    def sends(self, npu: int) -> tuple[Sequence[int], Sequence[int]]:
        """The sends of an observed NPU that have begun, by number of the task: the tasks, and when they began."""
        tasks, begun = self._machine.sends(npu)
        return view(tasks, "q"), view(begun, "q")

    def ended_at(self) -> list[int]:
        """When the last task of each NPU so far ended (-1: none has)."""
        return self._machine.ended_at()

    def phase_steps(self, npu: int) -> PhaseStepRecords:
        """The phase steps of chunks on an observed NPU, in the order in which they were issued."""
        return PhaseStepRecords(*(view(data, "q") for data in self._machine.phase_steps(npu)))

    def uses(self) -> list[int]:
        """The number of collectives that became each plan."""
        return self._machine.uses()

    def causal_key(self, phase: int) -> CausalKey:
        """The latest causal key of the ranks with which a phase ended last; empty if they end each by itself."""
        return tuple(time for time in self._machine.causal_key(phase) if time >= 0)

    def critical_path(self) -> list[PathEdge]:
        """The links that lead to the last event."""
        return _links(self._machine.critical_path())

    def carried(self) -> list[PathEdge]:
        """The messages that have arrived, if they are kept."""
        return _links(self._machine.carried())

    def unfinished(self) -> list[tuple[int, int, bool]]:
        """The tasks that have not ended: NPU, number, and whether it has begun; one that is ready may wait for its unit."""
        return self._machine.unfinished()

    def unreceived(self) -> list[tuple[int, int, int, int, int]]:
        """The messages of tasks that have arrived and that no task has received: source, destination, tag, bytes, and how many."""
        return sorted(self._machine.unreceived())

    def blocked_ranks(self) -> list[RankState]:
        """The ranks of phases that have started and not ended, by task, chunk, step and NPU."""
        return [
            RankState(task, chunk, step, npu, *self._schedules.rank(schedule, place), tokens, arrivals, next_action, posted)
            for task, chunk, step, npu, schedule, place, tokens, arrivals, next_action, posted in self._machine.blocked_ranks()
        ]


def _links(columns: Sequence[bytes]) -> list[PathEdge]:
    """Links from their columns."""
    kinds = list(LinkKind)
    number_of, *rest = (view(column, "q") for column in columns)
    return list(map(PathEdge, map(kinds.__getitem__, number_of), *rest))
