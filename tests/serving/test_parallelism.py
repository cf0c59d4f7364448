"""Instances that share a model: ranks of data parallelism that meet in layers with experts, and stages of a pipeline."""

from __future__ import annotations

from typing import Any

import pytest
from astra_sim import InputError
from astra_sim.models import ModelDescription
from astra_sim_serving import serve
from astra_sim_serving.model_memory import Sharding, kv_bytes_per_token, weight_bytes
from astra_sim_serving.result import ServingResult

from serving.cases import EXPERTS, RING, TINY, case, check_conserved, close

ONE_BY_ONE = {"arrival": "constant", "rate": 1.0, "count": 5, "input": 100, "output": 20}


def shared(
    pool: dict[str, Any], requests: dict[str, Any], *, model: dict[str, Any] = EXPERTS, size: int = 8, **serving: Any
) -> ServingResult:
    """A run of instances that share a tiny model on a ring."""
    table = case(requests=requests, pool=[pool], model={"dimensions": model}, **serving)
    table["platform"] = {**RING, "size": size}
    result = serve(table)
    check_conserved(result)
    return result


def test_ranks_with_experts_do_the_same_iterations() -> None:
    result = shared({"data_parallel": 2, "expert_parallel": 2}, {"rate": 400.0, "count": 200, "input": 30, "output": 12})
    first, second = result.instances
    assert first.totals.iterations == second.totals.iterations
    assert close(first.totals.busy_s, second.totals.busy_s)
    assert {each.instance for each in result.sequences} == {0, 1}
    assert [row["rank"] for row in result.document()["instances"]] == [0, 1]


def test_ranks_of_a_dense_model_are_independent() -> None:
    requests = {"rate": 400.0, "count": 200, "input": 30, "output": 12}
    ranks = shared({"data_parallel": 2}, requests, model=TINY, router={"policy": "round-robin"})
    instances = shared({"instances": 2}, requests, model=TINY, router={"policy": "round-robin"})
    assert ranks.csv() == instances.csv()


def test_a_request_alone_pays_for_the_meeting_of_ranks() -> None:
    """Its rank meets one token of the other rank: what differs from a rank alone is the exchange in two layers of three."""
    alone = shared({}, ONE_BY_ONE, jumps=False)
    together = shared({"data_parallel": 2}, ONE_BY_ONE, jumps=False, size=2)
    slower = serve_with_latency({"data_parallel": 2}, 11_000)
    tpots = [each.document()["tpot_s"]["mean"] for each in (alone, together, slower)]
    assert tpots[0] < tpots[1] < tpots[2]
    # Two collectives of two ranks in each of the two layers with experts, each one step on a ring of two.
    assert tpots[2] - tpots[1] == pytest.approx(2 * 2 * 10e-6, rel=0.01)


def serve_with_latency(pool: dict[str, Any], latency_ns: int) -> ServingResult:
    table = case(requests=ONE_BY_ONE, pool=[pool], model={"dimensions": EXPERTS}, jumps=False)
    table["platform"] = {**RING, "size": 2, "link_latency_ns": latency_ns}
    return serve(table)


def test_ranks_wait_for_the_slowest() -> None:
    """One rank has a prompt of 500 tokens, the other one of 10: both have their first token at the same time."""
    requests = {"arrival": "burst", "count": 2, "input": {"distribution": "empirical", "values": [10, 500]}, "output": 5}
    for seed in range(8):
        result = shared({"data_parallel": 2}, requests, seed=seed, graph_tokens=0, size=2)
        lengths = {each.request.input for each in result.sequences}
        assert len({each.first_token for each in result.sequences}) == 1
        if lengths == {10, 500}:
            waits = {each.request.input: each.spent.prefill_parts[3] for each in result.sequences}
            assert waits[10] > 2 * waits[500]
            return
    raise AssertionError("no seed draws both lengths")


def test_graphs_fill_batches_to_the_largest() -> None:
    requests = {"arrival": "burst", "count": 30, "input": {"distribution": "uniform", "low": 1, "high": 60}, "output": 20}
    pool = {"data_parallel": 3}
    filled, exact = (shared(pool, requests, graph_tokens=tokens, size=3).makespan_s for tokens in (512, 0))
    assert filled > exact


