"""Flows that meet arrive, all of their bytes, and not faster than links carry them: with pauses and without, on ways of every kind.

Random flows, many of them to one NPU, on random fabrics. Switches have little memory, so that they pause or drop.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

from astra_sim.errors import DeadlockError
from astra_sim_flows.running import Flow, run_flows
from astra_sim_network_flow.network import FlowNetwork
from astra_sim_network_flow.options import FlowOptions
from support.links import numbered
from support.roce import network, platform, topology

IN_TESTS = 25
IN_NIGHTLY = 1500

_FABRICS = (
    "plugin:switch?size={npus}&",
    "plugin:clos?npus=16&ports=8&oversubscription=3&",
    "plugin:dragonfly?routers=4&npus=2&global_links=1&",
    "plugin:slim_fly?q=3&npus=2&",
    "plugin:hyperx?sizes=3,3&npus=2&",
    "plugin:torus?sizes=3,3&",
)


def check(seed: int, folder: Path) -> list[str]:
    """Run flows on a network of packets, or of flows, and compare with what links can carry."""
    random = Random(seed)
    rate, latency = random.choice([1.25, 12.5, 50.0]), random.choice([0, 100, 1000])
    where = random.choice(_FABRICS).format(npus=random.randrange(2, 34)) + f"link_bandwidth_gb_per_s={rate}&link_latency_ns={latency}"
    if random.random() < 0.2:  # switches in a circle, which may wait for each other
        switches = random.randrange(3, 8)
        circle = [(switches + at, switches + (at + 1) % switches) for at in range(switches)]
        where = str(folder / "ring.txt")
        Path(where).write_text(topology(switches, switches, [(at, switches + at) for at in range(switches)] + circle))
        rate, latency = 12.5, 1000
    made_of = platform(where)
    npus, flows = made_of.npus, []
    target, most = random.randrange(made_of.npus), random.choice([5_000, 200_000, 2_000_000])
    for _ in range(random.randrange(1, 40)):
        source, to = random.randrange(npus), target if random.random() < 0.6 else random.randrange(npus)
        if source != to:
            flows.append(Flow(source, to, random.randrange(1, most), random.choice([0, 0, 1_000_000])))
    if random.random() < 0.25:
        options: dict[str, Any] = {"routing": random.choice(["destination", "hash", "split", "valiant", "ugal"])}
        flow_network: Any = FlowNetwork(FlowOptions(**options), made_of)
    else:
        options = _options(random)
        flow_network = network(made_of, **options)
    what = f"{where} {options}"
    try:
        times = run_flows(flow_network, flows)
    except DeadlockError as error:
        # Pauses cannot be free from it where routes form a circle.
        circle_of_pauses = options.get("pfc", False) and "pause each other in a circle" in str(error)
        return [] if circle_of_pauses else [f"{what}: {error}"[:400]]
    wrong = []
    fastest = max(sum(link.bandwidth for link in made_of.fabric().links if link.source == npu) for npu in range(npus))
    sent: Counter[int] = Counter()
    taken: Counter[int] = Counter()
    for flow, each in zip(flows, times, strict=True):
        sent[flow.source] += flow.bytes
        taken[flow.destination] += flow.bytes
        least = latency * 1000 + flow.bytes / fastest * 1000 * (1 - 1e-9)
        if each.received - each.started < least:
            wrong.append(f"{what}: {flow} took {each.received - each.started} ps, less than the {least:.0f} ps of its links")
    last = max((each.received for each in times), default=0)
    bound = max([*sent.values(), *taken.values()], default=0) / fastest * 1000 * (1 - 1e-9)
    if last < bound:
        wrong.append(f"{what}: all arrived after {last} ps, before the {bound:.0f} ps of the busiest NPU")
    if isinstance(flow_network, FlowNetwork):
        return wrong
    carried = Counter[int]()
    for load in flow_network.links():
        carried[numbered(load, made_of)[1]] += load.bytes
    wrong += [f"{what}: NPU {npu} got {carried[npu]} bytes of {size}" for npu, size in taken.items() if carried[npu] < size]
    figures = flow_network.statistics() if not options["pfc"] else {**flow_network.statistics(), "pfc": True}
    payload = options["payload_bytes"]
    for flow, each in zip(flows, times, strict=True):
        whole = -(-flow.bytes // payload)
        resent = each.figures is not None and each.figures.packets != whole
        if resent and not (figures["drops"] or figures["losses"] or figures["timeouts"] or figures["refusals"]):
            wrong.append(f"{what}: {flow} took {each.figures.packets} packets, not {whole}, and nothing was lost")  # type: ignore[union-attr]
    if options["pfc"] and figures["drops"]:
        wrong.append(f"{what}: {figures['drops']} packets dropped with pauses")
    return wrong


def _options(random: Random) -> dict[str, Any]:
    return {
        "pfc": random.random() < 0.5,
        "windows": random.random() < 0.5,
        "payload_bytes": random.choice([256, 1000, 4096]),
        "congestion_control": random.choice(["none", "none", "dcqcn", "dctcp", "swift", "hpcc"]),
        "load_balancing": random.choice(["destination", "ecmp", "spray_random", "adaptive", "valiant", "ugal"]),
        "seed": random.randrange(100),
        "error_rate": random.choice([0.0, 0.0, 0.0, 0.001]),
        **({"buffer_mib": 8} if random.random() < 0.5 else {}),
    }
