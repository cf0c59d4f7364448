"""ZeRO-1 and 2 with overlap: weights of later chunks are gathered before they are needed."""

from __future__ import annotations

from typing import Any

import astra_sim
import pytest

WORDS = (
    "plugin:llm?model.layers=16&model.hidden=2048&model.heads=16&model.vocab=8192&model.sequence=1024"
    "&global_batch=64&pipeline_parallel=4&overlap.p2p=true"
)


def run(nic: float, **options: Any) -> astra_sim.Result:
    return astra_sim.simulate(
        workload="&".join([WORDS, *(f"{name.replace('__', '.')}={value}" for name, value in options.items())]),
        compute="plugin:gpu?device=h100",
        system="plugin:astra2",
        platform=f"plugin:dgx_h100?nodes=4&nic_gb_s={nic}&nvlink_gb_s={nic}",
    )


@pytest.mark.parametrize("detail", ["kernel", "layer", "pass"])
@pytest.mark.parametrize("zero", [1, 2])
@pytest.mark.parametrize("nic", [1, 5, 50])
def test_overlap_takes_no_longer_than_none(nic: float, zero: int, detail: str) -> None:
    """Each chunk's gather would delay every stage in turn, were it begun in the pass that needs it."""
    options = {"schedule": "interleaved", "virtual_stages": 4, "zero": zero, "detail": detail}
    assert run(nic, **options, overlap__dp="true").iteration_s <= run(nic, **options, overlap__dp="false").iteration_s * 1.001


def test_details_agree() -> None:
    options = {"schedule": "interleaved", "virtual_stages": 4, "zero": 1, "overlap__dp": "true"}
    times = [run(50, **options, detail=detail).iteration_s for detail in ("kernel", "layer", "pass")]
    assert times == pytest.approx([times[0]] * 3, rel=0.01)


def test_several_iterations_take_as_long_each() -> None:
    options = {"schedule": "interleaved", "virtual_stages": 2, "zero": 1, "overlap__dp": "true"}
    common: dict[str, Any] = {
        "workload": "&".join([WORDS, *(f"{name.replace('__', '.')}={value}" for name, value in options.items())]),
        "compute": "plugin:gpu?device=h100",
        "system": "plugin:astra2",
        "platform": "plugin:dgx_h100?nodes=4",
    }
    once, thrice = (astra_sim.simulate(**common, passes=passes) for passes in (1, 3))
    assert thrice.iteration_s == pytest.approx(once.iteration_s, rel=0.2)
    assert thrice.finish_ns == astra_sim.simulate(**common, passes=3, symmetry=False).finish_ns
