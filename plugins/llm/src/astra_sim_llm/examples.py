"""Options to try the workload with, on any platform."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def examples(folder: Path) -> list[dict[str, Any]]:
    """Small models, in training and in inference."""
    small = {"layers": 2, "hidden": 256, "heads": 4, "vocab": 1024, "sequence": 128}
    return [
        {"model": small, "global_batch": 5040},
        {"model": small, "global_batch": 5040, "mode": "prefill", "micro_batch": 1},
    ]
