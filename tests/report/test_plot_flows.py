"""`astra plot` of folders of flows: what the figures show is what the files say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from astra_sim.errors import InputError
from astra_sim_report import flow_plots
from astra_sim_report.flow_plots import draw_flows, load_flow_runs
from astra_sim_report.kinds import FLOW_KINDS, kind_of
from support.commands import Astra, command

HEADING = "id,src,dst,bytes,start_ns,received_ns,end_ns,packets,acks,nacks,marked_acks,slowdown\n"
QUEUES = "time_ns,link,bytes\n1000,switch 0 to NPU 0,3000\n2000,switch 0 to NPU 1,500\n3000,switch 0 to NPU 0,0\n"


def folder(path: Path, rows: str, queues: str | None = QUEUES) -> str:
    path.mkdir()
    (path / "flows.csv").write_text(HEADING + rows)
    if queues is not None:
        (path / "qlen.csv").write_text(queues)
    return str(path)


@pytest.fixture
def two(tmp_path: Path) -> list[str]:
    slow = folder(tmp_path / "slow", "0,0,1,9,100,4100,5000,,,,,2.0\n1,1,0,9,0,1000,1000,,,,,1.5\n", queues=None)
    return [folder(tmp_path / "fast", "0,0,1,9,0,1000,2000,,,,,1.0\n"), slow]


def drawn(kind: str, paths: list[str]) -> Any:
    runs = load_flow_runs(paths)
    return flow_plots._DRAWN[kind](runs, [run.name for run in runs])


@pytest.mark.parametrize(("kind", "last", "label"), [("fct", 4.0, "time to arrival (us)"), ("slowdown", 2.0, "that of the flow alone")])
def test_a_line_of_each_folder_is_the_share_that_has_arrived(kind: str, last: float, label: str, two: list[str]) -> None:
    axes = drawn(kind, two).axes[0]
    fast, slow = axes.get_lines()
    assert (fast.get_label(), slow.get_label()) == ("fast", "slow")
    assert list(slow.get_ydata()) == [0, 50, 100]
    assert list(slow.get_xdata())[-1] == last
    assert label in axes.get_xlabel()


def test_queues_are_lines_of_ports(two: list[str]) -> None:
    axes = drawn("queues", two[:1]).axes[0]
    first, second = axes.get_lines()
    assert (first.get_label(), second.get_label()) == ("switch 0 to NPU 0", "switch 0 to NPU 1")
    assert list(first.get_xdata()) == [0, 1, 3, 2]
    assert list(first.get_ydata()) == [0, 3, 0, 0]
    assert axes.get_ylabel() == "queue (kB)"


def test_what_folders_lack_is_told(two: list[str], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"slow has no queues; expected a run of roce with qlen_interval_us"):
        drawn("queues", two)
    with pytest.raises(InputError, match=r"has no flows\.csv; expected a folder that astra flows --output has written"):
        load_flow_runs([str(tmp_path)])
    with pytest.raises(InputError, match=r"bare has no slowdowns, .* expected fct"):
        drawn("slowdown", [folder(tmp_path / "bare", "0,0,1,9,0,1000,2000,,,,,\n")])
    with pytest.raises(InputError, match=r"flows\.csv:3: .*'late'"):
        load_flow_runs([folder(tmp_path / "bad", "0,0,1,9,0,10,10,,,,,\n0,0,1,9,0,late,10,,,,,\n")])
    with pytest.raises(InputError, match=r"qlen\.csv:2: 2 cells under 3 headings"):
        load_flow_runs([folder(tmp_path / "odd", "0,0,1,9,0,10,10,,,,,\n", "time_ns,link,bytes\n1,switch 0 to NPU 0\n")])
    with pytest.raises(InputError, match=r"flows\.csv: there is no flow"):
        load_flow_runs([folder(tmp_path / "none", "")])
    with pytest.raises(InputError, match="--label is given 1 times; expected 2"):
        draw_flows("fct", load_flow_runs(two), "svg", labels=["a"])
    with pytest.raises(InputError, match="figure 'fct' needs a folder that astra flows --output has written"):
        kind_of(["fct"])


def test_the_command_draws_what_flows_have_written(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    astra: Astra = command(capsys)
    star = "plugin:switch?size=4&link_bandwidth_gb_per_s=12.5&link_latency_ns=1000"
    network = "plugin:roce?qlen_interval_us=0.5"
    text = str(tmp_path / "out")
    done = astra("flows", "--platform", star, "--network", network, "--pattern", "incast", "--bytes", "50K", "--output", text, "--quiet")
    assert done.status == 0, done.error
    pictures = {}
    for kind in ("", *FLOW_KINDS):
        path = tmp_path / f"{kind or 'none'}.svg"
        done = astra("plot", text, *([kind] if kind else []), "--output", str(path), "--label", "an incast", "--quiet")
        assert done.status == 0, done.error
        pictures[kind] = path.read_bytes()
    assert pictures[""] == pictures["slowdown"] != pictures["fct"]
    assert b"switch 0 to NPU 0" in pictures["queues"]
