"""Whole runs: what must hold of all, and what theory says of some."""

from __future__ import annotations

import datetime
import itertools
import json
import re
from collections.abc import Iterable
from typing import Any

import pytest
from astra_sim import CapacityError, InputError
from astra_sim.random import RandomStream
from astra_sim_serving import serve
from astra_sim_serving.arrivals import arrival_times
from astra_sim_serving.explanation import bands
from astra_sim_serving.result import ServingResult

from serving.cases import TINY, case, check_conserved, close, flat, run
from serving.random_servers import random_case


@pytest.mark.filterwarnings("ignore:.*before the window")
@pytest.mark.parametrize("seed", range(100))
def test_what_must_hold_of_every_run(seed: int) -> None:
    table = random_case(seed)
    first = serve(table)
    check_conserved(first)
    again = serve(table)
    assert json.dumps(again.document()) == json.dumps(first.document())
    assert again.csv() == first.csv()


def test_jumps_change_next_to_nothing() -> None:
    """On one instance, where no router turns a small difference into another choice.

    A prompt waits for the end of the iteration in which it comes, which may be another one after a difference of microseconds: single runs
    of 700 requests differ by up to 0.5 %, in both directions.
    """
    requests = {
        "rate": 8.0,
        "count": 700,
        "input": {"distribution": "lognormal", "mean": 400, "sigma": 0.7},
        "output": {"distribution": "lognormal", "mean": 100, "sigma": 0.7},
    }
    errors: dict[str, list[float]] = {}
    for seed in range(6):
        jumped = run(requests=requests, kv_blocks=100_000, seed=seed)
        exact = run(requests=requests, kv_blocks=100_000, seed=seed, jumps=False)
        assert jumped.events < exact.events * 0.1
        ours, theirs = flat(jumped.document()), flat(exact.document())
        for name in ("ttft_s.mean", "tpot_s.mean", "itl_s.mean", "e2e_s.mean"):
            errors.setdefault(name, []).append(ours[name] / theirs[name] - 1)
    for name, result in errors.items():
        assert max(map(abs, result)) < 0.005, name
        assert abs(sum(result) / len(result)) < 0.002, name


def lindley(arrivals: Iterable[float], service: float) -> list[float]:
    """The waits in a queue with one server and constant service, by Lindley's recursion."""
    waits, free = [], 0.0
    for arrival in arrivals:
        waits.append(max(0.0, free - arrival))
        free = arrival + waits[-1] + service
    return waits


@pytest.mark.parametrize("rho", [0.5, 0.7])
def test_a_queue_of_constant_service_waits_as_pollaczek_and_khinchine_say(rho: float) -> None:
    """M/D/1: prompts of one length, one token of answer, one at a time; the mean wait is rho s / (2 (1 - rho)).

    Each request waits as Lindley's recursion says for its arrivals, and over many arrivals that has the mean of the formula.
    """
    alone = run(requests={"arrival": "constant", "rate": 1.0, "count": 3, "input": 64, "output": 1}, max_sequences=1)
    service = alone.ttft(alone.sequences[0])
    requests = {"rate": rho / service, "count": 10_000, "input": 64, "output": 1}
    result = run(requests=requests, max_sequences=1, prefix_caching=False)
    waits = [each.scheduled - each.request.arrival for each in result.sequences]
    assert waits == pytest.approx(lindley((each.request.arrival for each in result.sequences), service), abs=1e-9 * service * 10_000)
    arrivals = arrival_times("poisson", rho / service, 1.0, (), RandomStream(1, "requests.arrival"))
    many = lindley(itertools.islice(arrivals, 500_000), service)
    assert sum(many) / len(many) == pytest.approx(rho * service / (2 * (1 - rho)), rel=0.01)


def test_instances_that_share_nothing_do_what_each_does_alone() -> None:
    requests = {"arrival": "constant", "rate": 200.0, "count": 60, "input": 20, "output": 30}
    two = run(requests=requests, pool=[{"instances": 2}], router={"policy": "round-robin"})
    one = run(requests={**requests, "rate": 100.0, "count": 30})
    own = [each for each in two.sequences if each.instance == 0]
    assert [two.e2e(each) for each in own] == pytest.approx([one.e2e(each) for each in one.sequences])


