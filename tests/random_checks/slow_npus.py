"""NPUs that compute slower, always or in windows: every figure is the same on both engines, with and without symmetry.

A factor of 1 on all NPUs changes no figure, and where an experiment has no anomalies one more slow NPU ends no earlier.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

from astra_sim import AstraError
from astra_sim.api import run_components
from support.experiment_checks import RUNS, components_of, differences, figures
from support.random_experiments import Experiment

IN_TESTS = 12
IN_NIGHTLY = 1000

_UNITS = {"ns": 1, "us": 1000, "ms": 1_000_000}


def check(seed: int, folder: Path) -> list[str]:
    """Slow some NPUs of a random experiment."""
    experiment, random = Experiment(seed, folder), Random(seed)
    plain = _figures(experiment.options, "compiled", False)
    if "json" not in plain:
        return []
    finish_ns = plain["json"]["finish_ns"]
    result = differences(plain, _figures({**experiment.options, "slow_npus": "all:1"}, "compiled", True), "a factor of 1")[:5]
    entries = [_entry(random, experiment.npus, finish_ns) for _ in range(random.choice([1, 1, 2, 3]))]
    slow = {**experiment.options, "slow_npus": ", ".join(entries)}
    answers = {run: _figures(slow, *run) for run in RUNS}
    first = answers[RUNS[0]]
    for run in RUNS[1:]:
        result += differences(first, answers[run], f"{run}")[:5]
    if experiment.is_monotone() and "json" in first:
        slower = {**slow, "slow_npus": f"{slow['slow_npus']}, {_entry(random, experiment.npus, finish_ns)}"}
        times = [each["json"]["finish_ns"] for each in (plain, first, _figures(slower, "compiled", True))]
        if times != sorted(times):
            result.append(f"slower NPUs end earlier: {times} ns")
    return [f"{line} (slow_npus = {slow['slow_npus']!r})" for line in result]


def _entry(random: Random, npus: int, finish_ns: float) -> str:
    first = random.randrange(npus)
    who = random.choice(["all", str(first), f"{first}-{random.randrange(first, npus)}"])
    entry = f"{who}:{random.choice(['1.5', '2', '1.000001', '7.25', '100'])}"
    if random.random() < 0.5:
        return entry
    unit = random.choice(list(_UNITS))
    begin, length = (round(random.random() * finish_ns / _UNITS[unit], 3) for _ in range(2))
    return f"{entry}@{begin}{unit}-" + (f"{begin + length + 0.001:.3f}{unit}" if random.random() < 0.8 else "")


def _figures(options: Mapping[str, Any], engine: str, symmetry: bool) -> dict[str, Any]:
    """All figures of a run, or the kind of its error."""
    try:
        components = components_of(options, engine, symmetry)
        return figures(run_components(components, "run", time.perf_counter(), npu_times=True))
    except AstraError as error:
        return {"error": type(error).__name__}
