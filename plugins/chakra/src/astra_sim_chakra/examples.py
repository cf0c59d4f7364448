"""Traces with which `astra plugins check` tries these components."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from astra_sim_chakra.schema import CollectiveType, NodeType
from astra_sim_chakra.trace import Node
from astra_sim_chakra.writer import write_nodes

_WORKLOAD_RANKS = 8
_COLLECTIVE_RANKS = 4


def workload(folder: Path) -> list[dict[str, str]]:
    """Eight ranks that compute, all-reduce, use remote memory, and hand a message round."""
    return _written(folder / "step", _WORKLOAD_RANKS, _step)


def collective(folder: Path) -> list[dict[str, str]]:
    """Four ranks that hand messages round, each waiting for the one before."""
    return _written(folder / "ring", _COLLECTIVE_RANKS, _ring)


def _written(prefix: Path, ranks: int, nodes: Callable[[int], Sequence[Node]]) -> list[dict[str, str]]:
    for rank in range(ranks):
        write_nodes(f"{prefix}.{rank}.et", nodes(rank))
    return [{"prefix": str(prefix)}]


def _step(rank: int) -> list[Node]:
    following, before = (rank + 1) % _WORKLOAD_RANKS, (rank - 1) % _WORKLOAD_RANKS
    return [
        Node(id=0, name="load", type=NodeType.MEM_LOAD_NODE, tensor_size=4096),
        Node(id=1, name="forward", type=NodeType.COMP_NODE, duration_ns=5000, num_ops=10**6, tensor_size=4096, data=(0,)),
        Node(id=2, name="send", type=NodeType.COMM_SEND_NODE, comm_dst=following, comm_size=8192, data=(1,)),
        Node(id=3, name="receive", type=NodeType.COMM_RECV_NODE, comm_src=before, comm_size=8192),
        Node(id=4, name="reduce", type=NodeType.COMM_COLL_NODE, comm_type=CollectiveType.ALL_REDUCE, comm_size=65536, data=(2, 3)),
    ]


def _ring(rank: int) -> list[Node]:
    nodes: list[Node] = []
    for step in range(2 * _COLLECTIVE_RANKS - 2):
        after = (nodes[-1].id,) if nodes else ()
        following, before = (rank + 1) % _COLLECTIVE_RANKS, (rank - 1) % _COLLECTIVE_RANKS
        nodes.append(Node(id=2 * step, type=NodeType.COMM_SEND_NODE, comm_dst=following, comm_size=65536, data=after))
        nodes.append(Node(id=2 * step + 1, type=NodeType.COMM_RECV_NODE, comm_src=before, comm_size=65536, data=(2 * step,)))
    return nodes
