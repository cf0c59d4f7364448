"""A message that nothing receives is an error, as is a receive to which nothing is sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import astra_sim
import pytest
from astra_sim import DeadlockError, RunError
from astra_sim.graph import Compute, ExecutionGraph, NpuProgram, Operation, Receive, Send
from astra_sim.platform import LogicalDimension
from astra_sim.schedule import shift
from astra_sim_chakra import Node, NodeType, write_nodes

RING = "plugin:ring?size=4&links=2&link_bandwidth_gb_per_s=50&link_latency_ns=500"
CHOICES = [
    {"engine": engine, "symmetry": symmetry, "rendezvous": False, "network": network}
    for engine in ("python", "compiled")
    for symmetry in (True, False)
    for network in ("plugin:analytical", "plugin:analytical?congestion=aware")
]


def run(operations: tuple[Operation, ...], others: tuple[NpuProgram, ...] = (), **more: Any) -> astra_sim.Result:
    graph = ExecutionGraph(operations, (LogicalDimension(4, 1, 0),), (), None, others)
    return astra_sim.simulate(workload=graph, platform=RING, **more)


@pytest.mark.parametrize("choice", CHOICES)
def test_a_send_without_a_receive_is_named(choice: dict[str, Any]) -> None:
    sends = (Send((), shift(1), 4096, 7, name="lost"), Compute((0,), 1000))
    nothing = (Compute((), 1000),)
    with pytest.raises(RunError) as caught:
        run(sends, (NpuProgram(nothing, (1, 2, 3)),), **choice)
    assert str(caught.value).startswith("messages have arrived for which no receive is there")
    assert "NPU 0: operation 0 (send of 4096 bytes, 'lost') to NPU 1 with tag 7 is received by none" in str(caught.value)
    assert caught.value.exit_status == 1


@pytest.mark.parametrize("choice", CHOICES)
def test_the_last_of_more_sends_than_receives_are_named(choice: dict[str, Any]) -> None:
    """Every NPU sends three messages to the next and receives one: one NPU may represent all, and the result is the same."""
    sends = tuple(Send((), shift(1), 4096, name=f"message {number}") for number in range(3))
    with pytest.raises(RunError) as caught:
        run((*sends, Receive((), shift(-1), 4096)), **choice)
    assert "'message 1'" in str(caught.value)
    assert "'message 2'" in str(caught.value)
    assert "'message 0'" not in str(caught.value)


@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_a_deadlock_tells_of_the_message_that_came_under_another_tag(engine: str) -> None:
    receives = (Receive((), shift(-1), 4096, 1),)
    nothing = (Compute((), 1000),)
    with pytest.raises(DeadlockError) as caught:
        run((Send((), shift(1), 4096, 2),), (NpuProgram(receives, (1,)), NpuProgram(nothing, (2, 3))), engine=engine)
    assert "NPU 1: operation 0 (receive of 4096 bytes) waits for a message of NPU 0 with tag 1" in str(caught.value)
    assert "to NPU 1 with tag 2 is received by none" in str(caught.value)


def test_a_trace_that_sends_to_nobody_is_an_error(tmp_path: Path) -> None:
    for rank in range(4):
        kind, peer = (NodeType.COMM_SEND_NODE, 1) if rank == 0 else (NodeType.COMP_NODE, None)
        write_nodes(tmp_path / f"w.{rank}.et", [Node(id=0, name="only", type=kind, comm_dst=peer, comm_size=4096, duration_ns=1000)])
    with pytest.raises(RunError, match=r"send of 4096 bytes, 'only'. to NPU 1 with tag 0 is received by none"):
        astra_sim.simulate(workload=str(tmp_path / "w"), system="plugin:astra2", platform=RING)
