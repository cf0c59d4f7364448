"""Pools that serve most: what is looked at, and that nothing better was missed."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from astra_sim import InputError
from astra_sim.commands import Progress
from astra_sim_serving import serve
from astra_sim_serving.experiment import ServingExperiment
from astra_sim_serving.pool_search import DOES_NOT_FIT, PRECISION, PoolCandidate, PoolChoice, candidates, search_pools
from support.commands import command

from serving.cases import RING, TINY, case

LOAD = {"rate": 50.0, "count": 60, "input": 60, "output": 10}


def table_for(**serving: Any) -> dict[str, Any]:
    table = case(requests=LOAD, slo={"ttft_ms": 3.0}, transfer={"bandwidth_gb_per_s": 1.0}, **serving)
    table["platform"] = {**RING, "size": 4}
    return table


def search(npus: int = 4, **serving: Any) -> tuple[list[PoolChoice], PoolChoice | None]:
    with Progress(enabled=False, unit="s") as progress:
        return search_pools(ServingExperiment(table_for(**serving)), npus, progress)


@pytest.mark.parametrize(("npus", "heads"), [(1, 4), (4, 4), (6, 8), (12, 4)])
def test_candidates_leave_no_npus_for_another_instance(npus: int, heads: int) -> None:
    ways = list(candidates(npus, heads))
    assert len(set(ways)) == len(ways)
    for way in ways:
        assert npus - min(tensor for _, _, tensor in way.pools) < way.npus <= npus
        assert all(heads % tensor == 0 and instances > 0 for _, instances, tensor in way.pools)
    assert [str(way) for way in candidates(2, 4)] == ["2 both TP 1", "1 both TP 2", "1 prefill TP 1 + 1 decode TP 1"]


def within(candidate: PoolCandidate, rate: float) -> bool:
    pools = [{"role": role, "instances": instances, "tensor_parallel": tensor} for role, instances, tensor in candidate.pools]
    table = table_for(pool=pools)
    table["serving"]["requests"] = {**LOAD, "rate": rate}
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


def test_candidates_that_do_not_fit_are_named() -> None:
    table = table_for(memory_gib=0.0016, memory_margin_gib=0.0, memory_utilization=1.0)
    del table["serving"]["kv_blocks"]
    with Progress(enabled=False, unit="s") as progress:
        choices, best = search_pools(ServingExperiment(table), 4, progress)
    unfit = {str(choice.candidate) for choice in choices if choice.why == DOES_NOT_FIT}
    assert "4 both TP 1" in unfit
    assert "1 both TP 4" not in unfit
    assert best is not None


def test_ranks_share_experts_evenly() -> None:
    """Where experts are shared as wholes: 8 query heads, and 2 experts."""
    model = {"dimensions": {**TINY, "heads": 8, "experts": 2, "top_k": 1, "expert_ffn": 32}}
    few, _ = search(model=model, pool=[{"tensor_parallel": 2, "expert_parallel": 2}])
    assert {tensor for choice in few for _, _, tensor in choice.candidate.pools} == {1, 2}
    more, _ = search(model=model)
    assert {tensor for choice in more for _, _, tensor in choice.candidate.pools} == {1, 2, 4}


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
        ({"pool": [{"pipeline_parallel": 2}]}, 4, "serving.pool has pipeline_parallel"),
        ({}, 8, "the platform has 4 NPUs"),
        ({"model": {"dimensions": TINY, "name": "qwen3-8b"}}, 4, "serving.model: expected either name or dimensions"),
    ],
)
def test_what_the_search_cannot_change_is_an_error(serving: dict[str, Any], npus: int, words: str) -> None:
    table = table_for()
    table["serving"].update(serving)
    with Progress(enabled=False, unit="s") as progress, pytest.raises(InputError) as caught:
        search_pools(ServingExperiment(table), npus, progress)
    assert words in str(caught.value)


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
    for options, words in (
        (["--sweep", "serving.requests.rate=1"], "--sweep and --search-pools are given; expected one of them"),
        (["--timeline", table], "--timeline has no effect with --search-pools"),
    ):
        refused = run("serve", server, "--search-pools", "2", *options)
        assert (refused.status, words in refused.error) == (2, True)
