"""Joins an execution trace and a trace of Kineto of the same run: operators, and their times, on the host and on the GPU.

Operators are matched by the number of their call (`rf_id`, `Record function id`; `External id` in 2023), else by their order among
operators of the same name on the same thread. Threads are those whose operators were matched. Work on a GPU belongs to the call with
its `correlation`, and to the operator with its `External id`, else to the innermost one around the call.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import attrs
from astra_sim import InputError

from astra_sim_chakra.pytorch.communication import communication_of
from astra_sim_chakra.pytorch.host import HostNode, HostTrace, is_frame
from astra_sim_chakra.pytorch.kineto import Kineto, TraceEvent
from astra_sim_chakra.pytorch.streams import Waits, waits_of

LINKED = "astra_link"
"""The key of a linked file that holds its rank, ranks, and process groups."""
LEAST_SHARE = 0.5
"""The share of the operators of the trace with fewer of them that two traces of one run have in common, at least."""
_VOTERS = 200
"""Operators of which the distance between External ids and numbers of calls is found: those with the rarest names."""


@attrs.define
class TraceCounts:
    """The number of matches."""

    host_nodes: int = 0
    operators: int = 0
    by_call: int = 0
    by_external_id: int = 0
    by_order: int = 0
    only_host: int = 0
    only_kineto: int = 0
    kernels: int = 0
    by_correlation: int = 0
    without_call: int = 0
    with_operator: int = 0
    communications: int = 0
    incomplete: int = 0
    stream_waits: int = 0
    stream_waits_by_time: int = 0
    host_waits: int = 0


@attrs.frozen(eq=False)
class Linked:
    """A linked trace as the table of its file, and how much was matched."""

    table: dict[str, Any]
    counts: TraceCounts


def link(host: HostTrace, kineto: Kineto, rank: int | None = None, force: bool = False) -> Linked:
    """Join two traces.

    Raises InputError if they are of different processes, ranks or steps, or have less than `LEAST_SHARE` in common, unless it is
    forced; and if they have nothing in common.
    """
    if not force:
        _check_of_one_run(host, kineto, rank)
    linker = _Linker(host, kineto, rank)
    linked = linker.linked()
    if not force and linker.share < LEAST_SHARE:
        raise InputError(
            f"{host.path} and {kineto.path}: only {linker.share:.0%} of the operators of the smaller trace are in the other "
            f"({linker.matched}); two traces of one run have at least {LEAST_SHARE:.0%} in common ({_FORCE})"
        )
    return linked


_FORCE = "astra trace link --force links them all the same"


def link_alone(kineto: Kineto, rank: int | None = None, force: bool = False) -> Linked:
    """A trace of Kineto as a linked one, without an execution trace: kernels record their own communication.

    Raises InputError if one does not, unless it is forced.
    """
    if not force:
        _check_rank(kineto, rank)
        for kernel in kineto.kernels:
            does = communication_of(kernel.name, kernel.args, None)
            if does is not None and not (does.is_complete and does.group is not None):
                raise InputError(
                    f"{kineto.path}: kernel {kernel.name} at {kernel.begin / 1000:g} us does not record its communication in full "
                    f"(collective, elements, type, process group, peer); expected an execution trace of PyTorch beside it ({_FORCE})"
                )
    return _Linker(_operators_as_host(kineto), kineto, rank, alone=True).linked()


def _operators_as_host(kineto: Kineto) -> HostTrace:
    """The operators of Kineto as nodes of an execution trace: each below the innermost one around it on its thread."""
    nodes: dict[int, HostNode] = {}
    around: dict[int | str, list[tuple[TraceEvent, int]]] = {}
    for id_, event in enumerate(kineto.operators, 2):
        stack = around.setdefault(event.tid, [])
        while stack and stack[-1][0].end < event.end:
            stack.pop()
        parent = stack[-1][1] if stack else 1
        stack.append((event, id_))
        nodes[id_] = HostNode(
            id=id_,
            name=event.name,
            parent=parent,
            rf_id=None,
            tid=0,
            attributes={},
            fields={"id": id_, "name": event.name, "ctrl_deps": parent},
        )
    return HostTrace(kineto.path, {}, nodes)


def _check_rank(kineto: Kineto, rank: int | None) -> None:
    recorded = kineto.distributed.get("rank")
    if rank is not None and type(recorded) is int and rank != recorded:
        raise InputError(f"{kineto.path}: Kineto recorded rank {recorded}, and --rank is {rank}; expected {recorded} ({_FORCE})")


def _check_of_one_run(host: HostTrace, kineto: Kineto, rank: int | None) -> None:
    """Raise InputError if the facts of both traces about their run differ."""
    _check_rank(kineto, rank)
    process = host.head.get("pid")
    if type(process) is int and kineto.processes and process not in kineto.processes:
        others = ", ".join(map(str, sorted(kineto.processes)))
        raise InputError(
            f"{host.path} is of process {process}, and the operators of {kineto.path} of process {others}; expected two traces of one "
            f"process ({_FORCE})"
        )
    steps = host.steps
    if steps and kineto.steps and steps.keys().isdisjoint(kineto.steps):
        here, there = (", ".join(map(str, sorted(each))) for each in (steps, kineto.steps))
        raise InputError(f"{host.path} has step {here} of the profiler, and {kineto.path} step {there}; expected the same ({_FORCE})")


class _Linker:
    def __init__(self, host: HostTrace, kineto: Kineto, rank: int | None, alone: bool = False) -> None:
        """`alone`: the nodes of the host are those that Kineto's operators are, in their order."""
        self._host, self._kineto, self._alone = host, kineto, alone
        recorded = kineto.distributed.get("rank")
        self._rank = rank if rank is not None else recorded if type(recorded) is int else 0
        self._counts = TraceCounts(host_nodes=len(host.nodes), operators=len(kineto.operators), kernels=len(kineto.kernels))
        self._event_of: dict[int, TraceEvent] = {}
        self._node_of: dict[int, HostNode] = {}  # by the identity of the event
        self._next = max(host.nodes, default=1) + 1
        self._ids: dict[int, int] = {}  # of events, by their identity
        self._caller: dict[int, HostNode] = {}  # by the identity of the event
        self._external: dict[int, TraceEvent] = {}

    @property
    def matched(self) -> int:
        """Operators that are in both traces."""
        return len(self._event_of)

    @property
    def share(self) -> float:
        """Those as a share of the operators of the trace that has fewer."""
        return self.matched / max(1, min(self.matched + self._counts.only_host, self._counts.operators))

    def linked(self) -> Linked:
        """Match operators, then their launches."""
        self._match_operators()
        self._find_callers()
        calls = {number: event for event in self._kineto.calls if (number := event.number("correlation"))}
        self._counts.by_correlation = sum(event.number("correlation") in calls for event in self._kineto.kernels)
        self._counts.without_call = len(self._kineto.kernels) - self._counts.by_correlation
        waits = waits_of(self._kineto, calls)
        self._counts.stream_waits, self._counts.stream_waits_by_time, self._counts.host_waits = waits.by_event, waits.by_time, waits.of_host
        groups = {**self._host.groups(), **self._kineto.groups()}
        nodes = [self._host_table(node) for node in self._host.nodes.values()]
        nodes += [self._event_table(event, waits) for event in self._kineto.operators if id(event) not in self._node_of]
        nodes += [self._event_table(event, waits) for event in self._kineto.calls]
        nodes += [self._kernel_table(kernel, calls, waits, groups) for kernel in self._kineto.kernels]
        world = self._kineto.distributed.get("world_size")
        about = {"rank": self._rank, "ranks": world if type(world) is int else None, "process_groups": groups}
        return Linked({**self._host.head, LINKED: about, "nodes": nodes}, self._counts)

    # -- Operators -----------------------------------------------------------------------------------------------------

    def _match_operators(self) -> None:
        """Match operators of both traces by the number of their call, and the rest in other ways; with one trace, each with itself."""
        if self._alone:
            for node, event in zip(self._host.nodes.values(), self._kineto.operators, strict=True):
                self._join(node, event)
            self._counts.host_nodes, self._counts.only_kineto = 0, len(self._kineto.operators)
            return
        by_call: dict[int, TraceEvent] = {}
        for event in self._kineto.operators:
            number = event.number("Record function id")
            if number:
                by_call.setdefault(number, event)
        for node in self._host.nodes.values():
            value = by_call.get(node.rf_id) if node.rf_id is not None else None
            if value is not None and value.name == node.name:
                self._join(node, value)
        self._counts.by_call = len(self._event_of)
        if not by_call:
            self._match_by_external_id()
        self._counts.by_external_id = len(self._event_of) - self._counts.by_call
        self._match_by_order()
        self._counts.by_order = len(self._event_of) - self._counts.by_call - self._counts.by_external_id
        self._counts.only_host = sum(node.id not in self._event_of and not is_frame(node) for node in self._host.nodes.values())
        self._counts.only_kineto = len(self._kineto.operators) - len(self._event_of)
        if not self._event_of:
            raise InputError(
                f"{self._host.path} and {self._kineto.path}: no operator of one is in the other; expected two traces of the same run, "
                "recorded at the same time"
            )

    def _match_by_external_id(self) -> None:
        """Before Kineto had the numbers of calls, its External ids were those numbers, but for one distance in all of a trace."""
        events = {number: event for event in self._kineto.operators if (number := event.external_id) is not None}
        by_name: dict[str, list[int]] = {}
        for number, event in events.items():
            by_name.setdefault(event.name, []).append(number)
        nodes = [node for node in self._host.nodes.values() if node.rf_id is not None and node.name in by_name]
        rare = sorted(nodes, key=lambda node: len(by_name[node.name]))[:_VOTERS]
        votes = Counter(number - (node.rf_id or 0) for node in rare for number in by_name[node.name])
        distance = votes.most_common(1)[0][0] if votes else 0
        for node in nodes:
            value = events.get((node.rf_id or 0) + distance)
            if value is not None and value.name == node.name:
                self._join(node, value)

    def _match_by_order(self) -> None:
        """The k-th operator of a name on a thread is the k-th of that name that is not matched, if both have as many."""
        threads: dict[int, Counter[int | str]] = {}
        for number, event in self._event_of.items():
            threads.setdefault(self._host.nodes[number].tid, Counter())[event.tid] += 1
        thread_of = {tid: counted.most_common(1)[0][0] for tid, counted in threads.items()}
        tids = {node.tid for node in self._host.nodes.values() if not is_frame(node)}
        if not thread_of and len(tids) == len({event.tid for event in self._kineto.operators}) == 1:
            thread_of = {tids.pop(): self._kineto.operators[0].tid}
        left: dict[tuple[int | str, str], tuple[list[HostNode], list[TraceEvent]]] = {}
        for node in sorted(self._host.nodes.values(), key=lambda node: node.id):
            if node.id not in self._event_of and node.tid in thread_of:
                left.setdefault((thread_of[node.tid], node.name), ([], []))[0].append(node)
        for event in self._kineto.operators:
            if id(event) not in self._node_of and (event.tid, event.name) in left:
                left[event.tid, event.name][1].append(event)
        for nodes, events in left.values():
            if any(node.rf_id is not None for node in nodes):  # numbers of calls that differ are those of different calls
                events = [event for event in events if not event.number("Record function id")]
            if len(nodes) == len(events):
                for node, event in zip(nodes, events, strict=True):
                    self._join(node, event)

    def _join(self, node: HostNode, event: TraceEvent) -> None:
        if id(event) not in self._node_of:
            self._event_of[node.id] = event
            self._node_of[id(event)] = node
            self._ids[id(event)] = node.id

    # -- Calls and kernels ---------------------------------------------------------------------------------------------

    def _calls(self) -> dict[int, TraceEvent]:
        """The calls of the runtime by their correlation."""
        return {number: event for event in self._kineto.calls if (number := event.number("correlation"))}

    def _operator_of(self, kernel: TraceEvent, calls: dict[int, TraceEvent]) -> HostNode | None:
        """The operator that launched a kernel: of its External id, else the innermost around the call."""
        call = calls.get(kernel.number("correlation") or 0)
        for each in (kernel, call):
            event = self._external.get(each.external_id or 0) if each is not None else None
            if event is not None and id(event) in self._node_of:
                return self._node_of[id(event)]
        return self._caller.get(id(call)) if call is not None else None

    def _find_callers(self) -> None:
        """For each operator and call the innermost operator around it that was matched; operators by External id."""
        self._external = {number: event for event in self._kineto.operators if (number := event.external_id)}
        threads: dict[int | str, list[TraceEvent]] = {}
        for event in [*self._kineto.operators, *self._kineto.calls]:
            threads.setdefault(event.tid, []).append(event)
        for events in threads.values():
            events.sort(key=lambda event: (event.begin, -event.end))
            stack: list[TraceEvent] = []
            for event in events:
                while stack and stack[-1].end < event.end:
                    stack.pop()
                if stack:
                    self._caller[id(event)] = self._node_of[id(stack[-1])]
                if id(event) in self._node_of:
                    stack.append(event)

    # -- Tables --------------------------------------------------------------------------------------------------------

    def _id(self, event: TraceEvent) -> int:
        if id(event) not in self._ids:
            self._ids[id(event)] = self._next
            self._next += 1
        return self._ids[id(event)]

    def _host_table(self, node: HostNode) -> dict[str, Any]:
        event = self._event_of.get(node.id)
        return node.fields if event is None else {**node.fields, **_times(event), "thread": event.tid}

    def _event_table(self, event: TraceEvent, waits: Waits) -> dict[str, Any]:
        caller = self._caller.get(id(event))
        own = {"id": self._id(event), "name": event.name, "ctrl_deps": caller.id if caller is not None else 1, "cat": event.category}
        return {**own, **_times(event), "thread": event.tid, **self._waiting(event, waits)}

    def _waiting(self, event: TraceEvent, waits: Waits) -> dict[str, list[int]]:
        kernels = waits.of.get(id(event))
        return {"wait_for": [self._id(kernel) for kernel in kernels]} if kernels else {}

    def _kernel_table(self, kernel: TraceEvent, calls: dict[int, TraceEvent], waits: Waits, groups: dict[str, list[int]]) -> dict[str, Any]:
        """The fields of a kernel in the linked trace."""
        node, call = self._operator_of(kernel, calls), calls.get(kernel.number("correlation") or 0)
        self._counts.with_operator += node is not None
        does = communication_of(kernel.name, kernel.args, self._host.record_above(node.id) if node is not None else None)
        device, stream = kernel.stream
        table = {"id": self._id(kernel), "name": kernel.name, "ctrl_deps": node.id if node is not None else 1, **_times(kernel)}
        table |= {"cat": kernel.category, "stream": stream, "device": device}
        if call is not None:
            table["launch"] = self._id(call)
        table |= self._waiting(kernel, waits)
        if does is not None:
            self._counts.communications += 1
            self._counts.incomplete += not does.is_complete
            table["communication"] = does.table()
            if does.group is not None and does.group_ranks:
                groups.setdefault(does.group, list(does.group_ranks))
        return table


def _times(event: TraceEvent) -> dict[str, float]:
    return {"ts": event.begin / 1000, "inclusive_dur": (event.end - event.begin) / 1000}
