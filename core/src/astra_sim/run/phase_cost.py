"""The time of a phase, computed once and in isolation.

On a network without contention, and when a phase ends everywhere at once, its duration depends on nothing but its schedule,
its dimension and its bytes. Three methods, each used if the simpler ones before it do not apply:

1. a chain: one message in flight per rank, the same for every rank: the sum of its steps;
2. one rank, whose sends come back as its own receives: the same for every rank, several messages in flight;
3. the whole group, message by message.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import repeat
from typing import NamedTuple

from astra_sim.engine.interface import (
    CAUSAL_KEY_LENGTH,
    COLLECTIVE,
    CONTROL_BYTES,
    CausalKey,
    Engine,
    LinkKind,
    PathEdge,
    PhaseStep,
    Task,
)
from astra_sim.engine.orders import Job
from astra_sim.errors import DeadlockError
from astra_sim.network import RouteDelayNetwork
from astra_sim.platform import LogicalDimension
from astra_sim.run.describe import describe_rank
from astra_sim.run.inputs import RunInputs
from astra_sim.run.routes import RunRoutes
from astra_sim.run.symmetry import ScheduleSymmetry
from astra_sim.schedule import Schedule, Step, lower


class PhaseCost(NamedTuple):
    """The cost of a phase: its duration, and its events on NPU 0.

    `causal_key` is that of the engine, in picoseconds back from the end. `delay_sum` adds the time from posting a receive to its
    message over the `received` messages of NPU 0.
    """

    duration_ps: int
    causal_key: CausalKey
    delay_sum: int
    received: int


_CostKey = tuple[Schedule, LogicalDimension, int, tuple[int, ...]]
"""The inputs of a phase's cost on a network: schedule, dimension, endpoint delay, and the time of each of its reductions."""


