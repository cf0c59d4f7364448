"""The description of a collective's plan for the engine and the record, and the part that is cached between runs."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import attrs

from astra_sim.engine.interface import PhaseStep
from astra_sim.memo import ObjectCaches
from astra_sim.platform import LogicalDimension
from astra_sim.run.inputs import RunInputs
from astra_sim.run.phase_cost import PhaseCost
from astra_sim.system import ChunkPlan, PhasePlan


class PlannedPhase(NamedTuple):
    """A phase of a chunk as it was planned, with its time if that is known beforehand.

    `sent` holds the dimensions in which it counts (`graph.accounting_dimensions`), with the bytes that NPU 0 sends there.
    """

    chunk: int
    phase: int
    plan: PhasePlan
    cost: PhaseCost | None
    sent: Mapping[int, int]


@attrs.define(slots=True)
class Traffic:
    """The communication of a collective: the bytes that NPU 0 sends in each physical dimension, and the messages of all NPUs."""

    payload: list[int]
    messages: int = 0

    def add(self, payload: Sequence[int], messages: int) -> None:
        """Count further traffic, too."""
        self.messages += messages
        for dimension, size in enumerate(payload):
            self.payload[dimension] += size


class DescribedPlan(NamedTuple):
    """The phases of all chunks of a collective, the phase steps of each chunk, and their traffic. It never changes."""

    planned: tuple[PlannedPhase, ...]
    steps: list[list[PhaseStep]]
    traffic: Traffic


class _CachedPlan(NamedTuple):
    """A description of a plan, with the plan itself, and the picoseconds of the reductions on which it relies, by their bytes."""

    chunks: Sequence[ChunkPlan]
    described: DescribedPlan
    reduced: tuple[tuple[int, int], ...]


_LONGEST = 1024
"""The most phases of a description that is kept."""

_plans: ObjectCaches[Hashable, _CachedPlan] = ObjectCaches("described plans", 256)
"""Descriptions of plans on a network object."""


class DescribedPlanCache:
    """The descriptions of plans on a network object, if one NPU represents all and phases are timed beforehand.

    They are found again by the plan, which a system layer answers with the same tuple if nothing in it has changed
    (`SystemSession.issue`). `how` are the other inputs of a description; None: nothing is cached.
    """

    def __init__(self, inputs: RunInputs, how: tuple[Any, ...] | None) -> None:
        network, system = inputs.network, inputs.system
        self._reduce_ps = inputs.reduce_ps
        self._how = None
        if how is not None and not inputs.graph.others:
            self._how = (*how, system.endpoint_ps, system.rendezvous, system.phases_end_together)
            self._known = _plans.of(network)

    def get(self, chunks: Sequence[ChunkPlan]) -> DescribedPlan | None:
        """The description of a plan, if it is kept and reductions take the same times."""
        if self._how is None:
            return None
        cached = self._known.get((id(chunks), self._how))
        if cached is None or any(self._reduce_ps(size) != time for size, time in cached.reduced):
            return None
        return cached.described

    def add(self, chunks: Sequence[ChunkPlan], described: DescribedPlan) -> None:
        """Keep the description of a plan, unless it is long or has phases of this engine alone."""
        # A list may change after it was answered; a tuple of a system layer promises that nothing in it does.
        if self._how is None or type(chunks) is not tuple or len(described.planned) > _LONGEST:
            return
        key = id(chunks), self._how  # the plan is kept, too, so that its number stays its own
        phases = {id(phase.plan): phase for phase in described.planned}.values()
        if all(phase.cost is not None and isinstance(phase.plan.logical, LogicalDimension) for phase in phases):
            sizes = {size for phase in phases for size in phase.plan.schedule.reduced_bytes}
            self._known.replace(key, _CachedPlan(chunks, described, tuple((size, self._reduce_ps(size)) for size in sorted(sizes))))
