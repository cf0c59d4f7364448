"""A plugin of pytest that says which tests take the most processor time, with that of the processes they waited for.

With `--write-slow-tests` it also writes the list of tests that `python3 dev.py test` leaves out: a whole run makes it anew.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter, defaultdict
from collections.abc import Generator
from pathlib import Path

import pytest

SHOWN = 30
LIST = Path(__file__).resolve().parents[1] / "tests" / "slow_tests.txt"
LIST_FROM_S = 0.8
"""Processor time from which a test is on the list."""
_HEADING = (
    "# Tests that take long, with their processor time in seconds. `python3 dev.py test` leaves them out, and those that need",
    "# wheels or the site, unless tests are named or --all is given. Written by",
    "# python3 dev.py test --all --slow --write-slow-tests",
)


def listed() -> frozenset[str]:
    """The tests that take long, by their ids."""
    lines = LIST.read_text(encoding="utf-8").splitlines()
    return frozenset(line.split(maxsplit=1)[1] for line in lines if not line.startswith("#"))


def _processor_time() -> float:
    """Seconds of this process, of its children, and of theirs that have ended: what stays for many tests is read where Linux says it."""
    times = os.times()
    seconds = times.user + times.system + times.children_user + times.children_system
    with contextlib.suppress(OSError):
        for child in {each for task in Path("/proc/self/task").iterdir() for each in (task / "children").read_text().split()}:
            fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
            seconds += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return seconds


class _Clock:
    """Gives each report of a test the processor time since the one before. Runs where the tests run, also in workers."""

    def __init__(self) -> None:
        self.mark = _processor_time()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self) -> None:
        self.mark = _processor_time()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        now = _processor_time()
        vars(report)["processor_time"] = now - self.mark  # workers send all attributes of a report
        self.mark = now
        return report


class _Table:
    """Adds the times up, and prints them at the end."""

    def __init__(self) -> None:
        self.of_tests: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.of_tests[report.nodeid] += vars(report).get("processor_time", 0.0)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        of_files: defaultdict[str, float] = defaultdict(float)
        tests: Counter[str] = Counter()
        for name, seconds in self.of_tests.items():
            of_files[name.partition("::")[0]] += seconds
            tests[name.partition("::")[0]] += 1
        terminalreporter.section("processor time, with that of processes waited for")
        terminalreporter.line(f"{sum(of_files.values()):9.2f} s  all {len(self.of_tests)} tests")
        terminalreporter.line(f"\nThe {SHOWN} slowest tests")
        for name, seconds in _slowest_first(self.of_tests)[:SHOWN]:
            terminalreporter.line(f"{seconds:9.2f} s  {name}")
        terminalreporter.line("\nFiles, slowest first")
        for name, seconds in _slowest_first(of_files):
            terminalreporter.line(f"{seconds:9.2f} s  {name} ({tests[name]})")
        if terminalreporter.config.getoption("write_slow_tests"):
            rows = [f"{seconds:6.1f}  {name}" for name, seconds in _slowest_first(self.of_tests) if seconds >= LIST_FROM_S]
            LIST.write_text("\n".join([*_HEADING, *rows]) + "\n", encoding="utf-8")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that writes the list."""
    parser.addoption("--write-slow-tests", action="store_true", help=f"write {LIST.name}: run all tests")


def _slowest_first(times: dict[str, float]) -> list[tuple[str, float]]:
    return sorted(times.items(), key=lambda item: -item[1])


def pytest_configure(config: pytest.Config) -> None:
    """Measure where tests run, and print where the whole is known."""
    config.pluginmanager.register(_Clock(), "slow-tests-clock")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Table(), "slow-tests-table")
