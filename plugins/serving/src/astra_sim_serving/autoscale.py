"""Autoscaling: the number of running instances of a pool, decided every period from their load.

The rule is that of the horizontal autoscaler of Kubernetes: as many instances as now, times the metric over its target, rounded up, unless
the two are within a tenth of each other. Fewer instances are wanted only when no decision of the last `down_after_s` seconds wanted more.
An instance that starts takes requests after `cold_start_s`; one that stops ends those that it has first.
"""

from __future__ import annotations

import enum
import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import attrs

from astra_sim_serving.instance import ServingInstance
from astra_sim_serving.options import AutoscaleOptions

TOLERANCE = 0.1
"""Relative difference of metric and target that changes nothing."""


class InstanceLoad(NamedTuple):
    """What decisions see of an instance: requests that wait, blocks in use, and requests that it has or gets from another."""

    waiting: int
    used_blocks: int
    held: int


def load_of(instance: ServingInstance) -> InstanceLoad:
    """The load of an instance now."""
    scheduler = instance.scheduler
    return InstanceLoad(len(scheduler.waiting), scheduler.cache.used_blocks, instance.requests + instance.coming)


class State(enum.Enum):
    """The state of an instance."""

    OFF = "off"
    STARTING = "starting"
    ON = "on"
    DRAINING = "draining"


@attrs.define(eq=False)
class ScaledUnit:
    """An instance with all its ranks, which starts and stops as a whole. `npu_s` counts the seconds of its NPUs, but for those `since`."""

    pool: int
    npus: int
    instances: Sequence[ServingInstance]
    state: State = State.ON
    npu_s: float = 0.0
    since: float = 0.0

    def become(self, state: State, now: float) -> None:
        """Change the state, and count the time until now if its NPUs were in use."""
        if self.state is not State.OFF:
            self.npu_s += (now - self.since) * self.npus
        self.state, self.since = state, now


@attrs.define(eq=False)
class Pool:
    """Equal instances, and the decision for them. `arrived` and `ttfts` are of the period that is under way."""

    units: Sequence[ScaledUnit]
    arrived: int = 0
    ttfts: list[float] = attrs.field(factory=list)
    wanted: deque[tuple[float, int]] = attrs.field(factory=deque)
    starts: int = 0
    stops: int = 0

    def count(self, *states: State) -> int:
        """Instances in one of these states."""
        return sum(each.state in states for each in self.units)


@attrs.define(eq=False)
class Autoscaler:
    """Starts and stops instances of pools. `load`: that of an instance now."""

    options: AutoscaleOptions
    pools: Sequence[Pool]
    load: Callable[[ServingInstance], InstanceLoad] = load_of

    @property
    def takers(self) -> list[ServingInstance]:
        """The instances that take requests, in order."""
        return [each for pool in self.pools for unit in pool.units if unit.state is State.ON for each in unit.instances]

    def begin(self) -> None:
        """Let as many instances run as there are at least."""
        for pool in self.pools:
            for unit in pool.units[self.options.minimum :]:
                unit.become(State.OFF, 0.0)

    def step(self, now: float) -> list[ScaledUnit]:
        """Decide for each pool, and stop instances if there are too many. Returns those that start now."""
        started = []
        for pool in self.pools:
            wanted = self._wanted(pool, now)
            running = pool.count(State.ON, State.STARTING)
            for unit in pool.units:
                if running < wanted and unit.state is State.DRAINING:  # it is still warm
                    unit.become(State.ON, now)
                    running += 1
            for unit in pool.units:
                if running < wanted and unit.state is State.OFF:
                    unit.become(State.STARTING, now)
                    started.append(unit)
                    pool.starts += 1
                    running += 1
            for unit in reversed(pool.units):
                if running > wanted and unit.state is State.ON and pool.count(State.ON) > 1:
                    unit.become(State.DRAINING, now)
                    pool.stops += 1
                    running -= 1
        return started

    def started(self, unit: ScaledUnit, now: float) -> None:
        """Let an instance that has started take requests."""
        if unit.state is State.STARTING:
            unit.become(State.ON, now)

    def release(self, now: float) -> None:
        """Let go of instances that were to stop and have no requests any more."""
        for pool in self.pools:
            for unit in pool.units:
                if unit.state is State.DRAINING and not any(self.load(each).held for each in unit.instances):
                    unit.become(State.OFF, now)

    def _wanted(self, pool: Pool, now: float) -> int:
        """The number of instances of a pool that should run."""
        options = self.options
        running = pool.count(State.ON, State.STARTING)
        ratio = self._metric(pool) / options.target
        least = running if abs(ratio - 1) <= TOLERANCE else math.ceil(running * ratio - 1e-9)
        least = min(max(least, options.minimum), len(pool.units))
        pool.arrived, pool.ttfts = 0, []
        pool.wanted.append((now, least))
        while pool.wanted[0][0] < now - options.down_after_s:
            pool.wanted.popleft()
        return max(wanted for _, wanted in pool.wanted) if least < running else least

    def _metric(self, pool: Pool) -> float:
        """The metric of the pool, of an instance on average."""
        on = [each for unit in pool.units if unit.state is State.ON for each in unit.instances]
        running = pool.count(State.ON, State.STARTING)
        if self.options.policy == "queue":
            return sum(self.load(each).waiting for each in on) / running
        if self.options.policy == "kv":
            return sum(self.load(each).used_blocks / each.scheduler.cache.blocks for each in on) / len(on)
        if self.options.policy == "rate":
            return pool.arrived / self.options.period_s / running
        return 1e3 * sum(pool.ttfts) / len(pool.ttfts) if pool.ttfts else 0.0

    def document(self, begin: float, end: float, pools: Sequence[Pool] | None = None) -> dict[str, float]:
        """NPUs of pools (None: all) in use on average from the first arrival to the last token, and their starts and stops."""
        seconds = 0.0
        pools = self.pools if pools is None else pools
        for pool in pools:
            for unit in pool.units:
                unit.become(unit.state, end)
                seconds += unit.npu_s - (begin * unit.npus if unit in pool.units[: self.options.minimum] else 0.0)
        span = end - begin
        return {
            "npu_s": seconds,
            "mean_npus": seconds / span if span > 0 else 0.0,
            "starts": sum(pool.starts for pool in pools),
            "stops": sum(pool.stops for pool in pools),
        }
