"""Symmetry of schedules: whether one rank of a phase can represent all of them, or one group for all groups of a dimension."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from astra_sim.network import Network
from astra_sim.platform import Group, LogicalDimension, Platform, Route, is_power_of_two
from astra_sim.schedule import Peer, PeerRun, Schedule


class ScheduleSymmetry:
    """Properties of the schedules of a run on the routes of its network. Results are cached.

    With `rendezvous` a rank also sends requests for its receives, so the routes to those it receives from count as well.
    """

    def __init__(self, network: Network, rendezvous: bool) -> None:
        self._network = network
        self._rendezvous = rendezvous
        self._symmetric: dict[tuple[Schedule, LogicalDimension | Group], bool] = {}
        self._exchanges: dict[tuple[frozenset[tuple[PeerRun, PeerRun]], LogicalDimension | Group], bool] = {}
        self._alike: dict[LogicalDimension, bool] = {}

    def is_symmetric(self, schedule: Schedule, logical: LogicalDimension | Group) -> bool:
        """Whether all ranks do the same over the same routes, so that one can represent all."""
        key = schedule, logical
        if key not in self._symmetric:
            self._symmetric[key] = self._find_symmetric(schedule, logical)
        return self._symmetric[key]

    def groups_are_alike(self, dimension: LogicalDimension) -> bool:
        """Whether all groups of a dimension have the same routes between ranks of the same number."""
        if dimension not in self._alike:
            self._alike[dimension] = self._find_groups_alike(dimension)
        return self._alike[dimension]

    def _find_symmetric(self, schedule: Schedule, logical: LogicalDimension | Group) -> bool:
        exchanges = schedule.exchanges
        if exchanges is None:
            return False
        key = exchanges, logical
        if key not in self._exchanges:
            # The request of rendezvous takes the way back, which may be longer.
            runs = {to for to, _ in exchanges} | ({source for _, source in exchanges} if self._rendezvous else set())
            self._exchanges[key] = all(self._peer_is_symmetric(logical, peer) for run in runs for peer in run.each())
        return self._exchanges[key]

    def _peer_is_symmetric(self, logical: LogicalDimension | Group, peer: Peer) -> bool:
        """Whether messages to `peer` take the same route from every rank of `logical`, whichever group it is."""
        if isinstance(logical, Group):
            return _is_one(_routes_in(self._network, logical.members, peer))
        platform = self._network.platform
        if logical.physical is not None and platform.dimensions[logical.physical].size == logical.size:
            if platform.dimensions[logical.physical].topology.is_symmetric(peer):
                return True
        # `one_halving_doubling` on several dimensions: XOR changes the same digits of every rank; a shift carries into the next dimension.
        elif logical.physical is None and peer.operator == "xor" and _xor_is_symmetric(platform, peer.value):
            return True
        groups = [logical.group(0)] if _is_the_same_in_all_groups(platform, logical, peer) else platform.distinct_groups(logical)
        return _is_one(route for group in groups for route in _routes_in(self._network, group, peer))

    def _find_groups_alike(self, dimension: LogicalDimension) -> bool:
        """True if a message between two ranks takes equal routes in every group of the dimension."""
        platform = self._network.platform
        groups = platform.distinct_groups(dimension)
        # The cheap proofs come first: comparing routes of all groups is quadratic in the ranks of each.
        if len(groups) == 1:
            return True
        if dimension.physical is not None:
            physical = platform.dimensions[dimension.physical]
            if all(physical.topology.is_symmetric(Peer("shift", distance)) for distance in range(1, physical.size)):
                return True
        first, route = groups[0], self._network.route
        return all(
            route(group[a], group[b]) == route(first[a], first[b])
            for group in groups[1:]
            for a in range(dimension.size)
            for b in range(dimension.size)
            if a != b
        )


def _is_the_same_in_all_groups(platform: Platform, logical: LogicalDimension, peer: Peer) -> bool:
    """True if the offset of `peer` from a rank is the same in each group of a part of a physical dimension, at every position."""
    if logical.physical is None:
        return False
    dimension, unit = platform.dimensions[logical.physical], logical.stride // platform.strides[logical.physical]
    distances = {(peer.of(rank, logical.size) - rank) * unit % dimension.size for rank in range(logical.size)}
    return all(dimension.topology.is_symmetric(Peer("shift", distance)) for distance in distances)


def _xor_is_symmetric(platform: Platform, mask: int) -> bool:
    """Whether the bits of a mask over all NPUs are symmetric in each dimension that they touch."""
    for dimension, stride in zip(platform.dimensions, platform.strides, strict=True):
        bits = mask // stride % dimension.size
        if not is_power_of_two(dimension.size) or (bits and not dimension.topology.is_symmetric(Peer("xor", bits))):
            return False
    return True


def _routes_in(network: Network, group: Sequence[int], peer: Peer) -> Iterator[Route]:
    """The routes to a peer from each rank of a group."""
    for rank, npu in enumerate(group):
        yield network.route(npu, group[peer.of(rank, len(group))])


def _is_one(routes: Iterator[Route]) -> bool:
    first = next(routes, None)
    return all(route == first for route in routes)
