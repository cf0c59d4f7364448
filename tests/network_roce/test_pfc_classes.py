"""PFC pauses one class of a link alone: what is of another class flows on, as flows and in a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import astra_sim
import pytest
from astra_sim.graph import Communicate, Compute, ExecutionGraph, NpuProgram, Operation, Pass, Receive, Send
from astra_sim.platform import LogicalDimension
from astra_sim.schedule import Collective, rank
from support.commands import Astra, command

pytest.importorskip("astra_sim_network_roce")

OPTIONS = "windows=false&ecn=false&buffer_mib=2&pfc_log=true"


@pytest.fixture
def astra(capsys: pytest.CaptureFixture[str]) -> Astra:
    return command(capsys)


@pytest.fixture
def narrow(tmp_path: Path) -> str:
    """NPU 0 at one switch, NPUs 1 and 2 at another: all links have 100 Gbit/s but that of NPU 1, which has 1."""
    rows = ["0,s0,12.5,500", "s0,s1,12.5,500", "1,s1,0.125,500", "2,s1,12.5,500"]
    (tmp_path / "narrow.csv").write_text("\n".join(["source,target,bandwidth_gb_per_s,latency_ns", *rows]) + "\n")
    return f"plugin:graph?file={tmp_path / 'narrow.csv'}"


def flows_of(astra: Astra, folder: Path, platform: str, *rows: str) -> dict[str, Any]:
    (folder / "flows.csv").write_text("\n".join(["id,src,dst,bytes,start_ns,pg", *rows]) + "\n")
    files = "--platform", platform, "--network", f"plugin:roce?{OPTIONS}", "--flows", str(folder / "flows.csv")
    done = astra("flows", *files, "--json", "--output", str(folder / "out"))
    assert done.status == 0, done.error
    result: dict[str, Any] = json.loads(done.out)
    return result


def test_of_two_flows_over_a_link_one_is_paused_and_the_other_has_the_rest_of_it(narrow: str, tmp_path: Path, astra: Astra) -> None:
    slow, fast = "slow,0,1,20000000,0,3", "fast,0,2,2000000,2000000,{}"

    def took(table: dict[str, Any]) -> float:
        (flow,) = [each for each in table["flows"] if each["id"] == "fast"]
        return float(flow["received_ns"] - flow["start_ns"])

    alone = flows_of(astra, tmp_path, narrow, fast.format(5))
    other, same = (flows_of(astra, tmp_path, narrow, slow, fast.format(group)) for group in (5, 3))
    pauses = [line.split() for line in (tmp_path / "out" / "pfc.txt").read_text().splitlines()]
    for table in (other, same):
        assert table["drops"] == 0
        assert table["pfc_frames"] > 0
    assert {(node, switch) for _, node, switch, *_ in pauses} >= {("3", "1"), ("0", "0")}  # both the first switch and NPU 0 were paused
    assert alone["pfc_frames"] == 0
    # The slow flow has a hundredth of the link, and for some moments, when it is resumed, its turn of it.
    assert took(alone) <= took(other) < 1.05 * took(alone)
    assert took(same) > 20 * took(alone)


@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_a_collective_is_paused_and_a_message_of_another_class_is_not(narrow: str, engine: str) -> None:
    """An all-to-all of NPUs 0 and 1 fills the narrow link; meanwhile NPU 0 sends to NPU 2, which then computes for as long as it takes."""

    def arrives_ns(send_class: int, bytes_of_collective: int = 40_000_000) -> float:
        pair = Communicate((), Collective.ALL_TO_ALL, bytes_of_collective, (0,), 0, Pass.FORWARD)
        programs = (
            NpuProgram(tuple[Operation, ...]((pair,)), (1,)),
            NpuProgram(tuple[Operation, ...]((Receive((), rank(0), 2_000_000, 1), Compute((0,), 10**12))), (2,)),
        )
        first: tuple[Operation, ...] = (pair, Compute((), 2_000_000_000), Send((1,), rank(2), 2_000_000, 1))
        graph = ExecutionGraph(first, (LogicalDimension(2, 1, 0),), (), None, programs)
        system = {"plugin": "astra2", "traffic_classes": [3], "send_traffic_class": send_class, "one_at_a_time": False}
        result = astra_sim.simulate(workload=graph, platform=narrow, network=f"plugin:roce?{OPTIONS}", system=system, engine=engine)
        return float(result.finish_ns) - 10**9 - 2_000_000

    alone = arrives_ns(5, 1000)
    assert alone <= arrives_ns(5) < 1.05 * alone
    assert arrives_ns(3) > 20 * alone
