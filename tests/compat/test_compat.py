"""Programs with the names and options of ASTRA-sim's: files, output, exit status, and where a checkout looks for them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import astra_sim
import pytest
from astra_sim import InputError
from astra_sim_chakra import Node, NodeType, load_trace, write_nodes
from astra_sim_compat.install import install as command
from astra_sim_compat.programs import PROGRAMS
from astra_sim_compat.shared_tables import filled
from click.testing import CliRunner
from support import ROOT
from support.compat import Ended, install, run
from support.pytorch_traces import training_step

SYSTEM_1 = """\
scheduling-policy: LIFO
endpoint-delay: 10
active-chunks-per-dimension: 1
preferred-dataset-splits: 4
all-reduce-implementation: direct
all-gather-implementation: direct
reduce-scatter-implementation: direct
all-to-all-implementation: direct
collective-optimization: localBWAware
intra-dimension-scheduling: SCF
inter-dimension-scheduling: themis
"""
NETWORK_1 = {
    "dimensions-count": 1,
    "topologies-per-dim": ["Switch"],
    "units-count": [8],
    "links-count": [1],
    "link-latency": [500],
    "link-bandwidth": [50],
}
WORKLOAD_1 = "DATA\n2\nfirst -1 10 NONE 0 20 NONE 0 30 ALLREDUCE 1048576 1\nsecond -1 10 NONE 0 20 NONE 0 30 ALLREDUCE 524288 1\n"

SYSTEM_2 = {
    "scheduling-policy": "LIFO",
    "endpoint-delay": 10,
    "active-chunks-per-dimension": 1,
    "preferred-dataset-splits": 4,
    "all-reduce-implementation": ["ring"],
    "all-gather-implementation": ["ring"],
    "reduce-scatter-implementation": ["ring"],
    "all-to-all-implementation": ["ring"],
    "collective-optimization": "localBWAware",
    "local-mem-bw": 1600,
}
ARRAY = """\
[general]
run_name = array
[architecture_presets]
ArrayHeight: 256
ArrayWidth: 256
IfmapSramSzkB: 6144
FilterSramSzkB: 6144
OfmapSramSzkB: 2048
IfmapOffset: 0
FilterOffset: 10000000
OfmapOffset: 20000000
Dataflow: ws
Bandwidth: 10
MemoryBanks: 1
[run_presets]
InterfaceBandwidth: CALC
"""
FILES_2 = (
    "--workload-configuration=w",
    "--system-configuration=s.json",
    "--network-configuration=n.yml",
    "--remote-memory-configuration=m.json",
)
LINE = re.compile(r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}\] \[([\w:]+)\] \[(\w+)\] (.*)$")


@pytest.fixture(scope="module", name="programs")
def programs_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("with spaces"))


@pytest.fixture(name="astra1")
def astra1_fixture(tmp_path: Path) -> Path:
    """A folder with files of 1.0."""
    (tmp_path / "s.txt").write_text(SYSTEM_1)
    (tmp_path / "n.json").write_text(json.dumps(NETWORK_1))
    (tmp_path / "n.yml").write_text("topology: Switch\nnpus_count: [8]\nbandwidth: [50]\nlatency: [500]\n")
    (tmp_path / "w.txt").write_text(WORKLOAD_1)
    (tmp_path / "out").mkdir()
    return tmp_path


@pytest.fixture(name="astra2")
def astra2_fixture(tmp_path: Path) -> Path:
    """A folder with files of 2.x: computing beside an all-reduce."""
    (tmp_path / "s.json").write_text(json.dumps(SYSTEM_2))
    (tmp_path / "n.yml").write_text("topology: [ Ring ]\nnpus_count: [ 4 ]\nbandwidth: [ 50.0 ]\nlatency: [ 500.0 ]\n")
    (tmp_path / "m.json").write_text('{"memory-type": "NO_MEMORY_EXPANSION"}')
    nodes = [
        Node(id=0, name="compute", type=NodeType.COMP_NODE, duration_ns=5000, is_cpu_op=False),
        Node(id=1, name="reduce", type=NodeType.COMM_COLL_NODE, is_cpu_op=False, comm_type=0, comm_size=1 << 20),
    ]
    for rank in range(4):
        write_nodes(tmp_path / f"w.{rank}.et", nodes)
    return tmp_path


def run1(program: Path, folder: Path, *more: str, network: str = "n.json") -> Ended:
    files = "--system-configuration=s.txt", "--workload-configuration=w.txt", f"--network-configuration={network}"
    return run(program, *files, "--path=out/", *more, folder=folder)


def test_every_npu_of_2x_reports_in_the_format_of_its_log(programs: Path, astra2: Path) -> None:
    ended = run(programs / "AstraSim_Analytical_Congestion_Unaware", *FILES_2, folder=astra2)
    assert (ended.status, ended.errors) == (0, "")
    lines = [LINE.match(line) for line in ended.output.splitlines()]
    assert all(lines)
    result = [match.groups() for match in lines if match]
    finish = int(re.findall(r"sys\[0\] finished, (\d+)", ended.output)[0])
    ring = "ring of node 0, id: 0 dimension: local total nodes in ring: 4 index in ring: 0 offset: 1 total nodes in ring: 4"
    assert result[:4] == [("system::topology::RingTopology", "info", ring)] * 4
    assert result[-1] == ("system", "warning", "Exiting")
    assert {level for _, level, _ in result[:-1]} == {"info"}
    result = [(part, text) for part, _, text in result[4:-1]]
    assert result[:7] == [
        ("workload", f"sys[0] finished, {finish} cycles, exposed communication {finish - 5000} cycles."),
        ("statistics", "sys[0]. Post statistics processing start."),
        ("statistics", "sys[0]. Post statistics processing end."),
        ("statistics", f"sys[0], Wall time: {finish}"),
        ("statistics", "sys[0], GPU time: 5000"),
        ("statistics", f"sys[0], Comm time: {finish}"),
        ("statistics", "sys[0], Total compute-communication overlap: 5000"),
    ]
    assert len(result) == 28


def test_the_log_is_added_to_and_errors_stand_in_both_files(programs: Path, astra2: Path) -> None:
    program = programs / "AstraSim_Analytical_Congestion_Aware"
    first = run(program, *FILES_2, "--logging-folder=logs/deep", folder=astra2)
    (astra2 / "m.json").write_text('{"memory-type": "SOME"}')
    second = run(program, *FILES_2, "--logging-folder", "logs/deep", folder=astra2)
    assert (second.status, second.output) == (1, "")
    assert "SOME" in second.errors
    log, errors = ((astra2 / "logs" / "deep" / name).read_text() for name in ("log.log", "err.log"))
    assert log == first.output + errors
    assert re.match(r"\[\S+ \S+\] \[astra\] \[critical\] m.json.*SOME", errors)


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (FILES_2[:2], 255, ["--network-configuration", "--remote-memory-configuration", "--help"]),
        ((*FILES_2, "--num-queues-per-dim=two"), 255, ["--num-queues-per-dim", "'two'"]),
        ((*FILES_2, "--rendezvous-protocol=maybe"), 255, ["'maybe' is neither true nor false"]),
        ((*FILES_2, "--system-configuration=no.json"), 1, ["--system-configuration is no.json", "no such file"]),
        ((*FILES_2, "--workload-configuration=none"), 1, ["none.0.et", "no such file"]),
        ((*FILES_2, "--network-configuration="), 1, ["--network-configuration is empty"]),
        ((*FILES_2, "--comm-group-configuration=g.json"), 1, ["--comm-group-configuration is g.json", "no such file"]),
        ((*FILES_2, "--num-queues-per-dim=0"), 1, ["queues_per_dim is 0", "at least 1"]),
    ],
)
def test_what_is_wrong_is_named(arguments: tuple[str, ...], status: int, says: list[str], programs: Path, astra2: Path) -> None:
    ended = run(programs / "AstraSim_Analytical_Congestion_Unaware", *arguments, folder=astra2)
    assert ended.status == status
    assert ended.errors.startswith("AstraSim_Analytical_Congestion_Unaware: error: ")
    assert len(ended.errors.splitlines()) == 1
    assert all(word in ended.errors for word in says), ended.errors


def test_options_without_effect_are_told(programs: Path, astra2: Path) -> None:
    more = "--compute-scale=2", "--comm-scale", "3", "--comm-scal=4"
    ended = run(programs / "AstraSim_Analytical_Congestion_Unaware", *FILES_2, *more, folder=astra2)
    assert (ended.status, ended.errors) == (0, "")
    log = (astra2 / "log" / "log.log").read_text()
    for words in ("--compute-scale is 2", "--comm-scale is 3", "--comm-scal=4 is no option"):
        assert f"[astra] [warning] {words}" in log
        assert words not in ended.output


def test_a_path_of_groups_with_empty_in_it_is_no_file(programs: Path, astra2: Path) -> None:
    program = programs / "AstraSim_Analytical_Congestion_Unaware"
    for path in ("empty", '"empty"', "groups/empty.json"):
        ended = run(program, *FILES_2, f"--comm-group-configuration={path}", folder=astra2)
        assert (ended.status, ended.errors) == (0, "")


def test_names_of_1_run_2x_where_options_are_those_of_2x(programs: Path, astra2: Path) -> None:
    for name, other in (("AnalyticalAstra", "AstraSim_Analytical_Congestion_Unaware"),
                        ("AstraCongestion", "AstraSim_Analytical_Congestion_Aware")):  # fmt: skip
        here, there = (run(programs / each, *FILES_2, folder=astra2) for each in (name, other))
        assert [line.partition("]")[2] for line in here.output.splitlines()] == [
            line.partition("]")[2] for line in there.output.splitlines()
        ]


def test_runs_of_1_share_files_whatever_their_order(programs: Path, astra1: Path) -> None:
    program = programs / "AnalyticalAstra"
    for row, name in ((0, "a run"), (2, "third"), (1, "second")):
        ended = run1(program, astra1, f"--run-name={name}", "--total-stat-rows=3", f"--stat-row={row}", f"--comm-scale={row + 1}")
        assert (ended.status, ended.errors) == (0, "")
        assert "all passes finished at time: " in ended.output
        assert "Total Cost: $" in ended.output
    tables = {path.name: [line.split(",") for line in path.read_text().splitlines()] for path in (astra1 / "out").iterdir()}
    assert [row[0] for row in tables["tutorial_result.csv"]] == ["Name", "a run", "second", "third"]
    assert [row[0] for row in tables["backend_end_to_end.csv"]] == ["RunName", "a run", "second", "third"]
    assert [row[:2] for row in tables["EndToEnd.csv"][:8]] == [
        ["", ""], *(["first", name] for name in ("a run", "second", "third")), *(["second", name] for name in ("a run", "second", "third")),
        ["", ""],
    ]  # fmt: skip
    assert {name: len(rows) for name, rows in tables.items() if not name.endswith("utilization.csv")} == {
        "EndToEnd.csv": 26, "detailed.csv": 26, "backend_end_to_end.csv": 4, "backend_dim_info.csv": 31, "tutorial_result.csv": 4,
    }  # fmt: skip
    assert {len(row) for row in tables["detailed.csv"]} == {50}
    assert [tables["backend_dim_info.csv"][line][:2] for line in (1, 11, 21)] == [["a run", "0"], ["second", "0"], ["third", "0"]]
    assert {name for name in tables if name.endswith("utilization.csv")} == {
        f"{name}_dimension_utilization.csv" for name in ("a run", "second", "third")
    }


def test_the_first_row_begins_the_files_anew(programs: Path, astra1: Path) -> None:
    program = programs / "AnalyticalAstra"
    for _ in range(2):
        run1(program, astra1, "--run-name", "x")
    assert len((astra1 / "out" / "tutorial_result.csv").read_text().splitlines()) == 2


def test_lists_of_the_network_file_are_replaced(programs: Path, astra1: Path) -> None:
    ended = run1(programs / "AnalyticalAstra", astra1, "--units-count", "4", "--link-bandwidth", "100", "--link-latency=250")
    network = {**NETWORK_1, "units-count": [4], "link-bandwidth": [100], "link-latency": [250]}
    (astra1 / "n.json").write_text(json.dumps(network))
    assert ended.output == run1(programs / "AnalyticalAstra", astra1).output
    wrong = run1(programs / "AnalyticalAstra", astra1, "--units-count", "4", "4")
    assert wrong.status == 1
    assert "--units-count has 2 values for 1 dimensions" in wrong.errors


def test_scripts_for_several_networks_leave_arguments_empty(programs: Path, astra1: Path) -> None:
    plain = run1(programs / "AnalyticalAstra", astra1)
    ended = run(programs / "AnalyticalAstra", "", "", *plain_options(), folder=astra1)
    assert (ended.status, ended.output) == (0, plain.output)


def plain_options(network: str = "n.json", system: str = "s.txt") -> tuple[str, ...]:
    files = f"--network-configuration={network}", f"--system-configuration={system}", "--workload-configuration=w.txt"
    return (*files, "--path=out/", "--run-name=sample")


def test_the_program_of_gem5_runs_training_on_the_network_packet(programs: Path, astra1: Path) -> None:
    system = SYSTEM_1.replace(": direct", ": direct_direct")
    (astra1 / "two.txt").write_text(system)
    (astra1 / "garnet.txt").write_text((ROOT / "tests" / "pages" / "garnet.txt").read_text())
    training = "configs/example/garnet_synth_traffic.py", "--synthetic=training"
    ended = run(programs / "gem5.opt", *training, *plain_options("garnet", "two.txt"), "--num-passes=2", folder=astra1)
    assert (ended.status, ended.errors) == (0, "")
    (finish,) = re.findall(r"all passes finished at time: (\d+)", ended.output)
    files: dict[str, Any] = {
        name: str(astra1 / f"{file}.txt") for name, file in (("network", "garnet"), ("system", "two"), ("workload", "w"))
    }
    assert int(finish) == int(astra_sim.simulate(passes=2, **files).finish_ns)
    assert {"EndToEnd.csv", "detailed.csv", "tutorial_result.csv"} <= set(os.listdir(astra1 / "out"))
    other = run(programs / "gem5.opt", "a.py", "--synthetic=uniform_random", *plain_options("garnet.txt", "two.txt"), folder=astra1)
    assert (other.status, "expected training" in other.errors) == (1, True)
    wrong = run(programs / "gem5.opt", *training, *plain_options(), folder=astra1)
    assert (wrong.status, "no network file of Garnet" in wrong.errors) == (1, True)


def test_messages_wait_for_each_other_in_the_program_with_contention(programs: Path, astra1: Path) -> None:
    free, waiting = run1(programs / "AnalyticalAstra", astra1), run1(programs / "AstraCongestion", astra1, network="n.yml")
    assert (free.status, waiting.status, waiting.errors) == (0, 0, "")
    first, second = (int(re.findall(r"finished at time: (\d+)", ended.output)[0]) for ended in (free, waiting))
    assert second > first
    assert "backend_dim_info.csv" in os.listdir(astra1 / "out")


@pytest.mark.parametrize(
    ("more", "status", "says"),
    [
        (("--path=nowhere/",), 1, ["--path nowhere/", "no folder nowhere"]),
        (("--stat-row=1",), 1, ["--stat-row is 1", "expected 0 to 0"]),
        (("--total-stat-rows=0",), 1, ["--total-stat-rows is 0"]),
        (("--num-pass=2",), 255, ["unrecognised option '--num-pass=2'", "--num-passes"]),
        (("--workload-configuration=",), 1, ["--workload-configuration is empty"]),
    ],
)
def test_what_is_wrong_in_options_of_1_is_named(more: tuple[str, ...], status: int, says: list[str], programs: Path, astra1: Path) -> None:
    ended = run1(programs / "AnalyticalAstra", astra1, *more)
    assert ended.status == status
    assert all(word in ended.errors for word in says), ended.errors


def test_the_program_of_ns3_runs_on_the_network_roce(programs: Path, astra2: Path) -> None:
    links = "".join(f"{npu} 4 100Gbps 0.0005ms 0\n" for npu in range(4))
    (astra2 / "topology.txt").write_text(f"5 1 4\n4\n{links}")
    (astra2 / "config.txt").write_text("CC_MODE 12\nTOPOLOGY_FILE topology.txt\nFCT_OUTPUT_FILE fct_of_run.txt\n")
    (astra2 / "logical.json").write_text('{"logical-dims": ["4"]}')
    program = programs / "ns3.42-AstraSimNetwork-default"
    more = "--network-configuration=config.txt", "--logical-topology-configuration=logical.json", "--comm-group-configuration=empty"
    ended = run(program, *FILES_2, *more, folder=astra2)
    assert (ended.status, ended.errors) == (0, "")
    assert ended.output.startswith("ASTRA-sim + NS3\nThere are 4 npus: 4,\n[")
    assert len(re.findall(r"sys\[\d\] finished, \d+ cycles", ended.output)) == 4
    assert (astra2 / "fct_of_run.txt").read_text()
    assert run(program, *FILES_2, *more, "--nothing=1", folder=astra2).status == 1


HTSIM = """\
Nodes 4
Tiers 2
Podsize 4
Tier 0
Downlink_speed_Gbps 400
Downlink_Latency_ns 500
Radix_Down 2
Radix_Up 2
Tier 1
Downlink_speed_Gbps 400
Downlink_Latency_ns 500
Radix_Down 2
"""


def test_the_program_of_htsim_runs_on_the_network_flow(programs: Path, astra2: Path) -> None:
    (astra2 / "tree.topo").write_text(HTSIM)
    program = programs / "AstraSim_HTSim"
    ended = run(program, *FILES_2, "--htsim_opts", "-topo", "tree.topo", "-o", "out.dat", "UNCOUPLED", folder=astra2)
    assert ended.status == 0
    assert ended.output.startswith("--htsim_opts -topo tree.topo -o out.dat UNCOUPLED\n[")
    finished = re.findall(r"sys\[\d\] finished, (\d+) cycles", ended.output)
    assert len(finished) == 4
    log = (astra2 / "log" / "log.log").read_text()
    assert all(f"[astra] [warning] {words} has no effect" in log for words in ("-o out.dat", "UNCOUPLED"))
    assert ended.errors == ""
    twice = re.sub("400", "200", HTSIM)
    (astra2 / "tree.topo").write_text(twice)
    slower = run(program, *FILES_2, "--htsim_opts", "-topo", "tree.topo", folder=astra2)
    # A ring all-reduce of 1 MiB on four NPUs: 1.5 MiB on each link, which take longer accordingly.
    longer = int(re.findall(r"finished, (\d+) cycles", slower.output)[0]) - int(finished[0])
    assert longer == pytest.approx(1.5 * (1 << 20) * (1 / 25 - 1 / 50), rel=1e-3)


@pytest.mark.parametrize(("npus", "links"), [(2, 6), (16, 6), (54, 6)])
def test_without_a_file_the_program_of_htsim_makes_a_fat_tree(npus: int, links: int, programs: Path, astra2: Path) -> None:
    (astra2 / "n.yml").write_text(f"topology: [ Ring ]\nnpus_count: [ {npus} ]\nbandwidth: [ 50.0 ]\nlatency: [ 500.0 ]\n")
    node = Node(id=0, name="send", type=NodeType.COMM_SEND_NODE, is_cpu_op=False, comm_size=12500, comm_src=0, comm_dst=npus - 1)
    receive = Node(id=0, name="receive", type=NodeType.COMM_RECV_NODE, is_cpu_op=False, comm_size=12500, comm_src=0, comm_dst=npus - 1)
    idle = Node(id=0, name="compute", type=NodeType.COMP_NODE, duration_ns=1, is_cpu_op=False)
    for rank in range(npus):
        write_nodes(astra2 / f"pair.{rank}.et", [{0: node, npus - 1: receive}.get(rank, idle)])
    ended = run(
        programs / "AstraSim_HTSim", "--workload-configuration=pair", *FILES_2[1:], "--htsim_opts", "-nodes", str(npus), folder=astra2
    )
    finish = max(int(cycles) for cycles in re.findall(r"finished, (\d+) cycles", ended.output))
    assert finish == pytest.approx(links * 1000 + 1000, abs=30)  # over six links of 1 us, and 12500 bytes at 12.5 bytes/ns


@pytest.mark.parametrize(
    ("more", "status", "says"),
    [
        (("-topo", "nothing.topo"), 1, "--htsim_opts -topo is nothing.topo; there is no such file"),
        (("-topo",), 255, "-topo after --htsim_opts has no value"),
        (("-nodes", "8"), 1, "-nodes is 8; expected 4, the NPUs of --network-configuration"),
        (("-nodes", "x"), 255, "-nodes after --htsim_opts is 'x'; expected a whole number"),
        (("-speed", "8"), 255, "'-speed' after --htsim_opts; expected -topo FILE"),
        ((), 1, "--network-configuration has 4 NPUs; expected K^3 / 4 for an even K (2, 16, 54, 128, ...), or -topo FILE"),
    ],
)
def test_what_is_wrong_in_options_of_htsim_is_named(more: tuple[str, ...], status: int, says: str, programs: Path, astra2: Path) -> None:
    ended = run(programs / "AstraSim_HTSim", *FILES_2, "--htsim_opts", *more, folder=astra2)
    assert ended.status == status
    assert says in ended.errors


def test_the_generator_takes_its_options_and_any_python_starts_it(programs: Path, tmp_path: Path) -> None:
    (tmp_path / "layers.csv").write_text("Layer,m,n,k\nfirst,1024,128,512\n")
    (tmp_path / "array.cfg").write_text(ARRAY)
    options = "--datatype_size=2", "--mnk=layers.csv", "--num_npus=16", "--num_packages=2", "--output_file=w.txt", "--parallel=DATA"
    generator = programs / "gen_astrasim_workload_input.py"
    done = subprocess.run([sys.executable, generator, *options, "--scalesim_config=array.cfg"], cwd=tmp_path, check=False)
    assert done.returncode == 0
    heading, count, layer = (tmp_path / "w.txt").read_text().splitlines()
    assert (heading, count) == ("DATA", "1")
    assert layer.split()[0] == "first"
    assert layer.split()[9:] == ["ALLREDUCE", "131072", "100", "DATA"]


def test_a_short_run_imports_little(astra2: Path) -> None:
    """What is heavy and not needed: this decides how long a program takes to start."""
    script = "import sys; from astra_sim_compat.programs import run; run(sys.argv[1], sys.argv[2:]); print(*sys.modules)"
    name = "AstraSim_Analytical_Congestion_Aware"
    done = subprocess.run([sys.executable, "-c", script, name, *FILES_2], cwd=astra2, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "astra_sim_chakra.reader" in loaded
    heavy = {"google.protobuf", "click", "numpy", "logging.handlers", "tomllib", "tomli", "astra_sim.engine.reference"}
    assert sorted(loaded & heavy) == []


# -- Tools of Chakra ---------------------------------------------------------------------------------------------------


def test_the_converter_of_chakra_takes_text(programs: Path, tmp_path: Path) -> None:
    (tmp_path / "w.txt").write_text(WORKLOAD_1)
    ended = run(programs / "chakra_converter", "Text", "--input=w.txt", "--output=t", "--num-npus=4", "--num-passes=2", folder=tmp_path)
    assert (ended.status, ended.errors) == (0, "")
    assert ended.output.startswith("chakra_converter: warning: times of the text, nanoseconds, are microseconds in the traces")
    traces = [load_trace(tmp_path / f"t.{rank}.et") for rank in range(4)]
    assert [(node.name, node.duration_ns, node.comm_size) for node in traces[3].nodes()] == 2 * [
        ("COMP_NODE_first_FWD", 10000, None),
        ("COMP_NODE_second_FWD", 10000, None),
        ("COMP_NODE_second_BWD_WG", 30000, None),
        ("COMM_COLL_NODE_second_ALLREDUCE", 0, 524288),
        ("COMP_NODE_second_BWD_IG", 20000, None),
        ("COMP_NODE_first_BWD_WG", 30000, None),
        ("COMM_COLL_NODE_first_ALLREDUCE", 0, 1048576),
    ]
    assert not (tmp_path / "t.4.et").exists()
    shown = run(programs / "chakra_jsonizer", "--input_filename=t.3.et", "--output_filename=t.json", folder=tmp_path)
    assert shown == Ended(0, "", "")
    assert list(load_trace(tmp_path / "t.json").nodes()) == list(traces[3].nodes())


def test_the_linker_and_the_converter_of_chakra_take_traces_of_pytorch(programs: Path, tmp_path: Path) -> None:
    host, kineto = training_step(tmp_path)
    files = f"--chakra-host-trace={host}", f"--chakra-device-trace={kineto}", "--output-file=hdt.json"
    linked = run(programs / "chakra_trace_link", "--rank=0", *files, folder=tmp_path)
    assert linked.status == 0
    assert "operators matched" in linked.output
    for name, written in (("et.0.et", "et.0.et"), ("plain", "plain.0.et")):
        ended = run(programs / "chakra_converter", "PyTorch", "--input=hdt.json", f"--output={name}", "--simulate", folder=tmp_path)
        assert ended.status == 0
        assert ended.output.startswith("chakra_converter: warning: --simulate has no effect")
        assert "replayed" in ended.errors
        trace = load_trace(tmp_path / written)
        assert [node.comm_size for node in trace.nodes() if node.type == NodeType.COMM_COLL_NODE] == [4096]


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (("chakra_converter",), 2, "the following arguments are required: kind"),
        (("chakra_converter", "FlexFlow", "--input=w"), 2, "invalid choice: 'FlexFlow' (choose from"),
        (("chakra_converter", "Text", "--input=w"), 2, "the following arguments are required: --output, --num-npus, --num-passes"),
        (("chakra_converter", "Text", "--input=w", "--output=t", "--num-npus=0", "--num-passes=1"), 2, "--num-npus is 0; expected"),
        (("chakra_converter", "Text", "--input=w", "--output=t", "--num-npus=2", "--num-passes=1"), 1, "--input is w; there is no"),
        (("chakra_trace_link", "--chakra-host-trace=h", "--chakra-device-trace=d", "--output-file=o"), 1, "is h; there is no such file"),
        (("chakra_jsonizer", "--input_filename=w", "--output_filename=t"), 1, "--input_filename is w; there is no such file"),
        (("chakra_jsonizer", "--input_filename=w", "--output_filename=t", "--output=3"), 2, "unrecognised option '--output=3'"),
    ],
)
def test_what_is_wrong_in_options_of_tools_of_chakra_is_named(
    words: tuple[str, ...], status: int, says: str, programs: Path, tmp_path: Path
) -> None:
    ended = run(programs / words[0], *words[1:], folder=tmp_path)
    assert (ended.status, ended.output) == (status, "")
    assert ended.errors.startswith(f"{words[0]}: error: ")
    assert says in ended.errors


# -- Installation ------------------------------------------------------------------------------------------------------


def test_a_checkout_gets_programs_where_its_scripts_look(tmp_path: Path) -> None:
    (tmp_path / "build" / "astra_analytical").mkdir(parents=True)
    build = tmp_path / "build" / "astra_analytical" / "build.sh"
    build.write_text("exit 5\n")
    (tmp_path / "2022" / "exercise_1").mkdir(parents=True)
    (tmp_path / "2024" / "demo" / "astra-sim" / "build" / "astra_ns3").mkdir(parents=True)
    (tmp_path / ".git" / "build" / "astra_htsim").mkdir(parents=True)
    install(tmp_path, "--checkout", "--quiet")
    assert subprocess.run(["bash", build], check=False).returncode == 0
    for path in (
        "build/astra_analytical/build/bin/AstraSim_Analytical_Congestion_Aware",
        "build/astra_analytical/build/AnalyticalAstra/bin/AnalyticalAstra",
        "2022/build/AnalyticalAstra/bin/AnalyticalAstra",
        "2022/build/congestion/AstraCongestion/bin/AstraCongestion",
        "2024/demo/astra-sim/extern/network_backend/ns-3/build/scratch/ns3.42-AstraSimNetwork-default",
    ):
        assert os.access(tmp_path / path, os.X_OK), path
    assert [path.name for path in (tmp_path / ".git").rglob("*")] == ["build", "astra_htsim"]


def test_a_folder_that_is_no_checkout_is_an_error(tmp_path: Path) -> None:
    ended = CliRunner().invoke(command, [str(tmp_path), "--checkout"])
    assert isinstance(ended.exception, InputError)
    assert "is no checkout of ASTRA-sim or of its tutorials" in str(ended.exception)
    assert not list(tmp_path.iterdir())


def test_the_command_names_what_it_has_written(tmp_path: Path) -> None:
    ended = CliRunner().invoke(command, [str(tmp_path)], catch_exceptions=False)
    assert ended.output.split() == [str(tmp_path / name) for name in PROGRAMS]


def test_rows_of_a_run_with_more_lines_than_others_find_room() -> None:
    empty = [","] * 19
    before = filled("EndToEnd.csv", [], ["layer,run", "a,1", *empty], 0, 2)
    assert before == ["layer,run", "a,1", ",", *empty]
    assert filled("EndToEnd.csv", before, ["layer,run", "a,2", "b,2", *empty], 1, 2)[:5] == ["layer,run", "a,1", "a,2", ",", "b,2"]
