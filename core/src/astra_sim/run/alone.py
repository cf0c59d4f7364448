"""Runs of single collectives: all NPUs issue one at once, and nothing else happens."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs

from astra_sim.engine.interface import EngineType
from astra_sim.graph import Communicate, ExecutionGraph
from astra_sim.memory import Memory
from astra_sim.network import Network
from astra_sim.platform import LogicalDimension
from astra_sim.system import System

if TYPE_CHECKING:
    from astra_sim.run.record import RunRecord


class AloneRuns:
    """The records of collectives that run alone on some components. Each kind is simulated once, by `simulate` (`simulate_graph`)."""

    def __init__(self, simulate: Callable[..., RunRecord], system: System, network: Network, memory: Memory, engine: EngineType) -> None:
        self.engine = engine
        self._simulate = partial(simulate, system=system, network=network, memory=memory, engine=engine)
        self._records: dict[Hashable, RunRecord] = {}

    def record(self, operation: Communicate, dimensions: Sequence[LogicalDimension], path: bool = False, explain: Any = None) -> RunRecord:
        """The record of a collective over `dimensions`, those of its graph; with `path` it has its critical path.

        `explain` is that of `simulate_graph`.

        Raises InputError if the system layer refuses the collective. It must not be called while the network runs something else.
        """
        shape = operation.collective, operation.bytes, operation.dimensions, operation.group, operation.algorithm, operation.priced_ps
        key = *shape, operation.update_ps, operation.urgent, tuple(dimensions)
        value = self._records.get(key)
        if value is None or (path and value.path is None):
            alone = attrs.evolve(operation, after=())
            graph = ExecutionGraph([alone], tuple(dimensions), ())
            value = self._records[key] = self._simulate(graph, explain=explain, timelines="path" if path else False)
        return value

    def duration_ps(self, operation: Communicate, dimensions: Sequence[LogicalDimension]) -> int:
        """Picoseconds that a collective takes, without those that the network takes before any workload begins."""
        record = self.record(operation, dimensions)
        return record.finish_ps - record.start_ps
