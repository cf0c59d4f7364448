"""The command `astra explain` and `simulate(..., explain=True)`: what they say, and that nothing else changes."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import astra_sim
import attrs
import pytest
from astra_sim.command.cli import astra
from astra_sim.graph import Compute, ExecutionGraph, NpuProgram, Receive, Send, Unit
from astra_sim.network import DelayParts, RouteDelayNetwork
from astra_sim.platform import Platform
from astra_sim.report.screen import Screen
from astra_sim.rows import Dependencies, Rows, column
from astra_sim.schedule import shift
from astra_sim_devkit.testing.deliveries import check_delays
from astra_sim_explain.explanation import compute_bound_ps, wire_bounds
from astra_sim_explain.explanation_text import difference, print_explanation
from astra_sim_explain.what_if import scaled_compute, scaled_platform
from click.testing import CliRunner
from support import ROOT
from support.components import components_of
from support.networks import OneWire, Replayed

EXAMPLES = ROOT / "examples"
GPT3 = str(EXAMPLES / "gpt3_dgx2_pod.toml")
VGG16 = str(EXAMPLES / "vgg16_dgx2_pod.toml")
RING = "plugin:ring?size=8&links=2&link_bandwidth_gib_per_s=50&link_latency_ns=500"
ALL_REDUCE = "plugin:collective?bytes=1048576"
ALL_TO_ALL = "plugin:collective?collective=all_to_all&bytes=1048576"
DIRECT = ["system.all_to_all=direct"]
LLM = (
    *("--workload", "plugin:llm?model=gpt3-175b&global_batch=16&tensor_parallel=8&pipeline_parallel=4&zero=1"),
    *("--platform", "plugin:dgx_h100?nodes=8", "--compute", "plugin:gpu?device=h100", "--system", "plugin:astra2"),
)


def explain(*arguments: str) -> str:
    """The output of the command."""
    done = CliRunner().invoke(astra, ["explain", *arguments], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


def explained(*arguments: str) -> dict[str, Any]:
    """The output with --json."""
    table: dict[str, Any] = json.loads(explain(*arguments, "--json"))
    return table


def test_json_has_path_sensitivities_and_bounds() -> None:
    table = explained(GPT3)
    assert {"kind", "layer", "collective", "dimension", "ns"} <= table["path"][0].keys()
    assert sum(row["ns"] for row in table["path"]) == table["finish_ns"] == 787767340
    assert {row["kind"] for row in table["path"]} >= {"compute", "bandwidth", "latency", "endpoint", "reduction"}
    assert {"compute", "wire"} == {bound["kind"] for bound in table["bounds"]}
    of = {(each["parameter"], each["dimension"], each["layer"]): each for each in table["sensitivities"]}
    compute = sum(row["ns"] for row in table["path"] if row["kind"] == "compute")
    assert of["compute speed", None, None]["derivative_ns"] == -compute
    assert of["bandwidth", 0, None]["method"] == "unrounded path"


@pytest.mark.parametrize(
    "arguments",
    [
        *((str(path),) for path in sorted(EXAMPLES.glob("*.toml"))),
        LLM,
        ("--workload", ALL_TO_ALL, "--platform", RING, "--network", "plugin:analytical?congestion=aware", "--set", *DIRECT),
        ("--workload", ALL_REDUCE, "--platform", RING, "--network", "plugin:packet", "--no-reruns"),
        (GPT3, VGG16),
    ],
    ids=lambda arguments: Path(arguments[-1]).stem[:20],
)
def test_lines_fit_and_the_first_ten_are_a_summary(arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = explain(*arguments)
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= 80
    assert text.splitlines()[:11].index("") <= 10
    assert max(map(len, explain(*arguments, "--all").splitlines())) <= 80


def test_parallelisms_have_their_names() -> None:
    groups = {row["group"]: row["ns"] for row in explained(*LLM)["totals"]["group"]}
    assert groups.keys() == {"tp", "dp", "pp"}
    assert all(groups.values())


def test_in_a_pipeline_others_compute() -> None:
    table = explained(*LLM)
    compute = sum(row["ns"] for row in table["path"] if row["kind"] == "compute")
    bound = next(bound["ns"] for bound in table["bounds"] if bound["kind"] == "compute")
    assert table["compute_of_others_ns"] == compute - bound > 0
    assert "Other NPUs compute for " in explain(*LLM)
    assert explained(GPT3)["compute_of_others_ns"] == 0


def test_two_runs_are_compared() -> None:
    table = explained(GPT3, VGG16)
    assert table.keys() == {"a", "b", "difference"}
    change = table["b"]["finish_ns"] - table["a"]["finish_ns"]
    for rows in (table["difference"]["kind"], table["difference"]["layer"]):
        assert sum(row["change_ns"] for row in rows) == pytest.approx(change)
    same = explain(GPT3, GPT3)
    assert same.splitlines()[2] == "B - A: +0.000 ms (+0.00 %); on the critical paths:"


def test_three_experiments_are_too_many() -> None:
    done = CliRunner().invoke(astra, ["explain", GPT3, GPT3, GPT3])
    assert "3 experiments are given; expected one, or two to compare" in str(done.exception)


@pytest.mark.parametrize("engine", ["python", "compiled"])
@pytest.mark.parametrize("symmetry", [True, False])
def test_nothing_else_changes(engine: str, symmetry: bool) -> None:
    inputs: dict[str, Any] = {"workload": ALL_TO_ALL, "platform": RING, "engine": engine, "symmetry": symmetry}
    plain = astra_sim.simulate(**inputs).to_dict()
    result = astra_sim.simulate(**inputs, explain=True)
    table = result.to_dict()
    assert "explanation" not in plain
    assert table.pop("explanation")["finish_ns"] == plain["finish_ns"]
    assert plain.pop("units").items() <= table.pop("units").items()
    assert {**table, "wall_s": 0} == {**plain, "wall_s": 0}
    assert pickle.loads(pickle.dumps(result)).explanation == result.explanation


@pytest.mark.parametrize("network", ["plugin:analytical?congestion=aware", "plugin:packet"])
def test_messages_on_an_empty_network_leave_no_trace(network: str) -> None:
    """They and the other runs are on networks of their own: statistics and reports are those of the run."""
    inputs: dict[str, Any] = {"workload": "plugin:collective?bytes=65536", "platform": RING, "network": network}
    plain, result = astra_sim.simulate(**inputs), astra_sim.simulate(**inputs, explain=True)
    assert result.explanation is not None
    assert {"latency", "bandwidth"} <= result.explanation.totals()["kind"].keys()
    assert result.network == plain.network
    assert result.network_reports() == plain.network_reports()


def test_both_engines_explain_alike() -> None:
    inputs: dict[str, Any] = {"workload": ALL_TO_ALL, "platform": RING, "system": "plugin:astra1?splits=4", "rendezvous": True}
    for symmetry in (True, False):
        result = [astra_sim.simulate(**inputs, engine=engine, symmetry=symmetry, explain=True) for engine in ("python", "compiled")]
        assert result[0].explanation == result[1].explanation


def test_queueing_is_what_an_empty_network_does_not_take() -> None:
    """On one wire a message alone takes a picosecond for each byte."""
    network = OneWire(components_of(workload=ALL_TO_ALL, platform=RING).platform)
    unknown = astra_sim.simulate(workload=ALL_TO_ALL, network=network, explain=True).explanation
    assert unknown is not None
    kinds = unknown.totals()["kind"]
    assert "network" in kinds
    assert not {"queueing", "bandwidth", "latency"} & kinds.keys()
    # An object cannot be made again: there are no other runs.
    assert {each.parameter for each in unknown.sensitivities} == set()

    aware = "plugin:analytical?congestion=aware&rounding=picosecond"
    known = astra_sim.simulate(workload=ALL_TO_ALL, platform=RING, network=aware, set=DIRECT, explain=True).explanation
    assert known is not None
    assert known.totals()["kind"]["queueing"] > 0
    bandwidth = next(each for each in known.sensitivities if each.parameter == "bandwidth")
    assert bandwidth.method == "re-runs"
    # Waiting for others grows with their bytes, too: more than the path's own bandwidth follows it.
    assert -bandwidth.derivative_ns > 1.2 * known.totals()["kind"]["bandwidth"]


def test_chunks_that_are_cut_by_bandwidth_run_again() -> None:
    """The chunks of Themis are as large as bandwidths make them: links are re-runs, other parameters by the path."""
    torus, flex = "plugin:torus?sizes=4,4&link_bandwidth_gib_per_s=50", ["system.inter_dimension_scheduling=offline_greedy_flex"]
    explanation = astra_sim.simulate(workload=ALL_REDUCE, platform=torus, set=flex, explain=True).explanation
    assert explanation is not None
    methods = {each.parameter: each.method.split(",")[0] for each in explanation.sensitivities}
    assert methods == {"compute speed": "path", "endpoint delay": "path", "bandwidth": "re-runs", "latency": "re-runs"}


def test_explain_is_yes_no_or_path() -> None:
    with pytest.raises(astra_sim.InputError, match="explain is 'all'; expected True, False, 'path', 'ranges' or plugin:NAME"):
        astra_sim.simulate(workload=ALL_REDUCE, platform=RING, explain="all")


def test_re_runs_are_left_out_on_request() -> None:
    aware = "plugin:analytical?congestion=aware"
    short = astra_sim.simulate(workload=ALL_TO_ALL, platform=RING, network=aware, explain="path").explanation
    assert short is not None
    assert short.sensitivities == ()


def test_a_network_that_is_never_contended_has_no_queueing() -> None:
    platform = components_of(workload=ALL_REDUCE, platform=RING).platform
    network = Replayed(components_of(workload=ALL_REDUCE, platform=RING).network)  # type: ignore[arg-type]
    explanation = astra_sim.simulate(workload=ALL_REDUCE, platform=platform, network=network, explain=True).explanation
    assert explanation is not None
    assert "queueing" not in explanation.totals()["kind"]


class Slow(RouteDelayNetwork):
    """A network that does not say how its delays follow from its links."""

    def route_delay(self, dimension: int, hops: int, size: int) -> int:
        """A microsecond, and two picoseconds for each byte."""
        return 1_000_000 + 2 * size


def test_a_network_without_parts_is_split_by_a_message_of_no_bytes() -> None:
    platform = components_of(workload=ALL_REDUCE, platform=RING).platform
    explanation = astra_sim.simulate(workload=ALL_REDUCE, network=Slow(platform), explain=True).explanation
    assert explanation is not None
    kinds = explanation.totals()["kind"]
    messages = kinds["latency"] / 1000
    assert kinds["bandwidth"] == messages * 2 * 1048576 / 8 / 2 / 1000  # half of a block goes round each way
    assert not [each for each in explanation.sensitivities if each.parameter in ("bandwidth", "latency")]


def test_priced_collectives_are_one_part_and_run_again() -> None:
    network = "plugin:analytical?model=nccl&device=h100"
    explanation = astra_sim.simulate(workload=ALL_REDUCE, platform="plugin:dgx_h100?nodes=2", network=network, explain=True).explanation
    assert explanation is not None
    assert list(explanation.totals()["kind"]) == ["collective"]
    methods = {each.parameter: each.method for each in explanation.sensitivities}
    assert methods == {"compute speed": "path", "endpoint delay": "path", "bandwidth": "re-runs", "latency": "re-runs"}


def test_recorded_and_remote_time_have_kinds() -> None:
    def run(*operations: Any) -> dict[str, Any]:
        platform = components_of(workload=ALL_REDUCE, platform=RING).platform
        graph = ExecutionGraph(operations, platform.logical_dimensions(), ())
        explanation = astra_sim.simulate(workload=graph, platform=platform, explain=True).explanation
        assert explanation is not None
        kinds: dict[str, Any] = explanation.totals()["kind"]
        return kinds

    recorded = Compute((0,), 2000, unit=Unit.COMMUNICATION)
    assert run(Compute((), 1000, idle=True), recorded, Compute((1,), 3000)) == {"idle": 1, "recorded": 2, "compute": 3}


class Wrong(Slow):
    """A network whose parts are not what a message takes."""

    def delay_parts(self, dimension: int, hops: int, size: int) -> DelayParts:
        """Nothing for the bytes."""
        return DelayParts(1_000_000, 0.0)


def test_parts_of_a_delay_add_up_to_it() -> None:
    platform = components_of(workload=ALL_REDUCE, platform=RING).platform
    check_delays(Slow(platform))
    with pytest.raises(AssertionError, match=r"their parts are .*; expected parts that add up to that"):
        check_delays(Wrong(platform))


@pytest.mark.parametrize("rendezvous", [False, True])
def test_parts_of_a_message_by_hand(rendezvous: bool) -> None:
    """7 ns of compute, then 1000 bytes over a link of 1 byte/ns and 500 ns; a request of 8192 bytes goes before under rendezvous."""
    line = "plugin:ring?size=2&links=2&link_bandwidth_gb_per_s=1&link_latency_ns=500"
    platform = components_of(workload=ALL_REDUCE, platform=line).platform
    sender = (Compute((), 7000, name="begin"), Send((0,), shift(1), 1000, name="activations"))
    receiver = NpuProgram((Receive((), shift(-1), 1000),), (1,))
    graph = ExecutionGraph(sender, platform.logical_dimensions(), (), None, (receiver,))
    explanation = astra_sim.simulate(workload=graph, platform=platform, rendezvous=rendezvous, explain=True).explanation
    assert explanation is not None
    rows = {(row.kind, row.layer, row.collective, row.dimension, row.group): row.ns for row in explanation.path}
    # The request is on its way for longer than the sender computes.
    before = ("rendezvous", "activations", "send", 0, "point-to-point") if rendezvous else ("compute", "begin", "", None, "")
    assert rows == {
        ("bandwidth", "activations", "send", 0, "point-to-point"): 1000,
        ("latency", "activations", "send", 0, "point-to-point"): 500,
        before: 8692 if rendezvous else 7,
    }
    derivatives = {each.parameter: each.derivative_ns for each in explanation.sensitivities if each.dimension == 0}
    assert derivatives == {"bandwidth": -9192 if rendezvous else -1000, "latency": 1000 if rendezvous else 500}


# -- bounds and changed machines ---------------------------------------------------------------------------------------


def test_compute_bound_is_the_longest_chain() -> None:
    dimensions = ()
    beside = (Compute((), 1000), Compute((), 3000), Compute((0,), 1500), Compute((1,), 50, unit=Unit.CPU))
    other = NpuProgram((Compute((), 3100),), (1,))
    graph = ExecutionGraph(beside, dimensions, (), None, (other,))
    assert compute_bound_ps(graph, 2, one_at_a_time=False) == 3100
    assert compute_bound_ps(graph, 2, one_at_a_time=True) == 5500


def rows() -> Rows[Any]:
    """Two operations of one kind in columns, the second with a time of its own."""
    after = Dependencies.of([(), (0,)])
    return Rows(
        [Compute((), 1000)],
        column([0, 0], "I"),
        after,
        lambda kind, row, waits: attrs.evolve(kind, after=waits),
        column([-1, 4000], "q"),
    )


def test_operations_in_columns_count_and_scale() -> None:
    graph = ExecutionGraph(rows(), (), ())
    assert compute_bound_ps(graph, 1, one_at_a_time=False) == 5000
    assert compute_bound_ps(scaled_compute(graph, 2.0), 1, one_at_a_time=False) == 10000


def test_compute_of_one_layer_scales() -> None:
    operations = (Compute((), 1000, layer=0), Compute((0,), 1000, layer=1), Compute((1,), 1000, idle=True), Send((), shift(1), 5))
    changed = scaled_compute(ExecutionGraph(operations, (), ("a", "b")), 3.0, "b")
    assert [getattr(each, "duration_ps", None) for each in changed.operations] == [1000, 3000, 1000, None]


def test_wire_bound_is_bytes_over_all_links() -> None:
    platform = components_of(workload=ALL_REDUCE, platform="plugin:ring?size=4&links=2&link_bandwidth_gb_per_s=10").platform
    assert wire_bounds(platform, [20_000])[0].ns == 1000


def test_links_of_a_graph_scale_and_those_of_garnet_do_not(tmp_path: Path) -> None:
    (tmp_path / "graph.csv").write_text("source,target,bandwidth_gb_per_s,latency_ns\n0,1,10,50\n1,2,5,50\n")
    aware = "plugin:analytical?congestion=aware"
    platform = components_of(workload=ALL_REDUCE, platform=f"plugin:graph?file={tmp_path / 'graph.csv'}", network=aware).platform
    scaled = scaled_platform(platform, 0, 2.0, 3.0)
    assert scaled is not None
    assert {tuple(link)[2:4] for link in scaled.dimensions[0].topology.links() or ()} == {(20.0, 150.0), (10.0, 150.0)}
    garnet = components_of(workload=ALL_REDUCE, platform="plugin:torus3d?npus=8&packages=4&package_rows=2").platform
    assert scaled_platform(garnet, 0, 2.0, 1.0) is None


def test_a_run_that_takes_no_time_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    platform: Platform = components_of(workload=ALL_REDUCE, platform=RING).platform
    graph = ExecutionGraph((), platform.logical_dimensions(), ())
    explanation = astra_sim.simulate(workload=graph, platform=platform, explain=True).explanation
    assert explanation is not None
    print_explanation(explanation, Screen())
    assert capsys.readouterr().out.splitlines()[:2] == ["run: 0.000 ns on 8 NPUs. On its critical path:", "  nothing takes time."]
    assert all(not rows for rows in difference(explanation, explanation).values())


def test_an_explained_result_is_written(tmp_path: Path) -> None:
    done = CliRunner().invoke(astra, ["explain", GPT3, "--no-reruns", "-o", str(tmp_path / "one")])
    assert done.exit_code == 0, done.output
    result = json.loads((tmp_path / "one" / "result.json").read_text())
    results = json.loads(CliRunner().invoke(astra, ["explain", GPT3, "--no-reruns", "--json"]).stdout)
    assert result["explanation"] == results
    assert (tmp_path / "one" / f"{result['run_name']}_timeline.pftrace.gz").is_file()
    done = CliRunner().invoke(astra, ["explain", GPT3, GPT3, "--no-reruns", "--quiet", "-o", str(tmp_path / "two")])
    assert done.exit_code == 0, done.output
    both = json.loads((tmp_path / "two" / "result.json").read_text())
    assert [run["run_name"] for run in both] == [f"{result['run_name']} a", f"{result['run_name']} b"]


def test_run_explains(tmp_path: Path) -> None:
    done = CliRunner().invoke(astra, ["run", GPT3, "--explain", "-o", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert "On its critical path:" in done.stdout
    assert json.loads((tmp_path / "out" / "result.json").read_text())["explanation"]["path"]


def test_compare_explains_what_it_writes(tmp_path: Path) -> None:
    choices = ["compare", GPT3, "--set", "run.compute_scale=1", "--set", "run.compute_scale=0.5", "--explain"]
    done = CliRunner().invoke(astra, [*choices, "--quiet", "-o", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert all(run["explanation"]["path"] for run in json.loads((tmp_path / "out" / "result.json").read_text()))
    refused = CliRunner().invoke(astra, choices)
    assert str(refused.exception).startswith("--explain needs --output DIR")
