"""Small Chakra traces, and the same with something wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from astra_sim_chakra import CollectiveType, Metadata, Node, NodeType, write_nodes
from astra_sim_chakra.wire import Attribute

TEXT = """DATA
2
conv -1 100 NONE 0 200 NONE 0 300 ALLREDUCE 4096 10
fc -1 400 NONE 0 500 NONE 0 600 ALLREDUCE 8192 0
"""
"""A workload of ASTRA-sim 1.0, in nanoseconds."""

TEXT_TIMES = (("conv", "FWD", 100), ("fc", "FWD", 400), ("fc", "BWD_WG", 600), ("fc", "BWD_IG", 500), ("conv", "BWD_WG", 300))


def compute(id_: int, ns: int = 5000, *after: int, **fields: Any) -> Node:
    """A node that computes on the accelerator, with all that compute models ask for."""
    work = {"num_ops": 10**9, "tensor_size": 4096, "is_cpu_op": False, **fields}
    return Node(id=id_, name=f"compute {id_}", type=NodeType.COMP_NODE, duration_ns=ns, data=after, **work)


def collective(id_: int, size: int, *after: int, kind: CollectiveType = CollectiveType.ALL_REDUCE, **fields: Any) -> Node:
    """A collective."""
    name = f"{kind.name.lower()} {id_}"
    return Node(id=id_, name=name, type=NodeType.COMM_COLL_NODE, comm_type=kind, comm_size=size, data=after, is_cpu_op=False, **fields)


def send(id_: int, to: int, size: int, *after: int, **fields: Any) -> Node:
    """A send."""
    return Node(
        id=id_, name=f"send {id_}", type=NodeType.COMM_SEND_NODE, comm_dst=to, comm_size=size, data=after, is_cpu_op=False, **fields
    )


def receive(id_: int, source: int, size: int, *after: int, **fields: Any) -> Node:
    """A receive."""
    name = f"receive {id_}"
    return Node(id=id_, name=name, type=NodeType.COMM_RECV_NODE, comm_src=source, comm_size=size, data=after, is_cpu_op=False, **fields)


def write_ranks(prefix: Path, ranks: Sequence[Sequence[Node]] | Callable[[int], Sequence[Node]], count: int = 4) -> str:
    """Write a trace for each rank; returns the prefix."""
    for rank, nodes in enumerate(ranks if not callable(ranks) else map(ranks, range(count))):
        write_nodes(f"{prefix}.{rank}.et", nodes)
    return str(prefix)


def data_parallel(rank: int) -> list[Node]:
    """Two layers, whose gradients are reduced over all ranks."""
    return [
        compute(0),
        compute(1, 7000, 0),
        collective(2, 1 << 20, 1),
        compute(3, 9000, 1),
        collective(4, 1 << 16, 3),
        compute(5, 1000, 2, 4),
    ]


def pipeline(rank: int) -> list[Node]:
    """Two stages of two ranks each: the first hands its output on, and each stage reduces in a process group of its own."""
    if rank < 2:
        return [compute(0), send(1, rank + 2, 4096, 0), collective(2, 1 << 16, 0, pg_name="1")]
    return [receive(0, rank - 2, 4096), compute(1, 7000, 0), collective(2, 1 << 16, 1, pg_name="2")]


PIPELINE_GROUPS = {"1": [0, 1], "2": [2, 3]}


def converted_text(prefix: Path, ranks: int, times: Sequence[tuple[str, str, int]] = TEXT_TIMES, text: str = TEXT) -> str:
    """What Chakra's text converter makes of a text: the numbers of the text as microseconds, and the text in the metadata."""
    metadata = Metadata("", (Attribute("schema", "string_val", "1.0.2-chakra.1.0.0"), Attribute("input_file", "string_val", text)))
    nodes = []
    for id_, (layer, training_pass, time) in enumerate(times):
        name, after = f"COMP_NODE_{layer}_{training_pass}", (id_ - 1,) if id_ else ()
        nodes.append(Node(id=id_, name=name, type=NodeType.COMP_NODE, duration_ns=1000 * time, data=after))
    for rank in range(ranks):
        write_nodes(f"{prefix}.{rank}.et", nodes, metadata)
    return str(prefix)
