"""Speculative decoding: what drafts give, what they take, and where they do not pay."""

from __future__ import annotations

from typing import Any

import pytest
from astra_sim import InputError
from astra_sim_serving import serve
from astra_sim_serving.result import ServingResult

from serving.cases import EXPERTS, RING, case, check_conserved, run

LONG = {"arrival": "constant", "rate": 1.0, "count": 20, "input": 30, "output": 400}


def drafted(tokens: int, acceptance: float, draft: str = "ngram", requests: dict[str, Any] = LONG, **serving: Any) -> ServingResult:
    speculative = {"tokens": tokens, "acceptance": acceptance, "draft": draft}
    result = run(speculative=speculative, requests=requests, **{"kv_blocks": 2000, **serving})
    check_conserved(result)
    return result


@pytest.mark.parametrize("tokens", [1, 3, 6])
@pytest.mark.parametrize("acceptance", [0.3, 0.7, 0.9])
def test_tokens_of_an_iteration_are_those_of_the_geometric_series(tokens: int, acceptance: float) -> None:
    result = drafted(tokens, acceptance, max_sequences=1)
    first = len(result.sequences)  # iterations of prompts, which give the first token
    results = sum(each.generated - 1 for each in result.sequences) / (result.instances[0].totals.iterations - first)
    expected = (1 - acceptance ** (tokens + 1)) / (1 - acceptance)
    assert results == pytest.approx(expected, rel=0.03)
    speculation = result.document()["speculation"]
    assert speculation["accepted"] == pytest.approx(speculation["drafted"] / tokens * (expected - 1), rel=0.08)


def test_all_or_no_tokens_are_accepted_at_the_ends() -> None:
    none, every = drafted(3, 0.0), drafted(3, 1.0)
    assert none.document()["speculation"]["acceptance"] == 0
    assert every.document()["speculation"]["acceptance"] == 1
    iterations = [result.instances[0].totals.iterations for result in (none, every)]
    assert iterations == [20 * 400, 20 * (1 + 399 // 4 + 1)]


def test_a_small_batch_gains_and_a_large_one_loses() -> None:
    """Verifying costs products of more rows: nothing where weights bound them, all of it where operations do."""
    single, many = ({"arrival": "burst", "count": count, "input": 10, "output": 100} for count in (1, 256))
    gains = []
    for requests in (single, many):
        serving: dict[str, Any] = {"max_sequences": 256, "kv_blocks": 20_000, "jumps": False}
        plain = run(requests=requests, **serving).document()["tpot_s"]["mean"]
        gains.append(plain / drafted(3, 0.7, requests=requests, **serving).document()["tpot_s"]["mean"])
    assert gains[0] > 1.2
    assert gains[1] < 0.95


def test_what_drafts_costs_time() -> None:
    tpots = [drafted(3, 0.7, draft).document()["tpot_s"]["mean"] for draft in ("ngram", "mtp", "qwen3-8b")]
    assert tpots[0] < tpots[1] < tpots[2]


def test_a_layer_for_each_token_costs_a_layer_and_the_head() -> None:
    """A model of two layers: three rounds of half the layers, and of the head and sampler."""
    with_layers, without = (drafted(3, 0.0, draft, max_sequences=1).document() for draft in ("mtp", "ngram"))
    iterations = 20 * 399
    more = (with_layers["time"]["gemm"] - without["time"]["gemm"]) / iterations
    plain = run(requests=LONG, jumps=False, max_sequences=1, kv_blocks=2000).document()
    of_one = plain["time"]["gemm"] / plain["instances"][0]["iterations"]
    assert 3 * of_one / 2 < more < 3 * of_one


def test_ranks_with_experts_draft_together() -> None:
    table = case(
        speculative={"tokens": 2, "acceptance": 0.5, "draft": "mtp"},
        pool=[{"data_parallel": 2}],
        model={"dimensions": EXPERTS},
        requests={"rate": 300.0, "count": 60, "input": 20, "output": 15},
    )
    table["platform"] = {**RING, "size": 2}
    result = serve(table)
    check_conserved(result)
    assert result.instances[0].totals.iterations == result.instances[1].totals.iterations


def test_drafts_need_memory() -> None:
    blocks = []
    for speculative in (None, {"tokens": 2, "acceptance": 0.5, "draft": "mtp"}, {"tokens": 2, "acceptance": 0.5, "draft": "qwen3-8b"}):
        table = case(memory_gib=64.0, requests={"rate": 1.0, "count": 1}, speculative=speculative)
        del table["serving"]["kv_blocks"]
        if speculative is None:
            del table["serving"]["speculative"]
        blocks.append(serve(table).document()["kv"]["blocks"])
    assert blocks[0] > blocks[1] > blocks[2]


def test_two_policies_accept_the_same() -> None:
    """Numbers are drawn by request and place: another order of iterations changes no request's drafts."""
    requests = {"rate": 1000.0, "count": 40, "input": 20, "output": 30}
    result = [drafted(2, 0.6, requests=requests, max_sequences=most).document()["speculation"] for most in (2, 40)]
    assert result[0] == result[1]


@pytest.mark.parametrize(
    ("speculative", "words"),
    [
        ({"tokens": 0, "acceptance": 0.5}, "tokens is 0"),
        ({"tokens": 2, "acceptance": 1.5}, "acceptance is 1.5"),
        ({"tokens": 2}, "acceptance"),
        ({"tokens": 2, "acceptance": 0.5, "draft": "eagle9"}, "serving.speculative.draft: there is no model plugin 'eagle9'"),
    ],
)
def test_bad_drafts_are_errors(speculative: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        run(speculative=speculative)
    assert words in str(caught.value)
