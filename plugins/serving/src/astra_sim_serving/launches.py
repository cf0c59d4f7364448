"""Iterations on shared links: each is a run of the engine, whose messages are on a network that it shares with others.

The engine asks its network for the next arrival, and waits for the answer. So each run has a thread. One thread at a time does
something: that of a run goes on when it gets an answer, and gives control back when it asks again.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import attrs
from astra_sim.commands import Components, run_components
from astra_sim.graph import Communicate, Compute, ExecutionGraph, NpuProgram, Operation, Pass
from astra_sim.network import EventNetwork, Message, RouteColumns
from astra_sim.platform import GroupShape, Route
from astra_sim.schedule import Collective
from astra_sim.units import picoseconds

from astra_sim_serving.shared_links import PS_PER_S, Delivery, LazyUser, ServingLinks

_PS_PER_NS = 1000


class GroupCollective(NamedTuple):
    """A collective of `bytes` bytes that each NPU has at first, in all groups at once: numbers among the NPUs of an instance."""

    kind: Collective
    bytes: int
    groups: tuple[tuple[int, ...], ...]


LaunchStep = int | GroupCollective
"""Picoseconds of computing, or a collective."""


def graph_of(steps: Sequence[LaunchStep], npus: Sequence[int], components: Components) -> ExecutionGraph:
    """The graph in which NPUs of a platform do steps one after another, and all others nothing."""
    platform = components.platform
    every, dimensions = tuple(range(platform.npus)), tuple(range(len(platform.logical_dimensions())))
    divisions = list(dict.fromkeys(each.groups for each in steps if isinstance(each, GroupCollective)))
    alike: dict[tuple[tuple[int, ...] | None, ...], list[int]] = {}  # NPUs by their group in each division
    for number, npu in enumerate(npus):
        groups = tuple(next((group for group in division if number in group), None) for division in divisions)
        alike.setdefault(groups, []).append(npu)
    programs = []
    for groups, members in alike.items():
        group_of = dict(zip(divisions, groups, strict=True))
        operations: list[Operation] = []
        for step in steps:
            after = (len(operations) - 1,) if operations else ()
            if not isinstance(step, GroupCollective):
                operations.append(Compute(after, step))
            elif (group := group_of[step.groups]) is not None:
                ranks = tuple(npus[each] for each in group)
                operations.append(
                    Communicate(after, step.kind, step.bytes, dimensions, -1, Pass.FORWARD, group=None if ranks == every else ranks)
                )
        programs.append(NpuProgram(tuple(operations), tuple(members)))
    return graph_of_programs(programs, components)


def graph_of_programs(programs: Sequence[NpuProgram], components: Components) -> ExecutionGraph:
    """The graph of programs of some NPUs of a platform."""
    platform = components.platform
    first: tuple[Operation, ...] = ()  # of NPU 0, and of all that no other program names
    others = []
    for program in programs:
        if 0 in program.npus:
            first = tuple(program.operations)
        else:
            others.append(program)
    idle = set(range(platform.npus)).difference(*(program.npus for program in programs))
    if first and idle:
        others.append(NpuProgram((), tuple(sorted(idle))))
    return ExecutionGraph(first, platform.logical_dimensions(), (), None, tuple(others))


class GivenUp(BaseException):
    """Ends the thread of a run of which nothing is to be known any more."""


class _RunNetwork(EventNetwork):
    """The network of a run, whose messages are on another: the thread of the run waits here for what arrives."""

    def __init__(self, network: EventNetwork, launch: IterationLaunch) -> None:
        super().__init__(network.platform)
        self._network = network
        self._launch = launch
        self._completed: Sequence[int] = ()
        for name in ("has_traffic_classes", "device", "measured_dimensions", "accounting_dimension", "reports_completion", "held_bytes",
                     "route_rules"):  # fmt: skip
            setattr(self, name, getattr(network, name))

    def route(self, source: int, destination: int) -> Route:
        """The route on the other network."""
        return self._network.route(source, destination)

    def routes(self, source: int, destinations: Any) -> RouteColumns:
        """The routes on the other network."""
        return self._network.routes(source, destinations)

    def collective_ps(self, collective: Collective, size: int, shape: GroupShape) -> int | None:
        """The price on the other network."""
        return self._network.collective_ps(collective, size, shape)

    def inject(self, time: int, messages: Sequence[Message]) -> None:
        """Let messages be sent."""
        self._launch.send(time, messages)

    def advance(self, until: int | None) -> tuple[int, list[int]] | None:
        """Wait for an arrival."""
        delivery = self._launch.wait(until)
        if delivery is None:
            return None
        at, arrived, self._completed = delivery
        return at, list(arrived)

    def take_completed(self) -> Sequence[int]:
        """What came with the last arrival."""
        return self._completed


def _locked() -> threading.Lock:
    """A lock that one thread acquires when another has released it."""
    result = threading.Lock()
    result.acquire()
    return result


@attrs.frozen
class LaunchPlan:
    """The steps of an iteration, the time that they take alone, and the least time of the iteration (picoseconds)."""

    steps: Sequence[LaunchStep]
    steps_ps: int
    least_ps: int = 0


@attrs.define(eq=False)
class IterationLaunch(LazyUser):
    """An iteration of a replica, `what`, whose NPUs are `npus`."""

    what: Any
    plan: LaunchPlan
    npus: Sequence[int]
    components: Components
    links: ServingLinks
    alone_ps: int = attrs.field(init=False)
    start_ps: int = attrs.field(default=0, init=False)
    next_wake: int | None = attrs.field(default=None, init=False)
    has_ended: bool = attrs.field(default=False, init=False)
    _thread: threading.Thread | None = attrs.field(default=None, init=False)
    _go: threading.Lock = attrs.field(factory=_locked, init=False)
    _back: threading.Lock = attrs.field(factory=_locked, init=False)
    _under_way: int = attrs.field(default=0, init=False)
    _now: int = attrs.field(default=0, init=False)
    _answer: Delivery | None = attrs.field(default=None, init=False)
    _sent: list[Message] = attrs.field(factory=list, init=False)
    _flows: dict[int, int] = attrs.field(factory=dict, init=False)
    _finish_ps: int | None = attrs.field(default=None, init=False)
    _error: BaseException | None = attrs.field(default=None, init=False)
    _is_given_up: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self.alone_ps = max(self.plan.steps_ps, self.plan.least_ps)

    @property
    def spared_ps(self) -> int:
        """How much shorter the host shows, which works beside steps that took longer."""
        steps_ps = self.plan.steps_ps
        return 0 if self._finish_ps is None else max(0, min(self._finish_ps, self.plan.least_ps) - steps_ps)

    def wake(self, at: int) -> Sequence[Message]:
        """Begin, or go on: nothing has arrived by the time for which the engine asked."""
        if self._finish_ps is not None:
            self.has_ended = True
            return ()
        if self._thread is None:
            self.start_ps = at
            self._thread = threading.Thread(target=contextvars.copy_context().run, args=(self._run,), daemon=True)
            self._thread.start()
            return self._handed_back(at)
        return self._resume(at, None)

    def take(self, at: int, arrived: Sequence[int], completed: Sequence[int]) -> Sequence[Message]:
        """Tell the engine what has arrived."""
        self._under_way -= self._ended_of((at, arrived, completed))
        return self._resume(at, (at - self.start_ps, arrived, completed))

    def _ended_of(self, delivery: Delivery) -> int:
        """The number of messages of which nothing more is to be known."""
        return len(delivery[2] if self.links.network.reports_completion else delivery[1])

    def give_up(self) -> None:
        """End the thread."""
        if self._thread is not None and self._thread.is_alive():
            self._is_given_up = True
            self._go.release()
            self._thread.join()

    def _resume(self, at: int, answer: Delivery | None) -> Sequence[Message]:
        self._now, self._answer = at - self.start_ps, answer
        self._go.release()
        return self._handed_back(at)

    def _handed_back(self, at: int) -> Sequence[Message]:
        """What the run sends until it asks for the next arrival, or ends. Raises its errors."""
        self._back.acquire()
        if self._error is not None:
            raise self._error
        if self._finish_ps is not None:
            end = self.start_ps + max(self._finish_ps, self.plan.least_ps)
            self.next_wake, self.has_ended = end, end <= at
        sent, self._sent = self._sent, []
        return sent

    # -- In the thread of the run ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            run = attrs.evolve(self.components.run, symmetry=False)
            graph, network = graph_of(self.plan.steps, self.npus, self.components), _RunNetwork(self.links.network, self)
            components = attrs.evolve(self.components, graph=graph, network=network, run=run)
            result = run_components(components, "iteration", time.perf_counter())
            self._finish_ps = round(result.finish_ns * _PS_PER_NS)
        except BaseException as error:
            self._error = error
        finally:
            self._back.release()

    def wait(self, until: int | None) -> Delivery | None:
        """Give control back until something arrives, or `until` is reached: then None, and at once if nothing is under way.

        Times are those of the run.
        """
        if not self._under_way:
            return None
        if self.links.awake is self:
            at_end = None if until is None else self.start_ps + until
            sent, self._sent = self._sent, []
            is_known, delivery = self.links.answer(self, self.start_ps + self._now, sent, at_end)
            if delivery is not None:
                self._under_way -= self._ended_of(delivery)
                self._now = delivery[0] - self.start_ps
                return self._now, delivery[1], delivery[2]
            if is_known:
                assert until is not None
                self._now = until
                return None
        return self._give_back(until)

    def _give_back(self, until: int | None) -> Delivery | None:
        self.next_wake = None if until is None else self.start_ps + until
        self._back.release()
        self._go.acquire()
        if self._is_given_up:
            raise GivenUp
        return self._answer

    def send(self, at: int, messages: Sequence[Message]) -> None:
        """Send messages, when it is time: without messages under way the run has gone on."""
        if at > self._now:
            if not (self.links.awake is self and self.links.may_go_on(self.start_ps + at)):
                answer = self._give_back(at)
                assert answer is None
            self._now = at
        self._under_way += len(messages)
        for message in messages:
            if message.flow and message.flow not in self._flows:
                self._flows[message.flow] = self.links.new_flow()
            self._sent.append(message._replace(flow=self._flows.get(message.flow, 0)))


@attrs.frozen(eq=False)
class Launcher:
    """Begins iterations of the NPUs `npus` on shared links; `components` has the system and the engine."""

    links: ServingLinks
    components: Components
    npus: Sequence[int]

    def begin(self, what: Any, plan: LaunchPlan, now: float) -> IterationLaunch:
        """Let an iteration begin. Raises InputError if that is too late."""
        launch = IterationLaunch(what, plan, self.npus, self.components, self.links)
        self.links.begin(launch, picoseconds(now * PS_PER_S, f"{self.links.where}: the start of an iteration"))
        return launch
