"""Traces: the order of nodes in a file has no effect, and ids decide which ready node is issued first, as in ASTRA-sim 2.x.

- Nodes that are shuffled in their files, and ids that become larger with gaps in the same order, change nothing.
- Both engines, and runs with and without symmetry, agree.
- Traces without collectives finish when the rule says, which this module simulates by itself, with the ids they have and, renumbered, with
  ids in an order of dependency.
"""

from __future__ import annotations

import heapq
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import astra_sim
import attrs
from astra_sim_chakra import CollectiveType, Node, NodeType, write_nodes

IN_TESTS = 12
IN_NIGHTLY = 500

_LATENCY_NS, _BYTES_PER_NS = 500, 50 * 2**30 / 1e9
_MEMORY_LATENCY_NS, _MEMORY_BYTES_PER_NS = 100, 10
_NETWORK = "topology: [ {} ]\nnpus_count: [ {} ]\nbandwidth: [ 50.0 ]\nlatency: [ 500.0 ]\n"
_MEMORY = {"memory-type": "PER_NPU_MEMORY_EXPANSION", "remote-mem-latency": _MEMORY_LATENCY_NS, "remote-mem-bw": _MEMORY_BYTES_PER_NS}
_COLLECTIVES = (CollectiveType.ALL_REDUCE, CollectiveType.ALL_GATHER, CollectiveType.REDUCE_SCATTER, CollectiveType.ALL_TO_ALL)

Ranks = list[list[Node]]


def check(seed: int, folder: Path) -> list[str]:
    """Run random traces of a seed in several orders of files and with several ids."""
    random = Random(seed)
    npus = random.randint(2, 6)
    alone = random.random() < 0.5
    ranks = _messages(random, npus) if alone else [_collectives(random)] * npus
    ranks = _renumbered(ranks, random)
    experiment = _experiment(random, npus, alone, folder)

    def run(name: str, traces: Ranks, **options: Any) -> list[float]:
        for rank, nodes in enumerate(traces):
            write_nodes(folder / f"{name}.{rank}.et", nodes)
        return list(astra_sim.simulate(workload=folder / name, **experiment, **options).npu_finish_ns or ())

    times = run("plain", ranks)
    others = {
        "shuffled in the file": run("shuffled", [random.sample(nodes, len(nodes)) for nodes in ranks]),
        "with larger ids": run("larger", [_with_gaps(nodes, seed) for nodes in ranks]),
        "on the Python engine": run("plain", ranks, engine="python"),
        "without symmetry": run("plain", ranks, symmetry=False),
    }
    wrong = [f"{name}, NPUs finish at {other} ns; expected {times}" for name, other in others.items() if other != times]
    if alone:
        twins = [_in_order_of_dependency(nodes) for nodes in ranks]
        wrong += [
            f"{name}, NPUs finish at {result} ns; by the rule {expected}"
            for name, result, expected in (
                ("with these ids", times, _by_the_rule(ranks)),
                ("with ids in an order of dependency", run("twins", twins), _by_the_rule(twins)),
            )
            if result != expected
        ]
    return wrong


def _experiment(random: Random, npus: int, alone: bool, folder: Path) -> dict[str, Any]:
    """The platform, the system layer and the memory: of 2.x, or (with collectives) also one that does several operations at a time."""
    topology = "FullyConnected" if alone else random.choice(("Ring", "Switch", "FullyConnected"))
    (folder / "network.yml").write_text(_NETWORK.format(topology, npus))
    system = {"plugin": "astra2", "splits": random.choice((1, 4)), "one_at_a_time": alone or random.random() < 0.7}
    aware = not alone and random.random() < 0.3
    (folder / "memory.json").write_text(json.dumps(_MEMORY))
    congestion = ["network.congestion=aware"] if aware else []
    return {"network": folder / "network.yml", "system": system, "memory": folder / "memory.json", "set": congestion}


def _next(random: Random, nodes: Sequence[Node], is_cpu_op: bool = False) -> dict[str, Any]:
    """The id and the name of a further node, and what it waits for: some of those before it, some twice."""
    result: dict[str, Any] = {"id": len(nodes), "name": f"n{len(nodes)}", "is_cpu_op": is_cpu_op}
    for name in ("data", "control"):
        count = min(len(nodes), random.choice((0, 0, 1, 2)))
        result[name] = tuple(node.id for node in random.sample(nodes, count))
    return result


def _own(random: Random, nodes: Sequence[Node]) -> Node:
    """A further node that computes or accesses memory, on the accelerator or the CPU."""
    fields = _next(random, nodes, random.random() < 0.3)
    if random.random() < 0.25:
        kind = random.choice((NodeType.MEM_LOAD_NODE, NodeType.MEM_STORE_NODE))
        return Node(type=kind, tensor_size=random.randint(1, 1 << 18), **fields)
    return Node(type=NodeType.COMP_NODE, duration_ns=random.randint(1, 50_000), **fields)


def _collectives(random: Random) -> list[Node]:
    """The trace of all ranks, with collectives."""
    nodes: list[Node] = []
    for _ in range(random.randint(4, 24)):
        if random.random() < 0.4:
            fields: dict[str, Any] = {"comm_type": random.choice(_COLLECTIVES), "comm_size": random.randint(1 << 10, 1 << 20)}
            nodes.append(Node(type=NodeType.COMM_COLL_NODE, **fields, **_next(random, nodes)))
        else:
            nodes.append(_own(random, nodes))
    return nodes


