"""Random small runs of the workload `llm`: what must hold for all models, schedules and parallelisms."""

from __future__ import annotations

import copy
import warnings
from random import Random
from typing import Any

import astra_sim
import pytest
from support import figures
from support.llm_experiments import experiment

REFUSED = 0.05
"""At most this number of the experiments may be refused, or get stuck in queues that NPUs out of step serve in different orders."""


def _run(arguments: dict[str, Any], detail: str | None = None, **more: Any) -> Any:
    result = copy.deepcopy(arguments) | more
    if detail is not None:
        result["workload"]["detail"] = detail
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return astra_sim.simulate(**result)


def _runs(seeds: range, most_npus: int) -> list[tuple[int, dict[str, Any], Any]]:
    """Those experiments of some seeds that can be run, with their results."""
    result = []
    for seed in seeds:
        arguments = experiment(Random(seed), most_npus)
        try:
            result.append((seed, arguments, _run(arguments)))
        except (astra_sim.InputError, astra_sim.DeadlockError):
            continue
    assert len(result) >= (1 - REFUSED) * len(seeds)
    return result


@pytest.mark.parametrize("first", range(0, 120, 20))
def test_symmetry_changes_no_figure(first: int) -> None:
    runs = _runs(range(first, first + 20), 24)
    for seed, arguments, short in runs:
        assert figures(short) == figures(_run(arguments, symmetry=False)), seed
    assert sum(short.simulated_npus < short.npus for _, _, short in runs) >= 5


@pytest.mark.parametrize("first", range(200, 260, 20))
def test_engines_agree(first: int) -> None:
    for seed, arguments, compiled in _runs(range(first, first + 20), 8):
        assert figures(compiled) == figures(_run(arguments, engine="python")), seed


@pytest.mark.parametrize("first", range(300, 420, 20))
def test_time_is_divided_among_what_it_belongs_to(first: int) -> None:
    for seed, arguments, result in _runs(range(first, first + 20), 24):
        assert sum(result.breakdown.values()) == pytest.approx(result.iteration_s, rel=1e-9), seed
        assert min(result.breakdown.values()) >= 0, seed
        assert result.iteration_s == pytest.approx(result.finish_ns / 1e9 / arguments["passes"]), seed
        assert 0 <= result.bubble_share <= 1, seed
        assert result.tokens_per_s_per_gpu * result.npus == pytest.approx(result.tokens_per_s), seed


@pytest.mark.parametrize("first", range(500, 620, 40))
def test_details_agree(first: int) -> None:
    """Kernels between two exchanges can be one operation; passes can where nothing else is in the way of their exchanges."""
    passes = 0
    for seed, arguments, _ in _runs(range(first, first + 40), 16):
        kernel, layer, one = (_run(arguments, detail) for detail in ("kernel", "layer", "pass"))
        assert kernel.finish_ns == layer.finish_ns, seed
        assert kernel.breakdown == pytest.approx(layer.breakdown, abs=1e-15), seed
        if _passes_are_alone(arguments, layer):
            passes += 1
            assert one.finish_ns == layer.finish_ns, seed
            assert one.breakdown == pytest.approx(layer.breakdown, rel=1e-9, abs=1e-15), seed
    assert passes >= 6


def _passes_are_alone(arguments: dict[str, Any], layer: Any) -> bool:
    """Whether the exchanges of a pass meet no others: nothing runs on after a pass, no links are shared, and no NPU is out of step."""
    overlap = arguments["workload"].get("overlap", {})
    return not overlap.get("dp") and "congestion" not in arguments["network"] and layer.simulated_npus < layer.npus
