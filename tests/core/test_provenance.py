"""A result says where it comes from, and can be run again with the same result."""

from __future__ import annotations

import json
import os
import pickle
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import astra_sim
import pytest
from astra_sim import AstraError, InputError
from astra_sim.setup.plugins import shared_plugins
from astra_sim_chakra import CollectiveType, Node, NodeType, write_nodes
from support import ROOT, figures
from support.random_experiments import Experiment

EXAMPLES = sorted((ROOT / "examples").glob("*.toml"))
RING = "plugin:ring?size=4&links=2&link_bandwidth_gb_per_s=1&link_latency_ns=100"
TEXTS = {
    "workload.txt": "MICRO\n1\nallreduce -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 1048576 1\n",
    "system.txt": "scheduling-policy: LIFO\nendpoint-delay: 10\nactive-chunks-per-dimension: 1\npreferred-dataset-splits: 4\n"
    "all-reduce-implementation: ring\nall-gather-implementation: ring\nreduce-scatter-implementation: ring\n"
    "all-to-all-implementation: direct\ncollective-optimization: localBWAware\n",
    "network.json": json.dumps(
        {
            "dimensions-count": 1,
            "topologies-per-dim": ["Ring"],
            "units-count": [8],
            "links-count": [2],
            "link-latency": [500],
            "link-bandwidth": [50],
        }
    ),
}
LLM = (
    "plugin:llm?model=llama2-7b&sequence=512&global_batch=8&tensor_parallel=2&pipeline_parallel=2&check_memory=false&precision=fp16"
    "&detail=pass"
)


def written(result: astra_sim.Result, folder: Path) -> Path:
    astra_sim.write_reports(result, folder, reports=())
    return folder


