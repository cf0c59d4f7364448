"""Whole processes, from start to end: python3 dev.py bench start.

CPU time of a process (user and system), beside that of a Python that does nothing. All take turns, so that what else the machine does
meets all alike; a first round, in which bytecode is written and entry points are read, does not count.

The times of the parts of a short run are differences between processes, of which each has one part more than the one before.
"""

from __future__ import annotations

import functools
import os
import resource
import shlex
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
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
    "the same without the cache": ("-m", "astra_sim", EXPERIMENT),
}
"""Arguments of Python."""
FORGETFUL = "the same without the cache"

RUN = "astra EXPERIMENT (VGG-16, DGX-2 pod)"
STEPS = {
    "Python": "pass",
    "import of attrs": "import attrs",
    "import of click": "import click",
    "import of pluggy": "import pluggy",
    "import of cattrs": "import cattrs",
    "modules of the command": "import astra_sim.command.cli",
    "modules of all plugins, and their hooks": "from astra_sim.setup.plugins import shared_plugins; shared_plugins().infos()",
    "modules of a run": "import astra_sim.api",
    "the run, with modules of its components, and its tables": "",
}
"""What a run does, one thing after another, as the command does it; the last is all that is left of `RUN`."""
_NAMES = list(STEPS)
PROCESSES |= {f"parts: {name}": ("-c", "\n".join(list(STEPS.values())[: index + 1])) for index, name in enumerate(_NAMES[:-1])}
SIDE_BY_SIDE = [name for name in PROCESSES if not name.startswith("parts: ")]


def run(name: str) -> None:
    """Run one process to its end."""
    variables = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    if name == FORGETFUL:
        variables["ASTRA_CACHE_DIR"] = ""
    subprocess.run([sys.executable, *PROCESSES[name]], check=True, stdout=subprocess.DEVNULL, env=variables)


def case(name: str) -> Callable[[], None]:
    """A function that runs one process."""
    return lambda: run(name)


CASES: dict[str, Callable[[], None]] = {name: case(name) for name in SIDE_BY_SIDE}
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
    result: dict[str, list[float]] = {name: [] for name in PROCESSES}
    for _ in range(ROUNDS):
        for name, figures in result.items():
            figures.append(cpu_ms(name))
    return result


def _row(name: str) -> list[str]:
    figures, bare = taken()[name], statistics.median(taken()["python -c pass"])
    median = statistics.median(figures)
    return [f"{median:.0f} ms", f"{min(figures):.0f} ms", f"{median / bare:.1f}"]


WHOLE = FigureTable(
    "processes",
    ("process", "CPU time, median", "least", "times `python -c pass`"),
    [Row([name], partial(_row, name)) for name in SIDE_BY_SIDE],
)


def _part(index: int) -> list[str]:
    """What a step adds, and its share of the run."""
    whole = statistics.median(taken()[RUN])
    until = [0.0, *(statistics.median(taken()[f"parts: {name}"]) for name in _NAMES[:-1]), whole]
    added = until[index + 1] - until[index]
    return [f"{added:.0f} ms", f"{added / whole:.2f}"]


PARTS = FigureTable(
    "parts",
    ("what a run does", "CPU time added, median", "share"),
    [Row([name], partial(_part, index)) for index, name in enumerate(_NAMES)],
)
_MANY = 20
_SERVED = {
    "astra --help": (sys.executable, "-m", "astra_sim", "--help"),
    RUN: (sys.executable, "-m", "astra_sim", EXPERIMENT),
    "a drop-in program of 2.x, --help": (
        sys.executable,
        "-P",
        "-m",
        "astra_sim_compat",
        "AstraSim_Analytical_Congestion_Unaware",
        "--help",
    ),
}


def _each_ms(command: Sequence[str], server: Sequence[str]) -> float:
    """CPU time that each further program of a script takes, in it and in the server, in milliseconds."""

    def taken_by(count: int) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        loop = f"for i in $(seq {count}); do {shlex.join(command)} >/dev/null; done"
        subprocess.run([*server, "sh", "-c", loop], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e3

    first = taken_by(1)
    return (taken_by(_MANY + 1) - first) / _MANY


def _served(name: str) -> list[str]:
    """A program of a script by itself, and in a server; the least of three."""
    server = [sys.executable, "-m", "astra_sim", "server"]
    alone, served = (min(_each_ms(_SERVED[name], before) for _ in range(3)) for before in ([], server))
    return [f"{alone:.0f} ms", f"{served:.0f} ms", f"{alone / served:.1f}"]


MANY = FigureTable(
    "server",
    ("program of a script", "CPU time, by itself", "in `astra server`", "ratio"),
    [Row([name], partial(_served, name)) for name in _SERVED],
)
TABLES = (WHOLE, PARTS, MANY)

if __name__ == "__main__":
    sys.exit(main(TABLES))
