"""`astra report`: the page opens in a browser without errors and without network, and its figures are those of result.json."""

from __future__ import annotations

import html
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import astra_sim
import pytest
from astra_sim.errors import InputError
from astra_sim.fabric.graph import node_number
from astra_sim.graph import Compute, ExecutionGraph
from astra_sim.platform import LogicalDimension
from astra_sim.report.result import Result
from astra_sim_report import runs
from astra_sim_report.colours import KNOWN, Colours, series
from astra_sim_report.figures import COMPUTE, EXPOSED, in_unit
from astra_sim_report.merging import clusters, merged, shares
from astra_sim_report.page import page
from astra_sim_report.runs import load_runs
from support import ROOT, warm
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
    results, complaints = browse(text, tmp_path)
    assert complaints == []
    assert results["figures"] == 1 + 3 + 4
    for number, folder in enumerate((vgg16, packet)):
        result = table(folder)
        layers = results[f"layers-{number}"]
        assert layers["layer"] == [layer["name"] for layer in result["layers"]]
        for key in (*COMPUTE, *EXPOSED):
            training_pass, figure = re.fullmatch(r"(.*)_((?:compute|exposed_comm)_ns)", key).groups()  # type: ignore[union-attr]
            assert layers[key] == [layer[training_pass][figure] for layer in result["layers"]]
        assert results["breakdown"]["exposed communication"][number] == result["exposed_comm_ns"]
        assert results["breakdown"]["compute"][number] == result["finish_ns"] - result["exposed_comm_ns"]
        for place, dimension in enumerate(result["dimensions"]):
            percent = results[f"utilisation-{number}-{place}"]["percent"]
            assert sum(percent) / (len(percent) - 1) == pytest.approx(100 * dimension["utilisation"], rel=1e-6)
    timeline = [source for name, source in results.items() if name.startswith("timeline-0-")]
    expected = list(astra_sim.simulate(EXAMPLES / "vgg16_dgx2_pod.toml").timeline())
    begins = {begin for source in timeline for begin in source["begin"]}
    assert begins <= {int(each.begin_ns) for each in expected}
    assert {int(each.begin_ns) for each in expected if each.lane == "compute"} <= begins
    rows = (packet / "links.csv").read_text().splitlines()[1:]
    npus = table(packet)["npus"]
    ends = [[node_number(name, npus) for name in row.split(",")[1:3]] for row in rows]
    loads = {tuple(pair): 100 * float(row.split(",")[4]) for pair, row in zip(ends, rows, strict=True)}
    links = results["links-1"]
    drawn = dict(zip(zip(links["source"], links["target"], strict=True), links["percent"], strict=True))
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
    result, complaints = browse(text, tmp_path)
    assert complaints == []
    path = result["path-0"]
    assert path["part"] == ["compute", "bandwidth", "latency", "makespan"]
    assert path["ns"] == [710, 250, 40, 1000]
    assert path["begin"] == [0, 710, 960, 0]
    assert path["end"] == [710, 960, 1000, 1000]
    assert dict(zip(result["path-layers-0"]["part"], result["path-layers-0"]["ns"], strict=True)) == {
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
    result, complaints = browse(text, tmp_path)
    assert complaints == []
    assert {part: result["breakdown"][part] for part in ("compute", "tp", "bubble")} == {
        "compute": [5e8],
        "tp": [2.5e8],
        "bubble": [1.25e8],
    }
    assert "pp" not in result["breakdown"]
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
    text = page([runs.ReportRun(hostile, result, run.timeline, run.utilisation)])
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


def test_short_intervals_that_are_close_become_one() -> None:
    begins = [*(10.0 * place for place in range(1000)), 10_000.0]
    ends = [*(10.0 * place + 8 for place in range(1000)), 20_000.0]
    assert [each.members for each in clusters(begins, ends, 5)] == [[place] for place in range(1001)]  # none is as short as that
    first, long = clusters(begins, ends, 8)
    assert (len(first.members), first.begin_ns, first.end_ns, list(long.members)) == (1000, 0, 9998, [1000])
    result, pixel = merged(begins, ends, 20_000, 100)
    assert len(result) <= 100
    assert sum(len(each.members) for each in result) == 1001
    assert 8 <= pixel <= 200
    assert merged(begins, ends, 20_000, 1001)[1] == 0


def test_what_overlaps_in_a_row_is_one() -> None:
    result = clusters([0, 5, 20], [10, 15, 30], -1, apart=True)
    assert [(each.members, each.begin_ns, each.end_ns) for each in result] == [([0, 1], 0, 15), ([2], 20, 30)]


def test_every_row_has_its_share() -> None:
    assert shares([1000, 3, 1000, 0], 103) == [50, 3, 50, 0]
    assert shares([5, 5], 100) == [5, 5]
    assert shares([10, 10, 10], 2) == [1, 1, 1]


def test_a_timeline_of_many_intervals_is_kept_in_few(tmp_path: Path) -> None:
    result = astra_sim.simulate(EXAMPLES / "vgg16_dgx2_pod.toml", passes=40)
    path = output(tmp_path / "out", result) / f"{result.run_name}_timeline.pftrace.gz"
    count = len(list(result.timeline()))
    for most in (3000, 100):
        read = runs.read_timeline(path, most)
        assert count > 3 * most
        assert len(read.slices) <= most
        assert sum(each.intervals_merged for each in read.slices) == count
        assert max(each.end_ns for each in read.slices) == int(result.finish_ns)
    assert 0 < runs.read_timeline(path, 3000).joined_ns < result.finish_ns / 100


def test_every_npu_has_a_row_where_there_are_more_than_a_page_shows() -> None:
    rows = [(f"NPU {npu}", lane) for npu in range(100) for lane in ("compute", "collectives", "dimension 0")]
    chosen = runs.chosen_rows(rows, 150)
    assert len(chosen) <= 150
    assert {group for group, _ in chosen} == {f"NPU {npu}" for npu in range(100)}
    assert all((f"NPU {npu}", "compute") in chosen for npu in range(100))
    few = runs.chosen_rows(rows, 10)
    assert [group for group, _ in few] == [f"NPU {npu}" for npu in range(0, 100, 10)]


def test_a_colour_means_one_thing() -> None:
    assert len(set(KNOWN.values())) == len(KNOWN)
    colours = Colours()
    names = [*KNOWN, *(f"group {number}" for number in range(50))]
    assert len({colours.of(name) for name in names}) == len(names)
    assert [colours.of(name) for name in names] == [colours.of(name) for name in names]
    assert len(set(series(40))) == 40


@in_a_browser
def test_the_difference_of_two_explained_runs_is_a_waterfall(vgg16: Path, tmp_path: Path) -> None:
    other = {**EXPLANATION, "path": [{"kind": "compute", "layer": "one", "ns": 700}, {"kind": "latency", "layer": "two", "ns": 100}]}
    folders = [changed(tmp_path / "a", vgg16, run_name="a", explanation=EXPLANATION)]
    folders.append(changed(tmp_path / "b", vgg16, run_name="b", explanation=other))
    text = page(load_runs(list(map(str, folders))))
    result, complaints = browse(text, tmp_path)
    assert complaints == []
    change = result["difference-kind-1"]
    assert (change["part"], change["ns"]) == (["a", "bandwidth", "latency", "compute", "b"], [1000, -250, 60, -10, 800])
    assert (change["begin"], change["end"]) == ([0, 750, 750, 800, 0], [1000, 1000, 810, 810, 800])
    assert ">a and b</h2>" in text


def test_runs_of_one_name_are_told_apart_by_their_folders(vgg16: Path, tmp_path: Path) -> None:
    copies = [changed(tmp_path / name, vgg16) for name in ("before", "after")]
    assert [run.name for run in load_runs(list(map(str, copies)))] == ["vgg16_dgx2_pod (before)", "vgg16_dgx2_pod (after)"]
    with pytest.raises(InputError, match=r"two runs are called 'vgg16_dgx2_pod \(before\)'"):
        load_runs([str(copies[0]), str(copies[0])])


def test_the_runs_of_a_comparison_are_several(tmp_path: Path) -> None:
    result = [
        astra_sim.simulate(EXAMPLES / "packet_torus.toml", network="plugin:packet", run_name=f"run {number}", comm_scale=0.001 * number)
        for number in (1, 2)
    ]
    first, second = load_runs([str(output(tmp_path / "out", *result))])
    assert (first.name, second.name) == ("run 1", "run 2")
    assert first.timeline is not None
    assert first.links
    assert first.links != second.links


BROKEN = [
    ("[]", "this is no result of a run; expected result.json"),
    ("[1]", "this is no result of a run; expected result.json"),
    ('{"run_name": 3}', "this is no result of a run; expected result.json"),
    ('{"run_name": "a", "finish_ns": null}', "finish_ns: None is not a finite number"),
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
    with pytest.raises(InputError, match=r"links\.csv:1: the column source is missing"):
        load_runs([str(folder)])


def astra(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [warm.astra(), *map(str, arguments)]
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
    results, complaints = browse(page(load_runs([str(output(tmp_path / "out", result))])), tmp_path)
    assert complaints == []
    assert results["figures"] == 1
