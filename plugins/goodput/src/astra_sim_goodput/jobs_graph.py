"""Execution graphs of several jobs side by side, each on some NPUs of one platform."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import attrs
from astra_sim import InputError
from astra_sim.graph import Communicate, Composite, Compute, ExecutionGraph, NpuProgram, Operation, Receive, Send, Wait, operation_rows
from astra_sim.platform import LogicalDimension, Platform, product_dimension
from astra_sim.rows import Dependencies, Rows, column, kinds_of
from astra_sim.schedule import Peer


@attrs.frozen(eq=False)
class JobGraph:
    """A job's graph for NPUs 0 to n - 1, and the NPUs of the platform that these are. It waits for `start_ps` first."""

    name: str
    graph: ExecutionGraph
    ranks: Sequence[int]
    start_ps: int = 0


def block_sizes(platform: Platform, ranks: Sequence[int]) -> list[int] | None:
    """The sizes of the platform's dimensions within a job whose NPUs are a block of it, the whole of inner ones and a part of the last.

    None if the NPUs are no such block: then the collectives of the job are among named NPUs, without dimensions.
    """
    left, sizes = len(ranks), []
    if tuple(ranks) != tuple(range(ranks[0], ranks[0] + left)) or ranks[0] % left:
        return None
    for dimension in platform.dimensions:
        size = min(left, dimension.size)
        if left % size or dimension.size % size:
            return None
        sizes.append(size)
        left //= size
        if left == 1:
            return sizes
    return None


def merged(jobs: Sequence[JobGraph], platform: Platform) -> ExecutionGraph:
    """One graph for the platform in which each job runs on its NPUs; the others do nothing. Raises InputError."""
    programs: list[NpuProgram] = []
    dimensions = list(platform.logical_dimensions())  # collectives of named NPUs involve all of these
    layers: list[str] = []
    for job in jobs:
        writer = _JobsWriter(job, len(dimensions), len(layers), block_sizes(platform, job.ranks) is not None, len(platform.dimensions))
        programs += writer.programs()
        if writer.keeps_dimensions:
            dimensions += writer.dimensions()
        layers += [f"{job.name}/{layer}" for layer in job.graph.layers]
    busy = {npu for program in programs for npu in program.npus}
    idle = tuple(npu for npu in range(platform.npus) if npu not in busy)
    if idle:
        programs.append(NpuProgram((), idle))
    first = next(program for program in programs if 0 in program.npus)
    return ExecutionGraph(
        first.operations,
        tuple(dimensions),
        tuple(layers),
        footprint_bytes=max((job.graph.footprint_bytes or 0 for job in jobs), default=0) or None,
        others=tuple(program for program in programs if program is not first),
    )


def ends_of_passes_by_job(graph: ExecutionGraph, times: Sequence[Any], ranks: Mapping[str, Sequence[int]]) -> dict[str, list[float]]:
    """When each pass of each job had ended on all its NPUs (ns), of a run with the times of all operations (`Result.operation_times`)."""
    iterations: dict[int, list[int]] = {}
    for program in graph.programs(1 + max(npu for each in times for npu in each.npus)):
        rows = operation_rows(program.operations)
        numbers = [kind.iteration if hasattr(kind, "iteration") else 0 for kind in rows.kinds]
        own_iterations = [numbers[kind] for kind in rows.kind_of]
        iterations |= dict.fromkeys(program.npus, own_iterations)
    job_of = {npu: name for name, npus in ranks.items() for npu in npus}
    ends: dict[str, dict[int, float]] = {name: {} for name in ranks}
    for each in times:
        for npu in each.npus:
            if npu in job_of:
                npus = ends[job_of[npu]]
                for place, end in zip(each.operations, each.end_ns, strict=True):
                    number = iterations[npu][place]
                    npus[number] = max(npus.get(number, 0.0), end)
    return {name: [npus[number] for number in sorted(npus)] for name, npus in ends.items()}


