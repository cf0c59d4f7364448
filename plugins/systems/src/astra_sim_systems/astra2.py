"""The system layer of ASTRA-sim 2.x: NPUs go on by themselves, and each does one operation of each kind at a time."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from astra_sim import InputError, option
from astra_sim.context import Algorithm, Context
from astra_sim.graph import Communicate
from astra_sim.schedule import Collective
from astra_sim.units import PS_PER_NS

from astra_sim_systems.chunking import ChunkingRules, ChunkingSystem
from astra_sim_systems.names import DEFAULT_IN_GROUPS
from astra_sim_systems.options import ChunkingOptions
from astra_sim_systems.queues import QueueSlot, all_slots


@attrs.frozen
class Astra2Options(ChunkingOptions):
    """Options of the system layer. An algorithm is a name for all dimensions, or a list with one for each."""

    one_at_a_time: bool | None = option(
        None,
        help="an NPU does at most one computation, one on the CPU, and one operation of communication or memory at a time; "
        "none: true, but false for traces that keep all orders themselves (linked by astra trace link)",
    )
    replay_only: bool = option(False, help="operations of a trace take the time that it recorded, collectives too")
    group_algorithm: str = option(
        "auto",
        help="algorithm in communicator groups; auto: that of the only dimension, or ring where algorithms of several are given",
        specs="collective",
    )
    group_endpoint_delay_ns: int = option(10, minimum=0, help="endpoint delay in communicator groups", unit="ns")
    node_algorithms: dict[str, str] = option(
        factory=dict,
        help="collective algorithms of single nodes of a trace, by their ids, over all NPUs or all of the node's group",
        specs="collective",
    )
    local_memory_gb_per_s: float | None = option(
        None, above=0, help="bandwidth at which received data is reduced; none: the memory model's", unit="10^9 bytes/s"
    )


class Astra2System(ChunkingSystem):
    """Rules of ASTRA-sim 2.x. Every NPU goes on by itself when its part of a phase has ended."""

    phases_end_together = False
    may_lack_algorithms = True

    def __init__(self, options: Astra2Options, context: Context) -> None:
        super().__init__(options, context)
        in_groups = {kind: _group_algorithm(options.group_algorithm, algorithms, context) for kind, algorithms in self.algorithms.items()}
        self.one_at_a_time = options.one_at_a_time is not False
        self.one_at_a_time_unless_ordered = options.one_at_a_time is None
        self.replay_only = options.replay_only
        self.node_algorithms = {_node_id(key): value for key, value in options.node_algorithms.items()}
        # Wrong names are errors before the run, not when the first such node is issued.
        for spec in options.node_algorithms.values():
            context.algorithm(spec, "node_algorithms")
        bandwidth = options.local_memory_gb_per_s
        if bandwidth is not None:
            self.reduce_ps = lambda size: three_accesses(size, bandwidth)
        self.rules = ChunkingRules(
            chunk_sizes,
            slots=all_slots if options.collective_optimization == "baseline" else halves,
            group_algorithm=in_groups.__getitem__,
            endpoint_ps=EndpointDelays(options.group_endpoint_delay_ns * PS_PER_NS),
            check=check_involved,
        )


def _group_algorithm(chosen: str, algorithms: Sequence[Algorithm], context: Context) -> Algorithm:
    """That of the only dimension; a default if there are several, because a group is not along them."""
    if chosen == "auto" and len(algorithms) == 1:
        return algorithms[0]
    return context.algorithm(DEFAULT_IN_GROUPS if chosen == "auto" else chosen, "group_algorithm")


def _node_id(text: str) -> int:
    if not text.isdecimal() or not text.isascii() or len(text) > 20:
        raise InputError(f"node_algorithms: {text!r} is not the id of a node; expected a whole number of at least 0")
    return int(text)


def three_accesses(size: int, gigabytes_per_s: float) -> int:
    """Picoseconds of one write and two reads of `size` bytes, each cut to whole nanoseconds; 10^9 bytes are a gigabyte."""
    return 3 * int(size / gigabytes_per_s) * PS_PER_NS


# -- Rules -------------------------------------------------------------------------------------------------------------


def chunk_sizes(collective: Collective, size: int, splits: int, npus: int) -> list[int]:
    """Chunks of one size: at least a byte for each NPU, but for all-gathers; the last is not cut. Raises InputError."""
    each, total = size // splits, size
    # An all-gather counts the part of one NPU, which need not be divided further.
    if collective is not Collective.ALL_GATHER and each < npus:
        each, total = npus, splits * npus
    if each < 1:
        raise InputError(f"{size} bytes cannot be cut into {splits} chunks (system: splits)")
    return [each] * -(-total // each)


def halves(collective: Collective, kind: Collective, directions: Sequence[int]) -> Sequence[QueueSlot]:
    """All queues; for an all-reduce the first half, and the second half for its all-gathers.

    A single queue belongs to both halves. There, these all-gathers run in direction -1, as in the second half.
    """
    slots = all_slots(collective, kind, directions)
    if collective is not Collective.ALL_REDUCE:
        return slots
    if len(slots) == 1:
        return [QueueSlot(0, -1)] if kind is Collective.ALL_GATHER else slots
    # With half of the queues each, all-gathers of an all-reduce do not wait behind its reduce-scatters.
    middle = len(slots) // 2
    return slots[middle:] if kind is Collective.ALL_GATHER else slots[:middle]


@attrs.frozen
class EndpointDelays:
    """Communicator groups have an endpoint delay of their own (ps); an algorithm that carries all delays itself has none."""

    in_groups_ps: int

    def __call__(self, algorithm: Algorithm, in_group: bool) -> int | None:
        """The endpoint delay of a phase, None if it is that of the system."""
        if algorithm.carries_delays:
            return 0
        return self.in_groups_ps if in_group else None


def check_involved(operation: Communicate) -> None:
    """Refuse a collective without dimensions. Raises InputError."""
    # ASTRA-sim 2.x exits with success before such a collective has ended.
    if not operation.dimensions:
        raise InputError("no dimension is involved; expected at least one")
