"""Whole processes, from start to end: python3 dev.py bench start.

CPU time of a process (user and system), beside that of a Python that does nothing. All take turns, so that what else the machine does
meets all alike; a first round, in which bytecode is written and entry points are read, does not count.
"""

from __future__ import annotations

import functools
import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from devtools.figures import FigureTable, Row, main

ROOT = Path(__file__).resolve().parents[1]
ROUNDS = 25
EXPERIMENT = str(ROOT / "examples" / "vgg16_dgx2_pod.toml")
PROCESSES = {
    "python -c pass": ("-c", "pass"),
    "python -c 'import attrs, cattrs, click, pluggy'": ("-c", "import attrs, cattrs, click, pluggy"),
    "import astra_sim": ("-c", "import astra_sim"),
    "astra --help": ("-m", "astra_sim", "--help"),
    "astra plugins": ("-m", "astra_sim", "plugins"),
    "astra run --help": ("-m", "astra_sim", "run", "--help"),
    "astra EXPERIMENT (VGG-16, DGX-2 pod)": ("-m", "astra_sim", EXPERIMENT),
    "the same without what is remembered": ("-m", "astra_sim", EXPERIMENT),
}
"""Arguments of Python."""
FORGETFUL = "the same without what is remembered"


def run(name: str) -> None:
    """Run one process to its end."""
    variables = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    if name == FORGETFUL:
        variables["ASTRA_CACHE_DIR"] = ""
    subprocess.run([sys.executable, *PROCESSES[name]], check=True, stdout=subprocess.DEVNULL, env=variables)


def case(name: str) -> Callable[[], None]:
    """A function that runs one process."""
    return lambda: run(name)


CASES: dict[str, Callable[[], None]] = {name: case(name) for name in PROCESSES}
"""What `dev.py bench start --against REVISION` compares."""


def cpu_ms(name: str) -> float:
    """CPU time of one process in milliseconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run(name)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e3


@functools.cache
def taken() -> dict[str, list[float]]:
    """What each process takes in each round, in milliseconds."""
    for name in PROCESSES:
        run(name)
    found: dict[str, list[float]] = {name: [] for name in PROCESSES}
    for _ in range(ROUNDS):
        for name, figures in found.items():
            figures.append(cpu_ms(name))
    return found


def _row(name: str) -> list[str]:
    figures, bare = taken()[name], statistics.median(taken()["python -c pass"])
    median = statistics.median(figures)
    return [f"{median:.0f} ms", f"{min(figures):.0f} ms", f"{median / bare:.1f}"]


WHOLE = FigureTable(
    "processes",
    ("process", "CPU time, median", "least", "times `python -c pass`"),
    [Row([name], partial(_row, name)) for name in PROCESSES],
)
TABLES = (WHOLE,)

if __name__ == "__main__":
    sys.exit(main(TABLES))
