"""Cases of ASTRA-sim 2.x through the installed programs, as its scripts run them: output, log and exit status."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest
from support.astra1 import explained as different_in_1
from support.astra2 import FILES, explained, node
from support.compat import Ended, install, run
from support.references import FULL, cases_or_skip

PROGRAMS = {
    "congestion_unaware": "AstraSim_Analytical_Congestion_Unaware",
    "congestion_aware": "AstraSim_Analytical_Congestion_Aware",
}
FINISHED = re.compile(r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}\] \[workload\] \[info\] sys\[(\d+)\] finished, (\d+) cycles, "
                      r"exposed communication (\d+) cycles\.$", re.MULTILINE)  # fmt: skip
STATISTICS = {"comm_time": "Comm time", "gpu_time": "GPU time"}

DIFFERENT = {"ua_graph_replay_only": "exposed", "ua_graph_roofline_zero_ops": "gpu_time"}
"""Figures that differ: replayed communication counts as computing there, and an operation without operations takes 2^63 ns."""
COLLECTIVES, GRAPHS = (25, 3) if FULL else (120, 7)
"""Every so manieth case runs: each is a process of its own."""


@pytest.fixture(scope="module", name="programs")
def programs_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("programs"))


@pytest.fixture(scope="module", name="cases")
def cases_fixture() -> list[dict[str, Any]]:
    every = [case for case in cases_or_skip("astra2.jsonl") if "undefined_behaviour" not in case and case["id"] not in explained()]
    every = [case for case in every if case["binary"] != "patched"]  # which reads keys that no release reads
    collectives = [case for case in every if case["workload"]["kind"] == "collective" and case["workload"]["npus"] <= 64]
    graphs = [case for case in every if case["workload"]["kind"] == "et_graph"]
    return [case for case in (*collectives[::COLLECTIVES], *graphs[::GRAPHS]) if case["status"] == "ok"]


def start(case: dict[str, Any], programs: Path, folder: Path) -> Ended:
    """Write the files of a case, and run its program on them."""
    from astra_sim_chakra import Node, NodeType, write_nodes

    for key, name in FILES.items():
        if case[key] is not None:
            text = case[key] if isinstance(case[key], str) else json.dumps(case[key])
            (folder / name).write_text(text.replace("@DIR@", str(folder)))
    workload = case["workload"]
    if workload["kind"] == "collective":
        kind = {"all_reduce": 0, "all_gather": 2, "all_to_all": 6, "reduce_scatter": 7}[workload["collective"]]
        one = Node(id=0, name="c", type=NodeType.COMM_COLL_NODE, is_cpu_op=False, comm_type=kind, comm_size=workload["bytes"])
        ranks = [[one]] * workload["npus"]
    else:
        ranks = [[node(fields) for fields in nodes] for nodes in workload.get("per_rank") or [workload["nodes"]] * workload["npus"]]
    for number, nodes in enumerate(ranks):
        write_nodes(folder / f"w.{number}.et", nodes)
    for name, traces in case.get("custom_collective_ets", {}).items():
        for number, nodes in enumerate(traces):
            write_nodes(folder / f"{name}.{number}.et", [node(fields) for fields in nodes])
    groups = ["--comm-group-configuration", "g.json"] if case["comm_group_json"] is not None else []
    return run(
        programs / PROGRAMS[case["backend"]],
        "--workload-configuration=w",
        "--system-configuration=s.json",
        "--network-configuration=n.yml",
        "--remote-memory-configuration=m.json",
        *groups,
        *case["cli"],
        folder=folder,
    )


def range_of(values: list[int]) -> dict[str, int]:
    return {"min": min(values), "max": max(values)}


def test_programs_say_when_each_npu_finishes_what_it_exposes_and_how_long_it_computes(
    cases: list[dict[str, Any]], programs: Path, tmp_path: Path
) -> None:
    for number, case in enumerate(cases):
        folder = tmp_path / str(number)
        folder.mkdir()
        ended = start(case, programs, folder)
        assert ended.status == 0, (case["id"], ended.errors)
        lines = [tuple(map(int, each)) for each in FINISHED.findall(ended.output)]
        assert sorted(npu for npu, _, _ in lines) == list(range(case["ranks_finished"])), case["id"]
        expected = case["finish_cycles_per_sys"]
        finish = [cycles for _, cycles, _ in sorted(lines)]
        assert range_of(finish) | ({"list": finish} if "list" in expected else {}) == expected, case["id"]
        result: dict[str, Any] = {"exposed": range_of([exposed for _, _, exposed in lines])}
        wanted: dict[str, Any] = {"exposed": case["exposed_comm_cycles"], **(case.get("statistics") or {})}
        for name, words in STATISTICS.items():
            times = [int(each) for each in re.findall(rf"\[statistics\] \[info\] sys\[\d+\], {words}: (\d+)$", ended.output, re.MULTILINE)]
            if times:
                result[name] = range_of(times)
        differing = {name for name in wanted if result.get(name) != wanted[name]}
        assert differing == ({DIFFERENT[case["id"]]} if case["id"] in DIFFERENT else set()), (case["id"], result, wanted)
        logged = (folder / "log" / "log.log").read_text().splitlines(keepends=True)
        assert [line for line in logged if "] [astra] [warning] " not in line] == ended.output.splitlines(keepends=True)
        assert (folder / "log" / "err.log").read_text() == ""


def test_the_program_of_1_writes_the_rows_of_its_cases(programs: Path, tmp_path: Path) -> None:
    cases = [case for case in cases_or_skip("astra1.jsonl") if "compute-scale" in case["args"] or "num-passes" in case["args"]]
    chosen = [case for case in cases if case["id"] not in different_in_1()][:: 10 if FULL else 40]
    assert chosen
    for number, case in enumerate(chosen):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name in ("workload", "system"):
            (folder / name).write_text(case[name])
        (folder / "network").write_text(json.dumps(case["network"]))
        files = [f"--{name}-configuration={name}" for name in ("workload", "system", "network")]
        options = [f"--{name}={value}" for name, value in case["args"].items()]
        ended = run(programs / "AnalyticalAstra", *files, *options, "--path=./", "--run-name=x", folder=folder)
        assert ended.status == 0, (case["id"], ended.errors)
        expected = case["expected"]
        assert f"all passes finished at time: {expected['finish_ns']}, " in ended.output, case["id"]
        with (folder / "backend_end_to_end.csv").open() as table:
            assert list(csv.DictReader(table)) == [expected["end_to_end"]], case["id"]
        with (folder / "EndToEnd.csv").open() as table:
            heading, *rows = csv.reader(table)
        for row, layer in zip(rows, expected["layers"], strict=False):
            assert row[0] == layer["layer"], case["id"]
            assert {name: cell for name, cell in zip(heading, row, strict=True) if name} == {
                name: layer.get(name, "") for name in heading if name
            }, case["id"]
