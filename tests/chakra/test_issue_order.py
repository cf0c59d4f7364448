"""Which ready node of a trace an NPU starts: the one with the lowest id, as in ASTRA-sim 2.x, whatever the order of the file."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import astra_sim
import pytest
from astra_sim.graph import MemoryAccess, Unit
from astra_sim_chakra import Node, NodeType
from support.traces import collective, compute, write_ranks

RING = "plugin:ring?size=4&links=2&link_bandwidth_gib_per_s=50&link_latency_ns=500"
POOL = {"plugin": "remote", "latency_ns": 100, "bandwidth_gb_per_s": 10, "arrangement": "per_npu"}


def finish_ns(folder: Path, nodes: list[Node], **options: Any) -> float:
    """When four NPUs finish that all have these nodes."""
    prefix = write_ranks(folder / "t", [nodes] * 4)
    return astra_sim.simulate(workload=prefix, platform=RING, system="plugin:astra2", **options).finish_ns


@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_a_lower_id_that_becomes_ready_later_goes_first(engine: str, tmp_path: Path) -> None:
    """While node 0 communicates, node 1 becomes ready after node 2, and goes first: so node 4 computes while node 2 communicates."""
    nodes = [collective(0, 1 << 20), collective(1, 1 << 20, 3), collective(2, 1 << 20), compute(3, 1000), compute(4, 100_000, 1)]
    one = finish_ns(tmp_path, nodes[:1], engine=engine)
    for order in itertools.islice(itertools.permutations(nodes), 0, None, 17):
        assert finish_ns(tmp_path, list(order), engine=engine) == 2 * one + 100_000
    in_order = [collective(0, 1 << 20), collective(1, 1 << 20), compute(2, 1000), collective(3, 1 << 20, 2), compute(4, 100_000, 3)]
    assert finish_ns(tmp_path, in_order, engine=engine) == 3 * one + 100_000


@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_remote_memory_keeps_the_cpu_or_the_communication_unit(engine: str, tmp_path: Path) -> None:
    def load(id_: int, is_cpu_op: bool) -> Node:
        return Node(id=id_, name=f"load {id_}", type=NodeType.MEM_LOAD_NODE, tensor_size=10_000, is_cpu_op=is_cpu_op)

    takes = 100 + 1000
    result = {
        cpus: finish_ns(tmp_path, [load(id_, is_cpu_op) for id_, is_cpu_op in enumerate(cpus)], memory=POOL, engine=engine)
        for cpus in itertools.product((False, True), repeat=2)
    }
    assert result == {(False, False): 2 * takes, (False, True): takes, (True, False): takes, (True, True): 2 * takes}
    beside_compute = [load(0, True), compute(1, 5000, is_cpu_op=True)]
    assert finish_ns(tmp_path, beside_compute, memory=POOL, engine=engine) == takes + 5000


def test_an_access_of_memory_keeps_the_communication_unit_unless_it_says_otherwise() -> None:
    assert MemoryAccess((), 8).unit is Unit.COMMUNICATION
