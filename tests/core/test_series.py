"""Utilisation in time: windows are written as they come, and those of long runs are wider unless all are asked for."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import astra_sim
import pytest
from astra_sim import write_reports
from astra_sim.errors import InputError
from astra_sim.report.result import Result
from astra_sim_reports_astra1 import utilisation
from support import warm

RING = "plugin:ring?size=8&links=2&link_bandwidth_gib_per_s=50&link_latency_ns=500"
FILE = "run_dimension_utilization.csv"


def result(compute_ns: int = 40_000, collective_bytes: int = 4_194_304) -> Result:
    layer = {
        "name": "one",
        "forward": {"compute_ns": compute_ns},
        "input_gradient": {"compute_ns": 0},
        "weight_gradient": {"compute_ns": 0, "collective": "all_reduce", "collective_bytes": collective_bytes},
    }
    return astra_sim.simulate(workload={"loop": "data", "layers": [layer]}, platform=RING, set=["system.splits=3"], passes=3)


def expected(run: Result, step: int = 10_000) -> str:
    """The file as a whole, each window by itself."""
    lines = [" time (us) ,dim0 util,".replace("dim0", "dim1")]
    for window in range(int(run.finish_ns // step)):
        begin, end, busy = window * step, (window + 1) * step, 0.0
        for first, last in run.busy_ns[0]:
            if first < end and last > begin:
                busy += min(last, end) - max(first, begin)
        lines.append(f"{end / 1000:.6f},{100.0 * busy / step:.6f},")
    return "\n".join([*lines, ","]) + "\n"


@pytest.mark.parametrize("seed", range(20))
def test_every_full_window_has_its_line(seed: int) -> None:
    draw = random.Random(seed)
    run = result(draw.randint(0, 100_000), draw.randint(1, 1 << 24))
    assert "".join(utilisation.dimension_utilization(run)) == expected(run)


def test_a_file_is_written_window_by_window() -> None:
    # A year has 3 * 10^12 windows; the first are there at once.
    lines = utilisation.dimension_utilization(result(compute_ns=10**15))
    assert [next(lines), next(lines)] == [" time (us) ,dim1 util,\n", "10.000000,0.000000,\n"]


@pytest.mark.parametrize("most", [1, 5, 7])
def test_a_long_run_has_wider_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    run = result()
    windows = int(run.finish_ns // 10_000)
    assert windows > 14
    monkeypatch.setattr(utilisation, "MOST_WINDOWS", most)
    write_reports(run, tmp_path)
    step = 10_000 * -(-windows // most)
    assert (tmp_path / FILE).read_text() == expected(run, step)
    assert most - 1 <= run.finish_ns // step <= most
    write_reports(run, tmp_path, series="all")
    assert (tmp_path / FILE).read_text() == expected(run)
    monkeypatch.setattr(utilisation, "MOST_WINDOWS", windows)  # as ASTRA-sim has them
    write_reports(run, tmp_path)
    assert (tmp_path / FILE).read_text() == expected(run)


def test_the_result_is_written_first_and_the_series_last(tmp_path: Path) -> None:
    names = [path.name for path in write_reports(result(), tmp_path)]
    assert (names[0], names[-1]) == ("result.json", FILE)
    assert FILE not in [path.name for path in write_reports(result(), tmp_path, series="none")]


def test_an_unknown_series_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="series is 'some'; expected limited, all, none"):
        write_reports(result(), tmp_path, series="some")


WORKLOAD = """
loop = "data"
[[layers]]
name = "one"
forward = { compute_ns = 1.2e12 }
input_gradient = { compute_ns = 0 }
weight_gradient = { compute_ns = 0, collective = "all_reduce", collective_bytes = 1048576 }
"""


@pytest.mark.parametrize("command", ["run", "compare"])
def test_twenty_minutes_are_reported_in_little_time_and_space(tmp_path: Path, command: str) -> None:
    (tmp_path / "w.toml").write_text(WORKLOAD)
    choice = ("--set", "system.splits=1", "--set", "system.splits=2") if command == "compare" else ()
    arguments = (command, "--workload", "w.toml", "--platform", RING, *choice, "--output", "out", "--quiet")

    def astra(*more: str) -> str:
        done = subprocess.run([warm.astra(), *arguments, *more], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120)
        assert done.stdout == ""
        return done.stderr

    assert astra() == ""
    files = list((tmp_path / "out").glob(f"*{FILE.removeprefix('run')}"))
    assert len(files) == (2 if choice else 1)
    for file in files:
        assert file.stat().st_size < 10_000
        assert 190 < len(file.read_text().splitlines()) <= 202
        file.unlink()
    assert astra("--series", "none") == ""
    assert not list((tmp_path / "out").glob("*utilization*"))
