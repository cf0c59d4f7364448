"""Random pipelines on random fabrics by the network `auto`: the whole run on packets or flows lies within the bound of its error.

Stages send activations and gradients to each other while their NPUs reduce over tensor ranks, and the replicas of a stage sum gradients
beside the last backward passes. No run may take less than what its busiest links need (`floor_ns`), which is proved. The bound is an
estimate: of the 957 runs of seeds 0 to 399, 20012 to 20511 and 30000 to 30499 that are known as well as asked one lies outside, by 2 %.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from astra_sim import simulate
from astra_sim.graph import ExecutionGraph
from support.pipelines import pipeline

IN_TESTS = 6
IN_NIGHTLY = 300
FABRICS = (
    "ring?size=8&links=2",
    "switch?size=8",
    "torus?sizes=2,4",
    "mesh?sizes=2,4",
    "fat_tree?arity=2&levels=3",
    "clos?npus=16&leaf_npus=4",
    "torus?sizes=4,4",
    "clos?npus=16&leaf_npus=4&oversubscription=2",
)


def check(seed: int, folder: Path) -> list[str]:
    """Run the case of a seed."""
    parts, error = case(seed)
    target, asked = error
    auto = simulate(network={"plugin": "auto", "target": target, "error": asked}, **parts)
    whole = simulate(network=f"plugin:{target}", **parts)
    return differences(auto.figures["network_error"], whole.finish_ns, f"seed {seed}, {parts['platform']} on {target}, error {asked}")


def differences(error: dict[str, Any], whole_ns: float, what: str) -> list[str]:
    """What does not hold of an error bound, beside the time of the whole run."""
    wrong = []
    if not error["lower_ns"] <= whole_ns <= error["upper_ns"]:
        wrong.append(f"{what}: {whole_ns} ns, not within {error['lower_ns']} and {error['upper_ns']}")
    if error["floor_ns"] is not None and whole_ns < error["floor_ns"]:
        wrong.append(f"{what}: {whole_ns} ns, less than the proved {error['floor_ns']}")
    return wrong


def case(seed: int) -> tuple[dict[str, Any], tuple[str, str]]:
    """The parts of an experiment, and its target and the error that is asked for."""
    random = Random(seed)
    link = f"link_bandwidth_gb_per_s={random.choice((25, 50, 100))}&link_latency_ns={random.choice((100, 500, 1000))}"
    fabric = random.choice((*FABRICS, "dgx_h100?nodes=2"))
    npus = 8 if "8" in fabric.split("?")[1] or "2,4" in fabric or "levels=3" in fabric else 16
    parts = {
        "workload": _pipeline(random, npus),
        "platform": f"plugin:{fabric}" if fabric.startswith("dgx") else f"plugin:{fabric}&{link}",
        "system": f"plugin:{random.choice(('astra1', 'astra2'))}",
    }
    return parts, (random.choice(("packet", "packet", "flow")), random.choice(("1%", "3%")))


def _pipeline(random: Random, npus: int) -> ExecutionGraph:
    tensor, stages = random.choice((1, 2, 4)), random.choice((1, 2, 4, 8))
    while tensor * stages > npus:
        stages //= 2
    compute_ps = random.choice((5, 50, 300)) * 1_000_000
    message, reduced, gradients = (int(2 ** random.uniform(12, 19)) for _ in range(3))
    batches, layers = random.randint(1, 6), random.randint(1, 3)
    return pipeline(npus, tensor, stages, batches, layers, compute_ps, message, reduced, gradients)
