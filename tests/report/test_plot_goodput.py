"""Figures and pages of months of training, of jobs and of samples: `astra plot` and `astra report`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from astra_sim import InputError
from astra_sim.command import cli
from astra_sim_report.outcomes import is_outcome, read_outcome
from click.testing import CliRunner
from support import ROOT

KINDS = {"months.json": "goodput", "jobs.json": "jobs", "sample.json": "sample", "serve.json": "serve"}
EXAMPLES = ROOT / "examples" / "goodput"


def astra(*arguments: object) -> Any:
    outcome = CliRunner().invoke(cli.astra, [str(each) for each in arguments], catch_exceptions=False, standalone_mode=False)
    return outcome.output


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The output of the commands: months of training, their progress, two jobs, and a sample."""
    folder = tmp_path_factory.mktemp("outcomes")
    paths = {name: folder / name for name in ("months.json", "progress.csv", "jobs.json", "sample.json")}
    file = folder / "months.toml"
    file.write_text((EXAMPLES / "llama3_405b.toml").read_text() + "\n[cost]\ngpu_hour_usd = 2\n")
    astra("goodput", file, "--seeds", 2, "--progress", paths["progress.csv"], "--output", paths["months.json"], "--quiet")
    paths["jobs.json"].write_text(astra("jobs", EXAMPLES / "two_jobs.toml", "--alone", "--json"))
    served = folder / "served.toml"
    served.write_text(
        '[serving]\nengine = "vllm"\nkv_blocks = 4096\nmodel = { name = "llama3-8b" }\n[serving.requests]\ncount = 20\nrate = 4.0\n'
        'input = 128\noutput = 16\n[compute]\nplugin = "gpu"\ndevice = "h100"\n'
    )
    paths["serve.json"] = folder / "serve.json"
    astra("serve", served, "--output", paths["serve.json"], "--quiet")
    noisy = folder / "noisy.toml"
    noisy.write_text(
        'workload = "plugin:collective?collective=all_reduce&bytes=4096"\nplatform = "plugin:ring?size=4&links=2&link_bandwidth_gb_per_s=50'
        '&link_latency_ns=100"\n[variation]\ncompute = [{ ranks = "1", factor = 2.0 }]\n'
    )
    paths["sample.json"].write_text(astra("sample", noisy, "--seeds", 2, "--json"))
    return paths


@pytest.mark.parametrize("form", ["svg", "png", "pdf"])
@pytest.mark.parametrize(("kind", "file"), [("progress", "progress.csv"), ("shares", "months.json")])
def test_a_figure_is_drawn(files: dict[str, Path], tmp_path: Path, kind: str, file: str, form: str) -> None:
    output = tmp_path / f"figure.{form}"
    astra("plot", files[file], kind, "-o", output)
    assert output.stat().st_size > 1000
    if form == "svg":
        assert ("days of work that count" if kind == "progress" else "writing checkpoints") in output.read_text()


def test_power_in_time_is_drawn(tmp_path: Path) -> None:
    experiment, run = tmp_path / "run.toml", tmp_path / "run"
    experiment.write_text(
        'workload = "plugin:collective?collective=all_reduce&bytes=4096"\nplatform = "plugin:ring?size=4&links=2&link_bandwidth_gb_per_s=50'
        '&link_latency_ns=100"\n[energy]\nidle_w = 100\ncompute_w = 650\n[cost]\ngpu_hour_usd = 2\n'
    )
    astra(experiment, "--output", run, "--quiet")
    astra("plot", run, "power", "-o", tmp_path / "power.svg")
    assert "power (kW)" in (tmp_path / "power.svg").read_text()
    astra("report", run, "-o", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "Mean power" in page
    assert "USD</td>" in page
    explained = astra("explain", experiment)
    assert "Energy and cost" in explained


def test_a_page_shows_what_a_month_costs_and_what_of_it_is_lost(files: dict[str, Path], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    astra("report", files["months.json"], files["jobs.json"], files["sample.json"], files["serve.json"], "-o", page)
    text = page.read_text()
    months = json.loads(files["months.json"].read_text())
    assert f"{months['cost']['usd']:,.0f} USD" in text
    assert f"{100 * months['goodput']:.2f} %" in text
    assert f"{months['shares']['checkpoint'] * months['cost']['usd']:,.0f}" in text
    for words in (
        "astra goodput",
        "astra jobs",
        "astra sample",
        "faulty GPU",
        "worst slowdown",
        "entry 0 (ranks 1)",
        "astra serve",
        "Causes of the time to the first token",
    ):
        assert words in text


def test_results_are_told_apart_by_their_keys(files: dict[str, Path], tmp_path: Path) -> None:
    assert [read_outcome(str(files[name])).kind for name in KINDS] == list(KINDS.values())
    run = tmp_path / "result.json"
    run.write_text(json.dumps({"run_name": "a", "finish_ns": 1, "npus": 1}))
    assert not is_outcome(str(run))
    assert not is_outcome(str(tmp_path))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["months.json", "progress"], "expected a table that astra goodput --progress has written"),
        (["jobs.json", "shares"], "a result of astra jobs; expected one of astra goodput"),
        (["progress.csv", "shares"], "expected|JSON"),
    ],
)
def test_a_figure_of_another_file_is_an_error(files: dict[str, Path], tmp_path: Path, arguments: list[str], message: str) -> None:
    outcome = CliRunner().invoke(cli.astra, ["plot", str(files[arguments[0]]), arguments[1], "-o", str(tmp_path / "x.svg")])
    assert isinstance(outcome.exception, InputError)
    with pytest.raises(InputError, match=message):
        raise outcome.exception


def test_a_spoilt_result_is_an_error(files: dict[str, Path], tmp_path: Path) -> None:
    document = json.loads(files["months.json"].read_text())
    del document["failures"]
    file = tmp_path / "spoilt.json"
    file.write_text(json.dumps(document))
    with pytest.raises(InputError, match="no result of astra goodput"):
        read_outcome(str(file))
