"""`astra plot` of tables that `astra serve` has written: what the figures show is what the tables say."""

from __future__ import annotations

from pathlib import Path

import pytest
from astra_sim.errors import InputError
from astra_sim_report import serving_plots
from astra_sim_report.kinds import SERVING_KINDS, kind_of
from support.commands import command

REQUESTS = "request,ttft_s,tpot_s,e2e_s\n0,0.1,0.01,0.5\n1,0.3,,0.3\n2,,,\n"
TIMELINE = "time_s,instance,running,waiting\n0,0,1,0\n1,1,2,3\n2,0,0,1\n"


@pytest.fixture
def tables(tmp_path: Path) -> tuple[str, str]:
    for name, text in (("requests.csv", REQUESTS), ("timeline.csv", TIMELINE)):
        (tmp_path / name).write_text(text)
    return str(tmp_path / "requests.csv"), str(tmp_path / "timeline.csv")


@pytest.mark.parametrize(("kind", "values"), [("ttft", [100, 100, 300]), ("tpot", [10, 10]), ("e2e", [300, 300, 500])])
def test_a_line_is_the_share_of_requests_up_to_a_latency(kind: str, values: list[float], tables: tuple[str, str]) -> None:
    axes = serving_plots._latency(kind, [tables[0]], ["one"]).axes[0]
    (line,) = axes.get_lines()
    assert list(line.get_xdata()) == pytest.approx(values)
    assert line.get_ydata()[-1] == 100
    assert axes.get_xlabel().endswith("(ms)")
    assert axes.get_ylabel() == "requests (%)"


def test_requests_are_summed_over_instances(tables: tuple[str, str]) -> None:
    axes = serving_plots._requests_over_time([tables[1]], ["one"]).axes[0]
    running, waiting = axes.get_lines()
    assert list(running.get_ydata()) == [1, 3, 2]
    assert list(waiting.get_ydata()) == [0, 3, 4]


@pytest.mark.parametrize(
    ("kind", "which", "words"),
    [
        ("ttft", 1, "ttft_s"),
        ("batch", 0, "expected a table that astra serve --timeline has written"),
    ],
)
def test_a_table_that_lacks_what_is_drawn_is_an_error(kind: str, which: int, words: str, tables: tuple[str, str]) -> None:
    with pytest.raises(InputError, match=words):
        serving_plots.draw_serving(kind, [tables[which]], "svg")


def test_bad_cells_and_labels_are_errors(tmp_path: Path, tables: tuple[str, str]) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text("ttft_s\nsoon\n")
    with pytest.raises(InputError, match=r"bad\.csv:2: ttft_s is 'soon'; expected a number of at least 0"):
        serving_plots.draw_serving("ttft", [str(bad)], "svg")
    bad.write_text("ttft_s\n\n")
    with pytest.raises(InputError, match="no request has ttft_s"):
        serving_plots.draw_serving("ttft", [str(bad)], "svg")
    with pytest.raises(InputError, match="--label is given 2 times; expected 1"):
        serving_plots.draw_serving("ttft", [tables[0]], "svg", labels=["a", "b"])


def test_the_command_draws_several_tables(capsys: pytest.CaptureFixture[str], tmp_path: Path, tables: tuple[str, str]) -> None:
    run, picture = command(capsys), tmp_path / "out.svg"
    done = run("plot", tables[0], tables[0], "ttft", "--label", "a", "--label", "b", "-o", str(picture))
    assert (done.status, done.error, done.out.strip()) == (0, "", str(picture))
    assert picture.read_text().count("<path") > 3
    assert run("plot", tables[1], "batch", "-o", str(picture)).error == ""


def test_kinds_are_known_to_the_command() -> None:
    with pytest.raises(InputError, match="figure 'ttft' needs a table that astra serve has written"):
        kind_of(["ttft"])
    assert set(SERVING_KINDS) == {*serving_plots._LATENCIES, "batch"}
