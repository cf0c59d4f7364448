"""Which tokens an iteration computes: the rules of vLLM's V1 scheduler.

Running sequences come first, in order of admission, then waiting ones while tokens, places and blocks last. A prompt is cut at the end of
the budget of tokens. If a running sequence finds no block, the last one is preempted: it gives back its blocks and waits at the head.
"""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Iterable

import attrs

from astra_sim_serving.kv_cache import KvCache
from astra_sim_serving.request import Sequence
from astra_sim_serving.tiers import ContentKey, MemoryTier

Batch = list[tuple[Sequence, int]]
"""Sequences and how many of their tokens an iteration computes."""


@attrs.frozen
class Limits:
    """Limits of an iteration. `prefill_tokens`: the most tokens of one prompt; 0: no limit."""

    sequences: int
    tokens: int
    prefill_tokens: int = 0


class InstanceScheduler:
    """Waiting and running sequences of an instance.

    `by_priority`: smaller priorities go first, and the worst running one is preempted; else the order is that of arrival. `is_predictable`:
    `is_steady` is known after a plan. `in_order`: waiting sequences are admitted in the order in which they wait. `receives`: some
    sequences come from other instances or memories, with their blocks. `sends`: sequences leave for other instances, and their blocks stay
    until they are there; so one that was preempted is computed again when there are blocks for all of it. `drafts` tokens are drafted for
    each sequence that decodes.
    `max_adapters`: the most adapters of requests of one iteration (0: no limit).
    `to_load` are sequences whose beginnings are to be loaded from tiers, with their blocks; of them `loading` are not back.
    """

    is_predictable = True
    in_order = True
    what = "the scheduler"

    def __init__(self, cache: KvCache, limits: Limits, by_priority: bool = False) -> None:
        self.cache = cache
        self.limits = limits
        self.by_priority = by_priority
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        self.preempted: list[Sequence] = []
        self.admitted: list[Sequence] = []
        self.receives = False
        self.sends = False
        self.drafts = 0
        self.max_adapters = 0
        self.hit_tokens = 0
        self.looked_up_tokens = 0
        self.loaded_tokens = 0
        self.loading = 0
        self.to_load: list[tuple[Sequence, list[tuple[MemoryTier, ContentKey]]]] = []
        self.is_steady = False

    def add(self, sequence: Sequence) -> None:
        """Take a sequence that has arrived."""
        if self.by_priority:
            bisect.insort(self.waiting, sequence, key=lambda each: each.order)
        else:
            self.waiting.append(sequence)

    def plan(self, now: float = 0.0) -> Batch:
        """Return the sequences of the next iteration with the tokens of each; blocks are allocated and taken back at once.

        `admitted` and `preempted` then list the sequences that were. `is_steady`: every running sequence
        computes one token, so that the plan stays the same until a sequence arrives or ends, or blocks run out.
        """
        batch: Batch = []
        self.preempted.clear()
        self.admitted.clear()
        budget, steady = self._plan_running(batch)
        if not self.preempted and self.waiting:
            self._admit(batch, budget)
        self.is_steady = steady and not self.preempted and not self.admitted and len(batch) == len(self.running)
        return batch

    def _plan_running(self, batch: Batch) -> tuple[int, bool]:
        """Plan the running sequences. Returns the tokens that are left of the budget, and whether all compute one token."""
        budget, running, cache = self.limits.tokens, self.running, self.cache
        position, steady = 0, True
        while position < len(running) and budget > 0:
            sequence = running[position]
            if sequence.in_flight:
                steady = False
                position += 1
                continue
            computed = sequence.computed
            tokens = sequence.total - computed
            if tokens == 1:
                if self.drafts:
                    budget -= self._draft(sequence, budget - 1)
                if computed < sequence.capacity:
                    batch.append((sequence, 1))
                    budget -= 1
                    position += 1
                    continue
            else:
                steady = False
                tokens = self._cut(tokens, budget)
            while not cache.grow(sequence, computed + tokens):
                if self.receives and self._take_back():
                    continue
                place = self._victim()
                victim = running[place]
                if victim.in_flight:  # it can give way when its iterations have ended
                    return budget, False
                if place < position:
                    budget += batch.pop(sum(not each.in_flight for each in running[:place]))[1] + victim.drafts
                    position -= 1
                self._preempt(place)
                if victim is sequence:
                    return budget, False
            batch.append((sequence, tokens))
            budget -= tokens
            position += 1
        return budget, steady

    def _draft(self, sequence: Sequence, budget: int) -> int:
        """Tokens that are drafted for a sequence that decodes: as many as the budget has, and none if there are no blocks for them."""
        drafts = min(self.drafts, budget) if sequence.generated else 0
        sequence.drafts = drafts if drafts > 0 and self.cache.grow(sequence, sequence.total + drafts) else 0
        return sequence.drafts

    def _take_back(self) -> bool:
        """Take the blocks of the last sequence that waits with some, which is to be computed anew; False if there is none.

        It cannot run before one that runs has ended, and that one may need these blocks.
        """
        for sequence in reversed(self.waiting):
            if sequence.capacity:
                self._lose(sequence)
                return True
        return False

    def _victim(self) -> int:
        """The place of the running sequence to preempt: the last, or with priorities the worst."""
        last = len(self.running) - 1
        return max(range(last + 1), key=lambda place: self.running[place].order) if self.by_priority else last

    def _admit(self, batch: Batch, budget: int) -> None:
        """Admit waiting sequences, in order, up to the first that does not fit. Those whose adapter has no place are skipped.

        Behind that one, sequences whose keys and values have come from another instance are admitted: they have their blocks, and would
        otherwise wait for one that waits for these blocks.
        """
        waiting, place, is_first = self.waiting, 0, True
        active = {each.request.adapter for each in self.running} - {-1} if self.max_adapters else set()
        while place < len(waiting) and budget > 0 and len(self.running) < self.limits.sequences:
            sequence = waiting[place]
            adapter = sequence.request.adapter
            if self.max_adapters and adapter >= 0 and adapter not in active and len(active) >= self.max_adapters:
                place += 1
                continue
            if self.cache.tiers is not None and self._load(sequence):
                del waiting[place]
                continue
            tokens = self._fitting(sequence, budget) if is_first or sequence.capacity else 0
            if not tokens:
                if not self.receives:
                    return
                place, is_first = place + 1, False
                continue
            del waiting[place]
            self._enter(sequence)
            if self.max_adapters and adapter >= 0:
                active.add(adapter)
            batch.append((sequence, tokens))
            budget -= tokens

    def _enter(self, sequence: Sequence) -> None:
        """Let a sequence run."""
        self.running.append(sequence)
        self.admitted.append(sequence)

    def _fitting(self, sequence: Sequence, budget: int) -> int:
        """The tokens that a waiting sequence begins with, for which it gets blocks; 0 if there are too few."""
        if sequence.capacity:
            return self._cut(sequence.missing, budget)
        matching = self.cache.matching(sequence)
        missing = sequence.total - len(matching) * self.cache.block_tokens
        tokens = self._cut(missing, budget)
        if not self.cache.can_hold(sequence, matching, missing if self.sends and sequence.preemptions else tokens):
            return 0
        self._start(sequence, matching, tokens)
        return tokens

    def _load(self, sequence: Sequence) -> bool:
        """Load the cached beginning of a waiting sequence from tiers, if there are blocks for its whole prompt; it then comes back."""
        if sequence.capacity:
            return False
        cache, matching = self.cache, self.cache.matching(sequence)
        in_tiers, hit = cache.in_tiers(sequence, len(matching)), len(matching) * cache.block_tokens
        if not in_tiers or not cache.can_hold(sequence, matching, sequence.total - hit):
            return False
        self._start(sequence, matching, sequence.total - hit)
        more = len(in_tiers) * cache.block_tokens
        sequence.computed += more
        self.loaded_tokens += more
        if not sequence.preemptions:
            sequence.cached += more
        self.to_load.append((sequence, in_tiers))
        self.loading += 1
        return True

    def loaded(self, sequence: Sequence) -> None:
        """Take a sequence back whose beginning has been loaded, before all that wait."""
        self.loading -= 1
        self.cache.loaded(sequence)
        self._wait_first(sequence)

    def _start(self, sequence: Sequence, matching: list[int], tokens: int) -> None:
        """Give a sequence the blocks that match it, and those of the tokens behind them."""
        cache, hit = self.cache, len(matching) * self.cache.block_tokens
        cache.share(sequence, matching)
        cache.grow(sequence, hit + tokens)
        sequence.computed = hit
        self.hit_tokens += hit
        self.looked_up_tokens += sequence.total
        if not sequence.preemptions:
            sequence.cached = hit

    def _cut(self, tokens: int, budget: int) -> int:
        return min(tokens, budget, self.limits.prefill_tokens or tokens)

    def _preempt(self, place: int) -> None:
        sequence = self.running.pop(place)
        self._lose(sequence)
        self.preempted.append(sequence)
        self._wait_first(sequence)

    def _lose(self, sequence: Sequence) -> None:
        """Take the blocks of a sequence, which is to be computed anew."""
        self.cache.release(sequence, keep=True)
        sequence.computed = sequence.drafts = 0
        sequence.preemptions += 1

    def _wait_first(self, sequence: Sequence) -> None:
        """Let a sequence wait before all others, or by its priority."""
        if self.by_priority:
            self.add(sequence)
        else:
            self.waiting.appendleft(sequence)

    def finish(self, sequences: Iterable[Sequence]) -> None:
        """Remove sequences whose answers are complete, and free their blocks."""
        gone = set()
        for sequence in sequences:
            self.cache.release(sequence)
            gone.add(id(sequence))
        self.running = [each for each in self.running if id(each) not in gone]
