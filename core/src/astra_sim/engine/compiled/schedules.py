"""Schedules of the compiled engine on Python's side: ranks' programs as rows of numbers, with the delays that all ranks share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from astra_sim._boundary import MAX_PICOSECONDS
from astra_sim.engine.interface import CONTROL_BYTES, too_long
from astra_sim.errors import InputError, in_figures
from astra_sim.network import EventNetwork, RouteDelayNetwork
from astra_sim.platform import LogicalDimension, Route
from astra_sim.schedule import LoweredProgram, Peer

_KINDS = {"shift": 1, "xor": 2, "rank": 3}
_UNKNOWN = -1
_MOST_ROUTES = 1 << 16
"""Routes that an engine compares beforehand; where there are more, every message asks for its own."""

ProgramRows = tuple[int, list[int], list[int], list[bool], list[int], bool]
"""A program as the machine takes it: start, actions, times of handling, which of them reduce, carriages, and whether it goes in turn."""


def peer_numbers(peer: Peer | None, ranks: int) -> tuple[int, int]:
    """A peer as the machine takes it: the kind of its operator (0: no peer) and its value."""
    return (0, 0) if peer is None else (_KINDS[peer.operator], peer.normal(ranks).value)


def _unknown(peer: Peer, size: int) -> int:
    return _UNKNOWN


@attrs.frozen(eq=False, repr=False)
class Groups:
    """Groups of NPUs that run phases together; with `loop_back` the first NPU stands for all."""

    members: Sequence[Sequence[int]]
    dimension: LogicalDimension | None
    loop_back: bool


class Schedules:
    """The groups and schedules of a run by number.

    Where a network gives every rank of all groups the same route to a peer, its delays go into the rows, and no message asks for its own.
    """

    def __init__(
        self, network: RouteDelayNetwork | EventNetwork | None, memory_ps: Callable[[int], int] | None, has_bus: bool, rendezvous: bool
    ) -> None:
        self._network = network
        self._rendezvous = rendezvous
        self._memory_ps = memory_ps
        self._has_bus = has_bus
        self._groups: list[Groups] = []
        self._schedules: list[tuple[Sequence[LoweredProgram], int]] = []
        self._common_routes: dict[tuple[int, Peer], Route | None] = {}
        self._routes_left = _MOST_ROUTES

    def add_groups(self, groups: Groups) -> None:
        """Take groups; they get the next number."""
        self._groups.append(groups)

    def add(self, programs: Sequence[LoweredProgram], groups: int) -> tuple[list[ProgramRows], list[int], bool]:
        """Take a schedule, which gets the next number; returns the rows of its different programs, and whether they hold every delay.

        Between the two the place of each rank's program among them; none where all have one, or each its own.

        Raises InputError where a message is too large, RunError where a time is.
        """
        self._schedules.append((programs, groups))
        delay = self._delays(programs, groups)
        ranks = len(self._groups[groups].members[0])
        different = {id(program): program for program in programs}
        rows = [self._rows(program, ranks, delay or _unknown) for program in different.values()]
        if len(different) == len(programs):
            return rows, [], delay is not None
        places = {number: place for place, number in enumerate(different)}
        return rows, [places[id(program)] for program in programs], delay is not None

    def rank(self, schedule: int, place: int) -> tuple[int, Sequence[int], LoweredProgram]:
        """The rank at a place among a schedule's groups, the members of its group, and its program."""
        programs, groups = self._schedules[schedule]
        members = self._groups[groups].members
        group, rank = divmod(place, len(members[0]))
        return rank, members[group], programs[rank % len(programs)]

    def _delays(self, programs: Sequence[LoweredProgram], groups: int) -> Callable[[Peer, int], int] | None:
        """Picoseconds to a peer, which are the same from every rank; None where they are not, or where that is not known."""
        network = self._network
        if self._groups[groups].dimension is None or len(programs) > 1 or not isinstance(network, RouteDelayNetwork):
            return None
        routes: dict[Peer, Route] = {}
        peers = {action.send_to for action in programs[0].actions}
        if self._rendezvous:
            peers |= {action.receive_from for action in programs[0].actions}
        for peer in peers - {None}:
            assert peer is not None
            route = self._common_route(network, groups, peer)
            if route is None:
                return None
            routes[peer] = route
        return lambda peer, size: network.delay(routes[peer], size)

    def _common_route(self, network: RouteDelayNetwork, groups: int, peer: Peer) -> Route | None:
        """The route to a peer from every rank of all groups; None where they differ, or there are more than shall be asked for.

        Where one NPU stands for all, that its route is that of the others has been found out before.
        """
        if (groups, peer) not in self._common_routes:
            asked_of = self._groups[groups]
            if asked_of.loop_back:
                group = asked_of.members[0]
                route = self._common_routes[groups, peer] = network.route(group[0], group[peer.of(0, len(group))])
                return route
            size = len(asked_of.members[0])
            asked = len(asked_of.members) * size
            found: set[Route] = set()
            if asked <= self._routes_left:
                self._routes_left -= asked
                found = {network.route(group[rank], group[peer.of(rank, size)]) for group in asked_of.members for rank in range(size)}
            self._common_routes[groups, peer] = found.pop() if len(found) == 1 else None
        return self._common_routes[groups, peer]

    def _rows(self, program: LoweredProgram, ranks: int, delay: Callable[[Peer, int], int]) -> ProgramRows:
        """A program as the machine takes it."""
        peers: dict[Peer | None, tuple[int, int]] = {None: (0, 0)}
        rows: list[int] = []
        delays: dict[tuple[Peer | None, int], int] = {}
        for after, after_arrivals, to, receipt, source, own_receipt, size in program.actions:
            if size > MAX_PICOSECONDS:
                raise InputError(f"a message of {in_figures(size)} bytes; at most {MAX_PICOSECONDS} can be simulated")
            for peer in (to, source):
                if peer not in peers:
                    peers[peer] = peer_numbers(peer, ranks)
            takes = requested = _UNKNOWN
            if to is not None:
                takes = delays[to, size] if (to, size) in delays else delays.setdefault((to, size), delay(to, size))
            if self._rendezvous and source is not None:
                if (source, CONTROL_BYTES) not in delays:
                    delays[source, CONTROL_BYTES] = delay(source, CONTROL_BYTES)
                requested = delays[source, CONTROL_BYTES]
            rows += (after, after_arrivals, *peers[to], receipt, *peers[source], own_receipt, size, takes, requested)
        reduce = self._memory_ps or (lambda size: 0)
        times = {size: reduce(size) if size else 0 for size in set(program.memory_bytes)}
        if max([*times.values(), *program.compute_ps], default=0) > MAX_PICOSECONDS // 2:
            raise too_long(0)
        handling = [
            times[size] + computing if size or computing else -1
            for size, computing in zip(program.memory_bytes, program.compute_ps, strict=True)
        ]
        reduced = [size > 0 for size in program.memory_bytes] if self._has_bus else []
        carried = [number for carriage in program.carriages for number in carriage] if self._has_bus else []
        return program.starts, rows, handling, reduced, [int(number) for number in carried], program.in_turn
