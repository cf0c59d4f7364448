"""Axes and points: which there are, and in which order; errors in sweep files."""

from __future__ import annotations

import datetime
import pickle
from pathlib import Path
from typing import Any

import pytest
from astra_sim import InputError
from astra_sim.commands import shared_plugins
from astra_sim_sweep.axes import AxisSpan
from astra_sim_sweep.plan import SweepPlan, read_plan
from astra_sim_sweep.points import shuffled
from hypothesis import given
from hypothesis import strategies as st
from support.sweeps import PLATFORM

BASE = {"platform": PLATFORM, "workload": "plugin:collective?bytes=4096"}


def plan_of(axes: dict[str, Any], **tables: Any) -> SweepPlan:
    return read_plan({"base": BASE, "axes": axes, **tables})


def values(plan: SweepPlan, *names: str) -> list[Any]:
    """The columns of the points that are not left out."""
    rows = [tuple(point.parameters[name] for name in names) for point in plan if point.skipped_by is None]
    return [row[0] for row in rows] if len(names) == 1 else rows


@pytest.mark.parametrize(
    ("axis", "expected"),
    [
        ([1, 2.5, "a"], [1, 2.5, "a"]),
        ({"values": [True, False]}, [True, False]),
        ({"range": [1, 7, 2]}, [1, 3, 5, 7]),
        ({"range": [1, 8, 2]}, [1, 3, 5, 7]),
        ({"range": [0.1, 0.5, 0.1]}, [0.1, 0.2, 0.3, 0.4, 0.5]),
        ({"range": [4, 1, -1]}, [4, 3, 2, 1]),
        ({"logspace": [1, 1000, 4]}, [1, 10, 100, 1000]),
        ({"logspace": [1, 4, 3], "whole": True}, [1, 2, 4]),
        ({"logspace": [1e-300, 1e300, 3]}, [1e-300, 1.0, 1e300]),
        ({"logspace": [1, 2, 6], "whole": True}, [1, 2]),
        ({"logspace": [1.0, 100.0, 3]}, [1.0, 10.0, 100.0]),
        ({"values": [["ring"], ["direct"]], "labels": ["a", "b"]}, ["a", "b"]),
        ([{"size": 4}], ['{"size": 4}']),
    ],
)
def test_the_values_of_an_axis(axis: Any, expected: list[Any]) -> None:
    result = values(plan_of({"x": axis}), "x")
    assert result == pytest.approx(expected) if isinstance(expected[0], float) else result == expected
    assert [type(value) for value in result] == [type(value) for value in expected]


def test_a_grid_has_every_combination_and_the_last_axis_varies_fastest() -> None:
    plan = plan_of({"a": [1, 2], "b": [3, 4]})
    assert plan.points.count == 4
    assert values(plan, "a", "b") == [(1, 3), (1, 4), (2, 3), (2, 4)]


def test_zipped_axes_go_in_step() -> None:
    plan = plan_of({"a": [1, 2], "b": {"values": [3, 4], "zip": "a"}, "c": [5, 6]})
    assert values(plan, "a", "b", "c") == [(1, 3, 5), (1, 3, 6), (2, 4, 5), (2, 4, 6)]


def test_values_are_derived_whatever_their_order_and_points_are_skipped() -> None:
    derive = {"half": "whole / 2", "whole": "a * b", "npus": 8}
    plan = plan_of({"a": [1, 2, 4], "b": [2, 4]}, derive=derive, skip={"too_many": "whole > npus", "odd": "half == 1"})
    assert values(plan, "a", "b", "whole", "half") == [(1, 4, 4, 2), (2, 2, 4, 2), (2, 4, 8, 4), (4, 2, 8, 4)]
    assert [point.skipped_by for point in plan] == ["odd", None, None, None, None, "too_many"]


def test_a_value_that_cannot_be_derived_is_the_error_of_its_point() -> None:
    plan = plan_of({"a": [0, 1]}, derive={"b": "1 / a"})
    first, second = plan
    assert first.error == "sweep: derive: b: '1 / a': division by zero"
    assert first.parameters == {"a": 0, "b": None}
    assert second.error is None


