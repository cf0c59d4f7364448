"""A program in which all NPUs issue the same collectives in the same order finishes, on every network.

Each NPU runs a limited number of chunks at a time, and a phase needs all NPUs of its group: where messages delay each other NPUs get out of
step, and must not begin chunks in orders in which they wait for each other.
"""

from __future__ import annotations

import math
from pathlib import Path
from random import Random
from typing import Any

import astra_sim
from astra_sim.errors import AstraError
from astra_sim.graph import Communicate, Compute, ExecutionGraph, NpuProgram, Operation, Pass
from astra_sim.platform import LogicalDimension
from astra_sim.schedule import Collective

IN_TESTS = 40
IN_NIGHTLY = 2500

_NETWORKS = (
    "plugin:flow",
    "plugin:flow",
    "plugin:flow?routing=hash&tolerance=0",
    "plugin:flow?preset=simgrid_lv08",
    "plugin:roce",
    "plugin:roce",
    "plugin:roce?congestion_control=dcqcn",
    "plugin:analytical?congestion=aware",
    "plugin:analytical?congestion=aware&switching=cut_through",
    "plugin:packet?vcs=2&packet_bytes=512&flit_bytes=64",
)
_QUEUE_ORDERS = ("fifo", "fifo", "rg", "smallest_first", "less_remaining_phase_first")
_DIMENSION_ORDERS = ("ascending", "ascending", "round_robin", "offline_greedy", "offline_greedy_flex")


def check(seed: int, folder: Path) -> list[str]:
    """Run a program on a network, and for some on both engines, message by message."""
    random = Random(seed)
    sizes, platform = _platform(random)
    network = random.choice(_NETWORKS)
    uneven = random.random() < 0.3
    options: dict[str, Any] = {
        "workload": _program(random, sizes, 3_000 if "packet" in network else 200_000, uneven),
        "platform": platform,
        "network": network,
        "system": _system(random, sizes, uneven),
        # Queues that take turns plan for each group by itself where NPUs run programs of their own; so do orders with a memory.
        "queues_per_dim": 1 if uneven else random.choice([1, 1, 1, 2, 3]),
        "rendezvous": random.random() < 0.1,
        "symmetry": random.random() < 0.5,
    }
    wrong = []
    try:
        finish = astra_sim.simulate(**options).finish_ns
        if math.prod(sizes) <= 12 and random.random() < 0.3:
            again = astra_sim.simulate(**{**options, "engine": "python", "symmetry": False}).finish_ns
            if again != finish:
                wrong.append(f"{again} ns on the readable engine without symmetry, {finish} ns with symmetry {options['symmetry']}")
    except AstraError as error:
        wrong.append(f"{type(error).__name__}: {error}"[:300])
    return [f"{each} ({ {key: value for key, value in options.items() if key != 'workload'} })" for each in wrong]


def _platform(random: Random) -> tuple[list[int], dict[str, Any]]:
    links = {"link_bandwidth_gb_per_s": random.choice([12.5, 50, 50]), "link_latency_ns": random.choice([0, 50, 500])}
    kind = random.choice(["dimensions"] * 6 + ["torus", "mesh", "fat_tree", "clos"])
    if kind in ("torus", "mesh"):
        sizes = random.choice([[4], [3, 3], [4, 2], [2, 2, 2], [4, 4]])
        return sizes, {"plugin": kind, "sizes": sizes, **links}
    if kind == "fat_tree":
        arity, levels = random.choice([(2, 2), (2, 3), (4, 2)])
        return [arity**levels], {"plugin": kind, "arity": arity, "levels": levels, **links}
    if kind == "clos":
        return [16], {"plugin": kind, "npus": 16, "ports": 8, "oversubscription": random.choice([1, 3]), **links}
    while True:
        sizes = [random.choice([2, 2, 3, 4, 4, 5, 8]) for _ in range(random.choice([1, 2, 2, 3, 3, 4]))]
        if math.prod(sizes) <= 32:
            break
    dimensions = []
    for size in sizes:
        topology = random.choice(["ring", "switch", "fully_connected"])
        count = {"ring": 2, "switch": 1, "fully_connected": max(1, size - 1)}[topology]
        own = links if random.random() < 0.6 else {**links, "link_bandwidth_gb_per_s": random.choice([6.25, 100])}
        dimensions.append({"topology": topology, "size": size, "links": count, **own})
    return sizes, {"dimensions": dimensions}


