"""How far a long run is: a line on standard error, from two seconds on."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import astra_sim
import pytest
from astra_sim.command import progress
from astra_sim.command.progress import Progress

TORUS = "plugin:torus?sizes=4,4,4&link_bandwidth_gb_per_s=32&link_latency_ns=10"
LONG: dict[str, Any] = {
    "workload": "plugin:collective?bytes=4194304",
    "platform": TORUS,
    "network": "plugin:packet?vcs=4&extrapolate=false",
}


class Screen(io.StringIO):
    """What is written to a terminal, or to a log."""

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], Screen]:
    monkeypatch.setattr(progress, "FIRST_S", 0.02)
    monkeypatch.setattr(progress, "TERMINAL_S", 0.01)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")

    def make(terminal: bool) -> Screen:
        made = Screen(terminal)
        monkeypatch.setattr(sys, "stderr", made)
        return made

    return make


def run(on: Progress, lines: int, screen: Screen) -> None:
    """Be under way until so many lines are written, or it takes too long."""
    with on as told:
        told.stage("run 1 of 2 (a)")
        for _ in range(1000):
            told.simulated(5_000_000, 12_345)
            if screen.getvalue().count("simulated") >= lines:
                return
            time.sleep(0.01)


def test_a_terminal_has_one_line_that_changes_and_goes(screen: Callable[[bool], Screen]) -> None:
    terminal = screen(True)
    run(Progress(), 3, terminal)
    assert "\n" not in terminal.getvalue()
    first, *_, last = terminal.getvalue().split("\r")[:-1]
    assert re.fullmatch(r"\x1b\[2Kastra: run 1 of 2 \(a\): 5 us simulated \([\d.,e+]+ us/s\), 12,345 events \([\d.,e+]+/s\), 0 s", first)
    assert last == "\x1b[2K"


def test_a_log_has_a_line_now_and_then(screen: Callable[[bool], Screen], monkeypatch: pytest.MonkeyPatch) -> None:
    log = screen(False)
    run(Progress(), 1, log)
    assert log.getvalue().count("\n") == 1
    assert progress.LOG_S > progress.TERMINAL_S
    monkeypatch.setattr(progress, "LOG_S", 0.01)
    run(Progress(), 4, log)
    assert re.search(r"^astra: run 1 of 2 \(a\): 5 us simulated .*, \d+ s$", log.getvalue(), re.MULTILINE)


def test_short_and_quiet_runs_say_nothing(screen: Callable[[bool], Screen], monkeypatch: pytest.MonkeyPatch) -> None:
    log = screen(False)
    with Progress(enabled=False):
        time.sleep(0.1)
    monkeypatch.setattr(progress, "FIRST_S", 2.0)
    with Progress():
        pass
    assert log.getvalue() == ""


def test_what_is_not_simulated_yet_is_being_prepared() -> None:
    told = Progress(unit="cycles")
    told.stage("rate 0.1")
    assert told.line() == "astra: rate 0.1: preparing, 0 s"
    told.reached(2000)
    assert re.fullmatch(r"astra: rate 0.1: 2,000 cycles simulated \([\d,.e+]+ cycles/s\), 0 s", told.line())


@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_the_packet_network_tells_how_far_it_is_between_two_arrivals(engine: str) -> None:
    # One message of a millisecond: there is nothing that the engine could come up for.
    told: list[tuple[int, int]] = []
    inputs: dict[str, Any] = {
        "workload": "plugin:collective?bytes=16777216&collective=all_gather",
        "platform": "plugin:ring?size=8&links=2&link_bandwidth_gb_per_s=32&link_latency_ns=10",
        "network": "plugin:packet?vcs=4&extrapolate=false",
        "engine": engine,
    }
    result = astra_sim.simulate(**inputs, progress=lambda *reached: told.append(reached))
    assert result.events < 100_000
    times = [time for time, _ in told]
    assert times
    assert times == sorted(times)
    assert 0 < times[0] <= times[-1] <= result.finish_ns * 1000
    assert all(0 <= events <= result.events for _, events in told)
    assert astra_sim.simulate(**inputs).finish_ns == result.finish_ns


@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_what_progress_raises_ends_the_run(engine: str) -> None:
    class Enough(Exception):
        pass

    def stop(*_: int) -> None:
        raise Enough

    with pytest.raises(Enough):
        astra_sim.simulate(**LONG, engine=engine, progress=stop)


def astra(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command where progress is told at once."""
    code = "from astra_sim.command import cli, progress; progress.FIRST_S = progress.LOG_S = 0.05; cli.main()"
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False, timeout=300)


RUN = tuple(word for kind, spec in LONG.items() for word in (f"--{kind}", spec))
TRAFFIC = ("traffic", "--platform", TORUS, "--rate", "0.05,0.1", "--period", "60000")
COMMANDS = {
    "run": (RUN, r"astra: \d.* us simulated"),
    "compare": (
        ("compare", *RUN, "--set", "system.splits=1", "--set", "system.splits=2"),
        r"astra: run [12] of 2 \(.*\): \d.* us simulated",
    ),
    "traffic": (TRAFFIC, r"astra: rate 0\.05: \d.* cycles simulated"),
}


@pytest.mark.parametrize(("arguments", "line"), COMMANDS.values(), ids=COMMANDS)
def test_commands_tell_on_standard_error_only(arguments: tuple[str, ...], line: str) -> None:
    told = astra(*arguments, "--json")
    assert told.returncode == 0, told.stderr
    assert re.search(line, told.stderr)
    assert told.stdout.startswith(("{", "["))
    assert len(told.stdout.splitlines()) == 1
    quiet = astra(*arguments, "--quiet")
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", "")
