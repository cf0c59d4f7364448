"""What programs of ASTRA-sim 2.x log of single nodes, where files ask for it: begins and ends, rooflines, memory, loggers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import astra_sim
import pytest
from astra_sim import InputError
from astra_sim_chakra import Node, NodeType, write_nodes
from astra_sim_chakra.messages import NodeMessage, attribute_message
from astra_sim_compat import logs
from support.compat import Ended, install, run

SYSTEM = {
    "scheduling-policy": "LIFO",
    "endpoint-delay": 10,
    "active-chunks-per-dimension": 1,
    "preferred-dataset-splits": 4,
    "all-reduce-implementation": ["ring"],
    "all-gather-implementation": ["ring"],
    "reduce-scatter-implementation": ["ring"],
    "all-to-all-implementation": ["ring"],
    "collective-optimization": "localBWAware",
    "local-mem-bw": 50,
    "peak-perf": 2,
    "roofline-enabled": 1,
}
FILES = (
    "--workload-configuration=w",
    "--system-configuration=s.json",
    "--network-configuration=n.yml",
    "--remote-memory-configuration=m.json",
)
MIB = 1 << 20


def tensors(inputs: list[tuple[str, int]], outputs: list[tuple[str, int]]) -> bytes:
    """The attributes `inputs` and `outputs` of a node, in wire format."""
    lists = {"inputs": inputs, "outputs": outputs}
    listed = {key: [str(part) for pair in value for part in pair] for key, value in lists.items()}
    data: bytes = NodeMessage(attr=[attribute_message(key, "string_list", value) for key, value in listed.items()]).SerializeToString()
    return data


def nodes(rank: int) -> list[Node]:
    """A kernel bound by memory (2000 ns), one bound by its peak (500 ns), one on the CPU (1000 ns), and an all-reduce after all of them."""
    size = (1 + rank) * MIB
    return [
        Node(
            id=7, name="slow", type=NodeType.COMP_NODE, is_cpu_op=False, num_ops=1_000_000, tensor_size=100_000,
            others=tensors([("weights", MIB), ("none", 0)], [("a", size)]),
        ),
        Node(
            id=8, name="fast", type=NodeType.COMP_NODE, is_cpu_op=False, num_ops=1_000_000, tensor_size=1_000, data=(7,),
            others=tensors([("a", size)], [("b", 512)]),
        ),
        Node(id=9, name="host", type=NodeType.COMP_NODE, is_cpu_op=True, duration_ns=1000, data=(8,), others=tensors([], [])),
        Node(
            id=3, name="reduce", type=NodeType.COMM_COLL_NODE, is_cpu_op=False, comm_type=0, comm_size=MIB, data=(9,),
            others=tensors([("b", 512)], [("c", 3 * MIB)]),
        ),
    ]  # fmt: skip


@pytest.fixture(scope="module", name="program")
def program_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("programs")) / "AstraSim_Analytical_Congestion_Unaware"


@pytest.fixture(name="folder")
def folder_fixture(tmp_path: Path) -> Path:
    """A folder with files of 2.x for two NPUs."""
    (tmp_path / "n.yml").write_text("topology: [ Ring ]\nnpus_count: [ 2 ]\nbandwidth: [ 50.0 ]\nlatency: [ 500.0 ]\n")
    (tmp_path / "m.json").write_text('{"memory-type": "NO_MEMORY_EXPANSION"}')
    for rank in range(2):
        write_nodes(tmp_path / f"w.{rank}.et", nodes(rank))
    return tmp_path


def run_with(program: Path, folder: Path, *more: str, **changed: Any) -> Ended:
    (folder / "s.json").write_text(json.dumps({**SYSTEM, **{key.replace("_", "-"): value for key, value in changed.items()}}))
    ended = run(program, *FILES, *more, folder=folder)
    assert (ended.status, ended.errors) == (0, ""), ended
    return ended


def test_rooflines_of_each_rank_are_printed(program: Path, folder: Path) -> None:
    output = run_with(program, folder).output
    total = 2000 + 500 + 1000 + 1  # ASTRA-sim adds 1 ns
    for rank in range(2):
        after = output.partition(f"sys[{rank}], Wall time")[2].splitlines()
        lines = [line.partition("[statistics] [info] ")[2] for line in after if "%" in line or "intensity" in line][:4]
        assert lines == [
            f"sys[{rank}], Compute bound percentage: {500 / total * 100:.3f}%",
            f"sys[{rank}], Average compute utilization: {(2000 * 0.25 + 500) / total * 100:.3f}%",
            f"sys[{rank}], Average memory utilization: {(2000 + 500 * 0.04) / total * 100:.3f}%",
            f"sys[{rank}], Average operation intensity: {(2000 * 10 + 500 * 1000) / total:.3f}",
        ]
    assert "%" not in run_with(program, folder, roofline_enabled=0).output


def test_begins_and_ends_of_nodes_are_in_the_file_of_the_log(program: Path, folder: Path) -> None:
    ended = run_with(program, folder, trace_enabled=1)
    log = (folder / "log" / "log.log").read_text()
    assert "issue," not in ended.output
    assert "has no effect" not in log
    finish = int(re.findall(r"sys\[1\] finished, (\d+)", ended.output)[0])
    lines = re.findall(r"\[workload\] \[debug\] (.*sys->id=1, .*)", log)
    moments = [(0, 2000, 7, "slow", 4), (2000, 2500, 8, "fast", 4), (2500, 3500, 9, "host", 4), (3500, finish, 3, "reduce", 7)]
    assert lines == [
        f"{what},sys->id=1, tick={tick}, node->id={id_}, node->name={name}, node->type={kind}"
        for begin, end, id_, name, kind in moments
        for what, tick in (("issue", begin), ("callback", end))
    ]
    assert log.index(lines[-1]) < log.index("sys[1] finished")
    assert "issue," not in run_with(program, folder, "--logging-folder=other").output
    assert "issue," not in (folder / "other" / "log.log").read_text()


def test_what_tensors_take_is_printed_and_written(program: Path, folder: Path) -> None:
    ended = run_with(program, folder, track_local_mem=1, local_mem_trace_filename="memory")
    assert "[workload] [info] sys[0] peak memory usage: 3.00 MB" in ended.output
    assert "[workload] [info] sys[1] peak memory usage: 3.00 MB" in ended.output
    assert "has no effect" not in (folder / "log" / "log.log").read_text()
    events = json.loads((folder / "memory.1.json").read_text())["traceEvents"]
    course = [(event["ts"], event["args"]["Memory_MB"]) for event in events if event["ph"] == "C"]
    small = 512 / MIB
    finish = int(re.findall(r"sys\[1\] finished, (\d+)", ended.output)[0])
    expected = [(0, 3), (2, 2 + small), (2.5, small), (3.5, 3 + small), (finish / 1000, 3)]
    assert course == [pytest.approx(pair) for pair in expected]
    kinds = {(event.get("cat"), event["ph"], event["pid"]) for event in events}
    assert {("tensorRead", "B", 1), ("tensorWrite", "E", 1), ("tensorLifetime", "B", 1_000_001), ("tensorHeatmap", "X", 3_000_001)} <= kinds
    unwritten = next(event for event in events if event["name"] == "weights" and event["cat"] == "tensorWrite")
    assert unwritten["args"] == {"size": MIB, "node_name": "UNDEFINED", "node_id": 2**64 - 1}
    assert all(event["name"] != "none" for event in events)


def test_nodes_without_tensors_cannot_be_tracked(program: Path, folder: Path) -> None:
    without = nodes(1)
    without[1].others = b""
    write_nodes(folder / "w.1.et", without)
    (folder / "s.json").write_text(json.dumps({**SYSTEM, "track-local-mem": 1}))
    ended = run(program, *FILES, folder=folder)
    assert ended.status == 1
    assert "track-local-mem: rank 1: node 8 'fast' has no attribute 'inputs'" in ended.errors


def test_the_configuration_of_the_log_has_effect(program: Path, folder: Path) -> None:
    (folder / "log.toml").write_text(
        '[[sink]]\nname = "nodes"\ntype = "basic_file_sink_st"\nfilename = "deep/nodes.log"\ncreate_parent_dir = true\nlevel = "debug"\n'
        '[[logger]]\nname = "workload"\nsinks = ["nodes"]\nlevel = "debug"\n'
        '[[logger]]\nname = "statistics"\nsinks = ["nodes"]\nlevel = "off"\n'
    )
    ended = run_with(program, folder, "--logging-configuration=log.toml", trace_enabled=1)
    assert "[workload] [info] sys[0] finished" in ended.output
    assert "[statistics]" not in ended.output
    lines = (folder / "deep" / "nodes.log").read_text().splitlines()
    assert all(re.match(r"\[\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d\] \[[DI]\] <workload>: \S", line) for line in lines)
    assert len(lines) == 2 * (1 + 2 * 4)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("= 1", "log.toml: Invalid statement"),
        ("", "there is no [[sink]]"),
        ('[[sink]]\nname = "a"\ntype = "no"', "log.toml: sink 'a': type is 'no'"),
        ('[[sink]]\nname = "a"\ntype = "null_sink_mt"\nlevel = "loud"', "level is 'loud'; expected trace, debug"),
        ('[[sink]]\nname = "a"\ntype = "null_sink_mt"\n[[logger]]\nname = "w"\nsinks = ["b"]', "logger 'w': sinks is ['b']"),
        ('[[sink]]\nname = "a"\ntype = "rotating_file_sink_mt"\nbase_filename = "x"\nmax_size = "big"\nmax_files = 1', "max_size is 'big'"),
    ],
)
def test_what_is_wrong_in_the_configuration_of_the_log_is_named(program: Path, folder: Path, text: str, says: str) -> None:
    (folder / "log.toml").write_text(text)
    (folder / "s.json").write_text(json.dumps(SYSTEM))
    ended = run(program, *FILES, "--logging-configuration=log.toml", folder=folder)
    assert (ended.status, ended.output) == (1, "")
    assert says in ended.errors


def test_times_of_operations_are_those_of_every_npu_with_what_traces_say(folder: Path) -> None:
    (folder / "s.json").write_text(json.dumps(SYSTEM))
    files: dict[str, Any] = {"workload": str(folder / "w"), "system": str(folder / "s.json"), "network": str(folder / "n.yml")}
    with pytest.raises(InputError, match="npu_times=True"):
        astra_sim.simulate(**files).operation_times()
    for symmetry in (True, False):
        operation_times = astra_sim.simulate(**files, npu_times=True, symmetry=symmetry).operation_times()
        assert sorted(npu for times in operation_times for npu in times.npus) == [0, 1]
        for times in operation_times:
            assert times.source is not None
            for npu in times.npus:
                result = list(times.source(npu))
                assert [result[place]["id"] for place in times.operations] == [7, 8, 9, 3]
                assert result[times.operations[0]]["outputs"] == ("a", str((1 + npu) * MIB))
            assert list(times.begin_ns) == [0, 2000, 2500, 3500]


@pytest.mark.parametrize("engine", ["python", "auto"])
def test_what_waits_for_its_unit_has_not_begun(engine: str, folder: Path) -> None:
    """Loads of the CPU and collectives are issued one after the other; memory is busy for 3 of 1100 ns, not from when they were ready."""
    system = {key: value for key, value in SYSTEM.items() if key != "roofline-enabled"}
    (folder / "s.json").write_text(json.dumps(system))
    (folder / "m.json").write_text('{"memory-type": "PER_NPU_MEMORY_EXPANSION", "remote-mem-latency": 100, "remote-mem-bw": 1}')
    load: dict[str, Any] = {"type": NodeType.MEM_LOAD_NODE, "tensor_size": 1000}
    collective: dict[str, Any] = {"type": NodeType.COMM_COLL_NODE, "comm_type": 0}
    for rank in range(2):
        cpu = [Node(id=id_, is_cpu_op=True, **load) for id_ in (1, 2)]
        reduces = [Node(id=id_, is_cpu_op=False, comm_size=MIB, **collective) for id_ in (3, 4)]
        write_nodes(folder / f"w.{rank}.et", [*cpu, *reduces, Node(id=5, is_cpu_op=False, **load)])
    files: dict[str, Any] = {"workload": "w", "system": "s.json", "network": "n.yml", "memory": "m.json"}
    paths: dict[str, Any] = {kind: str(folder / name) for kind, name in files.items()}
    result = astra_sim.simulate(**paths, npu_times=True, engine=engine)
    (times,) = result.operation_times()
    first, second = times.end_ns[2:4]
    assert list(times.begin_ns) == [0, 1100, 0, first, second]
    assert list(times.end_ns) == [1100, 2200, first, second, second + 1100]
    assert [each.memory_ns for each in result.unit_times()] == [3300]


def test_full_files_of_the_log_are_renamed_and_the_last_one_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_BYTES", 200)
    with logs.log_in(str(tmp_path)) as log:
        for number in range(100):
            log.note("workload", f"line {number:02} " + "x" * 40)
    files = [tmp_path / "log.log", *(tmp_path / f"log.{number}.log" for number in range(1, 11))]
    assert sorted(tmp_path.glob("log*")) == sorted(files)
    numbers = [int(word) for file in reversed(files) for word in re.findall(r"line (\d+)", file.read_text())]
    assert numbers == list(range(numbers[0], 100))
    assert all(200 <= file.stat().st_size < 320 for file in files[1:])
