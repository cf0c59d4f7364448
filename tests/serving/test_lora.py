"""LoRA adapters: which requests have which, what waits, what is loaded, and what that takes."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest
from astra_sim import CapacityError, InputError
from astra_sim.commands import shared_plugins
from astra_sim.models import describe_model
from astra_sim_serving import serve
from astra_sim_serving.batch import AdapterUse
from astra_sim_serving.lora import AdapterPlaces, Product, adapted_products, adapter_bytes
from astra_sim_serving.model_memory import Sharding
from astra_sim_serving.request import Sequence, ServingRequest, sequence_of
from astra_sim_serving.result import ServingResult
from astra_sim_serving.scheduler import Batch

from serving.cases import EXPERTS, RING, TINY, case, check_conserved, run

REQUESTS = {"rate": 300.0, "count": 200, "input": 20, "output": 15}


def adapted(requests: dict[str, Any] = REQUESTS, lora: dict[str, Any] | None = None, **serving: Any) -> ServingResult:
    result = run(lora={"adapters": 8, "rank": 4, **(lora or {})}, requests=requests, **{"kv_blocks": 500, **serving})
    check_conserved(result)
    return result


def mean_tpot(result: ServingResult) -> float:
    return float(result.document()["tpot_s"]["mean"])


def test_adapters_are_chosen_by_share_and_popularity() -> None:
    requests = {"arrival": "burst", "count": 5000, "input": 1, "output": 1}
    result = adapted(requests, {"adapters": 4, "share": 0.6, "zipf": 1.0})
    chosen = Counter(each.request.adapter for each in result.sequences)
    assert set(chosen) == {-1, 0, 1, 2, 3}
    assert chosen[-1] / 5000 == pytest.approx(0.4, abs=0.03)
    assert [chosen[n] / chosen[0] for n in (1, 2, 3)] == pytest.approx([1 / 2, 1 / 3, 1 / 4], abs=0.05)
    assert result.document()["lora"]["requests"] == 5000 - chosen[-1]


def test_no_more_adapters_than_places_are_in_an_iteration(monkeypatch: pytest.MonkeyPatch) -> None:
    uses = list[AdapterUse]()
    used = AdapterPlaces.use

    def noted(places: AdapterPlaces, batch: Batch) -> AdapterUse:
        uses.append(used(places, batch))
        return uses[-1]

    monkeypatch.setattr(AdapterPlaces, "use", noted)
    adapted(lora={"max_loras": 2})
    assert max(use.adapters for use in uses) == 2
    uses.clear()
    adapted()
    assert max(use.adapters for use in uses) > 2


def test_requests_whose_adapter_has_no_place_are_passed_over() -> None:
    """Of three requests at once, for one adapter place, the third runs with the first where it has the same adapter."""
    requests = {"arrival": "burst", "count": 3, "input": 20, "output": 15}
    for seed in itertools.count():
        result = adapted(requests, {"adapters": 2, "max_loras": 1}, seed=seed)
        first, second, third = result.sequences
        if first.request.adapter == third.request.adapter != second.request.adapter:
            break
    assert first.scheduled == third.scheduled
    assert second.scheduled >= max(first.last_token, third.last_token)


def test_requests_without_adapter_never_wait_for_places() -> None:
    requests = {"arrival": "burst", "count": 30, "input": 20, "output": 15}
    result = adapted(requests, {"max_loras": 1, "share": 0.5})
    assert {each.scheduled for each in result.sequences if each.request.adapter < 0} == {0.0}


def batch_of(*adapters: int, tokens: int = 1) -> list[tuple[Sequence, int]]:
    return [(sequence_of(ServingRequest(n, 0.0, 10, 1, adapter=adapter)), tokens) for n, adapter in enumerate(adapters)]


def test_the_adapter_that_was_not_used_for_longest_gives_way() -> None:
    places = AdapterPlaces(2)
    assert places.use(batch_of(0, 1, -1, 0, tokens=5)) == AdapterUse(15, 2, 2)
    assert places.use(batch_of(0)) == AdapterUse(1, 1, 0)
    assert places.use(batch_of(2)) == AdapterUse(1, 1, 1)
    assert places.use(batch_of(0)) == AdapterUse(1, 1, 0)
    assert places.use(batch_of(1)) == AdapterUse(1, 1, 1)
    assert places.loads == 4


def test_bytes_of_an_adapter_by_hand() -> None:
    """Tensors of Llama-3.1-8B, rank 16: 41.9 M parameters, as the library peft counts for all linear layers."""
    model = describe_model("llama-3.1-8b", shared_plugins(), "test")
    separate = 16 * (2 * 4096 + 4096 + 1024 + 4096 + 1024 + 2 * 4096 + 2 * (4096 + 14336) + 14336 + 4096) * 32
    assert separate == 41_943_040
    assert adapter_bytes(model, Sharding(), 16) == separate * 2
    attention = adapted_products(model, 0, 1)[:2]
    assert attention == [Product(4096, 6144, 3), Product(4096, 4096)]
    assert attention[0].weight_bytes(16) == (3 * 4096 * 16 * 2, 6144 * 16 * 2)
    shared = adapter_bytes(model, Sharding(tensor=4), 16)
    assert adapter_bytes(model, Sharding(), 16) / 4 < shared < adapter_bytes(model, Sharding(), 16)
    assert adapter_bytes(model, Sharding(pipeline=2), 16) == separate


def test_an_iteration_takes_longer_by_the_bytes_of_adapters() -> None:
    """The roofline model has nothing but bytes here: 1 GB/s. One request, so that each iteration has one adapter."""
    requests = {"arrival": "burst", "count": 1, "input": 20, "output": 15}
    plain = run(requests=requests)
    model = describe_model(TINY, shared_plugins(), "test")
    products = [product for layer in range(2) for product in adapted_products(model, layer, 1)]
    tokens = sum(2 * (each.entered + 2 * each.left) + 2 * 4 * 4 * each.joint for each in products)
    expected = (adapter_bytes(model, Sharding(), 4) + tokens) / 1e9
    result = adapted(requests, {"load_gb_per_s": 0.5})
    assert mean_tpot(result) - mean_tpot(plain) == pytest.approx(expected, rel=1e-3)
    load = adapter_bytes(model, Sharding(), 4) / 0.5e9
    ttfts = [each.document()["ttft_s"]["mean"] for each in (result, plain)]
    assert ttfts[0] - ttfts[1] == pytest.approx(load + (adapter_bytes(model, Sharding(), 4) + 20 * tokens) / 1e9, rel=1e-3)
    assert result.document()["time"]["host"] == pytest.approx(load)


def test_more_adapters_in_a_batch_take_longer() -> None:
    requests = {"arrival": "burst", "count": 30, "input": 5, "output": 40}
    results = [adapted(requests, {"adapters": adapters, "rank": 64, "load_gb_per_s": 1e6}) for adapters in (1, 4, 16)]
    tpots = [mean_tpot(run(requests=requests)), *map(mean_tpot, results)]
    assert tpots == sorted(tpots)
    assert tpots[-1] > 1.2 * tpots[0]


def test_fewer_places_load_more_often() -> None:
    loads = [adapted(lora={"max_loras": places}).document()["lora"]["loads"] for places in (1, 4, 8)]
    assert loads[0] > loads[1] > loads[2] == 8


def test_jumps_change_next_to_nothing() -> None:
    output = {"distribution": "uniform", "low": 5, "high": 60}
    requests = {"arrival": "burst", "count": 200, "input": 20, "output": output}
    results = [adapted(requests, {"max_loras": 2}, jumps=jumps).document() for jumps in (True, False)]
    assert results[0]["events"] < results[1]["events"]
    assert results[0]["lora"] == results[1]["lora"]
    assert results[0]["e2e_s"]["mean"] == pytest.approx(results[1]["e2e_s"]["mean"], rel=2e-3)


def test_prompts_share_beginnings_only_with_the_same_adapter() -> None:
    requests = {**REQUESTS, "prefix": {"groups": 1, "tokens": 64}}
    hits = [adapted(requests, {"adapters": adapters}).document()["kv"]["prefix_hit_fraction"] for adapters in (1, 50)]
    assert hits[0] > 1.3 * hits[1] > 0


def test_adapters_need_memory() -> None:
    def blocks(**lora: Any) -> int:
        table = case(memory_gib=2.0, requests={"rate": 1.0, "count": 1}, memory_margin_gib=0.5, lora={"adapters": 100, **lora})
        del table["serving"]["kv_blocks"]
        return int(serve(table).document()["kv"]["blocks"])

    model = describe_model(TINY, shared_plugins(), "test")
    block = 16 * 2 * 2 * 2 * 16 * 2
    assert blocks(max_loras=10) - blocks() == pytest.approx(90 * adapter_bytes(model, Sharding(), 16) / block, abs=1)
    with pytest.raises(CapacityError, match=r"GiB of weights, [0-9.]* GiB of adapters, "):
        blocks(rank=1024, adapters=10_000)


@pytest.mark.parametrize("pool", [{"data_parallel": 2}, {"tensor_parallel": 2}, {"pipeline_parallel": 2}])
def test_all_kinds_of_parallelism_have_adapters(pool: dict[str, int]) -> None:
    table = case(pool=[pool], model={"dimensions": EXPERTS}, requests=REQUESTS, lora={"adapters": 5, "max_loras": 2})
    table["platform"] = {**RING, "size": 2}
    result = serve(table)
    check_conserved(result)
    assert result.document()["lora"]["loads"] >= 5
    assert all(each.adapters is not None and each.adapters.loads > 0 for each in result.instances)


@pytest.mark.parametrize(
    ("serving", "words"),
    [
        ({"lora": {"adapters": 0}}, "adapters is 0"),
        ({"lora": {}}, "adapters"),
        ({"lora": {"adapters": 2, "share": 2}}, "share is 2"),
        ({"lora": {"adapters": 2, "max_loras": 1}, "engine": "sarathi"}, "max_loras has no effect with the policy 'sarathi'"),
        ({"lora": {"adapters": 2}, "model": {"name": "deepseek-v3"}}, "expected a model without latent attention"),
    ],
)
def test_bad_adapters_are_errors(serving: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        run(**serving)
    assert words in str(caught.value)
