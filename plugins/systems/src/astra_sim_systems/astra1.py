"""The system layer of ASTRA-sim 1.0.

A collective is cut into chunks. Every chunk passes through the dimensions in phases, each phase in a queue of its dimension. A queue
runs so many chunks at a time; the others wait in the queue's order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import attrs
from astra_sim import InputError, option
from astra_sim.context import Algorithm, Context
from astra_sim.errors import AstraError, PluginError, located
from astra_sim.graph import Communicate
from astra_sim.platform import Dimension, Group, LogicalDimension, is_power_of_two
from astra_sim.providers import CollectiveProvider
from astra_sim.schedule import Collective, Request, Schedule
from astra_sim.system import BusOptions, ChunkPlan, DimensionOrder, PhasePlan, QueuePlan, System, SystemSession
from astra_sim.units import PS_PER_NS, scaled_float32

URGENT_PRIORITY = 100_000_000


@attrs.frozen
class Astra1Options:
    """Options of the system layer. An algorithm is a name for all dimensions, or a list with one for each."""

    scheduling_policy: str = option("lifo", choices=("lifo", "fifo"), help="lifo: later collectives go first; fifo: earlier ones")
    endpoint_delay_ns: int = option(10, minimum=0, help="time an endpoint needs for every message, before it can go on", unit="ns")
    active_chunks_per_dimension: int = option(1, minimum=1, help="chunks of a dimension that run at a time, shared among its queues")
    splits: int = option(1, minimum=1, maximum=1_000_000, help="chunks into which a collective is cut")
    all_reduce: str | tuple[str, ...] = option("auto", help="algorithm for all-reduce; auto: by topology")
    all_gather: str | tuple[str, ...] = option("auto", help="algorithm for all-gather")
    reduce_scatter: str | tuple[str, ...] = option("auto", help="algorithm for reduce-scatter")
    all_to_all: str | tuple[str, ...] = option("auto", help="algorithm for all-to-all")
    collective_optimization: str = option(
        "local_bw_aware",
        choices=("baseline", "local_bw_aware"),
        help="all-reduce over several dimensions: baseline does one on each; local_bw_aware reduce-scatters, all-reduces, all-gathers",
    )
    intra_dimension_scheduling: str = option("fifo", help="order of a queue (a scheduler plugin)")
    inter_dimension_scheduling: str = option("ascending", help="order of dimensions (a scheduler plugin)")
    shared_bus: bool = option(False, help="endpoints share a bus to memory (LogGP) instead of taking the endpoint delay")
    bus_latency_ns: int = option(0, minimum=0, help="LogGP L of that bus", unit="ns")
    bus_overhead_ns: int = option(0, minimum=0, help="LogGP o of that bus", unit="ns")
    bus_gap_ns: int = option(0, minimum=0, help="LogGP g of that bus: between transfers", unit="ns")
    bus_gap_per_byte_ns: float = option(0.0, minimum=0, help="LogGP G of that bus", unit="ns/byte")
    bus_reduction_delay: int = option(1, minimum=0, help="ns that reducing 100 bytes takes beside that bus, on top of 50 ns")


class Astra1System(System):
    """Rules of ASTRA-sim 1.0. Computing times are cut to its clock of 1 ns."""

    tick_ps = PS_PER_NS
    group_endpoint_ps: int | None = None
    """Endpoint delay in communicator groups, where it is another."""

    def __init__(self, options: Astra1Options, context: Context) -> None:
        self.endpoint_ps = scaled_float32(options.endpoint_delay_ns, context.run.injection_scale) * PS_PER_NS
        self.rendezvous = context.run.rendezvous
        if options.shared_bus:
            self.bus = BusOptions(
                options.bus_latency_ns,
                options.bus_overhead_ns,
                options.bus_gap_ns,
                options.bus_gap_per_byte_ns,
                options.bus_reduction_delay,
            )
        self.options = options
        self.context = context
        self.algorithms = {kind: self._algorithms(kind) for kind in Collective}
        self.order = self._scheduler("intra_dimension_scheduling", "queue")
        self.dimension_order()

    def session(self, dimensions: Sequence[LogicalDimension]) -> SystemSession:
        """A new session."""
        return Session(self, dimensions)

    def dimension_order(self) -> DimensionOrder:
        """The chosen order of dimensions, in its first state."""
        order = self._scheduler("inter_dimension_scheduling", "dimensions", self.context.platform)
        if not isinstance(order, DimensionOrder):
            raise PluginError(f"inter_dimension_scheduling: {order!r} is not a DimensionOrder")
        return order

    def _scheduler(self, key: str, orders: str, *arguments: Any) -> Any:
        """What a scheduler plugin makes, which must order queues or dimensions."""
        spec = getattr(self.options, key)
        provider, _ = self.context.component("scheduler", spec, key)
        found = getattr(provider, "orders", None)
        if found != orders:
            raise InputError(f"{key}: {spec} orders {found}, not {orders}")
        order = self.context.create("scheduler", spec, key, *arguments)
        if orders == "queue" and not callable(order):
            raise PluginError(f"{key}: {spec} made {order!r}, which cannot be called")
        return order

    def _algorithms(self, kind: Collective) -> list[Algorithm]:
        """The algorithm of each physical dimension, or fewer if the last runs over the whole platform. Raises InputError."""
        platform = self.context.platform
        chosen: str | tuple[str, ...] = getattr(self.options, kind.value)
        if isinstance(chosen, str):
            first = None if chosen == "auto" else self.context.algorithm(chosen, kind.value)
            names = [chosen] if first is not None and first.whole_platform else [chosen] * len(platform.dimensions)
        else:
            names = list(chosen)
        algorithms = []
        for index, name in enumerate(names):
            if name == "auto" and index < len(platform.dimensions):
                dimension = platform.dimensions[index]
                name = _default_algorithm(kind, dimension.topology.name, dimension.size)
            algorithms.append(self.context.algorithm(name, kind.value))
            end = len(platform.dimensions) if algorithms[-1].whole_platform else index + 1
            for number, dimension in enumerate(platform.dimensions[index:end], index):
                self._check_needs(kind, name, number, dimension)
            if algorithms[-1].whole_platform and index < len(names) - 1:
                raise InputError(f"{kind.value}: {name} runs over the whole platform, so no algorithm can follow it")
        complete = algorithms and algorithms[-1].whole_platform
        if len(names) > len(platform.dimensions) or (len(names) < len(platform.dimensions) and not complete):
            raise InputError(
                f"{kind.value} has {len(names)} algorithms ({', '.join(names)}) for {len(platform.dimensions)} dimensions;"
                " one for each dimension is right"
            )
        return algorithms

    def _check_needs(self, kind: Collective, name: str, index: int, dimension: Dimension) -> None:
        """Raise InputError where the topology of a dimension lacks what an algorithm needs."""
        provider, _ = self.context.component("collective", name, kind.value)
        for need in provider.missing(dimension.topology) if isinstance(provider, CollectiveProvider) else ():
            raise InputError(
                f"{kind.value}: {name} needs a topology with {need}, and dimension {index} ({dimension.topology.name}) has none;"
                f" another algorithm is right, or a topology that has it (such as a switch with {need} = true)"
            )


def _default_algorithm(kind: Collective, topology: str, size: int) -> str:
    if topology == "fully_connected" or (topology == "switch" and kind is Collective.ALL_TO_ALL):
        return "direct"
    if topology == "switch" and is_power_of_two(size):
        return "halving_doubling"
    return "ring"


@attrs.frozen
class Stage:
    """A dimension as one kind of collective uses it, or a communicator group, which uses the queues of a dimension."""

    dimension: int
    logical: LogicalDimension | Group
    algorithm: Algorithm

    def schedule(self, request: Request) -> Schedule:
        """The schedule of a phase here. Raises ScheduleError naming the dimension or group."""
        try:
            return self.algorithm.schedule(request)
        except AstraError as error:
            where = f"group {list(self.logical.members)}" if isinstance(self.logical, Group) else f"dimension {self.dimension}"
            raise located(error, where) from None


def _check_whole_platform(stage: Stage, dimensions: Sequence[int]) -> None:
    """Raise InputError where a stage that runs over the whole platform would be left out, with dimensions that only it serves.

    It counts as its first dimension.
    """
    left_out = stage.dimension not in dimensions and any(dimension > stage.dimension for dimension in dimensions)
    if stage.algorithm.whole_platform and left_out:
        raise InputError(
            f"{stage.algorithm.name} runs over the whole platform, and dimensions {list(dimensions)} without"
            f" {stage.dimension or 'the first'} are involved; expected an algorithm for each dimension"
        )


class Turns:
    """How many phases each NPU has put into some queues, which take turns."""

    def __init__(self) -> None:
        self._of_all = 0
        self._of_groups: Counter[int] = Counter()

    def take(self, logical: LogicalDimension | Group) -> int:
        """Count a phase of all NPUs or of a group; returns how many its first NPU has put there before."""
        if not isinstance(logical, Group):
            self._of_all += 1
            return self._of_all - 1 + self._of_groups[0]
        before = self._of_all + self._of_groups[logical.members[0]]
        self._of_groups.update(logical.members)
        return before


class Session(SystemSession):
    """A run's chunks, phases and queues."""

    def __init__(self, system: Astra1System, dimensions: Sequence[LogicalDimension]) -> None:
        self._system = system
        self._directions = [self._queue_directions(logical) for logical in dimensions]
        self._first_queue = [sum(map(len, self._directions[:index])) for index in range(len(dimensions))]
        active = system.options.active_chunks_per_dimension
        self.queues = [QueuePlan(-(-active // len(ways)), system.order) for ways in self._directions for _ in ways]
        self._stages = {kind: self._make_stages(kind, dimensions) for kind in Collective}
        self._order = system.dimension_order()
        self.later_first = system.options.scheduling_policy == "lifo"
        self._turns: dict[tuple[int, range], Turns] = {}
        self._instances: dict[tuple[Collective, int], int] = {}
        self._known: dict[tuple[Collective, int, tuple[int, ...]], tuple[PhasePlan, ...]] = {}

    def _queue_directions(self, logical: LogicalDimension) -> Sequence[int]:
        """Which way round each queue of a dimension goes: as its topology says, or the first half one way, the others the other way."""
        if logical.physical is not None:
            topology = self._system.context.platform.dimensions[logical.physical].topology
            directions: Sequence[int] = getattr(topology, "queue_directions", ())
            if directions:
                return directions
        count = self._system.context.run.queues_per_dim
        return [1 if count == 1 or place < count // 2 else -1 for place in range(count)]

    def _make_stages(self, kind: Collective, dimensions: Sequence[LogicalDimension]) -> list[Stage]:
        """The dimensions of the program with their algorithms; both parts of a split dimension use its algorithm."""
        algorithms = self._system.algorithms[kind]
        stages = []
        for index, logical in enumerate(dimensions):
            algorithm = algorithms[min(logical.physical or 0, len(algorithms) - 1)]
            if algorithm.whole_platform:
                stages.append(Stage(index, self._system.context.platform.whole(), algorithm))
                break
            stages.append(Stage(index, logical, algorithm))
        return stages

    def issue(self, operation: Communicate, now_ps: int) -> list[ChunkPlan]:
        """Cut a collective into chunks and give each its phases."""
        group = self._part_of_platform(operation)
        if operation.algorithm or group is not None:
            return self._issue_in_one(operation, self._only_stage(operation, group))
        stages = self._stages[operation.collective]
        _check_whole_platform(stages[-1], operation.dimensions)
        priority = URGENT_PRIORITY if operation.urgent else None
        dimensions = [stage.logical for stage in stages if isinstance(stage.logical, LogicalDimension)]
        usable = [stage.dimension in operation.dimensions and stage.logical.size > 1 for stage in stages]
        sizes = self._chunks(operation, self._system.context.platform.npus, stages)
        self._order.begin(operation.collective, now_ps)
        chunks: list[ChunkPlan] = []
        size, rest = sizes[0], sum(sizes)
        while rest > 0:
            taken, order = self._order.chunk(operation.collective, rest, size, dimensions, usable)
            if not 0 < taken <= rest or sorted(order) != list(range(len(stages))):
                raise PluginError(f"{type(self._order).__name__} gives a chunk of {taken} bytes of {rest} the order {list(order)}")
            used = [stages[index] for index in order if usable[index]]
            if not used:
                return []
            chunks.append(ChunkPlan(priority, self._phases(operation.collective, taken, used)))
            rest -= taken
        return chunks

    def _part_of_platform(self, operation: Communicate) -> Group | None:
        """The members of a collective, None where they are all NPUs."""
        members = operation.group
        return Group(members) if members is not None and len(members) < self._system.context.platform.npus else None

    def _only_stage(self, operation: Communicate, group: Group | None) -> Stage:
        """All NPUs, or members in the order in which they are listed, as one dimension; chunks go through the queues of the first."""
        if operation.algorithm:
            algorithm = self._system.context.algorithm(operation.algorithm, "algorithm of one collective")
        else:
            algorithm = self.group_algorithm(operation.collective)
        return Stage(0, group or self._system.context.platform.whole(), algorithm)

    def _issue_in_one(self, operation: Communicate, stage: Stage) -> list[ChunkPlan]:
        if stage.logical.size == 1:
            return []
        priority = URGENT_PRIORITY if operation.urgent else None
        sizes = self._chunks(operation, stage.logical.size, [stage])
        return [ChunkPlan(priority, (self._phase(operation.collective, operation.collective, stage, size),)) for size in sizes]

    def repeats(self, operation: Communicate) -> bool:
        """Whether nothing takes turns."""
        group = self._part_of_platform(operation)
        if operation.algorithm or group is not None:
            return not self._takes_turns(self._only_stage(operation, group))
        stages = [stage for stage in self._stages[operation.collective] if stage.dimension in operation.dimensions]
        return not self._order.has_memory and not any(map(self._takes_turns, stages))

    def _takes_turns(self, stage: Stage) -> bool:
        return len(self._directions[stage.dimension]) > 1 or stage.algorithm.variants > 1

    def group_algorithm(self, collective: Collective) -> Algorithm:
        """The algorithm of a collective in a communicator group."""
        return self._system.algorithms[collective][0]

    def _chunks(self, operation: Communicate, npus: int, stages: Sequence[Stage]) -> list[int]:
        """Bytes of the chunks of a collective: one where an algorithm has messages of its own sizes. Raises InputError."""
        return self.chunk_sizes(operation, npus) if all(stage.algorithm.scales for stage in stages) else [operation.bytes]

    def chunk_sizes(self, operation: Communicate, npus: int) -> list[int]:
        """Bytes of the chunks of a collective, all equal but for the last. Raises InputError."""
        splits = self._system.options.splits
        size = operation.bytes // splits
        if size == 0:
            raise InputError(f"{operation.bytes} bytes cannot be cut into {splits} chunks (system: splits)")
        count, last = divmod(operation.bytes, size)
        return [size] * count + [last] * (last > 0)

    def queue_places(self, collective: Collective, kind: Collective, count: int) -> range:
        """The queues that a phase of a collective may use in turn, of `count` of a dimension."""
        return range(count)

    def endpoint_ps_of(self, algorithm: Algorithm) -> int | None:
        """The endpoint delay of phases with an algorithm, where it is not the system's."""
        return None

    def turns_round(self, collective: Collective, kind: Collective) -> bool:
        """Whether a phase of a collective goes anticlockwise where a dimension has one queue."""
        return False

    def _phases(self, collective: Collective, size: int, stages: Sequence[Stage]) -> tuple[PhasePlan, ...]:
        """The phases of a chunk. Where nothing takes turns, equal chunks have the same ones."""
        if any(map(self._takes_turns, stages)):
            return self._make_phases(collective, size, stages)
        key = collective, size, tuple(stage.dimension for stage in stages)
        if key not in self._known:
            self._known[key] = self._make_phases(collective, size, stages)
        return self._known[key]

    def _make_phases(self, collective: Collective, size: int, stages: Sequence[Stage]) -> tuple[PhasePlan, ...]:
        steps = [(collective, stage) for stage in stages]
        if collective is Collective.ALL_REDUCE and self._system.options.collective_optimization == "local_bw_aware":
            inner, last = (stages[:-1], stages[-1:]) if self._order.all_reduces_last else (stages, [])
            steps = [(Collective.REDUCE_SCATTER, stage) for stage in inner]
            steps += [(Collective.ALL_REDUCE, stage) for stage in last]
            steps += [(Collective.ALL_GATHER, stage) for stage in reversed(inner)]
        phases = []
        for kind, stage in steps:
            phase = self._phase(collective, kind, stage, size)
            phases.append(phase)
            size = phase.schedule.output_bytes
        return tuple(phases)

    def _phase(self, collective: Collective, kind: Collective, stage: Stage, size: int) -> PhasePlan:
        directions = self._directions[stage.dimension]
        places = self.queue_places(collective, kind, len(directions))
        anticlockwise = len(directions) == 1 and self.turns_round(collective, kind)
        turns = self._turns.setdefault((stage.dimension, places), Turns())
        place = places[turns.take(stage.logical) % len(places)]
        instance = self._instances.get((collective, stage.dimension), 0)
        self._instances[collective, stage.dimension] = instance + 1
        in_group = isinstance(stage.logical, Group)
        direction = -1 if anticlockwise else directions[place]
        schedule = stage.schedule(Request(kind, stage.logical.size, size, direction, instance % stage.algorithm.variants, in_group))
        queue = self._first_queue[stage.dimension] + place
        # A schedule may do another collective than it is asked for; queues go by what it does.
        endpoint_ps = self.endpoint_ps_of(stage.algorithm)
        if endpoint_ps is None and in_group:
            endpoint_ps = self._system.group_endpoint_ps
        return PhasePlan(stage.dimension, stage.logical, schedule.collective or kind, size, schedule, queue, endpoint_ps)
