"""Policies of compiled instances: those of this package in C++, others called from there."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

import attrs
from astra_sim.providers import call
from astra_sim.serving import RequestState, ServingState

from astra_sim_serving.policies import PolicyScheduler, checked_plan
from astra_sim_serving.presets import EarliestDeadlineFirst, Orca, PrefillFirst, Sarathi, Sglang, ShortestFirst, Trtllm
from astra_sim_serving.scheduler import InstanceScheduler

if TYPE_CHECKING:
    from astra_sim_serving import _core


def policy_in_core(module: ModuleType, scheduler: InstanceScheduler) -> _core.Policy | None:
    """The policy of a scheduler for its compiled instance; None: the rules of vLLM."""
    if not isinstance(scheduler, PolicyScheduler):
        return None
    make = _PRESETS.get(type(scheduler.policy))
    policy: _core.Policy
    if make is not None:
        policy = make(module, scheduler.policy)
        return policy
    caller = _PolicyCaller(scheduler)
    fields = tuple(each.name for each in attrs.fields(RequestState))
    policy = module.PythonPolicy(caller.plan, caller.checked, caller.keeps, RequestState, fields)
    return policy


def _by_length(module: ModuleType, policy: Any) -> Any:
    options = policy.options
    return module.OneChunk(module.Order.PROMPT if options.by == "prompt" else module.Order.OUTPUT, options.aging_tokens_per_s)


def _by_deadline(module: ModuleType, policy: Any) -> Any:
    return module.OneChunk(module.Order.DEADLINE, policy.options.ttft_ms, policy.options.us_per_token)


def _trtllm(module: ModuleType, policy: Any) -> Any:
    return module.WholePrompts(policy.options.capacity == "guaranteed-no-evict", policy.options.chunked_context)


_PRESETS: dict[type, Any] = {
    PrefillFirst: lambda module, policy: module.PrefillFirst(),
    Sarathi: lambda module, policy: module.OneChunk(module.Order.ARRIVAL),
    ShortestFirst: _by_length,
    EarliestDeadlineFirst: _by_deadline,
    Orca: lambda module, policy: module.WholePrompts(True, False),
    Trtllm: _trtllm,
    Sglang: lambda module, policy: module.Sglang(policy.options.schedule == "lpm", policy.options.conservativeness),
}
"""Makes the same policy in C++, by the type of one in Python."""


@attrs.define(eq=False)
class _PolicyCaller:
    """Asks a policy for the plans of an instance whose requests are in C++."""

    scheduler: PolicyScheduler
    _state: ServingState | None = None
    _answer: Any = None

    def plan(self, now: float, free_blocks: int, running: list[RequestState], waiting: list[RequestState]) -> object:
        """What the policy answers."""
        limits, cache = self.scheduler.limits, self.scheduler.cache
        self._state = ServingState(
            now,
            tuple(running),
            tuple(waiting),
            free_blocks,
            cache.block_tokens,
            limits.tokens,
            limits.sequences,
            cache.blocks,
        )
        self._answer = call(self.scheduler.what, self.scheduler.policy.plan, self._state)
        return self._answer

    def checked(self, answer: object) -> list[tuple[int, int]]:
        """The same as a list. Raises PluginError if it breaks the contract."""
        assert self._state is not None
        missing = {each.number: each.missing for each in (*self._state.running, *self._state.waiting)}
        return checked_plan(self.scheduler.what, answer, missing, self.scheduler.limits.tokens, True)

    def keeps(self) -> bool:
        """Whether that plan stays, of one token of each running request."""
        return bool(self.scheduler.is_predictable and call(self.scheduler.what, self.scheduler.policy.keeps, self._state, self._answer))
