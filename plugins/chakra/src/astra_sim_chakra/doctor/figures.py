"""The content of traces: operations, bytes and times by kind, process group and rank, and lower bounds of a run."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from astra_sim_chakra.doctor.checking import Checked
from astra_sim_chakra.doctor.cross_rank_checks import NodePlace, collectives_of, whole
from astra_sim_chakra.doctor.lenient import label_of
from astra_sim_chakra.schema import CollectiveType, NodeType
from astra_sim_chakra.trace import Node


@attrs.define
class KindFigures:
    """Operations of a kind on all ranks: bytes as their nodes have them (None: none has any), recorded time in ns, `num_ops`."""

    kind: str
    nodes: int = 0
    bytes: int | None = None
    duration_ns: int = 0
    num_ops: int = 0
    sizes: list[int] = attrs.field(factory=list, repr=False)

    def table(self) -> dict[str, Any]:
        """As plain values; sizes as least, median and most."""
        sized = {"least": min(self.sizes), "median": statistics.median_low(self.sizes), "most": max(self.sizes)} if self.sizes else None
        own = {"kind": self.kind, "nodes": self.nodes, "bytes": self.bytes, "duration_ns": self.duration_ns, "num_ops": self.num_ops}
        return {**own, "size": sized}


@attrs.frozen
class GroupFigures:
    """Collectives of ranks that issue them together: their number and bytes on one rank."""

    group: str
    ranks: tuple[int, ...]
    collectives: int
    bytes: int


@attrs.frozen
class RankFigures:
    """A rank: its nodes, time that its accelerator and its CPU compute, bytes of collectives and messages, longest chain; times in ns."""

    rank: int
    nodes: int
    compute_ns: int
    cpu_ns: int
    collective_bytes: int
    sent_bytes: int
    received_bytes: int
    chain_ns: int


@attrs.frozen
class TraceFigures:
    """All figures of some traces. `chain_ns` is the longest chain of compute through all ranks (None: circles), with its nodes.

    `keeps_order`: a run lets an NPU compute several nodes at a time by default, as the traces request.
    """

    kinds: list[KindFigures]
    groups: list[GroupFigures]
    ranks: list[RankFigures]
    chain_ns: int | None
    chain: list[tuple[int, str, int]]
    keeps_order: bool = False

    @property
    def busiest_ns(self) -> int:
        """The longest compute time of the accelerator or the CPU of any rank."""
        return max((max(rank.compute_ns, rank.cpu_ns) for rank in self.ranks), default=0)

    @property
    def one_at_a_time_ns(self) -> int | None:
        """The lower bound of a run in which a unit computes one node at a time (`system.one_at_a_time`): the sum of its compute."""
        return None if self.chain_ns is None else max(self.chain_ns, self.busiest_ns)

    def table(self) -> dict[str, Any]:
        """The output of `--json`."""
        return {
            "ranks": [attrs.asdict(rank) for rank in self.ranks],
            "kinds": [kind.table() for kind in self.kinds],
            "groups": [{**attrs.asdict(group), "ranks": list(group.ranks)} for group in self.groups],
            "bound": {
                "chain_ns": self.chain_ns,
                "one_at_a_time_ns": self.one_at_a_time_ns,
                "one_at_a_time": not self.keeps_order,
                "busiest_rank_ns": max((rank.compute_ns for rank in self.ranks), default=0),
                "chain": [{"rank": rank, "node": label, "duration_ns": duration} for rank, label, duration in self.chain],
            },
        }


def figures(checked: Checked) -> TraceFigures:
    """Add up the content of the traces. Recorded times of communication are added up by kind, and are in no bound."""
    kinds: dict[str, KindFigures] = {}
    ranks = []
    for rank, each in checked.examined.items():
        for node in each.trace.nodes:
            _add(kinds.setdefault(kind_of(node), KindFigures(kind_of(node))), node)
        own = [compute_ns(node) for node in each.trace.nodes]
        chain, _ = each.graph.longest(own)
        ranks.append(_rank(rank, each.trace.nodes, own, chain))
    combined = whole(checked.examined, checked.matched)
    chain_ns: int | None = None
    path: list[int] = []
    weights: list[int] = []
    if combined.graph.is_complete:
        weights = [compute_ns(_node(checked, place)) for place in combined.places]
        chain_ns, path = combined.graph.longest(weights)
    steps = [(combined.places[at].rank, label_of(_node(checked, combined.places[at])), weights[at]) for at in path if weights[at]]
    keeps_order = all(trace.keeps_order for trace in checked.trace_set.traces.values())
    return TraceFigures(sorted(kinds.values(), key=lambda kind: kind.kind), list(_groups(checked)), ranks, chain_ns, steps, keeps_order)


def kind_of(node: Node) -> str:
    """The label of a node's action: a collective by its type, compute by its unit."""
    if node.type == NodeType.COMM_COLL_NODE:
        return "collective" if node.comm_type is None else CollectiveType(node.comm_type).name.lower()
    if node.type == NodeType.COMP_NODE:
        return "compute on the CPU" if node.is_cpu_op else "compute"
    return _WORDS[node.type]


_WORDS = {
    NodeType.INVALID_NODE: "invalid",
    NodeType.METADATA_NODE: "metadata",
    NodeType.MEM_LOAD_NODE: "load",
    NodeType.MEM_STORE_NODE: "store",
    NodeType.COMM_SEND_NODE: "send",
    NodeType.COMM_RECV_NODE: "receive",
}


def compute_ns(node: Node) -> int:
    """The time that a node computes, in ns: nothing if it communicates; 0 counts as 1 ns, as in a run."""
    return (node.duration_ns or 1) if node.type == NodeType.COMP_NODE else 0


def _node(checked: Checked, place: NodePlace) -> Node:
    return checked.examined[place.rank].trace.nodes[place.number]


def _add(kind: KindFigures, node: Node) -> None:
    kind.nodes += 1
    kind.duration_ns += node.duration_ns
    kind.num_ops += node.num_ops or 0
    size = node.comm_size if node.comm_size is not None else node.tensor_size
    if size is not None:
        kind.bytes = (kind.bytes or 0) + size
        kind.sizes.append(size)


def _rank(rank: int, nodes: Sequence[Node], weights: Sequence[int], chain: int) -> RankFigures:
    """The totals of a rank; `chain` is the time of its longest chain."""

    def sized(*types: NodeType) -> int:
        return sum(node.comm_size or 0 for node in nodes if node.type in types)

    on_cpu = sum(weight for node, weight in zip(nodes, weights, strict=True) if node.is_cpu_op)
    sent, received = sized(NodeType.COMM_SEND_NODE), sized(NodeType.COMM_RECV_NODE)
    return RankFigures(
        rank=rank,
        nodes=len(nodes),
        compute_ns=sum(weights) - on_cpu,
        cpu_ns=on_cpu,
        collective_bytes=sized(NodeType.COMM_COLL_NODE),
        sent_bytes=sent,
        received_bytes=received,
        chain_ns=chain,
    )


def _groups(checked: Checked) -> Iterator[GroupFigures]:
    groups, _ = collectives_of(checked.trace_set, checked.examined)
    for group, issued in groups.items():
        rank, numbers = next(iter(issued.items()))
        nodes = checked.examined[rank].trace.nodes
        yield GroupFigures(group.name, group.ranks, len(numbers), sum(nodes[number].comm_size or 0 for number in numbers))
