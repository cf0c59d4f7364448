"""Searches: which design is the best, whoever chooses the points."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import astra_sim
import pytest
from astra_sim import InputError
from astra_sim_sweep import search, sweep
from astra_sim_sweep.dask_workers import end_idle
from astra_sim_sweep.expressions import Expression
from astra_sim_sweep.goals import MEMORY, Constraint, Front, Goal, Objective
from astra_sim_sweep.search_command import search as command
from astra_sim_sweep.search_files import SAMPLERS, read_search
from astra_sim_sweep.searching import Found, Search
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from support.sweeps import PLATFORM, read_rows, steady

BASE = {"platform": PLATFORM, "workload": "plugin:collective"}
AXES = {
    "workload.bytes": {"values": [1 << 20, 1 << 14, 1 << 18, 1 << 16], "name": "bytes"},
    "system.splits": {"values": [1, 2, 4, 8], "name": "splits"},
}
TIME = "finish_ns / bytes"


def tables(options: dict[str, Any], axes: dict[str, Any] = AXES, **others: Any) -> dict[str, Any]:
    return {"base": BASE, "axes": axes, "search": options, **others}


def parameters(summary: Found) -> list[tuple[Any, ...]]:
    return [(row["bytes"], row["splits"]) for row in summary.best]


def expression(text: str) -> Expression:
    return Expression(text, "test")


# -- The best points ---------------------------------------------------------------------------------------------------

ROWS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=25)


@given(ROWS, st.booleans(), st.booleans())
def test_a_front_is_that_of_brute_force(rows: list[tuple[int, int]], more_of_x: bool, more_of_y: bool) -> None:
    front = Front(Goal([Objective(expression("x"), more_of_x), Objective(expression("y"), more_of_y)], []))
    for number, row in enumerate(rows):
        front.add(number, row)

    def is_better(one: tuple[int, int], other: tuple[int, int]) -> bool:
        gains = [(a - b) * (1 if more else -1) for a, b, more in zip(one, other, (more_of_x, more_of_y), strict=True)]
        return min(gains) >= 0 and max(gains) > 0

    expected = {number for number, row in enumerate(rows) if not any(is_better(other, row) for other in rows)}
    assert set(front.numbers) == expected


@given(st.integers(-9, 9), st.integers(-9, 9))
def test_a_constraint_is_broken_where_its_condition_is_false(x: int, y: int) -> None:
    for sign, holds in (("<", x < y), ("<=", x <= y), (">", x > y), (">=", x >= y), ("==", x == y)):
        excess = Constraint("c", expression(f"x {sign} y")).excess({"x": x, "y": y})
        assert (excess == 0) == holds
        assert excess >= 0


def test_what_is_further_from_a_budget_has_more_excess() -> None:
    budget = Constraint("budget", expression("cost <= 100"))
    assert [budget.excess({"cost": cost}) for cost in (100, 125, 200)] == [0, 0.2, 0.5]


# -- Points ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("span", [{"uniform": [2.5, 40]}, {"loguniform": [0.1, 1000]}, {"uniform": [3, 9], "whole": True},
                                  {"loguniform": [1, 4096], "whole": True}])  # fmt: skip
def test_a_span_has_both_ends_and_a_number_for_each_step(span: dict[str, Any]) -> None:
    axes = {"x": span, "y": [1, 2, 3]}
    points = read_search(
        tables({"minimize": "x * y", "method": "optuna"}, axes, base={**BASE, "workload": "plugin:collective?bytes=64"})
    ).plan.points
    low, high = next(value for key, value in span.items() if key != "whole")
    assert points.choices(0)["x"] == low
    assert points.choices(points.count - 1)["x"] == high
    chosen = points.groups[0].axes[0].span
    assert chosen is not None
    for position in (0, 1, chosen.steps // 3, chosen.steps - 1):
        assert chosen.nearest(chosen.step(position)) == position
        assert points.grid.positions(points.grid.number([position, 1])) == [position, 1]


# -- Searches ----------------------------------------------------------------------------------------------------------


def exhaustive(options: dict[str, Any], **others: Any) -> Found:
    result = search(tables(options | {"method": "exhaustive"}, **others), jobs=1)
    return result.finish()


def test_every_point_is_what_a_sweep_runs(tmp_path: Path) -> None:
    rows = list(sweep({"base": BASE, "axes": AXES}, jobs=1))
    results = search(tables({"minimize": TIME, "constraints": {"small": "bytes < 2 ** 18"}}), tmp_path / "found.csv", jobs=1)
    result = results.finish()
    best = min((row for row in rows if row["bytes"] < 1 << 18), key=lambda row: row["finish_ns"] / row["bytes"])
    assert parameters(result) == [(best["bytes"], best["splits"])]
    assert (result.run, result.feasible, result.infeasible_by) == (16, 8, {"small": 8})
    table = read_rows(tmp_path / "found.csv")
    assert [row["finish_ns"] for row in table] == [str(row["finish_ns"]) for row in rows]
    assert [row["infeasible_by"] == "small" for row in table] == [row["bytes"] >= 1 << 18 for row in rows]
    assert [(row["bytes"], row["splits"]) for row in table if row["best"] == "true"] == [(str(b), str(s)) for b, s in parameters(result)]


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_optuna_finds_the_best_of_a_small_space(sampler: str) -> None:
    pytest.importorskip("optuna")
    options = {"maximize": "bytes / finish_ns", "constraints": {"small": "bytes < 2 ** 20"}}
    skip = {"slow": "splits == 8"}
    expected = exhaustive(options, skip=skip)
    results = search(tables(options | {"method": "optuna", "sampler": sampler, "trials": 12}, skip=skip), jobs=1)
    result = results.finish()
    assert parameters(result) == parameters(expected)
    assert (result.run, result.feasible, result.infeasible) == (12, 9, 3)
    assert result.skipped <= 4
    assert result.best[0]["bytes / finish_ns"] == expected.best[0]["bytes / finish_ns"]


def test_optuna_finds_the_front_of_two_objectives() -> None:
    pytest.importorskip("optuna")
    options = {"minimize": "finish_ns", "maximize": "bytes * splits"}
    expected = exhaustive(options)
    result = search(tables(options | {"method": "optuna", "sampler": "nsga2", "trials": 16}), jobs=2).finish()
    assert len(expected.best) > 2
    assert parameters(result) == parameters(expected)


SPANS = {"workload.bytes": {"loguniform": [1024, 1 << 20], "whole": True, "name": "bytes"}, "system.splits": [1, 2, 4]}


def proposed(made: Search) -> list[Any]:
    return [row["bytes"] for row in made]


def test_a_seed_gives_the_same_points_also_after_an_interruption(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    wanted = tables({"minimize": TIME, "trials": 14, "seed": 3}, SPANS)
    whole = proposed(search(wanted, tmp_path / "whole.csv", jobs=1))
    assert len(set(whole)) > 10
    begun = iter(search(wanted, tmp_path / "parts.csv", jobs=1))
    first = [next(begun)["bytes"] for _ in range(12)]
    begun.close()
    assert first == whole[:12]
    resumed = search(wanted, tmp_path / "parts.csv", jobs=1, resume=True)
    assert sorted(proposed(resumed)) == sorted(whole)
    assert resumed.counts.run == 2
    assert resumed.counts.known == 12
    columns = [steady(read_rows(tmp_path / f"{name}.csv")) for name in ("whole", "parts")]
    assert columns[0] == columns[1]
    other = proposed(search(tables({"minimize": TIME, "trials": 14, "seed": 4}, SPANS), jobs=1))
    assert other != whole


def test_a_study_is_shared_and_its_points_are_run_once(tmp_path: Path) -> None:
    """Two tables with one storage: as two machines have them."""
    pytest.importorskip("optuna")
    options = {"minimize": TIME, "method": "optuna", "storage": f"sqlite:///{tmp_path}/study.sqlite"}
    first = search(tables(options | {"trials": 6}), tmp_path / "one.csv", jobs=1)
    first.finish()
    second = search(tables(options | {"trials": 16}), tmp_path / "two.csv", jobs=1)
    result = second.finish()
    assert (second.counts.known, second.counts.run, result.run) == (6, 10, 16)
    assert parameters(result) == parameters(exhaustive({"minimize": TIME}))
    another = search(tables(options | {"trials": 2, "minimize": "finish_ns"}), tmp_path / "three.csv", jobs=1)
    assert another.finish().run == 2
    dropped = search(tables(options | {"trials": 3}), tmp_path / "two.csv", jobs=1, overwrite=True)
    assert dropped.finish().run == 3


def test_searches_that_share_a_study_take_turns_and_have_all_rows(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    options = {"minimize": TIME, "trials": 12, "storage": f"{tmp_path}/study.log"}
    both = [search(tables(options, SPANS), tmp_path / f"{name}.csv", jobs=1) for name in "ab"]
    left = [iter(result) for result in both]
    while left:
        for rows in list(left):
            if next(rows, None) is None:
                left.remove(rows)
    runs = [result.counts.run for result in both]
    assert min(runs) >= 3
    assert 12 <= sum(runs) <= 14
    assert all(result.summary.run >= 12 for result in both)


def test_two_processes_on_one_study_run_its_trials_between_them(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    (tmp_path / "search.toml").write_text(
        f"""
