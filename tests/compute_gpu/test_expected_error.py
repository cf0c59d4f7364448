"""The expected error of an iteration: from published runs that are like it."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import astra_sim
import pytest
from astra_sim import PluginError
from astra_sim.command import cli
from astra_sim.compute import Compute, ExpectedError, Work
from astra_sim_compute_gpu import expected_error as model
from click.testing import CliRunner

BASE: dict[str, Any] = {
    "parameters": 7e10,
    "experts": 0,
    "sequence": 8192,
    "global_batch": 512,
    "micro_batch": 1,
    "precision": "bf16",
    "zero": 1,
    "recompute": "none",
    "tensor_parallel": 4,
    "pipeline_parallel": 4,
    "context_parallel": 1,
    "expert_parallel": 1,
}
WORKLOAD = "plugin:llm?model=llama3-8b&global_batch=32&tensor_parallel=4&detail=pass"


def known(stack: str = "bridge-h100", npus: int = 256, **given: Any) -> ExpectedError:
    result = model.expected_error(stack, model.configuration_of("h100", npus, BASE | given))
    assert result is not None
    return result


def test_it_is_a_weighted_quantile() -> None:
    """Far from all rows each counts the same; at a row, those beside it count."""
    far = known(npus=2**40)
    sizes = sorted(abs(row.error) for row in model.residuals("bridge-h100") if row.half != model.FIT)
    assert far.near < 1e-6
    assert far.within in sizes
    assert sum(size <= far.within for size in sizes) == math.ceil(model.SHARE * (len(sizes) + 1))
    assert known().near > 1
    assert known().within < far.within


def test_it_covers_new_runs_of_the_same_kind() -> None:
    """Of n rows and one more that are alike, four in five lie within the expected error of the others, however few they are."""
    configuration = model.configuration_of("h100", 256, BASE)
    draw = random.Random(5)
    within = 0
    for _ in range(2000):
        errors = [draw.gauss(0, 0.05) for _ in range(8)]
        rows = [model.Residual("mine", "held_out", "", "", configuration, error) for error in errors[1:]]
        found = model.expected_error("mine", configuration, rows)
        assert found is not None
        within += abs(errors[0]) <= found.within
    assert 0.8 <= within / 2000 < 0.8 + 1 / 8 + 0.02


def test_what_was_never_measured_is_said() -> None:
    assert known().extrapolates == ()
    assert known(npus=100_000).extrapolates[0] == "NPUs"
    assert "sequence" in known(sequence=2**20).extrapolates
    assert "precision" in known("llm-foundry-h100", precision="fp8").extrapolates


def test_experts_and_shards_are_far_from_dense_models() -> None:
    assert known(experts=128, expert_parallel=8).near < known().near / 4
    assert "experts" in known(experts=128, expert_parallel=8).extrapolates
    assert "experts" not in known("bridge-moe-26.04", experts=128, expert_parallel=8).extrapolates


def test_runs_that_are_near_are_named() -> None:
    (first, *_) = known(npus=64).nearest
    assert first == "nemo-25.02: LLAMA3.1-70B, 64 H100"


def test_a_stack_without_published_runs_has_none() -> None:
    assert model.expected_error("mine", model.configuration_of("h100", 8, BASE)) is None


def test_a_result_and_its_summary_have_it(tmp_path: Path) -> None:
    result = astra_sim.simulate(platform="plugin:dgx_h100", compute="plugin:gpu", workload=WORKLOAD)
    basis = result.to_dict()["expected_error_basis"]
    assert result.expected_error == basis["within"]
    assert basis["share"] == model.SHARE
    assert basis["extrapolates"][-1] == "network"
    nccl = astra_sim.simulate(platform="plugin:dgx_h100", network="plugin:analytical?model=nccl", compute="plugin:gpu", workload=WORKLOAD)
    assert nccl.to_dict()["expected_error_basis"] == basis | {"extrapolates": basis["extrapolates"][:-1]}
    arguments = ["--platform", "plugin:dgx_h100", "--compute", "plugin:gpu", "--workload", WORKLOAD]
    printed = CliRunner().invoke(cli.astra, arguments).output
    assert f"expected error {100 * result.expected_error:.1f} %" in " ".join(printed.split()).replace("error  ", "error ")


@pytest.mark.parametrize("given", ["stack=mine.toml", "device=mine.toml"])
def test_a_device_or_stack_of_ones_own_has_none(given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = "gemm_share = 0.7\n" if given.startswith("stack") else 'based_on = "h100"\ncalibrated = true\n'
    (tmp_path / "mine.toml").write_text(text)
    result = astra_sim.simulate(platform="plugin:dgx_h100", compute=f"plugin:gpu?{given}", workload=WORKLOAD)
    assert result.expected_error is None
    assert json.loads(json.dumps(result.to_dict()))["expected_error"] is None


class Wrong(Compute):
    """Says nonsense of its error."""

    def duration_ns(self, work: Work) -> float:
        return 1.0

    def expected_error(self, npus: int, configuration: Any) -> Any:
        return 0.1


def test_a_model_that_answers_something_else_is_an_error() -> None:
    with pytest.raises(PluginError, match=r"expected_error.*0\.1.*expected an ExpectedError, or None"):
        astra_sim.simulate(platform="plugin:dgx_h100", compute=Wrong(), workload=WORKLOAD)
