"""Reports are plugins: which are written, in which order, with what they say, and what they may not do."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import astra_sim
import attrs
import pytest
from astra_sim import AstraError, InputError, PluginError, Provider, Result, hookimpl, option, write_reports
from astra_sim.command.cli import astra
from astra_sim.report.writing import _in_lines
from astra_sim.reports import ReportFolder
from astra_sim.setup.plugins import Plugins, shared_plugins
from astra_sim_devkit.testing.bench import PLATFORM as BENCH
from astra_sim_devkit.testing.contracts import run_contract
from astra_sim_explain.compare import compare
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from support.networks import Later

WORKLOAD = "plugin:collective?bytes=4096"
PLATFORM = "plugin:ring?size=4&links=2&link_bandwidth_gb_per_s=1&link_latency_ns=100"
RUN = ("--workload", WORKLOAD, "--platform", PLATFORM, "--quiet")


@attrs.frozen
class LinesOptions:
    ending: str = option("txt", help="how the name of the file ends")


def lines(options: LinesOptions, results: Sequence[Result], folder: ReportFolder) -> None:
    """A line for each run, and a picture of nothing."""
    with folder.open(f"lines.{options.ending}") as file:
        file.writelines(f"{result.run_name} {result.finish_ns} {folder.series}\n" for result in results)
    with folder.open("picture.png", "wb") as file:
        file.write(b"\x89PNG")


class Mine:
    @hookimpl
    def astra_reports(self) -> list[Provider]:
        return [Provider("lines", "A line for each run", lines, LinesOptions, examples=[{}, {"ending": "log"}])]


@pytest.fixture
def installed() -> Iterator[None]:
    mine = Mine()
    shared_plugins().register(mine, "mine")
    yield
    shared_plugins().unregister(mine)


def result(run_name: str = "run") -> Result:
    return astra_sim.simulate(workload=WORKLOAD, platform=PLATFORM, run_name=run_name)


def offering(factory: Callable[..., object]) -> Plugins:
    plugins = Plugins(load_entry_points=False)
    hook = staticmethod(hookimpl(lambda: [Provider("bad", "A bad one", factory)], specname="astra_reports"))
    plugins.register(type("Bad", (), {"astra_reports": hook})(), "bad")
    return plugins


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_the_result_comes_first_and_reports_in_the_order_in_which_they_are_named(installed: None, tmp_path: Path) -> None:
    paths = [path.name for path in write_reports(result(), tmp_path, ("lines", "astra1"))]
    assert paths[:4] == ["result.json", "lines.txt", "picture.png", "EndToEnd.csv"]
    assert set(paths) == names(tmp_path)
    assert (tmp_path / "picture.png").read_bytes() == b"\x89PNG"


def test_without_reports_there_is_the_result_alone(tmp_path: Path) -> None:
    assert write_reports(result(), tmp_path, reports=()) == [tmp_path / "result.json"]


def test_the_default_is_that_of_astra_sim_1(tmp_path: Path) -> None:
    results = {path.name for path in write_reports(result(), tmp_path / "given", "astra1")}
    assert results == names(tmp_path / "given")
    write_reports(result(), tmp_path / "default")
    assert names(tmp_path / "default") == results > {"result.json", "EndToEnd.csv", "run_dimension_utilization.csv"}


def test_the_command_writes_the_reports_that_it_is_told(installed: None, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    done = CliRunner().invoke(astra, ["run", *RUN, "-o", out, "--report", "lines?ending=log", "--series", "none"], catch_exceptions=False)
    assert done.exit_code == 0
    assert names(tmp_path / "out") == {"result.json", "lines.log", "picture.png"}
    finish = json.loads((tmp_path / "out" / "result.json").read_text())["finish_ns"]
    assert (tmp_path / "out" / "lines.log").read_text() == f"run {finish} none\n"


def test_runs_that_are_compared_are_reported_together(installed: None, tmp_path: Path) -> None:
    split = ["--set", "system.splits=1", "--set", "system.splits=2"]
    done = CliRunner().invoke(compare, [*RUN, *split, "--output", str(tmp_path), "--report", "lines", "--report", "astra1"])
    assert done.exit_code == 0, done.output
    rows = [line.split() for line in (tmp_path / "lines.txt").read_text().splitlines()]
    assert [row[0] for row in rows] == ["splits=1", "splits=2"]
    assert "EndToEnd.csv" in names(tmp_path)


@pytest.mark.parametrize("command", ["run", "compare"])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--report", "astra2", "-o", "out"], r"report: there is no report plugin 'astra2'; did you mean 'astra1'\?"),
        (["--report", "astra1?windows=3", "-o", "out"], "report: astra1 has no options, but 'windows' is given"),
        (["--report", "astra1", "--report", "astra1", "-o", "out"], "report 'astra1' is given twice"),
        (["--report", "astra1"], "--report astra1 needs --output DIR"),
    ],
)
def test_a_wrong_report_is_found_before_the_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for module in ("astra_sim.api", "astra_sim_explain.compare"):
        monkeypatch.setattr(f"{module}.simulate", lambda *_, **__: pytest.fail("it ran"))
    with pytest.raises(InputError, match=message):
        CliRunner().invoke(astra, [command, *RUN, *arguments], catch_exceptions=False)
    assert not (tmp_path / "out").exists()


def test_compared_runs_of_one_name_are_refused_before_they_run(tmp_path: Path) -> None:
    arguments = [*RUN, "--set", "system.splits=1", "--set", "system.splits=1", "--output", str(tmp_path / "out")]
    with pytest.raises(InputError, match=r"2 runs have the name 'splits=1' in reports"):
        CliRunner().invoke(compare, arguments, catch_exceptions=False)
    with pytest.raises(InputError, match="2 runs have the name 'a_b' in reports"):
        write_reports([result("a b"), result("a/b")], tmp_path / "out")


def test_other_arguments_are_refused(tmp_path: Path) -> None:
    wrong: Any = [5]
    with pytest.raises(InputError, match="there are no results to report"):
        write_reports([], tmp_path)
    with pytest.raises(InputError, match=r"reports is \[5\]; expected a list of names"):
        write_reports(result(), tmp_path, wrong)


class Reporting(Later):
    """Delivers a message 1 ns after it was sent, and has a file to write."""

    file = "links.csv"
    delay_ps = 1000

    def reports(self) -> dict[str, str]:
        return {self.file: "of the network\n"}


class Greedy(Reporting):
    file = "result.json"


@pytest.mark.parametrize("reports", [(), ("astra1",)])
def test_the_files_of_a_network_do_not_depend_on_reports(tmp_path: Path, reports: tuple[str, ...]) -> None:
    runs = [astra_sim.simulate(workload=WORKLOAD, network=Reporting(BENCH), run_name=name) for name in "ab"]
    write_reports(runs[0], tmp_path / "one", reports)
    assert (tmp_path / "one" / "links.csv").read_text() == "of the network\n"
    write_reports(runs, tmp_path / "two", reports)
    assert {"a_links.csv", "b_links.csv"} < names(tmp_path / "two")


def test_a_network_leaves_the_result_alone(tmp_path: Path) -> None:
    run = astra_sim.simulate(workload=WORKLOAD, network=Greedy(BENCH))
    with pytest.raises(PluginError, match=r"the network of run writes result\.json, which astra has written"):
        write_reports(run, tmp_path)


def fails(results: Sequence[Result], folder: ReportFolder) -> None:
    with folder.open("half.txt") as file:
        file.write("half")
    raise ValueError("no luck")


def leaves(results: Sequence[Result], folder: ReportFolder) -> None:
    raise SystemExit(0)


def overwrites(results: Sequence[Result], folder: ReportFolder) -> None:
    with folder.open("result.json") as file:
        file.write("mine")


def around(results: Sequence[Result], folder: ReportFolder) -> None:
    with folder.open("a/../b") as file:
        file.write("inside")


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        (fails, "plugin 'bad' failed: ValueError: no luck"),
        (leaves, "plugin 'bad' failed: SystemExit: 0"),
        (overwrites, "report bad writes result.json, which astra has written"),
    ],
)
def test_a_report_that_fails_leaves_no_file(tmp_path: Path, factory: Callable[..., object], message: str) -> None:
    with pytest.raises(PluginError, match=message):
        write_reports(result(), tmp_path / "out", "bad", plugins=offering(factory))
    assert not (tmp_path / "out").exists()


def test_files_stay_in_the_folder(tmp_path: Path) -> None:
    write_reports(result(), tmp_path / "out", "bad", plugins=offering(around))
    assert names(tmp_path) == {"out"}
    assert names(tmp_path / "out") == {"result.json", "a_.._b"}


# -- The contract ------------------------------------------------------------------------------------------------------


def nothing(results: Sequence[Result], folder: ReportFolder) -> None:
    pass


def needs_layers(results: Sequence[Result], folder: ReportFolder) -> None:
    with folder.open("first.txt") as file:
        file.write(results[0].layers[0].name)


def one_only(results: Sequence[Result], folder: ReportFolder) -> None:
    (single,) = results
    with folder.open("one.txt") as file:
        file.write(single.run_name)


def more_for_none(results: Sequence[Result], folder: ReportFolder) -> None:
    with folder.open("one.txt"):
        pass
    if folder.series == "none":
        with folder.open("two.txt"):
            pass


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        (nothing, "it writes no file about a run with layers"),
        (needs_layers, "IndexError"),
        (one_only, "ValueError: too many values"),
        (overwrites, "result.json, which astra has written"),
        (more_for_none, "without series in time, and not with them"),
    ],
)
def test_the_contract_finds_what_is_wrong(factory: Callable[..., object], message: str) -> None:
    with pytest.raises(AstraError, match=message):
        run_contract("report", Provider("bad", "A bad one", factory), {})


def test_the_contract_finds_files_beside_the_folder() -> None:
    def beside(results: Sequence[Result], folder: ReportFolder) -> None:
        with folder.open("one.txt"):
            pass
        (next(iter(folder.written)).parent / "own.txt").write_text("mine")

    with pytest.raises(PluginError, match=r"it writes \['own.txt'\] by itself"):
        run_contract("report", Provider("bad", "A bad one", beside), {})


def test_plugins_check_runs_it(installed: None) -> None:
    done = CliRunner().invoke(astra, ["plugins", "check", "lines"], catch_exceptions=False)
    assert done.output == "ok     report lines\n"
    assert "ending" in CliRunner().invoke(astra, ["plugins", "show", "report:lines"]).output


@settings(deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
        max_leaves=30,
    )
)
def test_json_in_lines_is_what_it_was_made_of(value: Any) -> None:
    assert json.loads(_in_lines(value)) == value


@pytest.mark.parametrize("text", ["},\0{", "}, {", "\0", '"', "\n"])
def test_texts_in_rows_are_no_ends_of_rows(text: str) -> None:
    rows = [{"name": text, "inner": {"again": [text, {text: 1}]}}, {"name": text}]
    assert json.loads(_in_lines({"rows": rows})) == {"rows": rows}
    assert len(_in_lines({"rows": rows}).splitlines()) == 6


def test_a_run_with_fewer_layers_has_empty_rows(tmp_path: Path) -> None:
    collective = {"compute_ns": 10, "collective": "all_reduce", "collective_bytes": 4096}
    none = {"compute_ns": 10}
    runs = []
    for count in (1, 3):
        layers = [{"name": f"l{n}", "forward": none, "input_gradient": none, "weight_gradient": collective} for n in range(count)]
        ring = "plugin:ring?size=4&links=2&link_bandwidth_gb_per_s=32&link_latency_ns=30"
        runs.append(astra_sim.simulate(workload={"loop": "data", "layers": layers}, platform=ring, run_name=f"of {count}"))
    astra_sim.write_reports(runs, tmp_path)
    for name in ("EndToEnd.csv", "detailed.csv"):
        rows = [line.split(",") for line in (tmp_path / name).read_text().splitlines()]
        named = [tuple(row[:2]) for row in rows]
        assert named[1:7] == [("l0", "of 1"), ("l0", "of 3"), ("", ""), ("l1", "of 3"), ("", ""), ("l2", "of 3")]
        assert [len(row) for row in rows] == [50] * (1 + 6 + 19)
        assert set(named[7:]) == {("", "")}
