"""The algorithm `auto` is about as fast as the fastest: at most 1.3 times as slow as the best that a random fabric can run.

A case is a fabric of one or two dimensions with links of its own, a collective, its bytes, and a network. On two dimensions all have the
same algorithm in what `auto` is compared with.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import astra_sim
from astra_sim import AstraError

IN_TESTS = 12
IN_NIGHTLY = 400

ALGORITHMS = ("ring", "ring?directions=2", "halving_doubling", "direct")
WORST = 1.3
NETWORKS: dict[str, dict[str, Any]] = {
    "aware": {"plugin": "analytical", "congestion": "aware"},
    "cut through": {"plugin": "analytical", "congestion": "aware", "switching": "cut_through"},
    "flow": {"plugin": "flow"},
    "roce": {"plugin": "roce"},
}
"""On `packet`, messages of `direct` meet in an order that is not foretold."""


def check(seed: int, folder: Path) -> list[str]:
    """Run the case of a seed with `auto` and all algorithms."""
    what, ratio = compared(seed)
    return [f"{what}: {ratio:.2f} times the best"] if ratio > WORST else []


def compared(seed: int) -> tuple[str, float]:
    """The case of a seed, and its time with `auto` over the shortest (1 where the network cannot take the fabric)."""
    random = Random(seed)
    fabric, collective = _fabric(random), random.choice(("all_reduce", "all_gather", "reduce_scatter", "all_to_all"))
    size, network, system = int(2 ** random.uniform(12, 24)), random.choice([*NETWORKS]), random.choice(("astra1", "astra2"))
    times = {}
    for algorithm in ("auto", *ALGORITHMS):
        try:
            times[algorithm] = astra_sim.simulate(
                workload={"plugin": "collective", "collective": collective, "bytes": size},
                platform=f"plugin:{fabric}",
                network=NETWORKS[network],
                system={"plugin": system, collective: algorithm},
            ).finish_ns
        except AstraError:
            if algorithm == "auto":
                return "", 1.0
    return f"{collective} of {size} bytes on {fabric}, {network}", times["auto"] / min(times.values())


def _fabric(random: Random) -> str:
    size, other = random.randint(2, 20), random.randint(2, 5)
    link = f"link_bandwidth_gb_per_s={random.choice((12.5, 50, 200))}&link_latency_ns={random.choice((50, 500, 2000))}"
    fabric = random.choice(
        (
            f"ring?size={size}&links=2",
            f"switch?size={size}",
            f"fully_connected?size={size}&links={size - 1}",
            f"mesh?sizes={size}",
            f"torus?sizes={other},{random.randint(2, 5)}",
            f"fat_tree?arity={random.randint(2, 4)}&levels=2",
            f"clos?npus={4 * other}&ports=8&oversubscription={random.choice((1, 3))}",
            f"clos?npus={4 * other}&ports={random.choice((8, 16))}&planes={random.choice((1, 2))}",
            f"clos?npus={8 * other}&ports=16&rails=4",
            f"dragonfly?routers={random.randint(2, 4)}&npus={random.randint(1, 2)}&groups=3",
            f"hyperx?sizes={other},{random.randint(2, 4)}&npus={random.randint(1, 2)}",
        )
    )
    return f"{fabric}&{link}"
