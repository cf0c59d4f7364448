"""Memories behind the cache of an instance, which keep the contents of blocks that it uses for others: on the host, on disks, elsewhere.

A block that is used again goes to the first tier, and its evicted blocks to the next. A request whose beginning is found there waits until
it is loaded, while others run; its blocks in the cache are allocated before.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Sequence

import attrs

ContentKey = tuple[int, int]


@attrs.define(eq=False)
class MemoryTier:
    """Contents of at most `blocks` blocks, of which the one that was longest not used gives way.

    A load takes `latency_s`, and `block_s` for each block.
    """

    blocks: int
    latency_s: float
    block_s: float
    _contents: OrderedDict[ContentKey, None] = attrs.field(factory=OrderedDict)

    def put(self, key: ContentKey) -> ContentKey | None:
        """Keep a content. Returns the one that gives way, if one does."""
        self._contents[key] = None
        self._contents.move_to_end(key)
        return self._contents.popitem(last=False)[0] if len(self._contents) > self.blocks else None

    def has(self, key: ContentKey) -> bool:
        """Whether a content is here."""
        return key in self._contents

    def use(self, key: ContentKey) -> None:
        """Count a content as used now, if it is still here."""
        if key in self._contents:
            self._contents.move_to_end(key)


@attrs.define(eq=False)
class Tiers:
    """The tiers behind the cache of an instance, the nearest first. Loads of an instance follow each other."""

    tiers: Sequence[MemoryTier]
    free_at: float = 0.0
    loaded_blocks: int = 0
    loads: int = 0

    def put(self, key: ContentKey) -> None:
        """Keep the content of a block that the cache gives up."""
        given_up: ContentKey | None = key
        for tier in self.tiers:
            if given_up is not None:
                given_up = tier.put(given_up)

    def find(self, key: ContentKey) -> MemoryTier | None:
        """The nearest tier that has a content."""
        return next((tier for tier in self.tiers if tier.has(key)), None)

    def load(self, now: float, hits: Sequence[tuple[MemoryTier, ContentKey]]) -> float:
        """When contents are in the cache that are asked for now."""
        start = max(now, self.free_at)
        for tier, key in hits:
            tier.use(key)
        counts = Counter(id(tier) for tier, _ in hits)
        for tier in self.tiers:
            if counts[id(tier)]:
                start += tier.latency_s + counts[id(tier)] * tier.block_s
        self.free_at = start
        self.loaded_blocks += len(hits)
        self.loads += 1
        return start
