"""What explanations cost: python3 dev.py bench explain.

Every figure is the least CPU time of several runs, with and without the explanation. On networks where messages wait for each other an
explanation runs the experiment again; here it does not.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import astra_sim
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
TORUS = "plugin:torus?sizes=8,8&link_bandwidth_gib_per_s=50&link_latency_ns=500"
RING = "plugin:torus?sizes=256&link_bandwidth_gib_per_s=50&link_latency_ns=500"
ALL_REDUCE = {"workload": "plugin:collective?bytes=67108864", "platform": TORUS, "system": "plugin:astra1?splits=16"}
RUNS: dict[str, dict[str, Any]] = {
    **{name: {"experiment": ROOT / "examples" / f"{name}.toml"} for name in ("vgg16_dgx2_pod", "vgg16_tpu_v2", "gpt3_dgx2_pod")},
    "all-reduce, every NPU of a ring of 256": {**ALL_REDUCE, "platform": RING, "system": "plugin:astra1?splits=1", "symmetry": False},
    "all-reduce, every NPU of 64": {**ALL_REDUCE, "symmetry": False},
    "the same with congestion": {**ALL_REDUCE, "network": "plugin:analytical?congestion=aware"},
}


def simulate(arguments: dict[str, Any], explain: bool) -> astra_sim.Result:
    """A run, with or without its explanation."""
    return astra_sim.simulate(**arguments, explain="path" if explain else False)


CASES: dict[str, Callable[[], object]] = {
    f"{name}{', explained' if explain else ''}": partial(simulate, arguments, explain)
    for name, arguments in RUNS.items()
    for explain in (False, True)
}
"""What `dev.py bench explain --against REVISION` compares."""


def cpu_seconds(action: Callable[[], object], runs: int = 10) -> float:
    """The least CPU time of some runs, after one that does not count."""
    action()
    result = []
    for _ in range(runs):
        begin = time.process_time()
        action()
        result.append(time.process_time() - begin)
    return min(result)


def main() -> None:
    table = Table(title="Explanations: least CPU time of ten runs", title_justify="left")
    for name in ("run", "plain", "explained", "ratio"):
        table.add_column(name, justify="left" if name == "run" else "right")
    for name, arguments in RUNS.items():
        plain, explained = (cpu_seconds(partial(simulate, arguments, explain)) for explain in (False, True))
        table.add_row(name, f"{plain * 1e3:.2f} ms", f"{explained * 1e3:.2f} ms", f"{explained / plain:.2f}")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
