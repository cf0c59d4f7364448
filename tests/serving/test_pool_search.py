"""Pools that serve most: what is looked at, and that nothing better was missed."""

from __future__ import annotations

import csv
import json
import multiprocessing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from astra_sim import InputError
from astra_sim.commands import Progress
from astra_sim_serving import serve
from astra_sim_serving.experiment import ServingExperiment
from astra_sim_serving.pool_search import DOES_NOT_FIT, PRECISION, Division, PoolCandidate, PoolChoice, PoolSearch, SearchSpace
from support.commands import command

from serving.cases import RING, TINY, case

LOAD = {"rate": 50.0, "count": 60, "input": 60, "output": 10}


@pytest.fixture(autouse=True)
def _one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short runs take less processor time in one process."""
    monkeypatch.setattr("astra_sim_serving.workers.processors", lambda: 1)


def table_for(**serving: Any) -> dict[str, Any]:
    table = case(**{"requests": LOAD, "slo": {"ttft_ms": 3.0}, "transfer": {"bandwidth_gb_per_s": 1.0}, **serving})
    table["platform"] = {**RING, "size": 4}
    return table


def search(npus: int = 4, usd_per_hour: float | None = None, **serving: Any) -> tuple[list[PoolChoice], PoolChoice | None]:
    return choices_of(table_for(**serving), npus, usd_per_hour)


def choices_of(table: dict[str, Any], npus: int, usd_per_hour: float | None = None) -> tuple[list[PoolChoice], PoolChoice | None]:
    """The choices and the best."""
    with PoolSearch(ServingExperiment(table), npus, usd_per_hour) as pools:
        return pools.choices(Progress(enabled=False, unit="s"))


def space(npus: int, heads: int, **budget: Any) -> SearchSpace:
    """Divisions by tensor parallelism alone, the same of each role."""
    divisions = [Division(1 << power) for power in range(npus.bit_length()) if heads % (1 << power) == 0]
    return SearchSpace(npus, dict.fromkeys(("both", "prefill", "decode"), divisions), **budget)


@pytest.mark.parametrize(("npus", "heads"), [(1, 4), (4, 4), (6, 8), (12, 4)])
def test_candidates_leave_no_npus_for_another_instance(npus: int, heads: int) -> None:
    ways = list(space(npus, heads).candidates())
    assert len(set(ways)) == len(ways)
    for way in ways:
        assert npus - min(division.npus for _, _, division in way.pools) < way.npus <= npus
        assert all(heads % division.tensor == 0 and instances > 0 for _, instances, division in way.pools)
    assert [str(way) for way in space(2, 4).candidates()] == ["2 both TP 1", "1 both TP 2", "1 prefill TP 1 + 1 decode TP 1"]


def within(candidate: PoolCandidate, rate: float, load: Mapping[str, Any] = LOAD) -> bool:
    pools = [
        {
            "role": role,
            "instances": instances,
            "tensor_parallel": division.tensor,
            "pipeline_parallel": division.pipeline,
            "data_parallel": division.data,
        }
        for role, instances, division in candidate.pools
    ]
    table = table_for(pool=pools)
    table["serving"]["requests"] = {**load, "rate": rate}
    return float(serve(table).document()["goodput"]["fraction"]) >= 0.99


def test_no_candidate_meets_the_slo_at_a_higher_rate() -> None:
    choices, best = search()
    assert best is not None
    assert best.rate == max(choice.rate for choice in choices if choice.rate is not None)
    assert best.rate is not None
    for choice in choices:
        assert choice.why != DOES_NOT_FIT
        assert not within(choice.candidate, best.rate * PRECISION)
    assert within(best.candidate, best.rate)
    assert best.row is not None
    assert best.row.meets_slo


@pytest.mark.parametrize("usd", [None, 9.0])
def test_any_number_of_processes_finds_the_same(usd: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for processes in 1, 3:
        monkeypatch.setattr("astra_sim_serving.workers.processors", lambda: processes)  # noqa: B023
        table = table_for(requests={**LOAD, "count": 20}, **({} if usd is None else {"gpu_hour_usd": 2.5}))
        choices, best = choices_of(table, 4, usd)
        found.append((choices, best))
        assert multiprocessing.active_children() == []
    assert found[0] == found[1]


def test_an_error_in_a_process_is_that_of_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("astra_sim_serving.workers.processors", lambda: 2)
    with pytest.raises(InputError, match=r"requests\.input: value is -5; expected at least 1"):
        search(requests={**LOAD, "input": -5})


def test_pools_of_each_device_are_candidates() -> None:
    """Of two devices the slow one has a price at which it serves more for a dollar, and instances of both divide work by role."""
    table = table_for(slo={"ttft_ms": 20.0}, requests={**LOAD, "count": 30}, model={"name": "llama-3.1-8b"}, kv_blocks=2000)
    table["compute"] = {"plugin": "gpu", "device": "h100"}
    table["platform"] = {"plugin": "dgx_h100"}
    for price, cheapest in ((0.1, "a100-80"), (100.0, None)):
        table["serving"]["pool"] = [{"gpu_hour_usd": 3.0}, {"device": "a100-80", "gpu_hour_usd": price}]
        choices, best = choices_of(table, 2)
        names = [str(choice.candidate) for choice in choices]
        assert {"2 both TP 1", "2 both TP 1 a100-80", "1 prefill TP 1 + 1 decode TP 1 a100-80"} <= set(names)
        assert best is not None
        assert {division.device for _, _, division in best.candidate.pools} == {cheapest}
        assert [each.get("device") for each in best.document()["pools"]] == [cheapest]


def test_candidates_that_do_not_fit_are_named() -> None:
    table = table_for(memory_gib=0.0016, memory_margin_gib=0.0, memory_utilization=1.0)
    del table["serving"]["kv_blocks"]
    choices, best = choices_of(table, 4)
    unfit = {str(choice.candidate) for choice in choices if choice.why == DOES_NOT_FIT}
    assert "4 both TP 1" in unfit
    assert "1 both TP 4" not in unfit
    assert best is not None


def test_ranks_share_experts_evenly() -> None:
    """Where experts are shared as wholes: 8 query heads, and 2 experts."""
    model = {"dimensions": {**TINY, "heads": 8, "experts": 2, "top_k": 1, "expert_ffn": 32}}
    few, _ = search(model=model, pool=[{"tensor_parallel": 2, "expert_parallel": 2}])
    assert {division.tensor for choice in few for _, _, division in choice.candidate.pools} == {1, 2}
    more, _ = search(model=model)
    assert {division.tensor for choice in more for _, _, division in choice.candidate.pools} == {1, 2, 4}


def test_options_of_a_pool_of_the_same_role_are_kept() -> None:
    few = search(pool=[{"role": "both", "max_sequences": 1}])[1]
    many = search(pool=[{"role": "both", "max_sequences": 100}])[1]
    assert few is not None
    assert many is not None
    assert (few.rate or 0) < (many.rate or 0)


@pytest.mark.parametrize(
    ("serving", "npus", "words"),
    [
        ({"slo": {}}, 4, "serving.slo has no limit"),
        ({"requests": {"arrival": "burst", "count": 5}}, 4, "serving.requests has no rate"),
        ({"autoscale": {"policy": "kv", "target": 0.5}}, 4, "serving.autoscale is given"),
        ({"pool": [{"data_parallel": 2}]}, 4, "serving.pool.0: data_parallel is 2; expected 1 for a search of pools"),
        ({"pool": [{"gpu_hour_usd": 2.0}, {}]}, 4, "serving.pool.1: gpu_hour_usd is missing, and another pool has one"),
        (
            {"model": None, "models": {"a": {"dimensions": TINY}}, "pool": [{"model": "a"}]},
            4,
            "serving.models is given; expected serving.model",
        ),
        ({}, 8, "the platform has 4 NPUs"),
        ({"model": {"dimensions": TINY, "name": "qwen3-8b"}}, 4, "serving.model: expected either name or dimensions"),
    ],
)
def test_what_the_search_cannot_change_is_an_error(serving: dict[str, Any], npus: int, words: str) -> None:
    table = table_for()
    table["serving"].update(serving)
    with pytest.raises(InputError) as caught:
        choices_of(table, npus)
    assert words in str(caught.value)


def test_pipelines_and_ranks_are_searched_if_a_pool_has_them() -> None:
    model = {"dimensions": {**TINY, "layers": 3, "experts": 2, "top_k": 1, "expert_ffn": 32}}
    pools = [{"role": "prefill", "pipeline_parallel": 2}, {"role": "decode", "data_parallel": 2, "exchange": "all-to-all"}]
    choices, best = search(model=model, pool=pools, requests={**LOAD, "count": 20})
    divisions = {
        role: {each for choice in choices for name, _, each in choice.candidate.pools if name == role} for role in ("prefill", "decode")
    }
    assert {(each.pipeline, each.data) for each in divisions["prefill"]} == {(1, 1), (2, 1)}  # of at most three stages
    assert {(each.pipeline, each.data) for each in divisions["decode"]} == {(1, 1), (1, 2)}
    assert Division(1, 1, 2) in divisions["decode"]
    assert "1 prefill TP 1 PP 2 + 1 decode TP 1 DP 2" in map(str, (choice.candidate for choice in choices))
    assert best is not None
    document = next(choice.document() for choice in choices if choice.candidate.pools[0][2].pipeline > 1)
    assert document["pools"][0]["pipeline_parallel"] == 2


def test_ranks_with_experts_as_wholes_divide_them() -> None:
    model = {"dimensions": {**TINY, "experts": 2, "top_k": 1, "expert_ffn": 32}}
    choices, _ = search(model=model, pool=[{"data_parallel": 2, "expert_parallel": 2}], requests={**LOAD, "count": 20})
    divisions = {division for choice in choices for _, _, division in choice.candidate.pools}
    assert divisions == {Division(1), Division(2), Division(1, 1, 2)}


@pytest.mark.parametrize("usd", [4.0, 7.0, 9.5])
def test_candidates_leave_no_money_for_another_instance(usd: float) -> None:
    prices = {"both": 2.0, "prefill": 3.0, "decode": 1.0}
    by_device = {(role, None): price for role, price in prices.items()}
    ways = list(space(8, 4, prices=by_device, usd_per_hour=usd).candidates())
    assert {role for way in ways for role, _, _ in way.pools} == {"both", "prefill", "decode"}
    for way in ways:
        assert way.usd_per_hour == sum(prices[role] * instances * division.npus for role, instances, division in way.pools)
        for role, _, division in way.pools:
            assert way.npus <= 8
            assert way.npus + division.npus > 8 or way.usd_per_hour <= usd < way.usd_per_hour + division.npus * prices[role]


def test_prices_decide_between_roles() -> None:
    """With answers for next to nothing most for a dollar are served by pools apart, with answers at a high price by the others."""

    load = {**LOAD, "output": 100}

    def best_for(prefill: float, decode: float) -> PoolChoice:
        pools = [{"role": "prefill", "gpu_hour_usd": prefill}, {"role": "decode", "gpu_hour_usd": decode}]
        choices, best = search(pool=pools, requests=load)
        assert best is not None
        assert best.value == max(choice.value for choice in choices)
        assert best.goodput is not None
        assert best.document()["goodput_requests_per_usd"] == pytest.approx(best.goodput * 3600 / (best.candidate.usd_per_hour or 0))
        for choice in choices:  # none was left out that serves more for a dollar
            assert not within(choice.candidate, best.value * (choice.candidate.usd_per_hour or 0) * PRECISION, load)
        return best

    assert best_for(1.0, 1e-3).candidate.pools[-1][0] == "decode"
    assert best_for(1.0, 1e3).candidate.pools[-1][0] == "both"


def test_a_run_has_costs_by_prices() -> None:
    pools: list[dict[str, Any]] = [{"instances": 2, "gpu_hour_usd": 5.0}, {"instances": 1}]
    table = table_for(pool=pools, gpu_hour_usd=2.0)
    result = serve(table)
    document = result.document()
    cost, hours = document["cost"], document["makespan_s"] / 3600
    assert cost["usd"] == pytest.approx(12 * hours)
    assert cost["usd_per_hour"] == pytest.approx(12)
    assert cost["usd_per_million_output_tokens"] * sum(each.generated for each in result.sequences) == pytest.approx(cost["usd"] * 1e6)
    assert cost["goodput_requests_per_usd"] * cost["usd"] == pytest.approx(document["goodput"]["requests_s"] * document["makespan_s"])
    table["serving"]["autoscale"] = {"policy": "queue", "target": 1.0, "period_s": 0.1, "cold_start_s": 0.1}
    scaled = serve(table).document()
    assert 6.99 < scaled["cost"]["usd_per_hour"] < 11.99
    for pool in pools:
        pool["gpu_hour_usd"] = 5.0
    scaled = serve({**table, "serving": {**table["serving"], "pool": pools}}).document()
    assert scaled["cost"]["usd_per_hour"] == pytest.approx(5 * scaled["scaling"]["mean_npus"])
    assert "cost" not in serve(table_for()).document()


def test_the_command_prints_the_best_first_and_writes_all(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    server, written, table = (str(tmp_path / name) for name in ("server.toml", "pools.json", "pools.csv"))
    served = '[serving]\nkv_blocks = 500\nmodel.name = "qwen3-8b"\nrequests = { rate = 2.0, count = 20 }\nslo = { ttft_ms = 100 }\n'
    transfer = "transfer = { bandwidth_gb_per_s = 50 }\n"
    Path(server).write_text(f'{served}{transfer}[compute]\nplugin = "gpu"\ndevice = "h100"\n[platform]\nplugin = "dgx_h100"\n')
    run = command(capsys)
    done = run("serve", server, "--search-pools", "2", "-o", written)
    document = json.loads(Path(written).read_text())
    assert [choice["npus"] for choice in document["choices"]] == [2, 2, 2]
    rates = [choice["rate"] for choice in document["choices"] if choice["rate"] is not None]
    assert document["best"]["rate"] == max(rates)
    heading, first, *_ = done.out.splitlines()
    assert heading.split() == "pools NPUs highest rate (1/s) goodput (1/s) of an NPU (1/s)".split()
    assert f"{max(rates):.4g}" in first
    assert json.loads(run("serve", server, "--search-pools", "2", "--json", "--quiet").out) == document
    assert run("serve", server, "--search-pools", "2", "-o", table, "--quiet").error == ""
    rows = list(csv.DictReader(Path(table).read_text().splitlines()))
    assert [row["pools"] for row in rows] == ["2 both TP 1", "1 both TP 2", "1 prefill TP 1 + 1 decode TP 1"]
    priced = run("serve", server, "--search-pools", "2", "--set", "serving.gpu_hour_usd=3", "--usd-per-hour", "3.5").out.splitlines()
    assert priced[0].endswith("USD/h  requests for 1 USD")
    assert priced[1].startswith("1 both TP 1")
    assert run("serve", server, "--set", "serving.gpu_hour_usd=3").out.count("cost: ") == 1
    for options, words in (
        (["--sweep", "serving.requests.rate=1"], "--sweep and --search-pools are given; expected one of them"),
        (["--usd-per-hour", "5"], "serving.gpu_hour_usd is missing; expected a price for --usd-per-hour 5"),
        (["--usd-per-hour", "5", "--set", "serving.gpu_hour_usd=9"], "no instance costs at most 5.0 USD an hour"),
        (["--timeline", table], "--timeline has no effect with --search-pools"),
    ):
        refused = run("serve", server, "--search-pools", "2", *options)
        assert (refused.status, words in refused.error) == (2, True)
