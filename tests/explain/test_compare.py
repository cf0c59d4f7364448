"""`astra compare`, reports of several runs, and results as tables."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import astra_sim
import pytest
from astra_sim.command.cli import run
from astra_sim_explain.compare import choices, compare, figures_of, row_of_run
from click.testing import CliRunner
from support import ROOT

VGG16 = str(ROOT / "examples" / "vgg16_tpu_v2.toml")
SPLITS = ("--set", "system.splits=4", "--set", "system.splits=16")


def test_every_combination_of_choices_is_run_and_compared_with_the_first() -> None:
    done = CliRunner().invoke(compare, [VGG16, *SPLITS, "--set", "system.all_reduce=ring", "--set", "system.all_reduce=direct", "--json"])
    assert done.exit_code == 0
    rows = json.loads(done.stdout)
    assert [row["run"] for row in rows] == [
        "splits=4 all_reduce=ring",
        "splits=4 all_reduce=direct",
        "splits=16 all_reduce=ring",
        "splits=16 all_reduce=direct",
    ]
    assert [(row["splits"], row["all_reduce"]) for row in rows] == [(4, "ring"), (4, "direct"), (16, "ring"), (16, "direct")]
    assert rows[0]["finish_ns"] == 5489225
    assert [round(row["finish_ratio"], 3) for row in rows] == [round(row["finish_ns"] / 5489225, 3) for row in rows]


def test_one_network_against_another_on_the_same_experiment() -> None:
    networks = ["--network", "plugin:analytical", "--network", "plugin:analytical?rounding=picosecond"]
    done = CliRunner().invoke(compare, [VGG16, *networks])
    assert done.exit_code == 0
    assert "5489.225" in done.output
    assert "1.000" in done.output


def test_experiments_are_choices_too() -> None:
    result = choices([VGG16, "other.toml"], {"network": ["a", "b"]}, ["run.passes=2"])
    assert [label for label, _ in result] == [f"{e} {n}" for e in ("vgg16_tpu_v2", "other") for n in ("a", "b")]
    assert [choice.parameters for _, choice in result[:2]] == [{"experiment": VGG16, "network": "a"}, {"experiment": VGG16, "network": "b"}]
    assert all([(change.key, change.value) for change in choice.changes][1:] == [("run.passes", "2")] for _, choice in result)


@pytest.mark.parametrize(
    ("given", "components", "labels"),
    [
        (["system.splits=4", "system.splits=8"], {}, ["splits=4", "splits=8"]),
        (["platform.dimensions.0.size=4", "platform.dimensions.1.size=2", "platform.dimensions.1.size=8"], {}, ["size=2", "size=8"]),
        (["a.0.size=1", "a.0.size=2", "a.1.size=3", "a.1.size=4"], {}, ["0.size=1 1.size=3", "0.size=1 1.size=4"]),
        ([], {"network": ["plugin:analytical", "plugin:packet?preset=garnet"]}, ["analytical", "packet?preset=garnet"]),
        ([], {"workload": ["a/one.txt", "b/two.txt"]}, ["one", "two"]),
        ([], {"workload": ["a/one.txt", "b/one.txt"]}, ["a/one.txt", "b/one.txt"]),
        (["system.splits=4"], {}, ["run"]),
    ],
)
def test_names_of_runs_are_short_and_tell_them_apart(given: list[str], components: dict[str, list[str]], labels: list[str]) -> None:
    result = [label for label, _ in choices([], components, given)]
    assert result[: len(labels)] == labels
    assert len(set(result)) == len(result)


def test_parameters_are_numbers_where_they_read_as_some_and_stand_apart_from_figures() -> None:
    (_, first), _ = choices([], {}, ["run.npus=4", "run.npus=0.5"])
    assert first.parameters == {"npus": 4}
    row = row_of_run(first.parameters, figures_of(astra_sim.simulate(VGG16), 1.0))
    assert (row["npus"], row["result_npus"], row["run"]) == (4, 256, "vgg16_tpu_v2")
    assert choices([], {}, ["run.x=a", "run.x=1e3"])[1][1].parameters == {"x": 1000.0}
    assert list(row_of_run({"run": 1}, {"run": "run=1", "npus": 4}).items()) == [("run", 1), ("result_run", "run=1"), ("npus", 4)]


def test_each_run_has_a_timeline_and_names_begin_as_they_are_told_to(tmp_path: Path) -> None:
    arguments = [VGG16, *SPLITS, "--run-name", "study", "--timeline", str(tmp_path / "t.pftrace.gz"), "--quiet"]
    done = CliRunner().invoke(compare, arguments, catch_exceptions=False)
    assert done.exit_code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t_study_splits=16.pftrace.gz", "t_study_splits=4.pftrace.gz"]


def test_compare_takes_every_option_of_run() -> None:
    options = {option for parameter in run.params for option in parameter.opts if option.startswith("-")}
    assert options <= {option for parameter in compare.params for option in parameter.opts}


def test_too_many_combinations_are_an_error() -> None:
    with pytest.raises(astra_sim.InputError, match="expected at most 10000"):
        choices([], {}, [f"system.{key}={value}" for key in "abcdef" for value in range(9)])


def test_the_reports_of_several_runs_have_a_row_for_each(tmp_path: Path) -> None:
    done = CliRunner().invoke(compare, [VGG16, *SPLITS, "--output", str(tmp_path), "--json"])
    assert done.exit_code == 0
    with (tmp_path / "backend_end_to_end.csv").open() as text:
        assert [row["RunName"] for row in csv.DictReader(text)] == ["splits=4", "splits=16"]
    lines = (tmp_path / "EndToEnd.csv").read_text().splitlines()
    assert [line.split(",")[:2] for line in lines[1:4]] == [
        ["block1_conv1", "splits=4"],
        ["block1_conv1", "splits=16"],
        ["block1_conv2", "splits=4"],
    ]
    info = (tmp_path / "backend_dim_info.csv").read_text().splitlines()
    assert info[11].split(",")[:2] == ["splits=16", "0"]
    assert len(json.loads((tmp_path / "result.json").read_text())) == 2
    with (tmp_path / "runs.csv").open() as text:
        rows = list(csv.DictReader(text))
    assert [(row["run"], row["splits"]) for row in rows] == [("splits=4", "4"), ("splits=16", "16")]
    assert rows == [{name: str(value) for name, value in row.items()} for row in json.loads(done.stdout)]
    assert (tmp_path / "splits=16_dimension_utilization.csv").exists()


def test_results_are_tables_of_plain_python_and_data_frames() -> None:
    result = astra_sim.simulate(VGG16)
    tables = result.tables()
    assert tables["run"][0]["finish_ns"] == 5489225
    first = tables["layers"][0]
    assert first["weight_gradient_exposed_comm_ns"] == result.layers[0].weight_gradient.exposed_comm_ns
    assert [row["phase"] for row in tables["phases"][:3]] == [1, 2, 3]
    assert {row["dimension"] for row in tables["dimensions"]} == {0, 1}
    frame = result.frame("layers")
    assert frame["forward_compute_ns"].sum() == 611746  # of all 1831809 ns
    with pytest.raises(astra_sim.InputError, match="layers"):
        result.frame("layer")
