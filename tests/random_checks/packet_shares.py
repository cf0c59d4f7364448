"""Packets against flows: what only takes its share of links as long as others do takes about as long where packets carry it.

A case is a random small fabric, and on it a collective with a random algorithm, once on `packet` and once on `flow`. Both send each message
over a shortest route, most of them over the same links. Flows share links max-min fairly and lose nothing; packets hold buffers
while they wait, and arbiters are fair among the inputs of a router, not among messages. So packets are slower, but in their default preset
no more than by `SLOWER`. Where routes differ (of two ways round a ring), they may be faster, but never faster than the capacity of the
links, which the audit says. All NPUs simulated take as long as one that represents all.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import astra_sim
from astra_sim import AstraError
from astra_sim.schedule import Collective

IN_TESTS = 6
IN_NIGHTLY = 300

SLOWER = 2.0
"""Times as long: the worst of some hundred seeds takes 1.6. Where interfaces cut up their oldest message first it is 3.3."""
FABRICS = (
    "ring?size={size}&links=2",
    "switch?size={size}",
    "fully_connected?size={size}&links={others}",
    "torus?sizes={x},{y}&links=2",
    "mesh?sizes={x},{y}",
    "mesh?sizes={size}",
    "hyperx?sizes={x},{y}",
    "hyperx?sizes={x},{y}&npus=2",
    "dragonfly?routers={x}&npus={few}&global_links=1",
    "dragonfly_plus?leaves={x}&npus=2&groups=3",
    "clos?npus=16&ports=8&oversubscription={few}",
    "fat_tree?arity=2&levels=3",
)
ALGORITHMS = ("direct", "direct", "direct?window=2", "ring", "ring?directions=2", "auto")


def check(seed: int, folder: Path) -> list[str]:
    """Run the case of a seed on both networks, and list what does not hold."""
    random = Random(seed)
    npus, x, y = random.randint(3, 16), random.randint(2, 4), random.randint(2, 4)
    fabric = random.choice(FABRICS).format(size=npus, others=npus - 1, x=x, y=y, few=random.choice([1, 2, 3]))
    latency, width = random.choice([0, 100, 500, 2000]), random.choice([12.5, 50, 100])
    collective, algorithm = random.choice(list(Collective)), random.choice(ALGORITHMS)
    size = random.choice([1, 4]) << (14 if collective is Collective.ALL_GATHER else 20)  # no message is shorter than a packet
    case: dict[str, Any] = {
        "platform": f"plugin:{fabric}&link_bandwidth_gb_per_s={width}&link_latency_ns={latency}",
        "workload": f"plugin:collective?collective={collective}&bytes={size}",
        "system": {"plugin": random.choice(["astra1", "astra2"]), str(collective): algorithm, "splits": random.choice([1, 1, 4])},
    }
    try:
        flow = astra_sim.simulate(**case, network="plugin:flow")
        packet = astra_sim.simulate(**case, network="plugin:packet")
        whole = astra_sim.simulate(**case, network="plugin:packet", symmetry=False)
    except AstraError as error:
        return [f"{case}: {error}"]
    wrong = [f"the audit says: {finding.message}" for finding in packet.audit]
    if packet.finish_ns > flow.finish_ns * SLOWER:
        wrong.append(f"{packet.finish_ns} ns, and as flows {flow.finish_ns} ns; expected at most {SLOWER} times as long")
    if whole.finish_ns != packet.finish_ns:
        wrong.append(f"{packet.finish_ns} ns, and without symmetry {whole.finish_ns} ns")
    return [f"{case}: {line}" for line in wrong]
