"""By default, networks send messages over the same links: two messages that meet on one network meet on all.

Pairs of messages of a permutation run, pair after pair, on idle networks. A pair takes as long on each network as on `flow`, within 20 %
(`roce`, without windows, within 35 %, for its headers and acknowledgements). Where the two share a link it takes far longer.
"""

from __future__ import annotations

import math
from pathlib import Path
from random import Random
from typing import Any

from astra_sim.setup.components import build
from astra_sim.setup.experiment import Experiment
from astra_sim.setup.plugins import shared_plugins
from astra_sim_flows.running import Flow, run_flows

IN_TESTS = 12
IN_NIGHTLY = 600

BYTES = 200_000
APART_PS = 100_000_000
TOLERANCES = {"plugin:analytical?congestion=aware&switching=cut_through": 0.2, "plugin:packet": 0.2, "plugin:roce?windows=false": 0.35}


def check(seed: int, folder: Path) -> list[str]:
    """Compare the times of pairs of messages."""
    random = Random(seed)
    npus, platform = _platform(random)
    targets = random.sample(range(npus), npus)
    messages = [(source, target) for source, target in enumerate(targets) if source != target]
    pairs = [random.sample(messages, 2) for _ in range(8)] if len(messages) > 1 else []
    # Where NPUs could pass messages on beside switches, the congestion-aware network and `packet` let them.
    rails = platform.get("plugin") == "dgx_h100"
    rings = platform.get("plugin") == "torus" or any(each["topology"] == "ring" for each in platform.get("dimensions", ()))
    networks = ["plugin:roce?windows=false"] if rails else [each for each in TOLERANCES if not (rings and each == "plugin:packet")]
    expected = _times("plugin:flow", platform, pairs)
    wrong = []
    for network in networks:
        tolerance = TOLERANCES[network]
        for pair, time, right in zip(pairs, _times(network, platform, pairs), expected, strict=True):
            if abs(time / right - 1) > tolerance:
                wrong.append(f"{pair} takes {time / 1e6:.2f} us on {network}, {right / 1e6:.2f} on plugin:flow ({platform})")
    return wrong


def _times(network: str, platform: Any, pairs: list[list[tuple[int, int]]]) -> list[int]:
    """How long each pair takes, until the later of its messages has arrived (ps)."""
    experiment, plugins = Experiment(), shared_plugins()
    experiment.use("platform", platform, plugins)
    experiment.use("workload", "plugin:collective?bytes=1000000", plugins)
    experiment.use("network", network, plugins)
    flows = [Flow(*message, BYTES, number * APART_PS) for number, pair in enumerate(pairs) for message in pair]
    received = [each.received for each in run_flows(build(experiment, plugins).network, flows)]
    return [max(received[2 * number : 2 * number + 2]) - number * APART_PS for number in range(len(pairs))]


def _platform(random: Random) -> tuple[int, Any]:
    links = {"link_bandwidth_gb_per_s": random.choice([25, 50]), "link_latency_ns": random.choice([100, 500])}
    kind = random.choice(
        ["dimensions", "dimensions", "torus", "mesh", "fat_tree", "clos", "clos", "rails", "dragonfly", "dragonfly_plus", "hyperx"]
    )
    if kind in ("torus", "mesh"):
        sizes = random.choice([[5], [4], [6], [3, 3], [4, 3], [4, 4], [2, 3, 4]])
        return math.prod(sizes), {"plugin": kind, "sizes": sizes, **links}
    if kind == "fat_tree":
        arity, levels = random.choice([(2, 3), (4, 2), (3, 2)])
        return arity**levels, {"plugin": kind, "arity": arity, "levels": levels, **links}
    if kind == "clos":
        npus = random.choice([16, 32])
        more = {"ports": 8, "oversubscription": random.choice([1, 3])}
        return npus, {"plugin": kind, "npus": npus, **more, **links}
    if kind == "rails":
        return 32, {"plugin": "dgx_h100", "nodes": 4}
    if kind == "dragonfly":
        return 12, {"plugin": kind, "routers": 2, "npus": 2, **links}
    if kind == "dragonfly_plus":
        return 24, {"plugin": kind, "leaves": 2, "npus": 4, "spines": 2, "groups": 3, **links}
    if kind == "hyperx":
        return 24, {"plugin": kind, "sizes": [4, 3], "npus": 2, **links}
    sizes = random.choice([[4, 2], [4, 4], [3, 2, 2], [8], [6]])
    dimensions = []
    for size in sizes:
        topology = random.choice(["ring", "switch", "fully_connected"])
        dimensions.append({"topology": topology, "size": size, "links": {"ring": 2, "switch": 1}.get(topology, size - 1), **links})
    return math.prod(sizes), {"dimensions": dimensions}