def test_a_closed_load_keeps_its_concurrency() -> None:
    result = run(requests={"arrival": "closed", "concurrency": 3, "count": 30, "input": 10, "output": 8})
    check_conserved(result)
    events = sorted([(each.request.arrival, 1) for each in result.sequences] + [(each.last_token, -1) for each in result.sequences])
    there, most = 0, 0
    for _, change in events:
        there += change
        most = max(most, there)
    assert most == 3
    assert result.sequences[3].request.arrival == min(each.last_token for each in result.sequences[:3])


def test_all_at_once_is_no_faster_than_the_largest_batch() -> None:
    result = run(requests={"arrival": "burst", "count": 64, "input": 4, "output": 20}, max_sequences=16)
    check_conserved(result)
    longest = max(each.totals.busy_s / each.totals.iterations for each in result.instances)
    assert result.document()["throughput"]["output_tokens_s"] <= 16 / longest * 1.3
    assert result.document()["instances"][0]["mean_batch"] <= 16


def test_bursts_make_the_slowest_first_tokens_slower() -> None:
    base = {"rate": 20.0, "count": 2000, "input": 60, "output": 10}
    smooth = run(requests={**base, "arrival": "gamma", "cv": 0.5}).document()
    bursty = run(requests={**base, "arrival": "gamma", "cv": 4.0}).document()
    assert bursty["ttft_s"]["p99"] > 1.5 * smooth["ttft_s"]["p99"]


def hits(result: ServingResult) -> float:
    return float(result.document()["kv"]["prefix_hit_fraction"])


def test_shared_beginnings_are_cached_and_make_first_tokens_faster() -> None:
    requests = {"rate": 20.0, "count": 300, "input": 8, "output": 4, "prefix": {"groups": 4, "tokens": 160}}
    cached, plain = run(requests=requests), run(requests=requests, prefix_caching=False)
    assert hits(cached) > 0.8
    assert hits(plain) == 0
    assert cached.document()["ttft_s"]["mean"] < 0.6 * plain.document()["ttft_s"]["mean"]


def test_routing_by_prefix_helps_where_caches_are_small() -> None:
    requests = {"rate": 30.0, "count": 600, "input": 8, "output": 4, "prefix": {"groups": 12, "tokens": 160}}
    pools = [{"instances": 4}]
    by_prefix = run(requests=requests, pool=pools, kv_blocks=40, router={"policy": "prefix"})
    in_turn = run(requests=requests, pool=pools, kv_blocks=40, router={"policy": "round-robin"})
    assert hits(by_prefix) > 1.5 * hits(in_turn)


def test_routing_by_prefix_hurts_where_everybody_shares_one() -> None:
    """With no weight on load, all requests go to the instance that has the prefix (SGLang issue 21199)."""
    requests = {"rate": 2000.0, "count": 400, "input": 8, "output": 40, "prefix": {"groups": 1, "tokens": 32}}
    pools = [{"instances": 4}]
    sticky = run(requests=requests, pool=pools, router={"policy": "prefix", "prefix_beta": 0.0})
    in_turn = run(requests=requests, pool=pools, router={"policy": "round-robin"})
    assert sticky.document()["ttft_s"]["mean"] > 2 * in_turn.document()["ttft_s"]["mean"]


def test_two_choices_queue_less_than_random() -> None:
    requests = {"rate": 60.0, "count": 2000, "input": 40, "output": 10}
    means = {
        policy: run(requests=requests, pool=[{"instances": 8}], max_sequences=2, router={"policy": policy}).document()["queue_s"]["mean"]
        for policy in ("random", "two-choices", "least-requests")
    }
    assert means["least-requests"] <= means["two-choices"] < means["random"]