def test_options_of_any_component_and_whole_components_are_set() -> None:
    axes = {
        "platform": {
            "values": [PLATFORM, "plugin:switch?size=8&link_bandwidth_gb_per_s=9&link_latency_ns=1"],
            "labels": ["ring", "switch"],
        },
        "system": {"splits": {"values": [2, 4], "name": "splits"}},
        "run": {"passes": [3]},
        "network": ["plugin:analytical", "plugin:packet"],
    }
    plan = plan_of(axes, derive={"platform.size": "8 if platform == 'ring' else 16"})
    assert plan.columns == ["platform", "splits", "run.passes", "network", "platform.size"]
    experiments = [plan.experiment(number, shared_plugins()) for number in range(plan.points.count)]
    assert [e.sections["platform"]["plugin"] for e in experiments] == ["ring"] * 4 + ["switch"] * 4
    assert [e.sections["platform"]["size"] for e in experiments] == [8] * 4 + [16] * 4
    assert [e.sections["system"]["splits"] for e in experiments] == [2, 2, 4, 4] * 2
    assert [e.sections["network"]["plugin"] for e in experiments] == ["analytical", "packet"] * 4
    assert {e.run["passes"] for e in experiments} == {3}


def test_what_does_not_change_the_experiment_does_not_change_the_key() -> None:
    plan = plan_of({"note": ["a", "b"], "system.splits": [2, 4]})
    keys = [point.key for point in plan]
    assert keys[:2] == keys[2:]
    assert keys[0] != keys[1]


def test_the_key_follows_the_contents_of_files(tmp_path: Path) -> None:
    def keys() -> list[bytes]:
        return [point.key for point in read_plan(tmp_path / "sweep.toml")]

    (tmp_path / "ring.toml").write_text('plugin = "ring"\nsize = 4\nlink_bandwidth_gb_per_s = 1\nlink_latency_ns = 1\n')
    (tmp_path / "graph.csv").write_text("source,target\n")
    text = f'[base]\nworkload = "plugin:collective?bytes=1"\n[axes]\nplatform = ["ring.toml", "plugin:graph?file={tmp_path}/graph.csv"]\n'
    (tmp_path / "sweep.toml").write_text(text)
    before = keys()
    assert keys() == before
    (tmp_path / "graph.csv").write_text("source,target,bandwidth\n")
    changed = keys()
    assert changed[0] == before[0]
    assert changed[1] != before[1]
    (tmp_path / "ring.toml").write_text('plugin = "ring"\nsize = 8\nlink_bandwidth_gb_per_s = 1\nlink_latency_ns = 1\n')
    assert keys()[0] != before[0]


def test_experiments_are_an_axis_too(tmp_path: Path) -> None:
    for name, size in (("a", 4), ("b", 8)):
        text = f'workload = "plugin:collective?bytes=64"\nplatform = "{PLATFORM}"\n'.replace("size=4", f"size={size}")
        (tmp_path / f"{name}.toml").write_text(text)
    (tmp_path / "sweep.toml").write_text('[base]\nset = ["run.passes=2"]\n[axes]\nexperiment = ["a.toml", "b.toml"]\n')
    plan = read_plan(tmp_path / "sweep.toml")
    assert values(plan, "experiment") == ["a.toml", "b.toml"]
    assert [plan.experiment(n, shared_plugins()).sections["platform"]["size"] for n in (0, 1)] == ["4", "8"]
    assert plan.experiment(0, shared_plugins()).run == {"passes": "2"}


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "groups.toml").write_text("pair = [0, 1]\n")
    (tmp_path / "ring.toml").write_text('plugin = "ring"\nsize = 4\nlink_bandwidth_gb_per_s = 1\nlink_latency_ns = 1\n')
    (tmp_path / "sweep.toml").write_text('[axes]\nrun.groups = ["groups.toml"]\n[derive]\nplatform = "\'ring.toml\'"\n')
    plan = read_plan(tmp_path / "sweep.toml")
    experiment = plan.experiment(0, shared_plugins())
    assert experiment.run["groups"] == {"pair": [0, 1]}
    assert experiment.sections["platform"]["size"] == 4
    before = plan.point(0).key
    (tmp_path / "groups.toml").write_text("pair = [0, 2]\n")
    assert read_plan(tmp_path / "sweep.toml").point(0).key != before


