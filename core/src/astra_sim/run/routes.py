"""The routes of a run's messages, as its network says, and which of them are alike: what lets one NPU stand for others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from astra_sim.engine import CONTROL_BYTES
from astra_sim.network import Network
from astra_sim.platform import Group, LogicalDimension, Route, is_power_of_two
from astra_sim.schedule import Peer, Schedule


class Routes:
    """The routes on a network; those from NPU 0 are remembered."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._platform = network.platform
        self._from_first: dict[tuple[Peer, LogicalDimension | Group], Route] = {}

    def to(self, peer: Peer, dimension: LogicalDimension | Group) -> Route:
        """The route from NPU 0 to a peer in its group."""
        route = self._from_first.get((peer, dimension))
        if route is None:
            route = self._network.route(0, _peer_of_first(peer, dimension))
            self._from_first[peer, dimension] = route
        return route

    def payload(self, schedule: Schedule, dimension: LogicalDimension | Group, rendezvous: bool) -> list[int]:
        """Bytes that NPU 0 sends in a phase, for each physical dimension; requests of the rendezvous protocol count too."""
        sums = [0] * len(self._platform.dimensions)
        if isinstance(dimension, Group) and 0 not in dimension.members:
            return sums
        for step in schedule.program(dimension.index(0)).steps:
            if step.send_to is not None:
                sums[self.to(step.send_to, dimension).dimension] += step.bytes * step.times
            if rendezvous and step.receive_from is not None:
                sums[self.to(step.receive_from, dimension).dimension] += CONTROL_BYTES * step.times
        return sums

    def sent_in_group(self, schedule: Schedule, group: Group, dimensions: Sequence[LogicalDimension]) -> dict[int, int]:
        """The dimensions of a program over which NPU 0 sends or receives in a phase of a group, with the bytes it sends there."""
        sent: dict[int, int] = {}
        if 0 not in group.members:
            return sent
        for step in schedule.program(group.index(0)).steps:
            for peer, size in ((step.send_to, step.bytes * step.times), (step.receive_from, 0)):
                number = None if peer is None else self.logical(_peer_of_first(peer, group), dimensions)
                if number is not None:
                    sent[number] = sent.get(number, 0) + size
        return sent

    def logical(self, npu: int, dimensions: Sequence[LogicalDimension]) -> int | None:
        """Which of the dimensions of a program a message between NPU 0 and another is charged to; None where it crosses none of them."""
        crossed = [number for number, logical in enumerate(dimensions) if logical.index(npu)]
        if not crossed:
            return None
        return crossed[0] if self._network.charged_dimension == "lowest" else crossed[-1]

    def is_symmetric(self, schedule: Schedule, dimension: LogicalDimension | Group) -> bool:
        """Whether all ranks do the same over the same routes, so that one can stand for all."""
        if not schedule.is_shared:
            return False
        peers = set()
        for step in schedule.programs[0].steps:
            if step.send_to is None or step.receive_from is None or step.receive_from.inverse() != step.send_to:
                return False
            peers.add(step.send_to)
        return all(self._peer_is_symmetric(dimension, peer) for peer in peers)

    def _peer_is_symmetric(self, dimension: LogicalDimension | Group, peer: Peer) -> bool:
        """Whether messages to `peer` take the same route from every rank of `dimension`, whichever group it is."""
        if isinstance(dimension, Group):
            return _same_everywhere(self._routes_in(dimension.members, peer))
        dimensions = self._platform.dimensions
        if dimension.physical is not None and dimensions[dimension.physical].size == dimension.size:
            if dimensions[dimension.physical].topology.is_symmetric(peer):
                return True
        elif dimension.physical is None and peer.operator == "xor" and self._xor_is_symmetric(peer.value):
            return True
        groups = self._platform.distinct_groups(dimension)
        return _same_everywhere(route for group in groups for route in self._routes_in(group, peer))

    def _xor_is_symmetric(self, mask: int) -> bool:
        for dimension, stride in zip(self._platform.dimensions, self._platform.strides, strict=True):
            part = mask // stride % dimension.size
            if not is_power_of_two(dimension.size) or (part and not dimension.topology.is_symmetric(Peer("xor", part))):
                return False
        return True

    def _routes_in(self, group: Sequence[int], peer: Peer) -> Iterator[Route]:
        for rank, npu in enumerate(group):
            yield self._network.route(npu, group[peer.of(rank, len(group))])

    def groups_are_alike(self, dimension: LogicalDimension) -> bool:
        """Whether all groups of a dimension have the same routes between ranks of the same number."""
        groups = self._platform.distinct_groups(dimension)
        if len(groups) == 1:
            return True
        physical = self._platform.dimensions[dimension.physical or 0]
        if all(physical.topology.is_symmetric(Peer("shift", distance)) for distance in range(1, physical.size)):
            return True
        first = groups[0]
        return all(
            self._network.route(group[a], group[b]) == self._network.route(first[a], first[b])
            for group in groups[1:]
            for a in range(dimension.size)
            for b in range(dimension.size)
            if a != b
        )


def _peer_of_first(peer: Peer, dimension: LogicalDimension | Group) -> int:
    """The NPU that is a peer of NPU 0 in its group."""
    return dimension.group(0)[peer.of(dimension.index(0), dimension.size)]


def _same_everywhere(routes: Iterator[Route]) -> bool:
    first = next(routes, None)
    return all(route == first for route in routes)
