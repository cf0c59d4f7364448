"""The context of factories of workloads and systems: the platform, the run, and other components by name.

Example:

A system layer whose algorithm is an option (communicator groups are left out). Its factory gets the context, which has algorithms by name.

    >>> import attrs
    >>> from astra_sim import option
    >>> from astra_sim.context import Algorithm, Context
    >>> from astra_sim.schedule import Collective, Request
    >>> from astra_sim.system import ChunkPlan, PhasePlan, QueuePlan, RuleOrder, System, SystemSession
    >>> @attrs.frozen
    ... class WholeOptions:
    ...     algorithm: str = option("ring", help="algorithm of all collectives", specs="collective")
    >>> class Whole(System):
    ...     def __init__(self, options: WholeOptions, context: Context) -> None:
    ...         self.algorithm = context.algorithm(options.algorithm, "algorithm")
    ...
    ...     def session(self, dimensions):
    ...         return WholeSession(self.algorithm, dimensions)
    >>> class WholeSession(SystemSession):
    ...     def __init__(self, algorithm: Algorithm, dimensions) -> None:
    ...         self.algorithm, self.dimensions = algorithm, dimensions
    ...         self.queues = [QueuePlan(slots=1, order=RuleOrder()) for _ in dimensions]
    ...
    ...     def issue(self, operation, now_ps):
    ...         size, phases = operation.bytes, []
    ...         for number in operation.dimensions:
    ...             ranks = self.dimensions[number]
    ...             schedule = self.algorithm.schedule(Request(operation.collective, ranks.size, size))
    ...             phases.append(PhasePlan(number, ranks, operation.collective, size, schedule, number, algorithm=self.algorithm.name))
    ...             size = schedule.output_bytes
    ...         return [ChunkPlan(None, tuple(phases))]

A workload that computes for 50 us and reduces 1 MB, with the factors of the run, by the algorithm that takes the least time by itself:

    >>> from astra_sim.graph import Communicate, Compute, ExecutionGraph, Pass
    >>> def fastest(context: Context) -> ExecutionGraph:
    ...     dimensions = context.platform.logical_dimensions()
    ...     size = round(1_000_000 * context.run.comm_scale)
    ...
    ...     def reduced_by(name):
    ...         return Communicate((0,), Collective.ALL_REDUCE, size, (0,), layer=0, training_pass=Pass.FORWARD, algorithm=name)
    ...
    ...     operations = [reduced_by(name) for name in ("ring", "halving_doubling", "direct")]
    ...     best = min(operations, key=lambda operation: context.time_alone_ps(operation, dimensions))
    ...     return ExecutionGraph([Compute((), context.scaled_ps(50_000.0), layer=0), best], dimensions, ("layer",))

A plugin offers both. The workload takes another algorithm if a thousandth of the bytes is reduced:

    >>> from astra_sim import Provider, hookimpl, simulate
    >>> from astra_sim.commands import Plugins
    >>> class Mine:
    ...     @hookimpl
    ...     def astra_systems(self):
    ...         return [Provider("whole", "One chunk, by one algorithm", Whole, WholeOptions)]
    ...
    ...     @hookimpl
    ...     def astra_workloads(self):
    ...         return [Provider("fastest", "An all-reduce by the fastest algorithm", fastest)]
    >>> plugins = Plugins()
    >>> plugins.register(Mine())
    >>> ring = "plugin:ring?size=8&links=2&link_bandwidth_gb_per_s=50&link_latency_ns=500"
    >>> experiment = {"workload": "plugin:collective?collective=all_reduce&bytes=1000000", "platform": ring, "network": "plugin:flow"}
    >>> [simulate(**experiment, system=f"plugin:whole?algorithm={name}", plugins=plugins).finish_ns for name in ("ring", "direct")]
    [42000, 51034.314]
    >>> for scale in (1, 0.001):
    ...     result = simulate(workload="plugin:fastest", platform=ring, network="plugin:flow", comm_scale=scale, plugins=plugins)
    ...     print(result.finish_ns, result.algorithms[0].algorithm)
    92150 ring
    54050 direct
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from astra_sim._boundary import call, shown
from astra_sim.compute import Compute
from astra_sim.errors import PluginError, ScheduleError, locating
from astra_sim.fabric import RouteRules
from astra_sim.graph import Communicate
from astra_sim.memo import cached
from astra_sim.platform import LogicalDimension, Platform
from astra_sim.providers import CollectiveProvider, Provider
from astra_sim.schedule import Request, Schedule
from astra_sim.schedule_bytes import check_bytes
from astra_sim.setup.groups import members_of
from astra_sim.setup.specs import component_of
from astra_sim.units import PS_PER_NS

if TYPE_CHECKING:
    from astra_sim.setup.plugins import Plugins
    from astra_sim.setup.run_options import RunOptions

__all__ = ["Algorithm", "Context"]

_STEPS_KEPT = 1_000_000


@attrs.define(eq=False)
class Algorithm:
    """A collective algorithm with its options, as a system layer uses it."""

    name: str
    whole_platform: bool
    variants: int
    scales: bool
    carries_delays: bool
    _make: Callable[[Request], Schedule]
    _schedules: dict[Request, Schedule] = attrs.field(factory=dict)
    _steps: int = 0

    def schedule(self, request: Request) -> Schedule:
        """The schedule for a request; equal requests get the same object.

        Raises ScheduleError if the algorithm refuses or its schedule does not fit the request, PluginError if it fails.
        """
        schedule = self._schedules.get(request)
        if schedule is None:
            schedule = call(f"collective {self.name!r}", self._make, request)
            if not isinstance(schedule, Schedule):
                raise PluginError(f"collective {self.name!r} returned {shown(schedule)}, which is not a Schedule")
            call(f"collective {self.name!r}", self._check, schedule, request)
            self._steps += sum(len(program.steps) for program in schedule.programs)
            if self._steps > _STEPS_KEPT:
                self._schedules.clear()
                self._steps = 0
            self._schedules[request] = schedule
        return schedule

    def unchecked(self, request: Request) -> Schedule:
        """What the algorithm returns for a request, or raises: neither checked nor kept. `Request.bytes` may be no number."""
        return self._make(request)

    def _check(self, schedule: Schedule, request: Request) -> None:
        try:
            schedule.check(request.ranks)
            check_bytes(schedule, request, self.scales)
        except ScheduleError as error:
            raise ScheduleError(f"collective {self.name!r}: {error}") from None


@attrs.frozen(eq=False)
class Context:
    """The context of factories of workloads and systems.

    `run` has the options of the run, `groups` the NPUs of each communicator group by name, in the order of ranks. `tick_ps` is the clock of
    the system in picoseconds; `replay_only` and `node_algorithms` are the system's, too (see `System`), so a system's own factory has
    the defaults of these three. `messages_wait` is true if messages wait for each other on the network, as links and NICs make them do,
    `held_bytes` how much of a message its nodes receive before they pass it on, and `route_rules` how it routes (see `EventNetwork`).
    `collectives_of` is the device on which the network's times were measured; "": on none (`Network.device`). `varies`: a section such as
    `[variation]` draws times.
    """

    plugins: Plugins
    platform: Platform
    run: RunOptions
    compute: Compute
    tick_ps: int = 1
    groups: Mapping[str, tuple[int, ...]] = attrs.field(factory=dict)
    groups_in_use: set[str] = attrs.field(factory=set, kw_only=True)
    replay_only: bool = False
    node_algorithms: Mapping[int, str] = attrs.field(factory=dict)
    _time_alone: Callable[[Communicate, Sequence[LogicalDimension]], int] | None = None
    _algorithms: dict[str, Algorithm] = attrs.field(factory=dict)
    messages_wait: bool = True
    held_bytes: float = 0.0
    route_rules: RouteRules = attrs.field(factory=RouteRules)
    collectives_of: str = ""
    varies: bool = False

    def scaled_ps(self, nanoseconds: float) -> int:
        """A compute time with the run's compute scale, in picoseconds, cut to the clock of the system."""
        ticks_per_ns = PS_PER_NS / self.tick_ps
        ticks = min(nanoseconds * self.run.compute_scale * ticks_per_ns, 2.0**64)
        return int(ticks if self.tick_ps > 1 else round(ticks)) * self.tick_ps

    def time_alone_ps(self, operation: Communicate, dimensions: Sequence[LogicalDimension]) -> int:
        """Picoseconds that a collective takes if all NPUs issue it at once and nothing else happens. For factories of workloads.

        `dimensions` are those of the graph that will have it. Raises InputError if the system layer refuses the collective,
        PluginError if there is no system layer yet.
        """
        if self._time_alone is None:
            raise PluginError("only a workload's factory can ask how long a collective takes: a system layer is not there yet")
        return self._time_alone(operation, dimensions)

    def members_of(self, group: str | None, where: str) -> tuple[int, ...] | None:
        """The NPUs of a communicator group, in the order of ranks; None for the group of all NPUs. Raises InputError if there is none."""
        members = members_of(self.groups, group, where)
        if members is not None:
            self.groups_in_use.add(str(group))
        return members

    def component(self, kind: str, spec: str, where: str) -> tuple[Provider, Any]:
        """The provider and options of a component named by another: `NAME` or `NAME?key=value`.

        Raises InputError beginning with `where`.
        """
        return component_of(self.plugins, kind, spec, where)

    def create(self, kind: str, spec: str, where: str, *arguments: Any) -> Any:
        """The result of the factory of a component named by another, from its options, if any, and `arguments`.

        Raises InputError beginning with `where`.
        """
        provider, options = self.component(kind, spec, where)
        with locating(where):
            return provider.instance_of(options, *arguments)

    def algorithm(self, spec: str, where: str) -> Algorithm:
        """The collective algorithm `NAME` or `NAME?key=value`. Raises InputError beginning with `where`."""
        if spec not in self._algorithms:
            provider, options = self.component("collective", spec, where)
            platform = self.platform if isinstance(provider, CollectiveProvider) and provider.takes_platform else None
            self._algorithms[spec] = (_pure_algorithm if provider.pure else _algorithm)(provider, options, platform)
        return self._algorithms[spec]


def _algorithm(provider: Provider, options: Any, platform: Platform | None) -> Algorithm:
    factory = provider.load_factory()
    more = (*(() if options is None else (options,)), *(() if platform is None else (platform,)))
    make = (lambda request: factory(request, *more)) if more else factory
    declared = provider if isinstance(provider, CollectiveProvider) else CollectiveProvider(provider.name, provider.summary, factory)
    return Algorithm(provider.name, declared.whole_platform, declared.variants, declared.scales, declared.carries_delays, make)


_pure_algorithm = cached("algorithms", 64)(_algorithm)
"""An algorithm that is kept from run to run, with its schedules."""
