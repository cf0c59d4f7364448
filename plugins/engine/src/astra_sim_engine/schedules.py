"""Schedules of the compiled engine on Python's side: ranks' programs as rows of numbers, with the delays that all ranks share."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from itertools import chain

import attrs
from astra_sim.engines import CONTROL_BYTES, MAX_PICOSECONDS, too_long
from astra_sim.errors import InputError, in_figures
from astra_sim.network import EventNetwork, RouteColumns, RouteDelayNetwork
from astra_sim.platform import LogicalDimension
from astra_sim.schedule import ActionRun, LoweredProgram, Peer, PeerRun

_KINDS = {"shift": 1, "xor": 2, "rank": 3}
_UNKNOWN = -1
_MOST_ROUTES = 1 << 16
"""Routes that an engine compares beforehand; if there are more, every message asks for its own."""

ProgramRows = tuple[int, bytes, bytes, bytes, bytes, bool]
"""A program as the machine takes it, in columns of 64-bit numbers.

Its start, rows of runs of actions, for each action the delay of its message and that of its request (empty: not known), rows of bus
transfers, and whether messages are charged in turn.
"""


def peer_numbers(peer: Peer | None, ranks: int) -> tuple[int, int]:
    """A peer as the machine takes it: the kind of its operator (0: no peer) and its value."""
    return (0, 0) if peer is None else (_KINDS[peer.operator], peer.normal(ranks).value)


_Delays = Callable[[PeerRun, int], "array[int]"]
"""The delays of messages of `size` bytes to peers one after another."""


@attrs.frozen(eq=False, repr=False)
class CompiledGroups:
    """Groups of NPUs that run phases together; with `loop_back` the first NPU represents all."""

    members: Sequence[Sequence[int]]
    dimension: LogicalDimension | None
    loop_back: bool


class Schedules:
    """The groups and schedules of a run by number.

    If a network gives every rank of all groups the same route to a peer, its delays go into the rows, and no message asks for its own.
    """

    def __init__(
        self, network: RouteDelayNetwork | EventNetwork | None, memory_ps: Callable[[int], int] | None, has_bus: bool, rendezvous: bool
    ) -> None:
        self._network = network
        self._rendezvous = rendezvous
        self._memory_ps = memory_ps
        self._has_bus = has_bus
        self._groups: list[CompiledGroups] = []
        self._schedules: list[tuple[Sequence[LoweredProgram], int]] = []
        self._common_routes: dict[tuple[int, PeerRun], RouteColumns | None] = {}
        self._routes_left = _MOST_ROUTES

    def add_groups(self, groups: CompiledGroups) -> None:
        """Take groups; they get the next number."""
        self._groups.append(groups)

    def add(self, programs: Sequence[LoweredProgram], groups: int) -> tuple[list[ProgramRows], list[int], bool]:
        """Take a schedule, which gets the next number; returns the rows of its different programs, and whether they hold every delay.

        Between the two the place of each rank's program among them; none if all have one, or each its own.

        Raises InputError if a message is too large, RunError if a time is.
        """
        self._schedules.append((programs, groups))
        delay = self._delays(programs, groups)
        ranks = self.ranks_of(groups)
        different = {id(program): program for program in programs}
        rows = [self._rows(program, ranks, delay) for program in different.values()]
        if len(different) == len(programs):
            return rows, [], delay is not None
        places = {number: place for place, number in enumerate(different)}
        return rows, [places[id(program)] for program in programs], delay is not None

    def ranks_of(self, groups: int) -> int:
        """The ranks of each of some groups."""
        return len(self._groups[groups].members[0])

    def rank(self, schedule: int, place: int) -> tuple[int, Sequence[int], LoweredProgram]:
        """The rank at a place among a schedule's groups, the members of its group, and its program."""
        programs, groups = self._schedules[schedule]
        members = self._groups[groups].members
        group, rank = divmod(place, len(members[0]))
        return rank, members[group], programs[rank % len(programs)]

    def _delays(self, programs: Sequence[LoweredProgram], groups: int) -> _Delays | None:
        """Picoseconds to peers, which are the same from every rank; None if they are not, or if that is not known."""
        network = self._network
        if (
            self._groups[groups].dimension is None
            or len(programs) > 1
            or not isinstance(network, RouteDelayNetwork)
            or network.delays_by_pair
        ):
            return None
        runs = {targets(run) for run in programs[0].runs}
        if self._rendezvous:
            runs |= {sources(run) for run in programs[0].runs}
        routes: dict[PeerRun, RouteColumns] = {}
        for peers in runs - {None}:
            assert peers is not None
            columns = self._common_columns(network, groups, peers)
            if columns is None:
                return None
            routes[peers] = columns
        known: dict[tuple[PeerRun, int], array[int]] = {}

        def delays(peers: PeerRun, size: int) -> array[int]:
            if (peers, size) not in known:
                known[peers, size] = network.delays(routes[peers], size)
            return known[peers, size]

        return delays

    def _common_columns(self, network: RouteDelayNetwork, groups: int, peers: PeerRun) -> RouteColumns | None:
        """The routes to peers from every rank of all groups; None if they differ, or there are more than shall be asked for.

        If one NPU represents all, that its route is that of the others has been found out before.
        """
        key = groups, peers
        if key not in self._common_routes:
            asked_of = self._groups[groups]
            if asked_of.loop_back:
                group = asked_of.members[0]
                columns = network.routes(group[0], (group[rank] for rank in peers.ranks_from(0, len(group))))
                self._common_routes[key] = columns
            else:
                self._common_routes[key] = self._shared_columns(network, asked_of.members, peers)
        return self._common_routes[key]

    def _shared_columns(self, network: RouteDelayNetwork, groups: Sequence[Sequence[int]], peers: PeerRun) -> RouteColumns | None:
        """The routes to peers, if they are the same from each rank of some groups and few enough to ask for."""
        size = len(groups[0])
        asked = len(groups) * size
        routes = []
        for peer in peers.each():
            if asked > self._routes_left:
                return None
            self._routes_left -= asked
            distinct = {network.route(group[rank], group[peer.of(rank, size)]) for group in groups for rank in range(size)}
            if len(distinct) > 1:
                return None
            routes.append(distinct.pop())
        return RouteColumns.of(routes)

    def _rows(self, program: LoweredProgram, ranks: int, delays: _Delays | None) -> ProgramRows:
        """A program as the machine takes it."""
        times = {size: self._memory_ps(size) if self._memory_ps and size else 0 for size in {run.memory_bytes for run in program.runs}}
        rows, sends, requests = array("q"), array("q"), array("q")
        for run in program.runs:
            if run.bytes > MAX_PICOSECONDS:
                raise InputError(f"a message of {in_figures(run.bytes)} bytes; at most {MAX_PICOSECONDS} can be simulated")
            if max(times[run.memory_bytes], run.compute_ps) > MAX_PICOSECONDS // 2:
                raise too_long(0)
            handling = times[run.memory_bytes] + run.compute_ps if run.memory_bytes or run.compute_ps else -1
            to = *peer_numbers(run.send_to, ranks), run.to_stride
            source = *peer_numbers(run.receive_from, ranks), run.from_stride
            receipts = -1 if run.send_to is None else run.receipt, run.own_receipt
            rows.extend((run.times, run.after, run.after_grows, run.after_arrivals, *to, *source, *receipts))
            rows.extend((run.bytes, handling, run.memory_bytes > 0))
            if delays is not None:
                sends += _column(delays, targets(run), run.bytes, run.times)
                if self._rendezvous:
                    requests += _column(delays, sources(run), CONTROL_BYTES, run.times)
        carried = array("q", chain.from_iterable(program.bus_transfers if self._has_bus else ()))
        return program.starts, rows.tobytes(), sends.tobytes(), requests.tobytes(), carried.tobytes(), program.in_turn


def targets(run: ActionRun) -> PeerRun | None:
    """The different peers to which a run of actions sends, if it does."""
    return None if run.send_to is None else PeerRun(run.send_to, run.times if run.to_stride else 1, run.to_stride)


def sources(run: ActionRun) -> PeerRun | None:
    """The different peers from which it receives, if it does."""
    return None if run.receive_from is None else PeerRun(run.receive_from, run.times if run.from_stride else 1, run.from_stride)


def _column(delays: _Delays, peers: PeerRun | None, size: int, times: int) -> array[int]:
    """The delays of messages of `size` bytes, one for each of a run of actions; unknown if there is none."""
    column = array("q", [_UNKNOWN]) if peers is None else delays(peers, size)
    return column if len(column) == times else column * times
