"""What each cache gives: python3 dev.py bench caches.

Five workloads are run again and again in one process, with all caches and with one of them switched off (`astra_sim.memo`). A case is how
much more CPU time the least of the runs takes without it. A cache that gives less than 2 % on all of them is not worth its lines, unless
another benchmark says so: searches in memory, reading files and writing traces have caches of their own.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import astra_sim
from astra_sim.memo import cache_statistics, without_cache
from astra_sim_chakra import write_nodes
from astra_sim_sweep.outcomes import run_points
from astra_sim_sweep.plan import read_plan

from devtools.figures import FigureTable, Row, main

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
VGG16 = str(EXAMPLES / "vgg16_dgx2_pod.toml")
GPT3 = str(EXAMPLES / "gpt3_175b_megatron.toml")
LINK = "platform.dimensions.{}.link_bandwidth_gib_per_s"
LINKS = {"link_bandwidth_gib_per_s": 25, "link_latency_ns": 500}
RING_AND_MESH = {"dimensions": [{"topology": "ring", "size": 4, "links": 2, **LINKS}, {"topology": "mesh", "sizes": [4, 4], **LINKS}]}
ROUNDS = 6


def vgg16() -> None:
    """A run of VGG-16, and its result as it is written."""
    astra_sim.simulate(VGG16).to_dict()


def gpt3() -> None:
    """An iteration of GPT-3."""
    astra_sim.simulate(GPT3).row()


@functools.cache
def _plan() -> Any:
    axes = {
        LINK.format(0): {"range": [10.0, 14.0, 1.0], "name": "inside"},
        LINK.format(1): {"range": [5.0, 9.5, 0.5], "name": "between"},
    }
    return read_plan({"base": {"experiment": VGG16}, "axes": axes})


def sweep() -> None:
    """Fifty points of a sweep."""
    assert all(outcome.error is None for outcome in run_points(_plan(), range(50)))


@functools.cache
def _traces() -> tuple[tempfile.TemporaryDirectory[str], str]:
    folder = tempfile.TemporaryDirectory(prefix="astra-caches-")
    prefix = str(Path(folder.name) / "trace")
    chakra = importlib.import_module("benchmarks.chakra")
    for npu in range(8):
        write_nodes(f"{prefix}.{npu}.et", chakra.nodes(4000, 20))
    return folder, prefix


def chakra() -> None:
    """Eight traces of 4000 nodes."""
    workload = {"plugin": "chakra", "prefix": _traces()[1]}
    platform = {"plugin": "torus", "sizes": [4, 2], **LINKS}
    astra_sim.simulate(workload=workload, platform=platform, system={"plugin": "astra2", "all_reduce": "ring"}).to_dict()


def events() -> None:
    """An all-reduce with contention, on the aware and on the flow network."""
    for network in ({"plugin": "analytical", "congestion": "aware"}, {"plugin": "flow"}):
        system = {"plugin": "astra2", "all_reduce": "auto"}
        workload = {"plugin": "collective", "bytes": 1 << 20}
        astra_sim.simulate(workload=workload, platform=RING_AND_MESH, network=network, system=system).row()


WORKLOADS: dict[str, Callable[[], None]] = {"VGG-16": vgg16, "GPT-3": gpt3, "sweep": sweep, "Chakra": chakra, "events": events}
TIMES = {"VGG-16": 20, "Chakra": 5, "events": 10}
"""How often a workload is run in a round."""

CACHES = (
    "algorithms",
    "components",
    "systems: plans",
    "graphs of layered workloads",
    "analytical: formulas",
    "options",
    "described plans",
    "graphs",
    "files of components",
    "programs of the compiled engine",
    "option tables",
    "digests",
    "bandwidths",
    "systems: loads of links",
    "systems: wiring",
    "systems: rounds",
)


def _least(workload: Callable[[], None], times: int) -> float:
    def once() -> float:
        began = time.process_time()
        workload()
        return time.process_time() - began

    return min(once() for _ in range(times))


@functools.cache
def taken(name: str) -> dict[str, float]:
    """The least CPU seconds of a workload without each cache, and with all under the name ""."""
    workload, times = WORKLOADS[name], TIMES.get(name, 1)
    workload()
    assert {*CACHES} <= {*cache_statistics()}
    least: dict[str, float] = {}
    for _ in range(ROUNDS):
        for cache in ("", *CACHES):
            with without_cache(cache) if cache else contextlib.nullcontext():
                seconds = _least(workload, times)
            least[cache] = min(least.get(cache, seconds), seconds)
            workload()  # which fills the cache again
    return least


def _row(cache: str) -> list[str]:
    all_taken = [taken(name) for name in WORKLOADS]
    return [f"{100 * (each[cache] / each[''] - 1):.0f} %" for each in all_taken]


TABLES = (FigureTable("without", ("without the cache", *WORKLOADS), [Row([cache], partial(_row, cache)) for cache in CACHES]),)
CASES = WORKLOADS
"""What `dev.py bench caches --against REVISION` compares."""

if __name__ == "__main__":
    sys.exit(main(TABLES))