def test_a_session_stays_with_its_instance(tmp_path: Any) -> None:
    file = tmp_path / "trace.csv"
    file.write_text("arrival_s,input,output,session\n" + "".join(f"{number},5,2,s{number % 7}\n" for number in range(70)))
    result = run(requests={"arrival": "trace", "trace": str(file)}, pool=[{"instances": 3}], router={"policy": "session"})
    by_session: dict[str, set[int]] = {}
    for each in result.sequences:
        by_session.setdefault(each.request.session, set()).add(each.instance)
    assert all(len(instances) == 1 for instances in by_session.values())
    assert len(set.union(*by_session.values())) > 1


def test_prompts_that_the_cache_cannot_hold_are_shed_and_counted(tmp_path: Any) -> None:
    file = tmp_path / "trace.csv"
    file.write_text("arrival_s,input,output\n0,10,2\n1,200,1\n2,150,30\n3,10,2\n")
    result = run(requests={"arrival": "trace", "trace": str(file)}, kv_blocks=10)
    requests = result.document()["requests"]
    assert (requests["finished"], requests["shed"]) == (2, 2)
    assert requests["shed_reasons"] == {"prompt longer than the cache": 1, "prompt and answer longer than the cache": 1}
    assert result.rows()[1]["first_token_s"] is None


@pytest.mark.parametrize("compiled", [True, False])
def test_a_run_without_a_token_takes_no_time(compiled: bool) -> None:
    document = serve(case(kv_blocks=1), compiled=compiled).document()
    assert document["requests"]["shed"] == document["requests"]["arrived"] > 0
    assert document["makespan_s"] == document["throughput"]["requests_s"] == 0


def test_a_full_queue_sheds() -> None:
    result = run(requests={"arrival": "burst", "count": 30, "input": 8, "output": 4}, max_sequences=2, router={"queue_limit": 5})
    check_conserved(result)
    assert result.document()["requests"]["shed_reasons"]["queue full"] > 10


def test_the_host_is_hidden_beside_the_device_unless_scheduling_waits() -> None:
    requests = {"arrival": "constant", "rate": 1.0, "count": 5, "input": 100, "output": 20}
    means = {}
    for asynchronous in (True, False):
        table = case(requests=requests, async_scheduling=asynchronous)
        table["compute"]["host_us"] = 10.0
        result = serve(table)
        means[asynchronous] = result.document()["tpot_s"]["mean"], result.document()["time"]["host"]
    plain = run(requests=requests).document()["tpot_s"]["mean"]
    assert close(means[True][0], plain)
    assert means[False][0] == pytest.approx(plain + 1e-5)
    assert means[True][1] == 0 < means[False][1]


def test_the_front_end_counts_to_the_first_token_alone() -> None:
    table = case(requests={"arrival": "constant", "rate": 1.0, "count": 5, "input": 10, "output": 5})
    plain = serve(table)
    table["compute"]["front_end_ms"] = 20
    later = serve(table)
    check_conserved(later)
    assert later.document()["ttft_s"]["mean"] == pytest.approx(plain.document()["ttft_s"]["mean"] + 0.02)
    assert later.document()["tpot_s"]["mean"] == pytest.approx(plain.document()["tpot_s"]["mean"])


def test_goodput_counts_requests_that_meet_all_limits() -> None:
    base = {"requests": {"rate": 60.0, "count": 400, "input": 40, "output": 10}}
    free = run(**base)
    assert free.document()["goodput"]["fraction"] == 1
    limit = sorted(free.ttft(each) for each in free.sequences)[300]
    within = sum(free.ttft(each) <= limit * (1 + 1e-12) for each in free.sequences)
    limited = run(**base, slo={"ttft_ms": limit * (1 + 1e-12) * 1e3})
    assert limited.document()["goodput"]["fraction"] == within / 400 < 1
    both = run(**base, slo={"ttft_ms": limit * 1e3, "e2e_ms": 1e-9})
    assert both.document()["goodput"]["fraction"] == 0


