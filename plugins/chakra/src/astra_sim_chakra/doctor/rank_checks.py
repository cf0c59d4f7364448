"""Checks of the trace of a single rank."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import attrs

from astra_sim_chakra.doctor.findings import Severity, TraceFinding, about
from astra_sim_chakra.doctor.graph import TraceGraph, dependencies, graph_of, latest
from astra_sim_chakra.doctor.lenient import LenientTrace, label_of
from astra_sim_chakra.doctor.text_source import is_none_collective, slipped
from astra_sim_chakra.schema import CollectiveType, NodeType
from astra_sim_chakra.trace import Node

MEMORY = (NodeType.MEM_LOAD_NODE, NodeType.MEM_STORE_NODE)
MESSAGES = (NodeType.COMM_SEND_NODE, NodeType.COMM_RECV_NODE)
SIMULATED = frozenset(
    (
        CollectiveType.ALL_REDUCE,
        CollectiveType.ALL_GATHER,
        CollectiveType.ALL_TO_ALL,
        CollectiveType.REDUCE_SCATTER,
        CollectiveType.REDUCE_SCATTER_BLOCK,
    )
)
"""Collectives that a run simulates."""

SLOWEST_FLOPS = 1e10
"""Operations a second below which no accelerator is, nor a processor of a server: a phone's CPU does as many."""
_SHOWN = 10


@attrs.frozen(eq=False)
class Examined:
    """A trace, its errors, and its graph."""

    trace: LenientTrace
    findings: Sequence[TraceFinding]
    graph: TraceGraph


def examine(trace: LenientTrace) -> Examined:
    """Check a single trace, without properties that depend on its rank or on others."""
    graph = graph_of(dependencies(trace.nodes), [node.id for node in trace.nodes])
    findings = [*trace.findings]
    if not trace.nodes and not findings:
        findings.append(TraceFinding("no_nodes", "the trace has no nodes"))
    findings += _ids(trace)
    findings += _circles(trace, graph)
    findings += _fields(trace.nodes)
    findings += _times(trace)
    if trace.refused and not any(finding.severity == Severity.ERROR for finding in findings):
        findings.append(TraceFinding("refused", trace.refused))
    return Examined(trace, findings, graph)


def is_host_call(node: Node) -> bool:
    """Whether a collective is only its call on the host, which sends nothing."""
    return node.type == NodeType.COMM_COLL_NODE and node.is_cpu_op is True and node.comm_type is None and node.comm_size is None


def is_collective(node: Node) -> bool:
    """Whether a run simulates the node as a collective."""
    return node.type == NodeType.COMM_COLL_NODE and node.comm_type in SIMULATED


def unordered(numbers: Sequence[int], examined: Examined) -> tuple[int, int] | None:
    """The first two of some collectives, given in an order that a run may have, that differ and do not wait for each other."""
    nodes = examined.trace.nodes
    if len({(nodes[number].comm_type, nodes[number].comm_size) for number in numbers}) < 2:
        return None
    place = {number: at for at, number in enumerate(numbers)}
    behind = latest(examined.graph.after, examined.graph.order, place)
    last: dict[tuple[object, object], int] = {}
    for at, number in enumerate(numbers):
        own = nodes[number].comm_type, nodes[number].comm_size
        other = max((each for what, each in last.items() if what != own), default=-1)
        if other > behind[number]:
            return numbers[other], number
        last[own] = at
    return None


def labelled(nodes: Sequence[Node]) -> list[tuple[int, str]]:
    """Ids and labels."""
    return [(node.id, label_of(node)) for node in nodes]


def _ids(trace: LenientTrace) -> Iterator[TraceFinding]:
    """Ids that are there twice, and dependencies on nodes that are not there."""
    by_id: dict[int, list[Node]] = {}
    for node in trace.nodes:
        by_id.setdefault(node.id, []).append(node)
    for alike in by_id.values():
        if len(alike) > 1:
            equal = all(node == alike[0] for node in alike)
            same = "equal in all fields" if equal else f"not equal: {', '.join(label_of(node) for node in alike[1:4])}"
            yield TraceFinding("duplicate_id", f"{label_of(alike[0])}: {len(alike)} nodes have this id; they are {same}", (alike[0].id,))
    for field in ("data", "control"):
        lenient = field == "control" and trace.is_from_pytorch
        kind = "missing_control_dependency" if lenient else "missing_dependency"
        lost = [(node, [id_ for id_ in getattr(node, field) if id_ not in by_id]) for node in trace.nodes]
        lost = [(node, ids) for node, ids in lost if ids]
        if lost:
            yield about(kind, f"{field} dependency {lost[0][1][0]} is no node of the file", labelled([node for node, _ in lost]))


