"""Traces by data dependencies alone, as the feeder of Chakra 1.0.0 follows them."""

from __future__ import annotations

from pathlib import Path

import astra_sim
import pytest
from astra_sim import InputError
from astra_sim_chakra import Node, NodeType, load_ranks, load_trace, write_nodes

RING = "plugin:ring?size=2&links=2&link_bandwidth_gb_per_s=50&link_latency_ns=500"
HINT = "data dependencies alone have none (dependencies=data follows only those)"


def compute(id: int, *data: int, control: tuple[int, ...] = ()) -> Node:
    """A microsecond on the CPU."""
    return Node(id=id, type=NodeType.COMP_NODE, duration_ns=1000, is_cpu_op=id % 2 == 1, data=data, control=control)


def write(folder: Path, *nodes: Node) -> str:
    for rank in range(2):
        write_nodes(folder / f"w.{rank}.et", nodes)
    return str(folder / "w")


@pytest.mark.parametrize("compiled", [True, False])
def test_a_circle_through_control_dependencies_says_what_resolves_it(tmp_path: Path, compiled: bool) -> None:
    """As in the trace of MLCommons' feeder tests: two nodes wait for each other, one by control."""
    write(tmp_path, compute(0, 1), compute(1, control=(0,)), compute(2, 0))
    with pytest.raises(InputError) as caught:
        load_trace(tmp_path / "w.0.et", compiled=compiled)
    assert "dependencies in a circle: node 0 '', which waits for node 1 '', which waits for the first" in str(caught.value)
    assert str(caught.value).endswith(HINT)
    trace = load_trace(tmp_path / "w.0.et", dependencies="data", compiled=compiled)
    assert list(trace.order) == [1, 0, 2]
    assert [trace.dependencies(row) for row in range(3)] == [[1], [], [0]]
    assert not trace.control.rows


@pytest.mark.parametrize("compiled", [True, False])
def test_a_circle_of_data_dependencies_stays_one(tmp_path: Path, compiled: bool) -> None:
    write(tmp_path, compute(0, 1), compute(1, 0, control=(2,)), compute(2, control=(1,)))
    for dependencies in ("both", "data"):
        with pytest.raises(InputError, match="in a circle") as caught:
            load_trace(tmp_path / "w.0.et", dependencies=dependencies, compiled=compiled)
        assert "dependencies=data" not in str(caught.value)


@pytest.mark.parametrize("compiled", [True, False])
def test_control_dependencies_that_are_not_followed_need_no_node(tmp_path: Path, compiled: bool) -> None:
    write(tmp_path, compute(0), compute(1, 0, control=(99,)))
    with pytest.raises(InputError, match="control dependency 99 is no node"):
        load_trace(tmp_path / "w.0.et", compiled=compiled)
    assert len(load_trace(tmp_path / "w.0.et", dependencies="data", compiled=compiled)) == 2


def test_the_workload_has_the_option(tmp_path: Path) -> None:
    prefix = write(tmp_path, compute(0), compute(1, control=(0,)), compute(2, 1))
    times = [
        astra_sim.simulate(workload=f"plugin:chakra?prefix={prefix}{more}", system="plugin:astra2", platform=RING).finish_ns
        for more in ("", "&dependencies=both", "&dependencies=data")
    ]
    assert times == [3000, 3000, 2000]
    with pytest.raises(InputError, match="dependencies"):
        astra_sim.simulate(workload=f"plugin:chakra?prefix={prefix}&dependencies=control", system="plugin:astra2", platform=RING)
    with pytest.raises(InputError, match="dependencies is 'control'; expected both or data"):
        load_ranks(prefix, dependencies="control")
