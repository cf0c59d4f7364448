"""The bench on which components are tried: a platform of 4 x 2 NPUs, and the simplest system, network, compute and memory models.

They keep their contracts themselves and use no plugin, so that errors on the bench are the fault of the component under test.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from astra_sim.commands import Plugins, shared_plugins
from astra_sim.compute import Compute, Work
from astra_sim.context import Context
from astra_sim.engines import Job, ReferenceEngine, RunRecord, simulate_graph
from astra_sim.experiments import RunOptions
from astra_sim.graph import Communicate, ExecutionGraph
from astra_sim.memory import Memory
from astra_sim.network import RouteDelayNetwork
from astra_sim.platform import Dimension, Group, LogicalDimension, Platform, Topology
from astra_sim.schedule import Collective, Peer, Request, Schedule, exchange, shift
from astra_sim.system import ChunkPlan, PhasePlan, QueuePlan, System, SystemSession


@attrs.frozen
class Joined(Topology):
    """A link from every NPU to every other: no message can be in the way of one on another link."""

    size: int
    name: str = "joined"

    def hops(self, source: int, destination: int) -> int:
        """One."""
        return 1

    def is_symmetric(self, peer: Peer) -> bool:
        """Always."""
        return peer.operator != "rank"

    def links_per_message(self) -> int:
        """One."""
        return 1

    def links_per_npu(self) -> int:
        """One to each other NPU."""
        return self.size - 1

    def links(self) -> list[tuple[int, int, float, float]]:
        """Source, target, bandwidth (bytes/ns) and latency (ns) of every link."""
        return [(source, to, 25.0, 500.0) for source in range(self.size) for to in range(self.size) if source != to]


def joined_platform(size: int) -> Platform:
    """NPUs of which every two are joined by a link, as one dimension."""
    return Platform((Dimension(Joined(size), size, size - 1, 25.0, 500.0),))


PLATFORM = Platform(tuple(Dimension(Joined(size), size, size - 1, 25.0, 500.0) for size in (4, 2)))
"""4 x 2 NPUs."""


class BenchNetwork(RouteDelayNetwork):
    """A nanosecond for each hop, a picosecond for each byte."""

    def route_delay(self, dimension: int, hops: int, size: int) -> int:
        """Picoseconds a message takes."""
        return 1000 * hops + size


class BenchCompute(Compute):
    """The recorded time, or a nanosecond."""

    def duration_ns(self, work: Work) -> float:
        """Nanoseconds that the work takes."""
        return 1.0 if work.recorded_ns is None else work.recorded_ns


class BenchMemory(Memory):
    """A picosecond for each byte, near and far."""

    def access_ps(self, size: int, write: bool) -> int:
        """Picoseconds of an access."""
        return size

    def remote_access_ps(self, size: int, write: bool) -> int:
        """Picoseconds of an access to remote memory."""
        return size


class BenchSystem(System):
    """A collective is one chunk, which passes through its dimensions in order, and exchanges data with one rank after another there."""

    def session(self, dimensions: Sequence[LogicalDimension]) -> SystemSession:
        """A new session."""
        return _BenchSession(dimensions)


class _BenchSession(SystemSession):
    def __init__(self, dimensions: Sequence[LogicalDimension]) -> None:
        self.queues = [QueuePlan(1, _last) for _ in dimensions]
        self._dimensions = dimensions

    def issue(self, operation: Communicate, now_ps: int) -> list[ChunkPlan]:
        stages: list[tuple[int, LogicalDimension | Group]] = [(index, self._dimensions[index]) for index in operation.dimensions]
        if operation.group is not None:
            stages = [(0, Group(operation.group))]
        size = operation.bytes
        phases = []
        for index, logical in stages:
            if logical.size > 1:
                schedule = pairwise(Request(operation.collective, logical.size, size))
                phases.append(PhasePlan(index, logical, operation.collective, size, schedule, index))
                size = schedule.output_bytes
        return [ChunkPlan(None, tuple(phases))] if phases else []


def _last(jobs: Sequence[Job], started: int, job: Job) -> int:
    return len(jobs)


def pairwise(request: Request) -> Schedule:
    """Pairwise exchange: in step k every rank sends to the one k further on."""
    n, block = request.ranks, request.bytes // request.ranks
    scatter = [exchange(shift(k), block, reduce=True, pieces=[k]) for k in range(1, n)]
    match request.collective:
        case Collective.ALL_REDUCE:
            return Schedule.shared(request, scatter + [exchange(shift(k), block, pieces=[0]) for k in range(1, n)])
        case Collective.REDUCE_SCATTER:
            return Schedule.shared(request, scatter)
        case Collective.ALL_GATHER:
            return Schedule.shared(request, [exchange(shift(k), request.bytes, pieces=[0]) for k in range(1, n)])
        case _:
            return Schedule.shared(request, [exchange(shift(k), block, pieces=[(0, k)]) for k in range(1, n)])


def bench_context(platform: Platform = PLATFORM, plugins: Plugins | None = None, passes: int = 2) -> Context:
    """The test bench of factories of workloads, training loops and systems."""
    return Context(plugins or shared_plugins(), platform, RunOptions(passes=passes), BenchCompute())


def run_on_bench(graph: ExecutionGraph, platform: Platform, system: System | None = None) -> RunRecord:
    """Simulate a graph on all NPUs of a platform, message by message. Raises DeadlockError if it cannot finish."""
    return simulate_graph(graph, system or BenchSystem(), BenchNetwork(platform), BenchMemory(), ReferenceEngine, symmetry=False)
