"""How far designed collectives are from their lower bound, and how matchings compare with TACOS's: python3 dev.py bench synthesis.

A row of `gaps` has those of an all-reduce, an all-gather and an all-to-all of 64 MiB, of the plan and of what the system layer does without
one (auto), in per cent of the bound. They are simulated times: the same on every machine. `exchanges` has an all-to-all of 64 MiB on 1024
NPUs, `tacos` the cases of TACOS's own tests: an all-gather with the published time of the best of 20 matchings.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial

from astra_sim_synthesis import synthesize

from devtools.figures import FigureTable, Row, main
from devtools.tacos import TACOS, TacosCase, matching_as_tacos

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


LARGE = (
    "switch?size=1024",
    "clos?npus=1024&ports=64",
    "torus?sizes=32,32",
    "torus?sizes=8,16,8",
    "rail_optimized?servers=128",
)


def _large(fabric: str) -> list[str]:
    begin = time.process_time()
    plan = synthesize(_platform(fabric), "all_to_all", SIZE)
    assert plan.gap is not None
    gaps = f"{100 * plan.gap:.1f} ({100 * (plan.auto_ns / plan.bound.time_ns - 1):.1f})"
    return [f"{plan.time_ns / 1e3:.0f}", gaps, f"{time.process_time() - begin:.0f}"]


def _tacos(case: TacosCase) -> list[str]:
    time_us, find_ms = matching_as_tacos(case)
    plan = synthesize(case.platform, "all_gather", case.size_mib << 20, method="matching")
    figures = [f"{case.time_us:.1f}", f"{time_us:.1f}", f"{plan.time_ns / 1000:.1f}", f"{plan.bound.time_ns / 1000:.1f}"]
    return [*figures, f"{case.find_ms:.3g}", f"{find_ms:.3g}", f"{case.find_ms / find_ms:.0f}"]


CASES: dict[str, Callable[[], object]] = {fabric: partial(_gaps, fabric) for fabric in FABRICS[:3]}
"""What `dev.py bench synthesis --against REVISION` compares."""
TABLES = (
    FigureTable(
        "gaps",
        ("fabric", "all-reduce (auto)", "all-gather (auto)", "all-to-all (auto)"),
        [Row([fabric], partial(_gaps, fabric)) for fabric in FABRICS],
    ),
    FigureTable(
        "exchanges",
        ("fabric", "time (us)", "gap (auto) (%)", "planned in (s)"),
        [Row([fabric], partial(_large, fabric)) for fabric in LARGE],
    ),
    FigureTable(
        "tacos",
        ("case", "TACOS (us)", "ours (us)", "our plan (us)", "bound (us)", "TACOS finds (ms)", "ours finds (ms)", "times"),
        [Row([case.name], partial(_tacos, case)) for case in TACOS],
    ),
)

if __name__ == "__main__":
    sys.exit(main(TABLES))
