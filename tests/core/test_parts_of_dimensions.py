"""Symmetry of phases on a part of a physical dimension: one group is looked at only where all groups are alike."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from astra_sim.network import RouteDelayNetwork
from astra_sim.platform import Dimension, LogicalDimension, Platform
from astra_sim.run.symmetry.schedules import ScheduleSymmetry
from astra_sim.schedule import Peer
from hypothesis import given
from hypothesis import strategies as st


@attrs.frozen
class Topology:
    """A ring, a switch, or a line, on which only what is true of every position is symmetric."""

    name: str
    size: int

    def hops(self, source: int, destination: int) -> int:
        distance = abs(source - destination)
        return {"switch": 2, "ring": min(distance, self.size - distance), "line": distance}[self.name]

    def is_symmetric(self, peer: Peer) -> bool:
        if peer.operator == "rank":
            return False
        positions = range(self.size)
        return len({self.hops(at, peer.of(at, self.size)) for at in positions if peer.of(at, self.size) in positions}) <= 1

    def links_per_message(self) -> int:
        return 1

    def links_per_npu(self) -> int:
        return 1


class Network(RouteDelayNetwork):
    def route_delay(self, dimension: int, hops: int, size: int) -> int:
        return 1000 * hops + size


def all_routes_are_one(platform: Platform, logical: LogicalDimension, peer: Peer) -> bool:
    groups = [logical.group(npu) for npu in range(platform.npus) if not logical.index(npu)]
    return len({platform.route(group[r], group[peer.of(r, len(group))]) for group in groups for r in range(len(group))}) == 1


@given(data=st.data())
def test_the_answer_is_that_of_all_groups(data: Any) -> None:
    parts = data.draw(st.tuples(*[st.sampled_from((1, 2, 3, 4))] * 3), label="inner, ranks, outer")
    name = data.draw(st.sampled_from(("switch", "ring", "line")), label="topology")
    size = parts[0] * parts[1] * parts[2]
    if parts[1] == 1:
        return
    platform = Platform((Dimension(Topology("switch", 2), 2, 1, 1.0, 1.0), Dimension(Topology(name, size), size, 1, 1.0, 1.0)))
    logical = LogicalDimension(parts[1], 2 * parts[0], 1)
    peer = Peer("shift", data.draw(st.integers(1, parts[1] - 1), label="distance"))
    peer_is_symmetric = ScheduleSymmetry(Network(platform), rendezvous=False)._peer_is_symmetric(logical, peer)
    assert peer_is_symmetric == all_routes_are_one(platform, logical, peer)


@pytest.mark.parametrize(("name", "answer"), [("switch", True), ("ring", False), ("line", False)])
def test_ranks_four_apart_on_sixteen(name: str, answer: bool) -> None:
    """On a switch each is as far from the next, on a ring and a line the last of four is not from the first, one after another."""
    platform = Platform((Dimension(Topology(name, 16), 16, 1, 1.0, 1.0),))
    schedules = ScheduleSymmetry(Network(platform), rendezvous=False)
    assert schedules._peer_is_symmetric(LogicalDimension(4, 1, 0), Peer("shift", 1)) is answer


def test_one_group_is_looked_at_on_a_large_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    platform = Platform((Dimension(Topology("switch", 64), 64, 1, 1.0, 1.0),))
    monkeypatch.setattr(Platform, "distinct_groups", lambda *_: pytest.fail("all groups are looked at"))
    assert ScheduleSymmetry(Network(platform), rendezvous=False)._peer_is_symmetric(LogicalDimension(4, 2, 0), Peer("shift", 3))
