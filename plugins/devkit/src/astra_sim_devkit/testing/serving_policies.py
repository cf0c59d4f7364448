"""Checks of serving policies: a small instance whose cache has room for all, iteration by iteration."""

from __future__ import annotations

from collections.abc import Callable

from astra_sim.serving import Policy, RequestState, ServingState

from astra_sim_devkit.testing.requirement import require

_LENGTHS = ((5, 3), (40, 1), (1, 6), (64, 2), (17, 4), (3, 3), (30, 5))
"""Tokens of prompts and answers; one of these arrives in every second iteration."""
_MOST_TOKENS, _MOST_SEQUENCES, _BLOCK = 64, 4, 16
_MOST_ITERATIONS = 500


def check_policy(make: Callable[[], Policy]) -> None:
    """Every request ends, no limit is exceeded, and the same states have the same plans. Raises PluginError."""
    plans, again = _run(make()), _run(make())
    require(plans == again, "two policies of the same options make other plans of the same states")


def _run(policy: Policy) -> list[list[tuple[int, int]]]:
    """The plans until all requests have ended."""
    require(isinstance(policy, Policy), f"it made {policy!r}, which is not a Policy")
    generated: dict[int, int] = {}
    computed: dict[int, int] = {}
    running: list[int] = []
    waiting: list[int] = []
    plans: list[list[tuple[int, int]]] = []
    for iteration in range(_MOST_ITERATIONS):
        if iteration % 2 == 0 and iteration // 2 < len(_LENGTHS):
            waiting.append(iteration // 2)
        if not running and not waiting:
            if iteration // 2 >= len(_LENGTHS):
                return plans
            continue

        def state_of(number: int, is_running: bool, now: int = iteration) -> RequestState:
            prompt, result = _LENGTHS[number][0], generated.get(number, 0)
            done = computed.get(number, 0)
            limit = _LENGTHS[number][1]
            return RequestState(number, prompt, result, done, prompt + result - done, 0, float(now), 0, is_running, limit)

        state = ServingState(
            float(iteration),
            tuple(state_of(number, True) for number in running),
            tuple(state_of(number, False) for number in waiting),
            1000,
            _BLOCK,
            _MOST_TOKENS,
            _MOST_SEQUENCES,
            1000,
        )
        plan = list(policy.plan(state))
        _check(plan, state)
        plans.append(plan)
        for number, tokens in plan:
            if number in waiting:
                waiting.remove(number)
                running.append(number)
            computed[number] = computed.get(number, 0) + tokens
            if computed[number] == _LENGTHS[number][0] + generated.get(number, 0):
                generated[number] = generated.get(number, 0) + 1
                if generated[number] == _LENGTHS[number][1]:
                    running.remove(number)
    left = sorted(running + waiting)
    require(False, f"after {_MOST_ITERATIONS} iterations requests {left} have not ended")
    return plans


def _check(plan: list[tuple[int, int]], state: ServingState) -> None:
    """Raise PluginError if a plan breaks a rule of `Policy.plan`."""
    here = {each.number: each for each in (*state.running, *state.waiting)}
    require(bool(plan), f"it planned nothing, and requests {sorted(here)} are here")
    require(len({number for number, _ in plan}) == len(plan), f"it planned a request twice: {plan}")
    for number, tokens in plan:
        require(number in here, f"it planned request {number}, which is not here")
        require(1 <= tokens <= here[number].missing, f"it planned {tokens} tokens of request {number}, which misses {here[number].missing}")
    total = sum(tokens for _, tokens in plan)
    require(total <= state.max_tokens, f"it planned {total} tokens; expected at most {state.max_tokens}")
    admitted = [number for number, _ in plan if not here[number].is_running]
    places = state.max_sequences - len(state.running)
    require(len(admitted) <= places, f"it planned {len(admitted)} waiting requests, and {places} places are free")
