"""How far designed collectives are from their lower bound, and how matchings compare with TACOS's: python3 dev.py bench synthesis.

A row of `gaps` has those of an all-reduce, an all-gather and an all-to-all of 64 MiB, of the plan and of what the system layer does without
one (auto), in per cent of the bound. They are simulated times: the same on every machine. A row of `exchanges` has the same of an all-to-all
of 64 MiB on 1024 NPUs. A row of `tacos` has a case of TACOS's own tests: an all-gather with the published time of the best of 20 matchings.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import attrs
import numpy as np
from astra_sim.commands import shared_plugins
from astra_sim_synthesis import synthesize
from astra_sim_synthesis.edges import RankGraph, rank_graph
from astra_sim_synthesis.judge import Judge
from astra_sim_synthesis.matching import Matcher
from astra_sim_synthesis.synthesis import NETWORK

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


class TacosCase(NamedTuple):
    """A test of TACOS (commit 1811f1f): a grid with links between neighbours, and the all-gather on it.

    Bandwidths are in GiB/s, one for each dimension, the latency in microseconds, the bytes of all pieces in MiB. `time_us` is the time that
    the test expects, `find_ms` the CPU time of one of its matchings, the least of 20 (g++ 12.2 -O3, the machine of the table).
    """

    topology: str
    sizes: tuple[int, ...]
    bandwidths: tuple[float, ...]
    latency_us: float
    pieces: int
    size_mib: int
    time_us: float
    find_ms: float

    @property
    def name(self) -> str:
        """What a row calls it."""
        unlike = "" if len({*self.bandwidths}) == 1 else f", {' and '.join(f'{each:g}' for each in self.bandwidths)} GiB/s"
        return f"{self.topology} {' x '.join(map(str, self.sizes))}{unlike}, {self.pieces} a rank"

    @property
    def platform(self) -> dict[str, Any]:
        """The platform."""
        links = {"link_latency_ns": 1000 * self.latency_us}
        return {
            "dimensions": [
                {"topology": self.topology, "sizes": [size], "link_bandwidth_gib_per_s": bandwidth, **links}
                for size, bandwidth in zip(self.sizes, self.bandwidths, strict=True)
            ]
        }


TACOS = (
    TacosCase("mesh", (5, 5), (50, 50), 0.5, 1, 1024, 9606.00, 0.608),
    TacosCase("mesh", (10, 10), (100, 100), 1, 2, 1024, 5049.00, 150.2),
    TacosCase("mesh", (7, 12), (100, 100), 1, 3, 4096, 19966.27, 201.9),
    TacosCase("mesh", (5, 5), (50, 75), 0.5, 1, 1024, 8005.00, 2.041),
    TacosCase("mesh", (8, 5), (80, 35), 1, 2, 1024, 8595.43, 29.15),
    TacosCase("mesh", (7, 10), (16, 73), 1.5, 3, 4096, 44612.47, 497.5),
    TacosCase("mesh", (3, 3, 3), (50, 50, 50), 0.5, 1, 1024, 6671.17, 0.624),
    TacosCase("mesh", (3, 4, 5), (50, 50, 50), 0.5, 2, 2048, 13353.33, 20.78),
    TacosCase("mesh", (4, 2, 3), (50, 50, 50), 0.5, 3, 3072, 19178.17, 2.709),
    TacosCase("torus", (3, 3, 3), (50, 50, 50), 0.5, 1, 1024, 3706.20, 0.487),
    TacosCase("torus", (3, 4, 5), (50, 50, 50), 0.5, 2, 2048, 6676.67, 14.03),
    TacosCase("torus", (4, 2, 3), (50, 50, 50), 0.5, 3, 3072, 11673.67, 2.144),
)


def matching_as_tacos(case: TacosCase) -> tuple[float, float]:
    """The time of our matching by TACOS's model (us), in which latency keeps a link busy, and the CPU time to find it (ms)."""
    graph = rank_graph(Judge.of(case.platform, NETWORK, None, shared_plugins()).components.platform)
    size = (case.size_mib << 20) // (graph.ranks * case.pieces)
    held = size / (size / graph.link_bandwidth + 1000 * case.latency_us)
    edges = tuple(attrs.evolve(edge, latency_ns=0.0) for edge in graph.edges)
    matcher = Matcher(RankGraph(graph.ranks, np.asarray(held), edges))
    times = []
    for _ in range(20):
        begin = time.process_time()
        matching = matcher.match(size, case.pieces)
        times.append(time.process_time() - begin)
    return matching.time_ns / 1000, 1000 * min(times)


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
