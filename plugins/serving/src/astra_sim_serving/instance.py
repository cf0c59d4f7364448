"""An instance: a scheduler, its cache, and the clock of its iterations.

An iteration begins when the one before it has ended and there is work. Where all sequences decode and nothing can change the plan, several
iterations are one *jump*, whose first and last iteration are timed; the others lie on a straight line between them.
"""

from __future__ import annotations

import attrs

from astra_sim_serving.batch import shape_of
from astra_sim_serving.iteration_time import IterationTime
from astra_sim_serving.metrics import WeightedValues
from astra_sim_serving.request import NO_PARTS, Sequence
from astra_sim_serving.scheduler import Batch, Scheduler

MIN_JUMP = 4
"""Fewer iterations are planned one by one."""


@attrs.define
class InstanceTotals:
    """What an instance has done. `kv_block_s` is the integral of blocks in use over time; batches and tokens count iterations."""

    iterations: int = 0
    busy_s: float = 0.0
    sequences: int = 0
    tokens: int = 0
    kv_block_s: float = 0.0
    peak_blocks: int = 0
    parts: tuple[float, ...] = NO_PARTS
    preemptions: int = 0


@attrs.define
class _Iterations:
    """What is under way: `count` iterations from `start` on that take `first_s` to `last_s` each, of a batch."""

    batch: Batch
    start: float
    count: int
    first: tuple[float, ...]
    last: tuple[float, ...]

    def elapsed(self, iterations: int) -> float:
        """Seconds of the first so many iterations."""
        first, last = sum(self.first), sum(self.last)
        if self.count == 1:
            return first * iterations
        return iterations * first + (last - first) * iterations * (iterations - 1) / (2 * (self.count - 1))

    def parts(self, iterations: int) -> tuple[float, ...]:
        """The parts of that time."""
        if self.count == 1:
            return self.first
        slope = iterations * (iterations - 1) / (2 * (self.count - 1))
        return tuple(iterations * a + (b - a) * slope for a, b in zip(self.first, self.last, strict=True))

    def until(self, now: float) -> int:
        """How many iterations have begun by a moment: at least one."""
        low, high = 1, self.count
        while low < high:
            middle = (low + high) // 2
            if self.start + self.elapsed(middle) < now:
                low = middle + 1
            else:
                high = middle
        return low


