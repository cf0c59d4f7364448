"""A stack's collective_share slows the dimensions of a platform beyond the node; a stack may be a table."""

from __future__ import annotations

from typing import Any

import pytest
from astra_sim import InputError, simulate
from astra_sim.platform import Dimension, Platform
from astra_sim_compute_gpu.model import Gpu, GpuOptions
from astra_sim_compute_gpu.stack import Stack
from astra_sim_network_analytical.topologies import Switch

NODE = Dimension(Switch(8, 1), 8, 1, 100.0, 500.0)
BETWEEN = Dimension(Switch(4, 1), 4, 1, 25.0, 1000.0)


def seconds(nodes: int, network: str = "plugin:analytical", **stack: float) -> float:
    """An iteration of 8B parameters on nodes of eight H100, of which each has a replica."""
    workload = {"plugin": "llm", "model": "llama3-8b", "global_batch": 32, "detail": "pass", "check_memory": False}
    compute = {"plugin": "gpu", "device": "h100", "stack": stack}
    figures = simulate(
        platform=f"plugin:dgx_h100?nodes={nodes}", network=network, system="plugin:astra2", compute=compute, workload=workload
    ).figures
    assert figures is not None
    return float(figures["iteration_s"])


@pytest.mark.parametrize("network", ["plugin:analytical", "plugin:analytical?model=nccl"])
def test_what_crosses_nodes_takes_longer(network: str) -> None:
    assert seconds(2, network, collective_share=0.5) > 1.002 * seconds(2, network)
    assert seconds(2, network, collective_share=1.0) == seconds(2, network)


def test_nothing_changes_within_a_node() -> None:
    assert seconds(1, collective_share=0.5) == seconds(1)


def test_all_dimensions_but_the_innermost_have_less_bandwidth() -> None:
    platform = Platform((NODE, BETWEEN, BETWEEN), "rack", "h100")
    slower = platform.slowed_between_nodes(0.5)
    assert [dimension.link_bandwidth for dimension in slower.dimensions] == [100.0, 12.5, 12.5]
    assert (slower.name, slower.device, slower.npus) == ("rack", "h100", 128)
    assert platform.slowed_between_nodes(1.0) is platform


def test_a_stack_is_a_name_a_file_or_a_table() -> None:
    assert Gpu(GpuOptions(device="h100", stack=Stack(gemm_share=0.5))).stack.gemm_share == 0.5
    assert seconds(1, gemm_share=0.5) > 1.3 * seconds(1)


@pytest.mark.parametrize(("table", "message"), [({"gem_share": 1.0}, "gem_share"), ({"gemm_share": 3.0}, "gemm_share is 3")])
def test_errors_of_a_table(table: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        seconds(1, **table)
