"""Several models in one fleet: which requests ask for which, where they go, and the results of each."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from astra_sim import InputError
from astra_sim_serving import serve
from support.commands import command

from serving.cases import EXPERTS, RING, TINY, case, check_conserved

LOAD = {"rate": 300.0, "count": 200, "input": 20, "output": 15}


def table_for(**serving: Any) -> dict[str, Any]:
    """A fleet of a small model and a larger one, which has two instances."""
    models = {"small": {"dimensions": TINY}, "large": {"dimensions": {**TINY, "layers": 6}}}
    pool = [{"model": "small"}, {"model": "large", "instances": 2}]
    requests = {**LOAD, "models": {"small": 3, "large": 1}}
    result = case(**{"models": models, "pool": pool, "requests": requests, "slo": {"ttft_ms": 3.0}, **serving})
    del result["serving"]["model"]
    return result


def trace_of(tmp_path: Path, *models: str) -> dict[str, Any]:
    """Requests of a file, each 10 ms after the one before."""
    lines = [{"arrival_s": n / 100, "input": 20, "output": 5} | ({"model": model} if model else {}) for n, model in enumerate(models)]
    path = tmp_path / "requests.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return {"trace": str(path)}


def test_models_have_their_share_of_the_requests_and_instances_of_their_own() -> None:
    result = serve(table_for(requests={**LOAD, "rate": 3000.0, "count": 4000, "models": {"small": 3, "large": 1}}))
    check_conserved(result)
    asked = Counter(each.request.model for each in result.sequences)
    assert asked["small"] / 4000 == pytest.approx(0.75, abs=0.02)
    assert {(each.request.model, each.instance) for each in result.sequences} == {("small", 0), ("large", 1), ("large", 2)}
    document = result.document()
    assert [each["model"] for each in document["instances"]] == ["small", "large", "large"]
    assert {name: each["requests"]["arrived"] for name, each in document["models"].items()} == asked
    assert {name: each["npus"] for name, each in document["models"].items()} == {"small": 1, "large": 2}


def test_each_model_has_the_time_of_its_own_layers() -> None:
    document = serve(table_for(requests={**LOAD, "rate": 5.0, "models": {"small": 1, "large": 1}})).document()
    parts = [document["models"][name]["tpot_s"]["mean"] for name in ("small", "large")]
    assert 1.5 < parts[1] / parts[0] < 3  # six layers against two, and as large a head


def test_shares_change_neither_arrivals_nor_lengths() -> None:
    lengths = {"input": {"distribution": "uniform", "low": 1, "high": 60}}
    runs = [serve(table_for(requests={**LOAD, **lengths, "models": models})) for models in ({"small": 1}, {"small": 0.1, "large": 0.9})]
    first, second = ([(each.request.arrival, each.request.input) for each in run.sequences] for run in runs)
    assert first == second
    assert runs[0].document()["models"]["large"]["requests"]["arrived"] == 0
    assert runs[0].document()["models"]["large"]["ttft_s"] is None


def test_one_model_by_name_is_served_as_the_only_model() -> None:
    only = case(requests=LOAD)
    named = case(requests={**LOAD, "models": {"chat": 1}}, models={"chat": {"dimensions": TINY}}, pool=[{"model": "chat"}])
    del named["serving"]["model"]
    first, second = serve(only).document(), serve(named).document()
    models = second.pop("models")
    assert second.pop("instances")[0].pop("model") == "chat"
    del first["instances"]
    assert second == first
    assert models["chat"]["explanation"] == first["explanation"]


def test_models_of_a_trace(tmp_path: Path) -> None:
    table = table_for(requests=trace_of(tmp_path, "large", "small", "large", "large", "small"))
    result = serve(table)
    assert [row["model"] for row in result.rows()] == ["large", "small", "large", "large", "small"]
    assert [each.instance for each in result.sequences] == [1, 0, 2, 1, 0]  # in turn for each model
    table["serving"]["requests"]["models"] = {"small": 1}
    assert {each.request.model for each in serve(table).sequences} == {"small"}
    alone = case(requests=trace_of(tmp_path, "large", "small"))
    assert {each.request.model for each in serve(alone).sequences} == {""}
    path = tmp_path / "burst.csv"
    path.write_text(
        "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "0,1,2,large,30,5,35,a\n1,2,2,small,30,5,35,a\n"
    )
    assert [row["model"] for row in serve(table_for(requests={"trace": str(path)})).rows()] == ["large", "small"]


def test_models_may_have_different_roles_and_sizes_of_keys_and_values() -> None:
    models = {"small": {"dimensions": TINY}, "large": {"dimensions": {**TINY, "kv_heads": 4, "layers": 4}}}
    pools = [{"model": model, "role": role} for model in ("small", "large") for role in ("prefill", "decode")]
    requests = {"arrival": "burst", "count": 40, "input": 100, "output": 2, "models": {"small": 1, "large": 1}}
    transfer = {"bandwidth_gb_per_s": 0.1, "latency_us": 0.0}
    result = serve(table_for(models=models, pool=pools, requests=requests, transfer=transfer))
    check_conserved(result)
    first: dict[str, float] = {}
    for each in result.sequences:
        assert {each.prefill_instance, each.instance} == ({0, 1} if each.request.model == "small" else {2, 3})
        name, took = each.request.model, each.spent.transfer_end - each.first_token
        first[name] = min(took, first.get(name, took))
    assert first["large"] / first["small"] == pytest.approx(4)  # twice the heads in twice the layers
    mixed = serve(table_for(pool=[*pools[:2], {"model": "large"}], transfer=transfer))
    check_conserved(mixed)
    assert {each.prefill_instance >= 0 for each in mixed.sequences if each.request.model == "large"} == {False}


def test_each_model_scales_by_its_own_load(tmp_path: Path) -> None:
    pool = [{"model": "small", "instances": 3}, {"model": "large", "instances": 3}]
    autoscale = {"policy": "queue", "target": 1.0, "period_s": 0.005, "cold_start_s": 0.001, "down_after_s": 10.0}
    requests = {**LOAD, "rate": 3000.0, "models": {"small": 0.02, "large": 0.98}}
    document = serve(table_for(pool=pool, autoscale=autoscale, requests=requests)).document()
    parts = {name: each["scaling"] for name, each in document["models"].items()}
    assert (parts["small"]["starts"], parts["large"]["starts"]) == (0, 2)
    assert sum(each["npu_s"] for each in parts.values()) == pytest.approx(document["scaling"]["npu_s"])


def test_drafts_and_adapters_are_counted_for_each_model() -> None:
    document = serve(table_for(speculative={"tokens": 3, "acceptance": 0.5}, lora={"adapters": 4})).document()
    for key, counts in (("speculation", ("drafted", "accepted")), ("lora", ("requests", "loads"))):
        for count in counts:
            assert sum(each[key][count] for each in document["models"].values()) == document[key][count] > 0


def test_a_pool_has_the_parallelism_that_its_own_model_allows() -> None:
    models = {"dense": {"dimensions": TINY}, "experts": {"dimensions": EXPERTS}}
    pool = [{"model": "experts", "tensor_parallel": 2, "expert_parallel": 2}, {"model": "dense", "tensor_parallel": 2}]
    table = table_for(models=models, pool=pool, requests={**LOAD, "models": {"dense": 1, "experts": 1}})
    table["platform"] = {**RING, "size": 4}
    check_conserved(serve(table))
    pool[1]["expert_parallel"] = 2
    table["serving"]["pool"] = pool
    with pytest.raises(InputError, match=r"serving.pool.1: expert_parallel is 2; expected 1: the model has no experts"):
        serve(table)


def test_the_command_tells_of_each_model(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """In the text, in JSON, in the file of requests, and in sweeps over shares."""
    server, requests, swept = (str(tmp_path / name) for name in ("server.toml", "requests.csv", "sweep.csv"))
    Path(server).write_text(
        "[serving]\nkv_blocks = 500\nslo = { ttft_ms = 100 }\n"
        'models.chat = { name = "qwen3-8b" }\nmodels.code = { name = "llama-3.1-8b" }\n'
        'pool = [{ model = "chat" }, { model = "code" }]\n'
        "requests = { rate = 5.0, count = 30, input = 100, output = 10, models = { chat = 0.5, code = 0.5 } }\n"
        '[compute]\nplugin = "gpu"\ndevice = "h100"\n'
    )
    run = command(capsys)
    lines = run("serve", server, "--per-request", requests).out.splitlines()
    headings = [line.split()[:2] for line in lines if line.startswith(("model", "TTFT (ms)", "TPOT (ms)"))]
    assert headings == [["TTFT", "(ms)"], ["TPOT", "(ms)"], ["model", "NPUs"], ["model", "latency"], ["TTFT", "(ms)"], ["TPOT", "(ms)"]]
    rows = list(csv.DictReader(io.StringIO(Path(requests).read_text())))
    counts = Counter(row["model"] for row in rows)
    assert set(counts) == {"chat", "code"}
    for name, count in counts.items():
        assert [name, "1", str(count), str(count), "0"] in [line.split()[:5] for line in lines]
    document = json.loads(run("serve", server, "--json", "--quiet").out)
    assert {name: each["requests"]["finished"] for name, each in document["models"].items()} == counts
    assert run("serve", server, "--sweep", "serving.requests.models.chat=0,0.5", "-o", swept, "--quiet").error == ""
    table = list(csv.DictReader(io.StringIO(Path(swept).read_text())))
    assert [row["models.chat.requests.finished"] for row in table] == ["0", str(counts["chat"])]


def test_paths_of_models_are_relative_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from astra_sim_serving.experiment import read_experiment

    (tmp_path / "server.toml").write_text('[serving.models]\na = { name = "sub/config.json" }\nb = { name = "qwen3-8b" }\n')
    models = read_experiment(tmp_path / "server.toml").table["serving"]["models"]
    assert [each["name"] for each in models.values()] == [str(tmp_path / "sub/config.json"), "qwen3-8b"]


@pytest.mark.parametrize(
    ("serving", "words"),
    [
        ({"model": {"dimensions": TINY}}, "serving: model and models are given; expected one of them"),
        ({"models": {}}, "serving: model is missing; expected [serving.model], or tables by name such as [serving.models.chat]"),
        ({"pool": [{"model": "small"}, {}]}, "serving.pool.1: model is missing; expected one of serving.models: small, large"),
        ({"pool": [{"model": "smal"}]}, "serving.pool.0: model is 'smal'; did you mean 'small'?"),
        ({"pool": [{"model": "small"}]}, "serving.models.large: no pool serves it; expected a pool with model = 'large'"),
        ({"models": {"small": {"dimensions": TINY}, "large": 3}}, "serving.models.large: "),
        ({"models": {"small": {"dimensions": TINY}, "large": {}}}, "serving.models.large: expected either name or dimensions"),
        (
            {"models": {"small": {"dimensions": TINY}, "large": {"dimensions": TINY, "scaling": "block"}}},
            "serving.models.large.scaling has no effect with precision = 'bf16'; expected fp8",
        ),
        ({"requests": LOAD}, "serving.requests: models is missing; expected a share for each of small, large"),
        ({"requests": {**LOAD, "models": {"smal": 1}}}, "serving.requests.models: 'smal' is none of serving.models; did you mean 'small'?"),
        ({"requests": {**LOAD, "models": {"small": -1}}}, "serving.requests.models.small is -1; expected a number of at least 0"),
        ({"requests": {**LOAD, "models": {"small": True}}}, "serving.requests.models.small is True; expected a number of at least 0"),
        ({"requests": {**LOAD, "models": {"small": 0}}}, "serving.requests.models: all shares are 0; expected one above 0"),
        (
            {"pool": [{"model": "small"}, {"model": "large", "role": "decode"}]},
            "serving.pool has the roles decode for large; expected both",
        ),
    ],
)
def test_bad_models_are_errors(serving: dict[str, Any], words: str) -> None:
    table = table_for()
    table["serving"].update(serving)
    with pytest.raises(InputError) as caught:
        serve(table)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("serving", "words"),
    [
        ({"pool": [{"model": "chat"}]}, "serving.pool.0: model is 'chat'; expected none without serving.models"),
        ({"requests": {**LOAD, "models": {"chat": 1}}}, "serving.requests.models has no effect without serving.models"),
    ],
)
def test_names_of_models_without_models_are_errors(serving: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        serve(case(**serving))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("models", "words"),
    [
        (("small", "tiny"), "requests.jsonl: request 2 has model = 'tiny'; known: large, small"),
        (("small", ""), "request 2 has no model; expected one of small, large, or shares (experiment: serving.requests.models)"),
    ],
)
def test_traces_name_models_of_the_fleet(models: tuple[str, ...], words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        serve(table_for(requests=trace_of(tmp_path, *models)))
    assert words in str(caught.value)


def test_measured_kernels_are_of_one_model() -> None:
    table = table_for()
    table["compute"] = {"tables": "examples/serving/by_hand_kernels.jsonl"}
    with pytest.raises(InputError, match=r"compute\.tables is given, of one model"):
        serve(table)
