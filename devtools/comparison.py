"""How fast this checkout is beside another revision: both run the same cases alternately; CPU time is compared.

The cases are `CASES` of a benchmark: name -> a function that runs one. Each revision has a checkout and an
environment of its own; the benchmark is that of this checkout in both, so that both do the same work.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from devtools.environment import Environment
from devtools.workspace import ROOT, Failure, run_quietly

ROUNDS = 7

MEASURE = """
import json, resource, runpy, sys
def used():
    both = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in both)
path, *names = sys.argv[1:]
cases = runpy.run_path(path)["CASES"]
if names:
    action = cases[names[0]]
    action()
    begin, runs, taken = used(), 0, 0.0
    while taken < 0.4:
        action()
        runs, taken = runs + 1, used() - begin
    print(json.dumps(taken / runs))
else:
    print(json.dumps(list(cases)))
"""
"""Says which cases there are, or the CPU seconds of a run of one and of its processes, after a first run that does not count."""


def compare(name: str, revision: str, environment: Environment) -> list[str]:
    """The lines of a table: CPU seconds of every case of a benchmark, here and at a revision, and how many times as fast it is here.

    Times are medians of several rounds; so is the ratio, of the two times of a round. Raises Failure if there is no such revision, or
    where the benchmark does not run there.
    """
    benchmark = ROOT / "benchmarks" / f"{name}.py"
    with tempfile.TemporaryDirectory(prefix="astra-bench-") as folder:
        other = Path(folder, "checkout")
        git = ("git", "-C", ROOT, "worktree")
        run_quietly(f"checking out {revision}", *git, "add", "--detach", other, revision)
        try:
            run_quietly(f"installing {revision}", sys.executable, other / "dev.py", "astra", "--version")
            sides = {"here": environment.python, revision: Environment(other / ".venv").python}
            return _table(benchmark, sides)
        finally:
            run_quietly("removing the checkout", *git, "remove", "--force", other)


def _table(benchmark: Path, sides: dict[str, Path]) -> list[str]:
    cases: list[str] = _answer("here", sides["here"], benchmark)
    width = max(map(len, cases))
    here, there = sides
    lines = [f"{'CPU seconds':{width}}  {here:>10}  {there[:10]:>10}  times as fast (from - to)"]
    for case in cases:
        print(f"dev.py: {case}", file=sys.stderr, flush=True)
        rounds = []
        for number in range(ROUNDS):
            order = list(sides.items())[:: 1 if number % 2 else -1]  # no side is always the first
            taken = {side: float(_answer(side, python, benchmark, case)) for side, python in order}
            rounds.append((taken[here], taken[there]))
        lines.append(f"{case:{width}}  {row(rounds)}")
    return lines


def row(rounds: Sequence[tuple[float, float]]) -> str:
    """The figures of a case: median seconds of both, and median, least and most of the ratio in a round."""
    ratios = [there / here for here, there in rounds]
    here, there = (statistics.median(times) for times in zip(*rounds, strict=True))
    return f"{here:10.4f}  {there:10.4f}  {statistics.median(ratios):.3f} ({min(ratios):.3f} - {max(ratios):.3f})"


def _answer(side: str, python: Path, benchmark: Path, *case: str) -> Any:
    """What MEASURE prints in the environment of one side. Raises Failure."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}  # benchmarks import devtools
    done = subprocess.run([python, "-c", MEASURE, benchmark, *case], capture_output=True, text=True, check=False, env=variables)
    if done.returncode:
        raise Failure(f"{done.stderr}dev.py: {benchmark.name} {' '.join(case)} does not run ({side})")
    return json.loads(done.stdout)
