"""The bytes that NPU 0 sends in a phase, by dimension, according to the routes of the network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from astra_sim._boundary import call, shown
from astra_sim.engine.interface import CONTROL_BYTES
from astra_sim.errors import PluginError
from astra_sim.network import Network, RouteColumns
from astra_sim.platform import Group, LogicalDimension, Route
from astra_sim.schedule import Peer, PeerRun, Schedule


class RunRoutes:
    """The routes from NPU 0 on a network, which are remembered."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._platform = network.platform
        self._from_first: dict[tuple[Peer, LogicalDimension | Group], Route] = {}
        self._columns: dict[tuple[PeerRun, LogicalDimension | Group], RouteColumns] = {}

    def to(self, peer: Peer, logical: LogicalDimension | Group) -> Route:
        """The route from NPU 0 to a peer in its group."""
        route = self._from_first.get((peer, logical))
        if route is None:
            what = f"network {type(self._network).__name__}: route"
            route = call(what, self._network.route, 0, _peer_of_first(peer, logical))
            expected = self._network._answers["route"]
            if not expected.is_right(route, self._network):
                raise PluginError(f"{what} returned {shown(route)}; expected {expected.words}")
            self._from_first[peer, logical] = route
        return route

    def columns(self, run: PeerRun, logical: LogicalDimension | Group) -> RouteColumns:
        """The routes from NPU 0 to peers one after another in its group."""
        if run.length == 1:
            return RouteColumns.of([self.to(run.first, logical)])
        columns = self._columns.get((run, logical))
        if columns is None:
            group = logical.group(0)
            columns = self._network.routes(0, (group[rank] for rank in run.ranks_from(logical.index(0), logical.size)))
            self._columns[run, logical] = columns
        return columns

    def payload(self, schedule: Schedule, logical: LogicalDimension | Group, rendezvous: bool) -> list[int]:
        """Bytes that NPU 0 sends in a phase, for each physical dimension; requests of the rendezvous protocol count too."""
        sums = [0] * len(self._platform.dimensions)
        if isinstance(logical, Group) and 0 not in logical.members:
            return sums
        rank = logical.index(0)
        if not rendezvous and rank == 0:
            for run, size in schedule.sent_by_first:
                self._count(sums, run, logical, size)
            return sums
        for step in schedule.program(rank).steps:
            for peers, size in ((step.targets, step.bytes), (step.sources, CONTROL_BYTES if rendezvous else 0)):
                if peers is not None:
                    self._count(sums, peers, logical, size * step.times // peers.length)
        return sums

    def _count(self, sums: list[int], run: PeerRun, logical: LogicalDimension | Group, size: int) -> None:
        """Add `size` bytes for each of some peers to the sums of dimensions."""
        if run.length == 1:
            sums[self.to(run.first, logical).dimension] += size
        elif size:
            for dimension, count in Counter(self.columns(run, logical).dimensions).items():
                sums[dimension] += size * count

    def mean_hops(self, schedule: Schedule, logical: LogicalDimension | Group) -> float:
        """The links that a message of NPU 0 crosses in a phase, on average; 0 if it sends none."""
        if isinstance(logical, Group) and 0 not in logical.members:
            return 0.0
        messages = hops = 0
        for step in schedule.program(logical.index(0)).steps:
            if step.targets is not None:
                messages += step.times
                hops += sum(self.columns(step.targets, logical).hops) * step.times // step.targets.length
        return hops / messages if messages else 0.0

    def sent_in_group(self, schedule: Schedule, group: Group, dimensions: Sequence[LogicalDimension]) -> dict[int, int]:
        """The dimensions of a program over which NPU 0 sends or receives in a phase of a group, with the bytes it sends there."""
        sent: dict[int, int] = {}
        if 0 not in group.members:
            return sent
        for step in schedule.program(group.index(0)).steps:
            for run, size in ((step.targets, step.bytes), (step.sources, 0)):
                for peer in run.each() if run is not None else ():
                    number = self.charged(_peer_of_first(peer, group), dimensions)
                    if number is not None and run is not None:
                        sent[number] = sent.get(number, 0) + size * step.times // run.length
        return sent

    def charged(self, npu: int, dimensions: Sequence[LogicalDimension], source: int = 0) -> int | None:
        """Which of the dimensions of a program a message between two NPUs is charged to; None if it crosses none of them."""
        crossed = [number for number, logical in enumerate(dimensions) if logical.index(npu) != logical.index(source)]
        if not crossed:
            return None
        # ASTRA-sim 1.0 charges a message to the highest dimension in which its ends differ, 2.x to the lowest.
        return crossed[0] if self._network.accounting_dimension == "lowest" else crossed[-1]


def messages_of(schedule: Schedule, logical: LogicalDimension | Group, npus: int, rendezvous: bool) -> int:
    """Messages that all of `npus` NPUs send in a phase; those of a group are its members alone."""
    groups = 1 if isinstance(logical, Group) else npus // logical.size
    return groups * schedule.total_messages() * (2 if rendezvous else 1)


def _peer_of_first(peer: Peer, logical: LogicalDimension | Group) -> int:
    """The NPU that is a peer of NPU 0 in its group."""
    return logical.group(0)[peer.of(logical.index(0), logical.size)]
