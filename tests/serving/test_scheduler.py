"""The rules of vLLM's V1 scheduler on states made by hand, and the blocks of its cache."""

from __future__ import annotations

import random

import pytest
from astra_sim_serving.kv_cache import KvCache
from astra_sim_serving.request import Sequence, ServingRequest, sequence_of
from astra_sim_serving.scheduler import InstanceScheduler, Limits


def scheduler(blocks: int = 100, sequences: int = 8, tokens: int = 64, prefill: int = 0, by_priority: bool = False) -> InstanceScheduler:
    return InstanceScheduler(KvCache(blocks, 4), Limits(sequences, tokens, prefill), by_priority)


def add(made: InstanceScheduler, *lengths: tuple[int, int], priority: int = 0) -> list[Sequence]:
    first = len(made.waiting) + len(made.running)
    result = [sequence_of(ServingRequest(first + number, 0.0, *each, priority=priority)) for number, each in enumerate(lengths)]
    for sequence in result:
        made.add(sequence)
    return result


def commit(made: InstanceScheduler, batch: list[tuple[Sequence, int]]) -> list[Sequence]:
    """End an iteration; the sequences that have ended."""
    ended = []
    for sequence, tokens in batch:
        sequence.computed += tokens
        if sequence.computed == sequence.total:
            sequence.total += 1
            sequence.generated += 1
            if sequence.is_done:
                ended.append(sequence)
    made.finish(ended)
    return ended


def planned(made: InstanceScheduler) -> list[tuple[int, int]]:
    """The plan of an iteration by numbers of requests; the iteration ends."""
    batch = made.plan()
    result = [(sequence.request.index, tokens) for sequence, tokens in batch]
    made.cache.check(made.running)
    commit(made, batch)
    made.cache.check(made.running)
    return result


def test_prompts_are_admitted_in_order_up_to_the_budget_and_the_last_is_cut() -> None:
    result = scheduler(tokens=20)
    add(result, (8, 2), (8, 2), (8, 2))
    assert planned(result) == [(0, 8), (1, 8), (2, 4)]
    assert planned(result) == [(0, 1), (1, 1), (2, 4)]


def test_decoding_comes_before_prompts() -> None:
    result = scheduler(tokens=6)
    add(result, (6, 5))
    assert planned(result) == [(0, 6)]
    add(result, (12, 2))
    assert planned(result) == [(0, 1), (1, 5)]
    assert planned(result) == [(0, 1), (1, 5)]
    assert planned(result) == [(0, 1), (1, 2)]


def test_places_are_limited() -> None:
    result = scheduler(sequences=2)
    add(result, (4, 2), (4, 2), (4, 2))
    assert planned(result) == [(0, 4), (1, 4)]
    assert planned(result) == [(0, 1), (1, 1)]
    assert planned(result) == [(2, 4)]


def test_a_prompt_is_cut_at_the_limit_of_prefill_tokens() -> None:
    result = scheduler(prefill=5)
    add(result, (12, 1), (4, 1))
    assert planned(result) == [(0, 5), (1, 4)]
    assert planned(result) == [(0, 5)]
    assert planned(result) == [(0, 2)]


def test_the_first_that_does_not_fit_stops_admission() -> None:
    result = scheduler(blocks=4)
    add(result, (8, 2), (12, 2), (4, 2))
    assert planned(result) == [(0, 8)]  # the second needs three blocks of two that are left; the third would fit


def test_the_last_running_sequence_is_preempted_and_waits_at_the_head() -> None:
    result = scheduler(blocks=4)
    first, second = add(result, (7, 9), (8, 9))
    assert planned(result) == [(0, 7), (1, 8)]
    add(result, (4, 1))
    assert planned(result) == [(0, 1)]  # the second needs a third block
    assert [each.request.index for each in result.waiting] == [1, 2]
    assert (second.preemptions, second.computed, second.blocks) == (1, 0, [])
    assert first.preemptions == 0


def test_a_sequence_preempts_itself_where_it_is_the_last() -> None:
    result = scheduler(blocks=2)
    add(result, (4, 9), (4, 9))
    assert planned(result) == [(0, 4), (1, 4)]
    assert planned(result) == [(0, 1)]  # takes the block that the second gave back
    assert [each.request.index for each in result.running] == [0]


def test_nothing_is_admitted_in_an_iteration_with_a_preemption() -> None:
    result = scheduler(blocks=5)
    add(result, (8, 9), (12, 9))
    assert planned(result) == [(0, 8), (1, 12)]
    add(result, (1, 1))
    assert planned(result) == [(0, 1)]
    assert len(result.waiting) == 2


def test_what_a_preempted_sequence_had_computed_is_found_again() -> None:
    result = scheduler(blocks=6)
    _, second = add(result, (8, 3), (15, 9))
    assert planned(result) == [(0, 8), (1, 15)]
    assert planned(result) == [(0, 1)]  # a third block; the second gives back four, of which three are full
    assert second.preemptions == 1
    assert planned(result) == [(0, 1)] or result.running  # the first ends
    tokens = dict(planned(result))
    assert tokens[1] == second.request.input + 1 - 12
    assert second.cached == 0  # that it found again is no hit of its prompt


