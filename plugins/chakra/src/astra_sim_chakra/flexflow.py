"""FlexFlow's task graphs (Graphviz text, as in ASTRA-sim's tutorials of 2022) as traces.

    digraph taskgraph {
      node0 [label="{device_id=0|Dense_100|Forward|COMP_NODE|simulated_run_time=0.0205}",shape=record];
      node2 [label="{device_id=1|Comm|Comm|COMM_SEND_RECV_NODE|src_device_id=0|dst_device_id=1|comm_size=40|run_time=4e-08}",shape=record];
      node0 -> node2;
    }

A communication is a send on one rank and a receive on the other, with a tag of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import attrs
from astra_sim import InputError
from astra_sim.files import finite_number, read_text, whole_number

from astra_sim_chakra.schema import MAX_32, NodeType
from astra_sim_chakra.trace import Node

NS = {"s": 1e9, "ms": 1e6, "us": 1e3}
"""Nanoseconds in a unit of time."""

_EDGE = re.compile(r"node(\d+)\s*->\s*node(\d+)\s*;?")
_NODE = re.compile(r"node(\d+)\s*\[(.*)\]\s*;?")
_LABEL = re.compile(r'label\s*=\s*"\{(.*)\}"')


@attrs.frozen
class _Task:
    """A task of the graph: one node for each rank that takes part."""

    line: int
    nodes: dict[int, Node]


def read_flexflow(path: str, time_unit: str = "s") -> list[list[Node]]:
    """The nodes of every rank. `time_unit`: that of `simulated_run_time`. Raises InputError with the line."""
    text = read_text(path)
    if "digraph" not in text:
        raise InputError(f"{path}: not a task graph of FlexFlow; expected a file that begins with digraph")
    tasks, edges = _parsed(text, path, time_unit)
    before = _dependencies(tasks, edges, path)
    ranks: list[list[Node]] = [[] for _ in range(max((rank for task in tasks.values() for rank in task.nodes), default=-1) + 1)]
    for id_ in sorted(tasks):
        for rank, node in tasks[id_].nodes.items():
            waits = tuple(other for other in dict.fromkeys(before.get(id_, ())) if rank in tasks[other].nodes)
            ranks[rank].append(attrs.evolve(node, data=waits))
    if not ranks:
        raise InputError(f"{path}: the task graph has no nodes")
    for rank, nodes in enumerate(ranks):
        if not nodes:
            raise InputError(f"{path}: no node runs on device {rank}, of {len(ranks)}")
    return ranks


_Edge = tuple[int, int, int]
"""The tasks at its begin and end, and its line."""


def _parsed(text: str, path: str, time_unit: str) -> tuple[dict[int, _Task], list[_Edge]]:
    """The tasks by number, and the edges. Raises InputError for a line that is neither."""
    tasks: dict[int, _Task] = {}
    edges: list[_Edge] = []
    for number, line in enumerate(text.split("\n"), 1):
        line = line.strip().removeprefix("digraph taskgraph {").strip()
        where = f"{path}:{number}"
        if match := _EDGE.fullmatch(line):
            edges.append((int(match[1]), int(match[2]), number))
        elif match := _NODE.fullmatch(line):
            task = int(match[1])
            if task in tasks:
                raise InputError(f"{where}: node{task} is there already, in line {tasks[task].line}")
            if task >= 2**64:
                raise InputError(f"{where}: node{task}: expected a number below 2^64")
            tasks[task] = _Task(number, _task(task, match[2], where, time_unit))
        elif line not in ("", "}", "{"):
            raise InputError(f"{where}: {line[:80]!r} is neither a node nor an edge of a task graph")
    return tasks, edges


def _dependencies(tasks: Mapping[int, _Task], edges: Iterable[_Edge], path: str) -> dict[int, list[int]]:
    """The tasks that each waits for. Raises InputError if an edge leads from or to nothing, or between devices without a message."""
    before: dict[int, list[int]] = {}
    for source, target, number in edges:
        for end in (source, target):
            if end not in tasks:
                raise InputError(f"{path}:{number}: there is no node{end}")
        if not tasks[source].nodes.keys() & tasks[target].nodes.keys():
            raise InputError(f"{path}:{number}: node{source} and node{target} run on different devices, with no communication between them")
        before.setdefault(target, []).append(source)
    return before


def _task(id_: int, attributes: str, where: str, time_unit: str) -> dict[int, Node]:
    """The nodes of a task by device: one that computes, or a send and its receive. Raises InputError."""
    label = _LABEL.search(attributes)
    parts = [part.strip() for part in label[1].split("|")] if label else []
    if len(parts) < 5:
        raise InputError(f"{where}: node{id_} has no label of the form {{device_id=N|name|kind|type|...}}")
    name, kind, node_type = parts[1:4]
    values = dict(part.partition("=")[::2] for part in (parts[0], *parts[4:]))
    if node_type == "COMP_NODE":
        duration = finite_number(values.get("simulated_run_time", ""), f"{where}: simulated_run_time") * NS[time_unit]
        if duration >= 2.0**62:
            raise InputError(f"{where}: simulated_run_time is too long")
        node = Node(id=id_, name=f"{name} {kind}", type=NodeType.COMP_NODE, duration_ns=round(duration), is_cpu_op=False)
        return {whole_number(values.get("device_id", ""), f"{where}: device_id", most=2**16 - 1): node}
    if node_type != "COMM_SEND_RECV_NODE":
        raise InputError(f"{where}: node{id_} has the type {node_type!r}; expected COMP_NODE or COMM_SEND_RECV_NODE")
    source, target = (whole_number(values.get(key, ""), f"{where}: {key}", most=2**16 - 1) for key in ("src_device_id", "dst_device_id"))
    if source == target:
        raise InputError(f"{where}: node{id_} sends from device {source} to itself")
    shared = Node(
        id=id_,
        name=name,
        type=NodeType.COMM_SEND_NODE,
        is_cpu_op=False,
        comm_size=whole_number(values.get("comm_size", ""), f"{where}: comm_size", most=2**62 - 1),
        comm_src=source,
        comm_dst=target,
        comm_tag=id_ % (MAX_32 + 1),
    )
    return {source: shared, target: attrs.evolve(shared, type=NodeType.COMM_RECV_NODE)}
