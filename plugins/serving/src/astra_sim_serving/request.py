"""A request to a server, and its progress."""

from __future__ import annotations

import attrs

PARTS = ("gemm", "attention", "elementwise", "collective", "host")
"""The parts of the time of an iteration, in the order of all lists of parts."""

NO_PARTS = (0.0,) * len(PARTS)


@attrs.frozen
class ServingRequest:
    """A request. `arrival` is in seconds from the start of the run, `input` and `output` are in tokens.

    `content` identifies the first tokens of the prompt: each id represents `content_tokens` tokens and all before them, so that requests
    with equal ids share a prefix. A smaller `priority` goes first. `adapter`: the number of a LoRA adapter (-1: none). `model` is the name
    of one of several models.
    """

    index: int
    arrival: float
    input: int
    output: int
    priority: int = 0
    content: tuple[int, ...] = ()
    content_tokens: int = 0
    session: str = ""
    tenant: str = ""
    limit: int = 0
    adapter: int = -1
    model: str = ""

    @property
    def max_new_tokens(self) -> int:
        """The longest answer in tokens that the server assumes: the answer's length if there is no limit."""
        return self.limit or self.output

    @property
    def shared_tokens(self) -> int:
        """Tokens of the prompt whose content is identified."""
        return min(self.input, len(self.content) * self.content_tokens)


@attrs.define
class Spent:
    """The time of a request, in seconds by the parts of iterations.

    `mark` are the parts of the instance at the last moment that counts, `preempted_at` when the request was preempted (-1: it is not),
    `transfer_end` when its keys and values had come from another instance (-1: they have not), and `joined` when it then ran.
    `load_s` went by while its beginning came from a memory behind the cache.
    """

    preempted_at: float = -1.0
    preempted_s: float = 0.0
    preempted_before_first_s: float = 0.0
    mark: tuple[float, ...] = NO_PARTS
    prefill_parts: tuple[float, ...] = NO_PARTS
    decode_parts: tuple[float, ...] = NO_PARTS
    transfer_end: float = -1.0
    resumed: float = -1.0
    load_s: float = 0.0


@attrs.define(eq=False)
class Sequence:
    """A request in an instance.

    `total` counts the tokens of prompt and answer that exist, `computed` those whose keys and values are in the cache, if it has blocks
    for `capacity` tokens; the first of them, whose contents can be found by others, are `blocks`. `in_flight`: iterations of it are under
    way, so that no others may have it. `drafts` tokens were drafted, which its next iteration verifies. Times are seconds of the run, and
    -1 until they are known.
    """

    request: ServingRequest
    total: int
    output: int
    computed: int = 0
    generated: int = 0
    blocks: list[int] = attrs.field(factory=list)
    capacity: int = 0
    cached: int = 0
    preemptions: int = 0
    instance: int = -1
    prefill_instance: int = -1
    in_flight: bool = False
    drafts: int = 0
    scheduled: float = -1.0
    first_token: float = -1.0
    last_token: float = -1.0
    spent: Spent = attrs.field(factory=Spent)
    shed: str = ""

    @property
    def missing(self) -> int:
        """Tokens that are still to be computed before the next one can be generated."""
        return self.total - self.computed

    @property
    def is_done(self) -> bool:
        """Whether all of its answer is there."""
        return self.generated >= self.output

    @property
    def order(self) -> tuple[int, float, int]:
        """The place in a queue by priority: priority, arrival, number."""
        return self.request.priority, self.request.arrival, self.request.index


def sequence_of(request: ServingRequest) -> Sequence:
    """A request that has just arrived."""
    return Sequence(request, request.input, request.output)
