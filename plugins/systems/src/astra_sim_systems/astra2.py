"""The system layer of ASTRA-sim 2.x: as that of 1.0, but NPUs go on by themselves, and each does one operation of a sort at a time."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from astra_sim import InputError, option
from astra_sim.context import Algorithm, Context
from astra_sim.graph import Communicate
from astra_sim.memory import three_accesses
from astra_sim.platform import LogicalDimension
from astra_sim.schedule import Collective
from astra_sim.system import ChunkPlan, SystemSession
from astra_sim.units import PS_PER_NS

from astra_sim_systems.astra1 import Astra1Options, Astra1System, Session


@attrs.frozen
class Astra2Options(Astra1Options):
    """Options of the system layer. An algorithm is a name for all dimensions, or a list with one for each."""

    one_at_a_time: bool = option(
        True, help="an NPU has one operation under way of computing, of computing on the CPU, and of communication and memory together"
    )
    replay_only: bool = option(False, help="operations of a trace take the time that it recorded, collectives too")
    group_algorithm: str = option(
        "auto", help="algorithm in communicator groups; auto: that of the only dimension, or ring where algorithms of several are given"
    )
    group_endpoint_delay_ns: int = option(10, minimum=0, help="endpoint delay in communicator groups", unit="ns")
    node_algorithms: dict[str, str] = option(
        factory=dict, help="collective algorithms of single nodes of a trace, by their ids, over all NPUs or all of the node's group"
    )
    local_memory_gb_per_s: float | None = option(
        None, above=0, help="bandwidth at which received data is reduced; none: as the memory model says", unit="10^9 bytes/s"
    )


class Astra2System(Astra1System):
    """Rules of ASTRA-sim 2.x."""

    options: Astra2Options
    phases_end_together = False

    def __init__(self, options: Astra2Options, context: Context) -> None:
        super().__init__(options, context)
        self.group_endpoint_ps = options.group_endpoint_delay_ns * PS_PER_NS
        self.one_at_a_time = options.one_at_a_time
        self.group_algorithms = {collective: self._group_algorithm(collective) for collective in Collective}
        self.replay_only = options.replay_only
        self.node_algorithms = {_node_id(key): value for key, value in options.node_algorithms.items()}
        for spec in options.node_algorithms.values():
            context.algorithm(spec, "node_algorithms")
        bandwidth = options.local_memory_gb_per_s
        if bandwidth is not None:
            self.reduce_ps = lambda size: three_accesses(size, bandwidth)

    def _group_algorithm(self, collective: Collective) -> Algorithm:
        chosen, own = self.options.group_algorithm, self.algorithms[collective]
        if chosen == "auto" and len(own) == 1:
            return own[0]
        return self.context.algorithm("ring" if chosen == "auto" else chosen, "group_algorithm")

    def session(self, dimensions: Sequence[LogicalDimension]) -> SystemSession:
        """A new session."""
        return _Session(self, dimensions)


def _node_id(text: str) -> int:
    if not text.isdecimal() or not text.isascii() or len(text) > 20:
        raise InputError(f"node_algorithms: {text!r} is no id of a node; a whole number of at least 0 is right")
    return int(text)


class _Session(Session):
    _system: Astra2System

    def chunk_sizes(self, operation: Communicate, npus: int) -> list[int]:
        """Chunks of one size: at least a byte for each NPU, but for all-gathers; the last is not cut."""
        splits = self._system.options.splits
        size, total = operation.bytes // splits, operation.bytes
        if operation.collective is not Collective.ALL_GATHER and size < npus:
            size, total = npus, splits * npus
        if size < 1:
            raise InputError(f"{operation.bytes} bytes cannot be cut into {splits} chunks (system: splits)")
        return [size] * -(-total // size)

    def group_algorithm(self, collective: Collective) -> Algorithm:
        """The algorithm of the only dimension; ring where there are several, for a group does not lie along them."""
        return self._system.group_algorithms[collective]

    def queue_places(self, collective: Collective, kind: Collective, count: int) -> range:
        """The queues that a phase may use: all, but in an all-reduce the first half, and the later one for its all-gathers."""
        if collective is not Collective.ALL_REDUCE or count == 1 or self._system.options.collective_optimization == "baseline":
            return range(count)
        return range(count // 2, count) if kind is Collective.ALL_GATHER else range(count // 2)

    def turns_round(self, collective: Collective, kind: Collective) -> bool:
        """The only queue is that of the later half, whose way is anticlockwise, for the all-gathers of an all-reduce."""
        return collective is Collective.ALL_REDUCE and kind is Collective.ALL_GATHER

    def endpoint_ps_of(self, algorithm: Algorithm) -> int | None:
        """A collective that is given as a trace has no endpoint delay."""
        return None if algorithm.scales else 0

    def issue(self, operation: Communicate, now_ps: int) -> list[ChunkPlan]:
        """Cut a collective into chunks and give each its phases."""
        if not operation.dimensions:
            raise InputError("no dimension is involved; at least one is right")
        return super().issue(operation, now_ps)
