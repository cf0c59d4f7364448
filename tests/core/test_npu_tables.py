"""Tables of the time of all NPUs: they add up, and neither the engine nor how much of the platform is simulated changes them."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import astra_sim
import attrs
import pytest
from astra_sim import AstraError, InputError
from astra_sim.api import run_components
from astra_sim.command.cli import astra
from astra_sim.graph import Communicate, Compute, ExecutionGraph, NpuProgram, Operation, Pass, Receive, Send
from astra_sim.report import breakdown
from astra_sim.report.breakdown import MOST_ROWS
from astra_sim.report.tables import print_result
from astra_sim.schedule import Collective, shift
from astra_sim_chakra import Node, NodeType, write_nodes
from click.testing import CliRunner
from support import ROOT
from support.experiment_checks import components_of
from support.random_experiments import Experiment

VGG16 = str(ROOT / "examples" / "vgg16_dgx2_pod.toml")
RING = "plugin:torus?sizes=4&both_ways=true&link_bandwidth_gb_per_s=1&link_latency_ns=0"
SYSTEM = "plugin:astra2"
US = 1_000_000

Tables = dict[str, list[dict[str, Any]]]


def tables_of_run(seed: int, folder: Path, engine: str, symmetry: bool) -> tuple[astra_sim.Result, Tables]:
    components = components_of(Experiment(seed, folder).options, engine, symmetry)
    result = run_components(components, "run", 0.0, npu_times=True)
    return result, result.npu_tables()


def check_sums(result: astra_sim.Result, tables: Tables) -> None:
    """What the tables must add up to."""
    npus = tables["npu_times"]
    assert sum(row["count"] for row in npus) == result.npus
    assert max(row["finish_ns"] for row in npus) == result.finish_ns
    for row in npus:
        parts = row["compute_ns"], row["exposed_ns"], row["memory_ns"], row["idle_ns"]
        assert min(parts) >= 0
        assert sum(parts) == pytest.approx(row["finish_ns"], rel=1e-12)
        assert row["exposed_ns"] <= row["communication_ns"]
    exposed = sum(row["count"] * row["exposed_ns"] for row in npus)
    for name in ("operations", "groups"):
        assert sum(row["exposed_ns"] for row in tables.get(name, ())) == pytest.approx(exposed)


@pytest.mark.parametrize("first", range(0, 120, 10))
def test_tables_add_up_and_are_the_same_however_they_are_simulated(first: int, tmp_path: Path) -> None:
    count = 0
    for seed in range(first, first + 10):
        folder = tmp_path / str(seed)
        folder.mkdir()
        results = []
        for engine, symmetry in (("compiled", True), ("compiled", False), ("python", True)):
            try:
                results.append(tables_of_run(seed, folder, engine, symmetry))
            except AstraError:
                break
        for result, tables in results:
            check_sums(result, tables)
            assert tables == results[0][1], f"seed {seed}"
            count += 1
    assert count > 10


def pair(before_ps: int, after_ps: int) -> ExecutionGraph:
    """NPU 1 computes and sends 2000 bytes to NPU 0 (1 us), which waits, computes and takes part in nothing else; others are idle."""
    receives: list[Operation] = [Receive((), shift(1), 2000), Compute((0,), after_ps, name="use")]
    sends: list[Operation] = [Compute((), before_ps, name="make"), Send((0,), shift(-1), 2000, group="pp", name="result")]
    nothing: list[Operation] = [Compute((), 1, name="nothing")]
    programs = NpuProgram(sends, (1,)), NpuProgram(nothing, (2, 3))
    return ExecutionGraph(receives, (), (), others=programs)


def dimensions_of_ring() -> Any:
    """The dimensions of the ring."""
    return components_of({"workload": "plugin:collective?bytes=1", "platform": RING}, "compiled", True).graph.dimensions


def run(graph: ExecutionGraph, **options: Any) -> astra_sim.Result:
    return astra_sim.simulate(workload=graph, platform=RING, system=SYSTEM, npu_times=True, **options)


@pytest.mark.parametrize("engine", ["compiled", "python"])
def test_who_waits_for_a_message_that_is_not_on_its_way_is_idle(engine: str) -> None:
    tables = run(pair(3 * US, 2 * US), engine=engine).npu_tables()
    names = "npus", "finish_ns", "compute_ns", "communication_ns", "exposed_ns", "memory_ns", "idle_ns"
    assert [tuple(row[name] for name in names) for row in tables["npu_times"]] == [
        ("0", 6000, 2000, 1000, 1000, 0, 3000),
        ("1", 4000, 3000, 1000, 1000, 0, 0),
        ("2-3", 0.001, 0.001, 0, 0, 0, 0),
    ]


def test_operations_say_to_which_group_they_belong() -> None:
    tables = run(pair(3 * US, 2 * US)).npu_tables()
    names = "operation", "kind", "group", "npus", "total_ns", "exposed_ns"
    result = [tuple(row[name] for name in names) for row in tables["operations"]]
    assert ("result", "send", "pp", 1, 1000, 1000) in result
    assert ("", "receive", "point-to-point", 1, 1000, 1000) in result
    assert ("make", "compute", "", 1, 3000, 0) in result
    assert {row["group"]: row["bytes"] for row in tables["groups"]} == {"pp": 2000, "point-to-point": 0}


def test_what_began_first_is_waited_for() -> None:
    """Of two collectives at once the first is exposed until it ends, and what is hidden behind compute is not."""
    dimension = (0,)
    both: list[Operation] = [
        Communicate((), Collective.ALL_REDUCE, 4000, dimension, -1, Pass.FORWARD, name="first"),
        Communicate((), Collective.ALL_REDUCE, 4000, dimension, -1, Pass.FORWARD, name="second"),
        Compute((), US, name="work"),
    ]
    result = run(ExecutionGraph(both, dimensions_of_ring(), ()))
    rows = {row["operation"]: row for row in result.npu_tables()["operations"]}
    total = sum(row["exposed_ns"] for row in rows.values()) / 4
    assert total == result.finish_ns - 1000
    assert rows["first"]["exposed_ns"] == 4 * (rows["first"]["total_ns"] / 4 - 1000)


def test_names_that_differ_in_numbers_share_a_row_unless_all_are_wanted() -> None:
    operations: list[Operation] = [Compute((), US, name=f"kernel {number}") for number in range(3 * MOST_ROWS)]
    letters = ["".join(chr(97 + int(digit)) for digit in str(number)) for number in range(3 * MOST_ROWS)]
    operations += [Compute((), number + 1, name=name) for number, name in enumerate(letters)]
    result = run(ExecutionGraph(operations, (), ()))
    few, every = result.npu_tables(every=False)["operations"], result.npu_tables()["operations"]
    assert (few[0]["operation"], few[0]["alike"]) == ("kernel *", 3 * MOST_ROWS)
    assert (len(few), few[-1]["operation"], len(every)) == (MOST_ROWS, "others", 6 * MOST_ROWS)
    assert sum(row["total_ns"] for row in few) == pytest.approx(sum(row["total_ns"] for row in every))


@pytest.mark.parametrize("network", ["plugin:packet", "plugin:analytical?congestion=aware"])
@pytest.mark.parametrize("engine", ["compiled", "python"])
def test_networks_that_know_links_say_what_they_carried(network: str, engine: str) -> None:
    result = astra_sim.simulate(
        workload="plugin:collective?bytes=40000", platform=RING, network=network, engine=engine, npu_times=True
    )  # fmt: skip
    links = result.npu_tables()["links"]
    assert len(links) == 4  # one way around
    sent: dict[int, int] = defaultdict(int)
    for link in links:
        sent[link["dimension"]] += link["bytes"]
        assert 0 < link["utilisation"] <= 1
    assert sent[0] >= result.network["payload_bytes"] * 4
    assert [link["utilisation"] for link in links] == sorted((link["utilisation"] for link in links), reverse=True)


def test_a_run_keeps_them_only_where_it_is_asked_for_them() -> None:
    result = astra_sim.simulate(VGG16)
    assert "operations" not in result.to_dict()
    assert "npus" not in result.tables()
    with pytest.raises(AttributeError):
        _ = result.operations
    with pytest.raises(InputError, match="npu_times=True"):
        result.npu_tables()


def test_copies_and_pickles_keep_them(tmp_path: Path) -> None:
    result = astra_sim.simulate(VGG16, npu_times=True)
    assert pickle.loads(pickle.dumps(result)).npu_tables() == result.npu_tables()
    assert result.spooled(str(tmp_path / "spool")).npu_tables(every=False) == result.npu_tables(every=False)
    assert result.operations == result.npu_tables(every=False)["operations"]


def test_the_command_writes_and_shows_them(tmp_path: Path) -> None:
    def invoke(*arguments: str) -> str:
        done = CliRunner().invoke(astra, arguments, catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output

    invoke(VGG16, "--quiet", "--output", str(tmp_path))
    for table, column in (("operations", "exposed_ns"), ("npus", "idle_ns"), ("groups", "group")):
        rows = json.loads(invoke("show", str(tmp_path), table, "--json"))
        assert rows
        assert column in rows[0]
    assert json.loads(invoke("show", str(tmp_path), "npus", "--json"))[0]["npus"] == "0-255"


def test_the_summary_of_a_run_without_layers_has_them(capsys: pytest.CaptureFixture[str]) -> None:
    print_result(run(pair(3 * US, 2 * US)))
    text = capsys.readouterr().out
    assert "compute + exposed + memory + idle = finish" in text
    assert "point-to-point" in text
    assert "Layers" not in text


def test_tables_of_very_many_operations_are_made_on_request(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(breakdown, "MOST_OPERATIONS", 4)
    result = run(pair(3 * US, 2 * US))
    assert result.npu_tables(every=False) == {}
    assert "operations" not in result.to_dict()
    print_result(result)
    assert "--all makes tables of them" in capsys.readouterr().out
    assert result.npu_tables().keys() == {"operations", "npu_times", "groups"}


def test_members_of_an_unnamed_group_are_its_name() -> None:
    dimensions = dimensions_of_ring()
    operations: list[Operation] = [Communicate((), Collective.ALL_REDUCE, 4000, (0,), -1, Pass.FORWARD, group=(0, 1))]
    others = (NpuProgram([Compute((), 1)], (2, 3)),)
    rows = run(ExecutionGraph(operations, dimensions, (), others=others)).npu_tables()["groups"]
    assert [(row["group"], row["npus"]) for row in rows] == [("NPUs 0-1", 2)]


def test_a_trace_names_the_group_of_a_message(tmp_path: Path) -> None:
    """By the process group of its node; "0" is everybody, and no name."""
    send, receive = NodeType.COMM_SEND_NODE, NodeType.COMM_RECV_NODE
    for rank in (0, 1):
        nodes = [
            Node(id=0, type=receive if rank else send, comm_size=2000, is_cpu_op=False, pg_name="stages"),
            Node(id=1, type=receive if rank else send, comm_size=2000, is_cpu_op=False, pg_name="0", comm_tag=1),
        ]
        aimed = [attrs.evolve(node, comm_src=0) if rank else attrs.evolve(node, comm_dst=1) for node in nodes]
        write_nodes(tmp_path / f"t.{rank}.et", aimed)
    ring = "plugin:torus?sizes=2&both_ways=true&link_bandwidth_gb_per_s=1&link_latency_ns=0"
    result = astra_sim.simulate(workload=str(tmp_path / "t"), platform=ring, system=SYSTEM, npu_times=True)
    assert {row["group"]: row["bytes"] for row in result.groups} == {"stages": 2000, "point-to-point": 2000}


def test_groups_with_numbers_for_names_share_a_row(tmp_path: Path) -> None:
    """The pipeline of docs/explain.md: four stages, each with a group of two replicas."""
    subprocess.run(
        [sys.executable, str(ROOT / "examples" / "make_pipeline_traces.py"), str(tmp_path / "p"), "--stages", "4", "--replicas", "2"],
        check=True,
    )
    result = astra_sim.simulate(
        workload=str(tmp_path / "p"), groups=str(tmp_path / "p.groups.json"), system=SYSTEM, npu_times=True,
        platform="plugin:torus?sizes=2,4&link_bandwidth_gib_per_s=50&link_latency_ns=500",
    )  # fmt: skip
    rows = {row["group"]: row for row in result.npu_tables(every=False)["groups"]}
    assert rows["1-4"]["alike"] == 4
    assert rows["1-4"]["npus"] == 8
    assert len(result.npu_tables()["groups"]) == 5