# -- Points that are drawn ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["random", "latin_hypercube"])
def test_the_same_seed_draws_the_same_points_and_another_others(method: str) -> None:
    axes = {"x": {"uniform": [1.0, 2.0]}, "y": {"loguniform": [1, 1024], "whole": True}, "z": ["a", "b", "c"]}
    drawn = [values(plan_of(axes, sample={"method": method, "points": 50, "seed": seed}), "x", "y", "z") for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    for x, y, z in drawn[0]:
        assert 1 <= x <= 2
        assert isinstance(y, int)
        assert 1 <= y <= 1024
        assert z in ("a", "b", "c")
    assert len({x for x, _, _ in drawn[0]}) == 50


def test_a_latin_hypercube_has_one_point_in_each_step_of_each_axis() -> None:
    axes = {"x": {"uniform": [0.0, 40.0]}, "y": {"uniform": [0.0, 40.0]}, "z": ["a", "b"]}
    points = values(plan_of(axes, sample={"method": "latin_hypercube", "points": 40, "seed": 3}), "x", "y", "z")
    for axis in (0, 1):
        assert sorted(int(point[axis]) for point in points) == list(range(40))
    assert [point[2] for point in points].count("a") == 20
    assert [int(point[0]) for point in points] != [int(point[1]) for point in points]


def test_axes_that_are_not_drawn_are_a_grid_of_the_drawn_points() -> None:
    plan = plan_of({"n": ["a", "b"], "x": {"uniform": [0, 1]}}, sample={"method": "random", "points": 3, "axes": ["x"]})
    points = values(plan, "n", "x")
    assert [n for n, _ in points] == ["a"] * 3 + ["b"] * 3
    assert [x for _, x in points[:3]] == [x for _, x in points[3:]]


@given(count=st.integers(1, 3000), seed=st.binary(max_size=8))
def test_a_shuffle_goes_to_each_place_once(count: int, seed: bytes) -> None:
    assert sorted(shuffled(number, count, seed) for number in range(count)) == list(range(count))


@given(share=st.floats(0, 1, exclude_max=True), low=st.integers(1, 50), more=st.integers(1, 50), logarithmic=st.booleans())
def test_numbers_of_a_span_lie_in_it(share: float, low: int, more: int, logarithmic: bool) -> None:
    for whole in (False, True):
        assert low <= AxisSpan(low, low + more, logarithmic, whole).at(share) <= low + more


def test_points_are_counted_and_found_without_a_list_of_them() -> None:
    axes = {name: {"range": [1, 1000, 1]} for name in "abcdef"}
    plan = pickle.loads(pickle.dumps(plan_of(axes)))
    assert plan.points.count == 10**18
    assert plan.point(10**18 - 2).parameters == {**dict.fromkeys("abcde", 1000), "f": 999}


# -- Errors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ({"axis": {}}, "sweep: unknown key 'axis'; did you mean 'axes'?"),
        ({"axes": 3}, "sweep: axes is 3, not a table"),
        ({"axes": {"a": 3}}, "sweep: axes: a is 3; expected a list of values, or a table with one of values, range"),
        ({"axes": {"a": []}}, "sweep: axes: a: values is []; expected a list of at least one value"),
        ({"axes": {"a": {"rnage": 1, "name": "x"}}}, "sweep: axes: a: unknown key 'rnage'; did you mean 'range'?"),
        ({"axes": {"a": {"range": [1, 2, 1], "values": [1]}}}, "sweep: axes: a has values and range; expected one of"),
        ({"axes": {"a": {"range": [1, 2]}}}, "sweep: axes: a: range is [1, 2]; expected [first, last, step], all of them numbers"),
        ({"axes": {"a": {"range": [1, 2, 0]}}}, "expected a step that leads from 1 to 2"),
        ({"axes": {"a": {"range": [0, 1, 1e-9]}}}, "which has 1000000001 values; expected at most 10000000"),
        ({"axes": {"a": {"logspace": [0, 2, 3]}}}, "expected first and last above 0"),
        ({"axes": {"a": {"values": [1, 2], "labels": ["x"]}}}, "expected a list of text, one for each of the 2 values"),
        ({"axes": {"a": {"values": [1], "whole": True}}}, "whole = true has no effect on values"),
        ({"axes": {"a": {"uniform": [1, 2]}}}, "axes: a: numbers of a span are drawn; expected a table [sample]"),
        ({"axes": {"a": {"uniform": [2, 1]}}}, "a: uniform is [2, 1]; expected low below high"),
        ({"axes": {"a": {"uniform": [1, 2], "zip": "b"}}}, "a: zip and uniform are given"),
        ({"axes": {"a": {"values": [1], "zip": "b"}}}, "sweep: axes: a: zip is 'b'; known: none"),
        ({"axes": {"a": {"values": [1], "zip": "b"}, "b": [1, 2]}}, "axes: a has 1 values, and b, with which it goes in step, 2"),
        (
            {"axes": {"a": [1]}, "sample": {"method": "sobol", "points": 1}},
            "sweep: sample: method is 'sobol'; known: latin_hypercube, random",
        ),
        ({"axes": {"a": [1]}, "sample": {"method": "random", "points": 1, "axes": ["b"]}}, "sample: axes: there is no axis 'b'; known: a"),
        ({"axes": {"systm.splits": [1]}}, "'systm.splits' is neither an option (section.key; did you mean 'system'?)"),
        ({"axes": {"wall_s": [1]}}, "axes: wall_s: the name 'wall_s' is that of a column of results; expected another"),
        ({"axes": {"a": {"values": [1], "zip": "a"}}}, "axes: a: zip is 'a', its own name; expected that of another axis"),
        (
            {"axes": {"a": [1], "b": {"values": [1], "zip": "a"}, "c": {"values": [1], "zip": "b"}}},
            "axes: c: zip is 'b'; that axis goes in step with 'a'; expected 'a'",
        ),
        ({"axes": {"system": {"splits": [1]}, "system.splits": [2]}}, "axes: system.splits is there twice"),
        ({"axes": {"a": [1]}, "derive": {"x": {"y": 1}, "x.y": 2}}, "derive: x.y is there twice"),
        ({"axes": {"a": [datetime.date(2026, 1, 2)]}}, "axes: a: 2026-01-02 is a date; expected text, numbers"),
        ({"axes": {"a": [{"b": [datetime.date(2026, 1, 2)]}]}}, "axes: a: 2026-01-02 is a date; expected text, numbers"),
        ({"axes": {"a": {"uniform": [-1e308, 1e308]}}}, "axes: a: uniform is [-1e+308, 1e+308]; expected ends whose difference"),
        ({"axes": {"a": {"values": [1], "name": "x"}, "b": {"values": [1], "name": "x"}}}, "there are two axes with the name 'x'"),
        ({"axes": {"a": [1]}, "derive": {"b": "c + a"}}, "sweep: derive: b: 'c + a': there is no 'c'; "),
        ({"axes": {}, "derive": {"b": "c", "c": "b"}}, "these values need each other"),
        ({"axes": {"a": [1]}, "derive": {"a": "1"}}, "derive: a is the name of an axis, too"),
        ({"axes": {"a": [1]}, "skip": {"s": "b > 1"}}, "sweep: skip: s: 'b > 1': there is no 'b'; known: a"),
        ({"axes": {"a": [1]}, "skip": {"s": True}}, "sweep: skip: s is True; expected an expression, as text"),
        ({"axes": {"run": [1]}}, "sweep: axes: run is the section of all options of the run; expected one of them, such as run.passes"),
        ({"axes": {"network": {"uniform": [1, 2]}}}, "sweep: axes: network: numbers are no network; expected a list of values"),
        ({"base": {"experimnt": "x"}}, "sweep: base: unknown key 'experimnt'; did you mean 'experiment'?"),
        ({"base": {"experiment": 3}}, "sweep: base: experiment is 3; expected the path of an experiment file"),
        ({"base": {"experiment": "nothing.toml"}}, "'nothing.toml': No such file or directory"),
        ({"base": {"set": "system.splits=8"}}, "sweep: base: set is 'system.splits=8'; expected a list"),
        ({"base": {"workload": 3}}, "sweep: base: workload is 3; expected plugin:NAME, a path, or a table"),
        ({"axes": {"network": ["nothing.toml"]}}, "sweep: axes: network: nothing.toml: No such file or directory"),
        ({"axes": {"network": [3]}}, "sweep: axes: network: 3 is not plugin:NAME, a path, or a table"),
    ],
)
def test_what_is_wrong_is_told_with_its_key_and_value(tables: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        read_plan(tables)
    assert words in str(caught.value)
