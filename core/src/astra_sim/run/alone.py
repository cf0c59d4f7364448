"""Runs of single collectives: all NPUs issue one at once, and nothing else happens."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import attrs

from astra_sim.graph import Communicate, ExecutionGraph
from astra_sim.memory import Memory
from astra_sim.network import Network
from astra_sim.platform import LogicalDimension
from astra_sim.system import System

if TYPE_CHECKING:
    from astra_sim.run.record import RunRecord

_Records = dict[Hashable, "RunRecord"]

_MOST_SYSTEMS = 4
"""For how many system layers the runs on a network are kept."""

_cached: WeakKeyDictionary[Network, dict[Hashable, tuple[tuple[Any, ...], _Records]]] = WeakKeyDictionary()


class AloneRuns:
    """The records of collectives that run alone. Each kind is simulated once for a network object, system, memory and engine."""

    def __init__(self, system: System, network: Network, memory: Memory, engine: str) -> None:
        self._inputs = system, network, memory
        self._engine = engine
        self._records = _records_of(system, network, memory, engine)

    def record(self, operation: Communicate, dimensions: Sequence[LogicalDimension], path: bool = False, explain: Any = None) -> RunRecord:
        """The record of a collective over `dimensions`, those of its graph; with `path` it has its critical path.

        `explain` is that of `simulate_graph`.

        Raises InputError where the system layer refuses the collective. It must not be called while the network runs something else.
        """
        shape = operation.collective, operation.bytes, operation.dimensions, operation.group, operation.algorithm
        key = *shape, operation.update_ps, operation.urgent, tuple(dimensions)
        found = self._records.get(key)
        if found is None or (path and found.path is None):
            from astra_sim.run.simulation import simulate_graph  # which simulates composites by this module

            alone = attrs.evolve(operation, after=())
            graph = ExecutionGraph([alone], tuple(dimensions), ())
            found = self._records[key] = simulate_graph(
                graph, *self._inputs, engine=self._engine, explain=explain, timelines="path" if path else False
            )
        return found

    def duration_ps(self, operation: Communicate, dimensions: Sequence[LogicalDimension]) -> int:
        """Picoseconds that a collective takes, without those that the network takes before any workload begins."""
        record = self.record(operation, dimensions)
        return record.finish_ps - record.start_ps


def _records_of(system: System, network: Network, memory: Memory, engine: str) -> _Records:
    """The records that are kept of runs on these objects."""
    if type(network).__hash__ is not object.__hash__:
        return {}
    of_network = _cached.setdefault(network, {})
    key = id(system), id(memory), engine, system.endpoint_ps
    if key not in of_network:
        while len(of_network) >= _MOST_SYSTEMS:
            del of_network[next(iter(of_network))]
        of_network[key] = (system, memory), {}  # they are kept, too, so that their numbers stay their own
    return of_network[key][1]
