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
from astra_sim.command import cli, progress
from astra_sim.command.progress import Progress
from astra_sim.setup.plugins import shared_plugins
from click.testing import CliRunner

TORUS = "plugin:torus?sizes=4,4,4&link_bandwidth_gb_per_s=32&link_latency_ns=10"
LONG: dict[str, Any] = {
    "workload": "plugin:collective?bytes=4194304",
    "platform": TORUS,
    "network": "plugin:packet?vcs=4&exact=every-npu,every-period",
}


class Screen(io.StringIO):
    """What is written to a terminal, or to a log."""

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@pytest.fixture(autouse=True)
def shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASTRA_NO_PROGRESS")


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], Screen]:
    monkeypatch.setattr(progress, "FIRST_S", 0.02)
    monkeypatch.setattr(progress, "TERMINAL_S", 0.01)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")

    def make(terminal: bool) -> Screen:
        result = Screen(terminal)
        monkeypatch.setattr(sys, "stderr", result)
        return result

    return make


def run(on: Progress, lines: int, screen: Screen) -> None:
    """Be under way until a number of lines is written, or it takes too long."""
    with on as result:
        result.stage("run 1 of 2 (a)")
        for _ in range(1000):
            result.simulated(5_000_000, 12_345)
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


def test_a_variable_turns_it_off(screen: Callable[[bool], Screen], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASTRA_NO_PROGRESS", "1")
    log = screen(False)
    with Progress():
        time.sleep(0.1)
    assert log.getvalue() == ""


def test_what_is_not_simulated_yet_is_being_prepared() -> None:
    result = Progress(unit="cycles")
    result.stage("rate 0.1")
    assert result.line() == "astra: rate 0.1: preparing, 0 s"
    result.reached(2000)
    assert re.fullmatch(r"astra: rate 0.1: 2,000 cycles simulated \([\d,.e+]+ cycles/s\), 0 s", result.line())


@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_the_packet_network_tells_how_far_it_is_between_two_arrivals(engine: str) -> None:
    # One message of a millisecond: there is nothing that the engine could come up for.
    results: list[tuple[int, int]] = []
    inputs: dict[str, Any] = {
        "workload": "plugin:collective?bytes=16777216&collective=all_gather",
        "platform": "plugin:ring?size=8&links=2&link_bandwidth_gb_per_s=32&link_latency_ns=10",
        "network": "plugin:packet?vcs=4&exact=every-npu,every-period",
        "engine": engine,
    }
    result = astra_sim.simulate(**inputs, progress=lambda *reached: results.append(reached))
    assert result.events < 100_000
    times = [time for time, _ in results]
    assert times
    assert times == sorted(times)
    assert 0 < times[0] <= times[-1] <= result.finish_ns * 1000
    assert all(0 <= events <= result.events for _, events in results)
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
    """Run the command with progress printed at once."""
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
    result = astra(*arguments, "--json")
    assert result.returncode == 0, result.stderr
    assert re.search(line, result.stderr)
    assert result.stdout.startswith(("{", "["))
    assert len(result.stdout.splitlines()) == 1
    quiet = astra(*arguments, "--quiet")
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", "")


def test_an_estimate_goes_by_what_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("astra_sim.command.progress.time.monotonic", lambda: now[0])
    result = Progress()
    result.stage("run 1 of 4 (a)", 0.0, 0.25)
    now[0] = 10.0
    result.ended(1, 1000)
    result.simulated(5_000_000, 100)
    assert result.line().endswith(", 10 s")  # too early
    result.ended(400, 1000)
    assert result.line().endswith(", 10 s, about 90 s left")
    result.stage("run 4 of 4 (d)", 0.75, 0.25)
    now[0] = 75.0
    assert result.line() == "astra: run 4 of 4 (d): preparing, 75 s, about 25 s left"
    result.stage("writing files", simulates=False)
    assert result.line() == "astra: writing files, 75 s"


def test_a_narrow_terminal_has_fewer_parts_and_whole_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("astra_sim.command.progress.time.monotonic", lambda: now[0])
    result = Progress()
    result.stage("run 12 of 34 (system.splits=4)")
    result.simulated(1_234_567_000_000, 7_654_321)
    now[0] = 100.0
    lines = [result.line(width) for width in range(200, 9, -1)]
    assert all(len(line) <= width for line, width in zip(lines, range(200, 9, -1), strict=True))
    assert lines[0].startswith("astra: run 12 of 34 (system.splits=4): 1,234,567 us simulated (12,34")
    numbers = set(re.findall(r"\d[\d,.e+]*\d|\d", lines[0]))
    assert all(set(re.findall(r"\d[\d,.e+]*\d|\d", line)) <= numbers for line in lines)
    assert result.line(20) == "astra: 100 s"


@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_engines_tell_how_many_tasks_have_ended(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Told:
        def __init__(self) -> None:
            self.tasks: list[tuple[int, int]] = []

        def __call__(self, picoseconds: int, events: int) -> None:
            pass

        def ended(self, count: int, of: int) -> None:
            self.tasks.append((count, of))

    monkeypatch.setattr("astra_sim.run.simulation.EVENTS_PER_REPORT", 50)
    result = Told()
    astra_sim.simulate(workload="plugin:collective?bytes=65536", platform=TORUS, passes=40, symmetry=False, engine=engine, progress=result)
    counts = [count for count, _ in result.tasks]
    assert counts == sorted(counts)
    assert 0 <= counts[0] < counts[-1] <= result.tasks[0][1]
    assert len({of for _, of in result.tasks}) == 1
    assert result.tasks[0][1] % 64 == 0


def test_runs_for_an_explanation_are_told() -> None:
    class Told:
        def __init__(self) -> None:
            self.stages: list[str] = []

        def __call__(self, picoseconds: int, events: int) -> None:
            pass

        def stage(self, name: str) -> None:
            self.stages.append(name)

    result = Told()
    aware = "plugin:analytical?congestion=aware"
    astra_sim.simulate(workload="plugin:collective?bytes=65536", platform=TORUS, network=aware, explain=True, progress=result)
    assert "runs with other compute speed" in result.stages
    assert "runs with other bandwidth of dimension 0" in result.stages


def test_all_commands_can_be_quiet() -> None:
    commands = {"run", "compare", "explain", "collective"} | {*shared_plugins().components("command")}
    only_answer = {"completion", "doctor", "server", *(name for name in commands if name.startswith("plugins "))}  # say nothing else
    for name in sorted(commands - only_answer):
        shown = CliRunner().invoke(cli.astra, [*name.split(), "--help"])
        assert "--quiet" in shown.output, name