def test_prefill_and_decode_instances_share_the_work() -> None:
    requests = {"rate": 20.0, "count": 100, "input": 64, "output": 20}
    split = run(
        requests=requests,
        pool=[{"role": "prefill"}, {"role": "decode", "instances": 2}],
        transfer={"latency_us": 1000.0, "bandwidth_gb_per_s": 1.0},
    )
    check_conserved(split)
    assert {each.prefill_instance for each in split.sequences} == {0}
    assert {each.instance for each in split.sequences} == {1, 2}
    document = split.document()
    kv_bytes = 2 * TINY["layers"] * TINY["kv_heads"] * 16 * 2
    assert document["time"]["transfer"] == pytest.approx(100 * (1e-3 + 64 * kv_bytes / 1e9))
    bands = document["explanation"]["tpot"][0]
    assert bands["transfer"] * 19 >= 1e-3
    prefill, *decode = document["instances"]
    assert prefill["mean_batch"] < 2
    assert all(each["mean_tokens"] == each["mean_batch"] for each in decode)


@pytest.mark.parametrize(("senders", "receivers"), [(1, 1), (2, 2), (2, 1), (1, 2)])
def test_transfers_are_messages_on_the_network(senders: int, receivers: int) -> None:
    """From all NPUs of an instance to all of the other, through a switch: the busier side has its share of the bytes for each link."""
    tokens, requests = 6400, {"arrival": "constant", "rate": 0.01, "count": 2, "input": 6400, "output": 2}
    pools = [{"role": "prefill", "tensor_parallel": senders}, {"role": "decode", "tensor_parallel": receivers}]
    table = case(requests=requests, pool=pools, kv_blocks=1000, transfer={"latency_us": 0.0}, max_batched_tokens=8192)
    table["platform"] = {"plugin": "switch", "size": 4, "link_bandwidth_gb_per_s": 1, "link_latency_ns": 0}
    table["network"] = {"plugin": "flow"}
    result = serve(table)
    check_conserved(result)
    size = tokens * 2 * TINY["layers"] * TINY["kv_heads"] * 16 * 2
    assert result.document()["time"]["transfer"] == pytest.approx(2 * size / min(senders, receivers) / 1e9, rel=0.01)


@pytest.mark.parametrize("bandwidth", [1e6, 3e6, 1e9])
@pytest.mark.parametrize("latency_s", [0.0, 0.01])
def test_layers_are_sent_when_they_are_computed(bandwidth: float, latency_s: float) -> None:
    """A layer after another, from the end of its computation on: over a fast link only the last is left when the prompt ends."""
    base = {
        "requests": {"arrival": "constant", "rate": 1.0, "count": 4, "input": 160, "output": 2},
        "pool": [{"role": "prefill"}, {"role": "decode"}],
    }
    layers, layer_s = TINY["layers"], 160 * 2 * TINY["kv_heads"] * 16 * 2 / bandwidth
    options = {"latency_us": latency_s * 1e6, "bandwidth_gb_per_s": bandwidth / 1e9}
    after, layered = (run(**base, transfer={**options, "mode": mode}) for mode in ("after", "layerwise"))
    check_conserved(layered)
    assert after.document()["time"]["transfer"] == pytest.approx(4 * (latency_s + layers * layer_s))
    for each in layered.sequences:
        prompt_s = each.first_token - each.scheduled
        left = max(layer_s, layers * layer_s - prompt_s * (layers - 1) / layers)
        assert each.spent.transfer_end - each.first_token == pytest.approx(latency_s + left)


def test_tensor_parallel_ranks_pay_for_their_collectives_on_the_network() -> None:
    requests = {"arrival": "constant", "rate": 1.0, "count": 5, "input": 100, "output": 20}
    result = {}
    for latency in (1.0, 11.0):
        table = case(requests=requests, pool=[{"tensor_parallel": 2}])
        table["platform"] = {"plugin": "ring", "size": 2, "links": 2, "link_bandwidth_gb_per_s": 100, "link_latency_ns": latency * 1000}
        result[latency] = serve(table).document()
    per_token = result[11.0]["tpot_s"]["mean"] - result[1.0]["tpot_s"]["mean"]
    assert per_token == pytest.approx(2 * TINY["layers"] * 2 * 10e-6, rel=0.01)  # two steps of a ring of two, twice a layer
    assert result[1.0]["time"]["collective"] > 0


