"""Nodes of traces that take the time that was recorded: broadcasts, calls on the host, and all of them where a trace is replayed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import astra_sim
import pytest
from astra_sim import InputError
from astra_sim_chakra import Node, NodeType, write_nodes

RING = "plugin:ring?size=4&links=2&link_bandwidth_gb_per_s=50&link_latency_ns=500"
COLLECTIVE, COMPUTE, RECEIVE = NodeType.COMM_COLL_NODE, NodeType.COMP_NODE, NodeType.COMM_RECV_NODE
ALL_REDUCE, BROADCAST, BARRIER = 0, 5, 9
CHOICES = [{"engine": "python"}, {"engine": "compiled"}, {"symmetry": False}]


def simulate(folder: Path, *nodes: Node, system: str = "plugin:astra2", **more: Any) -> astra_sim.Result:
    for rank in range(4):
        write_nodes(folder / f"w.{rank}.et", nodes)
    return astra_sim.simulate(workload=str(folder / "w"), system=system, platform=RING, **more)


def node(id: int, type: NodeType, microseconds: int = 0, **fields: Any) -> Node:
    return Node(id=id, type=type, duration_ns=1000 * microseconds, is_cpu_op=False, **fields)


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize(("microseconds", "nanoseconds"), [(0, 1), (7, 7000)])
def test_a_broadcast_takes_the_recorded_time(tmp_path: Path, choice: dict[str, Any], microseconds: int, nanoseconds: int) -> None:
    broadcast = node(0, COLLECTIVE, microseconds, comm_type=BROADCAST, comm_size=4096)
    assert simulate(tmp_path, broadcast, compute_scale=3.0, **choice).finish_ns == nanoseconds
    assert simulate(tmp_path, broadcast, compute="plugin:roofline?peak_tera_ops_per_s=1", **choice).finish_ns == nanoseconds


@pytest.mark.parametrize("choice", CHOICES)
def test_a_broadcast_keeps_communication_busy_and_not_computing(tmp_path: Path, choice: dict[str, Any]) -> None:
    collective = node(1, COLLECTIVE, comm_type=ALL_REDUCE, comm_size=1 << 20)
    alone = simulate(tmp_path, collective, **choice).finish_ns
    broadcast, compute = node(0, COLLECTIVE, 500, comm_type=BROADCAST, comm_size=4096), node(2, COMPUTE, 300)
    together = simulate(tmp_path, broadcast, collective, compute, **choice)
    assert together.finish_ns == 500_000 + alone
    assert together.compute_ns == 300_000
    assert together.exposed_comm_ns == together.finish_ns - 300_000
    assert "communicate" in {interval.kind for interval in together.timeline()}


@pytest.mark.parametrize("choice", CHOICES)
def test_a_replayed_trace_keeps_busy_what_its_nodes_would(tmp_path: Path, choice: dict[str, Any]) -> None:
    """As ASTRA-sim 2.x: the accelerator, communication and the host beside each other, and receives beside everything."""
    nodes = [
        node(0, COLLECTIVE, 10, comm_type=BARRIER),
        node(1, COMPUTE, 7),
        node(2, RECEIVE, 9),
        node(3, RECEIVE, 9),
        Node(id=4, type=COLLECTIVE, duration_ns=6000, is_cpu_op=True),
        Node(id=5, type=COMPUTE, duration_ns=5000, is_cpu_op=True),
    ]
    replay = "plugin:astra2?replay_only=true"
    assert simulate(tmp_path, *nodes, system=replay, **choice).finish_ns == 11_000
    assert simulate(tmp_path, *nodes[:4], system=replay, **choice).finish_ns == 10_000
    assert simulate(tmp_path, *nodes[:4], node(6, NodeType.MEM_LOAD_NODE, 3), system=replay, **choice).finish_ns == 13_000


def test_the_call_of_a_collective_on_the_host_takes_its_time_there(tmp_path: Path) -> None:
    call = Node(id=0, name="c10d::broadcast_", type=COLLECTIVE, duration_ns=85_000, is_cpu_op=True)
    work = Node(id=1, type=COMPUTE, duration_ns=5000, is_cpu_op=True)
    assert simulate(tmp_path, call, work, node(2, COMPUTE, 80)).finish_ns == 90_000


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (node(0, COLLECTIVE, comm_type=BARRIER, comm_size=0), "comm_type is 9 .BARRIER.; expected ALL_REDUCE, .*BROADCAST .any with"),
        (node(0, COLLECTIVE, comm_type=BARRIER), "comm_type is 9 .BARRIER."),
        (node(0, COLLECTIVE, 7), "comm_type and comm_size are missing"),
        (node(0, NodeType.COMM_SEND_NODE, tensor_size=1024), "node 0 '': comm_size and comm_dst are missing"),
        (node(0, RECEIVE, comm_src=1), "node 0 '': comm_size is missing"),
    ],
)
def test_what_cannot_be_run_is_named(tmp_path: Path, wrong: Node, words: str) -> None:
    with pytest.raises(InputError, match=words):
        simulate(tmp_path, wrong)
