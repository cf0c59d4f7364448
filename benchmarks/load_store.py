"""Loads and stores of cache lines on the inside of GPUs: python3 dev.py bench load_store.

CPU seconds of whole runs in a process that has made a small one before: all-gathers by put, every load and store a request and a reply
through the routers of the packet network. Most of the time of the reference GPU is its table of routes.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from functools import partial

import astra_sim

from devtools.figures import FigureTable, Row, main

SMALL = "gpus=4&columns=4&rows=2&router_compute_units=1&channels=8&ports=8"
ALL_GATHERS: tuple[tuple[str, tuple[str, int, int]], ...] = (
    ("4 GPUs of 8 compute units, 256 KiB", (SMALL, 1 << 18, 4)),
    ("the same, 2 MiB", (SMALL, 1 << 21, 4)),
    ("8 reference GPUs, 1 MiB", ("gpus=8", 1 << 20, 32)),
)


def _run(platform: str, size: int, workgroups: int) -> tuple[int, float]:
    """Loads and stores, and CPU seconds of a run."""
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = astra_sim.simulate(
            workload=f"plugin:load_store?bytes={size}&workgroups={workgroups}",
            platform=f"plugin:gpu_mesh?{platform}",
            network="plugin:packet",
        )
    return result.to_dict()["loads_and_stores"], time.process_time() - begin


def _row(platform: str, size: int, workgroups: int) -> list[str]:
    _run(SMALL, 1 << 12, 1)
    lines, seconds = min((_run(platform, size, workgroups) for _ in range(3)), key=lambda each: each[1])
    return [f"{lines:,}", f"{seconds:.1f}"]


CASES: dict[str, Callable[[], object]] = {name: partial(_row, *case) for name, case in ALL_GATHERS[:2]}
"""What `dev.py bench load_store --against REVISION` compares."""
TABLES = (
    FigureTable(
        "requests",
        ("all-gather by put", "loads and stores", "CPU s"),
        [Row([name], partial(_row, *case)) for name, case in ALL_GATHERS],
    ),
)

if __name__ == "__main__":
    sys.exit(main(TABLES))
