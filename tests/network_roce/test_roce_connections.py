"""The network roce: messages of a connection are ranges of the bytes of one queue pair (`connections`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import astra_sim
import pytest
from astra_sim.graph import Communicate, Compute, ExecutionGraph, Pass
from astra_sim.network import Message, MessageFigures
from astra_sim.platform import LogicalDimension
from astra_sim.schedule import Collective
from astra_sim_network_roce.network import RoceNetwork
from hypothesis import given, settings
from hypothesis import strategies as st
from support.roce import STAR, clos, network

PACKET = (1000 + 58 + 20) * 80  # ps on a link of 100 Gbit/s


def ends(made: RoceNetwork, messages: list[Message]) -> dict[int, MessageFigures]:
    """What becomes of messages that are sent at time 0."""
    made.begin()
    made.keep_message_figures()
    made.inject(0, messages)
    arrived: list[int] = []
    while len(arrived) < len(messages):
        answer = made.advance(None)
        assert answer is not None
        arrived += answer[1]
    assert sorted(arrived) == sorted(each.number for each in messages)
    while made.advance(10**15) is not None:
        pass
    return dict(made.message_figures())


def test_messages_of_a_queue_go_one_after_another() -> None:
    """NPU 0 sends 10 packets of queue 0, then 5 of queue 0 and 5 of queue 1: the pairs of both queues send packets in turn."""
    messages = [Message(0, 0, 1, 10_000, 0), Message(1, 0, 1, 5_000, 0), Message(2, 0, 1, 5_000, 1)]
    first = 2_000_000 + PACKET  # arrival of the first packet, after two links
    shared = ends(network(STAR.format(2), windows=False), messages)
    assert [shared[number].received for number in range(3)] == [first + PACKET * sent for sent in (15, 20, 10)]
    alone = ends(network(STAR.format(2), windows=False, connections="message"), messages)
    assert [alone[number].received for number in range(3)] == [first + PACKET * sent for sent in (20, 14, 15)]


@pytest.mark.parametrize(("flows", "in_order"), [((7, 7), True), ((7, 8), False), ((0, 0), False)])
def test_outside_of_queues_a_tag_is_a_connection(flows: tuple[int, int], in_order: bool) -> None:
    messages = [Message(number, 0, 1, 10_000, -1, flow) for number, flow in enumerate(flows)]
    figures = ends(network(STAR.format(2)), messages)
    assert (figures[1].received - figures[0].received == 10 * PACKET) == in_order


def test_a_later_message_goes_on_at_the_rate_that_the_first_has_come_to() -> None:
    """Four senders to one NPU: DCQCN has slowed them when their second messages begin, which begin at full rate on pairs of their own."""
    messages = [Message(2 * npu + place, npu, 4, 2_000_000, 0) for npu in range(4) for place in range(2)]
    options: dict[str, Any] = {"congestion_control": "dcqcn", "pfc": False, "windows": False}
    marks: dict[str, int] = {}
    for connections in ("queue", "message"):
        made = network(STAR.format(5), connections=connections, **options)
        ends(made, messages)
        marks[connections] = int(str(made.statistics()["marks"]))
    assert 0 < marks["queue"] < marks["message"]


@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_an_npu_that_comes_late_to_a_ring_delays_it_by_its_lateness(engine: str) -> None:
    """While NPU 3 computes for 100 us more, it gets the messages of three steps, and then it sends those of four at once."""
    reduce = Communicate((0,), Collective.ALL_REDUCE, 1_000_000, (0,), -1, Pass.FORWARD, blocking=True)
    run: dict[str, Any] = {
        "workload": ExecutionGraph([Compute((), 10_000_000), reduce], (LogicalDimension(4, 1, 0),), (), None, ()),
        "platform": "plugin:switch?size=4&link_bandwidth_gb_per_s=12.5&link_latency_ns=500", "network": "plugin:roce",
        "system": "plugin:astra2?all_reduce=ring&endpoint_delay_ns=0", "engine": engine,
    }  # fmt: skip
    step_ns = (astra_sim.simulate(**run).finish_ns - 10_000) / 6
    late = {**run, "slow_npus": "3:11"}
    assert astra_sim.simulate(**late).finish_ns == pytest.approx(110_000 + 6 * step_ns, rel=0.01)
    assert astra_sim.simulate(**{**late, "network": "plugin:roce?connections=message"}).finish_ns > 110_000 + 8 * step_ns


MESSAGES = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 5), st.sampled_from([0, 1, 999, 3000, 4001, 40_000]), st.integers(0, 1)).filter(
        lambda each: each[0] != each[1]
    ),
    min_size=1,
    max_size=20,
)


@settings(max_examples=50, deadline=None)
@given(
    sent=MESSAGES,
    options=st.fixed_dictionaries(
        {
            "congestion_control": st.sampled_from(["none", "dcqcn", "hpcc", "timely", "dctcp", "pint", "swift"]),
            "load_balancing": st.sampled_from(["destination", "ecmp", "spray_random", "flowlet"]),
            "error_rate": st.sampled_from([0.0, 0.05]),
            "back_to_chunk": st.booleans(),
            "ack_interval_bytes": st.sampled_from([1, 8000]),
            "slow_restart": st.booleans(),
            "completion": st.sampled_from(["arrival", "ack"]),
            "pfc": st.booleans(),
        }
    ),
)
def test_all_messages_arrive_in_order_whatever_is_lost(
    sent: list[tuple[int, int, int, int]], options: dict[str, Any], tmp_path_factory: Any
) -> None:
    path: Path = tmp_path_factory.mktemp("roce") / "clos.txt"
    path.write_text(clos(3, 2, 2))
    messages = [Message(number, source, target, size, queue) for number, (source, target, size, queue) in enumerate(sent)]
    made = network(str(path), rto_us=50.0, **options)
    figures = ends(made, messages)
    for number, each in figures.items():
        assert 0 <= each.started < each.received <= each.ended
        least = max(1, -(-sent[number][2] // 1000))
        assert each.packets >= least if options["error_rate"] or not options["pfc"] else each.packets == least
    for one in messages:
        for other in messages[one.number + 1 :]:
            if (one.source, one.destination, one.queue) == (other.source, other.destination, other.queue):
                assert figures[one.number].received <= figures[other.number].received
                assert figures[one.number].ended <= figures[other.number].ended
    assert made.statistics()["messages"] == len(messages)
    assert ends(made, messages) == figures
