"""`astra convert`, as docs/traces.md describes it."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import astra_sim
import pytest
import tomli
from astra_sim import InputError
from astra_sim.command import cli
from astra_sim.graph import Communicate, ExecutionGraph, MemoryAccess, Operation, Pass
from astra_sim.platform import Platform
from astra_sim.schedule import Collective
from astra_sim.toml_text import to_toml
from astra_sim_chakra import NodeType, Trace, load_ranks, load_trace, write_nodes
from astra_sim_chakra.graph_nodes import graph_nodes
from astra_sim_chakra.trace_json import from_json
from hypothesis import given, settings
from hypothesis import strategies as st
from support import ROOT

WORKLOADS = sorted((ROOT / "examples" / "workloads").glob("*.toml"))
RING = "plugin:ring?size=4&links=2&link_bandwidth_gib_per_s=50"
TORUS = "plugin:torus?sizes=4,4&links=2&link_bandwidth_gib_per_s=50"
TEXT = """HYBRID_DATA_MODEL
2
conv\t-1\t100\tALLGATHER\t64\t200\tALLREDUCE\t640\t300\tALLREDUCE\t128\t10
fc\t-1\t400\tNONE\t0\t500\tNONE\t0\t600\tREDUCESCATTER\t256\t0
"""

Astra = Callable[..., tuple[int, str]]


@pytest.fixture
def astra(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Astra:
    """Runs `astra` in a folder of its own; returns exit status and standard error."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str | Path) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["astra", *map(str, arguments)])
        try:
            cli.main()
        except SystemExit as stop:
            return int(stop.code or 0), capsys.readouterr().err
        return 0, capsys.readouterr().err

    return run


@pytest.fixture
def text(tmp_path: Path) -> str:
    (tmp_path / "w.txt").write_text(TEXT)
    return "w.txt"


def longest_ns(trace: Trace) -> int:
    """The time that a trace takes if collectives take none."""
    ends = [0] * len(trace)
    for row in trace.order:
        ends[row] = trace.duration_ns[row] + max((ends[other] for other in trace.dependencies(row)), default=0)
    return max(ends)


# -- Between workloads -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda path: path.stem)
def test_a_workload_comes_back_from_traces(workload: Path, astra: Astra) -> None:
    platform = TORUS.replace("4,4", "16,4")
    status, notes = astra("convert", workload, "a.et", "--platform", platform, "--passes", "2")
    assert (status, "for each of 64 ranks: a.0.et to a.63.et" in notes) == (0, True)
    assert astra("convert", "a", "b.toml")[0] == 0
    assert tomli.loads(Path("b.toml").read_text()) == tomli.loads(workload.read_text())
    assert len(load_ranks("a", 64).programs) == 1


def test_text_comes_back_from_everything(text: str, astra: Astra) -> None:
    assert astra("convert", text, "a.toml")[0] == 0
    assert astra("convert", "a.toml", "a.json")[0] == 0
    assert astra("convert", "a.json", "a.et", "--platform", RING, "--gzip")[0] == 0
    assert Path("a.3.et").read_bytes()[:2] == b"\x1f\x8b"
    assert astra("convert", "a.2.et", "b.txt") == (0, "")
    assert Path("b.txt").read_text() == TEXT
    arguments: dict[str, Any] = {"platform": RING, "passes": 2, "compute_scale": 0.7}
    assert astra_sim.simulate(workload="a.toml", **arguments).finish_ns == astra_sim.simulate(workload=text, **arguments).finish_ns


LOOPS = {
    "hybrid_transformer": ("HYBRID_TRANSFORMER model_parallel_NPU_group: 2", {"model_parallel_npus": 2}),
    "hybrid_transformer_fwd_in_bckwd": (
        "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 4 checkpoints: 1 0 checkpoint_initiates: 1 1",
        {"model_parallel_npus": 4, "checkpoints": [0], "checkpoint_initiates": [1]},
    ),
    "hybrid_dlrm": ("HYBRID_DLRM 1", {"last_bottom_layer": 1}),
    "micro": ("MICRO", {}),
}