def test_priorities_order_waiting_requests_and_choose_who_is_preempted() -> None:
    result = scheduler(blocks=4, by_priority=True)
    low, high = add(result, (4, 9), (4, 9))
    assert planned(result) == [(0, 4), (1, 4)]
    urgent = sequence_of(ServingRequest(7, 0.5, 4, 9, priority=-1))
    late = sequence_of(ServingRequest(8, 0.1, 4, 9, priority=2))
    result.add(late)
    result.add(urgent)
    assert [each.request.index for each in result.waiting] == [7, 8]
    assert planned(result) == [(0, 1), (1, 1)]  # all blocks are taken
    for _ in range(3):
        planned(result)
    assert planned(result) == [(0, 1)]
    assert [each.request.index for each in result.waiting] == [7, 1, 8]
    assert (low.preemptions, high.preemptions) == (0, 1)


def test_the_worst_priority_is_preempted_even_if_it_came_first_and_its_tokens_are_given_back() -> None:
    result = scheduler(blocks=3, tokens=64, by_priority=True)
    result.add(sequence_of(ServingRequest(0, 0.0, 4, 9, priority=5)))
    assert planned(result) == [(0, 4)]
    result.add(sequence_of(ServingRequest(1, 1.0, 4, 9, priority=1)))
    assert planned(result) == [(0, 1), (1, 4)]
    assert planned(result) == [(1, 1)]
    assert [each.request.index for each in result.running] == [1]


def test_a_cached_beginning_is_not_computed_again_and_one_token_remains() -> None:
    result = scheduler()
    for number in range(2):
        result.add(sequence_of(ServingRequest(number, 0.0, 16, 1, content=(5,), content_tokens=16)))
    first, second = result.waiting
    assert planned(result) == [(0, 16), (1, 4)]  # the first three blocks of the first; the fourth has the token that must be computed
    assert (first.cached, second.cached) == (0, 12)
    result.add(sequence_of(ServingRequest(2, 0.0, 20, 1, content=(5,), content_tokens=16)))
    assert planned(result) == [(2, 4)]
    assert result.hit_tokens == 12 + 16


def test_contents_are_told_apart_by_all_that_is_in_front_of_them() -> None:
    result = scheduler()
    result.add(sequence_of(ServingRequest(0, 0.0, 8, 1, content=(1, 2), content_tokens=4)))
    planned(result)
    result.add(sequence_of(ServingRequest(1, 0.0, 12, 1, content=(1, 3, 4), content_tokens=4)))
    assert planned(result) == [(1, 8)]
    result.add(sequence_of(ServingRequest(2, 0.0, 9, 1, content=(9, 2), content_tokens=4)))
    assert planned(result) == [(2, 9)]


def test_without_prefix_caching_everything_is_computed() -> None:
    result = InstanceScheduler(KvCache(20, 4, prefix_caching=False), Limits(8, 64))
    for number in range(2):
        result.add(sequence_of(ServingRequest(number, 0.0, 16, 1, content=(5,), content_tokens=16)))
    assert planned(result) == [(0, 16), (1, 16)]


def test_freed_blocks_are_used_in_the_order_of_freeing_the_tail_of_a_sequence_first() -> None:
    result = scheduler(blocks=6)
    result.add(sequence_of(ServingRequest(0, 0.0, 16, 1, content=(5,), content_tokens=16)))
    planned(result)
    add(result, (12, 1))  # two unused blocks, and one of the four: the last
    planned(result)
    result.add(sequence_of(ServingRequest(9, 0.0, 17, 1, content=(5,), content_tokens=16)))
    assert planned(result) == [(9, 5)]


def test_a_plan_is_steady_where_all_decode_and_nothing_was_admitted() -> None:
    result = scheduler(blocks=4)
    add(result, (4, 9), (4, 9))
    planned(result)
    assert not result.is_steady
    planned(result)
    assert result.is_steady
    add(result, (9, 1))
    planned(result)
    assert result.is_steady  # it does not fit
    result.waiting.clear()
    for _ in range(2):
        planned(result)
    assert result.is_steady


@pytest.mark.parametrize("by_priority", [False, True])
def test_random_loads_end_and_never_lose_a_block(by_priority: bool) -> None:
    for seed in range(30):
        draw = random.Random(seed)
        result = scheduler(draw.randint(12, 40), draw.randint(1, 6), draw.randint(4, 40), draw.choice([0, 0, 5]), by_priority)
        count = 0
        for number in range(20):
            shared = draw.random() < 0.4
            result.add(
                sequence_of(
                    ServingRequest(
                        number, number * 0.1, draw.randint(1, 20), draw.randint(1, 20), draw.randint(0, 2),
                        (draw.randint(1, 2),) if shared else (), 8,
                    )
                )
            )  # fmt: skip
        for _ in range(5000):
            batch = result.plan()
            assert sum(tokens for _, tokens in batch) <= result.limits.tokens
            assert len(result.running) <= result.limits.sequences
            assert all(sequence.capacity >= sequence.computed + tokens for sequence, tokens in batch)
            result.cache.check(result.running)
            count += len(commit(result, batch))
            if not result.running and not result.waiting:
                break
        assert count == 20
        assert result.cache.used_blocks == 0
