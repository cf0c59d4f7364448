"""An instance: a scheduler, its cache, and the effects of its iterations on requests. `replica` has their clock."""

from __future__ import annotations

from collections import deque

import attrs

from astra_sim_serving.batch import BatchShape, shape_of
from astra_sim_serving.lora import AdapterPlaces
from astra_sim_serving.metrics import WeightedValues
from astra_sim_serving.request import NO_PARTS, Sequence
from astra_sim_serving.scheduler import Batch, InstanceScheduler
from astra_sim_serving.speculation import Speculation


@attrs.define
class InstanceTotals:
    """Totals of an instance. `kv_block_s` is the integral of blocks in use over time; batches and tokens count iterations."""

    iterations: int = 0
    busy_s: float = 0.0
    sequences: int = 0
    tokens: int = 0
    kv_block_s: float = 0.0
    peak_blocks: int = 0
    parts: tuple[float, ...] = NO_PARTS
    preemptions: int = 0


@attrs.define
class Iterations:
    """Iterations in progress: `count` iterations from `start` on that take `first_s` to `last_s` each, of a batch."""

    batch: Batch
    start: float
    count: int
    first: tuple[float, ...]
    last: tuple[float, ...]

    def elapsed(self, iterations: int) -> float:
        """Seconds of the first `count` iterations."""
        first, last = sum(self.first), sum(self.last)
        if self.count == 1:
            return first * iterations
        return iterations * first + (last - first) * iterations * (iterations - 1) / (2 * (self.count - 1))

    def parts(self, iterations: int) -> tuple[float, ...]:
        """The parts of that time."""
        if self.count == 1:
            return self.first
        slope = iterations * (iterations - 1) / (2 * (self.count - 1))
        return tuple([iterations * a + (b - a) * slope for a, b in zip(self.first, self.last, strict=True)])

    def until(self, now: float) -> int:
        """The number of iterations that have begun by a moment: at least one."""
        low, high = 1, self.count
        while low < high:
            middle = (low + high) // 2
            if self.start + self.elapsed(middle) < now:
                low = middle + 1
            else:
                high = middle
        return low


