"""Sweeps for tests: experiments that take milliseconds, and a plugin that crashes or hangs on request."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

PLATFORM = "plugin:ring?size=4&links=2&link_bandwidth_gb_per_s=32&link_latency_ns=30"
TIMES = ("wall_s",)
"""Columns that differ from run to run."""

PLUGIN = """
import os, signal, time
import attrs
from astra_sim import Provider, hookimpl, option
from astra_sim.graph import Compute, ExecutionGraph

@attrs.frozen
class Options:
    number: int = option(help="which point this is; the computing takes so many ns")
    crash: int = option(-1, help="the point that ends its process")
    hang: int = option(-1, help="the point that does not end")
    fail: int = option(-1, help="the point that raises an error")
    killer: str = option("", help="a file: whoever finds it removes it and ends")
    seconds: float = option(0.0, help="how long a run takes")

def make(options, context):
    with open(os.environ["FAULTY_LOG"], "a") as file:
        file.write(f"{options.number}\\n")
    time.sleep(options.seconds)
    if options.number == options.crash:
        os.kill(os.getpid(), signal.SIGSEGV)
    if options.number == options.hang:
        time.sleep(1000)
    if options.number == options.fail:
        raise RuntimeError("no luck")
    if options.killer and os.path.exists(options.killer):
        os.unlink(options.killer)
        os.kill(os.getpid(), signal.SIGKILL)
    return ExecutionGraph([Compute((), 1000 * (options.number + 1))], (), ())

@hookimpl
def astra_workloads():
    return [Provider("faulty", "Fails where it is told to", make, Options)]
"""


class Faulty:
    """A folder with a sweep whose workload is the plugin `faulty`, installed for processes with `environment`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        packages = folder / "packages"
        information = packages / "faulty-1.0.dist-info"
        information.mkdir(parents=True)
        (packages / "faulty_workload.py").write_text(PLUGIN)
        (information / "METADATA").write_text("Metadata-Version: 2.1\nName: faulty\nVersion: 1.0\n")
        (information / "entry_points.txt").write_text("[astra_sim]\nfaulty = faulty_workload\n")
        paths = [str(packages), *filter(None, [os.environ.get("PYTHONPATH")])]
        self.log = folder / "log"
        self.environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "FAULTY_LOG": str(self.log)}
        self.table = folder / "results.csv"
        self.journal = folder / "results.journal.sqlite"

    def write(self, points: int, *tables: str, **options: Any) -> None:
        """Write sweep.toml: a number of points, other tables as text, and options of the workload."""
        spec = "&".join(f"{name}={value}" for name, value in options.items())
        (self.folder / "sweep.toml").write_text(
            f'[base]\nplatform = "{PLATFORM}"\nworkload = "plugin:faulty{spec and f"?{spec}"}"\n\n'
            f'[axes]\nworkload.number = {{range = [0, {points - 1}, 1], name = "number"}}\n' + "".join(f"\n{table}\n" for table in tables)
        )

    def begin(self, *arguments: str, command: str = "sweep") -> subprocess.Popen[str]:
        """Start `astra sweep` on it, or `astra search`."""
        words = [sys.executable, "-m", "astra_sim", command, "sweep.toml", "-o", self.table.name, *arguments]
        return subprocess.Popen(words, cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, *arguments: str, command: str = "sweep") -> subprocess.CompletedProcess[str]:
        """The same to its end."""
        process = self.begin(*arguments, command=command)
        out, err = process.communicate(timeout=120)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    @property
    def begun(self) -> list[int]:
        """The points whose runs have begun, in that order."""
        return [int(line) for line in self.log.read_text().split()] if self.log.exists() else []

    def rows(self) -> list[dict[str, str]]:
        """The rows of the table."""
        return read_rows(self.table)


def read_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a table in CSV."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def steady(rows: Sequence[dict[str, str]]) -> list[dict[str, str]]:
    """Rows without what differs from run to run."""
    return [{name: value for name, value in row.items() if name not in TIMES} for row in rows]


def until(condition: Callable[[], bool], what: str, seconds: float = 60) -> None:
    """Wait until something is so."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"it does not come to be that {what}"
        time.sleep(0.01)
