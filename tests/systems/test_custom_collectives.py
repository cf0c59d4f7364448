"""Collectives from files and in the network, as a run has them."""

from __future__ import annotations

from typing import Any

import astra_sim
import pytest
from astra_sim import InputError
from astra_sim.graph import Communicate, Compute, ExecutionGraph, Pass
from astra_sim.platform import LogicalDimension
from astra_sim.schedule import Collective
from support import ROOT, figures

RING = "plugin:ring?size=4&links=2&link_bandwidth_gb_per_s=0.5&link_latency_ns=100"
SWITCH = "plugin:switch?size=8&link_bandwidth_gb_per_s=1&link_latency_ns=100"
FILES = ROOT / "examples" / "collectives"


def run(platform: str, collective: Collective, size: int, algorithm: str, sizes: tuple[int, ...] = (4,), **more: Any) -> astra_sim.Result:
    dimensions = tuple(LogicalDimension(size, 1, index) for index, size in enumerate(sizes))
    operations = (Communicate((), collective, size, tuple(range(len(sizes))), 0, Pass.FORWARD), Compute((0,), 0))
    graph = ExecutionGraph(operations, dimensions, ("layer",))
    return astra_sim.simulate(workload=graph, platform=platform, system={"plugin": "astra1", collective.value: algorithm}, **more)


@pytest.mark.parametrize("engine", ["python", "compiled"])
@pytest.mark.parametrize("symmetry", [True, False])
@pytest.mark.parametrize(
    ("collective", "file", "builtin"),
    [(Collective.ALL_REDUCE, "ring_all_reduce_4.xml", "ring"), (Collective.ALL_GATHER, "all_pairs_all_gather_4.xml", "direct")],
)
def test_the_examples_take_as_long_as_the_algorithms_that_they_spell_out(
    collective: Collective, file: str, builtin: str, symmetry: bool, engine: str
) -> None:
    more: dict[str, Any] = {"symmetry": symmetry, "engine": engine}
    from_file = run(RING, collective, 40_000, f"msccl?file={FILES / file}", **more)
    ours = run(RING, collective, 40_000, builtin, **more)
    assert from_file.finish_ns == ours.finish_ns
    assert figures(from_file)["network"]["payload_bytes"] == figures(ours)["network"]["payload_bytes"]


@pytest.mark.parametrize("symmetry", [True, False])
@pytest.mark.parametrize(
    ("collective", "size"), [(Collective.ALL_REDUCE, 8000), (Collective.REDUCE_SCATTER, 8000), (Collective.ALL_GATHER, 7000)]
)
def test_in_the_network_data_goes_up_and_down_once(collective: Collective, size: int, symmetry: bool) -> None:
    result = run(SWITCH + "&in_network_reduction=true", collective, 1000 if size == 7000 else size, "in_network", (8,), symmetry=symmetry)
    assert result.finish_ns == 10 + 2 * 100 + size + 10


@pytest.mark.parametrize(("platform", "topology"), [(SWITCH, "switch"), (RING, "ring")])
def test_a_topology_that_cannot_reduce_is_named(platform: str, topology: str) -> None:
    with pytest.raises(InputError) as caught:
        run(platform, Collective.ALL_REDUCE, 8000, "in_network", (8 if topology == "switch" else 4,))
    assert f"all_reduce: in_network needs a topology with in_network_reduction, and dimension 0 ({topology}) has none" in str(caught.value)
    assert "in_network_reduction = true" in str(caught.value)
