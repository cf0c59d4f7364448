"""Random runs of jobs with failures against Daly's complete model, and shares that add up."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from astra_sim_goodput import goodput

IN_TESTS = 6
IN_NIGHTLY = 300

_SEEDS = 100
_WIDER = 2.0
"""Times the 99 % interval: a false alarm then comes once in several million."""


def check(seed: int, folder: Path) -> list[str]:
    """A job of one level of checkpoints, for which the model is exact, over many times between interruptions."""
    random = Random(seed)
    nodes = random.randint(1, 4096)
    mtti_s = 10 ** random.uniform(3, 6)
    write = mtti_s * 10 ** random.uniform(-4, -1)
    table: dict[str, Any] = {
        "nodes": nodes,
        "mtbf_node_days": nodes * mtti_s / 86400,
        "days": 300 * mtti_s / 86400,
        "checkpoint": {"levels": [{"write_s": write, "load_s": mtti_s * random.uniform(0, 0.3)}]},
        "recovery": {"detect_s": mtti_s * random.uniform(0, 0.1), "replace_s": mtti_s * random.uniform(0, 0.1)},
    }
    if random.random() < 0.5:
        table["checkpoint"]["interval"] = mtti_s * 10 ** random.uniform(-2, 0.3)
    result = goodput({"goodput": table}, seeds=_SEEDS)
    assert result.monte_carlo is not None
    runs = result.monte_carlo.goodput
    away, allowed = abs(runs.mean - result.goodput), _WIDER * (runs.mean - runs.interval99[0]) + 0.003
    wrong = [] if away <= allowed else [f"{table}: {result.goodput} by the model, {runs} by {_SEEDS} runs"]
    return wrong + ([] if abs(sum(result.shares.values()) - 1) < 1e-9 else [f"{table}: shares add up to {sum(result.shares.values())}"])