@pytest.mark.parametrize("value", [3, datetime.date(2026, 1, 31)])
def test_a_platform_that_names_none_is_an_error(value: object) -> None:
    with pytest.raises(InputError, match=rf"platform is {re.escape(repr(value))}; expected plugin:NAME, a path, or a table"):
        serve({**case(), "platform": value})


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"model": {"name": "llama9"}}, "there is no model plugin 'llama9'"),
        ({"model": {}}, "serving.model: expected either name or dimensions"),
        ({"engine": "orka"}, "there is no serving policy plugin 'orka'"),
        ({"engine": "trtllm?capacity=all"}, "capacity is 'all'; known: guaranteed-no-evict, max-utilization"),
        ({"pool": [{"tensor_parallel": 3}]}, "tensor_parallel is 3; expected a divisor of the 4 query heads"),
        ({"pool": [{"tensor_parallel": 2}]}, "tensor_parallel is 2 and there is no platform"),
        ({"pool": [{"expert_parallel": 2, "tensor_parallel": 2}]}, "expert_parallel is 2; expected 1: the model has no experts"),
        ({"pool": [{"role": "prefill"}]}, "expected both alone, or prefill and decode"),
        ({"pool": [{"role": "prefill"}, {"role": "decode"}]}, "need serving.transfer.bandwidth_gb_per_s, or a platform"),
        ({"kv_blocks": None}, "the memory of an NPU is not known"),
        ({"requests": {"rate": 0}}, "rate"),
        ({"slo": {"ttft": 500}}, "unknown key 'ttft'"),
        ({"max_sequence": 5}, "did you mean 'max_sequences'?"),
        ({"pool": []}, "serving.pool is empty; expected at least one pool of instances"),
    ],
)
def test_bad_experiments_are_errors(table: dict[str, Any], words: str) -> None:
    result = case()
    for key, value in table.items():
        if value is None:
            del result["serving"][key]
        else:
            result["serving"][key] = value
    with pytest.raises(InputError) as caught:
        serve(result)
    assert words in str(caught.value)


def test_a_model_that_does_not_fit_says_by_how_much() -> None:
    table = case(memory_gib=80.0, model={"name": "llama3-70b"})
    del table["serving"]["kv_blocks"]
    with pytest.raises(CapacityError) as caught:
        serve(table)
    assert "131.4 GiB of weights" in str(caught.value)
    assert "GiB are missing on each NPU" in str(caught.value)
    assert caught.value.needed_bytes - caught.value.capacity_bytes > 60 * 2**30


def test_instances_need_no_more_npus_than_there_are() -> None:
    table = case(pool=[{"instances": 2, "tensor_parallel": 2}])
    table["platform"] = {"plugin": "ring", "size": 2, "links": 2, "link_bandwidth_gb_per_s": 50, "link_latency_ns": 500}
    with pytest.raises(InputError, match="the instances need 4 NPUs, and the platform has 2"):
        serve(table)


def test_a_run_that_is_stopped_keeps_what_is_done() -> None:
    def stop(now: float, events: int) -> None:
        raise KeyboardInterrupt

    result = serve(case(requests={"rate": 100.0, "count": 20_000}, jumps=False), on_progress=stop)
    requests = result.document()["requests"]
    assert not result.is_complete
    assert 0 < requests["finished"] < requests["arrived"] < 20_000
    assert requests["unfinished"] == requests["arrived"] - requests["finished"]


@pytest.mark.parametrize("count", [1, 2, 7, 50, 99, 100, 1001])
def test_each_request_is_in_one_band(count: int) -> None:
    groups: list[dict[str, Any]] = bands([(float(number), 1.0) for number in range(count)], ("a", "b"))
    whole = groups.pop(0)
    assert whole["count"] == count == sum(group["count"] for group in groups)
    assert sum(group["count"] * group["mean_s"] for group in groups) == pytest.approx(count * whole["mean_s"])
