"""Repairs errors of traces that have only one possible correction, and lists the changes.

A change is safe if its result was certainly meant: a node that occurs twice with equal fields, a control
dependency on a node that is not there, a wait of a node for itself, a node that does nothing (that of NONE in a text, too), control
dependencies in a circle if data dependencies alone have none (Chakra's own feeder follows only those), and microseconds that the text
in the trace proves to be nanoseconds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import attrs

from astra_sim_chakra.doctor.graph import dependencies, graph_of
from astra_sim_chakra.doctor.lenient import LenientTrace
from astra_sim_chakra.doctor.text_source import is_none_collective, slipped
from astra_sim_chakra.schema import NodeType
from astra_sim_chakra.trace import Node


@attrs.define
class Repair:
    """A trace with all possible repairs, and descriptions of them with their counts."""

    nodes: list[Node]
    done: dict[str, int] = attrs.field(factory=dict)

    def did(self, what: str, count: int) -> None:
        """Note that something was done."""
        if count:
            self.done[what] = self.done.get(what, 0) + count


def repair(trace: LenientTrace, times_ns: bool = False) -> Repair:
    """Mend a trace. `times_ns`: all durations of compute are nanoseconds, as the user knows."""
    repaired = Repair(list(trace.nodes))
    _doubled(repaired)
    _lost(repaired, trace.is_from_pytorch)
    _selves(repaired)
    _invalid(repaired)
    _circles(repaired)
    _slipped(repaired, trace, times_ns)
    return repaired


def _doubled(repaired: Repair) -> None:
    seen: dict[int, list[Node]] = {}
    nodes = []
    for node in repaired.nodes:
        alike = seen.setdefault(node.id, [])
        if node not in alike:
            nodes.append(node)
            alike.append(node)
    repaired.did("node removed that was there already, equal in all fields", len(repaired.nodes) - len(nodes))
    repaired.nodes = nodes


def _lost(repaired: Repair, from_pytorch: bool) -> None:
    """Control dependencies on nodes that are not there; data dependencies stay, for something that must come before is missing."""
    ids = {node.id for node in repaired.nodes}
    lost = {id_ for node in repaired.nodes for id_ in node.control} - ids
    count = sum(id_ in lost for node in repaired.nodes for id_ in node.control)
    repaired.nodes = [_without(node, lost, control_only=True) for node in repaired.nodes]
    what = "control dependency removed on a node that is not in the file"
    repaired.did(what + (", as MLCommons' converter leaves them" if from_pytorch else ""), count)


def _selves(repaired: Repair) -> None:
    count = sum(node.id in (*node.control, *node.data) for node in repaired.nodes)
    repaired.nodes = [_without(node, (node.id,)) for node in repaired.nodes]
    repaired.did("dependency of a node on itself removed", count)


def _invalid(repaired: Repair) -> None:
    """Redirect dependencies on an empty node to that node's dependencies. Nodes without a type that do something are left.

    The collectives that Chakra's text converter makes of NONE do nothing either, if they have no bytes.
    """
    empty = {
        node.id: node
        for node in repaired.nodes
        if (node.type == NodeType.INVALID_NODE and not node.duration_ns and node.comm_size is None and node.tensor_size is None)
        or (is_none_collective(node) and not node.comm_size)
    }
    nones = sum(is_none_collective(node) for node in empty.values())
    if len({node.id for node in repaired.nodes}) < len(repaired.nodes):
        return  # it is ambiguous which of several nodes of one id is meant
    nothing = list(empty.values())
    graph = graph_of(dependencies(nothing), range(len(nothing)))
    if not graph.is_complete:
        return
    resolved: dict[int, tuple[int, ...]] = {}

    def behind(ids: Iterable[int]) -> tuple[int, ...]:
        return tuple(dict.fromkeys(other for id_ in ids for other in resolved.get(id_, (id_,))))

    for place in graph.order:
        resolved[nothing[place].id] = behind((*nothing[place].control, *nothing[place].data))
    repaired.nodes = [
        attrs.evolve(node, control=behind(node.control), data=behind(node.data)) for node in repaired.nodes if node.id not in empty
    ]
    then = "removed; its dependents wait for its dependencies"
    repaired.did(f"INVALID_NODE without duration and size {then}", len(empty) - nones)
    repaired.did(f"collective of 0 bytes that is NONE in the text of Chakra's text converter {then}", nones)


def _circles(repaired: Repair) -> None:
    """Control dependencies between nodes that can never begin, if data dependencies alone have no circle."""
    nodes = repaired.nodes
    graph = graph_of(dependencies(nodes), range(len(nodes)))
    by_data = graph_of(dependencies(nodes, control=False), range(len(nodes)))
    if graph.is_complete or not by_data.is_complete:
        return
    number_of = _components(graph.after, set(range(len(nodes))) - set(graph.order))
    members: dict[int, set[int]] = {}
    for place, number in number_of.items():
        members.setdefault(number, set()).add(nodes[place].id)
    repaired.nodes = [
        _without(node, members[number_of[place]], control_only=True) if place in number_of else node for place, node in enumerate(nodes)
    ]
    count = sum(len(node.control) for node in nodes) - sum(len(node.control) for node in repaired.nodes)
    repaired.did("control dependency removed that closed a circle (data dependencies alone have none)", count)


def _components(after: Sequence[Sequence[int]], places: set[int]) -> dict[int, int]:
    """For each place on a circle the number of the set of places that reach each other (Tarjan 1972, without recursion)."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    component: dict[int, int] = {}
    for root in sorted(places):
        work = [(root, iter([other for other in after[root] if other in places]))] if root not in index else []
        if work:
            index[root] = low[root] = len(index)
            stack.append(root)
            on_stack.add(root)
        while work:
            place, others = work[-1]
            other = next(others, None)
            if other is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[place])
                if low[place] == index[place]:
                    members: list[int] = []
                    while not members or members[-1] != place:
                        members.append(stack.pop())
                        on_stack.discard(members[-1])
                    if len(members) > 1:
                        component |= dict.fromkeys(members, place)
            elif other not in index:
                index[other] = low[other] = len(index)
                stack.append(other)
                on_stack.add(other)
                work.append((other, iter([each for each in after[other] if each in places])))
            elif other in on_stack:
                low[place] = min(low[place], index[other])
    return component


def _slipped(repaired: Repair, trace: LenientTrace, times_ns: bool) -> None:
    proved = {node.id for node in slipped(trace)}
    wrong = {node.id for node in repaired.nodes if node.type == NodeType.COMP_NODE and node.duration_ns} if times_ns else proved
    repaired.nodes = [
        attrs.evolve(node, duration_ns=round(node.duration_ns / 1000)) if node.id in wrong else node for node in repaired.nodes
    ]
    reason = "as asked" if times_ns else "as the text in the metadata proves"
    repaired.did(f"duration of compute divided by 1000, {reason}", len(wrong))


def _without(node: Node, lost: Collection[int], control_only: bool = False) -> Node:
    """The node without its dependencies on some ids; itself if it has none on them."""
    control = tuple(id_ for id_ in node.control if id_ not in lost)
    data_ids = node.data if control_only else tuple(id_ for id_ in node.data if id_ not in lost)
    if (control, data_ids) == (node.control, node.data):
        return node
    return attrs.evolve(node, control=control, data=data_ids)
