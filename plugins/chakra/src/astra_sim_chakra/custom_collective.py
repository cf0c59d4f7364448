"""The collective `chakra`: an algorithm given as Chakra traces, one for each rank, like the custom collectives of ASTRA-sim 2.x."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence

import attrs
from astra_sim import InputError, option
from astra_sim.errors import ScheduleError
from astra_sim.schedule import RankProgram, Request, Schedule, Step, rank, receive, send
from astra_sim.units import PS_PER_NS

from astra_sim_chakra.ranks import find_ranks, load_ranks, rank_path
from astra_sim_chakra.reader import DEPENDENCIES
from astra_sim_chakra.schema import NodeType
from astra_sim_chakra.trace import Trace

PIECES = ("unnamed",)
"""Traces do not record the data of a message, see `astra_sim_devkit.testing.pieces`."""

_INSTANT = (NodeType.METADATA_NODE, NodeType.COMP_NODE)


@attrs.frozen
class CustomCollectiveOptions:
    """Options of an algorithm in traces."""

    prefix: str = option(
        help="the trace of rank N is the file PREFIX.N.et; its messages keep their sizes, whatever the size of the collective",
        path="path",
    )
    dependencies: str = option("both", choices=DEPENDENCIES, help="dependencies of nodes: control and data dependencies, or data alone")


def custom_collective(request: Request, options: CustomCollectiveOptions) -> Schedule:
    """The algorithm in the traces. A message has the bytes of its nodes (comm_size); nothing is scaled.

    Raises InputError, naming file and node, if a trace is wrong. Raises ScheduleError if the traces are for another number of ranks, or if
    one cannot be written as a schedule: see `_Rank`.
    """
    trace_files = len(find_ranks(options.prefix))
    if trace_files and trace_files != request.ranks:
        raise request.unsupported("chakra", f"the traces from {rank_path(options.prefix, 0)} on are for {trace_files} ranks")
    traces = load_ranks(options.prefix, request.ranks, dependencies=options.dependencies)
    ranks = [_TraceRank(traces.trace(number), number) for number in range(request.ranks)]
    _match(ranks)
    _resolve_waits_for_sends(ranks, alike=len(traces.programs) == 1)
    for one in ranks:
        one.group()
    _put_in_order(ranks)
    return Schedule.per_rank(request, [RankProgram(tuple(one.steps()), starts=0) for one in ranks])


@attrs.define
class _Group:
    """Receives, and sends that wait for all of them and for those of the groups before."""

    receives: list[int]
    sends: list[int]


class _TraceRank:
    """The nodes of a rank.

    The kernel counts the messages that a rank has received and does not tell them apart, so a send waits for all receives posted
    so far. Hence the sets of receives that sends wait for must be nested: sends are then issued in the order of these sets, and receives
    are posted just before the first send that waits for them.
    """

    def __init__(self, trace: Trace, number: int) -> None:
        self.trace, self.number = trace, number
        self.waits: list[set[int]] = [set(trace.dependencies(row)) for row in range(len(trace))]
        self.meets: dict[int, tuple[int, int]] = {}
        """For each send and receive the rank and row of its counterpart."""
        self.groups: list[_Group] = []
        self.compute_ps: dict[int, int] = {}
        """For each receive, how long the rank computes on its message."""
        for row in trace.order:
            self._check(row)
        if not self.rows(NodeType.COMM_SEND_NODE) and not self.rows(NodeType.COMM_RECV_NODE):
            raise InputError(f"{trace.path}: the trace neither sends nor receives; expected at least one of the two")

    def rows(self, kind: NodeType) -> list[int]:
        """The nodes of a type, in the order of their ids."""
        return sorted((row for row in range(len(self.trace)) if self.trace.type[row] == kind), key=self.trace.id.__getitem__)

    def peer(self, row: int) -> int:
        """The destination of a send, or the source of a receive."""
        trace = self.trace
        peer: int = (trace.comm.dst if trace.type[row] == NodeType.COMM_SEND_NODE else trace.comm.src)[row]
        return peer

    def error(self, row: int, what: str) -> InputError:
        return InputError(f"{self.trace.path}: {self.trace.label(row)}: {what}")

    def impossible(self, row: int, what: str) -> ScheduleError:
        return ScheduleError(f"{self.trace.path}: {self.trace.label(row)} {what}; a schedule cannot express that")

    def _check(self, row: int) -> None:
        """Raise InputError for a node that has no place in a schedule; a time of computing is attached to a message."""
        trace = self.trace
        kind = NodeType(trace.type[row])
        if kind in _INSTANT:
            if trace.duration_ns[row] > 0:
                self._attach(row)
            return
        if kind not in (NodeType.COMM_SEND_NODE, NodeType.COMM_RECV_NODE):
            raise self.error(row, f"its type is {kind.name}; expected COMM_SEND_NODE, COMM_RECV_NODE or COMP_NODE in a collective")
        name = "comm_dst" if kind == NodeType.COMM_SEND_NODE else "comm_src"
        for column, value in (("comm_size", trace.comm.size[row]), (name, self.peer(row))):
            if value < 0:
                raise self.error(row, f"{column} is missing")
        if self.peer(row) == self.number:
            raise self.error(row, f"{name} is the rank itself; expected another one")

    def _attach(self, row: int) -> None:
        """Turn compute that waits for one receive into a part of handling its message."""
        waits = list(self.waits[row])
        if len(waits) != 1 or self.trace.type[waits[0]] != NodeType.COMM_RECV_NODE:
            raise self.impossible(row, f"takes {self.trace.duration_ns[row]} ns (duration_micros) and does not wait for one receive alone")
        followers = [other for other in range(len(self.trace)) if waits[0] in self.waits[other]]
        if followers != [row]:
            raise self.impossible(row, f"computes on data that {self.trace.label(waits[0])} receives, for which others wait too")
        self.compute_ps[waits[0]] = self.trace.duration_ns[row] * PS_PER_NS

    def _needs(self) -> dict[int, int]:
        """For each node, a bit for every receive that it waits for, directly or not. A receive also has its own bit."""
        bits = {row: 1 << place for place, row in enumerate(self.rows(NodeType.COMM_RECV_NODE))}
        needs: dict[int, int] = {}
        for row in self._order():
            needs[row] = bits.get(row, 0)
            for other in self.waits[row]:
                needs[row] |= needs[other]
        return needs

    def _order(self) -> list[int]:
        """The nodes in an order in which each comes after those it waits for. Raises InputError."""
        followers: dict[int, list[int]] = defaultdict(list)
        waiting = [len(waits) for waits in self.waits]
        for row, waits in enumerate(self.waits):
            for other in waits:
                followers[other].append(row)
        order = [row for row, count in enumerate(waiting) if not count]
        for row in order:
            for follower in followers[row]:
                waiting[follower] -= 1
                if not waiting[follower]:
                    order.append(follower)
        for row in range(len(self.trace)):
            if waiting[row]:
                raise self.impossible(row, "waits for the arrival of a message of which the receive waits for this node")
        return order

    def group(self) -> None:
        """Put sends and receives into groups, in order."""
        needs = self._needs()
        left = self.rows(NodeType.COMM_RECV_NODE)
        bit = {row: 1 << place for place, row in enumerate(left)}
        done, before = 0, -1
        self.groups = [_Group([], [])]
        for row in sorted(self.rows(NodeType.COMM_SEND_NODE), key=lambda row: needs[row].bit_count()):
            if done & ~needs[row]:
                other = next(other for other, mask in bit.items() if mask & done & ~needs[row])
                labels = self.trace.label(other), self.trace.label(before)
                raise self.impossible(row, f"does not wait for {labels[0]}, as {labels[1]} does, nor for all else that that waits for")
            if needs[row] != done:
                self.groups.append(_Group([other for other in left if bit[other] & needs[row]], []))
                left = [other for other in left if not bit[other] & needs[row]]
                done, before = needs[row], row
            self.groups[-1].sends.append(row)
        self.groups.append(_Group(left, []))

    def steps(self) -> Iterator[Step]:
        """The program."""
        posted = 0
        for group in self.groups:
            for row in group.receives:
                yield receive(rank(self.peer(row)), self.trace.comm.size[row], after=0, compute_ps=self.compute_ps.get(row, 0))
            posted += len(group.receives)
            for row in group.sends:
                yield send(rank(self.peer(row)), self.trace.comm.size[row], after=posted, pieces=PIECES)


def _match(ranks: Sequence[_TraceRank]) -> None:
    """The n-th send with some tag and size from one rank to another meets the n-th such receive there."""
    waiting: dict[tuple[int, ...], deque[int]] = defaultdict(deque)
    for one in ranks:
        for row in one.rows(NodeType.COMM_SEND_NODE):
            waiting[one.number, one.peer(row), one.trace.comm.tag[row], one.trace.comm.size[row]].append(row)
    for one in ranks:
        for row in one.rows(NodeType.COMM_RECV_NODE):
            key = one.peer(row), one.number, one.trace.comm.tag[row], one.trace.comm.size[row]
            if not waiting[key]:
                raise one.error(row, f"rank {key[0]} does not send it: a message with comm_tag {key[2]} of {key[3]} bytes")
            sender, sent = ranks[key[0]], waiting[key].popleft()
            one.meets[row] = sender.number, sent
            sender.meets[sent] = one.number, row
    for (source, to, tag, size), rows in waiting.items():
        for row in rows:
            raise ranks[source].error(row, f"rank {to} does not receive it: a message with comm_tag {tag} of {size} bytes")


def _resolve_waits_for_sends(ranks: Sequence[_TraceRank], alike: bool) -> None:
    """A node that waits for a send waits for its arrival, which the sender does not know.

    If all ranks do the same (`alike`), a rank's message arrives when the one it receives in the same step does. Otherwise the node must
    also wait for something that can only happen after the arrival.
    """
    for one in ranks:
        for row, waits in enumerate(one.waits):
            for other in [other for other in waits if one.trace.type[other] == NodeType.COMM_SEND_NODE]:
                if alike:
                    waits.update({one.meets[other][1]} - {row})
                elif not _follows(ranks, (one.number, row), one.meets[other]):
                    raise one.impossible(row, f"waits until the message of {one.trace.label(other)} has arrived")


def _follows(ranks: Sequence[_TraceRank], node: tuple[int, int], cause: tuple[int, int]) -> bool:
    """Whether a node (rank, row) comes after the receive `cause`, by dependencies and messages."""
    seen = {node}
    rest = deque(seen)
    while rest:
        number, row = rest.popleft()
        one = ranks[number]
        causes = [(number, other) for other in one.waits[row]]
        if one.trace.type[row] == NodeType.COMM_RECV_NODE:
            causes.append(one.meets[row])
        for earlier in causes:
            if earlier == cause:
                return True
            if earlier not in seen:
                seen.add(earlier)
                rest.append(earlier)
    return False


def _put_in_order(ranks: Sequence[_TraceRank]) -> None:
    """Order the sends and receives of each group so that the k-th send to a rank meets the k-th receive from its sender there."""
    group_of = {(one.number, row): place for one in ranks for place, group in enumerate(one.groups) for row in group.receives}
    place_of: dict[tuple[int, int], int] = {}
    for one in ranks:
        for group in one.groups:
            group.sends.sort(key=lambda row: (group_of[one.meets[row]], one.trace.id[row]))
            for row in group.sends:
                place_of[one.number, row] = len(place_of)
    for one in ranks:
        latest: dict[int, int] = {}
        for group in one.groups:
            group.receives.sort(key=lambda row: place_of[one.meets[row]])
            for row in group.receives:
                place = place_of[one.meets[row]]
                if place < latest.get(one.peer(row), -1):
                    raise one.impossible(row, f"gets a message that rank {one.peer(row)} sends before another that must come first")
                latest[one.peer(row)] = place
