"""Speculation in routers with staged allocation: what a request of the switch without a virtual channel may take, and what it costs.

All messages go to the NPU in the middle of a mesh of 3 x 3 from its four neighbours, so only its output decides. Times are cycles of 1 ns.
"""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("astra_sim_network_packet")

from astra_sim_network_analytical.topologies import SwitchOptions, switch
from astra_sim_platforms.topologies import MeshOptions, mesh
from support.packet import BANDWIDTH, deliver, network

MIDDLE, FLIT, LONG = 4, 32, 64
INPUT_FIRST = {"allocator": "separable_input_first"}
SHARED = {"speculative": True}
SEPARATE = {"speculative": True, "speculative_allocator": "separate"}


def arrivals(messages: list[tuple[int, int, int]], options: dict[str, Any]) -> list[int]:
    """When messages (cycle, source, flits) have arrived, each of one packet."""
    result = network(
        mesh(MeshOptions(sizes=(3, 3), link_latency_ns=1.0, **BANDWIDTH)),
        preset="booksim",
        packet_bytes=LONG * FLIT,
        vcs=2,
        buffers=32,
        **options,
    )
    arrived = deliver(result, [(1000 * cycle, source, MIDDLE, flits * FLIT) for cycle, source, flits in messages])
    return [arrived[number] // 1000 for number in range(len(messages))]


@pytest.mark.parametrize(
    ("options", "cycles"),
    [
        ({}, 13),
        (INPUT_FIRST, 13),
        (SHARED, 11),  # two routers, in each of which the switch is allocated one cycle earlier
        (SHARED | INPUT_FIRST, 12),
        (SEPARATE, 12),
        (SEPARATE | INPUT_FIRST, 12),
    ],
)
@pytest.mark.parametrize("source", [3, 5, 7])
def test_a_head_that_speculates_takes_its_turn_before_flits_that_do_not_only_with_shared_islip(
    source: int, options: dict[str, Any], cycles: int
) -> None:
    """A flit of a long packet asks in every cycle. Where it is preferred, the head crosses when it has its channel, a cycle later."""
    long, short = arrivals([(0, 1, LONG), (20, source, 1)], options)
    alone = arrivals([(0, 1, LONG)], options)[0]
    assert short - 20 == cycles
    assert long == alone + 1


@pytest.mark.parametrize(
    ("options", "first", "second", "lost"),
    [({}, 13, 15, 3), (SHARED, 12, 14, 4), (SHARED | INPUT_FIRST, 12, 14, 3), (SEPARATE, 12, 14, 3), (SEPARATE | INPUT_FIRST, 12, 14, 3)],
)
def test_a_grant_to_a_head_that_gets_no_virtual_channel_is_lost(options: dict[str, Any], first: int, second: int, lost: int) -> None:
    """Two heads want the one idle virtual channel of an output, while a long packet has the other.

    Inputs take turns in the order 3, 5, 1, 7. The idle channel was 3's last, so it is the turn of 5. The switch was the long packet's,
    from 1, so with shared iSLIP it is the turn of 3, whose request is refused. Nothing crosses in that cycle, and the long packet ends a
    cycle later than where it goes before heads that speculate.
    """
    long, _, *heads = arrivals([(0, 1, LONG), (10, 3, 1), (30, 5, 1), (30, 3, 1)], options)
    alone = arrivals([(0, 1, LONG)], options)[0]
    assert [head - 30 for head in heads] == [first, second]
    assert long == alone + lost


@pytest.mark.parametrize("options", [SHARED, SHARED | INPUT_FIRST, SEPARATE, SEPARATE | INPUT_FIRST])
def test_a_switch_with_more_than_64_ports_grants_as_a_small_one_does(options: dict[str, Any]) -> None:
    """Unused ports do not change the round-robin order. Requests of few ports are stored differently from those of many."""
    messages = [(1000 * (7 * k % 40), k % 6, (k % 6 + 1 + k % 5) % 6, (1 + 5 * k % 9) * FLIT) for k in range(200)]

    def times(npus: int) -> dict[int, int]:
        platform = switch(SwitchOptions(size=npus, links=1, link_latency_ns=2.0, **BANDWIDTH))
        return deliver(network(platform, preset="booksim", packet_bytes=4 * FLIT, vcs=3, **options), messages)

    assert times(6) == times(70)
