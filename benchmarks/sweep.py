"""How long sweeps take, and how much memory: python3 dev.py bench sweep

A thousand and ten thousand points of VGG-16 over platforms, in worker processes on all processors: wall time, CPU time, and the most
memory that the main process and a worker have had. The goals: ten thousand in under a minute on two cores, under 500 MB, and no more memory
for more points. Then two searches for the cheapest of these platforms that keeps a goal: of all of a thousand points, and by 200 trials of
Optuna, which has one proposal at a time for each process.
"""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from astra_sim_sweep import search, sweep
from astra_sim_sweep.outcomes import run_points
from astra_sim_sweep.plan import SweepPlan, read_plan
from astra_sim_sweep.tables import Columns, write_table

from devtools.figures import FigureTable, Row, main

EXPERIMENT = str(Path(__file__).resolve().parents[1] / "examples" / "vgg16_dgx2_pod.toml")
OPTION = "platform.dimensions.{}.link_bandwidth_gib_per_s"


def tables(points: int) -> dict[str, Any]:
    """A sweep of VGG-16 over as many platforms, no two of which are the same."""
    inside = {"range": [10.0, 10.0 + (points // 100 - 1), 1.0], "name": "inside"}
    between = {"range": [5.0, 54.5, 0.5], "name": "between"}
    return {"base": {"experiment": EXPERIMENT}, "axes": {OPTION.format(0): inside, OPTION.format(1): between}}


def search_tables(trials: int) -> dict[str, Any]:
    """A search for the cheapest platform that is fast enough: by a number of trials among spans, or (0) of a thousand points."""
    goal: dict[str, Any] = {"minimize": "network_cost_usd", "constraints": {"fast": "finish_ns < 6e6"}}
    if not trials:
        return {**tables(1000), "search": goal | {"method": "exhaustive"}}
    spans = {OPTION.format(0): {"uniform": [10.0, 110.0], "name": "inside"}, OPTION.format(1): {"uniform": [5.0, 55.0], "name": "between"}}
    return {**tables(1000), "axes": spans, "search": goal | {"trials": trials}}


def measured(what: str, points: int) -> tuple[float, float, float, float]:
    """Seconds, CPU seconds, and MB of the main process and of a worker, of a sweep or a search in a new process."""
    done = subprocess.run([sys.executable, __file__, what, str(points)], capture_output=True, text=True, check=True)
    seconds, cpu, parent, worker = map(float, done.stdout.split())
    return seconds, cpu, parent, worker


def measure(what: str, points: int) -> None:
    """Run a sweep, or a search, and print what `measured` reads."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        table = os.path.join(folder, "results.csv")
        if what == "sweep":
            counts = sweep(tables(points), table).finish()
            ran, failed = counts.rows, counts.failed
        else:
            result = search(search_tables(points if what == "search by tpe" else 0), table).finish()
            ran, failed = result.run, result.failed
        seconds = time.perf_counter() - began
    assert (ran, failed) == (points, 0)
    own, workers = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = own.ru_utime + own.ru_stime + workers.ru_utime + workers.ru_stime
    print(seconds, cpu, own.ru_maxrss / 1000, workers.ru_maxrss / 1000)


def _row(what: str, points: int) -> list[str]:
    seconds, cpu, parent, worker = measured(what, points)
    return [f"{seconds:.1f}", f"{cpu:.1f}", f"{1000 * cpu / points:.2f}", f"{parent:.0f} MB", f"{worker:.0f} MB"]


POINTS = FigureTable(
    "points",
    ("what", "points", "wall s", "CPU s", "CPU ms a point", "main process", "worker"),
    [
        Row([what, str(points)], partial(_row, what, points))
        for what, points in (("sweep", 1000), ("sweep", 10_000), ("search all", 1000), ("search by tpe", 200))
    ],
)
TABLES = (POINTS,)


def _run(points: int) -> None:
    for outcome in run_points(PLAN, range(points)):
        assert outcome.error is None


def _resolve(plan: SweepPlan) -> None:
    for number in range(0, plan.points.count, 10):
        plan.point(number)


def _write(rows: int) -> None:
    columns = Columns(["x"])
    row = columns.row({"x": 1}, {f"figure_{number}": 1.5 * number for number in range(15)}, None, 0.1)
    columns.add(0, row)
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        write_table(os.path.join(folder, "results.csv"), columns, (row for _ in range(rows)))


PLAN = read_plan(tables(1000))
CASES: dict[str, Callable[[], None]] = {
    "20 points in process": lambda: _run(20),
    "100 points resolved": lambda: _resolve(PLAN),
    "1000 rows written as CSV": lambda: _write(1000),
}

if __name__ == "__main__":
    if sys.argv[2:3] and sys.argv[2].isdecimal():
        measure(sys.argv[1], int(sys.argv[2]))
    else:
        sys.exit(main(TABLES))