[base]
platform = "{PLATFORM}"
workload = "plugin:collective"
[axes]
workload.bytes = {{ uniform = [1024, 1000000], whole = true, name = "bytes" }}
[search]
minimize = "finish_ns / bytes"
trials = 40
storage = "study.log"
"""
    )
    begin = [sys.executable, "-m", "astra_sim", "search", "search.toml", "--jobs", "1", "--json", "--output"]
    both = [subprocess.Popen([*begin, f"{name}.csv"], cwd=tmp_path, stdout=subprocess.PIPE, text=True) for name in "ab"]
    results = [process.communicate(timeout=240)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    result = [json.loads(each) for each in results]
    assert all(40 <= each["run"] <= 42 for each in result)  # what is under way elsewhere may come on top
    last = subprocess.run([*begin, "a.csv", "--resume"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert json.loads(last.stdout)["best"] == max((each["best"] for each in result), key=lambda best: -best[0]["finish_ns / bytes"])
    rows = steady(read_rows(tmp_path / "a.csv"))
    assert all(row in rows for row in steady(read_rows(tmp_path / "b.csv")) if row["best"] == "false")


def test_a_search_on_the_workers_of_dask(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    pytest.importorskip("optuna")
    options = {"processes": False, "n_workers": 1, "threads_per_worker": 2, "dashboard_address": ":0"}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        every = search(tables({"minimize": TIME}), tmp_path / "every.csv", client=client).finish()
        sampled = search(tables({"minimize": TIME, "trials": 6}, SPANS), tmp_path / "sampled.csv", client=client).finish()
    end_idle()
    assert every.run == 16
    assert parameters(every) == parameters(exhaustive({"minimize": TIME}))
    assert (sampled.run, sampled.failed) == (6, 0)
    with pytest.raises(InputError, match="jobs is for processes of this machine"):
        search(tables({"minimize": TIME}), jobs=1, client=client)


def llm(check: list[bool]) -> dict[str, Any]:
    return {
        "base": {
            "platform": "plugin:dgx_h100?nodes=1", "compute": "plugin:gpu?device=h100", "system": "plugin:astra2",
            "workload": "plugin:llm?model=llama3-8b&global_batch=8&detail=pass",
        },
        "axes": {
            "workload.tensor_parallel": {"values": [1, 2, 3, 8], "name": "tp"},
            "workload.check_memory": {"values": check, "name": "check"},
        },
        "search": {"minimize": "iteration_s"},
    }  # fmt: skip


def test_what_does_not_fit_in_memory_is_infeasible_and_no_failure(tmp_path: Path) -> None:
    results = search(llm([True]), tmp_path / "found.csv", jobs=1)
    result = results.finish()
    assert result.infeasible_by == {MEMORY: 2}
    assert (result.run, result.failed, result.feasible) == (4, 1, 1)
    assert "3" in result.first_error
    assert results.counts.failed == 1
    row = read_rows(tmp_path / "found.csv")[0]
    assert (row["tp"], row["feasible"], row["infeasible_by"]) == ("1", "false", "memory")
    assert float(row["memory_bytes"]) > float(row["memory_capacity_bytes"]) == int(74.2 * 2**30)  # less the margin
    unchecked = next(row for row in search(llm([False]), jobs=1) if row["tp"] == 1)
    assert unchecked["memory_bytes"] == float(row["memory_bytes"])


def test_an_error_of_memory_says_by_how_much() -> None:
    base = llm([True])["base"]
    with pytest.raises(astra_sim.CapacityError, match="GiB") as caught:
        astra_sim.simulate(**base)
    assert caught.value.needed_bytes > caught.value.capacity_bytes == int(74.2 * 2**30)  # less the margin


def test_a_failed_point_is_told_and_the_search_goes_on() -> None:
    pytest.importorskip("optuna")
    axes = {"workload.bytes": [1024], "system.splits": {"values": [1, 2, 0, 4], "name": "splits"}}
    result = search(tables({"minimize": "finish_ns", "method": "optuna"}, axes), jobs=1).finish()
    assert (result.run, result.failed, result.feasible) == (4, 1, 3)
    assert "splits" in result.first_error


# -- The command -------------------------------------------------------------------------------------------------------

FILE = f"""
[base]
platform = "{PLATFORM}"
workload = "plugin:collective"
[axes]
workload.bytes = {{ values = [1024, 4096], name = "bytes" }}
system.splits = [1, 2]
[search]
minimize = "finish_ns"
constraints.whole = "bytes >= LEAST"
"""


def run(folder: Path, text: str, *arguments: str) -> Any:
    path = folder / "search.toml"
    path.write_text(text)
    return CliRunner().invoke(command, [str(path), "--jobs", "1", *arguments])


def test_the_best_design_as_text_and_json(tmp_path: Path) -> None:
    text = FILE.replace("LEAST", "4096")
    results = run(tmp_path, text, "-o", str(tmp_path / "a.csv"))
    assert results.exit_code == 0, results.output
    assert "4,096" in results.output
    assert "4 points run, 2 infeasible (whole 2); rows in" in results.output
    again = run(tmp_path, text, "-o", str(tmp_path / "a.csv"))
    assert isinstance(again.exception, InputError)
    assert "--resume" in str(again.exception)
    result = json.loads(run(tmp_path, text, "-o", str(tmp_path / "a.csv"), "--resume", "--json").stdout)
    assert result["best"][0]["bytes"] == 4096
    assert (result["method"], result["run"], result["feasible"]) == ("exhaustive", 4, 2)
    assert "4 points, all of which are run" in run(tmp_path, text, "--dry-run").stdout
    plan = json.loads(run(tmp_path, text, "--dry-run", "--json").stdout)
    assert (plan["points"], plan["method"], len(plan["axes"]), plan["objectives"][0]["maximize"]) == (4, "exhaustive", 2, False)


def test_nothing_feasible_is_status_1(tmp_path: Path) -> None:
    result = run(tmp_path, FILE.replace("LEAST", "5000"), "-o", str(tmp_path / "a.csv"))
    assert result.exit_code == 1
    assert "no point that was run is feasible" in result.output
    assert (tmp_path / "a.csv").exists()


# -- Errors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "have 0 objectives; expected one or two"),
        ({"minimize": ["a", "b"], "maximize": "c"}, "have 3 objectives"),
        ({"minimize": "bytes", "maximize": "bytes"}, "an objective twice"),
        ({"minimize": "bytes", "sampler": "tp"}, "did you mean 'tpe'"),
        ({"minimize": "bytes", "trials": 0}, "trials is 0"),
        ({"minimize": "bytes", "method": "exhaustive", "trials": 3}, "trials is for method optuna"),
        ({"minimize": "bytes", "method": "optuna", "exhaustive_up_to": 3}, "exhaustive_up_to is for method auto"),
        ({"minimize": "bytes +"}, "search: minimize: 'bytes +': not an expression"),
        ({"minimize": "bytes", "constraints": {"c": 3}}, "constraints: c is 3"),
        ({"minimize": "bytes", "constraints": {"memory": "bytes > 3"}}, "expected another name"),
        ({"minimize": "feasible"}, "'feasible' is no figure"),
    ],
)
def test_an_error_names_key_and_value(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words.replace("+", r"\+").replace("(", r"\(")):
        read_search(tables(options))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sample": {"method": "random", "points": 3}}, "sample is a table of sweeps"),
        ({"serch": {}}, "did you mean 'search'"),
        ({"axes": {}}, "axes is missing"),
        ({"axes": {"best": [1, 2]}}, "the name 'best' is that of a column"),
        ({"axes": SPANS, "search": {"minimize": "bytes", "method": "exhaustive"}}, "workload.bytes is a span of numbers"),
    ],
)
def test_an_error_of_other_tables(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_search(tables({"minimize": "bytes"}) | change)


def test_a_name_that_no_row_has_ends_the_search() -> None:
    with pytest.raises(InputError, match=r"minimize: 'finish_n': there is no 'finish_n'; did you mean 'finish_ns'"):
        search(tables({"minimize": "finish_n"}), jobs=1).finish()


def test_without_optuna_or_what_a_sampler_needs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    options = {"minimize": "finish_ns", "method": "optuna"}
    pytest.importorskip("optuna")
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(InputError, match="sampler is 'qmc', which needs scipy: pip install scipy"):
        search(tables(options | {"sampler": "qmc"}), tmp_path / "a.csv")
    with pytest.raises(InputError, match="'cmaes', which has one objective"):
        search(tables(options | {"sampler": "cmaes", "maximize": "bytes"}))
    with pytest.raises(InputError, match="study of Optuna, nonsense://x"):
        search(tables(options | {"storage": "nonsense://x"}))
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(InputError, match=r"pip install 'astra-sim-sweep\[search\]'"):
        search(tables(options))
    assert search(tables({"minimize": "finish_ns"}), jobs=1).finish().run == 16


@pytest.mark.parametrize("method", ["exhaustive", "optuna"])
def test_platform_and_device_go_in_step_in_a_search(tmp_path: Path, method: str) -> None:
    if method == "optuna":
        pytest.importorskip("optuna")
    platform = "plugin:switch?size=8&link_bandwidth_gb_per_s={}&link_latency_ns=500"
    axes = {
        "platform": {"values": [platform.format(450), platform.format(300)], "labels": ["H100", "A100"], "name": "machine"},
        "compute.device": {"values": ["h100", "a100-80"], "zip": "machine", "name": "device"},
        "compute.stack": {"values": ["llm-foundry-h100", "llm-foundry-a100-80"], "zip": "machine", "name": "stack"},
        "workload.tensor_parallel": {"values": [1, 2], "name": "tp"},
    }
    base = {"compute": "plugin:gpu", "system": "plugin:astra2"}
    base["workload"] = "plugin:llm?model=llama2-7b&sequence=512&global_batch=8&detail=pass&check_memory=false"
    wanted = {"minimize": "finish_ns", "method": method} | ({"trials": 4} if method == "optuna" else {})
    results = search({"base": base, "axes": axes, "search": wanted}, tmp_path / "a.csv", jobs=1)
    result = results.finish()
    rows = read_rows(tmp_path / "a.csv")
    machines = {("H100", "h100", "llm-foundry-h100"), ("A100", "a100-80", "llm-foundry-a100-80")}
    assert {(row["machine"], row["device"], row["stack"]) for row in rows} == machines
    assert (result.run, result.failed, result.best[0]["machine"]) == (4, 0, "H100")