@pytest.mark.parametrize("loop", LOOPS)
def test_loops_with_options_are_written_as_text(loop: str, astra: Astra) -> None:
    head, options = LOOPS[loop]
    Path("a.toml").write_text(
        to_toml({"loop": loop, "loop_options": options, "layers": [{"name": "a"}, {"name": "b"}], "single_precision": True})
    )
    assert astra("convert", "a.toml", "a.txt") == (0, "")
    assert Path("a.txt").read_text().startswith(f"{head}\n2\na\t-1\t0\tNONE\t0\t")
    assert astra("convert", "a.txt", "b.toml") == (0, "")
    back = tomli.loads(Path("b.toml").read_text())
    assert (back["loop"], back["loop_options"]) == (loop, options)


def test_what_a_text_leaves_out_is_said(astra: Astra) -> None:
    status, notes = astra("convert", ROOT / "examples" / "vgg16_tpu_v2.toml", "a.txt")
    assert status == 0
    assert notes.splitlines() == [
        "left out: the name 'VGG-16'",
        "left out: operations of 48 passes",
        "left out: memory_bytes of 48 passes",
        "left out: double precision: scaled times and sizes of a text are rounded to 32 bits",
    ]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"loop": "data", "layers": [{"name": "a b"}]}, "the layer name 'a b' cannot be written as text"),
        (
            {"loop": "data", "layers": [{"name": "a", "update_ns": 0.5}]},
            "layer a: update_ns is 0.5; the text of ASTRA-sim 1.0 has whole numbers",
        ),
        ({"loop": "data", "layers": [{"name": "a", "forward": {"operations": 5}}]}, "layer a, forward has operations and no compute_ns"),
        ({"loop": "dato", "layers": [{"name": "a"}]}, "ASTRA-sim 1.0 has no loop 'dato'; did you mean 'data'?"),
        ({"plugin": "collective", "bytes": 5}, "the workload 'collective' cannot be written as text"),
    ],
)
def test_what_a_text_cannot_say_is_an_error(table: dict[str, Any], message: str, astra: Astra) -> None:
    Path("a.toml").write_text(to_toml(table))
    status, error = astra("convert", "a.toml", "a.txt")
    assert status == 2
    assert message in error


plain = st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6)
tables = st.recursive(
    plain, lambda items: st.lists(items, max_size=3) | st.dictionaries(st.text(max_size=4), items, max_size=3), max_leaves=8
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.text(max_size=4), tables, max_size=4))
def test_toml_is_read_as_what_it_was(table: dict[str, Any]) -> None:
    assert tomli.loads(to_toml(table)) == table


# -- Workload to trace -------------------------------------------------------------------------------------------------


def test_the_nodes_of_a_workload(text: str, astra: Astra) -> None:
    assert astra("convert", text, "a.et", "--platform", TORUS)[0] == 0
    trace = load_trace("a.7.et")
    nodes = {node.name: node for node in trace.nodes() if node.name != "step"}
    forward = nodes["conv forward all_gather"]
    assert (forward.type, forward.comm_type, forward.comm_size) == (NodeType.COMM_COLL_NODE, 2, 64)
    assert (forward.involved_dim, forward.data) == ((True, False), (nodes["conv forward compute"].id,))
    weights = nodes["conv weight_gradient all_reduce"]
    assert (weights.involved_dim, weights.pg_name) == ((False, True), None)
    update = nodes["conv weight_gradient all_reduce update"]
    assert (update.data, update.duration_ns, update.is_cpu_op) == ((weights.id,), 10, True)
    assert nodes["fc weight_gradient compute"].duration_ns == 600


def test_without_collectives_a_trace_takes_as_long_as_its_workload(astra: Astra) -> None:
    layers = "".join(f"l{i} -1 {i + 3} NONE 0 {2 * i} NONE 0 {7 - i} NONE 0 5\n" for i in range(5))
    for policy in ("DATA", "MODEL", "HYBRID_TRANSFORMER model_parallel_NPU_group: 2", "HYBRID_DLRM 2"):
        Path("w.txt").write_text(f"{policy}\n5\n{layers}")
        assert astra("convert", "w.txt", "a.et", "--platform", RING, "--passes", "3", "--compute-scale", "1.5")[0] == 0
        expected = astra_sim.simulate(workload="w.txt", platform=RING, passes=3, compute_scale=1.5).finish_ns
        assert longest_ns(load_trace("a.0.et")) == expected