class _JobsWriter:
    """Writes the programs of a job with the numbers that NPUs, dimensions and layers have on the platform."""

    def __init__(self, job: JobGraph, first_dimension: int, first_layer: int, keeps_dimensions: bool, of_platform: int) -> None:
        self.job, self._first_dimension, self._first_layer = job, first_dimension, first_layer
        self.keeps_dimensions = keeps_dimensions
        self._of_platform = tuple(range(of_platform))
        self._shift = int(job.start_ps > 0)

    def dimensions(self) -> Iterator[LogicalDimension]:
        """The dimensions of the job, by names of its own, so that its communication counts in those of the platform."""
        for number, dimension in enumerate(self.job.graph.dimensions):
            yield attrs.evolve(dimension, name=f"{self.job.name}/{dimension.name or number}")

    def programs(self) -> Iterator[NpuProgram]:
        """The programs: one for all NPUs that do the same, or one for each NPU if operations name NPUs."""
        ranks = self.job.ranks
        for program in self.job.graph.programs(len(ranks)):
            if any(self._names_npus(kind) for kind in kinds_of(program.operations)):
                for rank in program.npus:
                    yield NpuProgram(self._moved(program.operations, rank), (ranks[rank],))
            elif len(program.npus):
                yield NpuProgram(self._moved(program.operations, program.npus[0]), tuple(ranks[rank] for rank in program.npus))

    def _names_npus(self, kind: Operation) -> bool:
        if isinstance(kind, Communicate):
            return not self.keeps_dimensions or kind.group is not None
        return isinstance(kind, (Send, Receive))

    def _moved(self, operations: Sequence[Operation], rank: int) -> Sequence[Operation]:
        """A program as a rank of the job runs it, behind the wait for its start."""
        start = Compute((), self.job.start_ps, idle=True)
        if not isinstance(operations, Rows):
            moved = [self._operation(each, rank, after=self._after(each.after)) for each in operations]
            return [start, *moved] if self._shift else moved
        kinds = [self._operation(kind, rank) for kind in operations.kinds]
        if not self._shift:
            return attrs.evolve(operations, kinds=kinds)
        name, times, priorities = operations.name, operations.times, operations.priorities
        return attrs.evolve(
            operations,
            kinds=[*kinds, start],
            kind_of=column(chain([len(kinds)], operations.kind_of), "I"),
            after=Dependencies.of([(), *(self._after(operations.after[row]) for row in range(len(operations)))]),
            times=None if times is None else column(chain([-1], times), "q"),
            name=None if name is None else lambda row: name(row - 1) if row else "",
            priorities=None if priorities is None else column(chain([0], priorities), "I"),
            source=None,
        )

    def _after(self, earlier: Sequence[int]) -> tuple[int, ...]:
        if not self._shift:
            return tuple(earlier)
        return tuple(place + 1 for place in earlier) or (0,)

    def _operation(self, operation: Operation, rank: int, **changes: Any) -> Operation:
        """An operation with the numbers of the platform. Raises InputError if its time would not see other jobs."""
        if isinstance(operation, Composite):
            raise InputError(
                f"job {self.job.name}: its workload simulates a pass as one operation (detail = pass), in which it meets no other jobs;"
                " expected detail = kernel or layer"
            )
        if operation.layer >= 0:
            changes["layer"] = operation.layer + self._first_layer
        if isinstance(operation, Communicate):
            changes |= self._members(operation, rank)
            if operation.parallelism:
                changes["parallelism"] = f"{self.job.name}/{operation.parallelism}"
        elif isinstance(operation, Send):
            changes |= {"to": self._peer(operation.to, rank), "group": self._group(operation.group)}
        elif isinstance(operation, Receive):
            changes |= {"source": self._peer(operation.source, rank), "group": self._group(operation.group)}
        elif isinstance(operation, Wait):
            changes["pending"] = tuple(place + self._shift for place in operation.pending)
        return attrs.evolve(operation, **changes)

    def _group(self, name: str) -> str:
        return f"{self.job.name}/{name}" if name else ""

    def _peer(self, peer: Peer, rank: int) -> Peer:
        return Peer("rank", self.job.ranks[peer.of(rank, len(self.job.ranks))])

    def _members(self, operation: Communicate, rank: int) -> dict[str, Any]:
        """Of a collective the dimensions, or the NPUs of its group."""
        ranks, numbers = self.job.ranks, operation.dimensions
        if operation.group is not None:
            return {"group": tuple(ranks[each] for each in operation.group)}
        if self.keeps_dimensions:
            return {"dimensions": tuple(number + self._first_dimension for number in numbers)}
        dimension = product_dimension([self.job.graph.dimensions[number] for number in numbers])
        return {"group": tuple(ranks[each] for each in dimension.group(rank)), "dimensions": self._of_platform}
