"""The interface of policies of a serving instance: from waiting and running requests to the tokens of each in an iteration.

Plugins offer policies through the hook `astra_serving_policies`; the package `astra-sim-serving` runs them.

Example:

A policy that computes a token of each request whose prompt is done, and then prompts, the shortest first, up to the tokens of an iteration:

    >>> from astra_sim.serving import Policy, RequestState, ServingState
    >>> class ShortPrompts(Policy):
    ...     def plan(self, state):
    ...         plan, left = [], state.max_tokens
    ...         places = state.max_sequences - len(state.running)
    ...         waiting = sorted(state.waiting, key=lambda request: request.missing)[:places]
    ...         for request in [*state.running, *waiting]:
    ...             tokens = min(request.missing, left)
    ...             if tokens:
    ...                 plan.append((request.number, tokens))
    ...                 left -= tokens
    ...         return plan
    ...
    ...     def keeps(self, state, plan):
    ...         return not state.waiting

Request 0 decodes; of the two that wait, the prompt of 100 tokens fits as a whole, and the other one gets what is left of 512:

    >>> def prompt(number, tokens):
    ...     return RequestState(
    ...         number, prompt_tokens=tokens, generated_tokens=0, computed=0, missing=tokens,
    ...         priority=0, waited_s=0.0, preemptions=0, is_running=False,
    ...     )
    >>> decoding = RequestState(
    ...     0, prompt_tokens=300, generated_tokens=8, computed=307, missing=1,
    ...     priority=0, waited_s=0.5, preemptions=0, is_running=True,
    ... )
    >>> state = ServingState(
    ...     now_s=0.5, running=[decoding], waiting=[prompt(1, 2000), prompt(2, 100)],
    ...     free_blocks=1000, block_tokens=16, max_tokens=512, max_sequences=8,
    ... )
    >>> policy = ShortPrompts()
    >>> policy.plan(state)
    [(0, 1), (2, 100), (1, 411)]
    >>> policy.keeps(state, policy.plan(state))
    False
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import ClassVar

import attrs

from astra_sim._boundary import Contract

__all__ = ["Policy", "RequestState", "ServingState"]


@attrs.frozen
class RequestState:
    """A request as a policy sees it. The length of the answer is unknown to it, as in a real server.

    `computed` tokens have keys and values in the cache; `missing` are those to compute before the next token of the answer. `is_running`:
    it has been admitted, and holds blocks. A smaller `priority` goes first. `waited_s` is the time since it arrived. `max_new_tokens` are
    the tokens that its answer may have at most. `cached_tokens` of a waiting prompt are in the cache, from its beginning on; 0 for those
    behind the first 128 that wait.
    """

    number: int
    prompt_tokens: int
    generated_tokens: int
    computed: int
    missing: int
    priority: int
    waited_s: float
    preemptions: int
    is_running: bool
    max_new_tokens: int = 0
    cached_tokens: int = 0


@attrs.frozen
class ServingState:
    """An instance as a policy sees it: running requests in order of admission, waiting ones in order of arrival."""

    now_s: float
    running: Sequence[RequestState]
    waiting: Sequence[RequestState]
    free_blocks: int
    block_tokens: int
    max_tokens: int
    max_sequences: int
    total_blocks: int = 0


class Policy(Contract, abc.ABC):
    """Plans the iterations of an instance."""

    _kind = "serving_policy"
    _attributes: ClassVar = {}
    _answers: ClassVar = {}

    def keeps(self, state: ServingState, plan: Sequence[tuple[int, int]]) -> bool:
        """Whether a plan in which all running requests get a token stays as it is until a request arrives or ends.

        Several iterations are then simulated as one event. The answer False is always right.
        """
        return False

    @abc.abstractmethod
    def plan(self, state: ServingState) -> Sequence[tuple[int, int]]:
        """Numbers of requests, each once, with the tokens to compute: at least 1, at most `missing`, and together at most `max_tokens`.

        Blocks are allocated in this order. If none is left, a running request that is not in the plan is preempted, the last one first;
        then, for a running request, the last running one of the rest of the plan. A waiting request for which there are none ends the plan.
        Waiting requests in the plan are admitted up to `max_sequences`. If nothing that is there
        is planned, and nothing is on its way, the run ends with an error.
        """
