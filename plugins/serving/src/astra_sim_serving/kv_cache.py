"""The blocks of keys and values of an instance, with the contents that freed ones keep (prefix caching).

A freed block keeps its content until it is used again. Free blocks are used in the order of freeing, the tail of a sequence first (vLLM).
"""

from __future__ import annotations

from collections import OrderedDict

from astra_sim_serving.request import Request, Sequence

ContentKey = tuple[int, int]


class KvCache:
    """Blocks of `block_tokens` tokens each. A block is free, or held by one or more sequences."""

    def __init__(self, blocks: int, block_tokens: int, prefix_caching: bool = True) -> None:
        self.blocks = blocks
        self.block_tokens = block_tokens
        self.prefix_caching = prefix_caching
        self._unused = 0  # blocks from this number on were never held, and come before those that were freed
        self._free: OrderedDict[int, None] = OrderedDict()
        self._holders: dict[int, int] = {}
        self._key_of: dict[int, ContentKey] = {}
        self._block_of: dict[ContentKey, int] = {}

    @property
    def free_blocks(self) -> int:
        """Blocks that no sequence holds."""
        return self.blocks - self._unused + len(self._free)

    @property
    def used_blocks(self) -> int:
        """Blocks that sequences hold."""
        return self._unused - len(self._free)

    def blocks_for(self, tokens: int) -> int:
        """Blocks that so many tokens need."""
        return -(-tokens // self.block_tokens)

    def matching(self, sequence: Sequence) -> list[int]:
        """Blocks with the longest cached prefix of a sequence, of which at least one token remains to be computed."""
        if not self.prefix_caching or not (sequence.request.content or sequence.preemptions):
            return []
        return self._longest(sequence.request, (sequence.total - 1) // self.block_tokens)

    def match_tokens(self, request: Request) -> int:
        """Tokens of a request's prompt that are cached."""
        if not self.prefix_caching or not request.content:
            return 0
        return len(self._longest(request, (request.input - 1) // self.block_tokens)) * self.block_tokens

    def _longest(self, request: Request, most: int) -> list[int]:
        matching: list[int] = []
        for position in range(most):
            block = self._block_of.get(self._key(request, position))
            if block is None:
                break
            matching.append(block)
        return matching

    def can_hold(self, sequence: Sequence, matching: list[int], tokens: int) -> bool:
        """Whether `tokens` more tokens of a waiting sequence fit behind those that match."""
        new = self.blocks_for(len(matching) * self.block_tokens + tokens) - len(matching)
        return new <= self.free_blocks - sum(block in self._free for block in matching)

    def share(self, sequence: Sequence, matching: list[int]) -> None:
        """Give a sequence the blocks that match it."""
        holders = self._holders
        for block in matching:
            if block in self._free:
                del self._free[block]
                holders[block] = 1
            else:
                holders[block] += 1
        sequence.blocks.extend(matching)
        sequence.registered = len(matching)
        sequence.capacity = len(sequence.blocks) * self.block_tokens

    def grow(self, sequence: Sequence, tokens: int) -> bool:
        """Give a sequence the blocks that it needs for `tokens` tokens in all; False where there are too few."""
        if tokens > sequence.capacity:
            blocks = sequence.blocks
            new = self.blocks_for(tokens) - len(blocks)
            if new > self.free_blocks:
                return False
            self._take(new, blocks)
            sequence.capacity = len(blocks) * self.block_tokens
        if sequence.request.content:
            self._register(sequence, min(tokens, sequence.request.shared_tokens) // self.block_tokens)
        return True

    def _take(self, count: int, blocks: list[int]) -> None:
        """Append free blocks: those that were never held, then those that were freed first, which lose their contents."""
        fresh = min(count, self.blocks - self._unused)
        for block in range(self._unused, self._unused + fresh):
            self._holders[block] = 1
            blocks.append(block)
        self._unused += fresh
        for _ in range(count - fresh):
            block, _ = self._free.popitem(last=False)
            self._holders[block] = 1
            key = self._key_of.pop(block, None)
            if key is not None:
                del self._block_of[key]
            blocks.append(block)

    def release(self, sequence: Sequence, keep: bool = False) -> None:
        """Free the blocks of a sequence. `keep`: it will come back, so the contents of its full blocks can be found again."""
        if keep:
            self._register(sequence, sequence.computed // self.block_tokens)
        holders = self._holders
        for block in reversed(sequence.blocks):
            holders[block] -= 1
            if not holders[block]:
                self._free[block] = None
        sequence.blocks = []
        sequence.capacity = sequence.registered = 0

    def _register(self, sequence: Sequence, full: int) -> None:
        """Note the contents of the first `full` blocks. Where another block has the same content, that one is found."""
        if not self.prefix_caching or full <= sequence.registered:
            return
        for position in range(sequence.registered, min(full, len(sequence.blocks))):
            key = self._key(sequence.request, position)
            if key not in self._block_of:
                block = sequence.blocks[position]
                self._key_of[block] = key
                self._block_of[key] = block
        sequence.registered = full

    def _key(self, request: Request, position: int) -> ContentKey:
        """The content of a block of a request: that of an id it shares with others, or its own."""
        last = (position + 1) * self.block_tokens - 1
        if last < request.shared_tokens:
            return request.content[last // request.content_tokens], position
        return -1 - request.index, position

    def check(self, holding: list[Sequence]) -> None:
        """Raise AssertionError unless the blocks of sequences and the free ones add up."""
        held: dict[int, int] = {}
        for sequence in holding:
            for block in sequence.blocks:
                held[block] = held.get(block, 0) + 1
        assert held == {block: count for block, count in self._holders.items() if count}
        assert len(held) + self.free_blocks == self.blocks
        assert not set(held) & set(self._free)
        assert all(self._key_of[block] == key for key, block in self._block_of.items())
        assert len(self._key_of) == len(self._block_of)
