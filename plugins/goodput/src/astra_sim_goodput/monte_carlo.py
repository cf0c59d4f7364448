"""A job from interruption to interruption: draws of times by counter, everything else exact.

Interruptions come by a clock that restarts with each (exponential times, or Weibull's) and is stopped while the job waits for a node.
Work goes on from the newest checkpoint of the level that recovers the interruption. A restart that is interrupted begins again. Faults
that slow the job come and go by themselves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import attrs
from astra_sim.errors import RunError
from astra_sim.random import RandomStream

from astra_sim_goodput.plan import HOUR, GoodputClock, GoodputPlan

MOST_INTERRUPTIONS = 10_000_000


@attrs.frozen
class RandomOutcome:
    """The result of one seed: wall time (s), useful work (s), interruptions, and time that the job waited for a node (s).

    `progress` has pairs of wall time and the work that is saved or under way then (s), if it was asked for.
    """

    wall_s: float
    work_s: float
    interruptions: int
    waiting_s: float
    progress: tuple[tuple[float, float], ...] = ()


class _Writing:
    """When checkpoints are complete: `time(k, n)` is the time of n intervals from checkpoint k on, with writes, without interruptions."""

    def __init__(self, plan: GoodputPlan, interval_s: float) -> None:
        self.interval_s = interval_s
        self.levels = plan.levels
        self._extra = plan.drain_s * (1 - 1 / plan.slowdown)
        self._drain_s = plan.drain_s
        self._mean = self.time(0, plan.levels[-1].every) / plan.levels[-1].every

    def time(self, start: int, count: int) -> float:
        """Seconds of `count` intervals from checkpoint number `start` on, with the writes after each."""
        written = sum(level.write_s * ((start + count) // level.every - start // level.every) for level in self.levels)
        last = self.levels[-1].every
        return count * self.interval_s + written + self._extra * ((start + count) // last - start // last)

    def complete(self, start: int, spent_s: float) -> int:
        """The number of intervals from a checkpoint on that are complete, with their writes, after some seconds."""
        count = max(0, int(spent_s / self._mean) - 1)
        while count and self.time(start, count) > spent_s:
            count -= max(1, int((self.time(start, count) - spent_s) / self._mean))
            count = max(0, count)
        while self.time(start, count + 1) <= spent_s:
            count += 1
        return count

    def newest(self, level: int, start: int, spent_s: float) -> int:
        """The number of the newest checkpoint of a level, `spent_s` after the job went on from checkpoint `start`."""
        done = start + self.complete(start, spent_s)
        every = self.levels[level].every
        newest = done // every * every
        if level == len(self.levels) - 1 and self._drain_s and newest > start:
            since = spent_s - self.time(start, newest - start)
            if since < self._drain_s:
                newest = max(newest - every, min(start // every * every, newest))
        return newest

    def work(self, start: int, spent_s: float) -> float:
        """Seconds of work after some seconds, the part since the last checkpoint included."""
        count = self.complete(start, spent_s)
        return (start + count) * self.interval_s + min(self.interval_s, spent_s - self.time(start, count))


class _Interruptions:
    """Times between interruptions of a seed, and the level that recovers each."""

    def __init__(self, plan: GoodputPlan, seed: int) -> None:
        self._times, self._levels, self._repairs = (RandomStream(seed, f"goodput {what}") for what in ("times", "levels", "repairs"))
        self._together = RandomStream(seed, "goodput correlated")
        self._clock, self._shape = plan.clock, plan.clock.weibull_shape
        self._scale = plan.mtti_s * self._clock.factor(self._clock.lemons) / math.gamma(1 + 1 / self._shape)
        self._plan = plan
        self._lemons = _Lemons(plan.clock, seed)
        self._single = (sum(plan.rates.values()) - plan.clock.correlated_rate) / self._clock.factor(self._clock.lemons)
        self._share_together = 0.0  # of the interruption that comes next: the probability that nodes fail together

    def after(self, number: int) -> float:
        """Seconds from the interruption before to that of a number."""
        if math.isinf(self._scale):
            return math.inf
        if self._clock.intervals_s:
            return self._clock.intervals_s[int(self._times.uniform(number) * len(self._clock.intervals_s))]
        factor = self._clock.factor(self._lemons.left)
        scale = self._scale / factor
        if self._plan.clock.correlated:
            rate = self._single * factor + self._plan.clock.correlated_rate
            self._share_together = self._plan.clock.correlated_rate / rate
            scale = HOUR / rate / math.gamma(1 + 1 / self._shape)
        if self._together.uniform(number) >= self._share_together:
            self._lemons.interrupt(number)
        return scale * float(self._times.exponential(number) ** (1 / self._shape))

    def level(self, number: int) -> int:
        """The level that recovers it."""
        left = self._levels.uniform(number)
        for place, level in enumerate(self._plan.levels):
            left -= level.recovers
            if left < 0:
                return place
        return len(self._plan.levels) - 1

    def nodes_repaired(self, number: int) -> int:
        """The number of nodes that are repaired after it: those that failed together, or one, or none."""
        left = (
            self._together.uniform(number) * self._plan.clock.correlated_rate / self._share_together if self._share_together else math.inf
        )
        for each in self._plan.clock.correlated:
            left -= each.rate
            if left < 0:
                return each.nodes
        return int(self._repairs.uniform(number) < self._plan.repairs)


class _Lemons:
    """Nodes of the job that fail more often than others, until they are found out."""

    def __init__(self, clock: GoodputClock, seed: int) -> None:
        self._clock, self._draws = clock, RandomStream(seed, "goodput lemons")
        self._blamed: list[int] = []  # interruptions by each lemon that had some
        self._innocent = clock.lemons

    @property
    def left(self) -> int:
        """The number of them among the nodes of the job."""
        return len(self._blamed) + self._innocent

    def interrupt(self, number: int) -> None:
        """An interruption of a number: by one of them, or by another node."""
        clock = self._clock
        if clock.removed_after is None or not self.left:
            return
        weights = clock.nodes - self.left + self.left * clock.multiplier
        place = int(self._draws.uniform(number) * weights / clock.multiplier)
        if place >= self.left:  # another node
            return
        if place >= len(self._blamed):
            self._innocent -= 1
            place = len(self._blamed)
            self._blamed.append(0)
        self._blamed[place] += 1
        if self._blamed[place] >= clock.removed_after:
            self._blamed.pop(place)


class _Nodes:
    """The nodes in repair: when each comes back."""

    def __init__(self, plan: GoodputPlan) -> None:
        self._plan = plan
        self._back: list[float] = []

    def fail(self, now: float, nodes: int) -> float:
        """Nodes go into repair. Returns when the job has enough nodes to go on; with `shrink` at once."""
        self._back = [time for time in self._back if time > now]
        self._back += [now + self._plan.repair_s] * nodes
        if self._plan.spares is None or self._plan.shrinks or len(self._back) <= self._plan.spares:
            return now
        ready = sorted(self._back)[len(self._back) - 1 - self._plan.spares]
        self._back = [time for time in self._back if time > ready]
        return ready

    def stretches(self, begin: float, end: float) -> Iterator[tuple[float, float, float]]:
        """Parts of a time with the speed in each: 1, or with fewer nodes less."""
        spares, nodes = self._plan.spares, self._plan.nodes
        if spares is None or not self._plan.shrinks:
            yield begin, end, 1.0
            return
        for until in [*sorted(time for time in self._back if begin < time < end), end]:
            away = sum(time > begin for time in self._back)
            yield begin, until, max(0, nodes - max(0, away - spares)) / nodes
            begin = until


class _Faults:
    """The faults that slow the job: when each begins, from one time of repair before the start on, so that the first ones may be there."""

    def __init__(self, plan: GoodputPlan, seed: int) -> None:
        self._faults = plan.faults
        self._streams = [RandomStream(seed, f"goodput fault {number}") for number in range(len(plan.faults))]
        self._counts = [0] * len(plan.faults)
        self._next = [-fault.repair_s for fault in plan.faults]
        self._ends: list[list[float]] = [[] for _ in plan.faults]
        for number in range(len(plan.faults)):
            self._draw(number)

    def _draw(self, number: int) -> None:
        """The begin of the next fault of a class."""
        rate = self._faults[number].rate / HOUR
        self._next[number] += self._streams[number].exponential(self._counts[number]) / rate
        self._counts[number] += 1

    def stretches(self, begin: float, end: float) -> Iterator[tuple[float, float, float]]:
        """Parts of a time, which is not before the one that was asked for last, with the speed in each."""
        if not self._faults:
            yield begin, end, 1.0
            return
        while begin < end:
            speed, until = 1.0, end
            for number, fault in enumerate(self._faults):
                while self._next[number] <= begin:
                    self._ends[number].append(self._next[number] + fault.repair_s)
                    self._draw(number)
                ends = self._ends[number] = [time for time in self._ends[number] if time > begin]
                speed *= fault.speed ** len(ends)
                until = min([until, self._next[number], *ends])
            yield begin, until, speed
            begin = until


def run(plan: GoodputPlan, interval_s: float, seed: int, progress: bool = False) -> RandomOutcome:
    """Run a job of one seed: to its horizon, or until its work is done; `progress` records its work at each interruption and restart.

    Raises RunError if it does not come to an end.
    """
    writing, draws, nodes, faults = _Writing(plan, interval_s), _Interruptions(plan, seed), _Nodes(plan), _Faults(plan, seed)
    now = waiting = spent = 0.0
    start, number = 0, 0
    horizon = math.inf if plan.horizon_s is None else plan.horizon_s
    goal = math.inf if plan.work_s is None else plan.work_s
    fails = draws.after(0)
    points: list[tuple[float, float]] = [(0.0, 0.0)]

    def outcome(wall: float, work: float) -> RandomOutcome:
        return RandomOutcome(wall, work, number, waiting, (*points, (wall, work)) if progress else ())

    while True:
        for begin, end, slower in nodes.stretches(now, min(fails, horizon)):
            for since, until, slowed in faults.stretches(begin, end):
                speed = slower * slowed
                if speed and writing.work(start, spent + speed * (until - since)) >= goal:
                    return outcome(since + _until(writing, start, spent, goal) / speed, goal)
                spent += speed * (until - since)
        if fails >= horizon:
            return outcome(horizon, writing.work(start, spent))
        now = fails
        if progress:
            points.append((now, writing.work(start, spent)))
        start, spent = writing.newest(draws.level(number), start, spent), 0.0
        if progress:
            points.append((now, start * interval_s))
        while True:  # until a restart is not interrupted
            level = plan.levels[draws.level(number)]
            failed = draws.nodes_repaired(number)
            ready = nodes.fail(now, failed) if failed else now
            waiting += min(ready, horizon) - min(now, horizon)
            number += 1
            if number > MOST_INTERRUPTIONS:
                raise RunError(f"{plan.name}: {number - 1} interruptions, and the job has not ended; expected fewer, or shorter restarts")
            fails = ready + draws.after(number)
            now = ready + plan.restart_s(level)
            if fails >= now or now >= horizon:
                break
            now = fails
            start = min(start, writing.newest(draws.level(number), start, 0.0))
        if now >= horizon:
            return outcome(horizon, start * interval_s)
        if progress:
            points.append((now, start * interval_s))


def _until(writing: _Writing, start: int, spent: float, goal: float) -> float:
    """Seconds of running from `spent` on until the work is done."""
    whole = int(goal / writing.interval_s)
    if whole * writing.interval_s >= goal:  # the last checkpoint need not be written
        whole -= 1
    return writing.time(start, max(0, whole - start)) + goal - max(start, whole) * writing.interval_s - spent
