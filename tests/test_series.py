"""Utilisation in time: windows are written as they come, and long runs end early unless all are asked for."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import astra_sim
import pytest
from astra_sim import write_reports
from astra_sim.errors import InputError, InputWarning
from astra_sim.report.result import Result
from astra_sim_reports_astra1 import utilisation

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


def expected(run: Result) -> str:
    """The file as a whole, each window by itself."""
    lines = [" time (us) ,dim0 util,".replace("dim0", "dim1")]
    for window in range(int(run.finish_ns // 10_000)):
        begin, end, busy = window * 10_000, (window + 1) * 10_000, 0.0
        for first, last in run.busy_ns[0]:
            if first < end and last > begin:
                busy += min(last, end) - max(first, begin)
        lines.append(f"{end / 1000:.6f},{100.0 * busy / 10_000:.6f},")
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


def test_a_long_run_ends_its_file_early_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = result()
    windows = int(run.finish_ns // 10_000)
    whole = expected(run).splitlines()
    monkeypatch.setattr(utilisation, "MAX_WINDOWS", windows - 1)
    with pytest.warns(InputWarning, match=rf"{FILE} ends after the first {windows - 1} of {windows} windows of 10 us; --series all"):
        write_reports(run, tmp_path)
    assert (tmp_path / FILE).read_text().splitlines() == [*whole[:-2], whole[-1]]
    assert write_reports(run, tmp_path, series="all")
    assert (tmp_path / FILE).read_text().splitlines() == whole
    monkeypatch.setattr(utilisation, "MAX_WINDOWS", windows)  # no warning any more
    write_reports(run, tmp_path)
    assert (tmp_path / FILE).read_text().splitlines() == whole


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
        done = subprocess.run(
            [sys.executable, "-m", "astra_sim", *arguments, *more], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120
        )
        assert done.stdout == ""
        return done.stderr

    warnings = astra()
    files = [path.name for path in (tmp_path / "out").glob(f"*{FILE.removeprefix('run')}")]
    assert len(files) == len(warnings.splitlines()) == (2 if choice else 1)
    assert warnings.count("ends after the first 100000 of 1200000") == len(files)
    for name in files:
        assert (tmp_path / "out" / name).stat().st_size < 3_000_000
        (tmp_path / "out" / name).unlink()
    assert astra("--series", "none") == ""
    assert not list((tmp_path / "out").glob("*utilization*"))
