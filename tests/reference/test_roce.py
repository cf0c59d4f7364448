"""The network roce with preset `reference` against ASTRA-sim's ns-3 back end: every flow of every run, to the nanosecond."""

from __future__ import annotations

import math
import statistics
from pathlib import Path
from typing import Any

import astra_sim
import pytest
from support.references import cases_or_skip, reference_cases

pytest.importorskip("astra_sim_network_roce")

RANDOM = {"h_incast_7_to_1_DCQCN_random_marking", "h_incast_7_to_1_HPCC-PINT"}
"""Runs in which random numbers decide when a message ends."""
DEFECT = "h_incast_4_to_1_TIMELY_(as_the_fork_has_it)"
"""TIMELY without a time stamp: the one deterministic run that differs, on purpose."""
OTHER_MARKS = {
    "h_incast_7_to_1_no_window_no_CC_PFC",
    "h_incast_4_to_1_no_window_no_CC_PFC",
    "h_incast_4_to_1_TIMELY_(repaired)",
    "h_dumbbell_4+4_no_window_no_CC_PFC",
    "h_Clos_4x4x2_64_flows_ECMP",
    "h_unequal_rates_and_delays_own_RTT",
    "h_HPCC_Clos_4x4x2_oversubscribed_incast_15_to_1",
}
"""Runs with random marks that no algorithm looks at: all but the number of marks is equal."""
SEEDS = 20
IDS = [case["id"] for case in reference_cases("roce.jsonl") if case["id"] not in RANDOM | {DEFECT}]


def case_of(name: str) -> dict[str, Any]:
    """A run by its id."""
    return next(case for case in cases_or_skip("roce.jsonl") if case["id"] == name)


@pytest.mark.parametrize("name", IDS)
def test_every_flow_is_equal(name: str, tmp_path: Path) -> None:
    from support.roce import flows_of_case, network_of_case, run

    case = case_of(name)
    network = network_of_case(case, tmp_path, pfc_log=True)
    figures = ["start_ns", "received_ns", "end_ns", "packets", "acks", "nacks", *(["marked_acks"] if name not in OTHER_MARKS else [])]
    got = []
    for each in run(network, *flows_of_case(case)):
        assert each.figures is not None
        times = {"start_ns": each.started / 1000, "received_ns": each.received / 1000, "end_ns": each.ended / 1000}
        got.append({**each.figures._asdict(), **times})
    assert [[flow[key] for key in figures] for flow in got] == [[flow[key] for key in figures] for flow in case["outcome"]["flows"]]
    result = network.statistics()
    assert (result["drops"], result["pfc_frames"]) == (case["outcome"]["drops"], case["outcome"]["pfc_frames"])
    log = [line.split() for line in network.reports()["pfc.txt"].splitlines()]
    wanted = [(each["ns"], each["node"], each["port"], each["pause"]) for each in case["outcome"]["pfc"]]
    assert [(int(ns), int(node), int(port), int(pause)) for ns, node, _, port, pause in log][: len(wanted)] == wanted


def test_source_ports_are_equal(tmp_path: Path) -> None:
    from support.roce import flows_of_case, network_of_case, run

    case = case_of("h_two_priority_groups_incast_PFC")
    network = network_of_case(case, tmp_path)
    run(network, *flows_of_case(case))
    ports = sorted(int(line.split()[2]) for line in network.reports()["fct.txt"].splitlines())
    assert ports == sorted(flow["sport"] for flow in case["outcome"]["flows"])


@pytest.mark.parametrize("name", sorted(RANDOM))
def test_random_runs_are_within_three_standard_errors(name: str, tmp_path: Path) -> None:
    from support.roce import flows_of_case, network_of_case, run

    case = case_of(name)
    finishes = []
    for seed in range(SEEDS):
        network = network_of_case(case, tmp_path, seed=seed)
        finishes.append(max(each.ended for each in run(network, *flows_of_case(case))) / 1000)
    spread = statistics.stdev(finishes)
    error = spread * math.sqrt(1 + 1 / SEEDS)  # of one run against the mean of SEEDS
    assert spread > 0
    assert abs(case["outcome"]["finish_ns"] - statistics.mean(finishes)) <= 3 * error


def test_the_run_without_time_stamps_differs_as_the_page_says(tmp_path: Path) -> None:
    from support.roce import flows_of_case, network_of_case, run

    case = case_of(DEFECT)
    finish = max(each.ended for each in run(network_of_case(case, tmp_path), *flows_of_case(case))) / 1000
    assert finish < case["outcome"]["finish_ns"] / 100


@pytest.mark.parametrize("engine", ["compiled", "python"])
@pytest.mark.parametrize(
    ("name", "size", "finish_ns"),
    [
        ("h_ring_all-reduce_8_ranks_1_MiB_star_100G", 1 << 20, 215_614),
        ("h_ring_all-reduce_8_ranks_1_MB_star_400G_(as_ASTRA-sim_example)", 1_000_000, 66_150),
    ],
)
def test_ring_all_reduce_through_the_engine(engine: str, name: str, size: int, finish_ns: int, tmp_path: Path) -> None:
    case = case_of(name)
    (tmp_path / "topology.txt").write_text(case["topology"])
    (tmp_path / "config.txt").write_text(case["config"])
    with pytest.warns(astra_sim.InputWarning, match="without effect here and in ns-3"):
        result = astra_sim.simulate(
            workload=f"plugin:collective?collective=all_reduce&bytes={size}",
            network=str(tmp_path / "config.txt"),
            set=["system.all_reduce=ring", "system.endpoint_delay_ns=0", "system.splits=1"],
            engine=engine,
        )
    assert result.finish_ns == finish_ns