@attrs.define(eq=False)
class ServingInstance:
    """One instance of a pool, or one rank of data parallelism in it. `under_way` are its iterations, the next to end first.

    `gave_way` were preempted by the last plan.
    `npus` are its NPUs, if there is a platform. `coming` sequences are on their way from another instance, or wait for blocks to come.
    """

    number: int
    pool: int
    role: str
    scheduler: InstanceScheduler
    gaps: WeightedValues
    rank: int = 0
    speculation: Speculation | None = None
    npus: tuple[int, ...] = ()
    adapters: AdapterPlaces | None = None
    totals: InstanceTotals = attrs.field(factory=InstanceTotals)
    under_way: deque[Iterations] = attrs.field(factory=deque)
    accounted: float = 0.0
    coming: int = 0
    finished: list[Sequence] = attrs.field(factory=list)
    gave_way: list[Sequence] = attrs.field(factory=list)
    first_tokens: list[Sequence] = attrs.field(factory=list)

    @property
    def requests(self) -> int:
        """Requests that wait or run, or whose beginnings are loaded."""
        return len(self.scheduler.waiting) + len(self.scheduler.running) + self.scheduler.loading

    @property
    def outstanding_tokens(self) -> int:
        """Tokens of prompts and answers that are still to be computed, as far as the router can know: prompts and running answers."""
        return sum(each.missing for each in self.scheduler.waiting) + sum(each.missing for each in self.scheduler.running)

    def add(self, sequence: Sequence) -> None:
        """Take a request that arrives."""
        sequence.instance = self.number
        self.scheduler.add(sequence)

    def plan(self, now: float) -> Batch:
        """Plan an iteration, and record its effects on requests. Returns nothing if there is nothing to do."""
        self._account_until(now)
        scheduler = self.scheduler
        batch = scheduler.plan(now)
        self.gave_way = [*scheduler.preempted]
        for sequence in scheduler.preempted:
            self._mark_preempted(sequence, now)
        if not batch and scheduler.preempted:  # the only one that ran has given way to those that wait
            batch = scheduler.plan(now)
        for sequence in scheduler.admitted:
            self._mark_admitted(sequence, now)
        return batch

    def shape(self, batch: Batch) -> BatchShape:
        """The work of a batch, whose adapters are on the device then."""
        result = shape_of(batch)
        return result if self.adapters is None else result._replace(adapters=self.adapters.use(batch))

    def steady_iterations(self, batch: Batch, now: float) -> int | None:
        """Iterations in which a plan stays as it is, until a sequence ends or blocks run out; None: for ever, since there is none."""
        if not batch:
            return None if not self.scheduler.waiting else 1
        if not self.scheduler.is_steady:
            return 1
        for sequence, _ in batch:
            if sequence.last_token != now:
                return 1
        most = min([sequence.output - sequence.generated for sequence, _ in batch])
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

    @property
    def may_take_more(self) -> bool:
        """Whether a request that has just been added may change the next iteration."""
        scheduler = self.scheduler
        if len(scheduler.running) >= scheduler.limits.sequences:
            return False
        # If others wait before it, they wait for blocks, which nothing frees before the jump ends.
        return scheduler.by_priority or scheduler.receives or not scheduler.in_order or len(scheduler.waiting) < 2

    def cut(self, count: int) -> None:
        """Let a jump end after `count` iterations."""
        current = self.under_way[-1]
        share = (count - 1) / (current.count - 1)
        last = tuple(a + (b - a) * share for a, b in zip(current.first, current.last, strict=True))
        self.under_way[-1] = Iterations(current.batch, current.start, count, current.first, last if count > 1 else current.first)

    def reserve(self, count: int) -> None:
        """Give the sequences of a jump the blocks that they need for its iterations."""
        for sequence, _ in self.under_way[-1].batch:
            has_blocks = self.scheduler.cache.grow(sequence, sequence.computed + count)
            assert has_blocks

    def stretch(self, now: float, spared: float) -> None:
        """Let the iteration that ends now have taken until now: the host shows `spared` seconds less, and collectives make up the rest."""
        current = self.under_way[0]
        *computed, _, host = current.first
        host -= spared
        first = *computed, now - current.start - sum(computed) - host, host
        self.under_way[0] = Iterations(current.batch, current.start, 1, first, first)

    def end(self, now: float) -> None:
        """Commit the iterations that end now: `finished` and `first_tokens` list sequences that have ended, or got their first token."""
        current = self.under_way[0]
        count, start = current.count, current.start
        before = self.scheduler.cache.used_blocks
        busy = self._account_until(now)
        self.under_way.popleft()
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
                if sequence.drafts:
                    self._verify(sequence)
                if sequence.last_token == start:
                    steady += 1
                elif sequence.first_token >= 0:
                    self.gaps.add(now - sequence.last_token)
                else:
                    self._mark_first_token(sequence, now)
                if sequence.spent.preempted_at >= 0:
                    self._mark_resumed(sequence, now)
                sequence.last_token = now
                if sequence.generated >= sequence.output:
                    self.finished.append(sequence)
            if steady:
                self.gaps.add(now - start, steady)
        self._count(current, busy, before)
        if self.finished:
            for sequence in self.finished:
                self._account(sequence)
            self.scheduler.finish(self.finished)

    def _verify(self, sequence: Sequence) -> None:
        """Give a sequence the tokens of its draft that are accepted, up to the end of its answer, at the time of its own token."""
        assert self.speculation is not None
        accepted = min(self.speculation.accept(sequence), sequence.output - sequence.generated)
        self.totals.tokens += sequence.drafts
        sequence.drafts = 0
        if accepted:
            sequence.total += accepted
            sequence.computed += accepted
            sequence.generated += accepted
            self.gaps.add(0.0, accepted)

    def _account_until(self, now: float) -> float:
        """Account for the seconds since the last such moment, and return them: they belong to the iterations that end next."""
        since, self.accounted = self.accounted, now
        if not self.under_way:
            return 0.0
        current, busy = self.under_way[0], now - since
        parts = current.parts(current.count)
        whole = sum(parts)
        totals = self.totals
        if whole:
            share = busy / whole  # 1 but for rounding, unless iterations overlap in a pipeline
            totals.parts = tuple([a + b * share for a, b in zip(totals.parts, parts, strict=True)])
        totals.busy_s += busy
        return busy

    def _end_jump(self, current: Iterations, now: float) -> None:
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

    def _count(self, current: Iterations, busy: float, before: int) -> None:
        totals, count, after = self.totals, current.count, self.scheduler.cache.used_blocks
        totals.iterations += count
        totals.sequences += count * len(current.batch)
        totals.tokens += count * sum([tokens for _, tokens in current.batch])
        totals.kv_block_s += (before + after) / 2 * busy
        totals.peak_blocks = max(totals.peak_blocks, after)

    # -- Moments that explanations need: the totals of the instance until then ----------------------------------------------------

    def _mark_admitted(self, sequence: Sequence, now: float) -> None:
        if sequence.scheduled < 0:
            sequence.scheduled = now
        if sequence.spent.preempted_at < 0:
            sequence.spent.mark = self.totals.parts
        if sequence.spent.transfer_end >= 0 and sequence.spent.resumed < 0:
            sequence.spent.resumed = now

    def _mark_preempted(self, sequence: Sequence, now: float) -> None:
        self.totals.preemptions += 1
        if sequence.spent.preempted_at < 0:  # else it was preempted again before it got a token
            self._account(sequence)
            sequence.spent.preempted_at = now

    def _mark_resumed(self, sequence: Sequence, now: float) -> None:
        waited = now - sequence.spent.preempted_at
        if sequence.first_token == now and sequence.generated == 1:
            sequence.spent.preempted_before_first_s += waited
        else:
            sequence.spent.preempted_s += waited
        sequence.spent.preempted_at = -1.0
        sequence.spent.mark = self.totals.parts

    def _mark_first_token(self, sequence: Sequence, now: float) -> None:
        sequence.first_token = now
        if sequence.spent.preempted_at < 0:
            self._account(sequence, first=True)
        self.first_tokens.append(sequence)

    def _account(self, sequence: Sequence, first: bool = False) -> None:
        """Add the instance's work since the last mark to the parts of the request's time."""
        spent, parts = sequence.spent, self.totals.parts
        known = spent.prefill_parts if first or sequence.first_token < 0 else spent.decode_parts
        total = tuple([a + (b - c) for a, b, c in zip(known, parts, spent.mark, strict=True)])
        if first or sequence.first_token < 0:
            spent.prefill_parts = total
        else:
            spent.decode_parts = total
        spent.mark = parts