@attrs.define(eq=False)
class Instance:
    """One instance of a pool. `jumps`: iterations that do not differ in their plan are simulated as one event."""

    number: int
    pool: int
    role: str
    scheduler: Scheduler
    time: IterationTime
    gaps: WeightedValues
    jumps: bool = True
    totals: InstanceTotals = attrs.field(factory=InstanceTotals)
    current: _Iterations | None = None
    stamp: int = 0
    queued_tokens: int = 0
    finished: list[Sequence] = attrs.field(factory=list)
    first_tokens: list[Sequence] = attrs.field(factory=list)

    @property
    def requests(self) -> int:
        """Requests that wait or run."""
        return len(self.scheduler.waiting) + len(self.scheduler.running)

    @property
    def outstanding_tokens(self) -> int:
        """Tokens of prompts and answers that are still to be computed, as far as the router can know: prompts and running answers."""
        return sum(each.missing for each in self.scheduler.waiting) + sum(each.missing for each in self.scheduler.running)

    def add(self, sequence: Sequence) -> None:
        """Take a request that arrives."""
        sequence.instance = self.number
        self.scheduler.add(sequence)

    def begin(self, now: float) -> float | None:
        """Plan and begin iterations. Returns when they end; None where there is nothing to do."""
        scheduler = self.scheduler
        batch = scheduler.plan(now)
        for sequence in scheduler.preempted:
            self._mark_preempted(sequence, now)
        if not batch and scheduler.preempted:  # the only one that ran has given way to those that wait
            batch = scheduler.plan(now)
        for sequence in scheduler.admitted:
            self._mark_admitted(sequence, now)
        if not batch:
            return None
        shape = shape_of(batch)
        parts = self.time.parts(shape)
        count, last = 1, parts
        if self.jumps and scheduler.is_steady and all(each.last_token == now for each, _ in batch):
            count = self._steady_iterations(batch)
            if count >= MIN_JUMP:
                last = self.time.parts(shape.later(count - 1))
            else:
                count = 1
        self.current = _Iterations(batch, now, count, parts, last)
        self.stamp += 1
        return now + self.current.elapsed(count)

    def _steady_iterations(self, batch: Batch) -> int:
        """Iterations until a sequence ends or blocks run out."""
        most = min(sequence.output - sequence.generated for sequence, _ in batch)
        cache = self.scheduler.cache
        free, size = cache.free_blocks, cache.block_tokens
        if free >= len(batch) * (most // size + 1):
            return most
        low, high = 1, most
        while low < high:
            middle = (low + high + 1) // 2
            needed = sum(max(0, -(-(each.computed + middle - each.capacity) // size)) for each, _ in batch)
            if needed <= free:
                low = middle
            else:
                high = middle - 1
        return low

    def interrupt(self, now: float) -> float | None:
        """Let a jump end with the iteration that is under way, for a request that has just been added.

        Returns the new end; None where nothing changes.
        """
        current = self.current
        scheduler = self.scheduler
        if current is None or current.count == 1 or len(scheduler.running) >= scheduler.limits.sequences:
            return None
        if not scheduler.by_priority and not scheduler.receives and len(scheduler.waiting) > 1:
            return None  # those before it wait for blocks, which nothing frees before the jump ends
        return self.cut(now)

    def cut(self, now: float) -> float | None:
        """Let a jump end with the iteration that is under way, and give it the blocks that it needs until then."""
        current = self.current
        if current is None or current.count == 1:
            return None
        count = current.until(now)
        if count == current.count:
            return None
        end = current.start + current.elapsed(count)
        share = (count - 1) / (current.count - 1)
        last = tuple(a + (b - a) * share for a, b in zip(current.first, current.last, strict=True))
        self.current = _Iterations(current.batch, current.start, count, current.first, last if count > 1 else current.first)
        for sequence, _ in current.batch:
            has_blocks = self.scheduler.cache.grow(sequence, sequence.computed + count)
            assert has_blocks
        self.stamp += 1
        return end

    def end(self, now: float) -> None:
        """Commit the iterations that end now: `finished` and `first_tokens` list sequences that have ended, or got their first token."""
        current = self.current
        assert current is not None
        self.current = None
        count, start = current.count, current.start
        before = self.scheduler.cache.used_blocks
        self.totals.parts = tuple(a + b for a, b in zip(self.totals.parts, current.parts(count), strict=True))
        self.finished, self.first_tokens = [], []
        if count > 1:
            self._end_jump(current, now)
        else:
            steady = 0
            for sequence, tokens in current.batch:
                sequence.computed += tokens
                if sequence.computed < sequence.total:
                    continue
                sequence.total += 1
                sequence.generated += 1
                if sequence.last_token == start:
                    steady += 1
                elif sequence.first_token >= 0:
                    self.gaps.add(now - sequence.last_token)
                else:
                    self._mark_first_token(sequence, now)
                if sequence.preempted_at >= 0:
                    self._mark_resumed(sequence, now)
                sequence.last_token = now
                if sequence.generated >= sequence.output:
                    self.finished.append(sequence)
            if steady:
                self.gaps.add(now - start, steady)
        self._count(current, now, before)
        if self.finished:
            for sequence in self.finished:
                self._account(sequence)
            self.scheduler.finish(self.finished)

    def _end_jump(self, current: _Iterations, now: float) -> None:
        """Commit iterations in which each sequence gets one token, as it has in the iteration before."""
        count, cache = current.count, self.scheduler.cache
        for sequence, _ in current.batch:
            sequence.computed += count
            sequence.total += count
            sequence.generated += count
            has_blocks = cache.grow(sequence, sequence.computed)
            assert has_blocks
            sequence.last_token = now
            if sequence.generated >= sequence.output:
                self.finished.append(sequence)
        self.gaps.add((now - current.start) / count, count * len(current.batch))

    def _count(self, current: _Iterations, now: float, before: int) -> None:
        totals, count, after = self.totals, current.count, self.scheduler.cache.used_blocks
        totals.iterations += count
        totals.busy_s += now - current.start
        totals.sequences += count * len(current.batch)
        totals.tokens += count * sum(tokens for _, tokens in current.batch)
        totals.kv_block_s += (before + after) / 2 * (now - current.start)
        totals.peak_blocks = max(totals.peak_blocks, after)

    # -- Moments that explanations need: what the instance had done in all until then ---------------------------------------------

    def _mark_admitted(self, sequence: Sequence, now: float) -> None:
        if sequence.scheduled < 0:
            sequence.scheduled = now
        if sequence.preempted_at < 0:
            sequence.mark = self.totals.parts
        if sequence.transfer_end >= 0 and sequence.joined < 0:
            sequence.joined = now

    def _mark_preempted(self, sequence: Sequence, now: float) -> None:
        self.totals.preemptions += 1
        if sequence.preempted_at < 0:  # else it was preempted again before it got a token
            self._account(sequence)
            sequence.preempted_at = now

    def _mark_resumed(self, sequence: Sequence, now: float) -> None:
        waited = now - sequence.preempted_at
        if sequence.first_token == now and sequence.generated == 1:
            sequence.preempted_before_first_s += waited
        else:
            sequence.preempted_s += waited
        sequence.preempted_at = -1.0
        sequence.mark = self.totals.parts

    def _mark_first_token(self, sequence: Sequence, now: float) -> None:
        sequence.first_token = now
        if sequence.preempted_at < 0:
            self._account(sequence, first=True)
        self.first_tokens.append(sequence)

    def _account(self, sequence: Sequence, first: bool = False) -> None:
        """Add what the instance has done since the last mark to the parts of the request's time."""
        done = tuple(a - b for a, b in zip(self.totals.parts, sequence.mark, strict=True))
        if first or sequence.first_token < 0:
            sequence.prefill_parts = tuple(a + b for a, b in zip(sequence.prefill_parts, done, strict=True))
        else:
            sequence.decode_parts = tuple(a + b for a, b in zip(sequence.decode_parts, done, strict=True))
        sequence.mark = self.totals.parts
