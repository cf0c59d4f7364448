"""`astra report`: the page opens in a browser without errors and without network, and its figures are those of result.json."""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import astra_sim
import pytest
from astra_sim.errors import InputError
from astra_sim.graph import Compute, ExecutionGraph
from astra_sim.platform import LogicalDimension
from astra_sim.report.result import Result
from astra_sim_report import runs
from astra_sim_report.figures import COMPUTE, EXPOSED, in_unit
from astra_sim_report.page import page
from astra_sim_report.runs import Slice, load_runs, longest
from support import ROOT
from support.browser import browse, in_a_browser

EXAMPLES = ROOT / "examples"


def output(folder: Path, *results: Result, reports: tuple[str, ...] = ("astra1", "timeline")) -> Path:
    astra_sim.write_reports(results[0] if len(results) == 1 else results, folder, reports=reports)
    return folder


@pytest.fixture(scope="module")
def vgg16(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return output(tmp_path_factory.mktemp("vgg16"), astra_sim.simulate(EXAMPLES / "vgg16_dgx2_pod.toml"))


@pytest.fixture(scope="module")
def packet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    platform = "plugin:torus?sizes=4,4&link_bandwidth_gb_per_s=16&link_latency_ns=100"
    result = astra_sim.simulate(workload="plugin:collective?bytes=65536", platform=platform, network="plugin:packet", run_name="packet")
    return output(tmp_path_factory.mktemp("packet"), result)


def table(folder: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return read


@in_a_browser
def test_the_figures_of_a_page_are_those_of_result_json(vgg16: Path, packet: Path, tmp_path: Path) -> None:
    text = page(load_runs([str(vgg16), str(packet)]))
    found, complaints = browse(text, tmp_path)
    assert complaints == []
    assert found["figures"] == 1 + 3 + 4
    for number, folder in enumerate((vgg16, packet)):
        result = table(folder)
        layers = found[f"layers-{number}"]
        assert layers["layer"] == [layer["name"] for layer in result["layers"]]
        for key in (*COMPUTE, *EXPOSED):
            training_pass, figure = re.fullmatch(r"(.*)_((?:compute|exposed_comm)_ns)", key).groups()  # type: ignore[union-attr]
            assert layers[key] == [layer[training_pass][figure] for layer in result["layers"]]
        assert found["breakdown"]["exposed communication"][number] == result["exposed_comm_ns"]
        assert found["breakdown"]["compute"][number] == result["finish_ns"] - result["exposed_comm_ns"]
        for place, dimension in enumerate(result["dimensions"]):
            percent = found[f"utilisation-{number}-{place}"]["percent"]
            assert sum(percent) / (len(percent) - 1) == pytest.approx(100 * dimension["utilisation"], rel=1e-6)
    timeline = [source for name, source in found.items() if name.startswith("timeline-0-")]
    expected = list(astra_sim.simulate(EXAMPLES / "vgg16_dgx2_pod.toml").timeline())
    assert sorted(begin for source in timeline for begin in source["begin"]) == sorted(int(each.begin_ns) for each in expected)
    rows = (packet / "links.csv").read_text().splitlines()[1:]
    loads = {(int(row.split(",")[3]), int(row.split(",")[4])): 100 * float(row.split(",")[7]) for row in rows}
    links = found["links-1"]
    drawn = dict(zip(zip(links["source"], links["sink"], strict=True), links["percent"], strict=True))
    assert drawn == {link: load for link, load in loads.items() if load}


@in_a_browser
def test_an_error_on_a_page_is_seen(vgg16: Path, tmp_path: Path) -> None:
    text = page(load_runs([str(vgg16)])).replace("</body>", "<script>throw new Error('mine')</script></body>")
    _, complaints = browse(text, tmp_path)
    assert any("mine" in line for line in complaints)


EXPLANATION = {
    "path": [
        {"kind": "compute", "layer": "one", "collective": None, "dimension": None, "ns": 700},
        {"kind": "bandwidth", "layer": "one", "collective": "all_reduce", "dimension": 1, "ns": 250},
        {"kind": "latency", "layer": "two", "collective": "all_reduce", "dimension": 0, "ns": 40},
        {"kind": "compute", "layer": "", "collective": None, "dimension": None, "ns": 10},
    ],
    "sensitivities": [{"parameter": "bandwidth", "dimension": 0, "layer": None, "percent": -0.31, "method": "exact"}],
    "bounds": [{"kind": "wire", "dimension": 1, "ns": 640.0}],
}


def changed(folder: Path, source: Path, **figures: Any) -> Path:
    """A copy of a result with other figures."""
    folder.mkdir()
    (folder / "result.json").write_text(json.dumps({**table(source), **figures}))
    return folder


@in_a_browser
def test_an_explanation_is_a_waterfall_whose_parts_follow_each_other(vgg16: Path, tmp_path: Path) -> None:
    explained = changed(tmp_path / "explained", vgg16, explanation=EXPLANATION)
    text = page(load_runs([str(explained)]))
    found, complaints = browse(text, tmp_path)
    assert complaints == []
    path = found["path-0"]
    assert path["part"] == ["compute", "bandwidth", "latency", "makespan"]
    assert path["ns"] == [710, 250, 40, 1000]
    assert path["begin"] == [0, 710, 960, 0]
    assert path["end"] == [710, 960, 1000, 1000]
    assert dict(zip(found["path-layers-0"]["part"], found["path-layers-0"]["ns"], strict=True)) == {
        "one": 950,
        "two": 40,
        "no layer": 10,
        "makespan": 1000,
    }
    assert "<td>bandwidth</td><td>0</td><td>-</td><td>-0.3100 %</td><td>exact</td>" in text
    assert "<td>wire</td><td>1</td><td>640.000 ns</td>" in text


def test_the_experiment_its_versions_and_what_the_audit_found_are_shown(vgg16: Path, tmp_path: Path) -> None:
    figures = {"experiment": {"name": "mine"}, "versions": {"astra": "1.2.3"}, "audit": [{"message": "faster than the wire"}]}
    text = page(load_runs([str(changed(tmp_path / "known", vgg16, **figures))]))
    (shown,) = re.findall(r"<summary>The experiment and its versions</summary><pre>(.*?)</pre>", text, re.DOTALL)
    assert json.loads(html.unescape(shown)) == {"experiment": {"name": "mine"}, "versions": {"astra": "1.2.3"}}
    assert '<p class="note">faster than the wire</p>' in text
    assert "The experiment and its versions" not in page(load_runs([str(changed(tmp_path / "unknown", vgg16, experiment={}, versions={}))]))


@in_a_browser
def test_the_breakdown_of_a_workload_is_drawn_in_its_parts(vgg16: Path, tmp_path: Path) -> None:
    breakdown = {"compute": 0.5, "tp": 0.25, "pp": 0.0, "bubble": 0.125}
    model = changed(tmp_path / "model", vgg16, iteration_s=0.875, breakdown=breakdown, memory_bytes=3 * 2**30)
    text = page(load_runs([str(model)]))
    found, complaints = browse(text, tmp_path)
    assert complaints == []
    assert {part: found["breakdown"][part] for part in ("compute", "tp", "bubble")} == {"compute": [5e8], "tp": [2.5e8], "bubble": [1.25e8]}
    assert "pp" not in found["breakdown"]
    assert "3.000 GiB" in text


def test_a_page_asks_for_nothing_from_elsewhere(vgg16: Path, packet: Path) -> None:
    text = page(load_runs([str(vgg16), str(packet)]))
    targets = re.findall(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=\"([^\"]*)", text)
    assert targets == ["data:,"]  # an icon, so that no browser asks for one
    assert "@import" not in text


def test_the_page_holds_the_results_as_they_are(vgg16: Path) -> None:
    hostile = "</script><script>alert(1)</script>"
    (run,) = load_runs([str(vgg16 / "result.json")])
    result = {**run.result, "run_name": hostile}
    text = page([runs.Run(hostile, result, run.timeline, run.utilisation)])
    (data,) = re.findall(r'<script type="application/json" id="results">(.*?)</script>', text, re.DOTALL)
    assert json.loads(data) == [result]
    assert hostile not in text


def test_the_summary_says_the_times(vgg16: Path) -> None:
    text = page(load_runs([str(vgg16)]))
    result = table(vgg16)
    for key in ("finish_ns", "compute_ns", "exposed_comm_ns"):
        assert f">{in_unit(result[key])}<" in text


def test_a_page_of_256_npus_one_by_one_is_small(tmp_path: Path) -> None:
    result = astra_sim.simulate(EXAMPLES / "vgg16_dgx2_pod.toml", symmetry=False, passes=20)
    text = page(load_runs([str(output(tmp_path / "out", result))]))
    assert result.simulated_npus == 256
    assert len(text.encode()) < 5_000_000


def test_many_slices_become_few_that_look_alike() -> None:
    short = [Slice(0, f"s{place}", "compute", 10 * place, 10 * place + 8) for place in range(1000)]
    long = Slice(0, "long", "compute", 10_000, 20_000)
    other = Slice(1, "other", "compute", 5, 6)
    joined = runs._joined([*short, long, other], 5)
    assert joined == [*short, long, other]  # none is as short as that
    joined = runs._joined([*short, long, other], 8)
    assert joined == [Slice(0, "1000 x compute", "compute", 0, 9998, 1000), long, other]


def test_a_timeline_of_many_intervals_is_kept_in_few(tmp_path: Path) -> None:
    result = astra_sim.simulate(EXAMPLES / "vgg16_dgx2_pod.toml", passes=40)
    path = output(tmp_path / "out", result) / f"{result.run_name}_timeline.pftrace.gz"
    count = len(list(result.timeline()))
    read = runs.read_timeline(path, 3000)
    assert count > 3 * 3000
    assert len(read.slices) <= 3000
    assert (sum(each.things for each in read.slices), read.left_out) == (count, 0)
    assert 0 < read.joined_ns < result.finish_ns / 500
    assert max(each.end_ns for each in read.slices) == int(result.finish_ns)
    fewer = runs.read_timeline(path, 1000)  # where joining does not suffice the shortest go
    assert len(fewer.slices) == 1000
    assert fewer.left_out > 0


def test_runs_of_one_name_are_told_apart_by_their_folders(vgg16: Path, tmp_path: Path) -> None:
    copies = [changed(tmp_path / name, vgg16) for name in ("before", "after")]
    assert [run.name for run in load_runs(list(map(str, copies)))] == ["vgg16_dgx2_pod (before)", "vgg16_dgx2_pod (after)"]
    with pytest.raises(InputError, match=r"two runs are called 'vgg16_dgx2_pod \(before\)'"):
        load_runs([str(copies[0]), str(copies[0])])


def test_the_runs_of_a_comparison_are_several(tmp_path: Path) -> None:
    made = [
        astra_sim.simulate(EXAMPLES / "packet_torus.toml", network="plugin:packet", run_name=f"run {number}", comm_scale=0.001 * number)
        for number in (1, 2)
    ]
    first, second = load_runs([str(output(tmp_path / "out", *made))])
    assert (first.name, second.name) == ("run 1", "run 2")
    assert first.timeline is not None
    assert first.links
    assert first.links != second.links


BROKEN = [
    ("[]", "holds no runs; expected one at least"),
    ("[1]", "run 1 is int; expected the result of a run"),
    ('{"run_name": 3}', "run_name is 3; expected the result of a run"),
    ('{"run_name": "a", "finish_ns": null}', "finish_ns is None; expected the result of a run"),
    ("{", ":1: not JSON"),
]


@pytest.mark.parametrize(("text", "words"), BROKEN)
def test_what_is_no_result_is_told(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(text)
    with pytest.raises(InputError, match=r"result\.json") as caught:
        load_runs([str(tmp_path)])
    assert words in str(caught.value)


def test_files_beside_a_result_that_are_broken_are_told(vgg16: Path, tmp_path: Path) -> None:
    folder = changed(tmp_path / "copy", vgg16)
    series = folder / "vgg16_dgx2_pod_dimension_utilization.csv"
    series.write_text(" time (us) ,dim1 util,\nmany,1,\n")
    with pytest.raises(InputError, match=r"dimension_utilization\.csv: could not convert string to float: 'many'"):
        load_runs([str(folder)])
    series.unlink()
    (folder / "links.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match=r"links.csv: not the links of a run"):
        load_runs([str(folder)])


def astra(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "astra_sim", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_command_writes_a_page(vgg16: Path, tmp_path: Path) -> None:
    done = astra("report", vgg16, "-o", tmp_path / "page.html")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r".*page\.html \(\d\.\d MB\)\n", done.stdout)
    assert (tmp_path / "page.html").read_text().startswith("<!DOCTYPE html>")


def test_a_run_that_is_not_there_is_one_message(tmp_path: Path) -> None:
    done = astra("report", tmp_path / "none", "-o", tmp_path / "page.html")
    assert (done.returncode, done.stderr) == (2, f"astra: error: '{tmp_path}/none': No such file or directory\n")
    assert not (tmp_path / "page.html").exists()


@in_a_browser
def test_a_run_that_takes_no_time_has_a_page(tmp_path: Path) -> None:
    graph = ExecutionGraph((Compute((), 0),), (LogicalDimension(8, 1, 0),), ())
    platform = "plugin:ring?size=8&links=2&link_bandwidth_gib_per_s=50&link_latency_ns=500"
    result = astra_sim.simulate(workload=graph, platform=platform)
    assert result.finish_ns == 0
    found, complaints = browse(page(load_runs([str(output(tmp_path / "out", result))])), tmp_path)
    assert complaints == []
    assert found["figures"] == 1


def test_each_row_of_a_long_timeline_keeps_its_longest_intervals() -> None:
    slices = [Slice(row, "compute", "compute", 100 * place, 100 * place + 1 + place % 7) for row in (0, 1) for place in range(500)]
    few = [Slice(2, "send", "send", 5, 6)]
    kept = longest([*slices, *few], 201)
    assert [sum(each.row == row for each in kept) for row in (0, 1, 2)] == [100, 100, 1]
    assert min(each.end_ns - each.begin_ns for each in kept if each.row < 2) >= 6
    assert kept == sorted(kept, key=lambda each: (each.row, each.begin_ns))
    assert longest(few, 10) == few
