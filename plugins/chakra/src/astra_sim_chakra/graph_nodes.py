"""An execution graph as Chakra nodes: compute, collectives, messages and memory accesses. Waits become dependencies."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs
from astra_sim import InputError
from astra_sim.graph import (
    Communicate,
    Composite,
    Compute,
    ExecutionGraph,
    MemoryAccess,
    NpuProgram,
    Operation,
    Receive,
    Send,
    Wait,
    operation_rows,
    peer_of,
)
from astra_sim.platform import LogicalDimension, Platform
from astra_sim.schedule import Collective
from astra_sim.units import PS_PER_NS

from astra_sim_chakra.schema import CollectiveType, NodeType
from astra_sim_chakra.trace import Node

_COLLECTIVES = {
    Collective.ALL_REDUCE: CollectiveType.ALL_REDUCE,
    Collective.ALL_GATHER: CollectiveType.ALL_GATHER,
    Collective.REDUCE_SCATTER: CollectiveType.REDUCE_SCATTER,
    Collective.ALL_TO_ALL: CollectiveType.ALL_TO_ALL,
}
URGENT = 1
"""The `comm_priority` of an urgent collective, which goes before all others."""


@attrs.define
class ProcessGroups:
    """The ranks of each process group by its name, as ASTRA-sim 2.x reads them."""

    ranks: dict[str, list[int]] = attrs.field(factory=dict)
    _names: dict[tuple[int, ...], str] = attrs.field(factory=dict)

    def name(self, members: Sequence[int]) -> str:
        """The name of a group; a new one is added."""
        key = tuple(members)
        if key not in self._names:
            self._names[key] = str(len(self.ranks) + 1)
            self.ranks[self._names[key]] = list(key)
        return self._names[key]


@attrs.define(eq=False)
class GraphNodes:
    """The nodes of the ranks `npus`, which run one program. `nodes_of` writes the differences between ranks into them.

    That are the peers of messages, and the groups of collectives that do not run along whole dimensions of a platform.
    """

    npus: Sequence[int]
    nodes: list[Node] = attrs.field(factory=list)
    _ranks: int = 0
    _group_of: dict[int, Mapping[int, str]] = attrs.field(factory=dict)
    _messages: dict[int, Send | Receive] = attrs.field(factory=dict)

    @property
    def are_alike(self) -> bool:
        """Whether all ranks have the same nodes."""
        return not self._group_of and not self._messages

    def nodes_of(self, rank: int) -> Iterator[Node]:
        """The nodes of a rank."""
        for node in self.nodes:
            if node.id in self._group_of:
                yield attrs.evolve(node, pg_name=self._group_of[node.id][rank])
            elif node.id in self._messages:
                message = self._messages[node.id]
                peer = peer_of(message, rank, self._ranks)
                yield attrs.evolve(node, comm_dst=peer) if isinstance(message, Send) else attrs.evolve(node, comm_src=peer)
            else:
                yield node


def graph_nodes(graph: ExecutionGraph, platform: Platform) -> tuple[list[GraphNodes], dict[str, list[int]]]:
    """The nodes of each program of a graph, and the ranks of process groups by name. Raises InputError if Chakra has no such node.

    Compute of 0 ps and a collective over no dimension become no node; operations that wait for them wait for their dependencies instead.
    The time in which a layer uses the result of a collective becomes compute of the CPU, since it runs beside the compute of the NPU.
    """
    groups = ProcessGroups()
    programs = [_TraceWriter(graph, program, platform, groups).write() for program in graph.programs(platform.npus)]
    return programs, groups.ranks


class _TraceWriter:
    """Writes the nodes of one program."""

    def __init__(self, graph: ExecutionGraph, program: NpuProgram, platform: Platform, groups: ProcessGroups) -> None:
        self._graph = graph
        self._platform = platform
        self._groups = groups
        self._operations = program.operations
        self._result = GraphNodes(program.npus, ranks=platform.npus)
        self._names = _Names(graph)
        self._partitions: dict[tuple[int, ...], Mapping[int, str]] = {}
        self._ends: list[tuple[int, ...]] = []  # for each operation, the nodes that must have ended
        self._within: list[tuple[int, ...]] = []  # the same for the last composites, of which each continues the one before
        self._begin: tuple[int, ...] = ()  # the nodes after which the first of these begins

    def write(self) -> GraphNodes:
        """The nodes."""
        for operation in self._operations:
            self._ends.append(self._write(operation))
        return self._result

    def _write(self, operation: Operation) -> tuple[int, ...]:
        """Write an operation. Returns the nodes that must have ended for it to have ended."""
        if not isinstance(operation, (Compute, Communicate, Send, Receive, MemoryAccess, Wait, Composite)):
            raise InputError(f"operation {len(self._ends)}, a {type(operation).__name__}, cannot be written as a Chakra node")
        before = _merged(self._ends, operation.after)
        if isinstance(operation, Wait):
            return tuple(dict.fromkeys(before + _merged(self._ends, operation.pending)))
        if isinstance(operation, Composite):
            return self._composite(operation, before)
        return self._single(operation, before)

    def _composite(self, composite: Composite, before: tuple[int, ...]) -> tuple[int, ...]:
        """Write the operations of a composite, each by itself."""
        if composite.previous is None:
            self._within, self._begin = [], before
        first, rows = len(self._within), operation_rows(composite.operations)
        for row, kind in enumerate(rows.kind_of):
            waits = rows.after[row]
            ready = _merged(self._within, waits) if len(waits) else self._begin
            operation = rows.kinds[kind]
            self._within.append(ready if isinstance(operation, Wait) else self._single(operation, ready))
        until = composite.until or range(first, len(self._within))
        return _merged(self._within, until) if len(until) else before

    def _single(self, operation: Operation, before: tuple[int, ...]) -> tuple[int, ...]:
        """Write an operation that is one node, after others."""
        if isinstance(operation, Compute):
            duration = round(operation.duration_ps / PS_PER_NS)
            return self._add(operation, NodeType.COMP_NODE, before, duration_ns=duration) if duration else before
        if isinstance(operation, Communicate):
            return self._collective(operation, before)
        if isinstance(operation, MemoryAccess):
            kind = NodeType.MEM_STORE_NODE if operation.write else NodeType.MEM_LOAD_NODE
            return self._add(operation, kind, before, tensor_size=operation.bytes)
        assert isinstance(operation, (Send, Receive))
        self._result._messages[len(self._result.nodes)] = operation
        kind = NodeType.COMM_SEND_NODE if isinstance(operation, Send) else NodeType.COMM_RECV_NODE
        return self._add(operation, kind, before, comm_size=operation.bytes, comm_tag=operation.tag)

    def _add(
        self, operation: Compute | Communicate | Send | Receive | MemoryAccess, kind: NodeType, before: tuple[int, ...], **fields: Any
    ) -> tuple[int, ...]:
        id_ = len(self._result.nodes)
        self._result.nodes.append(Node(id=id_, name=self._names.of(operation), type=kind, data=before, is_cpu_op=False, **fields))
        return (id_,)

    def _collective(self, operation: Communicate, before: tuple[int, ...]) -> tuple[int, ...]:
        """Add the node of a collective, with its group, or with the dimensions of the platform that it spans."""
        logical = self._graph.dimensions
        dimensions = tuple(d for d in sorted(operation.dimensions) if logical[d].size > 1)
        if operation.group is None and not dimensions:
            return before
        id_ = len(self._result.nodes)
        involved = None if operation.group is not None else _involved(dimensions, logical, self._platform)
        if operation.group is not None:
            self._result._group_of[id_] = dict.fromkeys(self._result.npus, self._groups.name(operation.group))
        elif involved is None:
            if dimensions not in self._partitions:
                names = {rank: self._groups.name(_members(dimensions, logical, rank)) for rank in self._result.npus}
                self._partitions[dimensions] = names
            self._result._group_of[id_] = self._partitions[dimensions]
        ended = self._add(
            operation,
            NodeType.COMM_COLL_NODE,
            before,
            comm_type=_COLLECTIVES[operation.collective],
            comm_size=operation.bytes,
            comm_priority=URGENT if operation.urgent else 0,
            involved_dim=None if involved == (True,) else involved,  # one dimension leaves no choice, and the trace runs on others, too
        )
        update = round(operation.update_ps / PS_PER_NS)
        if update:
            name = f"{self._names.of(operation)} update"
            self._result.nodes.append(Node(id=id_ + 1, name=name, type=NodeType.COMP_NODE, duration_ns=update, data=ended, is_cpu_op=True))
            return (id_ + 1,)
        return ended


@attrs.frozen
class _Names:
    """Names of nodes: that of the operation, or layer, pass, and collective or compute."""

    graph: ExecutionGraph

    def of(self, operation: Compute | Communicate | Send | Receive | MemoryAccess) -> str:
        if operation.name:
            return operation.name
        if isinstance(operation, Compute) and operation.idle:
            return "step"
        layer = self.graph.layers[operation.layer] if 0 <= operation.layer < len(self.graph.layers) else ""
        if isinstance(operation, MemoryAccess):
            return f"{layer} {'store' if operation.write else 'load'}".strip()
        if isinstance(operation, (Send, Receive)):
            return f"{layer} {type(operation).__name__.lower()}".strip()
        kind = str(operation.collective) if isinstance(operation, Communicate) else "compute"
        return f"{layer} {operation.training_pass} {kind}".strip()


def _merged(ends: Sequence[tuple[int, ...]], operations: Iterable[int]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(node for operation in operations for node in ends[operation]))


def _involved(used: tuple[int, ...], logical: tuple[LogicalDimension, ...], platform: Platform) -> tuple[bool, ...] | None:
    """For each of the platform's dimensions, whether a collective involves it; None if it involves only a part of one."""
    if any(logical[d].physical is None for d in used):
        return (True,) * len(platform.dimensions) if math.prod(logical[d].size for d in used) == platform.npus else None
    covered = [1] * len(platform.dimensions)
    for d in used:
        covered[logical[d].physical or 0] *= logical[d].size
    if any(part not in (1, dimension.size) for part, dimension in zip(covered, platform.dimensions, strict=True)):
        return None
    return tuple(part > 1 for part in covered)


def _members(used: tuple[int, ...], logical: tuple[LogicalDimension, ...], rank: int) -> tuple[int, ...]:
    """The ranks of the group of a rank, which differ in some dimensions."""
    members = [rank - sum(logical[d].index(rank) * logical[d].stride for d in used)]
    for d in used:
        members = [member + place * logical[d].stride for place in range(logical[d].size) for member in members]
    return tuple(sorted(members))
