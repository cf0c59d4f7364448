"""`astra compare`, reports of several runs, and results as tables."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import astra_sim
import pytest
from astra_sim.command.compare import choices, compare
from click.testing import CliRunner
from support import ROOT

VGG16 = str(ROOT / "examples" / "vgg16_tpu_v2.toml")
SPLITS = ("--set", "system.splits=4", "--set", "system.splits=16")


def test_every_combination_of_choices_is_run_and_compared_with_the_first() -> None:
    done = CliRunner().invoke(compare, [VGG16, *SPLITS, "--set", "system.all_reduce=ring", "--set", "system.all_reduce=direct", "--json"])
    assert done.exit_code == 0
    rows = json.loads(done.stdout)
    assert [row["run"] for row in rows] == [
        "system.splits=4 system.all_reduce=ring",
        "system.splits=4 system.all_reduce=direct",
        "system.splits=16 system.all_reduce=ring",
        "system.splits=16 system.all_reduce=direct",
    ]
    assert rows[0]["finish_ns"] == 5489225
    assert [round(row["finish_ratio"], 3) for row in rows] == [round(row["finish_ns"] / 5489225, 3) for row in rows]


def test_one_network_against_another_on_the_same_experiment() -> None:
    networks = ["--network", "plugin:analytical", "--network", "plugin:analytical?rounding=picosecond"]
    done = CliRunner().invoke(compare, [VGG16, *networks])
    assert done.exit_code == 0
    assert "5489.225" in done.output
    assert "1.000" in done.output


def test_experiments_are_choices_too() -> None:
    made = choices([VGG16, "other.toml"], {"network": ["a", "b"]}, ["run.passes=2"])
    assert [label for label, _ in made] == [f"{e} {n}" for e in (VGG16, "other.toml") for n in ("a", "b")]
    assert all(choice.assignments == ("run.passes=2",) for _, choice in made)


def test_too_many_combinations_are_an_error() -> None:
    with pytest.raises(astra_sim.InputError, match="expected at most 10000"):
        choices([], {}, [f"system.{key}={value}" for key in "abcdef" for value in range(9)])


def test_the_reports_of_several_runs_have_a_row_for_each(tmp_path: Path) -> None:
    done = CliRunner().invoke(compare, [VGG16, *SPLITS, "--output", str(tmp_path), "--json"])
    assert done.exit_code == 0
    with (tmp_path / "backend_end_to_end.csv").open() as text:
        assert [row["RunName"] for row in csv.DictReader(text)] == ["system.splits=4", "system.splits=16"]
    lines = (tmp_path / "EndToEnd.csv").read_text().splitlines()
    assert [line.split(",")[:2] for line in lines[1:4]] == [
        ["block1_conv1", "system.splits=4"],
        ["block1_conv1", "system.splits=16"],
        ["block1_conv2", "system.splits=4"],
    ]
    info = (tmp_path / "backend_dim_info.csv").read_text().splitlines()
    assert info[11].split(",")[:2] == ["system.splits=16", "0"]
    assert len(json.loads((tmp_path / "result.json").read_text())) == 2
    assert (tmp_path / "system.splits=16_dimension_utilization.csv").exists()


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