def test_collectives_over_parts_of_a_dimension_get_process_groups(astra: Astra) -> None:
    layer = "a -1 1 ALLREDUCE 64 1 ALLREDUCE 64 1 ALLREDUCE 128 0\n"
    Path("w.txt").write_text(f"HYBRID_TRANSFORMER model_parallel_NPU_group: 2\n1\n{layer}")
    status, notes = astra("convert", "w.txt", "a.et", "--platform", RING)
    assert (status, "4 process groups" in notes) == (0, True)
    groups = json.loads(Path("a.groups.json").read_text())
    assert groups == {"1": [0, 1], "2": [2, 3], "3": [0, 2], "4": [1, 3]}
    traces = load_ranks("a")
    assert (len(traces.programs), traces.groups_of) == (1, (("1", "3"), ("1", "4"), ("2", "3"), ("2", "4")))
    assert {node.involved_dim for node in traces.trace(0).nodes()} == {None}
    assert astra("convert", "a", "b.txt")[0] == 0


def test_an_experiment_brings_its_platform_and_scale(astra: Astra) -> None:
    (Path("w.toml")).write_text(to_toml({"plugin": "collective", "bytes": 100}))
    Path("e.toml").write_text(f'workload = "plugin:collective?bytes=4096"\nplatform = "{RING}"\n[run]\npasses = 3\n')
    assert astra("convert", "e.toml", "a.et")[0] == 0
    assert [node.comm_size for node in load_trace("a.0.et").nodes()] == [4096] * 3
    assert astra("convert", "a.et", "b.toml")[0] == 0
    assert tomli.loads(Path("b.toml").read_text()) == {"plugin": "collective", "bytes": 4096}
    status, error = astra("convert", "w.toml", "a.et")
    assert (status, "no platform is given" in error) == (2, True)


def graph_of(*operations: Operation) -> tuple[ExecutionGraph, Platform]:
    platform = astra_sim.setup.components.build(_experiment(), astra_sim.setup.plugins.shared_plugins()).platform
    return ExecutionGraph(operations, platform.logical_dimensions(), ("a",)), platform


def _experiment() -> astra_sim.Experiment:
    experiment = astra_sim.Experiment()
    for kind, spec in (("workload", "plugin:collective?bytes=8"), ("platform", TORUS)):
        experiment.use(kind, spec, astra_sim.setup.plugins.shared_plugins())
    return experiment


def test_memory_urgency_and_collectives_over_nothing() -> None:
    urgent = Communicate((0,), Collective.ALL_TO_ALL, 64, (0, 1), 0, Pass.FORWARD, urgent=True)
    nothing = Communicate((1,), Collective.ALL_REDUCE, 64, (), 0, Pass.FORWARD, update_ps=5000)
    (result,), groups = graph_nodes(*graph_of(MemoryAccess((), 128, write=True), urgent, nothing, MemoryAccess((2,), 64, layer=0)))
    assert not groups
    store, exchange, load = result.nodes
    assert (store.type, store.tensor_size, store.name) == (NodeType.MEM_STORE_NODE, 128, "store")
    assert (exchange.comm_type, exchange.comm_priority, exchange.involved_dim, exchange.data) == (6, 1, (True, True), (0,))
    assert (load.type, load.data, load.name) == (NodeType.MEM_LOAD_NODE, (1,), "a load")


def test_an_operation_that_chakra_does_not_know_is_an_error() -> None:
    with pytest.raises(InputError, match="operation 0, a str, cannot be written"):
        graph_nodes(*graph_of("x"))  # type: ignore[arg-type]


# -- Trace to workload -------------------------------------------------------------------------------------------------


def test_a_trace_that_was_not_made_of_layers_cannot_become_layers(astra: Astra, text: str) -> None:
    write_nodes("x.0.et", [astra_sim_node(0)])
    status, error = astra("convert", "x", "b.toml")
    assert status == 2
    assert "x.0.et: the trace has no layered workload in its metadata" in error
    astra("convert", text, "a.et", "--platform", RING)
    trace = load_trace("a.0.et")
    write_nodes("a.0.et", list(trace.nodes())[:-1], trace.metadata)
    status, error = astra("convert", "a.0.et", "b.toml")
    assert (status, "a.0.et: the nodes were changed" in error) == (2, True)


