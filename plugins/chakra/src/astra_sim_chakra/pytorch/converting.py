"""A linked trace as Chakra nodes: operators, their own times, and their dependencies, so that a replay runs as the run did.

The host: each thread is a chain of slices, for each moment the innermost operator or call. Between operators a thread runs code that the
profiler does not see (Python, mostly), which becomes a node of its own; if a thread was idle for longer than `IDLE_NS`, it is taken to
have waited for the slice of another thread that ended last before it went on, and only the rest is such a node. A call that comes back
when kernels have ended waits for them. The GPU: a kernel waits for the kernel before it on its stream, for kernels of other streams that
the linked trace names, and for the slice of its host thread that ended last before it, up to the call that launched it; the rest
until it begins is latency.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from astra_sim import InputError

from astra_sim_chakra.messages import NodeMessage, attribute_message
from astra_sim_chakra.pytorch.communication import Communication, communication_of
from astra_sim_chakra.pytorch.host import HostNode, HostTrace
from astra_sim_chakra.pytorch.kineto import ON_GPU
from astra_sim_chakra.pytorch.linking import LINKED
from astra_sim_chakra.schema import CollectiveType, NodeType
from astra_sim_chakra.trace import Node

IDLE_NS = 100_000
"""A thread that does nothing for longer has waited for another one: an interpreter takes some microseconds between operators."""

OUTSIDE, LATENCY = "outside of operators", "latency"
"""The names of nodes for time that no event accounts for: on the host, and until a kernel begins."""


@attrs.frozen(eq=False)
class Timed:
    """A node of a linked trace that ran: `begin` and `end` in ns. `thread` is that of the host, or device and stream."""

    node: HostNode
    begin: int
    end: int
    on_gpu: bool
    thread: Any
    launch: int | None
    wait_for: tuple[int, ...]


@attrs.define(eq=False)
class TraceSlice:
    """A slice of a thread, in which one operator ran: its Chakra node, and when it ended in the measured run."""

    begin: int
    end: int
    owner: Timed
    id: int = -1


@attrs.define(eq=False)
class Converted:
    """The Chakra nodes of a rank. `measured` is when each node began and ended, in ns from the first one on."""

    nodes: list[Node] = attrs.field(factory=list)
    measured: dict[int, tuple[int, int]] = attrs.field(factory=dict)
    groups: dict[str, list[int]] = attrs.field(factory=dict)
    rank: int = 0
    left_out: int = 0
    incomplete: int = 0


def convert(host: HostTrace) -> Converted:
    """The Chakra nodes of a linked trace, this package's or that of MLCommons' `chakra_trace_link`. Raises InputError."""
    timed = [each for node in host.nodes.values() if (each := _timed(node, host.path)) is not None]
    if not timed:
        raise InputError(f"{host.path}: no node has a time (ts); it has to be linked with a trace of Kineto first (astra trace link)")
    return _Converter(host, timed).converted()


def _timed(node: HostNode, path: str) -> Timed | None:
    """When a node ran and its dependencies; None for one without times. Raises InputError."""
    fields = node.fields
    begin, length = fields.get("ts"), fields.get("inclusive_dur", fields.get("exclusive_dur"))
    if begin is None or length is None:
        return None
    for name, value in (("ts", begin), ("inclusive_dur", length)):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e18:
            raise InputError(f"{path}: node {node.id}: {name} is {value!r}; expected microseconds")
    cat, launch = fields.get("cat"), fields.get("launch")
    on_gpu = isinstance(cat, str) and cat in ON_GPU
    thread = (fields.get("device", 0), fields.get("stream", 0)) if on_gpu else fields.get("thread", node.tid)
    waits = fields.get("wait_for", [])
    if not isinstance(waits, list) or not all(type(each) is int for each in waits):
        raise InputError(f"{path}: node {node.id}: wait_for is {waits!r}; expected a list of ids")
    for name, kind in (("device", int | str), ("stream", int | str), ("thread", int | str), ("launch", int)):
        if not isinstance(fields.get(name), kind | None):
            raise InputError(f"{path}: node {node.id}: {name} is {str(fields[name])[:80]!r}; expected a whole number")
    first = round(begin * 1000)
    launch = node.parent if on_gpu and "launch" not in fields else launch
    return Timed(
        node=node, begin=first, end=first + round(length * 1000), on_gpu=on_gpu, thread=thread, launch=launch, wait_for=tuple(waits)
    )


class _Converter:
    def __init__(self, host: HostTrace, timed: Sequence[Timed]) -> None:
        self._host = host
        self._start = min(each.begin for each in timed)
        self._on_host = sorted((each for each in timed if not each.on_gpu), key=lambda each: (each.begin, -each.end, each.node.id))
        self._on_gpu = sorted((each for each in timed if each.on_gpu), key=lambda each: (each.begin, each.node.id))
        about = host.head.get(LINKED, {})
        self._result = Converted(rank=about.get("rank", 0) if isinstance(about, dict) else 0)
        self._result.left_out = len(host.nodes) - len(timed)
        self._result.groups = self._groups(about)
        self._ids = itertools.count()
        self._gpu_id = {each.node.id: next(self._ids) for each in self._on_gpu}
        self._gpu_end = {each.node.id: each.end for each in self._on_gpu}

    def converted(self) -> Converted:
        """All nodes, in the order in which they began."""
        threads = self._threads()
        self._host_nodes(threads)
        self._gpu_nodes(threads)
        self._result.nodes.sort(key=lambda node: (self._result.measured[node.id], node.id))
        return self._renumbered()

    def _groups(self, about: Any) -> dict[str, list[int]]:
        groups = about.get("process_groups", {}) if isinstance(about, dict) else {}
        result = {**self._host.groups(), **(groups if isinstance(groups, dict) else {})}
        for name, ranks in result.items():
            if not isinstance(ranks, list) or not all(type(rank) is int for rank in ranks):
                raise InputError(f"{self._host.path}: process group {name!r} is {str(ranks)[:80]!r}; expected a list of ranks")
        return {name: ranks for name, ranks in result.items() if name not in ("", "0") and ranks}

    # -- The host ------------------------------------------------------------------------------------------------------

    def _threads(self) -> dict[Any, list[TraceSlice]]:
        """The slices of each thread, one after the other."""
        by_thread: dict[Any, list[Timed]] = {}
        for each in self._on_host:
            by_thread.setdefault(each.thread, []).append(each)
        return {thread: _slices(operators) for thread, operators in by_thread.items()}

    def _host_nodes(self, threads: Mapping[Any, Sequence[TraceSlice]]) -> None:
        """Make the nodes of host threads: each slice follows the one before, or the last one elsewhere after an idle time."""
        ends = sorted((part.end, number, thread) for number, thread in enumerate(threads) for part in threads[thread])
        for slices in threads.values():
            for part in slices:
                part.id = next(self._ids)
        by_end = {(thread, part.end): part for thread, slices in threads.items() for part in slices}
        for number, slices in enumerate(threads.values()):
            before: TraceSlice | None = None
            for part in slices:
                after, known = ([before.id], before.end) if before is not None else ([], self._start)
                if part.begin - known > IDLE_NS or before is None:
                    other = _last_elsewhere(ends, part.begin, number, known)
                    if other is not None:
                        waited = by_end[other[2], other[0]]
                        after, known = [*after, waited.id], waited.end
                self._host_node(part, after, known)
                before = part

    def _host_node(self, part: TraceSlice, after: list[int], known: int) -> None:
        """A slice, after nodes of which the last one ended at `known`."""
        owner = part.owner
        if part.begin > known:
            after = [self._add_gap(OUTSIDE, known, part.begin, after, {"tid": owner.thread})]
        begin = part.begin
        waits = [each for each in owner.wait_for if each in self._gpu_id and self._gpu_end[each] <= part.end]
        if waits and part.end == owner.end:
            after = [*after, *(self._gpu_id[each] for each in waits)]
            begin = max(begin, *(self._gpu_end[each] for each in waits))
        others = _attributes(owner.node, {"tid": owner.thread}, part.begin)
        self._add(
            Node(
                id=part.id,
                name=owner.node.name,
                type=NodeType.COMP_NODE,
                duration_ns=part.end - begin,
                data=tuple(after),
                is_cpu_op=True,
                others=others,
            ),
            begin,
            part.end,
        )

    # -- The GPU -------------------------------------------------------------------------------------------------------

    def _gpu_nodes(self, threads: Mapping[Any, Sequence[TraceSlice]]) -> None:
        """Make the nodes of GPU work: each follows its stream, its waits, and the host's call that launched it."""
        streams: dict[Any, Timed] = {}
        slices_of: dict[int, tuple[Sequence[TraceSlice], Sequence[int]]] = {}
        for slices in threads.values():
            ends = [part.end for part in slices]
            for part in slices:
                slices_of.setdefault(part.owner.node.id, (slices, ends))
        ended = {each.node.id: each.end for each in self._on_host}
        for kernel in self._on_gpu:
            after, known = [], self._start
            before = streams.get(kernel.thread)
            for other in [*([before.node.id] if before is not None else []), *kernel.wait_for]:
                if other in self._gpu_id and self._gpu_end[other] <= kernel.begin and self._gpu_id[other] not in after:
                    after.append(self._gpu_id[other])
                    known = max(known, self._gpu_end[other])
            launch = self._launching(kernel, slices_of)
            if launch is not None:
                slices, moments = slices_of[launch]
                place = bisect.bisect_right(moments, min(kernel.begin, ended[launch])) - 1
                if place >= 0:
                    after.append(slices[place].id)
                    known = max(known, slices[place].end)
            if kernel.begin > known:
                after = [self._add_gap(LATENCY, known, kernel.begin, after, {"stream": kernel.thread[1]})]
            self._add(self._kernel(kernel, after), kernel.begin, kernel.end)
            if before is None or kernel.end >= before.end:
                streams[kernel.thread] = kernel

    def _launching(self, kernel: Timed, slices_of: Mapping[int, Any]) -> int | None:
        """The nearest of the call that launched a kernel and the operators around it that has a slice of its own."""
        node = kernel.launch
        while node is not None and node not in slices_of:
            of = self._host.nodes.get(node)
            node = of.parent if of is not None and of.parent != node else None
        return node

    def _kernel(self, kernel: Timed, after: list[int]) -> Node:
        """The node of a kernel: computing, or the communication that it was."""
        others = _attributes(kernel.node, {"stream": kernel.thread[1]}, kernel.begin)
        common: dict[str, Any] = {"id": self._gpu_id[kernel.node.id], "name": kernel.node.name, "duration_ns": kernel.end - kernel.begin}
        common |= {"data": tuple(after), "is_cpu_op": False, "others": others}
        does = self._communication(kernel.node)
        if does is None or (does.type == NodeType.COMM_COLL_NODE and does.collective is None):
            self._result.incomplete += does is not None
            return Node(type=NodeType.COMP_NODE, **common)
        self._result.incomplete += not does.is_complete
        group = None if does.group in (None, "", "0") else does.group
        if does.group_ranks and group is not None:
            self._result.groups.setdefault(group, list(does.group_ranks))
        if does.type == NodeType.COMM_COLL_NODE:
            return Node(type=does.type, comm_type=does.collective, comm_size=does.size, pg_name=group, **common)
        common["comm_dst" if does.type == NodeType.COMM_SEND_NODE else "comm_src"] = does.peer
        return Node(type=does.type, comm_size=does.size, pg_name=group, **common)

    def _communication(self, node: HostNode) -> Communication | None:
        """The communication of a kernel: from the linked trace, else from its name and the record above it."""
        table = node.fields.get("communication")
        if isinstance(table, dict):
            return self._linked(table, f"{self._host.path}: node {node.id}: communication")
        record = self._host.record_above(node.parent)
        communication = communication_of(node.name, node.fields, record)
        return (
            communication
            if communication is None or communication.group is not None
            else attrs.evolve(communication, group=node.fields.get("pg_name") or None)
        )

    def _linked(self, table: dict[str, Any], where: str) -> Communication:
        for key, kind in (("type", str), ("collective", str | None), ("bytes", int | None), ("pg_name", str | None), ("peer", int | None)):
            if not isinstance(table.get(key), kind):
                raise InputError(f"{where}: {key} is {str(table.get(key))[:80]!r}; expected the output of astra trace link")
        try:
            collective = None if table.get("collective") is None else CollectiveType[table["collective"]]
            return Communication(NodeType[table["type"]], collective, table.get("bytes"), table.get("pg_name"), table.get("peer"))
        except KeyError as error:
            raise InputError(f"{where} has {error}, which is no type of Chakra") from None

    # -- Nodes ---------------------------------------------------------------------------------------------------------

    def _add_gap(self, name: str, begin: int, end: int, after: list[int], where: Mapping[str, Any]) -> int:
        number = next(self._ids)
        others = _attributes(None, where, begin)
        node = Node(
            id=number, name=name, type=NodeType.COMP_NODE, duration_ns=end - begin, data=tuple(after), is_cpu_op=True, others=others
        )
        self._add(node, begin, end)
        return number

    def _add(self, node: Node, begin: int, end: int) -> None:
        self._result.nodes.append(node)
        self._result.measured[node.id] = begin - self._start, end - self._start

    def _renumbered(self) -> Converted:
        """Ids in the order in which nodes began: simulators issue ready nodes by id."""
        new = {node.id: number for number, node in enumerate(self._result.nodes)}
        self._result.measured = {new[id_]: times for id_, times in self._result.measured.items()}
        self._result.nodes = [
            attrs.evolve(node, id=new[node.id], data=tuple(dict.fromkeys(new[id_] for id_ in node.data))) for node in self._result.nodes
        ]
        return self._result


