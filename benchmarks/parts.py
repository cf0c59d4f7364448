"""What the network `auto` saves, beside the whole run on `packet`: python3 dev.py bench parts.

A case of `blocks` trains blocks of a model whose all-reduces are alike, one iteration; one of `studies` is an experiment of
`examples/studies` on 1024 GPUs. Both runs are in one process, one after the other; times are processor time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from astra_sim import Result, simulate

from devtools.figures import FigureTable, Row, main

LINK = "link_bandwidth_gb_per_s=50&link_latency_ns=500"
PLATFORMS = {
    "clos?npus=64&leaf_npus=16": 24,
    "clos?npus=256&leaf_npus=32": 24,
    "mesh?sizes=4,4": 24,
    "torus?sizes=4,4,4": 24,
}
"""Platforms, with how many blocks are trained."""
SIZE = 4 << 20
STUDIES = "gpt3_slice.toml", "gpt3_narrow.toml"
"""On 1024 GPUs, as packets on `roce`."""
ROCE = "roce?payload_bytes=4096"


def _experiment(fabric: str, blocks: int) -> dict[str, Any]:
    reduced = {"compute_ns": 100_000, "collective": "all_reduce", "collective_bytes": SIZE}
    block = {"forward": reduced, "input_gradient": reduced, "weight_gradient": {"compute_ns": 100_000}}
    layers = [{"name": f"block{number}", **block} for number in range(blocks)]
    return {"workload": {"plugin": "layers", "loop": "model", "layers": layers}, "platform": f"plugin:{fabric}&{LINK}"}


def _timed(network: str, parts: dict[str, Any]) -> tuple[float, Result]:
    started = time.process_time()
    result = simulate(network=f"plugin:{network}", **parts)
    return time.process_time() - started, result


def _row(fabric: str, blocks: int) -> list[str]:
    parts = _experiment(fabric, blocks)
    in_parts_s, in_parts = _timed("auto", parts)
    whole_s, whole = _timed("packet", parts)
    error = in_parts.figures["network_error"]["width"]
    difference = in_parts.finish_ns / whole.finish_ns - 1
    return [f"{whole_s:.2f}", f"{in_parts_s:.2f}", f"{whole_s / in_parts_s:.1f}", f"{difference:+.3%}", f"{error:.2%}"]


def _study(name: str) -> list[str]:
    path = str(Path(__file__).parents[1] / "examples" / "studies" / name)
    started = time.process_time()
    in_parts = simulate(path, network={"plugin": "auto", "target": ROCE})
    in_parts_s = time.process_time() - started
    whole = simulate(path, network=f"plugin:{ROCE}")
    whole_s = time.process_time() - started - in_parts_s
    error = in_parts.figures["network_error"]["width"]
    difference = in_parts.finish_ns / whole.finish_ns - 1
    return [f"{whole_s:.1f}", f"{in_parts_s:.1f}", f"{whole_s / in_parts_s:.1f}", f"{difference:+.3%}", f"{error:.2%}"]


CASES: dict[str, Callable[[], object]] = {
    fabric: partial(_timed, "auto", _experiment(fabric, blocks)) for fabric, blocks in PLATFORMS.items()
}
"""What `dev.py bench parts --against REVISION` compares."""
TABLES = (
    FigureTable(
        "blocks",
        ("fabric", "blocks", "packet (CPU s)", "auto (CPU s)", "ratio", "time of auto", "network error"),
        [Row([fabric, str(blocks)], partial(_row, fabric, blocks)) for fabric, blocks in PLATFORMS.items()],
    ),
    FigureTable(
        "studies",
        ("study", "roce (CPU s)", "auto (CPU s)", "ratio", "time of auto", "network error"),
        [Row([name], partial(_study, name)) for name in STUDIES],
    ),
)

if __name__ == "__main__":
    sys.exit(main(TABLES))
