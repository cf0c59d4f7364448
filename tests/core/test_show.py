"""Tables of results that were written: `astra show`, data frames and files."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import astra_sim
import pandas
import polars
import pyarrow.parquet
import pytest
from astra_sim import InputError
from astra_sim.command.cli import astra
from astra_sim.report import frames
from astra_sim.results import read_results, tables_of
from click.testing import CliRunner
from support import ROOT

VGG16 = str(ROOT / "examples" / "vgg16_tpu_v2.toml")


@pytest.fixture(scope="module")
def result() -> astra_sim.Result:
    return astra_sim.simulate(VGG16)


@pytest.fixture(scope="module")
def folder(result: astra_sim.Result, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    astra_sim.write_reports(result, folder, reports=())
    return folder


def show(*arguments: Any) -> str:
    done = CliRunner().invoke(astra, ["show", *map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_tables_of_a_file_are_those_of_the_result(result: astra_sim.Result, folder: Path) -> None:
    tables = result.tables()
    del tables["timeline"]  # which is not written
    assert tables_of(read_results(str(folder))[1][0]) == tables
    assert {"run", "layers", "phases", "dimensions", "audit"} <= tables.keys()


def test_the_list_of_tables(folder: Path) -> None:
    lines = show(folder).splitlines()
    assert lines[0].split() == ["table", "rows", "columns"]
    assert ["layers", "16"] in [line.split()[:2] for line in lines]
    assert show(folder) == show(folder / "result.json")


@pytest.mark.parametrize("table", ["run", "layers", "phases", "dimensions"])
def test_a_table_in_all_forms(result: astra_sim.Result, folder: Path, table: str) -> None:
    rows = result.tables()[table]
    assert json.loads(show(folder, table, "--json")) == rows
    in_csv = list(csv.DictReader(io.StringIO(show(folder, table, "--csv"))))
    assert in_csv == [{name: "" if value is None else str(value) for name, value in row.items()} for row in rows]
    heading, *lines = show(folder, table).splitlines()
    assert heading.split() == list(rows[0])
    assert len(lines) == len(rows)
    for line, row in zip(lines, rows, strict=True):  # no digit is cut
        assert line.split() == ["-" if value in (None, "") else str(value) for value in row.values()]


def test_all_tables_at_once(result: astra_sim.Result, folder: Path) -> None:
    assert json.loads(show(folder, "--json"))["layers"] == result.tables()["layers"]


def test_several_runs_have_a_column_for_their_names(tmp_path: Path) -> None:
    runs = [astra_sim.simulate(VGG16, run_name=name, passes=passes) for passes, name in enumerate("ab", 1)]
    astra_sim.write_reports(runs, tmp_path, reports=())
    rows = json.loads(show(tmp_path, "dimensions", "--json"))
    assert [(row["run_name"], row["dimension"]) for row in rows] == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    assert [row["finish_ns"] for row in json.loads(show(tmp_path, "run", "--json"))] == [run.finish_ns for run in runs]


def test_tables_of_the_network_are_tables_too(tmp_path: Path) -> None:
    ring = "plugin:ring?size=4&links=2&link_bandwidth_gb_per_s=1&link_latency_ns=100"
    network = "plugin:analytical?congestion=aware&link_figures=true"
    result = astra_sim.simulate(workload="plugin:collective?bytes=65536", platform=ring, network=network)
    astra_sim.write_reports(result, tmp_path, reports=())
    assert json.loads(show(tmp_path, "network_links", "--json")) == result.network["links"]


@pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
def test_tables_as_files(result: astra_sim.Result, folder: Path, tmp_path: Path, ending: str) -> None:
    read = {"csv": pandas.read_csv, "json": pandas.read_json, "parquet": pandas.read_parquet}[ending]
    path = tmp_path / f"layers.{ending}"
    assert show(folder, "layers", "-o", path) == ""
    assert read(path)["weight_gradient_exposed_comm_ns"].tolist() == result.frame("layers")["weight_gradient_exposed_comm_ns"].tolist()
    again = tmp_path / f"again.{ending}"
    result.write_table("layers", again)
    assert again.read_bytes() == path.read_bytes()


def test_parquet_keeps_numbers_as_numbers(tmp_path: Path) -> None:
    frames.write_rows([{"a": 1, "b": None, "c": "x"}, {"a": 2.5, "b": 7, "d": True}], tmp_path / "mixed.parquet")
    assert pyarrow.parquet.read_table(tmp_path / "mixed.parquet").to_pylist() == [
        {"a": 1.0, "b": None, "c": "x", "d": None},
        {"a": 2.5, "b": 7, "c": None, "d": True},
    ]


def test_frames_of_pandas_and_polars(result: astra_sim.Result) -> None:
    for table in ("run", "layers", "phases", "dimensions", "timeline"):
        frame = result.frame(table, library="polars")
        assert isinstance(frame, polars.DataFrame)
        assert frame.to_dicts() == result.tables()[table]
    assert isinstance(result.frame("layers"), pandas.DataFrame)


def test_a_column_may_begin_with_whole_numbers() -> None:
    rows = [{"ns": 1}] * 500 + [{"ns": 0.5}]
    assert frames.frame_of(rows, "polars")["ns"].sum() == 500.5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["layer"], r"there is no table 'layer'; did you mean 'layers'\?"),
        (["layers", "-o", "x.txt"], r"x\.txt: expected a name that ends in \.csv, \.json, \.parquet"),
        (["-o", "x.csv"], r"--output x\.csv needs TABLE"),
        (["--csv"], "--csv needs TABLE"),
        (["layers", "--csv", "--json"], "--json and --csv are given"),
    ],
)
def test_what_cannot_be_shown_is_said(folder: Path, arguments: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        CliRunner().invoke(astra, ["show", str(folder), *arguments], catch_exceptions=False)


def test_what_is_no_result_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"No such file"):
        CliRunner().invoke(astra, ["show", str(tmp_path / "none.json")], catch_exceptions=False)
    with pytest.raises(InputError, match="library is 'numpy'; expected pandas or polars"):
        frames.frame_of([], "numpy")


@pytest.mark.parametrize(("missing", "what"), [("pandas", "data frames"), ("polars", "data frames"), ("pyarrow", "Parquet files")])
def test_a_library_that_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, result: astra_sim.Result, tmp_path: Path, missing: str, what: str
) -> None:
    def absent(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr("importlib.import_module", absent)
    asks: dict[str, Callable[[], Any]] = {
        "pandas": lambda: result.frame("layers"),
        "polars": lambda: result.frame("layers", library="polars"),
        "pyarrow": lambda: result.write_table("layers", tmp_path / "layers.parquet"),
    }
    with pytest.raises(InputError, match=f"{what} need {missing}: pip install {missing}"):
        asks[missing]()
    assert not list(tmp_path.iterdir())