def test_vllms_rule_between_ranks_is_the_default() -> None:
    requests = {"rate": 3000.0, "count": 150, "input": {"distribution": "lognormal", "mean": 60, "sigma": 1.2}, "output": 12}
    pool = {"data_parallel": 2}
    default = shared(pool, requests).csv()
    assert default == shared(pool, requests, router={"policy": "least-waiting"}).csv()
    assert default != shared(pool, requests, router={"policy": "round-robin"}).csv()


def test_exchanges_of_copies_carry_more_than_a_gather_of_few_ranks() -> None:
    """Two experts of each token: two copies there and back, where the gather brings each token once and half of the sums."""
    requests = {"arrival": "constant", "rate": 1.0, "count": 3, "input": 2000, "output": 2}
    model = {**EXPERTS, "top_k": 4}
    times = [
        shared({"data_parallel": 2, "exchange": exchange}, requests, model=model, size=2).document()["time"]["collective"]
        for exchange in ("gather", "all-to-all")
    ]
    assert times[0] < times[1]


def test_stages_take_batches_one_after_another() -> None:
    """A request alone takes as long as without stages, and the messages between them; many requests share the stages."""
    alone, piped = (shared({"pipeline_parallel": stages}, ONE_BY_ONE, model=TINY, jumps=False) for stages in (1, 2))
    more = piped.document()["tpot_s"]["mean"] - alone.document()["tpot_s"]["mean"]
    assert more == pytest.approx(1e-6 + TINY["hidden"] * 2 / 10e9, rel=0.01)  # a hop of the ring, and 128 bytes
    burst = {"arrival": "burst", "count": 64, "input": 1, "output": 50}
    one, two = (shared({"pipeline_parallel": n}, burst, model=TINY, max_sequences=64, max_batched_tokens=16).makespan_s for n in (1, 2))
    assert 0.5 < two / one < 0.62


def test_a_sequence_is_in_one_batch_at_a_time() -> None:
    result = shared({"pipeline_parallel": 2}, {"arrival": "burst", "count": 1, "input": 4, "output": 30}, model=TINY)
    assert result.instances[0].totals.iterations == 30
    assert not any(each.in_flight for each in result.sequences)


def test_stages_leave_more_memory_for_keys_and_values() -> None:
    model = ModelDescription(**{**TINY, "layers": 8})  # type: ignore[arg-type]
    whole, half = Sharding(), Sharding(pipeline=2)
    assert kv_bytes_per_token(model, half, "bf16") * 2 == kv_bytes_per_token(model, whole, "bf16")
    ends = TINY["vocab"] * TINY["hidden"] * 2
    assert 2 * (weight_bytes(model, half, "bf16") - ends) == weight_bytes(model, whole, "bf16") - 2 * ends
    assert [len(each) for each in Sharding(pipeline=3).stages(8)] == [3, 3, 2]


def test_ranks_share_the_experts_and_each_has_the_rest() -> None:
    model = ModelDescription(**EXPERTS)  # type: ignore[arg-type]
    expert = 3 * EXPERTS["hidden"] * EXPERTS["expert_ffn"] * 2
    alone, of_four = (weight_bytes(model, Sharding(data=ranks, expert=ranks), "bf16") for ranks in (1, 4))
    assert alone - of_four == 2 * 6 * expert  # two layers, of which each rank has two experts of eight


def test_pools_may_have_devices_of_their_own() -> None:
    """Each takes as long as alone, and has the memory of its device."""
    model, one = {"name": "qwen3-8b"}, {**ONE_BY_ONE, "count": 6}
    compute = {"plugin": "gpu", "device": "h100"}
    serving = {"model": model, "requests": one, "router": {"policy": "round-robin"}, "jumps": False}
    both = serve({"serving": {**serving, "pool": [{}, {"device": "a100-80"}, {"device": "h200"}]}, "compute": compute})
    check_conserved(both)
    blocks = [row["kv_blocks"] for row in both.document()["instances"]]
    assert blocks[0] <= blocks[1] < blocks[2]
    for number, device in enumerate(("h100", "a100-80", "h200")):
        alone = serve({"serving": {**serving, "requests": {**one, "count": 1}}, "compute": {**compute, "device": device}})
        own = next(each for each in both.sequences if each.instance == number)
        assert both.tpot(own) == pytest.approx(alone.tpot(alone.sequences[0]))


