"""A measured server: the same requests, kernels from tables, nothing fitted. The procedure: validation/serving.md."""

from __future__ import annotations

from typing import Any

import pytest
from astra_sim_serving.comparison import compare
from astra_sim_serving.serving import ServingExperiment
from support import ROOT

RUN = "RTXPRO6000/Llama-3.1-8B"
REFERENCE = ROOT.parent / "shared" / "reference"
BOUNDS = {"ttft": 0.06, "tpot": 0.03, "e2e": 0.04, "makespan": 0.03}


def test_a_measured_server_of_an_8b_model() -> None:
    requests, tables = (str(REFERENCE / name) for name in ("serving.jsonl", "serving-profiles.jsonl"))
    if not REFERENCE.exists():
        pytest.skip("the measured requests are not beside the project")
    experiment: dict[str, Any] = {
        "serving": {
            "max_sequences": 128,
            "max_batched_tokens": 2048,
            "block_tokens": 16,
            "memory_gib": 96,
            "model": {"name": "llama-3.1-8b"},
            "requests": {"arrival": "trace", "trace": requests, "run": RUN},
        },
        "compute": {"tables": tables, "run": RUN},
    }
    result, errors = compare(ServingExperiment(experiment), requests)
    assert len(result.sequences) == 300
    means = {row["metric"]: row["error"] for row in errors["rows"] if row["statistic"] in ("mean", "")}
    assert set(means) == set(BOUNDS)
    for metric, bound in BOUNDS.items():
        assert abs(means[metric]) < bound, (metric, means)
    assert errors["per_request"]["e2e"] < 0.04
    page = (ROOT / "validation" / "serving.md").read_text()
    assert f"| TPOT, mean (ms) | 32.46 | 32.67 | {100 * means['tpot']:+.1f} % |" in page
