"""The interface of policies of a serving instance: from waiting and running requests to the tokens of each in an iteration.

Plugins offer policies through the hook `astra_serving_policies`; the package `astra-sim-serving` runs them.
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