def _system(random: Random, sizes: list[int], uneven: bool) -> dict[str, Any]:
    plugin = random.choice(["astra1", "astra2", "astra2", "astra2"])
    # Chunks of astra2 are of one size, so together they may have more bytes than the collective, and no order may make one chunk of these.
    orders = "ascending" if uneven else random.choice(_DIMENSION_ORDERS[: -1 if plugin == "astra2" else None])
    table: dict[str, Any] = {
        "plugin": plugin,
        "splits": random.choice([1, 2, 4, 7, 16]),
        "active_chunks_per_dimension": random.choice([1, 1, 2, 2, 3, 8]),
        "scheduling_policy": random.choice(["lifo", "fifo"]),
        "collective_optimization": random.choice(["baseline", "local_bw_aware"]),
        "intra_dimension_scheduling": random.choice(_QUEUE_ORDERS),
        "inter_dimension_scheduling": orders,
        "endpoint_delay_ns": random.choice([0, 10, 100]),
    }
    for collective in Collective:
        table[collective.value] = [_algorithm(random, collective, size, uneven) for size in sizes]
    if table["plugin"] == "astra2":
        table["one_at_a_time"] = random.random() < 0.5
    return table


def _algorithm(random: Random, collective: Collective, size: int, uneven: bool) -> str:
    names = ["ring", "direct", "direct", "direct?window=1"]
    if size & (size - 1) == 0 and collective is not Collective.ALL_TO_ALL:
        names += ["halving_doubling"] + ["double_binary_tree"] * (collective is Collective.ALL_REDUCE and not uneven)
    return random.choice(names)


def _program(random: Random, sizes: list[int], most_bytes: int, uneven: bool) -> ExecutionGraph:
    """Computations and collectives, each after some before; if `uneven`, NPUs compute for times of their own, and collectives are issued in
    one order.
    """
    npus = math.prod(sizes)
    strides = [math.prod(sizes[:index]) for index in range(len(sizes))]
    dimensions = tuple(LogicalDimension(size, stride, i) for i, (size, stride) in enumerate(zip(sizes, strides, strict=True)))
    count = random.choice([1, 1, 2, 4, 8])
    shapes: list[tuple[Any, ...]] = []
    for number in range(count):
        after = tuple(sorted(random.sample(range(number), min(number, random.choice([0, 0, 1, 1, 2])))))
        involved = tuple(sorted(random.sample(range(len(sizes)), random.randrange(1, len(sizes) + 1))))
        collective = random.choice([Collective.ALL_REDUCE, Collective.ALL_REDUCE, *Collective])
        urgent = random.random() < 0.1
        is_collective = number == 0 or random.random() < 0.7
        if uneven:
            computed = [place for place in range(number) if not shapes[place][0]][-1:]
            is_collective = number % 2 == 1
            after = tuple(sorted({*computed, *(() if is_collective else after)}))
        size = random.randrange(npus * 16, max(most_bytes, npus * 32))
        shapes.append((is_collective, after, involved, collective, size, urgent))

    def operations() -> list[Operation]:
        execution_graph: list[Operation] = []
        for is_collective, after, involved, collective, size, urgent in shapes:
            if is_collective:
                execution_graph.append(Communicate(after, collective, size, involved, -1, Pass.FORWARD, urgent=urgent))
            else:
                execution_graph.append(Compute(after, random.randrange(1, 20_000_000)))
        return execution_graph

    others = tuple(NpuProgram(operations(), (npu,)) for npu in range(1, npus)) if uneven else ()
    return ExecutionGraph(operations(), dimensions, (), None, others)
