"""The cases of TACOS's own tests (https://github.com/astra-sim/tacos), and our matchings of them by its model."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import attrs
import numpy as np
from astra_sim.commands import shared_plugins
from astra_sim_synthesis.edges import RankGraph, rank_graph
from astra_sim_synthesis.judge import Judge
from astra_sim_synthesis.matching import Matcher
from astra_sim_synthesis.synthesis import NETWORK


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
    for _ in range(50):
        begin = time.process_time()
        matching = matcher.match(size, case.pieces)
        times.append(time.process_time() - begin)
    return matching.time_ns / 1000, 1000 * min(times)
