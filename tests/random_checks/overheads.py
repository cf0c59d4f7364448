"""Processors that spend time on messages: every figure is the same on both engines, and asking for symmetry changes none.

What NPUs compute and send stays the same, none computes while it spends time on a message, and where an experiment has no anomalies it ends
no earlier than without overheads.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

from astra_sim import AstraError, Result
from astra_sim.api import run_components
from support.experiment_checks import RUNS, components_of, differences, figures
from support.random_experiments import Experiment

IN_TESTS = 12
IN_NIGHTLY = 1000

_KEPT = ("compute_ns", "messages", "network_payload_bytes")


def check(seed: int, folder: Path) -> list[str]:
    """Let the messages of a random experiment have overheads."""
    experiment, random = Experiment(seed, folder), Random(seed)
    plain = _run(experiment.options, "compiled", False)
    if not isinstance(plain, Result):
        return []
    overheads: dict[str, Any] = {
        "send_overhead_ns": random.choice([0, 1, 100, 3000]),
        "receive_overhead_ns": random.choice([1, 100, 3000]),
        "overhead_per_byte_ns": random.choice([0.0, 0.0, 0.013]),
        "overhead_on": random.choice(["compute", "compute", "network"]),
    }
    options = {**experiment.options, "system": {**experiment.options["system"], **overheads}}
    runs = {run: _run(options, *run) for run in RUNS}
    answers = {run: figures(results) if isinstance(results, Result) else results for run, results in runs.items()}
    result = []
    for run in RUNS[1:]:
        result += differences(answers[RUNS[0]], answers[run], f"{run}")[:5]
    results = runs[RUNS[0]]
    if isinstance(results, Result):
        before, after = plain.to_dict(), results.to_dict()
        result += [f"{name} is {after[name]}, without overheads {before[name]}" for name in _KEPT if before.get(name) != after.get(name)]
        if overheads["overhead_on"] == "compute":
            result += _overlapping(results, overheads["send_overhead_ns"] + overheads["receive_overhead_ns"])
        if experiment.is_monotone() and results.finish_ns < plain.finish_ns:
            result.append(f"it ends after {results.finish_ns} ns, without overheads after {plain.finish_ns} ns")
    return [f"{line} ({overheads})" for line in result]


def _overlapping(result: Result, each_ns: int) -> list[str]:
    """Whether all NPUs together compute, and spend so long on each message, for longer than the run takes."""
    computing = sum((each.accelerator_ns or 0) * len(each.npus) for each in result.unit_times())
    busy, most = computing + result.messages * each_ns, result.npus * result.finish_ns
    return [f"processors are busy for {busy} ns, and have {most}"] if busy > most * (1 + 1e-9) else []


def _run(options: Mapping[str, Any], engine: str, symmetry: bool) -> Result | dict[str, Any]:
    """A run, or the kind of its error."""
    try:
        return run_components(components_of(options, engine, symmetry), "run", time.perf_counter(), npu_times=True)
    except AstraError as error:
        return {"error": type(error).__name__}
