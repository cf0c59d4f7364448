"""Checks across the traces of all ranks: messages, collectives, and wait cycles."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import attrs

from astra_sim_chakra.doctor.findings import TraceFinding, about, spans
from astra_sim_chakra.doctor.graph import TraceGraph, graph_of
from astra_sim_chakra.doctor.lenient import label_of
from astra_sim_chakra.doctor.rank_checks import Examined, is_collective, unordered
from astra_sim_chakra.doctor.trace_set import EVERYBODY, TraceSet
from astra_sim_chakra.schema import CollectiveType, NodeType
from astra_sim_chakra.trace import Node

ALL_RANKS = "all ranks"
_DEADLOCK_SHOWN = 8


@attrs.frozen
class CheckedGroup:
    """Ranks that issue collectives together, and their name."""

    name: str
    ranks: tuple[int, ...]


@attrs.frozen
class NodePlace:
    """A node: its rank, and its position in the trace of that rank."""

    rank: int
    number: int


@attrs.define(eq=False)
class Matched:
    """Matched operations: the n-th collective of each group on all its ranks, and sends with their receives."""

    collectives: dict[CheckedGroup, list[list[NodePlace]]] = attrs.field(factory=dict)
    messages: list[tuple[NodePlace, NodePlace]] = attrs.field(factory=list)
    findings: list[TraceFinding] = attrs.field(factory=list)


def match(trace_set: TraceSet, examined: Mapping[int, Examined]) -> Matched:
    """Hold the ranks against each other. Of a single file nothing is compared."""
    matched = Matched()
    for rank, each in examined.items():
        matched.findings += [attrs.evolve(finding, ranks=(rank,)) for finding in _peers(trace_set, rank, each)]
    if not trace_set.single:
        _messages(trace_set, examined, matched)
        _collectives(trace_set, examined, matched)
    return matched


_Boxes = dict[tuple[object, ...], list[NodePlace]]
"""Sends or receives by source, destination, tag and bytes."""

# -- Messages ----------------------------------------------------------------------------------------------------------


def _peers(trace_set: TraceSet, rank: int, examined: Examined) -> Iterator[TraceFinding]:
    """Messages to the rank itself, and to ranks that are not there."""
    for attribute in ("comm_dst", "comm_src"):
        kind = NodeType.COMM_SEND_NODE if attribute == "comm_dst" else NodeType.COMM_RECV_NODE
        named = [node for node in examined.trace.nodes if getattr(node, attribute) is not None and not trace_set.single]
        selves = [node for node in named if node.type == kind and getattr(node, attribute) == rank]
        far = [node for node in named if getattr(node, attribute) >= trace_set.ranks]
        if selves:
            yield about("message_to_itself", f"{attribute} is the rank itself", [(node.id, label_of(node)) for node in selves])
        if far:
            text = f"{attribute} is {getattr(far[0], attribute)}; expected 0 to {trace_set.ranks - 1}"
            yield about("peer_out_of_range", text, [(node.id, label_of(node)) for node in far])


def _messages(trace_set: TraceSet, examined: Mapping[int, Examined], matched: Matched) -> None:
    """Match the n-th send of a kind with the n-th receive: kinds differ in source, destination, tag and bytes, as in a run."""
    boxes: tuple[_Boxes, _Boxes] = ({}, {})
    for rank, each in examined.items():
        for number in each.graph.order:
            node = each.trace.nodes[number]
            if node.type not in (NodeType.COMM_SEND_NODE, NodeType.COMM_RECV_NODE) or node.comm_size is None:
                continue
            sends = node.type == NodeType.COMM_SEND_NODE
            peer = node.comm_dst if sends else node.comm_src
            if peer is None or peer == rank or not 0 <= peer < trace_set.ranks:
                continue
            ends = (rank, peer) if sends else (peer, rank)
            boxes[not sends].setdefault((*ends, node.comm_tag, node.comm_size), []).append(NodePlace(rank, number))
    sends_of, receives_of = boxes
    for key, places in sends_of.items():
        matched.messages += zip(places, receives_of.get(key, []), strict=False)
    for kind, own, other in (("unmatched_send", sends_of, receives_of), ("unmatched_receive", receives_of, sends_of)):
        for key, places in own.items():
            left = places[len(other.get(key, [])) :]
            if left:
                matched.findings.append(_unmatched(kind, key, left, other, examined))


def _unmatched(
    kind: str, key: tuple[object, ...], left: Sequence[NodePlace], others: _Boxes, examined: Mapping[int, Examined]
) -> TraceFinding:
    """The finding for messages without a counterpart, with their nearest candidates."""
    source, destination, tag, size = key
    there = [each for each in others if each[:2] == key[:2]]
    names = {2: "tag", 3: "bytes"}
    near = min(there, key=lambda each: sum(a != b for a, b in zip(each, key, strict=True)), default=None)
    hint = ""
    if near is not None and near != key:
        differs = ", ".join(f"{names[at]} {near[at]!r} in place of {key[at]!r}" for at in names if near[at] != key[at])
        hint = f"; the nearest {'receive' if kind == 'unmatched_send' else 'send'} there has {differs}"
    what = f"rank {source} to {destination}, tag {tag}, {size} bytes"
    nodes = [examined[place.rank].trace.nodes[place.number] for place in left]
    return attrs.evolve(about(kind, f"{what}{hint}", [(node.id, label_of(node)) for node in nodes]), ranks=(left[0].rank,))


# -- Collectives -------------------------------------------------------------------------------------------------------


def group_of(trace_set: TraceSet, rank: int, node: Node) -> CheckedGroup | None:
    """The ranks of a collective, or None if they are unknown. A group that no file lists is known only by name.

    As in a run, process groups of the same ranks are one group, whatever their names are.
    """
    involved = node.involved_dim
    if node.pg_name not in (None, *EVERYBODY):
        members = trace_set.members(str(node.pg_name)) or ()
        if len(members) < trace_set.ranks:
            return CheckedGroup(spans(sorted(members)) if members else f"group {node.pg_name}", members)
        involved = None
    if involved is None or all(involved):
        return CheckedGroup(ALL_RANKS, tuple(range(trace_set.ranks)))
    if trace_set.sizes is None:
        return None
    used = [place for place, size in enumerate(trace_set.sizes) if place < len(involved) and involved[place] and size > 1]
    if len(used) == sum(size > 1 for size in trace_set.sizes):
        return CheckedGroup(ALL_RANKS, tuple(range(trace_set.ranks)))
    strides = [math.prod(trace_set.sizes[:place]) for place in range(len(trace_set.sizes))]
    combined = {rank - sum(rank // strides[d] % trace_set.sizes[d] * strides[d] for d in used)}
    for d in used:
        combined = {member + step * strides[d] for member in combined for step in range(trace_set.sizes[d])}
    ranks = tuple(sorted(combined))
    return CheckedGroup(f"dimensions {', '.join(map(str, used))} ({spans(ranks)})", ranks)


def collectives_of(
    trace_set: TraceSet, examined: Mapping[int, Examined]
) -> tuple[dict[CheckedGroup, dict[int, list[int]]], list[TraceFinding]]:
    """For each group and rank the collectives in the order in which a run would issue them; and errors of their groups."""
    result: dict[tuple[str, tuple[int, ...]], dict[int, list[int]]] = {}
    findings = []
    for rank, each in examined.items():
        unknown, strangers, apart = [], [], []
        results: dict[tuple[str | None, tuple[bool, ...] | None], CheckedGroup | None] = {}
        for number in each.graph.order:
            node = each.trace.nodes[number]
            if not is_collective(node):
                continue
            key = node.pg_name, node.involved_dim
            if key not in results:
                results[key] = group_of(trace_set, rank, node)
            group = results[key]
            if group is None:
                apart.append(node)
                continue
            if not group.ranks:
                unknown.append(node)
            if group.ranks and rank not in group.ranks:
                strangers.append(node)
            result.setdefault((group.name, group.ranks), {}).setdefault(rank, []).append(number)
        lost = "groups_not_given" if trace_set.groups_file is None else "unknown_group"
        for kind, nodes, text in (
            (
                lost,
                unknown,
                "no file lists its ranks" if trace_set.groups_file is None else f"{trace_set.groups_file} has no such process group",
            ),
            ("not_a_member", strangers, f"{trace_set.groups_file} has the process group without this rank"),
            ("not_compared", apart, "it runs over some dimensions only; --platform names the ranks that these join"),
        ):
            if nodes:
                where = f"pg_name is {nodes[0].pg_name!r}: {text}" if kind != "not_compared" else text
                findings.append(attrs.evolve(about(kind, where, [(node.id, label_of(node)) for node in nodes]), ranks=(rank,)))
    groups = {CheckedGroup(name, ranks or tuple(sorted(issued))): issued for (name, ranks), issued in result.items()}
    return groups, findings


def _collectives(trace_set: TraceSet, examined: Mapping[int, Examined], matched: Matched) -> None:
    """Match the collectives of each group, in the order of issue, or by kind if only timing decides the order."""
    groups, findings = collectives_of(trace_set, examined)
    matched.findings += findings
    for group, issued in groups.items():
        members = [rank for rank in group.ranks if rank in examined]
        if len(members) < 2:
            continue
        rows = {rank: issued.get(rank, []) for rank in members}
        if _are_a_question_of_time(rows, examined):
            rows = {rank: _by_kind(numbers, examined[rank]) for rank, numbers in rows.items()}
        differences = _differences(group, rows, examined)
        matched.findings += differences
        if not differences:
            numbers = range(len(rows[members[0]]))
            matched.collectives[group] = [[NodePlace(rank, rows[rank][number]) for rank in members] for number in numbers]


def _are_a_question_of_time(rows: Mapping[int, Sequence[int]], examined: Mapping[int, Examined]) -> bool:
    """Whether ranks have the same collectives in different orders, of which one is not fixed by dependencies."""
    orders = {rank: [_what(examined[rank].trace.nodes[number]) for number in numbers] for rank, numbers in rows.items()}
    first, *others = orders.values()
    if all(order == first for order in others) or any(Counter(order) != Counter(first) for order in others):
        return False
    return any(unordered(numbers, examined[rank]) is not None for rank, numbers in rows.items())


def _what(node: Node) -> tuple[int, int]:
    return node.comm_type or 0, node.comm_size or 0


def _by_kind(numbers: Sequence[int], examined: Examined) -> list[int]:
    return sorted(numbers, key=lambda number: _what(examined.trace.nodes[number]))


def _differences(group: CheckedGroup, rows: Mapping[int, Sequence[int]], examined: Mapping[int, Examined]) -> list[TraceFinding]:
    """Differences of ranks from the first one; ranks that differ in the same way are one finding."""
    first = min(rows)
    alike: dict[tuple[int, str, str], list[tuple[int, int]]] = {}
    for rank in rows:
        own, other = ([examined[each].trace.nodes[number] for number in rows[each]] for each in (first, rank))
        at = next((n for n, (a, b) in enumerate(zip(own, other, strict=False)) if _what(a) != _what(b)), min(len(own), len(other)))
        if max(len(own), len(other)) > at:
            a, b = (_does(nodes[at]) if at < len(nodes) else f"none (it issues {len(nodes)})" for nodes in (own, other))
            alike.setdefault((at, a, b), []).append((rank, (other[at] if at < len(other) else own[at]).id))
    return [
        TraceFinding(
            "collective_mismatch",
            f"{group.name}: collective {at} is {own} on rank {first}, and {other} on {spans([rank for rank, _ in differing])}",
            tuple(id_ for _, id_ in differing[:1]),
            ranks=(first, *(rank for rank, _ in differing)),
        )
        for (at, own, other), differing in alike.items()
    ]


def _does(node: Node) -> str:
    return f"{CollectiveType(node.comm_type or 0).name} of {node.comm_size} bytes ({label_of(node)})"


# -- The whole ---------------------------------------------------------------------------------------------------------


@attrs.frozen(eq=False)
class Whole:
    """The graph of all ranks: a collective is one place for all its ranks, and a receive waits for its send."""

    graph: TraceGraph
    places: Sequence[NodePlace]
    place_of: Mapping[int, Sequence[int]]


def whole(examined: Mapping[int, Examined], matched: Matched) -> Whole:
    """Join the graphs of all ranks at matched operations."""
    places: list[NodePlace] = []
    place_of: dict[int, list[int]] = {}
    for rank, each in examined.items():
        place_of[rank] = list(range(len(places), len(places) + len(each.trace.nodes)))
        places += [NodePlace(rank, number) for number in range(len(each.trace.nodes))]
    for instances in matched.collectives.values():
        for instance in instances:
            for place in instance[1:]:
                place_of[place.rank][place.number] = place_of[instance[0].rank][instance[0].number]
    after: list[list[int]] = [[] for _ in places]
    for rank, each in examined.items():
        own = place_of[rank]
        for number, others in enumerate(each.graph.after):
            after[own[number]] += [own[other] for other in others]
    for send, receive in matched.messages:
        after[place_of[receive.rank][receive.number]].append(place_of[send.rank][send.number])
    return Whole(graph_of([list(dict.fromkeys(others)) for others in after], range(len(places))), places, place_of)


def deadlock(combined: Whole, examined: Mapping[int, Examined]) -> TraceFinding | None:
    """A circle through several ranks, if there is one."""
    circle = combined.graph.circle()
    if not circle:
        return None
    nodes = [
        (combined.places[place].rank, examined[combined.places[place].rank].trace.nodes[combined.places[place].number]) for place in circle
    ]
    meeting = [(rank, node) for rank, node in nodes if node.type >= NodeType.COMM_SEND_NODE] or nodes
    words = ", which waits for ".join(f"{label_of(node)} of rank {rank}" for rank, node in meeting[:_DEADLOCK_SHOWN])
    more = f", and {len(meeting) - _DEADLOCK_SHOWN} more" if len(meeting) > _DEADLOCK_SHOWN else ""
    ids = tuple(node.id for _, node in meeting[:_DEADLOCK_SHOWN])
    ranks = tuple(sorted({rank for rank, _ in meeting}))
    return TraceFinding("deadlock", f"{words}{more}, which waits for the first", ids, len(meeting), ranks)
