"""The blocks of keys and values of an instance, with the contents that freed ones keep (prefix caching).

A freed block keeps its content until it is used again. Free blocks are used in the order of freeing, the tail of a sequence first (vLLM).
Blocks have a number only if their content can be found; others are alike, and are counted.
"""

from __future__ import annotations

from collections import OrderedDict

from astra_sim_serving.request import Sequence, ServingRequest
from astra_sim_serving.tiers import ContentKey, MemoryTier, Tiers

_SAME = -1
"""Stands for a block of a sequence whose content is that of another block, which is found instead."""


class KvCache:
    """Blocks of `block_tokens` tokens each. A block is free, or held by one or more sequences."""

    def __init__(self, blocks: int, block_tokens: int, prefix_caching: bool = True, tiers: Tiers | None = None) -> None:
        self.blocks = blocks
        self.tiers = tiers
        self.block_tokens = block_tokens
        self.prefix_caching = prefix_caching
        self.free_blocks = blocks
        self._free: OrderedDict[int, int] = OrderedDict(
            [(0, blocks)]
        )  # free blocks in order of use: runs of several, or one with a content
        self._last_run: int | None = 0  # the last entry, if that is a run
        self._next = 1  # the number of the next block with a content, or run
        self._holders: dict[int, int] = {}
        self._key_of: dict[int, ContentKey] = {}
        self._block_of: dict[ContentKey, int] = {}

    @property
    def used_blocks(self) -> int:
        """Blocks that sequences hold."""
        return self.blocks - self.free_blocks

    def blocks_for(self, tokens: int) -> int:
        """Blocks that `tokens` tokens need."""
        return -(-tokens // self.block_tokens)

    def matching(self, sequence: Sequence) -> list[int]:
        """Blocks with the longest cached prefix of a sequence, of which at least one token remains to be computed."""
        if not self.prefix_caching or not (sequence.request.content or sequence.preemptions):
            return []
        return self._longest(sequence.request, (sequence.total - 1) // self.block_tokens)

    def match_tokens(self, request: ServingRequest) -> int:
        """Tokens of a request's prompt that are cached."""
        if not self.prefix_caching or not request.content:
            return 0
        return len(self._longest(request, (request.input - 1) // self.block_tokens)) * self.block_tokens

    def _longest(self, request: ServingRequest, most: int) -> list[int]:
        matching: list[int] = []
        for position in range(most):
            block = self._block_of.get(self._key(request, position))
            if block is None:
                break
            matching.append(block)
        return matching

    def in_tiers(self, sequence: Sequence, first: int) -> list[tuple[MemoryTier, ContentKey]]:
        """The contents of a sequence's blocks from the first that is not in the cache on, as far as tiers have them one after another."""
        result: list[tuple[MemoryTier, ContentKey]] = []
        if self.tiers is None or not (sequence.request.content or sequence.preemptions):
            return result
        for position in range(first, (sequence.total - 1) // self.block_tokens):
            key = self._key(sequence.request, position)
            tier = self.tiers.find(key)
            if tier is None or key in self._block_of:
                break
            result.append((tier, key))
        return result

    def loaded(self, sequence: Sequence) -> None:
        """Note that the awaited blocks of a sequence are there."""
        self._register(sequence, sequence.computed // self.block_tokens)

    def can_hold(self, sequence: Sequence, matching: list[int], tokens: int) -> bool:
        """Whether `tokens` more tokens of a waiting sequence fit behind those that match."""
        new = self.blocks_for(len(matching) * self.block_tokens + tokens) - len(matching)
        return new <= self.free_blocks - sum(block in self._free for block in matching)

    def share(self, sequence: Sequence, matching: list[int]) -> None:
        """Give a sequence the blocks that match it."""
        holders = self._holders
        for block in matching:
            if self._free.pop(block, 0):
                self.free_blocks -= 1
                holders[block] = 1
            else:
                holders[block] += 1
        sequence.blocks.extend(matching)
        sequence.capacity = len(sequence.blocks) * self.block_tokens

    def grow(self, sequence: Sequence, tokens: int) -> bool:
        """Give a sequence the blocks that it needs for `tokens` tokens in all; False if there are too few."""
        if tokens > sequence.capacity:
            new = -(-(tokens - sequence.capacity) // self.block_tokens)
            if new > self.free_blocks:
                return False
            self._take(new)
            sequence.capacity += new * self.block_tokens
        if sequence.request.content:
            self._register(sequence, min(tokens, sequence.request.shared_tokens) // self.block_tokens)
        return True

    def _take(self, count: int) -> None:
        """Use free blocks, those first that were freed first; they lose their contents."""
        self.free_blocks -= count
        free = self._free
        while count:
            entry = next(iter(free))
            size = free[entry]
            if size > count:
                free[entry] = size - count
                return
            del free[entry]
            count -= size
            key = self._key_of.pop(entry, None)
            if key is not None:
                del self._block_of[key]
                if self.tiers is not None:
                    self.tiers.put(key)
            elif entry == self._last_run:
                self._last_run = None

    def release(self, sequence: Sequence, keep: bool = False) -> None:
        """Free the blocks of a sequence. `keep`: it will come back, so the contents of its full blocks can be found again."""
        if keep:
            self._register(sequence, sequence.computed // self.block_tokens)
        holders = self._holders
        self._give_back(sequence.capacity // self.block_tokens - len(sequence.blocks))
        for block in reversed(sequence.blocks):
            if block == _SAME:
                self._give_back(1)
                continue
            holders[block] -= 1
            if not holders[block]:
                self._free[block] = 1
                self.free_blocks += 1
                self._last_run = None
        sequence.blocks = []
        sequence.capacity = 0

    def _give_back(self, count: int) -> None:
        """Free `count` blocks without contents, the last to be used."""
        if not count:
            return
        if self._last_run is None:
            self._last_run, self._next = self._next, self._next + 1
            self._free[self._last_run] = 0
        self._free[self._last_run] += count
        self.free_blocks += count

    def _register(self, sequence: Sequence, full: int) -> None:
        """Note the contents of the first `full` blocks. If another block has the same content, that one is found."""
        if not self.prefix_caching:
            return
        for position in range(len(sequence.blocks), full):
            key = self._key(sequence.request, position)
            block = _SAME
            if key not in self._block_of:
                block, self._next = self._next, self._next + 1
                self._key_of[block], self._block_of[key], self._holders[block] = key, block, 1
            sequence.blocks.append(block)

    def _key(self, request: ServingRequest, position: int) -> ContentKey:
        """The content of a block of a request: that of an id it shares with others, or its own."""
        last = (position + 1) * self.block_tokens - 1
        if last < request.shared_tokens:
            return request.content[last // request.content_tokens], position
        return -1 - request.index, position

    def check(self, holding: list[Sequence]) -> None:
        """Raise AssertionError unless the blocks of sequences and the free ones add up."""
        held: dict[int, int] = {}
        alike = 0
        for sequence in holding:
            for block in sequence.blocks:
                held[block] = held.get(block, 0) + 1
            alike += sequence.capacity // self.block_tokens - len(sequence.blocks)
        alike += held.pop(_SAME, 0)
        assert held == {block: count for block, count in self._holders.items() if count}
        assert len(held) + alike + self.free_blocks == self.blocks
        assert self.free_blocks == sum(self._free.values())
        assert not set(held) & set(self._free)
        assert self._last_run is None or (self._last_run == next(reversed(self._free)) and self._last_run not in self._key_of)
        assert all(self._key_of[block] == key for key, block in self._block_of.items())
        assert len(self._key_of) == len(self._block_of)
