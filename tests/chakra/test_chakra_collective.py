"""Algorithms given as Chakra traces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import astra_sim
import pytest
from astra_sim import DeadlockError, InputError, ScheduleError
from astra_sim.graph import Communicate, Compute, ExecutionGraph, Pass
from astra_sim.platform import LogicalDimension
from astra_sim.schedule import Collective, Request, Schedule, lower
from astra_sim_chakra.custom_collective import CustomCollectiveOptions, custom_collective
from astra_sim_chakra.schema import NodeType
from astra_sim_chakra.trace import Node
from astra_sim_chakra.writer import write_nodes
from astra_sim_devkit.testing import check_schedule, contracts

SIZE = 131072


def send(id: int, to: int, *after: int, size: int = SIZE, tag: int = 0) -> Node:
    return Node(id=id, type=NodeType.COMM_SEND_NODE, comm_dst=to, comm_size=size, comm_tag=tag, data=after)


def receive(id: int, source: int, *after: int, size: int = SIZE, tag: int = 0) -> Node:
    return Node(id=id, type=NodeType.COMM_RECV_NODE, comm_src=source, comm_size=size, comm_tag=tag, data=after)


def compute(id: int, *after: int, duration_ns: int = 0) -> Node:
    return Node(id=id, type=NodeType.COMP_NODE, data=after, duration_ns=duration_ns)


def write(folder: Path, *ranks: list[Node]) -> str:
    for number, nodes in enumerate(ranks):
        write_nodes(folder / f"custom.{number}.et", nodes)
    return str(folder / "custom")


def make(folder: Path, *ranks: list[Node]) -> Schedule:
    """The schedule of traces, of which pieces have been moved along."""
    request = Request(Collective.ALL_REDUCE, len(ranks), 1 << 20)
    schedule = custom_collective(request, CustomCollectiveOptions(prefix=write(folder, *ranks)))
    lower(schedule)
    check_schedule(schedule, request, scales=False)
    return schedule


def ring(n: int, duration_ns: int = 0) -> list[list[Node]]:
    """An all-reduce in one thread block of each rank, each node waiting for the one before."""
    ranks = []
    for rank in range(n):
        nodes: list[Node] = []
        for step in range(2 * n - 2):
            before = [nodes[-1].id] if nodes else []
            nodes.append(send(len(nodes), (rank + 1) % n, *before))
            nodes.append(receive(len(nodes), (rank - 1) % n, len(nodes) - 1))
            if step < n - 1:
                nodes.append(compute(len(nodes), len(nodes) - 1, duration_ns=duration_ns))
        ranks.append(nodes)
    return ranks


def simulate(prefix: str, n: int, platform: str, splits: int = 1, **more: Any) -> astra_sim.Result:
    operations = (Communicate((), Collective.ALL_REDUCE, 1 << 20, (0,), 0, Pass.FORWARD), Compute((0,), 0))
    graph = ExecutionGraph(operations, (LogicalDimension(n, 1, 0),), ("layer",))
    system = {"plugin": "astra2", "endpoint_delay_ns": 0, "splits": splits, "all_reduce": f"chakra?prefix={prefix}"}
    return astra_sim.simulate(workload=graph, platform=f"plugin:{platform}&link_latency_ns=500", system=system, **more)


def said(error: Exception) -> str:
    """The message, without the empty names of nodes."""
    return str(error).replace(" ''", "")


class TestContract(contracts.CollectiveContract):
    name = "chakra"
    ranks = (4, 5)

    @pytest.fixture(autouse=True)
    def _traces(self, tmp_path: Path) -> None:
        self.options = {"prefix": write(tmp_path, *ring(4))}


@pytest.mark.parametrize("engine", ["python", "compiled"])
@pytest.mark.parametrize(
    ("platform", "finish_ns"),
    [
        ("switch?size=8&link_bandwidth_gib_per_s=50", 14 * 3441),
        ("ring?size=8&links=2&link_bandwidth_gib_per_s=25&both_ways=true", 14 * 2941),
    ],
)
def test_a_ring_takes_as_long_as_in_astra_sim_2(tmp_path: Path, platform: str, finish_ns: int, engine: str) -> None:
    prefix = write(tmp_path, *ring(8))
    assert simulate(prefix, 8, platform, engine=engine).finish_ns == finish_ns
    assert simulate(prefix, 8, platform, splits=4, engine=engine).finish_ns == finish_ns


def test_sends_that_wait_for_nothing_go_at_once(tmp_path: Path) -> None:
    n = 4
    ranks = []
    for rank in range(n):
        others = [(rank + k) % n for k in range(1, n)]
        nodes = [send(k, to) for k, to in enumerate(others)] + [receive(3 + k, source) for k, source in enumerate(reversed(others))]
        nodes.append(compute(6, 3, 4, 5))
        ranks.append(
            nodes + [send(7 + k, to, 6, size=8) for k, to in enumerate(others)] + [receive(10 + k, p, size=8) for k, p in enumerate(others)]
        )
    schedule = make(tmp_path, *ranks)
    assert [step.after for step in schedule.program(0).steps if step.send_to] == [0, 0, 0, 3, 3, 3]


def test_ranks_may_differ_where_an_answer_follows_from_what_was_sent(tmp_path: Path) -> None:
    # Up a chain of three and down again.
    up_and_down = make(
        tmp_path,
        [send(0, 1), receive(1, 1, 0)],
        [receive(0, 0), send(1, 2, 0), receive(2, 2, 1), send(3, 0, 2)],
        [receive(0, 1), send(1, 1, 0)],
    )
    assert [(step.after, step.send_to is None) for step in up_and_down.program(1).steps] == [(0, True), (1, False), (0, True), (2, False)]


def test_messages_meet_by_tag_and_size_whatever_the_order_of_nodes(tmp_path: Path) -> None:
    schedule = make(
        tmp_path,
        [send(0, 1, size=10), send(1, 1, size=20, tag=1), receive(2, 1, size=10), receive(3, 1, size=20)],
        [receive(0, 0, size=20, tag=1), receive(1, 0, size=10), send(2, 0, 0, size=10), send(3, 0, 0, 1, size=20)],
    )
    assert [step.bytes for step in schedule.program(0).steps if step.send_to] == [20, 10]
    assert [step.bytes for step in schedule.program(1).steps if step.receive_from] == [20, 10]


# Two messages on either way that have nothing to do with each other.
APART = [
    [send(0, 1), send(1, 1, tag=1)],
    [receive(0, 0), send(1, 2, 0), receive(2, 0, tag=1), send(3, 2, 2)],
    [receive(0, 1), receive(1, 1)],
]
ONE_AFTER_THE_OTHER = [[send(0, 1), send(1, 2, 0)], [receive(0, 0)], [receive(0, 0)]]
CROSSING = [[send(0, 1), receive(1, 1, 0), send(2, 1, 1, size=3)], [receive(0, 0, 2), send(1, 0), receive(2, 0, size=3)]]
OVERTAKING = [
    [send(0, 1), receive(1, 1), send(2, 1, 1, tag=1)],
    [receive(0, 0, tag=1), send(1, 0), send(2, 2, 0), receive(3, 0)],
    [receive(0, 1)],
]


BUSY = [
    [receive(0, 1), receive(1, 1, size=3), compute(2, 0, 1, duration_ns=7000), send(3, 1, 2)],
    [send(0, 0), send(1, 0, size=3), receive(2, 0)],
]


def test_computing_on_a_message_is_part_of_handling_it(tmp_path: Path) -> None:
    steps = make(tmp_path, *ring(3, 7000)).program(0).steps
    assert {step.compute_ps for step in steps if step.receive_from} >= {7_000_000}


@pytest.mark.parametrize(
    ("ranks", "words"),
    [
        (BUSY, ("custom.0.et: node 2", "takes 7000 ns", "one receive alone")),
        (APART, ("custom.1.et: node 3", "does not wait for node 0", "as node 1 does")),
        (ONE_AFTER_THE_OTHER, ("custom.0.et: node 1", "waits until the message of node 0 has arrived")),
        (CROSSING, ("custom.0.et: node 1", "waits until the message of node 0 has arrived")),
        (OVERTAKING, ("custom.1.et: node 3", "rank 0 sends before another")),
    ],
)
def test_what_a_schedule_cannot_say_is_refused(tmp_path: Path, ranks: list[list[Node]], words: tuple[str, ...]) -> None:
    with pytest.raises(ScheduleError) as caught:
        make(tmp_path, *ranks)
    for part in (*words, "a schedule cannot express that"):
        assert part in said(caught.value)


@pytest.mark.parametrize(
    ("ranks", "words"),
    [
        ([[send(0, 1)], [receive(0, 0, size=3)]], "custom.1.et: node 0: rank 0 does not send it: a message with comm_tag 0 of 3 bytes"),
        ([[send(0, 1)], [receive(0, 0, tag=5)]], "rank 0 does not send it: a message with comm_tag 5"),
        ([[send(0, 1), send(1, 1)], [receive(0, 0)]], "custom.0.et: node 1: rank 1 does not receive it"),
        ([[send(0, 0)], [receive(0, 0)]], "custom.0.et: node 0: comm_dst is the rank itself"),
        ([[send(0, 7)], [receive(0, 0)]], "custom.0.et: node 0: comm_dst is 7; expected 0 to 1"),
        ([[Node(id=0, type=NodeType.COMM_SEND_NODE, comm_dst=1)], [receive(0, 0)]], "node 0: comm_size is missing"),
        ([[Node(id=0, type=NodeType.COMM_COLL_NODE)], [receive(0, 0)]], "its type is COMM_COLL_NODE; expected COMM_SEND_NODE"),
        ([[compute(0)], [compute(0)]], "custom.0.et: the trace neither sends nor receives"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, ranks: list[list[Node]], words: str) -> None:
    with pytest.raises(InputError) as caught:
        make(tmp_path, *ranks)
    assert words in said(caught.value)


def test_traces_are_for_one_number_of_ranks(tmp_path: Path) -> None:
    prefix = write(tmp_path, *ring(3))
    with pytest.raises(ScheduleError, match=r"chakra cannot do all_reduce on 4 ranks: the traces from .*custom\.0\.et on are for 3 ranks"):
        custom_collective(Request(Collective.ALL_REDUCE, 4, 1000), CustomCollectiveOptions(prefix=prefix))


def test_ranks_that_wait_for_each_other_are_found_in_the_run(tmp_path: Path) -> None:
    prefix = write(tmp_path, *[[receive(0, 1 - rank), send(1, 1 - rank, 0)] for rank in range(2)])
    with pytest.raises(DeadlockError):
        simulate(prefix, 2, "switch?size=2&link_bandwidth_gib_per_s=50")


def test_data_that_never_reaches_a_rank_is_found(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"rank 0 never hears of ranks \[2\]"):
        make(tmp_path, [send(0, 1), receive(1, 1)], [receive(0, 0), send(1, 0), receive(2, 2)], [send(0, 1)])
