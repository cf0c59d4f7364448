"""Collectives that have a price as a whole, before a schedule is asked for: that of the network, or one that the graph gives.

Such a collective is one chunk with one phase. The phase has no messages: it begins on each NPU when its queue lets it, and ends for all
of a group so long after the last of them has begun it. Bytes count as if the ranks of the group were rings, of which each has another
begin: each rank sends all its bytes to the next of each ring, so in every dimension it sends the mean over the ranks there.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from astra_sim._boundary import call, picoseconds
from astra_sim.graph import Communicate
from astra_sim.network import Network
from astra_sim.platform import Group, GroupShape, LogicalDimension, product_dimension
from astra_sim.schedule import Collective, RankProgram, Request, Schedule, Step, default_output_bytes, shift
from astra_sim.system import ChunkPlan, PhasePlan, SystemSession

_Members = LogicalDimension | Group


class Prices:
    """Asks a network for the times of whole collectives of a program with these `dimensions`, and remembers its answers."""

    def __init__(self, network: Network, dimensions: Sequence[LogicalDimension]) -> None:
        self._network = network
        self._dimensions = dimensions
        self._logical: dict[tuple[tuple[int, ...], tuple[int, ...] | None], _Members | None] = {}
        self._shape = functools.cache(network.platform.shape)
        self._times: dict[tuple[Collective, int, GroupShape], int | None] = {}
        self._phases: dict[tuple[Collective, int, _Members], tuple[Schedule, Schedule]] = {}

    def plan(self, session: SystemSession, operation: Communicate) -> ChunkPlan | None:
        """The only chunk of a collective that has a price; None if it goes by schedule. Raises AstraError.

        One that the graph prices waits in no queue: its price has the time that it waits for others.
        """
        is_priced = operation.priced_ps is not None
        # A collective that names its algorithm runs it: the price is that of the best one.
        if operation.bytes < 1 or (operation.algorithm and not is_priced):
            return None
        logical = self.ranks(operation)
        if logical is None:
            return None
        time = operation.priced_ps if is_priced else self._time(operation, logical)
        if time is None:
            return None
        dimension = 0 if isinstance(logical, Group) else min(self._involved(operation))
        queue, priority = -1, None
        if not is_priced:
            queue, priority = call(f"{type(session).__name__}: assign_queue", session.assign_queue, operation, dimension, logical)
        waiting, counted = self._schedules(operation, logical)
        phase = PhasePlan(
            dimension=dimension,
            logical=logical,
            collective=operation.collective,
            bytes=operation.bytes,
            schedule=waiting,
            queue=queue,
            endpoint_ps=time,
            counted=counted,
        )
        return ChunkPlan(priority, (phase,))

    def _involved(self, operation: Communicate) -> list[int]:
        """The dimensions of a collective with more than one rank."""
        return [number for number in operation.dimensions if self._dimensions[number].size > 1]

    def ranks(self, operation: Communicate) -> _Members | None:
        """The groups of a collective; None if a rank is alone."""
        key = operation.dimensions, operation.group
        if key not in self._logical:
            self._logical[key] = self._find_ranks(operation)
        return self._logical[key]

    def _find_ranks(self, operation: Communicate) -> _Members | None:
        members = operation.group
        if members is not None and len(members) < self._network.platform.npus:
            return Group(members) if len(members) > 1 else None
        involved = self._involved(operation)
        return product_dimension([self._dimensions[number] for number in involved]) if involved else None

    def _time(self, operation: Communicate, logical: _Members) -> int | None:
        """Picoseconds of a collective; None if the network does not price it. Raises PluginError if that is no time."""
        # By shape: groups at like places, such as those of all pipeline stages, are one question to the network.
        key = operation.collective, operation.bytes, self._shape(logical)
        if key not in self._times:
            what = f"network {type(self._network).__name__}: the time of an {operation.collective} of {operation.bytes} bytes"
            time = call(what, self._network.collective_ps, *key)
            self._times[key] = None if time is None else picoseconds(time, what)
        return self._times[key]

    def _schedules(self, operation: Communicate, logical: _Members) -> tuple[Schedule, Schedule]:
        """The plan for the engine, and its totals."""
        key = operation.collective, operation.bytes, logical
        if key not in self._phases:
            request = Request(operation.collective, logical.size, operation.bytes)
            output = default_output_bytes(request)
            shape = self._shape(logical)
            sends = RankProgram(tuple(Step(shift(far), None, size) for far, size in _hops(ring_bytes(request), shape)))
            schedules = [Schedule(request.ranks, (program,), output) for program in (RankProgram((), last_bytes=0), sends)]
            self._phases[key] = schedules[0], schedules[1]
        return self._phases[key]


def ring_bytes(request: Request) -> int:
    """The bytes that each rank sends if the ranks are a ring."""
    size, ranks = request.bytes, request.ranks
    match request.collective:
        case Collective.ALL_REDUCE:
            return 2 * size * (ranks - 1) // ranks
        case Collective.ALL_GATHER:
            return size * (ranks - 1)
    return size * (ranks - 1) // ranks


def _hops(size: int, shape: GroupShape) -> list[tuple[int, int]]:
    """The rank distance and the share of its bytes of each send, the innermost dimension last.

    Of the hops of a ring as many leave a block of some dimensions as there are such blocks. Groups whose ranks are spread unevenly are one
    ring.
    """
    hops, left = [], size
    for here, further in zip(shape.blocks[-2:0:-1], shape.blocks[:1:-1], strict=False):
        if shape.ranks % here:
            return [(1, size)]
        crossing = (here if here > 1 else 0) - (further if further > 1 else 0)
        if crossing > 0:
            hops.append((shape.ranks // here, size * crossing // shape.ranks))
            left -= hops[-1][1]
    return [*hops, (1, left)] if left or not hops else hops