def astra_sim_node(id: int) -> Any:
    from astra_sim_chakra import Node

    return Node(id=id, type=NodeType.COMP_NODE, duration_ns=1000)


def test_a_trace_is_the_same_after_json(text: str, astra: Astra) -> None:
    assert astra("convert", text, "a.et", "--platform", RING, "--passes", "2")[0] == 0
    assert astra("convert", "a", "a.json")[0] == 0
    assert [path.name for path in sorted(Path().glob("a.*.json"))] == [f"a.{rank}.json" for rank in range(4)]
    assert astra("convert", "a.1.json", "b.et", "--gzip")[0] == 0
    assert gzip.decompress(Path("b.et").read_bytes()) == Path("a.1.et").read_bytes()
    assert astra("convert", "b.et", "c.et") == (0, "")
    assert Path("c.et").read_bytes() == Path("a.1.et").read_bytes()
    status, error = astra("convert", "c.et", "c.et")
    assert (status, "the target is the source" in error) == (2, True)


def test_json_as_protobuf_writes_it_is_read() -> None:
    attr = [
        {"name": "comm_size", "int64Val": "70"},
        {"name": "involved_dim", "boolList": {"values": [True]}},
        {"name": "x", "double_val": 0.5},
    ]
    document = {
        "nodes": [{"id": "3", "type": "COMM_COLL_NODE", "dataDeps": [], "durationMicros": "5", "attr": attr}, {"id": 4, "data_deps": [3]}]
    }
    trace = from_json(document, "x.json")
    assert (trace.duration_ns[0], trace.comm.size[0], trace.node(0).involved_dim, trace.node(1).data) == (5000, 70, (True,), (3,))


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (5, "node number 0 is 5; expected a table"),
        ({"ide": 5}, "no field named \"ide\" at \"Node\". Available Fields(except extensions): \"['id', 'name', 'type', "),
        ({"id": -1}, "parse id field: Value out of range: -1"),
        ({"type": "COMP"}, "parse type field: Invalid enum value COMP"),
        ({"name": "\ud800"}, "parse name field: Unpaired surrogate"),
        ({"dataDeps": 3}, "dataDeps must be in [] which is 3"),
        ({"dataDeps": [3]}, "node 0 '': data dependency 3 is no node"),
        ({"attr": [{"name": "a", "int64Val": 2**63}]}, "parse int64Val field: Value out of range: 9223372036854775808"),
        ({"attr": [{"name": "a", "int64Val": 1, "boolVal": True}]}, 'multiple "value" oneof fields at "Node.attr[0]"'),
        ({"attr": [{"name": "a", "boolVal": 1}]}, "Expected true or false without quotes at Node.attr[0].boolVal"),
        ({"attr": [{"name": "a", "bytesVal": 1}]}, "parse bytesVal field: "),
        ({"inputs": {"value": "x"}}, 'no field named "value" at "Node.inputs"'),
    ],
)
def test_what_is_wrong_in_json_is_named(node: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        from_json({"nodes": [node]}, "x.json")
    assert str(caught.value).startswith("x.json: node ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


# -- FlexFlow ----------------------------------------------------------------------------------------------------------

TASK_GRAPH = """digraph taskgraph {  node0 [label="{device_id=0|Dense_100|Forward|COMP_NODE|simulated_run_time=2e-5}",shape=record];
  node0 -> node2;
  node2 [label="{device_id=1|Comm|Comm|COMM_SEND_RECV_NODE|src_device_id=0|dst_device_id=1|comm_size=40|run_time=3.8e-08}",shape=record];
  node2 -> node3;
  node3 [color=blue,label="{device_id=1|Dense_100|Backward|COMP_NODE|simulated_run_time=0.5}",shape=record];
}
"""


def test_a_task_graph_of_flexflow_is_a_trace_for_each_device(astra: Astra) -> None:
    Path("a.dot").write_text(TASK_GRAPH)
    assert astra("convert", "a.dot", "a.et")[0] == 0
    first, second = (load_ranks("a", 2).trace(rank) for rank in (0, 1))
    assert [first.label(row) for row in range(2)] == ["node 0 'Dense_100 Forward'", "node 2 'Comm'"]
    assert list(first.duration_ns) == [20_000, 0]
    assert list(first.type) == [NodeType.COMP_NODE, NodeType.COMM_SEND_NODE]
    assert list(second.type) == [NodeType.COMM_RECV_NODE, NodeType.COMP_NODE]
    assert (first.comm.tag[1], first.comm.dst[1], first.comm.size[1]) == (second.comm.tag[0], 1, second.comm.size[0]) == (2, 1, 40)
    assert (first.node(1).data, second.node(0).data, second.node(1).data) == ((0,), (), (2,))
    assert astra("convert", "a.dot", "b.et", "--time-unit", "ms")[0] == 0
    assert load_trace("b.1.et").duration_ns[1] == 500_000


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("digraph", "graph", "a.dot: not a task graph of FlexFlow"),
        ("node0 -> node2", "node0 -> node9", "a.dot:2: there is no node9"),
        ("node0 -> node2", "node0 -> node3", "a.dot:2: node0 and node3 run on different devices, with no communication between them"),
        ("node3 [", "node0 [", "a.dot:5: node0 is there already, in line 1"),
        ("comm_size=40", "comm_size=-4", "a.dot:3: comm_size is '-4'; expected a whole number"),
        ("time=0.5", "time=nan", "a.dot:5: simulated_run_time is 'nan'; expected a number of at least 0"),
        ("COMP_NODE|simulated_run_time=0.5", "COMB_NODE|x", "a.dot:5: node3 has the type 'COMB_NODE'"),
        ("dst_device_id=1", "dst_device_id=0", "a.dot:3: node2 sends from device 0 to itself"),
        ("node2 -> node3;", "node3 -> node2;", "a.dot: device 1: dependencies in a circle"),
        ("  node2 -> node3;", "sub { }", "a.dot:4: 'sub { }' is neither a node nor an edge"),
    ],
)
def test_what_is_wrong_in_a_task_graph_is_named(old: str, new: str, message: str, astra: Astra) -> None:
    assert old in TASK_GRAPH
    extra = "\n  node2 -> node3;" if "circle" in message else ""
    Path("a.dot").write_text(TASK_GRAPH.replace(old, new + extra, 1))
    status, error = astra("convert", "a.dot", "a.et")
    assert status == 2
    assert message in error


