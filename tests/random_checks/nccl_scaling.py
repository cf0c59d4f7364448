"""Random checks of collectives priced as NCCL does them: they follow the bandwidth and the latency that the platform states.

At the figures of the machine on which they were measured nothing changes. More bandwidth or less latency is never slower. A collective of k
times the bytes on links of k times the bandwidth takes as long. What an explanation says of the links of a run agrees with runs on others.
"""

from __future__ import annotations

import json
import math
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import astra_sim
import attrs
from astra_sim.platform import GroupShape
from astra_sim.schedule import Collective
from astra_sim_network_analytical.nccl import NcclPrices
from astra_sim_network_analytical.nccl_devices import device_names
from astra_sim_network_analytical.nccl_parameters import NcclFit, NcclParameters, NodeLinks, read_device

IN_TESTS = 12
IN_NIGHTLY = 600

_SLACK = 1e-9


def check(seed: int, folder: Path) -> list[str]:
    """Prices of a device, or of a table of it, on random links; for some seeds runs, too."""
    chance = random.Random(seed)
    name = chance.choice(device_names())
    parameters = read_device(name)
    if chance.random() < 0.3:
        parameters = _as_tables(parameters)
    wrong = [f"{name}: {line}" for line in _prices(chance, parameters)]
    if seed % 3 == 0:
        wrong += [f"run: {line}" for line in _runs(chance)]
    return wrong


def _as_tables(parameters: NcclParameters) -> NcclParameters:
    """The device with measured tables in place of protocols."""
    sizes = tuple(float(1 << power) for power in range(10, 31, 2))
    fits = [
        NcclFit(operation=fit.operation, ranks=fit.ranks, bytes=sizes, microseconds=tuple(map(fit.time_us, sizes)))
        for fit in parameters.fits
    ]
    return attrs.evolve(parameters, fits=tuple(fits))


def _prices(chance: random.Random, parameters: NcclParameters) -> list[str]:
    members, nodes = chance.choice((1, 2, 3, 4, 8, 16)), chance.choice((1, 1, 2, 3, 16, 200))
    if members * nodes == 1:
        members = 8
    shape = GroupShape((members * nodes, nodes, 1), members)
    collective, size = chance.choice(list(Collective)), 10 ** chance.uniform(1, 10.5)
    own = parameters.node
    assert own is not None
    nic, nic_us = 10 ** chance.uniform(0, 2.5), 10 ** chance.uniform(-1, 1.5)

    def us(bandwidth: float = 1.0, latency: float = own.latency_us, times: float = 1.0, outside_us: float = nic_us) -> float:
        links = NodeLinks(gb_per_s=own.gb_per_s * bandwidth, latency_us=latency)
        prices = NcclPrices(parameters, (1.0, nic * times), None, None, links, (latency, outside_us))
        return prices.us(collective, size * times, shape)

    wrong = []
    plain = NcclPrices(parameters, (1.0, nic)).us(collective, size, shape)
    if us(outside_us=parameters.between_nodes.latency_us) != plain:
        wrong.append(f"{collective} {size:g} {shape}: {plain} us where nothing is said of links, else with those of the machine")
    bandwidths = sorted(10 ** chance.uniform(-2, 2) for _ in range(4))
    latency = 10 ** chance.uniform(-2, 1.3)
    times = [us(bandwidth, latency) for bandwidth in bandwidths]
    if any(later > earlier * (1 + _SLACK) for earlier, later in pairwise(times)):
        wrong.append(f"{collective} {size:g} {shape}: slower with more bandwidth: {bandwidths} {times}")
    latencies = sorted((0.0, *(10 ** chance.uniform(-2, 1.5) for _ in range(3))))
    for words, times in (
        ("in the node", [us(bandwidths[0], each) for each in latencies]),
        ("between nodes", [us(bandwidths[0], latency, outside_us=each) for each in latencies]),
    ):
        if any(later < earlier * (1 - _SLACK) for earlier, later in pairwise(times)):
            wrong.append(f"{collective} {size:g} {shape}: faster with more latency {words}: {latencies} {times}")
    factor = 10 ** chance.uniform(-1, 1)
    bandwidth = bandwidths[1]
    one, other = us(bandwidth, latency), us(bandwidth * factor, latency, factor)
    if not math.isclose(one, other, rel_tol=1e-9):
        wrong.append(f"{collective} {size:g} {shape}: {one} us, and {other} with {factor:g} times the bytes and bandwidths")
    return wrong


_MACHINES = {"dgx_a100": 300.0, "dgx_h100": 450.0, "dgx_b200": 900.0}


def _runs(chance: random.Random) -> list[str]:
    """A run at the machine's figures, with other links, and what its explanation says of them."""
    machine = chance.choice(list(_MACHINES))
    nodes, share = chance.choice((1, 2, 4)), chance.choice((1.0, 0.7))
    compute = {"plugin": "gpu", "stack": {"collective_share": share}}
    base: dict[str, Any] = {
        "network": "plugin:analytical?model=nccl",
        "system": "plugin:astra2",
        "compute": compute,
        "workload": {
            "plugin": "llm",
            "model": {"layers": 2, "hidden": 4096, "heads": 32, "vocab": 32000, "sequence": chance.choice((512, 4096))},
            "global_batch": 8 * nodes,
            "tensor_parallel": chance.choice((2, 4, 8)),
            "detail": "layer",
            "check_memory": False,
        },
    }

    def time(**links: float) -> float:
        return float(astra_sim.simulate(**base, platform={"plugin": machine, "nodes": nodes, **links}).finish_ns)

    nvlink = _MACHINES[machine]
    result = astra_sim.simulate(**base, platform={"plugin": machine, "nodes": nodes}, explain=True)
    finish = result.finish_ns
    wrong = []
    if time(nvlink_gb_s=nvlink, nvlink_latency_ns=600, nic_latency_ns=2700) != finish:
        wrong.append(f"{machine}: another time with its own links given")
    faster = time(nvlink_gb_s=2 * nvlink)
    if not faster < finish:
        wrong.append(f"{machine}, {nodes} nodes: NVLink twice as fast takes {faster} ns for {finish}")
    assert result.explanation is not None
    names = {("bandwidth", 0): ("nvlink_gb_s", nvlink), ("latency", 0): ("nvlink_latency_ns", 600.0)}
    names[("latency", 1)] = ("nic_latency_ns", 2700.0)
    names[("bandwidth", 1)] = ("nic_gb_s", {"dgx_a100": 25.0}.get(machine, 50.0))
    results = {(each.parameter, each.dimension): each for each in result.explanation.sensitivities if each.dimension is not None}
    for key, (option, value) in names.items():
        if key[1] >= (2 if nodes > 1 else 1):
            continue
        if key not in results:
            wrong.append(f"{machine}: nothing is said of {key}: {json.dumps(sorted(map(str, results)))}")
            continue
        more, less = time(**{option: value * 1.01}), time(**{option: value / 1.01})
        measured = (more - less) / (2 * math.log(1.01))
        derivative_ns = results[key].derivative_ns
        bends = abs((more - finish) - (finish - less)) > 0.5 * max(abs(more - finish), abs(finish - less))
        if not bends and ("kink" in results[key].method or abs(measured - derivative_ns) > 0.02 * abs(measured) + 1e-6 * finish):
            wrong.append(f"{machine}, {nodes} nodes, share {share}: {key} is said to bring {derivative_ns} ns, runs say {measured}")
    return wrong