def _circles(trace: LenientTrace, graph: TraceGraph) -> Iterator[TraceFinding]:
    """Nodes that wait for each other; of dependencies of control alone it is another kind."""
    circle = graph.circle()
    if not circle:
        return
    by_data = graph_of(dependencies(trace.nodes, control=False), range(len(trace.nodes)))
    kind = "control_cycle" if by_data.is_complete else "cycle"
    nodes = [trace.nodes[place] for place in circle]
    words = ", which waits for ".join(label_of(node) for node in nodes[:_SHOWN])
    more = f", and {len(nodes) - _SHOWN} more" if len(nodes) > _SHOWN else ""
    blocked = len(graph.after) - len(graph.order)
    ids = tuple(node.id for node in nodes[:_SHOWN])
    yield TraceFinding(kind, f"{words}{more}, which waits for the first; {blocked} nodes can never begin", ids, len(nodes))


_Test = Callable[[Node], bool]
_COLLECTIVE: _Test = lambda node: node.type == NodeType.COMM_COLL_NODE and not is_host_call(node)  # noqa: E731
_NEEDS: tuple[tuple[str, _Test], ...] = (
    ("comm_type", _COLLECTIVE),
    ("comm_size", lambda node: node.type in MESSAGES or (_COLLECTIVE(node) and (node.comm_type is None or is_collective(node)))),
    ("comm_dst", lambda node: node.type == NodeType.COMM_SEND_NODE),
    ("comm_src", lambda node: node.type == NodeType.COMM_RECV_NODE),
    ("tensor_size", lambda node: node.type in MEMORY),
)
"""The attributes that a run needs, and of which nodes."""


def _fields(nodes: Sequence[Node]) -> Iterator[TraceFinding]:
    """Nodes with a field that is missing or has no meaning."""
    for kind, text, test in (
        ("invalid_node", "its type is INVALID_NODE", lambda node: node.type == NodeType.INVALID_NODE),
        ("empty_collective", "comm_size is 0", lambda node: is_collective(node) and node.comm_size == 0),
        ("zero_size", "comm_size is 0", lambda node: node.type in MESSAGES and node.comm_size == 0),
        ("zero_size", "tensor_size is 0", lambda node: node.type in MEMORY and node.tensor_size == 0),
        ("broadcast", "its comm_type is BROADCAST", lambda node: _is_of(node, CollectiveType.BROADCAST)),
    ):
        result = [node for node in nodes if test(node)]
        if result:
            yield about(kind, text, labelled(result))
    for attribute, needs in _NEEDS:
        result = [node for node in nodes if getattr(node, attribute) is None and needs(node)]
        if result:
            yield about("missing_field", f"a {result[0].type.name} needs {attribute}, which is missing", labelled(result))
    for collective in CollectiveType:
        result = [node for node in nodes if _is_of(node, collective)]
        if result and collective not in SIMULATED and collective != CollectiveType.BROADCAST:
            yield about("unsupported_collective", f"its comm_type is {collective.name}", labelled(result))


def _is_of(node: Node, collective: CollectiveType) -> bool:
    return node.type == NodeType.COMM_COLL_NODE and node.comm_type == collective


def _times(trace: LenientTrace) -> Iterator[TraceFinding]:
    """Nodes without time or work, and times that seem to be in another unit."""
    computing = [node for node in trace.nodes if node.type == NodeType.COMP_NODE]
    idle = [node for node in computing if not node.duration_ns and not node.num_ops]
    if idle:
        yield about("zero_time", "it has neither a duration nor num_ops", labelled(idle))
    untimed = [node for node in computing if node.is_cpu_op is not True and (not node.num_ops or not node.tensor_size)]
    if untimed:
        yield about("no_work", "it computes, without num_ops and tensor_size", labelled(untimed))
    result = slipped(trace)
    if result:
        text = "duration_micros is the number of nanoseconds in the text that the trace was converted from (input_file in its metadata)"
        yield about("unit_slip", text, labelled(result))
    rates = [node.num_ops / node.duration_ns * 1e9 for node in computing if node.num_ops and node.duration_ns]
    if rates and max(rates) < SLOWEST_FLOPS and not result:
        text = (
            f"the fastest of {len(rates)} nodes that compute does {max(rates):.3g} operations a second; accelerators do 10^12 and more, "
            "so duration_micros may hold nanoseconds"
        )
        yield TraceFinding("unit_slip", text, (), len(rates))
    nones = [node for node in trace.nodes if is_none_collective(node)]
    if nones:
        yield about("none_as_all_reduce", "its name ends in NONE, and its comm_type is ALL_REDUCE", labelled(nones))
