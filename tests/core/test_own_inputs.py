"""A command does not replace what it reads, and nothing is appended to a file that is not astra's own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import astra_sim
import pytest
from astra_sim import InputError
from astra_sim.files import FileSet, guarded_inputs, note_input, read_text
from astra_sim.report.writing import write_reports
from astra_sim_chakra.schema import NodeType
from astra_sim_chakra.trace import Node
from astra_sim_chakra.writer import write_nodes
from support import warm

RING = "plugin:ring?size=4&links=2&link_bandwidth_gib_per_s=50&link_latency_ns=500"
RUN = ("--workload", "plugin:collective?bytes=1048576", "--platform", RING)
EXPERIMENT = f'workload = "plugin:collective?bytes=1048576"\nplatform = "{RING}"\n'
CFG = (
    "[general]\nrun_name = s\n[architecture_presets]\nArrayHeight: 8\nArrayWidth: 8\nIfmapSramSzkB: 4\nFilterSramSzkB: 4\n"
    "OfmapSramSzkB: 4\nBandwidth: 10\nDataflow: os\n[run_presets]\nInterfaceBandwidth: CALC\n"
)
NCCL = "operation,ranks,bytes,microseconds\n" + "".join(f"all_reduce,8,{1 << size},{10 + (1 << size) / 1e5}\n" for size in range(10, 28))
FILES = {
    "e.toml": EXPERIMENT,
    "of_workload.toml": f'workload = "workload.toml"\nplatform = "{RING}"\n',
    "workload.toml": 'plugin = "collective"\nbytes = 1048576\n',
    "s.toml": '[base]\nexperiment = "e.toml"\n[axes]\n"system.splits" = [1, 2]\n',
    "s.csv": "",
    "small.cfg": CFG,
    "layers.csv": "name,m,n,k\none,8,8,8\n",
    "gemm.csv": "Layer, M, N, K,\none, 8, 8, 8,\n",
    "nccl.csv": NCCL,
    "b.toml": '[[expect]]\nexperiment = "e.toml"\ncheck = "finish_ns < 1e9"\n',
}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    for rank in range(4):
        write_nodes(folder / f"trace.{rank}.et", [Node(id=0, type=NodeType.COMP_NODE)])
    for command in ((*RUN, "--output", "r", "--report", "timeline", "--quiet"), ("device", "h100", "-o", "h100.toml")):
        done = astra(folder, *command)
        assert done.returncode == 0, done.stderr
    (folder / "table.csv").write_text("a,finish_ns\n1,2\n2,3\n")
    os.link(folder / "e.toml", folder / "other_name.toml")
    (folder / "link.toml").symlink_to("e.toml")
    return folder


def astra(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([warm.astra(), *arguments], cwd=folder, capture_output=True, text=True, check=False)


COMMANDS = {
    "run --timeline": ("e.toml", "--timeline", "e.toml"),
    "run --timeline=": ("e.toml", "--timeline=e.toml"),
    "run, by another path": ("e.toml", "--timeline", "./r/../e.toml"),
    "run, a hard link": ("e.toml", "--timeline", "other_name.toml"),
    "run, a symbolic link": ("e.toml", "--timeline", "link.toml"),
    "run, a file of the experiment": ("of_workload.toml", "--timeline", "workload.toml"),
    "run, a component": ("--workload", "workload.toml", "--platform", RING, "--timeline", "workload.toml"),
    "run, a trace": ("--workload", "plugin:chakra?prefix=trace", "--platform", RING, "--timeline", "trace.0.et"),
    "run of a result": ("r/result.json", "--output", "r"),
    "explain of a result": ("explain", "r/result.json", "--output", "r"),
    "compare": ("compare", "r/result.json", "--set", "system.splits=1", "--output", "r"),
    "sweep": ("sweep", "s.toml", "--output", "s.csv", "--overwrite", "--axis", "system.splits=[1]"),
    "calibrate collective": ("calibrate", "collective", "nccl.csv", "--output", "nccl.csv"),
    "device": ("device", "h100.toml", "-o", "h100.toml"),
    "device -oFILE": ("device", "h100.toml", "-oh100.toml"),
    "generate": (
        *("generate", "--layers", "layers.csv", "--compute", "small.cfg", "--parallel", "DATA", "--npus", "4"),
        *("--output", "layers.csv"),
    ),
    "generate, its array": (
        *("generate", "--model", "resnet50", "--compute", "small.cfg", "--parallel", "DATA", "--npus", "4", "--batch-per-npu", "1"),
        *("--output", "small.cfg"),
    ),
    "convert": ("convert", "trace.0.et", "trace.0.et"),
    "show": ("show", "r", "npus", "--output", "r/result.json"),
    "report": ("report", "r", "--output", "r/result.json"),
    "report of a table": ("report", "table.csv", "--output", "table.csv"),
    "timeline": ("timeline", "r", "--output", "r/result.json"),
    "assert": ("assert", "b.toml", "--junit", "b.toml"),
    "assert, an experiment": ("assert", "b.toml", "--junit", "e.toml"),
}


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_does_not_replace_what_it_reads(kept: Path, name: str) -> None:
    if name == "sweep":
        (kept / "s.csv").unlink(missing_ok=True)
        (kept / "s.csv").hardlink_to(kept / "s.toml")
    before = contents(kept)
    done = astra(kept, *COMMANDS[name])
    assert contents(kept) == before
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert "the target is the source" in done.stderr or "it is an input of this command; expected another name" in done.stderr


def test_a_file_whose_name_begins_like_those_of_traces_is_no_input(kept: Path) -> None:
    command = ("--workload", "plugin:chakra?prefix=trace", "--platform", RING, "--quiet", "--timeline", "trace.timeline.json")
    for _ in range(2):
        done = astra(kept, *command)
        assert done.returncode == 0, done.stderr
    (kept / "trace.timeline.json").unlink()


def test_a_sweep_does_not_delete_its_own_file_or_what_it_names(tmp_path: Path) -> None:
    text = '[base]\nexperiment = "e.sqlite"\n[axes]\n"system.splits" = [1, 2]\n'
    (tmp_path / "f.sqlite").write_text(text)
    (tmp_path / "e.sqlite").write_text(EXPERIMENT)
    before = contents(tmp_path)
    for output in ("f.sqlite", "e.sqlite"):
        done = astra(tmp_path, "sweep", "f.sqlite", "-o", output, "--overwrite", "--jobs", "1")
        assert (done.returncode, contents(tmp_path)) == (2, before), done.stderr
        assert f"cannot write {output}: it is an input" in done.stderr
        with pytest.raises(InputError, match="it is an input"):
            astra_sim_sweep_of(tmp_path / "f.sqlite", tmp_path / output)
        assert contents(tmp_path) == before


def astra_sim_sweep_of(file: Path, output: Path) -> None:
    from astra_sim_sweep import sweep

    sweep(file, output, overwrite=True, jobs=1)


SEARCH = """[base]
experiment = "e.toml"
[axes]
"system.splits" = [1, 2, 4, 8]
"workload.bytes" = [1024, 4096, 16384]
[search]
minimize = "finish_ns"
method = "optuna"
sampler = "random"
trials = 2
storage = {storage}
"""
VICTIMS = ["\n", "my notes\n", "{}\n", "[1]\n", "3", '{"op_code": 0}\n', '"op_code worker_id"\n', "\0\0\0", "a" * (2 << 20)]


@pytest.mark.parametrize("text", VICTIMS, ids=range(len(VICTIMS)))
def test_a_search_appends_to_its_own_storage_only(tmp_path: Path, text: str) -> None:
    pytest.importorskip("optuna")
    from astra_sim_sweep import search

    (tmp_path / "e.toml").write_text(EXPERIMENT)
    (tmp_path / "victim.txt").write_text(text)
    (tmp_path / "s.toml").write_text(SEARCH.format(storage=json.dumps(str(tmp_path / "victim.txt"))))
    for overwrite in (False, True):
        with pytest.raises(InputError, match=r"victim.txt.*not a study of Optuna"):
            search(tmp_path / "s.toml", tmp_path / "t.csv", jobs=1, overwrite=overwrite)
        assert (tmp_path / "victim.txt").read_text() == text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["e.toml", "s.toml", "victim.txt"]


def test_a_search_goes_on_with_its_storage_and_takes_an_empty_file(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    (tmp_path / "e.toml").write_text(EXPERIMENT)
    (tmp_path / "study.log").write_text("")
    (tmp_path / "s.toml").write_text(SEARCH.format(storage='"study.log"'))
    for more in ((), ("--resume",), ("--overwrite",)):
        done = astra(tmp_path, "search", "s.toml", "-o", "t.csv", "--jobs", "1", *more)
        assert done.returncode == 0, done.stderr
    (tmp_path / "s.toml").write_text(SEARCH.format(storage='"s.toml"'))
    before = contents(tmp_path)
    done = astra(tmp_path, "search", "s.toml", "-o", "other.csv", "--jobs", "1")
    assert (done.returncode, contents(tmp_path)) == (2, before)
    assert "s.toml" in done.stderr


# -- The mechanism -----------------------------------------------------------------------------------------------------


def write(*paths: Path) -> None:
    with FileSet() as files:
        for path in paths:
            files.write(path, ["new"])


def test_only_what_the_same_command_has_read_is_guarded(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    read_text(str(path))
    with guarded_inputs():
        read_text(str(path), is_input=False)
        with FileSet() as files:
            files.write(path, ["new"])
        note_input(path)
        with guarded_inputs(), pytest.raises(InputError, match=r"a.txt: it is an input"):
            write(tmp_path / "b.txt", path)
    with FileSet() as files:
        files.write(path, ["last"])
    assert contents(tmp_path) == {"a.txt": b"last"}


def test_the_python_interface_writes_where_it_is_told(tmp_path: Path) -> None:
    """A program may read a result and write another one in its place; only commands are guarded."""
    (tmp_path / "e.toml").write_text(EXPERIMENT)
    for _ in range(2):
        write_reports(astra_sim.simulate(tmp_path / "e.toml"), tmp_path / "r")
        write_reports(astra_sim.simulate(tmp_path / "r" / "result.json"), tmp_path / "r")


def test_groups_of_traces_that_are_converted_one_by_one_are_joined_still(tmp_path: Path) -> None:
    path = tmp_path / "t.groups.json"
    path.write_text('{"a": [0, 1]}')
    from astra_sim.experiments import read_groups

    with guarded_inputs():
        table = read_groups(path, is_input=False)
        with FileSet() as files:
            files.write(path, [json.dumps(table)])
