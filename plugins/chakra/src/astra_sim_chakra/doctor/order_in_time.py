"""Orders that dependencies leave open, and that depend on time in a run: which collective is issued first, and which nodes delay others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from astra_sim_chakra.doctor.cross_rank_checks import CheckedGroup, Matched, Whole
from astra_sim_chakra.doctor.findings import TraceFinding
from astra_sim_chakra.doctor.graph import latest
from astra_sim_chakra.doctor.lenient import label_of
from astra_sim_chakra.doctor.rank_checks import Examined, unordered
from astra_sim_chakra.schema import NodeType
from astra_sim_chakra.trace import Node

MOST_STEPS = 20_000_000
"""Dependencies that are followed at most to find delayed nodes; it takes each dependency once for every rank."""


def open_orders(groups: Mapping[CheckedGroup, Mapping[int, Sequence[int]]], examined: Mapping[int, Examined]) -> Iterator[TraceFinding]:
    """Collectives of one group that follow each other on a rank, differ, and do not wait for each other.

    Ranks that do the same at the same time have the same order, so groups of such ranks are left out.
    """
    for group, issued in groups.items():
        if len(issued) < 2 or _are_alike([examined[rank] for rank in issued]):
            continue
        for rank, numbers in issued.items():
            pair = unordered(numbers, examined[rank])
            if pair is not None:
                first, second = (label_of(examined[rank].trace.nodes[number]) for number in pair)
                ids = tuple(examined[rank].trace.nodes[number].id for number in pair)
                text = f"{group.name}: {first} and {second} do not wait for each other, and are not alike"
                yield TraceFinding("order_by_time", text, ids, ranks=(rank,))


def _are_alike(several: Sequence[Examined]) -> bool:
    """Whether traces have the same nodes and dependencies, but for ids, peers, names and process groups."""
    first, *others = {id(each.trace.nodes): each for each in several}.values()
    return all(
        len(each.trace.nodes) == len(first.trace.nodes)
        and each.graph.after == first.graph.after
        and all(_shape(node) == _shape(other) for node, other in zip(each.trace.nodes, first.trace.nodes, strict=True))
        for each in others
    )


def _shape(node: Node) -> tuple[object, ...]:
    return node.type, node.duration_ns, node.num_ops, node.tensor_size, node.is_cpu_op, node.comm_type, node.comm_size


def held_up(whole: Whole, matched: Matched, examined: Mapping[int, Examined]) -> Iterator[TraceFinding]:
    """A collective of a rank that another rank only joins after it has had something else of the first rank, which does not wait for it."""
    if (not matched.messages and len(matched.collectives) < 2) or _are_alike(list(examined.values())):
        return  # ranks that are alike begin the same operations first
    edges = sum(len(others) for others in whole.graph.after)
    if edges * len(examined) > MOST_STEPS:
        yield TraceFinding("not_rehearsed", f"{edges} dependencies on {len(examined)} ranks are too many", ())
        return
    moment = {place: at for at, place in enumerate(whole.graph.order)}
    for rank, each in examined.items():
        own = whole.place_of[rank]
        order = [number for number, node in enumerate(each.trace.nodes) if node.type in _ONE_AT_A_TIME]
        order.sort(key=lambda number, own=own: moment[own[number]])  # type: ignore[misc]
        place = {number: at for at, number in enumerate(order)}
        local = latest(each.graph.after, each.graph.order, place)
        latest_of = latest(whole.graph.after, whole.graph.order, {own[number]: at for number, at in place.items()})
        for number in order:
            other = latest_of[own[number]]
            if other > local[number] and each.trace.nodes[number].type == NodeType.COMM_COLL_NODE and own[order[other]] != own[number]:
                first, second = each.trace.nodes[number], each.trace.nodes[order[other]]
                text = f"{label_of(first)} does not wait for {label_of(second)}, without which other ranks do not join it"
                yield TraceFinding("held_up", text, (first.id, second.id), ranks=(rank,))
                break


_ONE_AT_A_TIME = (NodeType.COMM_COLL_NODE, NodeType.COMM_SEND_NODE)
"""Operations of which a rank has one under way at a time; receives are not among them."""
