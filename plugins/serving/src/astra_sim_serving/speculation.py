"""Speculative decoding: a draft of some tokens, of which the model accepts those up to the first that it would not have chosen.

Each token of a draft is accepted with the same chance (Leviathan et al., arXiv 2211.17192), so that an iteration gives
(1 - q^(s+1)) / (1 - q) tokens on average for a draft of s tokens and a chance of q.
"""

from __future__ import annotations

import math

import attrs
from astra_sim.random import RandomStream

from astra_sim_serving.request import Sequence

_ANSWERS = 1 << 24
"""Tokens of an answer at most, so that each has random numbers of its own."""


@attrs.define(eq=False)
class Speculation:
    """Drafts of `tokens` tokens, each accepted with the chance `acceptance`; `drafted` and `accepted` count."""

    tokens: int
    acceptance: float
    stream: RandomStream
    drafted: int = 0
    accepted: int = 0

    def accept(self, sequence: Sequence) -> int:
        """The number of accepted tokens of a sequence's draft. It depends only on the request and its place."""
        chance = self.stream.uniform(sequence.request.index * _ANSWERS + sequence.generated)
        taken = sequence.drafts
        if self.acceptance < 1 and chance > 0:
            taken = min(taken, int(math.log(chance) / math.log(self.acceptance))) if self.acceptance > 0 else 0
        self.drafted += sequence.drafts
        self.accepted += taken
        return taken

    def include(self, other: Speculation) -> None:
        """Count the drafts of another, too."""
        self.drafted += other.drafted
        self.accepted += other.accepted

    def document(self) -> dict[str, float]:
        """The outcome of the drafts, before answers end."""
        return {"drafted": self.drafted, "accepted": self.accepted, "acceptance": self.accepted / self.drafted if self.drafted else 0.0}
