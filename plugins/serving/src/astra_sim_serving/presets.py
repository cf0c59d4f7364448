"""Policies beside vLLM's V1 rules, as papers and documentation describe them; none was checked against the code of these engines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import attrs
from astra_sim import option
from astra_sim.serving import Policy, RequestState, ServingState

Plan = list[tuple[int, int]]


@attrs.define
class _Iteration:
    """A plan that is filled while the tokens of the iteration last, of which `left` are."""

    left: int
    plan: Plan = attrs.field(factory=list)

    def add(self, request: RequestState, tokens: int) -> None:
        """Compute `tokens` tokens of a request, or as many as are left."""
        tokens = min(tokens, self.left)
        if tokens:
            self.plan.append((request.number, tokens))
            self.left -= tokens


class _Keeping(Policy):
    """A policy whose plans stay while all decode and nothing waits, or no place is free."""

    def keeps(self, state: ServingState, plan: Sequence[tuple[int, int]]) -> bool:
        """Whether nothing could be admitted. Tokens of a decoding request change nothing."""
        return not state.waiting or len(state.running) >= state.max_sequences


class _Reserving(Policy):
    """A policy that admits by memory which only the end of a request gives back."""

    def keeps(self, state: ServingState, plan: Sequence[tuple[int, int]]) -> bool:
        """Always: a request that did not fit does not fit before another has ended."""
        return True


class PrefillFirst(_Keeping):
    """vLLM before V1: an iteration computes whole prompts, or one token of each running request; prompts go first."""

    def plan(self, state: ServingState) -> Sequence[tuple[int, int]]:
        """Whole prompts that fit, else one token of each running request. A prompt longer than an iteration goes when it is alone."""
        prompts = _chunk((each for each in state.running if each.missing > 1), state, state.max_tokens, [])
        if prompts:
            return prompts
        filled, blocks = _Iteration(state.max_tokens), state.free_blocks
        for request in state.waiting[: state.max_sequences - len(state.running)]:
            blocks -= _blocks(request.missing, state)
            if request.missing > filled.left or blocks < 0:
                break
            filled.add(request, request.missing)
        return filled.plan or _decodes(state) or _chunk([], state, state.max_tokens, state.waiting)


# -- One chunk beside all that decodes, in several orders --------------------------------------------------------------


class Sarathi(_Keeping):
    """Every running request gets its token, and one prompt at a time a chunk of the rest (Sarathi-Serve, arXiv 2403.02310)."""

    def plan(self, state: ServingState) -> Sequence[tuple[int, int]]:
        """One token of each that decodes, and a chunk of the prompt that is under way, else of the first that waits."""
        planned = _decodes(state)
        left = state.max_tokens - len(planned)
        return planned + _chunk((each for each in state.running if each.missing > 1), state, left, self._order(state))

    def _order(self, state: ServingState) -> Sequence[RequestState]:
        """The waiting requests, the next first."""
        return state.waiting


@attrs.frozen
class ShortestFirstOptions:
    """The score of a waiting request, least first, and its rate of change while the request waits."""

    by: str = option("prompt", choices=("prompt", "output"), help="prompt: its length; output: the tokens that the answer may have")
    aging_tokens_per_s: float = option(0.0, minimum=0, help="tokens by which a request gets shorter for each second that it waits")


@attrs.frozen(eq=False)
class ShortestFirst(Sarathi):
    """As Sarathi, with the shortest request that waits first: without aging, long ones may wait for ever."""

    options: ShortestFirstOptions

    def _order(self, state: ServingState) -> Sequence[RequestState]:
        options = self.options

        def length(request: RequestState) -> float:
            tokens = request.missing if options.by == "prompt" else request.max_new_tokens
            return tokens - options.aging_tokens_per_s * request.waited_s

        return sorted(state.waiting, key=lambda each: (length(each), each.number))


@attrs.frozen
class DeadlineOptions:
    """The deadlines of first tokens."""

    ttft_ms: float = option(500.0, above=0, help="time from the arrival of a request to its deadline", unit="ms")
    us_per_token: float = option(0.0, minimum=0, help="and for each token of its prompt", unit="us")


@attrs.frozen(eq=False)
class EarliestDeadlineFirst(Sarathi):
    """As Sarathi, with the request first whose first token is due first."""

    options: DeadlineOptions

    def _order(self, state: ServingState) -> Sequence[RequestState]:
        options = self.options

        def due_in(request: RequestState) -> float:
            return options.ttft_ms / 1e3 + options.us_per_token / 1e6 * request.prompt_tokens - request.waited_s

        return sorted(state.waiting, key=lambda each: (due_in(each), each.number))


# -- Memory is reserved for the longest answers ------------------------------------------------------------------------


class Orca(_Reserving):
    """Requests reserve the memory of prompt and longest answer when they are admitted, so that none is ever preempted (OSDI 2022).

    All that run get a token, and prompts are computed as wholes beside them.
    """

    def plan(self, state: ServingState) -> Sequence[tuple[int, int]]:
        """One token of each that decodes, and the prompts for which memory is left, in order of arrival."""
        return _with_whole_prompts(state, reserving(state))


@attrs.frozen
class TrtllmOptions:
    """The admission policy of TensorRT-LLM."""

    capacity: str = option(
        "guaranteed-no-evict",
        choices=("guaranteed-no-evict", "max-utilization"),
        help="admit a request if its longest answer fits beside those of all others, or if its prompt fits now",
    )
    chunked_context: bool = option(False, help="cut prompts where the tokens of an iteration end; false: whole prompts alone")


@attrs.frozen(eq=False)
class Trtllm(_Reserving):
    """TensorRT-LLM: a capacity scheduler admits requests, a micro-batch of those that decode and of prompts that fit is computed."""

    options: TrtllmOptions

    def plan(self, state: ServingState) -> Sequence[tuple[int, int]]:
        """One token of each that decodes, and prompts."""
        if self.options.capacity == "guaranteed-no-evict":
            return _with_whole_prompts(state, reserving(state), self.options.chunked_context)
        left = state.free_blocks

        def fits(request: RequestState) -> bool:
            nonlocal left
            left -= _blocks(request.missing, state)
            return left >= 0

        return _with_whole_prompts(state, fits, self.options.chunked_context)


def reserving(state: ServingState) -> Callable[[RequestState], bool]:
    """Whether a request may come, asked in order: its prompt and longest answer fit beside those of all that run and came before it."""
    left = state.total_blocks - sum(_longest(each, state) for each in state.running)

    def fits(request: RequestState) -> bool:
        nonlocal left
        left -= _longest(request, state)
        return left >= 0

    return fits


def _with_whole_prompts(state: ServingState, fits: Callable[[RequestState], bool], chunked: bool = False) -> Plan:
    """One token of each that decodes, then prompts under way, then those that fit; if nothing else is here, the first does."""
    decodes = _decodes(state)
    filled = _Iteration(state.max_tokens - len(decodes), decodes)
    for request in state.running:
        if request.missing > 1:
            filled.add(request, request.missing)
    for place, request in enumerate(state.waiting[: state.max_sequences - len(state.running)]):
        is_alone = not state.running and place == 0
        is_cut = request.missing > filled.left and not chunked and not is_alone
        if not filled.left or not (fits(request) or is_alone) or is_cut:
            break
        filled.add(request, request.missing)
    return filled.plan


# -- SGLang ------------------------------------------------------------------------------------------------------------

_FIRST_RATIO, _LEAST_SHARE, _DECAY_ITERATIONS = 0.7, 0.14, 600
"""The share of their longest answers that running requests are expected to need, at first; its least share; iterations until that."""
_LONGEST_EXPECTED = 4096
_RETRACTED_TOKENS = 20
"""Tokens that each request is expected to compute after a retraction."""


@attrs.frozen
class SglangOptions:
    """The order in which SGLang admits waiting requests."""

    schedule: str = option("lpm", choices=("lpm", "fcfs"), help="lpm: the longest cached beginning first; fcfs: in order of arrival")
    conservativeness: float = option(1.0, above=0, help="factor on the memory that running requests are expected to need")


@attrs.define(eq=False)
class Sglang(Policy):
    """SGLang: prompts go first, in iterations of their own, while memory is expected to last; the last chunk of tokens is cut.

    The expected memory of running requests falls with every iteration that decodes. If it was too little, the requests with the
    fewest tokens of answers are retracted, and the expectation is updated from those that stay.
    """

    options: SglangOptions
    _ratio: float = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._ratio = _FIRST_RATIO * self.options.conservativeness

    def plan(self, state: ServingState) -> Sequence[tuple[int, int]]:
        """Prompts, or one token of each that decodes."""
        return self._prompts(state) or self._tokens(state)

    def _prompts(self, state: ServingState) -> Plan:
        """The prompts under way, and those that wait while all that run may get their memory."""
        filled = _Iteration(state.max_tokens)
        expected = 0.0
        for each in state.running:
            expected += min(each.max_new_tokens - each.generated_tokens, _LONGEST_EXPECTED) * self._ratio
            if each.missing > 1:
                filled.add(each, each.missing)
        room = state.free_blocks * state.block_tokens - expected
        waiting = sorted(state.waiting, key=lambda each: -each.cached_tokens) if self.options.schedule == "lpm" else state.waiting
        for place, request in enumerate(waiting[: state.max_sequences - len(state.running)]):
            new = max(1, request.missing - request.cached_tokens)
            room -= new + min(request.max_new_tokens, _LONGEST_EXPECTED)
            if not filled.left or (room <= 0 and (state.running or place)):
                break
            filled.add(request, new)
        return filled.plan

    def _tokens(self, state: ServingState) -> Plan:
        """A token of each that decodes, but for those whose blocks others need."""
        decoding = [each for each in state.running if each.missing == 1]
        needed = sum(each.computed % state.block_tokens == 0 for each in decoding)
        by_length = sorted(decoding, key=lambda each: (each.generated_tokens, -each.prompt_tokens))
        staying = list(decoding)
        while needed > state.free_blocks and len(staying) > 1:
            victim = by_length.pop(0)
            staying.remove(victim)
            needed -= (victim.computed % state.block_tokens == 0) + _blocks(victim.computed, state)
        if len(staying) < len(decoding):
            total = sum(each.generated_tokens + _RETRACTED_TOKENS for each in staying)
            self._ratio = min(1.0, total / max(1, sum(each.max_new_tokens for each in staying)))
        else:
            first = _FIRST_RATIO * self.options.conservativeness
            self._ratio = max(first * _LEAST_SHARE, self._ratio - first * (1 - _LEAST_SHARE) / _DECAY_ITERATIONS)
        return [(each.number, 1) for each in staying][: state.max_tokens]


# -- Shared by several of them -----------------------------------------------------------------------------------------


def _blocks(tokens: int, state: ServingState) -> int:
    return -(-tokens // state.block_tokens)


def _longest(request: RequestState, state: ServingState) -> int:
    """Blocks of a prompt with its longest answer."""
    return _blocks(request.prompt_tokens + request.max_new_tokens, state)


def _decodes(state: ServingState) -> Plan:
    """One token of each running request whose prompt is computed, as many as the budget has."""
    return [(each.number, 1) for each in state.running if each.missing == 1][: state.max_tokens]


def _chunk(prompts: Iterable[RequestState], state: ServingState, left: int, queue: Sequence[RequestState]) -> Plan:
    """A chunk of the first prompt under way, else of the first that waits, if places and blocks are there."""
    if left < 1:
        return []
    for each in prompts:
        return [(each.number, min(left, each.missing))]
    if queue and len(state.running) < state.max_sequences and (state.free_blocks > 0 or not state.running):
        return [(queue[0].number, min(left, queue[0].missing, max(1, state.free_blocks * state.block_tokens)))]
    return []
