"""`astra plot`: what the figures show is what the runs say."""

from __future__ import annotations

import re
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import astra_sim
import attrs
import pytest
from astra_sim.errors import InputError
from astra_sim_report import plots
from astra_sim_report.figures import COMPUTE, EXPOSED, layer_rows
from astra_sim_report.kinds import FORMATS, KINDS, kind_of
from astra_sim_report.runs import LinkRow, ReportRun, load_runs
from support import ROOT, warm

EXAMPLE = str(ROOT / "examples" / "vgg16_tpu_v2.toml")
BEGINNINGS = {"svg": b"<?xml", "pdf": b"%PDF-", "png": b"\x89PNG"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Runs that differ in how fast they compute, and on how many NPUs they run."""
    results = []
    for name, npus, scale in (("small", 4, 1.0), ("large", 16, 0.5), ("middle", 8, 0.25)):
        platform = f"plugin:ring?size={npus}&links=2&link_bandwidth_gib_per_s=100&link_latency_ns=500"
        settings = ["system.splits=2", "energy.idle_w=100", "energy.compute_w=300"]
        result = astra_sim.simulate(EXAMPLE, platform=platform, compute_scale=scale, run_name=name, set=settings)
        results.append(tmp_path_factory.mktemp(name))
        astra_sim.write_reports(result, results[-1], reports=("astra1", "timeline"))
    return list(map(str, results))


@pytest.fixture(scope="module")
def three(folders: list[str]) -> list[ReportRun]:
    return load_runs(folders)


def drawn(kind: str, runs: list[ReportRun], names: list[str] | None = None) -> Any:
    return plots._DRAWN[kind](runs, names or [run.name for run in runs])


def heights(axes: Any) -> dict[str, list[float]]:
    """The bars of a panel by the names in its legend."""
    return {bars.get_label(): [bar.get_height() for bar in bars] for bars in axes.containers}


def ticks(axes: Any) -> list[str]:
    return [label.get_text() for label in axes.get_xticklabels()]


def test_layers_are_bars_of_their_passes(three: list[ReportRun]) -> None:
    figure = drawn("layers", three)
    assert len(figure.axes) == 3
    for run, axes in zip(three, figure.axes, strict=True):
        rows = layer_rows(run)
        assert ticks(axes) == [row["layer"] for row in rows]
        factor = {"s": 1e9, "ms": 1e6, "us": 1e3}[re.fullmatch(r"time \((\w+)\)", axes.get_ylabel()).group(1)]  # type: ignore[union-attr]
        shown = sum(sum(each) for each in heights(axes).values()) * factor
        assert shown == pytest.approx(sum(row[key] for row in rows for key in (*COMPUTE, *EXPOSED)))


@pytest.mark.parametrize(
    ("kind", "order", "labels"),
    [
        ("breakdown", ["small", "large", "middle"], ["small", "large", "middle"]),
        ("npus", ["small", "middle", "large"], ["4", "8", "16"]),
        ("compute-power", ["small", "large", "middle"], ["1x", "2x", "4x"]),
    ],
)
def test_a_breakdown_is_a_bar_of_each_run(kind: str, order: list[str], labels: list[str], three: list[ReportRun]) -> None:
    (axes,) = drawn(kind, three).axes
    assert ticks(axes) == labels
    results = {run.name: run.result for run in three}
    exposed = [results[name]["exposed_comm_ns"] / 1e6 for name in order]
    assert heights(axes)["exposed communication"] == pytest.approx(exposed)
    assert heights(axes)["compute"] == pytest.approx(
        [results[name]["finish_ns"] / 1e6 - each for name, each in zip(order, exposed, strict=True)]
    )


def test_names_of_ones_own_go_with_their_runs(three: list[ReportRun]) -> None:
    (axes,) = drawn("npus", three, ["a", "b", "c"]).axes
    assert ticks(axes) == ["a", "c", "b"]


def test_scaling_is_time_against_npus(three: list[ReportRun]) -> None:
    (axes,) = drawn("scaling", three).axes
    total = next(line for line in axes.lines if line.get_label() == "total")
    by_npus = sorted(three, key=lambda run: run.result["npus"])
    assert list(total.get_xdata()) == [4, 8, 16]
    assert list(total.get_ydata()) == pytest.approx([run.result["finish_ns"] / 1e6 for run in by_npus])


def test_scaling_of_a_model_is_tokens_a_second(three: list[ReportRun]) -> None:
    models = [ReportRun(run.name, {**run.result, "tokens_per_s": 1000.0 * run.result["npus"] ** 0.9}) for run in three]
    (axes,) = drawn("scaling", models).axes
    tokens, ideal = axes.lines
    assert list(tokens.get_ydata()) == [1000.0 * npus**0.9 for npus in (4, 8, 16)]
    assert list(ideal.get_ydata()) == pytest.approx([1000.0 * 4**0.9 * npus / 4 for npus in (4, 8, 16)])


def test_utilisation_is_a_line_of_each_dimension(three: list[ReportRun], folders: list[str], tmp_path: Path) -> None:
    (axes,) = drawn("utilisation", three[:1]).axes
    (line,) = axes.lines
    percent = list(line.get_ydata())
    mean = sum(percent) / (len(percent) - 1)
    assert mean == pytest.approx(100 * three[0].result["dimensions"][0]["utilisation"])
    for name in ("result.json", "small_dimension_utilization.csv"):  # where there is no timeline the file of ASTRA-sim 1.0 does
        (tmp_path / name).write_text((Path(folders[0]) / name).read_text())
    (line,) = drawn("utilisation", load_runs([str(tmp_path)])).axes[0].lines
    assert list(line.get_xdata())[:3] == pytest.approx([0, 0.03, 0.06])  # 458 steps of 10 us, in at most 200 lines
    percent = list(line.get_ydata())
    assert sum(percent) / len(percent) == pytest.approx(mean, rel=0.02)


def test_links_are_cells_from_router_to_router(tmp_path: Path) -> None:
    platform = "plugin:ring?size=4&links=2&link_bandwidth_gib_per_s=50&link_latency_ns=500"
    ring = "plugin:astra2?all_reduce=ring"
    result = astra_sim.simulate(
        workload="plugin:collective?bytes=65536", platform=platform, network="plugin:packet", system=ring, run_name="packet"
    )
    astra_sim.write_reports(result, tmp_path)
    (run,) = load_runs([str(tmp_path)])
    (image,) = drawn("links", [run]).axes[0].images
    percent = image.get_array().tolist()
    busy = {(source, sink): value for source, row in enumerate(percent) for sink, value in enumerate(row) if value}
    assert busy == {(link.source, link.target): 100 * link.utilisation for link in run.links if link.utilisation}
    assert set(busy) == {(0, 1), (1, 2), (2, 3), (3, 0)}


def test_cells_of_many_routers_show_the_busiest_link(three: list[ReportRun]) -> None:
    links = [LinkRow(2400, 0, 0.25), LinkRow(2399, 1, 0.75), LinkRow(0, 2400, 0.5)]
    (image,) = drawn("links", [attrs.evolve(three[0], links=links)]).axes[0].images
    percent = image.get_array()
    assert percent.shape == (801, 801)
    assert (percent[800, 0], percent[799, 0], percent[0, 800], percent.max()) == (25, 75, 50, 75)
    assert image.get_extent() == [-0.5, 2402.5, 2402.5, -0.5]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", FORMATS)
def test_every_figure_in_every_format_is_the_same_twice(kind: str, form: str, three: list[ReportRun]) -> None:
    runs = [attrs.evolve(run, links=[LinkRow(0, 1, 0.25), LinkRow(1, 0, 0.5)]) for run in three]
    picture = plots.draw(kind, runs, form, "A title")
    assert picture.startswith(BEGINNINGS[form])
    assert picture == plots.draw(kind, runs, form, "A title")


def test_a_title_and_names_stand_in_the_picture(three: list[ReportRun]) -> None:
    picture = plots.draw("breakdown", three, "svg", "A title", ["one", r"two\nlines", "three"])
    words = {"".join(element.itertext()).strip() for element in ET.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")}
    assert {"A title", "one", "two", "lines", "three", "exposed communication"} <= words


def test_without_a_kind_the_figure_suits_the_runs(three: list[ReportRun]) -> None:
    assert plots.draw(None, three[:1], "svg") == plots.draw("layers", three[:1], "svg")
    assert plots.draw(None, three, "svg") == plots.draw("breakdown", three, "svg")


def test_the_last_argument_may_be_a_figure_or_a_run(tmp_path: Path) -> None:
    run = str(tmp_path)
    assert kind_of([run, "layers"]) == ("layers", [run])
    assert kind_of([run, run]) == (None, [run, run])
    with pytest.raises(InputError, match=r"'laers' is neither a run .* nor a figure; did you mean 'layers'"):
        kind_of([run, "laers"])
    with pytest.raises(InputError, match="figure 'layers' needs a run"):
        kind_of(["layers"])


def without(run: ReportRun, **figures: Any) -> ReportRun:
    return ReportRun(run.name, {**run.result, **figures})


def test_what_runs_lack_is_told(three: list[ReportRun]) -> None:
    with pytest.raises(InputError, match="small has no layers"):
        plots.draw("layers", [without(three[0], layers=[])], "svg")
    with pytest.raises(InputError, match=r"small has no utilisation in time beside its result\.json"):
        plots.draw("utilisation", [without(three[0])], "svg")
    with pytest.raises(InputError, match=r"small has no loads of links beside its result\.json"):
        plots.draw("links", three[:1], "svg")
    with pytest.raises(InputError, match="all runs have 4 NPUs"):
        plots.draw("scaling", three[:1], "svg")
    with pytest.raises(InputError, match="a run computes nothing"):
        plots.draw("compute-power", [without(three[0], compute_ns=0)], "svg")
    with pytest.raises(InputError, match="--label is given 1 times; expected 3"):
        plots.draw(None, three, "svg", labels=["a"])
    with pytest.raises(InputError, match="13 runs would be as many panels; expected at most 12"):
        plots.draw("layers", three[:1] * 13, "svg")


def astra(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [warm.astra(), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_command_draws(folders: list[str], tmp_path: Path) -> None:
    path = tmp_path / "x.pdf"
    done = astra("plot", *folders, "npus", "-o", path, "--title", "Scaling")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{path}\n", "")
    assert path.read_bytes().startswith(b"%PDF-")
    done = astra("plot", *folders, "-o", tmp_path / "x.gif")
    assert (done.returncode, done.stderr) == (
        2,
        f"astra: error: --output is '{tmp_path}/x.gif'; expected a name that ends in .svg, .pdf, .png\n",
    )
    assert not (tmp_path / "x.gif").exists()
