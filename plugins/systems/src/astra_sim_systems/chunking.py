"""A system layer that cuts collectives into chunks, as those of ASTRA-sim do.

A collective is cut into chunks. Every chunk passes through the dimensions in phases, each phase in a queue of its dimension. A queue
runs a limited number of chunks at a time; the others wait in the queue's order. Differences between simulators are in `Rules`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import attrs
from astra_sim import InputError
from astra_sim.context import Algorithm, Context
from astra_sim.errors import AstraError, PluginError, located
from astra_sim.graph import Communicate
from astra_sim.platform import Group, LogicalDimension
from astra_sim.schedule import Collective, Request, Schedule
from astra_sim.system import ChunkPlan, DimensionOrder, PhasePlan, QueueAssignment, QueuePlan, System, SystemSession
from astra_sim.units import PS_PER_NS, scaled_float32
from astra_sim.value_objects import ValueObject

from astra_sim_systems.algorithms import TooFewAlgorithms, algorithm_across, algorithms_of, designed_algorithm
from astra_sim_systems.bus import bus_of
from astra_sim_systems.choice import AutoAlgorithm, Selection
from astra_sim_systems.options import ChunkingOptions
from astra_sim_systems.overheads import overhead_of
from astra_sim_systems.plan_cache import CachedPlan, PhasesKey, PlanCache, PlanKey, plan_cache
from astra_sim_systems.queues import SlotRule, SystemQueues

URGENT_PRIORITY = 100_000_000


@attrs.frozen(eq=False, repr=False)
class PhaseStage(ValueObject):
    """A dimension as one kind of collective uses it, or a communicator group, which uses the queues of a dimension."""

    dimension: int
    logical: LogicalDimension | Group
    algorithm: Algorithm

    def pick(self, request: Request) -> Selection:
        """The algorithm of a phase here, and why."""
        return self.algorithm.pick(request, self.logical) if isinstance(self.algorithm, AutoAlgorithm) else Selection(self.algorithm, "")

    def schedule(self, algorithm: Algorithm, request: Request) -> Schedule:
        """The schedule of a phase here. Raises ScheduleError naming the dimension or group."""
        try:
            return algorithm.schedule(request)
        except AstraError as error:
            where = f"group {list(self.logical.members)}" if isinstance(self.logical, Group) else f"dimension {self.dimension}"
            raise located(error, where) from None


def _check_whole_platform(stage: PhaseStage, dimensions: Sequence[int]) -> None:
    """Raise InputError if a stage that runs over the whole platform would be left out, with dimensions that only it serves.

    It counts as its first dimension.
    """
    left_out = stage.dimension not in dimensions and any(dimension > stage.dimension for dimension in dimensions)
    if stage.algorithm.whole_platform and left_out:
        raise InputError(
            f"{stage.algorithm.name} runs over the whole platform, and only dimensions {list(dimensions)} are involved,"
            f" not dimension {stage.dimension}; expected an algorithm for each dimension"
        )


def _content(algorithm: Algorithm) -> Hashable:
    """The key of an algorithm: itself, or the key of its choices."""
    return algorithm.content if isinstance(algorithm, AutoAlgorithm) else algorithm


@attrs.frozen(eq=False, repr=False)
class ChunkingRules(ValueObject):
    """The differences between system layers.

    `chunk_sizes` gives the bytes of a collective's chunks (collective, bytes, splits, NPUs that take part) and raises InputError if
    they cannot be cut; `slots` the queues that a phase may use, with its direction; `group_algorithm` the algorithm of a collective in
    a communicator group; `endpoint_ps` the endpoint delay of phases (algorithm, whether in a group) if it is not the system's;
    `check` raises InputError for a collective that the system refuses.
    """

    chunk_sizes: Callable[[Collective, int, int, int], list[int]]
    slots: SlotRule
    group_algorithm: Callable[[Collective], Algorithm]
    endpoint_ps: Callable[[Algorithm, bool], int | None] = lambda algorithm, in_group: None
    check: Callable[[Communicate], None] = lambda operation: None


def _traffic_classes(options: ChunkingOptions, dimensions: int) -> Sequence[int]:
    """The class of each dimension of a program, -1 if the network chooses. Raises InputError if the options have too many or few."""
    classes = [each or -1 for each in options.traffic_classes or (0,)]
    if len(classes) == 1:
        return classes * dimensions
    if len(classes) != dimensions:
        raise InputError(
            f"traffic_classes is {list(options.traffic_classes)}, {len(classes)} classes; expected one for all, or one for each of the"
            f" {dimensions} dimensions of the program"
        )
    return classes


class ChunkingSystem(System):
    """The common base of system layers with chunks: times, the algorithms of dimensions, and orders of queues and dimensions.

    Computing times are cut to a clock of 1 ns. A subclass sets `rules`, and `may_lack_algorithms` if a kind of collective may have fewer
    algorithms than there are dimensions as long as no collective is of this kind. `lacking` holds the error of each such kind.
    """

    tick_ps = PS_PER_NS
    rules: ChunkingRules
    may_lack_algorithms = False

    def __init__(self, options: ChunkingOptions, context: Context) -> None:
        # ASTRA-sim 1.0 multiplies the delay by a 32-bit scale and cuts the product to whole nanoseconds, also with a scale of 1.
        self.endpoint_ps = scaled_float32(options.endpoint_delay_ns, context.run.injection_scale) * PS_PER_NS
        self.rendezvous = context.run.rendezvous
        self.own_orders = options.admission == "own"
        self.own_orders_advice = "with admission=common (system; here it is own) they do so in one order"
        if options.active_chunks_per_dimension < options.splits:
            self.own_orders_advice += (
                f"; if all chunks of a collective run at a time none waits for another: active_chunks_per_dimension is"
                f" {options.active_chunks_per_dimension}, expected at least splits, {options.splits}"
            )
        self.bus = bus_of(options)
        self.send_overhead_ps = overhead_of(options.send_overhead_ns, options.overhead_per_byte_ns)
        self.receive_overhead_ps = overhead_of(options.receive_overhead_ns, options.overhead_per_byte_ns)
        self.overhead_on_compute = options.overhead_on == "compute"
        self.send_class = options.send_traffic_class or -1
        self.context = context
        self.options = options
        endpoint_ns = self.endpoint_ps / PS_PER_NS
        self.algorithms: dict[Collective, list[Algorithm]] = {}
        self.across: dict[Collective, Algorithm] = {}
        self.designed: dict[Collective, Algorithm] = {}
        self.lacking: dict[Collective, InputError] = {}
        for kind in Collective:
            chosen = getattr(options, kind.value)
            designed = designed_algorithm(kind, chosen, context)
            if designed is not None:
                self.designed[kind] = designed
            try:
                algorithms = self.algorithms[kind] = algorithms_of(kind, chosen, endpoint_ns, context)
            except TooFewAlgorithms as error:
                if not self.may_lack_algorithms:
                    raise
                self.lacking[kind] = error
            else:
                self.across[kind] = algorithm_across(kind, chosen, algorithms, endpoint_ns, context)
        self.order = self._scheduler("intra_dimension_scheduling", "queue")
        self.dimension_order()

    def session(self, dimensions: Sequence[LogicalDimension]) -> SystemSession:
        """A new session."""
        return Session(self, dimensions)

    def dimension_order(self) -> DimensionOrder:
        """The chosen order of dimensions, in its first state."""
        order = self._scheduler("inter_dimension_scheduling", "dimensions", self.context.platform)
        if not isinstance(order, DimensionOrder):
            spec = self.options.inter_dimension_scheduling
            raise PluginError(f"inter_dimension_scheduling: {spec} made {order!r}, which is not a DimensionOrder")
        return order

    def _scheduler(self, key: str, orders: str, *arguments: Any) -> Any:
        """The object of a scheduler plugin, which must order queues or dimensions."""
        spec = getattr(self.options, key)
        provider, _ = self.context.component("scheduler", spec, key)
        value = getattr(provider, "orders", None)
        if value != orders:
            raise InputError(f"{key}: {spec} is an order of {value}; expected one of {orders}")
        order = self.context.create("scheduler", spec, key, *arguments)
        if orders == "queue" and not callable(order):
            raise PluginError(f"{key}: {spec} made {order!r}, which cannot be called")
        return order


class Session(SystemSession):
    """A run's chunks, phases and queues."""

    def __init__(self, system: ChunkingSystem, dimensions: Sequence[LogicalDimension]) -> None:
        self._rules = system.rules
        self._options = system.options
        self._context = system.context
        platform = self._platform = system.context.platform
        self._dimensions, self._designed = dimensions, system.designed
        self._queues = SystemQueues(dimensions, platform, system.context.run.queues_per_dim, system.rules.slots)
        active = system.options.active_chunks_per_dimension
        self.queues = [
            # Rounded up for each queue, as ASTRA-sim does: 5 active chunks in 4 queues are 2 in each, 8 in all.
            QueuePlan(-(-active // len(of_queues)), system.order, traffic_class)
            for of_queues, traffic_class in zip(self._queues.directions, _traffic_classes(system.options, len(dimensions)), strict=True)
            for _ in of_queues
        ]
        self._lacking = system.lacking
        self._stages = {
            kind: self._make_stages(algorithms, system.across[kind], dimensions) for kind, algorithms in system.algorithms.items()
        }
        self._order = system.dimension_order()
        self.cuts_by_bandwidth = self._order.cuts_by_bandwidth
        self.later_first = system.options.scheduling_policy == "lifo"
        self._instances: dict[tuple[Collective, int], int] = {}
        self._known: dict[PhasesKey, tuple[PhasePlan, ...]] = {}
        self._asked: dict[PhasesKey, tuple[PhasePlan, ...]] = {}
        self._repeats: dict[tuple[Collective, tuple[int, ...]], bool] = {}
        content = self.content
        self._cache: PlanCache | None = None if content is None else plan_cache(content)

    @property
    def content(self) -> Hashable | None:
        """The key of its plans of collectives over dimensions; None if an order depends on earlier ones.

        Algorithms and orders represent themselves: those that may be kept are the same objects in all runs.
        """
        if self._order.has_memory:
            return None
        rules, options = self._rules, self._options
        stages = [
            (kind, stage.dimension, stage.logical, getattr(stage.logical, "name", ""), _content(stage.algorithm))
            for kind, of_kind in self._stages.items()
            for stage in of_kind
        ]
        directions = tuple(tuple(each) for each in self._queues.directions)
        how = rules.chunk_sizes, rules.slots, rules.endpoint_ps, options.splits, options.collective_optimization
        return (self._order, *how, directions, self._platform.npus, *stages)

    def _make_stages(self, algorithms: Sequence[Algorithm], across: Algorithm, dimensions: Sequence[LogicalDimension]) -> list[PhaseStage]:
        """The dimensions of the program with their algorithms; both parts of a split dimension use its algorithm.

        Those that reach over several dimensions of the platform use `across`.
        """
        stages = []
        for index, logical in enumerate(dimensions):
            algorithm = across if logical.physical is None else algorithms[min(logical.physical, len(algorithms) - 1)]
            if algorithm.whole_platform:
                # One dimension of all NPUs replaces this one and those after it, at its place in the list (oneRing of ASTRA-sim).
                stages.append(PhaseStage(index, self._platform.whole(), algorithm))
                break
            stages.append(PhaseStage(index, logical, algorithm))
        return stages

    def issue(self, operation: Communicate, now_ps: int) -> Sequence[ChunkPlan]:
        """Cut a collective into chunks and give each its phases. A cached plan is a tuple."""
        self._check(operation)
        group = self._part_of_platform(operation)
        if self._is_in_one(operation, group):
            return self._issue_in_one(operation, self._only_stage(operation, group))
        if self._cache is None or not self._repeats_over_dimensions(operation):
            return self._issue(operation, now_ps)
        key: PlanKey = operation.collective, operation.bytes, operation.dimensions, operation.urgent
        plan = self._cache.get(key)
        if plan is not None:
            self._count(plan)
            return plan.chunks
        self._asked.clear()
        plan = CachedPlan(tuple(self._issue(operation, now_ps)), tuple(self._asked.items()))
        self._cache.add(key, plan, plan.size)
        return plan.chunks

    def _count(self, plan: CachedPlan) -> None:
        """Count the phases of a plan that was kept as if they had been made."""
        for key, phases in plan.phases:
            if key not in self._known:
                self._known[key] = phases
                for phase in phases:
                    place = key[0], phase.dimension
                    self._instances[place] = self._instances.get(place, 0) + 1

    def _issue(self, operation: Communicate, now_ps: int) -> list[ChunkPlan]:
        """The same for a collective over dimensions, planned anew."""
        # Also the reduce-scatters and all-gathers of an all-reduce run the algorithms of `all_reduce`, as in ASTRA-sim 1.0.
        stages = self._stages[operation.collective]
        _check_whole_platform(stages[-1], operation.dimensions)
        priority = URGENT_PRIORITY if operation.urgent else None
        dimensions = [stage.logical for stage in stages if isinstance(stage.logical, LogicalDimension)]
        usable = [stage.dimension in operation.dimensions and stage.logical.size > 1 for stage in stages]
        sizes = self._chunk_sizes(operation, self._platform.npus, stages)
        self._order.begin(operation.collective, now_ps)
        round_robin = any(self._is_round_robin(stage) for stage, involved in zip(stages, usable, strict=True) if involved)
        alike: dict[tuple[int, tuple[int, ...]], ChunkPlan] = {}
        chunks: list[ChunkPlan] = []
        size, rest = sizes[0], sum(sizes)
        while rest > 0:
            taken, order = self._order.chunk(operation.collective, rest, size, dimensions, usable)
            key = taken, tuple(order)
            chunk = alike.get(key)
            # An order of another package may repeat an answer that was right for earlier chunks and is more than is left now.
            if chunk is None or taken > rest:
                if not 0 < taken <= rest or sorted(order) != list(range(len(stages))):
                    raise PluginError(f"{type(self._order).__name__} gives a chunk of {taken} bytes of {rest} the order {list(order)}")
                used = [stages[index] for index in order if usable[index]]
                # ASTRA-sim 1.0 asks for an order first, too: a collective without a usable dimension takes a step of the round robin.
                if not used:
                    return []
                chunk = ChunkPlan(priority, self._phases(operation.collective, taken, used))
                # Chunks that are alike in bytes and order still differ if the next queue, or the other tree, has its turn.
                if not round_robin:
                    alike[key] = chunk
            chunks.append(chunk)
            rest -= taken
        return chunks

    def _check(self, operation: Communicate) -> None:
        """Raise InputError for a collective that the system refuses, or for which it has too few algorithms."""
        self._rules.check(operation)
        # A collective that brings its algorithm (`node_algorithms`) needs none of its kind in the system file.
        if operation.collective in self._lacking and not operation.algorithm:
            raise InputError(str(self._lacking[operation.collective]))

    def assign_queue(self, operation: Communicate, dimension: int, logical: LogicalDimension | Group) -> QueueAssignment:
        """The queue of the dimension whose turn it is."""
        self._check(operation)
        queue, _ = self._queues.take(operation.collective, operation.collective, dimension, logical)
        return QueueAssignment(queue, URGENT_PRIORITY if operation.urgent else None)

    def repeats(self, operation: Communicate) -> bool:
        """Whether nothing takes turns."""
        self._check(operation)
        group = self._part_of_platform(operation)
        if self._is_in_one(operation, group):
            return not self._is_round_robin(self._only_stage(operation, group))
        return self._repeats_over_dimensions(operation)

    def _repeats_over_dimensions(self, operation: Communicate) -> bool:
        key = operation.collective, operation.dimensions
        if key not in self._repeats:
            stages = [stage for stage in self._stages[operation.collective] if stage.dimension in operation.dimensions]
            self._repeats[key] = not self._order.has_memory and not any(map(self._is_round_robin, stages))
        return self._repeats[key]

    def _is_round_robin(self, stage: PhaseStage) -> bool:
        return self._queues.take_turns(stage.dimension) or stage.algorithm.variants > 1

    def _part_of_platform(self, operation: Communicate) -> Group | None:
        """The members of a collective, None if they are all NPUs."""
        members = operation.group
        return Group(members) if members is not None and len(members) < self._platform.npus else None

    def _is_in_one(self, operation: Communicate, group: Group | None) -> bool:
        """Whether a collective is one phase: it has an algorithm of its own, or is of some NPUs, or of all with a designed algorithm."""
        if operation.algorithm or group is not None:
            return True
        sizes = (self._dimensions[number].size for number in operation.dimensions)
        return operation.collective in self._designed and math.prod(sizes) == self._platform.npus

    def _only_stage(self, operation: Communicate, group: Group | None) -> PhaseStage:
        """All NPUs, or members in the order in which they are listed, as one dimension; chunks go through the queues of the first."""
        if operation.algorithm:
            algorithm = self._context.algorithm(operation.algorithm, "algorithm of one collective")
        elif group is None and operation.collective in self._designed:
            algorithm = self._designed[operation.collective]
        else:
            algorithm = self._rules.group_algorithm(operation.collective)
        return PhaseStage(0, group or self._platform.whole(), algorithm)

    def _issue_in_one(self, operation: Communicate, stage: PhaseStage) -> list[ChunkPlan]:
        if stage.logical.size == 1:
            return []
        priority = URGENT_PRIORITY if operation.urgent else None
        sizes = self._chunk_sizes(operation, stage.logical.size, [stage])
        return [ChunkPlan(priority, (self._phase(operation.collective, operation.collective, stage, size),)) for size in sizes]

    def _chunk_sizes(self, operation: Communicate, npus: int, stages: Sequence[PhaseStage]) -> list[int]:
        """Bytes of the chunks of a collective: one if an algorithm has messages of its own sizes. Raises InputError."""
        # Traces have messages of their own sizes. ASTRA-sim 2.x cuts such collectives, too, and ends before any NPU has finished.
        if not all(stage.algorithm.scales for stage in stages):
            return [operation.bytes]
        return self._rules.chunk_sizes(operation.collective, operation.bytes, self._options.splits, npus)

    def _phases(self, collective: Collective, size: int, stages: Sequence[PhaseStage]) -> tuple[PhasePlan, ...]:
        """The phases of a chunk. If nothing takes turns, equal chunks have the same ones."""
        if any(map(self._is_round_robin, stages)):
            return self._make_phases(collective, size, stages)
        # Collectives of equal size, such as those of a model's layers, share schedules, which are made once.
        key = collective, size, tuple(stage.dimension for stage in stages)
        if key not in self._known:
            self._known[key] = self._make_phases(collective, size, stages)
        self._asked[key] = self._known[key]
        return self._known[key]

    def _make_phases(self, collective: Collective, size: int, stages: Sequence[PhaseStage]) -> tuple[PhasePlan, ...]:
        """The phases of a chunk; `local_bw_aware` reduces in the inner dimensions and all-reduces in the last one only."""
        steps = [(collective, stage) for stage in stages]
        if collective is Collective.ALL_REDUCE and self._options.collective_optimization == "local_bw_aware":
            # The last dimension has the rest of the chunk after all others reduced it: there one all-reduce does the work of a
            # reduce-scatter and an all-gather.
            # Themis orders dimensions anew for each chunk and has no all-reduce on the last: both halves cross all of them (ASTRA-sim 1.0).
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

    def _phase(self, collective: Collective, kind: Collective, stage: PhaseStage, size: int) -> PhasePlan:
        """The phase of one stage: its queue, algorithm, schedule and endpoint delay."""
        # Queues take turns when phases are planned, not when they start: the allocator of ASTRA-sim advances at each creation.
        queue, direction = self._queues.take(collective, kind, stage.dimension, stage.logical)
        # The two trees of a double binary tree alternate by kind of collective and dimension, in the order of creation (ASTRA-sim 1.0).
        instance = self._instances.get((collective, stage.dimension), 0)
        self._instances[collective, stage.dimension] = instance + 1
        in_group = isinstance(stage.logical, Group)
        request = Request(kind, stage.logical.size, size, direction, instance % stage.algorithm.variants, in_group)
        pick = stage.pick(request)
        schedule = stage.schedule(pick.algorithm, request)
        endpoint_ps = self._rules.endpoint_ps(pick.algorithm, in_group)
        # A schedule may perform another collective than the requested one; queues go by the performed one.
        collective = schedule.collective or kind
        return PhasePlan(
            dimension=stage.dimension,
            logical=stage.logical,
            collective=collective,
            bytes=size,
            schedule=schedule,
            queue=queue,
            endpoint_ps=endpoint_ps,
            counted=None,
            algorithm=pick.algorithm.name,
            reason=pick.reason,
        )
