"""An execution graph as Chakra nodes: compute, collectives and memory accesses. Waits become dependencies."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
from astra_sim import InputError
from astra_sim.graph import Communicate, Compute, ExecutionGraph, MemoryAccess, Wait
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


@attrs.define(eq=False)
class GraphNodes:
    """The nodes that all ranks share, and the ranks of each process group by its name, as ASTRA-sim 2.x reads them.

    A collective over parts of a platform's dimensions runs in groups; `nodes_of` writes the name of the rank's group into it.
    """

    nodes: list[Node] = attrs.field(factory=list)
    groups: dict[str, list[int]] = attrs.field(factory=dict)
    _group_of: dict[int, list[str]] = attrs.field(factory=dict)

    def nodes_of(self, rank: int) -> Iterator[Node]:
        """The nodes of a rank."""
        for node in self.nodes:
            names = self._group_of.get(node.id)
            yield node if names is None else attrs.evolve(node, pg_name=names[rank])


def graph_nodes(graph: ExecutionGraph, platform: Platform) -> GraphNodes:
    """The nodes of a graph whose NPUs all run the same program. Raises InputError if Chakra has no node for an operation.

    Compute of 0 ps and a collective over no dimension become no node; operations that wait for them wait for their dependencies instead.
    The time in which a layer uses the result of a collective becomes compute of the CPU, since it runs beside the compute of the NPU.
    """
    shared = GraphNodes()
    names = _Names(graph)
    partitions: dict[tuple[int, ...], list[str]] = {}
    ends: list[tuple[int, ...]] = []  # for each operation, the nodes that must have ended
    for operation in graph.operations:
        if not isinstance(operation, (Compute, Communicate, MemoryAccess, Wait)):
            raise InputError(f"operation {len(ends)}, a {type(operation).__name__}, cannot be written as a Chakra node")
        before = _merged(ends, operation.after)
        id_ = len(shared.nodes)
        if isinstance(operation, Wait):
            ends.append(tuple(dict.fromkeys(before + _merged(ends, operation.pending))))
            continue
        if isinstance(operation, Compute):
            duration = round(operation.duration_ps / PS_PER_NS)
            if not duration:
                ends.append(before)
                continue
            shared.nodes.append(
                Node(id=id_, name=names.of(operation), type=NodeType.COMP_NODE, duration_ns=duration, data=before, is_cpu_op=False)
            )
        elif isinstance(operation, Communicate):
            dimensions = tuple(d for d in sorted(operation.dimensions) if graph.dimensions[d].size > 1)
            if not dimensions:
                ends.append(before)
                continue
            involved = _involved(dimensions, graph.dimensions, platform)
            if involved is None:
                if dimensions not in partitions:
                    partitions[dimensions] = _partition(dimensions, graph.dimensions, platform.npus, shared.groups)
                shared._group_of[id_] = partitions[dimensions]
            shared.nodes.append(
                Node(
                    id=id_,
                    name=names.of(operation),
                    type=NodeType.COMM_COLL_NODE,
                    data=before,
                    is_cpu_op=False,
                    comm_type=_COLLECTIVES[operation.collective],
                    comm_size=operation.bytes,
                    comm_priority=URGENT if operation.urgent else 0,
                    involved_dim=involved,
                )
            )
            update = round(operation.update_ps / PS_PER_NS)
            if update:
                name = f"{names.of(operation)} update"
                shared.nodes.append(Node(id=id_ + 1, name=name, type=NodeType.COMP_NODE, duration_ns=update, data=(id_,), is_cpu_op=True))
        else:
            node_type = NodeType.MEM_STORE_NODE if operation.write else NodeType.MEM_LOAD_NODE
            shared.nodes.append(
                Node(id=id_, name=names.of(operation), type=node_type, data=before, is_cpu_op=False, tensor_size=operation.bytes)
            )
        ends.append((len(shared.nodes) - 1,))
    return shared


@attrs.frozen
class _Names:
    """Names of nodes: layer, pass, and collective or compute."""

    graph: ExecutionGraph

    def of(self, operation: Compute | Communicate | MemoryAccess) -> str:
        if isinstance(operation, Compute) and operation.idle:
            return "step"
        layer = self.graph.layers[operation.layer] if 0 <= operation.layer < len(self.graph.layers) else ""
        if isinstance(operation, MemoryAccess):
            return f"{layer} {'store' if operation.write else 'load'}".strip()
        kind = str(operation.collective) if isinstance(operation, Communicate) else "compute"
        return f"{layer} {operation.training_pass} {kind}".strip()


def _merged(ends: list[tuple[int, ...]], operations: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(node for operation in operations for node in ends[operation]))


def _involved(used: tuple[int, ...], logical: tuple[LogicalDimension, ...], platform: Platform) -> tuple[bool, ...] | None:
    """For each of the platform's dimensions, whether a collective involves it; None if it involves only a part of one."""
    if any(logical[d].physical is None for d in used):
        return (True,) * len(platform.dimensions)
    covered = [1] * len(platform.dimensions)
    for d in used:
        covered[logical[d].physical or 0] *= logical[d].size
    if any(part not in (1, dimension.size) for part, dimension in zip(covered, platform.dimensions, strict=True)):
        return None
    return tuple(part > 1 for part in covered)


def _partition(used: tuple[int, ...], logical: tuple[LogicalDimension, ...], npus: int, groups: dict[str, list[int]]) -> list[str]:
    """Add the groups of a collective to `groups`. Returns the name of each rank's group."""
    names: dict[int, str] = {}
    of_rank = []
    for rank in range(npus):
        first = rank - sum(logical[d].index(rank) * logical[d].stride for d in used)
        if first not in names:
            names[first] = str(len(groups) + 1)
            groups[names[first]] = []
        groups[names[first]].append(rank)
        of_rank.append(names[first])
    return of_rank
