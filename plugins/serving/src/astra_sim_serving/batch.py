"""The work of an iteration, as far as its time depends on it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from astra_sim_serving.request import Sequence

PAIR_QUANTUM = 16
"""Tokens of which an equivalent prompt is a multiple, so that times are found again."""


class AdapterUse(NamedTuple):
    """Tokens of an iteration that have adapters, how many adapters these are, and how many of them come from the host for it."""

    tokens: int = 0
    adapters: int = 0
    loads: int = 0


NO_ADAPTERS = AdapterUse()


class BatchShape(NamedTuple):
    """Tokens of an iteration.

    `chunk` counts the tokens of prompts, `chunk_pairs` the pairs of a query and a key that they make: c x context + c^2 / 2 for a chunk of
    c tokens. `decodes` counts sequences that compute one token, `kv_tokens` all keys that these see and `kv_longest` those of the longest.
    `sampled` counts sequences that get a token, `drafts` tokens that were drafted for decoding ones, to be verified beside their own.
    """

    chunk: int
    chunk_pairs: float
    decodes: int
    kv_tokens: int
    kv_longest: int
    sampled: int
    drafts: int = 0
    adapters: AdapterUse = NO_ADAPTERS

    @property
    def tokens(self) -> int:
        """Tokens that pass through the products."""
        return self.chunk + self.decodes + self.drafts

    @property
    def draft_rounds(self) -> float:
        """Drafted tokens of a decoding sequence, on average."""
        return self.drafts / self.decodes if self.decodes else 0.0

    def drafting(self) -> BatchShape:
        """The work in which each decoding sequence gets one more token of its draft."""
        return self._replace(chunk=0, chunk_pairs=0.0, drafts=0, sampled=self.decodes)

    @property
    def attention_chunk(self) -> int:
        """The tokens of one chunk with as many pairs as all chunks together: all tokens, unless that would make more pairs.

        Several short prompts have fewer pairs than one prompt of their tokens: they are one shorter prompt to attention.
        """
        if 2 * self.chunk_pairs >= self.chunk**2:
            return self.chunk
        return min(self.chunk, PAIR_QUANTUM * max(1, round(math.sqrt(2 * self.chunk_pairs) / PAIR_QUANTUM)))

    @property
    def chunk_context(self) -> float:
        """The context of that chunk."""
        return max(0.0, self.chunk_pairs / self.chunk - self.chunk / 2) if self.chunk else 0.0

    @property
    def kv_mean(self) -> float:
        """Keys that a decoding sequence sees, on average."""
        return self.kv_tokens / self.decodes if self.decodes else 0.0

    def later(self, iterations: int) -> BatchShape:
        """The same sequences some iterations later, if all decode, as in the iteration before: no adapter is loaded."""
        return self._replace(kv_tokens=self.kv_tokens + iterations * self.decodes, kv_longest=self.kv_longest + iterations)


def shape_of(batch: Iterable[tuple[Sequence, int]]) -> BatchShape:
    """The work of a batch: sequences and how many tokens each computes."""
    chunk = decodes = kv_tokens = kv_longest = sampled = drafts = 0
    pairs = 0.0
    for sequence, tokens in batch:
        end = sequence.computed + tokens
        if tokens == 1:
            decodes += 1
            drafts += sequence.drafts
            kv_tokens += end
            kv_longest = max(kv_longest, end)
        else:
            chunk += tokens
            pairs += tokens * (sequence.computed + tokens / 2)
        if end == sequence.total:
            sampled += 1
    return BatchShape(chunk, pairs, decodes, kv_tokens, kv_longest, sampled, drafts)
