"""`astra rerun` holds a result against its experiment: figures, input files, versions; and what results record of files and invocations."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import astra_sim
import pytest
from astra_sim.errors import InputWarning
from astra_sim.setup.inputs import LISTED, absolute_in, input_files, relative_to
from astra_sim.setup.provenance import version_differences
from astra_sim_chakra import CollectiveType, Node, NodeType, write_nodes
from astra_sim_explain.differences import figure_differences
from support import warm

RING = "plugin:ring?size=4&links=2&link_bandwidth_gb_per_s=1&link_latency_ns=100"


def write_trace(folder: Path, duration_ns: int, ranks: int = 4) -> None:
    """Traces that compute, and then reduce."""
    folder.mkdir(exist_ok=True)
    for rank in range(ranks):
        compute = Node(id=0, type=NodeType.COMP_NODE, duration_ns=duration_ns)
        reduce = Node(id=1, type=NodeType.COMM_COLL_NODE, data=(0,), comm_type=CollectiveType.ALL_REDUCE, comm_size=4096)
        write_nodes(folder / f"trace.{rank}.et", [compute, reduce])


def astra(folder: Path, *arguments: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([warm.astra(), *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done


def recorded(folder: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return document


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A folder with traces in `traces` and the result of a run of them in `out`."""
    folder = tmp_path / "study"
    folder.mkdir()
    write_trace(folder / "traces", 5000)
    astra(folder, "--workload", "traces/trace", "--system", "plugin:astra2", "--platform", RING, "-o", "out", "--quiet")
    return folder


def test_a_result_has_digests_of_traces_and_paths_relative_to_it(study: Path) -> None:
    document = recorded(study / "out")
    assert document["experiment"]["workload"]["prefix"] == os.path.join("..", "traces", "trace")
    (inputs,) = document["inputs"]
    assert (inputs["option"], inputs["path"], inputs["files"]) == ("workload.prefix", "../traces/trace", 4)
    assert sorted(inputs["sha256"]) == [f"trace.{rank}.et" for rank in range(4)]
    moved = study.rename(study.parent / "moved")
    assert "all figures are as recorded" in astra(Path("/"), "rerun", str(moved / "out")).stdout
    assert astra_sim.simulate(moved / "out").finish_ns == document["finish_ns"]


def test_a_changed_trace_is_no_longer_silent(study: Path) -> None:
    assert astra(study, "out", "--json").stderr == ""
    write_trace(study / "traces", 6000)
    assert "workload.prefix: " in (warned := astra(study, "out", "--json").stderr)
    assert "files are not those of the result (changed: trace.0.et, " in warned
    stdout = astra(study, "rerun", "out", status=1).stdout
    assert "input: workload.prefix: " in stdout
    assert "finish_ns" in stdout
    document = json.loads(astra(study, "rerun", "out", "--json", status=1).stdout)
    assert document["same"] is False
    assert document["runs"][0]["figures"][0] == {"figure": "finish_ns", "recorded": 8742, "now": 9742}


def test_a_change_that_leaves_the_figures_is_told_too(study: Path) -> None:
    first, second = (study / "traces" / f"trace.{rank}.et" for rank in (0, 1))
    reduce = Node(id=1, type=NodeType.COMM_COLL_NODE, name="other", data=(0,), comm_type=CollectiveType.ALL_REDUCE, comm_size=4096)
    write_nodes(second, [Node(id=0, type=NodeType.COMP_NODE, duration_ns=5000), reduce])
    stdout = astra(study, "rerun", "out", status=1).stdout
    assert "(changed: trace.1.et)" in stdout
    first.write_bytes(second.read_bytes())
    with pytest.warns(InputWarning, match=r"changed: trace\.0\.et, trace\.1\.et\)"):
        astra_sim.simulate(study / "out")


def test_one_run_of_a_comparison_runs_again(tmp_path: Path) -> None:
    bytes_ = ["--set", "workload.bytes=1024", "--set", "workload.bytes=4096"]
    astra(tmp_path, "compare", "--workload", "plugin:collective", "--platform", RING, *bytes_, "-o", "both", "--quiet")
    assert astra(tmp_path, "rerun", "both", "--run", "bytes=4096").stdout.splitlines() == ["bytes=4096: all figures are as recorded"]
    assert len(astra(tmp_path, "rerun", "both").stdout.splitlines()) == 2
    assert "there is no run 'bytes=1'; " in astra(tmp_path, "rerun", "both", "--run", "bytes=1", status=2).stderr
    assert "astra rerun --run NAME" in astra(tmp_path, "both", status=2).stderr
    runs = json.loads((tmp_path / "both" / "result.json").read_text())
    runs[1]["finish_ns"] += 1
    (tmp_path / "both" / "result.json").write_text(json.dumps(runs))
    astra(tmp_path, "rerun", "both", "--run", "bytes=1024")
    result = astra(tmp_path, "rerun", "both", status=1).stdout.splitlines()
    assert result[0] == "bytes=1024: all figures are as recorded"
    assert result[1] == "bytes=4096: figures that are not as recorded"
    assert [line.split()[0] for line in result[2:]] == ["figure", "finish_ns"]