@pytest.mark.parametrize(
    ("compute", "words"),
    [
        ({"plugin": "gpu", "device": "h100"}, "device is 'h1000'; did you mean"),
        ({"plugin": "roofline", "peak_tera_ops_per_s": 1, "memory_bandwidth_gb_per_s": 1}, "unknown key 'device'"),
    ],
)
def test_a_device_that_is_not_known_is_an_error(compute: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        serve({**case(pool=[{"device": "h1000"}]), "compute": compute})
    assert words in str(caught.value)


def two_nodes(*pools: dict[str, Any]) -> ServingResult:
    """Pools on two nodes of four NPUs, between which messages take 100 us."""
    table = case(requests=ONE_BY_ONE, pool=list(pools), jumps=False, router={"policy": "round-robin"})
    node = {"topology": "switch", "size": 4, "link_bandwidth_gb_per_s": 100, "link_latency_ns": 500}
    table["platform"] = {"dimensions": [node, {**node, "size": 2, "link_latency_ns": 50_000}]}
    return serve(table)


def test_instances_run_on_their_own_npus() -> None:
    """Within a node all instances are alike; the collectives of one that has NPUs of both nodes cross between them."""
    alone = two_nodes({"tensor_parallel": 2}).document()["tpot_s"]["mean"]
    four = two_nodes({"tensor_parallel": 2, "instances": 4})
    assert [four.tpot(each) for each in four.sequences] == pytest.approx([alone] * 5)
    crossing = two_nodes({"tensor_parallel": 2, "npus": "0,4"}).document()["tpot_s"]["mean"]
    assert crossing > alone + 2 * TINY["layers"] * 100e-6
    shifted = two_nodes({"tensor_parallel": 1, "npus": "1"}, {"tensor_parallel": 2, "npus": "3-4"})
    by_instance = {each.instance: shifted.tpot(each) for each in shifted.sequences}
    assert by_instance[1] == pytest.approx(crossing)
    before = two_nodes({"npus": "7"}, {"tensor_parallel": 2})
    assert {each.instance: before.tpot(each) for each in before.sequences}[1] == pytest.approx(alone)


@pytest.mark.parametrize(
    ("pools", "words"),
    [
        ([{"npus": "0-3"}], "pool.0: npus is '0-3', which are 4 NPUs; the instances of the pool need 1"),
        ([{"npus": "zero"}], "expected numbers and ranges such as '0-3,8-11'"),
        ([{"npus": "8"}], "8"),
        ([{"npus": "1"}, {"npus": "1"}], "pool.1: npus has 1, which another pool has, too"),
        ([{"instances": 9}], "the instances need 9 NPUs, and the platform has 8"),
    ],
)
def test_npus_that_cannot_be_had_are_an_error(pools: list[dict[str, Any]], words: str) -> None:
    with pytest.raises(InputError) as caught:
        two_nodes(*pools)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("pool", "model", "words"),
    [
        ({"data_parallel": 2}, EXPERTS, "data_parallel is 2 and there is no platform"),
        ({"pipeline_parallel": 2}, TINY, "pipeline_parallel is 2 and there is no platform"),
        ({"pipeline_parallel": 3}, TINY, "pipeline_parallel is 3; expected at most the 2 layers"),
        ({"data_parallel": 3, "expert_parallel": 2}, EXPERTS, "expected a divisor of tensor_parallel times data_parallel (3)"),
        ({"npus": "0"}, TINY, "serving.pool has npus, and there is no platform"),
        ({"exchange": "all-to-all"}, EXPERTS, "exchange has no effect without data_parallel and experts"),
        ({"data_parallel": 2, "exchange": "deepep"}, EXPERTS, "exchange is 'deepep'; known: all-to-all, gather"),
    ],
)
def test_what_cannot_be_shared_is_an_error(pool: dict[str, Any], model: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        serve(case(pool=[pool], model={"dimensions": model}))
    assert words in str(caught.value)
