"""How long sweeps take, and how much memory: python3 dev.py bench sweep

A thousand and ten thousand points of VGG-16 over platforms, in worker processes on all processors: wall time, CPU time, and the most
memory that the main process and a worker have had. The goals: ten thousand in under a minute on two cores, under 500 MB, and no more memory
for more points.
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
from pathlib import Path
from typing import Any

from astra_sim_sweep import sweep
from astra_sim_sweep.outcomes import run_points
from astra_sim_sweep.plan import Plan, read_plan
from astra_sim_sweep.tables import Columns, write_table

EXPERIMENT = str(Path(__file__).resolve().parents[1] / "examples" / "vgg16_dgx2_pod.toml")
OPTION = "platform.dimensions.{}.link_bandwidth_gib_per_s"


def tables(points: int) -> dict[str, Any]:
    """A sweep of VGG-16 over as many platforms, no two of which are the same."""
    inside = {"range": [10.0, 10.0 + (points // 100 - 1), 1.0], "name": "inside"}
    between = {"range": [5.0, 54.5, 0.5], "name": "between"}
    return {"base": {"experiment": EXPERIMENT}, "axes": {OPTION.format(0): inside, OPTION.format(1): between}}


def measured(points: int) -> tuple[float, float, float, float]:
    """Seconds, CPU seconds, and MB of the main process and of a worker, of a sweep in a new process."""
    done = subprocess.run([sys.executable, __file__, str(points)], capture_output=True, text=True, check=True)
    seconds, cpu, parent, worker = map(float, done.stdout.split())
    return seconds, cpu, parent, worker


def measure(points: int) -> None:
    """Run a sweep, and print what `measured` reads."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        counts = sweep(tables(points), os.path.join(folder, "results.csv")).finish()
        seconds = time.perf_counter() - began
    assert (counts.rows, counts.failed) == (points, 0)
    own, workers = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = own.ru_utime + own.ru_stime + workers.ru_utime + workers.ru_stime
    print(seconds, cpu, own.ru_maxrss / 1000, workers.ru_maxrss / 1000)


def main() -> None:
    """Print a table."""
    print(f"{'points':>7}  {'s':>6}  {'CPU s':>6}  {'ms CPU/point':>12}  {'MB main':>8}  {'MB worker':>9}")
    for points in (1000, 10_000):
        seconds, cpu, parent, worker = measured(points)
        print(f"{points:7}  {seconds:6.1f}  {cpu:6.1f}  {1000 * cpu / points:12.2f}  {parent:8.0f}  {worker:9.0f}")


def _run(points: int) -> None:
    for outcome in run_points(PLAN, range(points)):
        assert outcome.error is None


def _resolve(plan: Plan) -> None:
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
    if len(sys.argv) > 1:
        measure(int(sys.argv[1]))
    else:
        main()
