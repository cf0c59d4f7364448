"""`astra calibrate cluster`: a cluster from logs of nccl-tests, products and iterations."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import astra_sim
import pytest
from astra_sim import InputError
from astra_sim.collective_tables import MeasuredCollective, read_collectives
from astra_sim.command import cli
from astra_sim.schedule import Collective
from astra_sim_compute_gpu.cluster_fit import Iteration, collective_time, fit_fabric, fit_factor, nodes_of
from click.testing import CliRunner
from support import ROOT

A3_MEGA = ROOT / "examples" / "calibration" / "a3_mega_two_nodes.csv"
SIZES = [1 << place for place in (10, 15, 20, 23, 26, 27, 28, 29)]


def calibrate(*arguments: object) -> Any:
    command = ["calibrate", "cluster", *map(str, arguments)]
    outcome = CliRunner().invoke(cli.astra, command, catch_exceptions=False, standalone_mode=False)
    return outcome.output


def simulated(nic_gb_s: float, latency: str, sizes: list[int] = SIZES) -> list[MeasuredCollective]:
    """What a cluster with these numbers would measure, by the model itself."""
    time = collective_time("dgx_h100", {}, 8)
    rows = [MeasuredCollective(Collective.ALL_REDUCE, 16, size, 1.0, 2) for size in sorted(set(sizes))]
    return [MeasuredCollective(each.operation, each.ranks, each.bytes, time(each, nic_gb_s, latency), 2) for each in rows]


@pytest.mark.parametrize(("nic_gb_s", "latency"), [(50.0, "infiniband"), (25.0, "tcpxo"), (12.5, "40")])
def test_the_numbers_of_a_made_up_cluster_are_found_again(nic_gb_s: float, latency: str) -> None:
    rows = simulated(nic_gb_s, latency)
    fit = fit_fabric(rows, collective_time("dgx_h100", {}, 8), 50.0)
    assert fit.nic_gb_s == pytest.approx(nic_gb_s, rel=0.02)
    assert fit.error < 0.02
    assert fit.held_out is not None
    assert fit.held_out < 0.05
    if latency.isalpha():
        assert fit.fabric_latency == latency


def test_two_nodes_of_a_cloud_are_fitted_within_what_was_held_out(tmp_path: Path) -> None:
    """All-reduce on 16 H100 of A3 Mega (TCPXO), lessizzmore/create-a3mega-ztan-fork at 02dd8f4: 31 sizes, half of them held out."""
    output = tmp_path / "cluster.toml"
    document = json.loads(calibrate("--machine", "dgx_h100", "--nccl-tests", A3_MEGA, "-o", output, "--json"))
    assert document["fabric"]["rows"] == 31
    assert document["fabric"]["held_out"] < 0.2
    assert any("no log of one node" in each for each in document["not_identified"])
    result = astra_sim.simulate(str(output), workload="plugin:collective?collective=all_reduce&bytes=1073741824", system="plugin:astra2")
    assert result.npus == 16
    assert result.finish_ns / 1000 == pytest.approx(6759, rel=0.3)


def test_a_whole_calibration(tmp_path: Path) -> None:
    """Collectives of one and of two nodes, products, and iterations: the factor of computing that they were made with is found again."""
    one = tmp_path / "one.csv"
    sizes = [1 << place for place in range(10, 31)]
    one.write_text("operation,ranks,bytes,microseconds\n" + "".join(f"all_reduce,8,{size},{20 + size / 3e5}\n" for size in sizes))
    two = tmp_path / "two.csv"
    lines = [f"all_reduce,16,2,{row.bytes},{row.microseconds}\n" for row in simulated(40.0, "infiniband")]
    two.write_text("operation,ranks,nodes,bytes,microseconds\n" + "".join(lines))
    gemm = tmp_path / "gemm.csv"
    shapes = [(m, n, k) for m in (1024, 2048, 4096, 8192) for n in (2048, 4096) for k in (1024, 4096, 8192)]
    rows = [f"{m},{n},{k},{2 * m * n * k / 6e8 + 4}\n" for m, n, k in shapes]
    gemm.write_text("m,n,k,microseconds\n" + "".join(rows))
    step = tmp_path / "step.toml"
    step.write_text(
        'workload = "plugin:llm?model=llama3-8b&tensor_parallel=8&global_batch=BATCH&check_memory=false"\n'
        'platform = "plugin:dgx_h100?nodes=2"\nnetwork = "plugin:analytical?model=nccl"\ncompute = "plugin:gpu?device=h100&stack=kernels"\n'
    )
    for batch in (4, 8):
        (tmp_path / f"step{batch}.toml").write_text(step.read_text().replace("BATCH", str(batch)))
    truth = {batch: astra_sim.simulate(str(tmp_path / f"step{batch}.toml"), compute_scale=1.25).iteration_s for batch in (4, 8)}
    iterations = tmp_path / "iterations.csv"
    iterations.write_text("experiment,seconds\n" + "".join(f"step{batch}.toml,{seconds}\n" for batch, seconds in truth.items()))
    arguments = ["--machine", "dgx_h100", "--nccl-tests", one, "--nccl-tests", two, "--gemm", gemm, "--iterations", iterations]
    output = tmp_path / "cluster.toml"
    document = json.loads(calibrate(*arguments, "-o", output, "--json"))
    assert [Path(file).name for file in document["files"]] == ["cluster.toml", "cluster_nccl.toml", "cluster_device.toml"]
    assert len(document["iterations"]["held_out"]) == 2
    assert max(map(abs, document["iterations"]["errors"])) < 0.05
    printed = calibrate(*arguments, "-o", output)
    assert "all_reduce within a node" in printed
    assert "2 iterations" in printed
    workload = "plugin:llm?model=llama3-8b&tensor_parallel=8&global_batch=8&check_memory=false"
    result = astra_sim.simulate(str(output), workload=workload)
    assert result.iteration_s == pytest.approx(truth[8], rel=0.1)


def test_a_factor_is_found_and_each_iteration_is_foretold_by_the_others() -> None:
    seconds = {"a": (1.0, 0.5), "b": (3.0, 0.2), "c": (0.5, 2.0)}  # computing and the rest
    measured = [Iteration(name, 1.4 * compute + rest) for name, (compute, rest) in seconds.items()]
    fit = fit_factor(measured, lambda name, factor: factor * seconds[name][0] + seconds[name][1])
    assert fit.compute_scale == pytest.approx(1.4, rel=0.002)
    assert max(map(abs, fit.errors)) < 0.002
    assert fit.held_out is not None
    assert max(map(abs, fit.held_out)) < 0.005
    alone = fit_factor(measured[:1], lambda name, factor: factor * seconds[name][0] + seconds[name][1])
    assert alone.held_out is None


def test_nodes_are_those_of_the_log_or_as_few_as_hold_the_ranks() -> None:
    row = MeasuredCollective(Collective.ALL_REDUCE, 16, 8, 1.0)
    assert nodes_of(row, 8) == 2
    assert nodes_of(MeasuredCollective(Collective.ALL_REDUCE, 16, 8, 1.0, 4), 8) == 4
    with pytest.raises(InputError, match="12 ranks on 5 nodes"):
        nodes_of(MeasuredCollective(Collective.ALL_REDUCE, 12, 8, 1.0, 5), 8)


def report(**changes: Any) -> str:
    """A report of nccl-tests in JSON (-J)."""
    devices = [{"rank": rank, "hostname": f"host{rank // 8}", "device": rank % 8} for rank in range(16)]
    results = [
        {"size": size, "count": size // 4, "type": "float", "out_of_place": {"time": 10.0 + size}, "in_place": {"time": 9.0}}
        for size in (8, 16)
    ]
    return json.dumps({"args": ["/opt/all_reduce_perf", "-b", "8"], "config": {"devices": devices}, "results": results} | changes)


def test_reports_in_json_are_read() -> None:
    rows = read_collectives(report(), "log.json")
    assert rows == [MeasuredCollective(Collective.ALL_REDUCE, 16, size, 10.0 + size, 2) for size in (8, 16)]
    other = {"results": [{"size": 8, "out_of_place": None, "in_place": {"time": 9.0}, "experiment_name": "alltoall_perf"}], "args": []}
    assert read_collectives(report(**other), "log.json", ranks=4)[0] == MeasuredCollective(Collective.ALL_TO_ALL, 4, 8, 9.0, 2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"results": 3}, "results is 3; expected a list of measurements"),
        ({"results": [{"size": 8}]}, r"results\[0\]: expected size and out_of_place with time"),
        ({"args": []}, "the collective is not named; expected --op"),
        ({"config": {}}, "it lists no ranks; expected --ranks"),
        ({"results": [{"size": "x", "out_of_place": {"time": 1}}]}, "bytes is 'x'"),
    ],
)
def test_a_wrong_report_is_an_error(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_collectives(report(**changes), "log.json")


def test_hosts_of_a_log_are_counted() -> None:
    devices = "".join(f"#  Rank {rank:2} Group  0 Pid 1 on host{rank // 2} device {rank % 2} [0] GPU\n" for rank in range(4))
    heading = "#  size count type redop root time algbw busbw #wrong"
    text = f"# all_reduce_perf\n{devices}{heading}\n8 2 float sum -1 10.0 0.0 0.0 0 9.0 0.0 0.0 0\n"
    assert read_collectives(text, "log")[0].nodes == 2
    with pytest.raises(InputError, match="nodes is '9'; expected a whole number from 1 to the number of ranks"):
        read_collectives("operation,ranks,bytes,microseconds,nodes\nall_reduce,8,8,1,9\n", "t.csv")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to fit is given"),
        (["--nccl-tests", "missing.log"], "missing.log"),
        (["--iterations", "iterations.csv"], "seconds is 'fast'; expected a number above 0"),
        (["--machine", "torus", "--nccl-tests", A3_MEGA], "--machine is 'torus': .*; expected a platform of nodes"),
        (["--machine", "dgx_x", "--nccl-tests", A3_MEGA], "--machine is 'dgx_x': .*; expected a platform of nodes"),
    ],
)
def test_wrong_arguments_are_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "iterations.csv").write_text("experiment,seconds\na.toml,fast\n")
    with pytest.raises((InputError, astra_sim.AstraError), match=message):
        calibrate("--machine", "dgx_h100", *arguments, "-o", "c.toml")
    assert not (tmp_path / "c.toml").exists()


def test_times_of_a_fit_are_positive() -> None:
    assert all(math.isfinite(row.microseconds) and row.microseconds > 0 for row in simulated(50.0, "infiniband"))
