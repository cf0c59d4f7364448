"""Moments of single nodes (`Result.operation_times`), which logs of ASTRA-sim 2.x are made of.

- On a unit of an NPU one node follows another; none begins before what it waits for has ended, and no unit is free while one is ready.
- A node that computes takes its time, and both engines, and runs with and without symmetry, agree.
- The course of memory is, at each of its moments, the bytes of the tensors that are there then, added up one by one.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import astra_sim
from astra_sim_chakra import CollectiveType, Node, NodeType, write_nodes
from astra_sim_chakra.messages import NodeMessage, attribute_message
from astra_sim_compat.operators import Operator, operators_of
from astra_sim_compat.tensors import memory_of

IN_TESTS = 8
IN_NIGHTLY = 400

_PLATFORM = "plugin:switch?size={}&link_bandwidth_gb_per_s=50&link_latency_ns=500"


def check(seed: int, folder: Path) -> list[str]:
    """Run the random traces of a seed."""
    random = Random(seed)
    npus = random.randint(1, 4)
    nodes = _nodes(random)
    for rank in range(npus):
        write_nodes(folder / f"t.{rank}.et", nodes)
    runs = {
        (engine, symmetry): operators_of(
            astra_sim.simulate(
                workload=str(folder / "t"),
                platform=_PLATFORM.format(npus),
                system={"plugin": "astra2", "splits": 2},
                memory="plugin:remote?latency_ns=100&bandwidth_gb_per_s=10",
                engine=engine,
                symmetry=symmetry,
                npu_times=True,
            )
        )
        for engine in ("python", "auto")
        for symmetry in (True, False)
    }
    first, *others = runs.values()
    wrong = [] if all(other == first for other in others) else ["engines or runs with and without symmetry differ"]
    for npu, operators in first.items():
        wrong += [f"NPU {npu}: {text}" for text in (*_order(nodes, operators), *_memory(npu, operators))]
    return wrong


def _order(nodes: list[Node], operators: list[Operator]) -> list[str]:
    result = {each.node["id"]: each for each in operators}
    wrong = [] if set(result) == {node.id for node in nodes} else ["not all nodes have run once"]
    units: dict[str, list[tuple[int, int, int]]] = {}
    for node in nodes:
        begin, end, _ = result[node.id]
        ready = max((result[other].end for other in node.data), default=0)
        if begin < ready:
            wrong.append(f"node {node.id} begins at {begin}, and what it waits for ends at {ready}")
        if node.type == NodeType.COMP_NODE and end - begin != node.duration_ns:
            wrong.append(f"node {node.id} takes {end - begin}, expected {node.duration_ns}")
        unit = "CPU" if node.is_cpu_op else "accelerator" if node.type == NodeType.COMP_NODE else "communication"
        units.setdefault(unit, []).append((begin, end, ready))
    for unit, spans in units.items():
        before = 0
        for begin, end, ready in sorted(spans):
            if begin != max(before, ready):
                wrong.append(f"{unit}: begins at {begin}; it was free at {before}, and the node ready at {ready}")
            before = end
    return wrong


def _memory(npu: int, operators: list[Operator]) -> list[str]:
    memory = memory_of(npu, operators)
    sizes: dict[str, int] = {}
    written: dict[str, int] = {}
    read: dict[str, int] = {}
    for begin, end, node in operators:
        for key, names in (("in", node["inputs"][::2]), ("out", node["outputs"][::2])):
            for name in names:
                sizes[name] = int(node[f"{key}puts"][2 * names.index(name) + 1])
                if key == "out":
                    written[name] = begin
                else:
                    read[name] = max(end, read.get(name, 0))
    wrong = []
    for time, size in memory.usage.items():
        there = [name for name in sizes if written.get(name, 0) <= time and not (name in read and read[name] <= time)]
        if size != sum(sizes[name] for name in there):
            wrong.append(f"at {time} ns tensors take {size} bytes; expected {sum(sizes[name] for name in there)}")
    return wrong


def _nodes(random: Random) -> list[Node]:
    """Nodes that compute, access memory and communicate; each writes a tensor, and reads some of those that it waits for."""
    nodes: list[Node] = []
    sizes = [random.randint(1, 1 << 30) for _ in range(40)]
    for id_ in range(random.randint(2, 25)):
        after = tuple(sorted(random.sample(range(id_), min(id_, random.choice((0, 1, 1, 2))))))
        read = [f"t{other}" for other in after] + (["weights"] if random.random() < 0.2 else [])
        inputs = [text for name in read for text in (name, str(sizes[int(name[1:])] if name != "weights" else 12345))]
        outputs = [f"t{id_}", str(sizes[id_])]
        attributes = [attribute_message(key, "string_list", value) for key, value in (("inputs", inputs), ("outputs", outputs))]
        fields: dict[str, Any] = {"id": id_, "data": after, "others": NodeMessage(attr=attributes).SerializeToString()}
        kind = random.random()
        if kind < 0.5:
            nodes.append(Node(type=NodeType.COMP_NODE, is_cpu_op=random.random() < 0.3, duration_ns=random.randint(1, 50_000), **fields))
        elif kind < 0.75:
            nodes.append(
                Node(type=NodeType.MEM_LOAD_NODE, is_cpu_op=random.random() < 0.3, tensor_size=random.randint(1, 1 << 18), **fields)
            )
        else:
            size = random.randint(1 << 10, 1 << 20)
            nodes.append(Node(type=NodeType.COMM_COLL_NODE, is_cpu_op=False, comm_type=CollectiveType.ALL_REDUCE, comm_size=size, **fields))
    return nodes
