"""How far designed collectives are from their lower bound: python3 dev.py bench synthesis.

A row has the gaps of an all-reduce, an all-gather and an all-to-all of 64 MiB, of the plan and of what the system layer does without one
(auto), in per cent of the bound. They are simulated times: the same on every machine.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

from astra_sim_synthesis import synthesize

from devtools.figures import FigureTable, Row, main

LINK = "link_bandwidth_gb_per_s=50&link_latency_ns=500"
FABRICS = (
    "switch?size=16",
    "ring?size=16&links=2",
    "torus?sizes=4,4",
    "torus?sizes=4,4,4",
    "mesh?sizes=4,4",
    "clos?npus=64&ports=16",
    "clos?npus=64&ports=16&oversubscription=3",
    "rail_optimized?servers=4",
    "dragonfly?routers=4&npus=2&global_links=1&groups=4",
    "dgx_h100?nodes=4",
)
COLLECTIVES = ("all_reduce", "all_gather", "all_to_all")
SIZE = 64 << 20


def _platform(fabric: str) -> str:
    own_links = fabric.startswith(("rail_optimized", "dgx"))
    return f"plugin:{fabric}" if own_links else f"plugin:{fabric}&{LINK}"


def _gaps(fabric: str) -> list[str]:
    cells = []
    for collective in COLLECTIVES:
        plan = synthesize(_platform(fabric), collective, SIZE)
        assert plan.gap is not None
        cells.append(f"{100 * plan.gap:.1f} ({100 * (plan.auto_ns / plan.bound.time_ns - 1):.1f})")
    return cells


CASES: dict[str, Callable[[], object]] = {fabric: partial(_gaps, fabric) for fabric in FABRICS[:3]}
"""What `dev.py bench synthesis --against REVISION` compares."""
TABLES = (
    FigureTable(
        "gaps",
        ("fabric", "all-reduce (auto)", "all-gather (auto)", "all-to-all (auto)"),
        [Row([fabric], partial(_gaps, fabric)) for fabric in FABRICS],
    ),
)

if __name__ == "__main__":
    sys.exit(main(TABLES))