def same_again(result: astra_sim.Result, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a result and run it again from elsewhere: every figure is the same, and so is the experiment."""
    written(result, folder / "out")
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    again = astra_sim.simulate(folder / "out" / "result.json")
    assert figures(again) == figures(result)
    assert again.run_name == result.run_name
    assert again.experiment == result.experiment


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples_run_again(example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    same_again(astra_sim.simulate(example), tmp_path, monkeypatch)


def test_files_of_astra_sim_1_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in TEXTS.items():
        Path(name).write_text(text)
    result = astra_sim.simulate(workload="workload.txt", system="system.txt", network="network.json", run_name="text", passes=2)
    for name in TEXTS:
        Path(name).unlink()  # what they held is in the result
    same_again(result, tmp_path, monkeypatch)


def test_traces_run_again_by_their_prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for rank in range(4):
        compute = Node(id=0, type=NodeType.COMP_NODE, duration_ns=5000 + rank % 2)
        of: dict[str, Any] = {"comm_type": CollectiveType.ALL_REDUCE, "comm_size": 4096, "pg_name": "odd" if rank % 2 else "even"}
        write_nodes(f"trace.{rank}.et", [compute, Node(id=1, type=NodeType.COMM_COLL_NODE, data=(0,), **of)])
    groups = {"even": [0, 2], "odd": [1, 3]}
    Path("groups.json").write_text(json.dumps(groups))
    result = astra_sim.simulate(workload="trace", system="plugin:astra2", platform=RING, groups="groups.json")
    assert result.experiment["workload"]["prefix"] == str(tmp_path / "trace")
    assert result.experiment["run"]["groups"] == groups
    same_again(result, tmp_path, monkeypatch)


@pytest.mark.parametrize("more", [{}, {"compute": "plugin:gpu?device=a100-80"}])
def test_language_models_run_again(more: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = astra_sim.simulate(
        workload=LLM,
        platform="plugin:dgx_a100?nodes=1",
        system="plugin:astra2",
        **{"compute": "plugin:roofline?peak_tera_ops_per_s=300&memory_bandwidth_gb_per_s=2000", **more},
    )
    same_again(result, tmp_path, monkeypatch)


def test_paths_in_specs_and_of_graphs_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("links.csv").write_text("source,target,bandwidth_gb_per_s,latency_ns\n" + "".join(f"{n},{(n + 1) % 4},10,100\n" for n in range(4)))
    for rank in range(4):
        send = Node(id=0, type=NodeType.COMM_SEND_NODE, comm_dst=(rank + 1) % 4, comm_size=1000)
        receive = Node(id=1, type=NodeType.COMM_RECV_NODE, comm_src=(rank - 1) % 4, comm_size=1000)
        write_nodes(f"one.{rank}.et", [send, receive])
    result = astra_sim.simulate(
        workload="plugin:collective?bytes=4096",
        platform="plugin:graph?file=links.csv",
        system="plugin:astra2?all_reduce=chakra?prefix=one",
        network="plugin:analytical?congestion=aware",
    )
    assert result.experiment["platform"]["file"] == str(tmp_path / "links.csv")
    assert str(tmp_path / "one") in result.experiment["system"]["all_reduce"]
    same_again(result, tmp_path, monkeypatch)


@pytest.mark.parametrize("seed", range(40))
def test_random_experiments_run_again(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = Experiment(10_000 + seed, tmp_path)
    try:
        result = astra_sim.simulate(**experiment.options)
    except AstraError:
        return  # random programs may be at odds with each other
    if "object" in result.experiment["workload"]:
        with pytest.raises(InputError, match=r"workload was given as an object of Python \(ExecutionGraph\)"):
            astra_sim.simulate(written(result, tmp_path / "out"))
        return
    same_again(result, tmp_path, monkeypatch)


def test_typed_options_have_their_types(tmp_path: Path) -> None:
    results = ["workload.loop_options.model_parallel_npus=2", "system.splits=3", "system.all_reduce=direct"]
    layer: dict[str, Any] = {"name": "one", **{name: {"compute_ns": 5} for name in ("forward", "input_gradient", "weight_gradient")}}
    layer["weight_gradient"] |= {"collective": "all_reduce", "collective_bytes": 4096}
    workload = {"loop": "hybrid_transformer", "layers": [layer]}
    result = astra_sim.simulate(workload=workload, platform=RING, compute={"plugin": "recorded"}, set=results)
    experiment = result.experiment
    assert experiment["workload"]["loop_options"] == {"model_parallel_npus": 2}
    assert experiment["system"]["splits"] == 3
    assert figures(astra_sim.simulate(written(result, tmp_path))) == figures(result)


def test_random_values_survive(tmp_path: Path) -> None:
    draw = random.Random(1)
    for number in range(20):
        table = {"plugin": "ring", "size": draw.randrange(2, 9), "links": 2, "link_bandwidth_gib_per_s": draw.random() * 100 + 1e-3}
        table["link_latency_ns"] = draw.random() * 1000
        result = astra_sim.simulate(workload="plugin:collective?bytes=1048576", platform=table, comm_scale=draw.random() + 0.5)
        assert figures(astra_sim.simulate(written(result, tmp_path / str(number)))) == figures(result)


def test_a_result_names_versions_engine_and_units() -> None:
    table = astra_sim.simulate(EXAMPLES[0], engine="python").to_dict()
    assert table["versions"]["engine"] == "python"
    assert table["versions"]["plugins"]["astra-sim-network-analytical"] == table["versions"]["astra"]
    assert table["units"]["finish_ns"] == "ns"
    assert table["units"]["payload_bytes"] == "bytes"
    assert table["units"]["wall_s"] == "s"
    assert table["experiment"]["run"]["engine"] == "python"


def test_where_a_pickled_result_comes_from_is_known() -> None:
    result = astra_sim.simulate(EXAMPLES[0])
    again = pickle.loads(pickle.dumps(result))
    assert (again.experiment, again.versions) == (result.experiment, result.versions)


def test_a_working_directory_that_is_left_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("links.csv").write_text("source,target,bandwidth_gb_per_s,latency_ns\n0,1,10,100\n")
    result = astra_sim.simulate(workload="plugin:collective?bytes=4096", platform="plugin:graph?file=links.csv")
    monkeypatch.chdir("/")
    assert result.experiment["platform"]["file"] == str(tmp_path / "links.csv")


def test_what_cannot_be_run_again_is_said(tmp_path: Path) -> None:
    for name, text, message in (
        ("empty.json", "{}", r"empty\.json: this is no result of a run; expected result\.json"),
        ("list.json", "[]", "this is no result of a run"),
        ("broken.json", "{", r"broken\.json:1: not JSON"),
        ("old.json", '{"run_name": "a", "finish_ns": 1}', "there is no experiment in this result"),
        ("odd.json", '{"run_name": "a", "finish_ns": 1, "experiment": {"workload": 3}}', "workload is 3, not a table"),
        ("run.json", '{"run_name": "a", "finish_ns": 1, "experiment": {"run": 3}}', "run is 3, not a table"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(InputError, match=message):
            astra_sim.load_experiment(tmp_path / name)
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match=r"result\.json"):
        astra_sim.load_experiment(tmp_path / "folder")
    runs = [astra_sim.simulate(workload="plugin:collective?bytes=64", platform=RING, run_name=name) for name in "ab"]
    astra_sim.write_reports(runs, tmp_path / "two", reports=())
    with pytest.raises(InputError, match=r"holds 2 runs \('a', 'b'\); expected the result of one"):
        astra_sim.load_experiment(tmp_path / "two")


def test_the_command_runs_a_result_again_and_changes_it(tmp_path: Path) -> None:
    def astra(*arguments: str) -> dict[str, Any]:
        command = [sys.executable, "-m", "astra_sim", *arguments, "--json"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120)
        table: dict[str, Any] = json.loads(done.stdout)
        return table

    first = astra("run", "--workload", "plugin:collective?bytes=65536", "--platform", RING, "-o", "out")
    assert astra("out")["finish_ns"] == astra("run", os.path.join("out", "result.json"))["finish_ns"] == first["finish_ns"]
    changed = astra("out", "--set", "system.splits=4", "--passes", "2")
    assert changed["experiment"]["system"]["splits"] == 4
    assert changed["finish_ns"] != first["finish_ns"]


def test_options_that_name_files_say_so() -> None:
    """An option whose help speaks of a file or a path is marked as one, so that results keep it absolute."""
    for kind in ("workload", "system", "platform", "network", "compute", "memory", "collective"):
        for name, provider in shared_plugins().components(kind).items():
            for field in getattr(provider.load_options(), "__attrs_attrs__", ()):
                words = field.metadata.get("help", "").lower().replace(",", " ").split()
                if field.name in ("file", "prefix", "path") or {"path", "path;"} & set(words):
                    assert field.metadata.get("path"), f"{kind} {name}: {field.name}"


def test_who_changes_the_experiment_of_a_result_changes_no_other() -> None:
    first, second = (astra_sim.simulate(ROOT / "examples" / "vgg16_dgx2_pod.toml") for _ in range(2))
    assert first.experiment == second.experiment
    first.experiment["workload"]["layers"][0]["name"] = "changed"
    first.to_dict()["experiment"]["system"]["splits"] = 99
    assert first.experiment == second.experiment
    assert second.experiment["workload"]["layers"][0]["name"] == "block1_conv1"
    assert second.experiment["system"]["splits"] == 4