def _slices(operators: Sequence[Timed]) -> list[TraceSlice]:
    """The slices of a thread whose operators are given by their begin: at each moment the innermost one runs."""
    slices: list[TraceSlice] = []
    stack: list[tuple[Timed, int]] = []  # operators under way, and their ends within those around them
    now = operators[0].begin

    def run(until: int) -> None:
        nonlocal now
        if stack and until > now:
            slices.append(TraceSlice(now, until, stack[-1][0]))
        now = max(now, until)

    for operator in operators:
        while stack and stack[-1][1] <= operator.begin:
            run(stack[-1][1])
            stack.pop()
        run(operator.begin)
        stack.append((operator, min(operator.end, stack[-1][1]) if stack else operator.end))
    while stack:
        run(stack[-1][1])
        stack.pop()
    return slices


def _last_elsewhere(ends: Sequence[tuple[int, int, Any]], begin: int, thread: int, after: int) -> tuple[int, int, Any] | None:
    """The last slice of another thread that ended until `begin`, and after `after`: end, number of its thread, and the thread."""
    for place in range(bisect.bisect_right(ends, begin, key=lambda each: each[0]) - 1, -1, -1):
        if ends[place][0] <= after:
            return None
        if ends[place][1] != thread:
            return ends[place]
    return None


def _attributes(node: HostNode | None, where: Mapping[str, Any], begin: int) -> bytes:
    """Fields without a column: when the node began, its thread or stream, and the number of its call in PyTorch."""
    listed = {**where, "rf_id": node.rf_id if node is not None else None}
    result = [attribute_message(name, "int64_val", value) for name, value in listed.items() if type(value) is int and abs(value) < 2**63]
    return bytes(NodeMessage(start_time_micros=begin // 1000, attr=result).SerializeToString())
