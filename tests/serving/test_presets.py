"""The policies of other engines on states made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from astra_sim.serving import Policy, RequestState, ServingState
from astra_sim.setup.plugins import shared_plugins
from astra_sim_serving.result import ServingResult

from serving.cases import check_conserved, run

BLOCK = 4


def policy(name: str, **options: Any) -> Policy:
    provider = shared_plugins().get("serving_policy", name)
    cls = provider.load_options()
    result = provider.create(None if cls is None else cls(**options))
    assert isinstance(result, Policy)
    return result


def decoding(number: int, prompt: int, made: int, most: int = 10) -> RequestState:
    """A running request that computes a token."""
    return RequestState(number, prompt, made, prompt + made - 1, 1, 0, 0.0, 0, True, most)


def under_way(number: int, prompt: int, computed: int, most: int = 10) -> RequestState:
    """A running request of whose prompt a number of tokens is computed."""
    return RequestState(number, prompt, 0, computed, prompt - computed, 0, 0.0, 0, True, most)


def waits(number: int, prompt: int, most: int = 10, waited: float = 0.0, cached: int = 0) -> RequestState:
    return RequestState(number, prompt, 0, 0, prompt, 0, waited, 0, False, most, cached)


def state(
    running: Sequence[RequestState] = (),
    waiting: Sequence[RequestState] = (),
    *,
    free: int = 50,
    total: int = 100,
    tokens: int = 32,
    most: int = 8,
) -> ServingState:
    return ServingState(0.0, tuple(running), tuple(waiting), free, BLOCK, tokens, most, total)


@pytest.mark.parametrize(
    ("given", "plan"),
    [
        (state([], [waits(0, 8), waits(1, 8)]), [(0, 8), (1, 8)]),
        (state([decoding(0, 8, 2)], [waits(1, 8)]), [(0, 1), (1, 8)]),
        # 8 + 10 tokens are 5 blocks each: of 11, two requests reserve 10
        (state([decoding(0, 8, 2)], [waits(1, 8), waits(2, 8)], total=11), [(0, 1), (1, 8)]),
        (state([decoding(0, 8, 2)], [waits(1, 8, most=11)], total=10), [(0, 1), (1, 8)]),
        (state([decoding(0, 8, 2)], [waits(1, 8, most=13)], total=10), [(0, 1)]),
        # a request that does not fit keeps those behind it waiting
        (state([decoding(0, 8, 2)], [waits(1, 8, most=99), waits(2, 4, most=1)], total=12), [(0, 1)]),
        # prompts are wholes, unless one is alone and longer than an iteration
        (state([decoding(0, 8, 2)], [waits(1, 40)]), [(0, 1)]),
        (state([], [waits(1, 40)]), [(1, 32)]),
        (state([under_way(1, 40, 32)], [waits(2, 9)]), [(1, 8), (2, 9)]),
        # nothing reserves more than there is for ever
        (state([], [waits(0, 8, most=1000)], total=10), [(0, 8)]),
        (state([decoding(n, 4, 1, most=2) for n in range(8)], [waits(9, 4)]), [(n, 1) for n in range(8)]),
        (state([decoding(0, 8, 2)], [waits(1, 20), waits(2, 20)]), [(0, 1), (1, 20)]),
    ],
)
@pytest.mark.parametrize("name", ["orca", "trtllm"])
def test_memory_for_the_longest_answers_is_reserved(name: str, given: ServingState, plan: list[tuple[int, int]]) -> None:
    assert policy(name).plan(given) == plan


@pytest.mark.parametrize(
    ("given", "plan"),
    [
        (state([decoding(0, 8, 2)], [waits(1, 8, most=1000)], total=10, free=2), [(0, 1), (1, 8)]),
        (state([decoding(0, 8, 2)], [waits(1, 9, most=1000)], total=10, free=2), [(0, 1)]),
        (state([decoding(0, 8, 2)], [waits(1, 8), waits(2, 8)], free=3), [(0, 1), (1, 8)]),
        (state([decoding(0, 8, 2)], [waits(1, 40)]), [(0, 1), (1, 31)]),
        (state([decoding(0, 8, 2)], [waits(1, 20), waits(2, 20)]), [(0, 1), (1, 20), (2, 11)]),
    ],
)
def test_utilisation_is_highest_where_prompts_that_fit_now_are_admitted(given: ServingState, plan: list[tuple[int, int]]) -> None:
    assert policy("trtllm", capacity="max-utilization", chunked_context=True).plan(given) == plan


@pytest.mark.parametrize(
    ("given", "plan"),
    [
        (state([decoding(0, 8, 2)], [waits(1, 8), waits(2, 8)]), [(1, 8), (2, 8)]),
        (state([decoding(0, 8, 2), decoding(1, 8, 1)], []), [(0, 1), (1, 1)]),
        (state([decoding(0, 8, 2)], [waits(1, 8), waits(2, 16, cached=12)]), [(2, 4), (1, 8)]),
        (state([decoding(0, 8, 2)], [waits(1, 20), waits(2, 20)]), [(1, 20), (2, 12)]),
        (state([under_way(2, 20, 12), decoding(0, 8, 2)], [waits(3, 4)]), [(2, 8), (3, 4)]),
        # 8 tokens to come of request 0 count 0.7 each: of 24 free ones 18.4 are left, and request 1 may need 18 of them
        (state([decoding(0, 8, 2)], [waits(1, 8), waits(2, 1)], free=6), [(1, 8)]),
        (state([decoding(0, 8, 2)], [waits(1, 9)], free=6), [(0, 1)]),
        (state([], [waits(1, 9, most=1000)], free=6), [(1, 9)]),
        (state([decoding(n, 4, 1, most=2) for n in range(8)], [waits(9, 4)]), [(n, 1) for n in range(8)]),
        # request 1 has the fewest tokens of an answer: its blocks give room for the other's next one
        (state([decoding(0, 8, 5, most=90), decoding(1, 8, 1, most=90)], [], free=0), [(0, 1)]),
        (state([decoding(0, 8, 2), decoding(1, 8, 3)], [], free=0), [(0, 1), (1, 1)]),
    ],
)
def test_sglang_computes_prompts_first_while_memory_should_last(given: ServingState, plan: list[tuple[int, int]]) -> None:
    assert policy("sglang").plan(given) == plan


def test_what_sglang_expects_falls_until_it_was_too_little() -> None:
    """Memory that is too little at first is enough after many iterations, and is too little again after a retraction."""
    result = policy("sglang")
    tight = state([decoding(0, 8, 2, most=42)], [waits(1, 8)], free=8)
    assert result.plan(tight) == [(0, 1)]
    for _ in range(700):
        result.plan(state([decoding(0, 8, 2, most=42)]))
    assert result.plan(tight) == [(1, 8)]
    result.plan(state([decoding(0, 8, 5, most=30), decoding(1, 8, 1, most=30)], free=0))
    assert result.plan(tight) == [(0, 1)]


@pytest.mark.parametrize(
    ("options", "waiting", "first"),
    [
        ({}, [waits(0, 9), waits(1, 5), waits(2, 7)], 1),
        ({"by": "output"}, [waits(0, 9, most=3), waits(1, 5, most=8)], 0),
        ({"aging_tokens_per_s": 2.0}, [waits(0, 9, waited=3.0), waits(1, 5)], 0),
        ({"aging_tokens_per_s": 1.0}, [waits(0, 9, waited=3.0), waits(1, 5)], 1),
    ],
)
def test_the_shortest_request_goes_first(options: dict[str, Any], waiting: list[RequestState], first: int) -> None:
    plan = policy("sjf", **options).plan(state([decoding(7, 4, 1)], waiting))
    assert [number for number, _ in plan] == [7, first]


@pytest.mark.parametrize(
    ("options", "waiting", "first"),
    [
        ({}, [waits(0, 9, waited=0.1), waits(1, 5, waited=0.3)], 1),
        ({"us_per_token": 100_000.0}, [waits(0, 9, waited=0.1), waits(1, 3)], 1),
        ({"us_per_token": 1.0}, [waits(0, 9, waited=0.1), waits(1, 3)], 0),
    ],
)
def test_the_earliest_deadline_goes_first(options: dict[str, Any], waiting: list[RequestState], first: int) -> None:
    plan = policy("edf", **options).plan(state([decoding(7, 4, 1)], waiting))
    assert [number for number, _ in plan] == [7, first]


# -- In runs -----------------------------------------------------------------------------------------------------------

LOAD = {"rate": 2000.0, "count": 150, "input": 20, "output": {"distribution": "uniform", "low": 1, "high": 60}, "max_output": 60}


def loaded(engine: str) -> ServingResult:
    result = run(engine=engine, requests=LOAD, kv_blocks=40, max_sequences=32)
    check_conserved(result)
    return result


def test_who_reserves_never_preempts_and_computes_smaller_batches() -> None:
    reserving, using = loaded("trtllm").document(), loaded("trtllm?capacity=max-utilization").document()
    assert reserving["requests"]["preemptions"] == 0 < using["requests"]["preemptions"]
    assert reserving["instances"][0]["mean_batch"] < using["instances"][0]["mean_batch"]


def test_a_tighter_limit_of_answers_admits_more() -> None:
    batches = []
    for limit in (60, 600):
        result = run(engine="orca", requests={**LOAD, "max_output": limit}, kv_blocks=40, max_sequences=32)
        batches.append(result.document()["instances"][0]["mean_batch"])
    assert batches[0] > batches[1]


@pytest.mark.parametrize("engine", ["vllm-v0", "sarathi", "sjf", "edf", "orca", "trtllm", "trtllm?capacity=max-utilization"])
@pytest.mark.parametrize("rate", [20.0, 2000.0])
def test_iterations_in_which_a_plan_stays_are_one_event(engine: str, rate: float) -> None:
    """Single runs differ little, since a request waits for the end of the iteration in which it comes."""
    requests = {**LOAD, "rate": rate, "output": {"distribution": "uniform", "low": 40, "high": 60}}
    jumped, exact = (run(engine=engine, requests=requests, kv_blocks=60, max_sequences=8, jumps=jumps) for jumps in (True, False))
    check_conserved(jumped)
    assert jumped.events < 0.7 * exact.events
    for metric in ("ttft_s", "tpot_s", "e2e_s"):
        assert jumped.document()[metric]["mean"] == pytest.approx(exact.document()[metric]["mean"], rel=0.02), metric


def test_answers_end_at_their_limit() -> None:
    result = run(requests={**LOAD, "max_output": 20})
    check_conserved(result)
    assert max(each.generated for each in result.sequences) == 20


def test_sglang_finds_prompts_that_share_a_beginning() -> None:
    """With a small cache, requests whose beginning is cached go first: more of it is found than in order of arrival."""
    requests = {"arrival": "burst", "count": 100, "input": 4, "output": 6, "prefix": {"groups": 8, "tokens": 96}}
    hits = [
        run(engine=f"sglang?schedule={schedule}", requests=requests, kv_blocks=30, max_batched_tokens=128).document()["kv"][
            "prefix_hit_fraction"
        ]
        for schedule in ("lpm", "fcfs")
    ]
    assert hits[0] > hits[1]