class PhaseTimer:
    """Computes the cost of phases on a network, each once in a run."""

    def __init__(self, inputs: RunInputs, routes: RunRoutes, symmetry: ScheduleSymmetry) -> None:
        assert isinstance(inputs.network, RouteDelayNetwork)
        self._network = inputs.network
        self._routes = routes
        self._symmetry = symmetry
        self._engine_type = inputs.engine
        self._endpoint_ps = inputs.system.endpoint_ps
        self._reduce_ps = inputs.reduce_ps
        self._rendezvous = inputs.system.rendezvous
        self._costs: dict[_CostKey, PhaseCost] = {}

    def cost(self, schedule: Schedule, dimension: LogicalDimension, endpoint_ps: int | None = None) -> PhaseCost:
        """The cost of a phase of `schedule` on all groups of `dimension` at once; `endpoint_ps` replaces the endpoint delay.

        It is one for all groups, or all ranks of them are alike: see `symmetry.suits`.
        """
        endpoint_ps = self._endpoint_ps if endpoint_ps is None else endpoint_ps
        key = schedule, dimension, endpoint_ps, tuple(map(self._reduce_ps, schedule.reduced_bytes))
        cost = self._costs.get(key)
        if cost is None:
            cost = self._costs[key] = self._compute(schedule, dimension, endpoint_ps)
        return cost

    def _compute(self, schedule: Schedule, dimension: LogicalDimension, endpoint_ps: int) -> PhaseCost:
        # Most algorithms are chains (ring, halving-doubling, trees): a sum instead of a simulation. Of the others one rank is simulated
        # if all do the same, else one group, since groups of a dimension do not meet.
        if self._symmetry.is_symmetric(schedule, dimension):
            return self._chain(schedule, dimension, endpoint_ps) or self._simulate(schedule, dimension, endpoint_ps, 1)
        return self._simulate(schedule, dimension, endpoint_ps, dimension.size)

    def _chain(self, schedule: Schedule, dimension: LogicalDimension, endpoint: int) -> PhaseCost | None:
        """The sum of the steps, if every send waits for the message before it."""
        if not _is_chain(schedule):
            return None
        duration, delay_sum, received = endpoint, 0, 0
        causal_key: list[int] = []  # picoseconds back from the end, so the last message comes first
        back = 0
        # From the last step back to the first: the causal key that breaks ties has the latest times only, so after eight of them steps
        # just add up, however many there are.
        for step in reversed(schedule.programs[0].steps):
            memory = (self._reduce_ps(step.memory_bytes) if step.memory_bytes else 0) + step.compute_ps
            for delay, request, times in self._repetitions(step, dimension):
                delay_sum += times * (request + delay)
                received += times
                each = request + delay + endpoint + memory
                duration += times * each
                for number in range(times):
                    if len(causal_key) >= CAUSAL_KEY_LENGTH:
                        break
                    arrived = back + number * each + memory + endpoint
                    causal_key += (arrived - endpoint, arrived) if step.memory_bytes or step.compute_ps else (arrived,)
                    causal_key += (arrived + delay, arrived + delay + request) if self._rendezvous else (arrived + delay,)
                back += times * each
        return PhaseCost(duration, tuple([*causal_key, duration][:CAUSAL_KEY_LENGTH]), delay_sum, received)

    def _repetitions(self, step: Step, dimension: LogicalDimension) -> Iterable[tuple[int, int, int]]:
        """The time of a message of a step, the time of its request, and the number of such steps; the last ones come first."""
        assert step.send_to is not None
        assert step.receive_from is not None
        # The request goes the other way, which may be longer or shorter.
        if not step.stride:  # as of most steps: all to one peer
            delay = self._network.delay(self._routes.to(step.send_to, dimension), step.bytes)
            request = self._network.delay(self._routes.to(step.receive_from, dimension), CONTROL_BYTES) if self._rendezvous else 0
            return ((delay, request, step.times),)
        assert step.targets is not None
        assert step.sources is not None
        delays = self._network.delays(self._routes.columns(step.targets, dimension), step.bytes)
        requests: Iterable[int] = repeat(0, len(delays))
        if self._rendezvous:
            requests = reversed(self._network.delays(self._routes.columns(step.sources, dimension), CONTROL_BYTES))
        return zip(reversed(delays), requests, repeat(step.times // len(delays)), strict=False)

    def links(self, schedule: Schedule, dimension: LogicalDimension, endpoint_ps: int | None = None) -> Counter[PathEdge]:
        """The links of the critical path of a phase whose cost is known, each from 0 on, and how many there are like it.

        Their lengths add up to the duration of the phase.
        """
        endpoint_ps = self._endpoint_ps if endpoint_ps is None else endpoint_ps
        symmetric = self._symmetry.is_symmetric(schedule, dimension)
        if symmetric and _is_chain(schedule):
            return self._links_of_chain(schedule, dimension, endpoint_ps)
        ranks = 1 if symmetric else dimension.size
        engine, _ = self._run(schedule, dimension, endpoint_ps, ranks, keep_causes=True)
        # Counted, because the thousands of steps of a ring differ in nothing but when they begin.
        return Counter(link._replace(begin=0, end=link.end - link.begin) for link in engine.record.critical_path())

    def _links_of_chain(self, schedule: Schedule, dimension: LogicalDimension, endpoint: int) -> Counter[PathEdge]:
        """The links of a phase that is a chain, as the sum of its steps has them."""
        group = dimension.group(0)
        result = Counter({_link(LinkKind.TOKEN, endpoint): 1})
        for step in (once for each in schedule.programs[0].steps for once in (each.unrolled() if each.stride else (each,))):
            assert step.send_to is not None
            assert step.receive_from is not None
            to, source = (group[peer.of(0, dimension.size)] for peer in (step.send_to, step.receive_from))
            delay = self._network.delay(self._routes.to(step.send_to, dimension), step.bytes)
            memory = (self._reduce_ps(step.memory_bytes) if step.memory_bytes else 0) + step.compute_ps
            if self._rendezvous:
                request = self._network.delay(self._routes.to(step.receive_from, dimension), CONTROL_BYTES)
                result[_link(LinkKind.REQUEST, request, source, CONTROL_BYTES)] += step.times
            result[_link(LinkKind.MESSAGE, delay, to, step.bytes)] += step.times
            result[_link(LinkKind.TOKEN, endpoint + memory)] += step.times
        return result

    def _simulate(self, schedule: Schedule, dimension: LogicalDimension, endpoint_ps: int, ranks: int) -> PhaseCost:
        """Simulate the first `ranks` ranks of the group of NPU 0, and nothing else; one rank represents all."""
        engine, phase = self._run(schedule, dimension, endpoint_ps, ranks)
        blocked_ranks = engine.record.blocked_ranks()
        if blocked_ranks:
            waiting = [line for state in blocked_ranks for line in describe_rank(state)]
            raise DeadlockError(f"a schedule of {schedule.ranks} ranks cannot finish: " + "; ".join(waiting[:8]), waiting)
        first = engine.record.phase_steps(0)[0]
        return PhaseCost(engine.now, tuple(engine.now - time for time in engine.record.causal_key(phase)), first.delay_sum, first.received)

    def _run(
        self, schedule: Schedule, dimension: LogicalDimension, endpoint_ps: int, ranks: int, keep_causes: bool = False
    ) -> tuple[Engine, int]:
        """An engine that has run a phase of the first `ranks` ranks of the group of NPU 0, and the number of the phase."""
        group = dimension.group(0)
        engine = self._engine_type(group[ranks - 1] + 1, self._network, endpoint_ps, self._reduce_ps, self._rendezvous)
        if keep_causes:
            engine.record.keep_causes()
        groups = engine.add_groups([group], dimension, loop_back=ranks == 1)
        phase = engine.add_phase(engine.add_schedule(lower(schedule), groups))
        engine.add_program([Task(COLLECTIVE, 0)], group[:ranks], lambda task, now: [[PhaseStep(Job(0, "", 0, 0), phase=phase)]])
        engine.run()
        return engine, phase


def _is_chain(schedule: Schedule) -> bool:
    """Whether every send of a schedule that all ranks share waits for the message before it."""
    program = schedule.programs[0]
    # Messages that are in flight together overlap, and a sum of steps would count the time of each.
    return program.starts == 1 and all(step.after is None and not step.after_arrivals for step in program.steps)


def _link(kind: LinkKind, ps: int, to: int = -1, size: int = 0) -> PathEdge:
    """A link from NPU 0."""
    return PathEdge(kind, 0, ps, 0, 0, 0, to, size)
