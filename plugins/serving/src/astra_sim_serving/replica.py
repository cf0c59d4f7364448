"""A replica of the model: the instances that begin and end iterations together, and the clock of these.

Most replicas are one instance. Ranks of data parallelism that share experts are one replica: they meet in every layer, so each does an
iteration whenever one of them has work. With a pipeline a replica has several batches under way, of different sequences: the next begins
when the first stage is free.

An iteration begins when there is work. If all sequences decode and nothing can change the plan, several iterations are one *jump*, whose
first and last iteration are timed; the others are on a straight line between them.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from astra_sim_serving.batch import BatchShape
from astra_sim_serving.instance import Iterations, ServingInstance
from astra_sim_serving.iteration_time import IterationStep, IterationTime
from astra_sim_serving.launches import IterationLaunch, Launcher
from astra_sim_serving.scheduler import Batch
from astra_sim_serving.shared_links import PS_PER_S

MIN_JUMP = 4
"""Fewer iterations are planned one by one."""

_GROWTH, _SHORT_CONTEXT = 4, 256
"""A jump lets contexts grow by at most a fourth, or by a fourth of a short context: over more their time is no straight line."""


@attrs.define(eq=False)
class Replica:
    """Instances whose iterations are one. `jumps`: iterations that do not differ in their plan are simulated as one event.

    `stamp` counts the jumps that were cut, whose end comes earlier than announced. `launcher` begins iterations whose collectives share
    links with others, which then tell when they end; None: their time is known. `is_woken`: it is to begin an iteration.
    """

    instances: Sequence[ServingInstance]
    time: IterationTime
    jumps: bool = True
    launcher: Launcher | None = None
    is_woken: bool = False
    stamp: int = 0
    _launch: IterationLaunch | None = attrs.field(default=None, init=False)
    _stages_free: list[float] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._stages_free = [0.0] * self.time.sharding.pipeline

    @property
    def batches(self) -> int:
        """Batches under way."""
        return len(self.instances[0].under_way)

    @property
    def is_full(self) -> bool:
        """Whether no batch may begin before one has ended."""
        return self.batches >= len(self._stages_free)

    def free_at(self, now: float) -> float:
        """When the next batch may begin, as far as the stages know: later than now if the first one is busy."""
        return max(now, self._stages_free[0])

    def begin(self, now: float) -> float | None:
        """Plan and begin iterations. Returns when they end, if nothing else is on the links; None if there is nothing to do."""
        batches = [each.plan(now) for each in self.instances]
        if not any(batches):
            return None
        shapes = [each.shape(batch) for each, batch in zip(self.instances, batches, strict=True)]
        step = self.time.step(shapes)
        count, last = 1, step
        if self.jumps:
            steady = (each.steady_iterations(batch, now) for each, batch in zip(self.instances, batches, strict=True))
            longest = max(_SHORT_CONTEXT, *(int(shape.kv_mean) for shape in shapes)) // _GROWTH
            count = min(longest, *(each for each in steady if each is not None))
            if count >= MIN_JUMP:
                last = self._step_later(shapes, count - 1)
            else:
                count = 1
        for instance, batch, first, final in zip(self.instances, batches, step.parts, last.parts, strict=True):
            instance.under_way.append(Iterations(batch, now, count, first, final))
        if step.plan is not None:
            assert self.launcher is not None
            self._launch = self.launcher.begin(self, step.plan, now)
        if not step.stages:
            return now + self.instances[0].under_way[-1].elapsed(count)
        for batch in batches:
            self._mark(batch, True)
        return self._through_stages(now, step)

    def _step_later(self, shapes: Sequence[BatchShape], iterations: int) -> IterationStep:
        return self.time.step([shape.later(iterations) for shape in shapes])

    def _through_stages(self, now: float, step: IterationStep) -> float:
        """When a batch leaves the last stage: each takes it when it has come and the stage has done with the batch before."""
        at = now
        for stage, seconds in enumerate(step.stages):
            at = max(at, self._stages_free[stage]) + seconds
            self._stages_free[stage] = at
            at += step.send
        return at - step.send

    def interrupt(self, instance: ServingInstance, now: float) -> float | None:
        """Let a jump end with the iteration that is under way, for a request that an instance has just got.

        Returns the new end; None if nothing changes.
        """
        return self.cut(now) if instance.may_take_more else None

    def cut(self, now: float) -> float | None:
        """Let a jump end with the iteration that is under way, and give it the blocks that it needs until then.

        Returns the new end; None if nothing changes.
        """
        under_way = self.instances[0].under_way
        if not under_way or under_way[-1].count == 1:
            return None
        current = under_way[-1]
        count = current.until(now)
        for instance in self.instances:
            instance.reserve(count)
        if count == current.count:
            return None
        for instance in self.instances:
            instance.cut(count)
        self.stamp += 1
        return current.start + current.elapsed(count)

    def end(self, now: float) -> None:
        """Commit the iterations that end now."""
        if self._launch is not None:
            for instance in self.instances:
                instance.stretch(now, self._launch.spared_ps / PS_PER_S)
            self._launch = None
        for instance in self.instances:
            if len(self._stages_free) > 1:
                self._mark(instance.under_way[0].batch, False)
            instance.end(now)

    def _mark(self, batch: Batch, in_flight: bool) -> None:
        """Say whether iterations of the sequences of a batch are under way beside other batches."""
        for sequence, _ in batch:
            sequence.in_flight = in_flight
