"""How far `auto` is from the fastest algorithm: python3 dev.py bench auto, or benchmarks/auto.py NETWORK for one table.

A case is a collective of some bytes on a fabric, over all of its NPUs and alone on a network. It runs with `auto`, and with all algorithms
that the NPUs can run: on two dimensions with all pairs of them. What is measured is the time with `auto` over the shortest time. A double
binary tree counts for all-reduces alone, for it does one whatever it is asked for.
"""

from __future__ import annotations

import functools
import itertools
import math
import sys
from functools import partial

import astra_sim
from astra_sim import AstraError
from astra_sim.platform import Platform
from astra_sim.setup.components import build_platform
from astra_sim.setup.experiment import Experiment
from astra_sim.setup.plugins import shared_plugins

from devtools.figures import FigureTable, Row, main

LINK = "link_bandwidth_gb_per_s=50&link_latency_ns=500"
FABRICS = {
    **{
        spec: f"{spec}&{LINK}"
        for spec in (
            "ring?size=4&links=2",
            "ring?size=8&links=2",
            "ring?size=12&links=4",
            "ring?size=16&links=2",
            "switch?size=6",
            "switch?size=8",
            "switch?size=12",
            "switch?size=16",
            "switch?size=32&router_latency_ns=300",
            "fully_connected?size=6&links=5",
            "fully_connected?size=8&links=7",
            "fully_connected?size=16&links=15",
            "mesh?sizes=8",
            "mesh?sizes=12",
            "mesh?sizes=3,4",
            "mesh?sizes=4,4",
            "torus?sizes=4,4",
            "torus?sizes=8,8",
            "torus?sizes=3,5",
            "fat_tree?arity=2&levels=3",
            "fat_tree?arity=2&levels=4",
            "fat_tree?arity=3&levels=2",
            "fat_tree?arity=4&levels=2",
            "clos?npus=16&ports=8",
            "clos?npus=20&ports=8",
            "clos?npus=24&ports=8&oversubscription=3",
            "clos?npus=32&ports=16&oversubscription=3",
            "clos?npus=32&ports=8&rails=4",
            "clos?npus=32&ports=16&planes=2",
            "clos?npus=32&ports=8&levels=3",
            "dragonfly?routers=4&npus=1&global_links=1",
            "dragonfly?routers=4&npus=2&global_links=1&groups=4",
            "dragonfly_plus?leaves=2&npus=4",
            "hyperx?sizes=8",
            "hyperx?sizes=4,4",
            "hyperx?sizes=3,4&npus=2",
        )
    },
    "gb200_nvl72": "gb200_nvl72",
    "dgx_1": "dgx_1",
    "dgx_h100?nodes=2": "dgx_h100?nodes=2",
    "rail_optimized?servers=4&npus_per_server=4": "rail_optimized?servers=4&npus_per_server=4",
}
COLLECTIVES = ("all_reduce", "all_gather", "all_to_all")
SIZES = (1 << 12, 1 << 16, 1 << 19, 1 << 22)
"""Bytes of all data that a rank has at the end."""
NETWORKS = {"aware": "analytical?congestion=aware", "flow": "flow", "roce": "roce", "packet": "packet"}
ALGORITHMS = ("ring", "ring?directions=2", "halving_doubling", "direct")
GOAL = 1.1


def finish_ns(fabric: str, collective: str, size: int, network: str, algorithm: str | tuple[str, ...]) -> float:
    """The time of a case; infinite where the algorithm, or the network, cannot do it."""
    platform, own = platform_of(fabric), size // platform_of(fabric).npus if collective == "all_gather" else size
    workload = {"plugin": "collective", "collective": collective, "bytes": own}
    system = {"plugin": "astra1", collective: algorithm}
    try:
        return astra_sim.simulate(workload=workload, platform=platform, network=f"plugin:{NETWORKS[network]}", system=system).finish_ns
    except AstraError:
        return math.inf


@functools.cache
def platform_of(fabric: str) -> Platform:
    """The platform of a fabric."""
    experiment, plugins = Experiment(), shared_plugins()
    experiment.use("platform", f"plugin:{FABRICS[fabric]}", plugins)
    return build_platform(experiment, plugins)


def choices(fabric: str, collective: str) -> list[tuple[str, ...]]:
    """The algorithms for the dimensions of a fabric that do a collective."""
    dimensions = len(platform_of(fabric).dimensions)
    trees = [("double_binary_tree",)] if dimensions == 1 and collective == "all_reduce" else []
    return [*itertools.product(ALGORITHMS, repeat=dimensions), *trees]


@functools.cache
def ratios(fabric: str, network: str) -> dict[str, float]:
    """The time with `auto` over the shortest time of each case that runs."""
    result = {}
    for collective, size in itertools.product(COLLECTIVES, SIZES):
        best = min(finish_ns(fabric, collective, size, network, algorithm) for algorithm in choices(fabric, collective))
        if best < math.inf:
            result[f"{collective} of {size >> 10} KiB"] = finish_ns(fabric, collective, size, network, "auto") / best
    return result


def _cells(found: dict[str, float]) -> list[str] | None:
    if not found:
        return None
    worst = max(found, key=lambda case: found[case])
    near = sum(ratio <= GOAL for ratio in found.values())
    return [f"{len(found)}", f"{100 * near / len(found):.1f} %", f"{found[worst]:.2f}", worst]


def _row(network: str, fabric: str) -> list[str] | None:
    return _cells(ratios(fabric, network))


def _all(network: str) -> list[str] | None:
    return _cells({f"{fabric}: {case}": ratio for fabric in FABRICS for case, ratio in ratios(fabric, network).items()})


def measure(fabric: str, network: str) -> None:
    """Let `auto` pick and run on a fabric, and each of the algorithms that it picks from."""
    _row(network, fabric)


CASES = {
    "ring of 8, flow": partial(measure, "ring?size=8&links=2", "flow"),
    "dragonfly of 20, flow": partial(measure, "dragonfly?routers=4&npus=1&global_links=1", "flow"),
    "torus of 4x4, aware": partial(measure, "torus?sizes=4,4", "aware"),
}


TABLES = tuple(
    FigureTable(
        network,
        ("fabric", "cases", f"within {GOAL}", "worst", "case"),
        [*(Row([fabric], partial(_row, network, fabric)) for fabric in FABRICS), Row(["all"], partial(_all, network))],
    )
    for network in NETWORKS
)

if __name__ == "__main__":
    sys.exit(main(TABLES))
