"""Algorithms that run over the whole platform, where only a part of its dimensions is involved."""

from __future__ import annotations

from typing import Any

import astra_sim
import pytest

EXCHANGE = {"compute_ns": 10, "collective": "all_reduce", "collective_bytes": 4096}
PASSES = ("forward", "input_gradient", "weight_gradient")


def simulate(loop: str, system: str, **more: Any) -> astra_sim.Result:
    return astra_sim.simulate(
        workload={"plugin": "layers", "loop": loop, "layers": [{"name": "l", **dict.fromkeys(PASSES, EXCHANGE)}]},
        platform="plugin:torus?sizes=4,4&link_bandwidth_gb_per_s=1&link_latency_ns=100",
        system=f"plugin:{system}?all_reduce=one_ring",
        **more,
    )


@pytest.mark.parametrize("symmetry", [True, False])
@pytest.mark.parametrize("system", ["astra1", "astra2"])
@pytest.mark.parametrize("loop", ["hybrid_data_model", "hybrid_model_data"])
def test_dimensions_without_the_first_are_an_error(loop: str, system: str, symmetry: bool) -> None:
    """It takes the place of the first dimension; nothing would be sent in the others."""
    match = r"operation \d+ .*: one_ring runs over the whole platform, and only dimensions \[1\] are involved, not dimension 0"
    with pytest.raises(astra_sim.InputError, match=match):
        simulate(loop, system, symmetry=symmetry)


@pytest.mark.parametrize("system", ["astra1", "astra2"])
def test_all_dimensions_are_right(system: str) -> None:
    result = simulate("data", system)
    assert sum(dimension.bytes for dimension in result.dimensions) > 0


def test_after_algorithms_of_the_first_dimensions() -> None:
    """What follows them takes the place of the next."""
    experiment: dict[str, Any] = {
        "workload": {
            "plugin": "layers",
            "loop": "hybrid_transformer",
            "loop_options": {"model_parallel_npus": 4},
            "layers": [{"name": "l", **dict.fromkeys(PASSES, EXCHANGE)}],
        },
        "platform": "plugin:torus?sizes=2,2,4&link_bandwidth_gb_per_s=1&link_latency_ns=100",
        "system": {"plugin": "astra1", "all_reduce": ["ring", "one_ring"]},
    }
    with pytest.raises(astra_sim.InputError, match=r"one_ring runs .*, and only dimensions \[2\] are involved, not dimension 1"):
        astra_sim.simulate(**experiment)