def _messages(random: Random, npus: int) -> Ranks:
    """A trace for each rank, with messages between them, each with a tag of its own."""
    ranks: Ranks = [[] for _ in range(npus)]
    for tag in range(random.randint(2, 8) * npus):
        if random.random() < 0.5:
            nodes = random.choice(ranks)
            nodes.append(_own(random, nodes))
            continue
        source, target = random.sample(range(npus), 2)
        size = random.randint(1, 1 << 20)
        for rank, kind in ((source, NodeType.COMM_SEND_NODE), (target, NodeType.COMM_RECV_NODE)):
            nodes = ranks[rank]
            message: dict[str, Any] = {"comm_src": source, "comm_dst": target, "comm_size": size, "comm_tag": tag}
            nodes.append(Node(type=kind, **message, **_next(random, nodes)))
    for nodes in ranks:
        nodes.append(_own(random, nodes))
    return ranks


def _with_ids(nodes: Sequence[Node], ids: Mapping[int, int]) -> list[Node]:
    """The same nodes with other ids."""

    def of(others: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(ids[other] for other in others)

    return [attrs.evolve(node, id=ids[node.id], data=of(node.data), control=of(node.control)) for node in nodes]


def _renumbered(ranks: Ranks, random: Random) -> Ranks:
    """The ids of each trace in some other order; ranks that share a trace still do."""
    order = [random.sample(range(len(nodes)), len(nodes)) for nodes in ranks]
    if all(nodes is ranks[0] for nodes in ranks):
        order = [order[0]] * len(ranks)
    return [_with_ids(nodes, dict(enumerate(ids))) for nodes, ids in zip(ranks, order, strict=True)]


def _with_gaps(nodes: Sequence[Node], seed: int) -> list[Node]:
    """The same nodes with larger ids in the same order."""
    random = Random(seed)
    larger = sorted(random.sample(range(1, 2**63), len(nodes)))
    return _with_ids(nodes, dict(zip(sorted(node.id for node in nodes), larger, strict=True)))


def _in_order_of_dependency(nodes: Sequence[Node]) -> list[Node]:
    """The same nodes with ids in an order of dependency: of what could come next, the lowest id."""
    ids: dict[int, int] = {}
    while len(ids) < len(nodes):
        ready = (node.id for node in nodes if node.id not in ids and ids.keys() >= {*node.data, *node.control})
        ids[min(ready)] = len(ids)
    return _with_ids(nodes, ids)


def _by_the_rule(ranks: Ranks) -> list[float]:
    """When each rank finishes by the rule of ASTRA-sim 2.x, on a fully connected platform without contention."""
    return _Rule(ranks).run()


class _Rule:
    """Passes over ready nodes in the order of ids, at the start and at each completion of a node of the rank."""

    def __init__(self, ranks: Ranks) -> None:
        self._nodes = [{node.id: node for node in nodes} for nodes in ranks]
        self._parents = [{node.id: {*node.data, *node.control} for node in nodes} for nodes in ranks]
        self._waiting = [{node.id for node in nodes} for nodes in ranks]
        self._busy: set[tuple[int, str]] = set()
        self._events: list[tuple[float, int, int, int]] = []
        self._scheduled = 0
        self._arrived: set[int] = set()
        self._posted: dict[int, tuple[int, int]] = {}
        self._finish = defaultdict[int, float](float)

    def run(self) -> list[float]:
        """When each rank finishes, in ns."""
        for rank in range(len(self._nodes)):
            self._pass(rank, 0)
        while self._events:
            now, _, rank, id_ = heapq.heappop(self._events)
            self._complete(rank, id_, now)
        return [self._finish[rank] for rank in range(len(self._nodes))]

    def _complete(self, rank: int, id_: int, now: float) -> None:
        node = self._nodes[rank][id_]
        self._busy.discard((rank, _unit(node)))
        for parents in self._parents[rank].values():
            parents.discard(id_)
        self._finish[rank] = now
        self._pass(rank, now)
        if node.type == NodeType.COMM_SEND_NODE:
            if node.comm_tag in self._posted:
                self._complete(*self._posted[node.comm_tag], now)
            self._arrived.add(node.comm_tag)

    def _pass(self, rank: int, now: float) -> None:
        for id_ in list(self._ready(rank)):
            node = self._nodes[rank][id_]
            unit = _unit(node)
            if (rank, unit) in self._busy:
                continue
            self._waiting[rank].discard(id_)
            if unit:
                self._busy.add((rank, unit))
            if node.type != NodeType.COMM_RECV_NODE:
                self._push(now + _takes_ns(node), rank, id_)
            elif node.comm_tag in self._arrived:
                self._push(now, rank, id_)
            else:
                self._posted[node.comm_tag] = rank, id_

    def _ready(self, rank: int) -> Iterator[int]:
        return (id_ for id_ in sorted(self._waiting[rank]) if not self._parents[rank][id_])

    def _push(self, time: float, rank: int, id_: int) -> None:
        self._scheduled += 1
        heapq.heappush(self._events, (time, self._scheduled, rank, id_))


def _unit(node: Node) -> str:
    """What of its rank a node keeps busy; "" is nothing."""
    if node.type == NodeType.COMM_RECV_NODE:
        return ""
    if node.is_cpu_op:
        return "cpu"
    return "gpu" if node.type == NodeType.COMP_NODE else "communication"


def _takes_ns(node: Node) -> int:
    """How long a node takes that waits for nothing."""
    if node.type == NodeType.COMP_NODE:
        return node.duration_ns or 1
    if node.type == NodeType.COMM_SEND_NODE:
        return int(_LATENCY_NS + (node.comm_size or 0) / _BYTES_PER_NS)
    return _MEMORY_LATENCY_NS + int((node.tensor_size or 0) / _MEMORY_BYTES_PER_NS)