def test_a_result_says_by_which_command_where_and_when_it_was_made(tmp_path: Path) -> None:
    arguments = ["--workload", "plugin:collective?bytes=64", "--platform", RING]
    printed = json.loads(astra(tmp_path, *arguments, "--json", "-o", "out").stdout)
    document = recorded(tmp_path / "out")
    assert printed["invocation"] == document["invocation"]
    assert document["invocation"]["command"] == f"astra --workload 'plugin:collective?bytes=64' --platform '{RING}' --json -o out"
    assert document["invocation"]["directory"] == str(tmp_path)
    assert document["invocation"]["host"]
    assert document["invocation"]["date"].endswith("+00:00")
    result = astra_sim.simulate(workload="plugin:collective?bytes=64", platform=RING)
    assert "invocation" not in result.to_dict()
    assert set(result.invocation) == {"command", "directory", "host", "date"}
    assert "invocation" not in astra_sim.results.tables_of(document)


def test_other_versions_are_named_and_do_not_fail(study: Path) -> None:
    document = recorded(study / "out")
    document["versions"]["plugins"]["astra-sim-llm"] = "0.0.1"
    document["versions"]["sources"]["astra-sim-chakra"] = "0" * 16
    (study / "out" / "result.json").write_text(json.dumps(document))
    stdout = astra(study, "rerun", "out").stdout
    assert "version: astra-sim-llm: 0.0.1 (recorded), " in stdout
    assert "version: astra-sim-chakra " in stdout
    assert "the source differs (0000000000000000 recorded, " in stdout
    assert "all figures are as recorded" in stdout


def test_versions_differ_by_package() -> None:
    old = {"astra": "1", "python": "3.11", "engine": "compiled", "plugins": {"a": "1", "b": "1"}, "sources": {}}
    new = {"astra": "1", "python": "3.12", "engine": "compiled", "plugins": {"a": "1", "c": "2"}, "sources": {"a": "ab"}}
    assert version_differences(old, old) == []
    assert version_differences(old, new, ("here", "there")) == [
        "python: 3.11 (here), 3.12 (there)",
        "a 1: the source differs (as released here, ab there)",
        "b: 1 (here), not installed (there)",
        "c: not installed (here), 2 (there)",
    ]


def test_figures_differ_by_place() -> None:
    old = {"finish_ns": 1, "wall_s": 2, "layers": [{"name": "a", "ns": 1}], "network": {"x": None}}
    new = {"finish_ns": 1.0, "wall_s": 3, "layers": [{"name": "a", "ns": 2}, {"name": "b"}], "network": {}}
    assert [(each.figure, each.recorded, each.now) for each in figure_differences(old, new)] == [
        ("layers[0].ns", 1, 2),
        ("layers[1]", None, {"name": "b"}),
    ]


def test_paths_in_specs_are_relative_to_the_result(tmp_path: Path) -> None:
    document = {
        "experiment": {"system": {"all_reduce": [f"msccl?file={tmp_path}/a.xml&x=1", "ring"]}, "workload": {"prefix": "/data/t"}},
        "inputs": [{"option": "system.all_reduce", "path": f"{tmp_path}/a.xml"}, {"option": "workload.prefix", "path": "/data/t"}],
    }
    moved = relative_to(str(tmp_path / "out"), document)
    assert moved["experiment"]["system"]["all_reduce"] == ["msccl?file=../a.xml&x=1", "ring"]
    assert moved["experiment"]["workload"]["prefix"] == os.path.relpath("/data/t", tmp_path / "out")
    assert absolute_in(str(tmp_path / "out"), moved) == document


def test_many_files_have_one_digest(tmp_path: Path) -> None:
    for rank in range(LISTED + 1):
        (tmp_path / f"trace.{rank}.et").write_text(str(rank))
    (tmp_path / "tracer").write_text("of something else")
    inputs = input_files("workload.prefix", str(tmp_path / "trace"))
    assert inputs is not None
    before = inputs.table()
    assert (before["files"], len(before["sha256"])) == (LISTED + 1, 64)
    (tmp_path / "trace.7.et").write_text("x")
    assert inputs.table()["sha256"] is None  # it was another one when the run began
    again = input_files("workload.prefix", str(tmp_path / "trace"))
    assert again is not None
    assert again.table()["sha256"] != before["sha256"]
