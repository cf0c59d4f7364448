"""Random training on random fabrics by the network `auto`: the whole run on packets lies within the bound of its error.

The bound is an estimate there, so a case is wrong where the whole run lies outside by more than `BEYOND` of its time. On the network that
forgets (`analytical?congestion=aware`) a bound that is proved must hold to the picosecond.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from astra_sim import simulate

IN_TESTS = 10
IN_NIGHTLY = 300
BEYOND = 0.003
FABRICS = (
    "ring?size=8&links=2",
    "switch?size=8",
    "fully_connected?size=4&links=3",
    "torus?sizes=4,4",
    "torus?sizes=2,4,2",
    "mesh?sizes=3,3",
    "fat_tree?arity=2&levels=3",
    "clos?npus=16&leaf_npus=4",
)


def check(seed: int, folder: Path) -> list[str]:
    """Run the case of a seed."""
    random = Random(seed)
    link = f"link_bandwidth_gb_per_s={random.choice((10, 25, 50, 100))}&link_latency_ns={random.choice((0, 100, 500, 1000))}"
    fabric = random.choice((*FABRICS, "dgx_h100?nodes=2"))
    parts: dict[str, Any] = {
        "workload": {"plugin": "layers", "loop": random.choice(("data", "data_reorder", "model")), "layers": _layers(random)},
        "platform": f"plugin:{fabric}" if fabric.startswith("dgx") else f"plugin:{fabric}&{link}",
        "system": f"plugin:{random.choice(('astra1', 'astra2'))}",
        "passes": random.randint(1, 3),
    }
    wrong = []
    for target in ("packet", "analytical?congestion=aware"):
        whole = simulate(network=f"plugin:{target}", **parts).finish_ns
        error = simulate(network={"plugin": "auto", "target": target}, **parts).figures["network_error"]
        beyond = 0.0 if error["proved"] else BEYOND
        if not error["lower_ns"] - beyond * whole <= whole <= error["upper_ns"] + beyond * whole:
            wrong.append(f"{parts} on {target}: {whole} ns, not within {error['lower_ns']} and {error['upper_ns']}")
    return wrong


def _layers(random: Random) -> list[dict[str, Any]]:
    def one_pass() -> dict[str, Any]:
        result: dict[str, Any] = {"compute_ns": random.choice((0, 1000, 50000, 200000))}
        collective = random.choice(("", "all_reduce", "all_gather", "reduce_scatter", "all_to_all"))
        if collective:
            result |= {"collective": collective, "collective_bytes": random.choice((1 << 10, 1 << 14, 100000, 1 << 20))}
        return result

    passes = ("forward", "input_gradient", "weight_gradient")
    return [{"name": f"l{number}", **{each: one_pass() for each in passes}} for number in range(random.randint(1, 4))]