# -- The command -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("w.txt", "out"), "out: the format is not clear from the name; expected an extension (.txt, .toml, .json, .et) or --to"),
        (("w.txt", "out.dot"), "out.dot: the format is not clear from the name"),
        (("v.txt", "a.toml"), "v.txt: No such file"),
        (("v", "a.toml"), "v: there is no such file, and no v.0.et"),
        (("v.et", "a.toml"), "v.0.et: No such file"),
        (("v.et", "a.json"), "v: there are no traces"),
        (("w.txt", "a.toml", "--gzip"), "--gzip has no meaning for a conversion from text to toml"),
        (("w.txt", "a.toml", "--platform", RING), "--platform has no meaning for a conversion from text to toml"),
        (("w.txt", "a.et", "--platform", RING, "--rank", "1"), "--rank has no meaning for a conversion from text to chakra"),
        (("w.txt", "a.et", "--platform", RING, "--passes", "0"), "passes is 0; expected at least 1"),
        (("w.txt", "a.toml", "--from", "json"), "w.txt:1: not JSON"),
        (("w.txt", "a.toml", "--from", "toml"), "w.txt: "),
        (("w.txt", "a.toml", "--from", "chakra"), "w.txt: "),
        (("w.txt", "w.txt/a.toml"), "cannot write w.txt/a.toml: Not a directory"),
    ],
)
def test_what_is_wrong_with_a_request_is_named(arguments: tuple[str, ...], message: str, text: str, astra: Astra) -> None:
    status, error = astra("convert", *arguments)
    assert status in (1, 2)
    assert message in error
    assert "Traceback" not in error
