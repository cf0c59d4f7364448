"""What must hold for experiments holds on every network, with every collective algorithm, however it is run.

The properties are those of `support.experiment_checks`: engines, symmetry, threads, the same once more, bytes, bounds of links, numbers of
NPUs.
"""

from __future__ import annotations

from pathlib import Path

from support import experiment_checks
from support.random_experiments import OnAnyNetwork

IN_TESTS = 24
IN_NIGHTLY = 1500


def check(seed: int, folder: Path) -> list[str]:
    """What does not hold for the experiment of a seed."""
    return experiment_checks.check(seed, folder, OnAnyNetwork).violations
