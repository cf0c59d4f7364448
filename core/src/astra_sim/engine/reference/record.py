"""The record of a run: what its parts have noted so far, and what they have not ended."""

from __future__ import annotations

from astra_sim.engine.interface import CausalKey, PathEdge, PhaseStepRecords, RankState
from astra_sim.engine.reference.causes import Causes
from astra_sim.engine.reference.chunks import Chunks
from astra_sim.engine.reference.collectives import Collectives
from astra_sim.engine.reference.events import Events
from astra_sim.engine.reference.phase_kinds import PhaseKinds
from astra_sim.engine.reference.point_to_point import PointToPoint
from astra_sim.engine.reference.tasks import Tasks


class ReferenceRecord:
    """Reads what the parts of an engine have noted. `ReferenceEngine.record` is one."""

    def __init__(
        self, events: Events, phase_kinds: PhaseKinds, chunks: Chunks, collectives: Collectives, point_to_point: PointToPoint, tasks: Tasks
    ) -> None:
        self._events = events
        self._phase_kinds = phase_kinds
        self._chunks = chunks
        self._collectives = collectives
        self._point_to_point = point_to_point
        self._tasks = tasks

    def keep_causes(self, messages: bool = False) -> None:
        """Keep which event brings about which; with `messages` all of these, too."""
        self._events.causes = Causes(messages)

    def observe(self, npu: int) -> None:
        """Keep the moments of an NPU: those of all are kept here."""

    def times(self, npu: int) -> tuple[list[int], list[int]]:
        """When the tasks of an NPU were ready and when they ended (-1: not yet)."""
        return self._tasks.times(npu)

    def sends(self, npu: int) -> tuple[list[int], list[int]]:
        """The sends of an NPU that have begun, by number of the task: the tasks, and when they began."""
        return self._tasks.sends(npu)

    def ended_at(self) -> list[int]:
        """When the last task of each NPU so far ended (-1: none has)."""
        return self._tasks.ended_at()

    def phase_steps(self, npu: int) -> PhaseStepRecords:
        """The phase steps of chunks on an NPU, in the order in which they were issued."""
        return self._chunks.records(npu)

    def uses(self) -> list[int]:
        """The number of collectives that became each plan."""
        return self._collectives.uses()

    def causal_key(self, phase: int) -> CausalKey:
        """The latest causal key of the ranks with which a phase ended last; empty if they end each by itself."""
        return self._phase_kinds.causal_key(phase)

    def critical_path(self) -> list[PathEdge]:
        """The links that lead to the last event; none if causes are not kept."""
        return self._events.causes.path() if self._events.causes is not None else []

    def carried(self) -> list[PathEdge]:
        """The messages that have arrived; none if they are not kept."""
        return self._events.causes.messages if self._events.causes is not None else []

    def unfinished(self) -> list[tuple[int, int, bool]]:
        """The tasks that have not ended: NPU, number, and whether it has begun; one that is ready may wait for its unit."""
        return self._tasks.unfinished()

    def unreceived(self) -> list[tuple[int, int, int, int, int]]:
        """The messages of tasks that have arrived and that no task has received: source, destination, tag, bytes, and how many."""
        return self._point_to_point.unreceived()

    def blocked_ranks(self) -> list[RankState]:
        """The ranks of phases that have begun and not ended, by task, chunk, place and NPU."""
        return self._chunks.blocked_ranks()
