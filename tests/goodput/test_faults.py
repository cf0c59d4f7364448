"""Nodes that fail together, faults that slow a job, and its progress: formulas against random runs."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Any

import pytest
from astra_sim import InputError
from astra_sim.command import cli
from astra_sim_goodput import goodput
from astra_sim_goodput.plan import read_plan
from astra_sim_goodput.shares import fault_speed, missing_nodes
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

JOB: dict[str, Any] = {
    "nodes": 256,
    "rates": {"gpu": 2e-5},
    "days": 60,
    "step_s": 10.0,
    "checkpoint": {"levels": [{"write_s": 20, "load_s": 60}]},
    "recovery": {"detect_s": 30, "replace_s": 60, "spares": 4, "repair_h": 24},
}
RACK = [{"name": "rack", "nodes": 4, "mtbf_days": 400}]
RAIL = [{"name": "rail", "parts": 2048, "rate": 2e-5, "repair_h": 8, "step_s": 12}]


def job(recovery: Any = None, **changes: Any) -> dict[str, Any]:
    table = copy.deepcopy(JOB)
    table.update(changes)
    table["recovery"].update(recovery or {})
    return {"goodput": table}


@pytest.mark.parametrize(
    "table",
    [
        job(correlated=RACK),
        job({"without_spare": "shrink"}, correlated=RACK),
        job(faults=RAIL),
        job({"without_spare": "shrink"}, correlated=RACK, faults=RAIL),
        job({"spares": 16}, correlated=[{"name": "leaf", "nodes": 16, "mtbf_days": 400}]),
    ],
)
def test_formulas_are_within_the_interval_of_random_runs(table: dict[str, Any]) -> None:
    """The goodput is within 0.2 % of the 99 % interval of 200 seeds."""
    result = goodput(table, 200)
    assert result.monte_carlo is not None
    low, high = result.monte_carlo.goodput.interval99
    assert low - 0.002 <= result.goodput <= high + 0.002
    assert math.fsum(result.shares.values()) == pytest.approx(1)


def test_groups_of_one_node_are_single_nodes() -> None:
    """As many nodes that fail by themselves, whether they count as a component or as groups of one node."""
    rate = 1e-4
    whole = missing_nodes(read_plan(job(rates={"node": rate / 8})))
    apart = missing_nodes(read_plan(job(rates={"node": 1e-30}, correlated=[{"name": "host", "nodes": 1, "rate": rate}])))
    assert apart == pytest.approx(whole)


@given(st.floats(1e-7, 1e-3), st.floats(0.1, 100), st.floats(10.0, 100.0))
def test_a_fault_costs_its_presence_times_its_slowdown_at_most(rate: float, repair_h: float, step_s: float) -> None:
    plan = read_plan(job(faults=[{"name": "link", "rate": rate, "repair_h": repair_h, "step_s": step_s}]))
    (fault,) = plan.faults
    assert fault.mean_present == pytest.approx(rate * repair_h)
    lost = 1 - fault_speed(plan)
    first_order = fault.mean_present * (1 - 10.0 / step_s)
    assert lost <= first_order + 1e-12
    assert lost == pytest.approx(first_order, rel=0.1 if first_order < 0.1 else 1, abs=1e-9)


def test_a_fault_whose_step_is_as_fast_changes_nothing_but_its_own_row() -> None:
    plain, slow = goodput(job()), goodput(job(faults=[RAIL[0] | {"step_s": 10.0}]))
    assert slow.goodput == plain.goodput
    assert [each.lost for each in slow.faults] == [0.0]


def test_a_step_without_a_link_is_simulated(tmp_path: Path) -> None:
    """A rail that is down: the experiment of the step runs again without it."""
    (tmp_path / "step.toml").write_text(
        'workload = "plugin:collective?collective=all_reduce&bytes=16777216"\n'
        'network = "plugin:analytical?congestion=aware"\n[platform]\nplugin = "dgx_h100"\nnodes = 2\n'
    )
    table = job(experiment="step.toml", faults=[{"name": "rail", "rate": 1e-3, "repair_h": 8, "without": {"links": [[0, "switch 2"]]}}])
    del table["goodput"]["step_s"]
    file = tmp_path / "job.toml"
    file.write_text(_toml(table["goodput"]))
    result = goodput(str(file))
    (fault,) = result.faults
    assert result.step_s is not None
    assert fault.step_s is not None
    assert fault.step_s > 1.1 * result.step_s
    assert 0 < fault.lost < 0.01
    assert result.ettr > result.goodput


def _toml(table: dict[str, Any]) -> str:
    def value(each: Any) -> str:
        if isinstance(each, dict):
            return "{ " + ", ".join(f"{key} = {value(item)}" for key, item in each.items()) + " }"
        return f"[{', '.join(map(value, each))}]" if isinstance(each, list) else json.dumps(each)

    return "[goodput]\n" + "".join(f"{key} = {value(each)}\n" for key, each in table.items())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"correlated": [{"name": "rack", "nodes": 4}]}, "correlated 0: expected one of rate and mtbf_days"),
        ({"correlated": [{"name": "rack", "nodes": 400, "rate": 1e-3}]}, "nodes is 400; expected at most the 256 nodes"),
        ({"correlated": [{"name": "gpu", "nodes": 4, "rate": 1e-3}]}, "'gpu' is the name of another component"),
        ({"faults": [{"name": "rail", "rate": 1e-3, "repair_h": 1}]}, "faults 0: expected one of without and step_s"),
        ({"faults": [{"name": "rail", "rate": 1e-3, "repair_h": 1, "without": {}}]}, "without needs goodput.experiment"),
        ({"faults": RAIL, "step_s": None}, "the step without a fault is missing"),
    ],
)
def test_an_error_names_the_key_and_the_value(changes: dict[str, Any], message: str) -> None:
    table = job(**changes)
    table["goodput"] = {key: value for key, value in table["goodput"].items() if value is not None}
    with pytest.raises(InputError, match=message):
        goodput(table)


def test_progress_rises_but_for_interruptions_and_ends_with_the_work(tmp_path: Path) -> None:
    file, progress, output = tmp_path / "job.toml", tmp_path / "progress.csv", tmp_path / "job.json"
    file.write_text(_toml(job()["goodput"]))
    arguments = ["goodput", str(file), "--seeds", "3", "--progress", str(progress), "--output", str(output), "--quiet"]
    assert CliRunner().invoke(cli.astra, arguments).exit_code == 0
    lines = [line.split(",") for line in progress.read_text().splitlines()[1:]]
    result = json.loads(output.read_text())
    ends = []
    for seed in ("0", "1", "2"):
        own = [(float(days), float(work)) for each, days, work in lines if each == seed]
        assert own[0] == (0, 0)
        assert own == sorted(own, key=lambda each: each[0])
        ends.append(own[-1])
    assert {days for days, _ in ends} == {60.0}
    assert sum(work / 60 for _, work in ends) / 3 == pytest.approx(result["monte_carlo"]["goodput"]["mean"], rel=1e-6)
    refused = CliRunner().invoke(cli.astra, ["goodput", str(file), "--progress", str(progress)])
    assert refused.exit_code
    assert "--seeds is 0; expected random runs" in str(refused.exception)
