"""The workload `llm` on all networks, and with the compute models that price its kernels."""

from __future__ import annotations

from typing import Any

import pytest

from llm.runs import EXPERTS, MODEL, ROOFLINE, platform, run

TINY = MODEL | {"layers": 2}
CASES: dict[str, dict[str, Any]] = {
    "stages": {"pipeline_parallel": 2, "tensor_parallel": 2},
    "chunks": {"pipeline_parallel": 2, "virtual_stages": 2, "model": MODEL},
    "replicas": {"zero": 3, "overlap": {"dp": True}},
    "experts": {"model": EXPERTS | {"layers": 2}, "expert_parallel": 2},
    "tokens": {"mode": "decode", "decode_tokens": 2, "pipeline_parallel": 2},
}
NETWORKS: dict[str, Any] = {
    "plugin:analytical": {},
    "plugin:analytical?congestion=aware": {},
    "plugin:packet": {"scheduling_policy": "fifo"},
}


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("case", CASES)
def test_a_tiny_model_runs_on_every_network(case: str, network: str) -> None:
    ring = {"topology": "ring", "size": 4, "links": 2, "link_bandwidth_gb_per_s": 16, "link_latency_ns": 100}
    arguments = {"network": network, "system": {"plugin": "astra2"} | NETWORKS[network]}
    result = run({"dimensions": [ring]}, arguments, **{"model": TINY, "global_batch": 8} | CASES[case])
    assert sum(result.breakdown.values()) == pytest.approx(result.iteration_s)
    assert result.breakdown["compute"] > 0
    assert result.iteration_s > 0


@pytest.mark.parametrize("precision", ["fp16", "bf16", "fp8", "mxfp8"])
@pytest.mark.parametrize("compute", ["plugin:gpu?device=h100", ROOFLINE])
def test_compute_models_price_all_kernels(compute: Any, precision: str) -> None:
    model = EXPERTS | {"mla": {"query_rank": 32, "key_value_rank": 16, "nope": 16, "rope": 8, "value": 8}, "mtp_layers": 1}
    result = run(4, {"compute": compute}, model=model, precision=precision, tensor_parallel=2, expert_parallel=2)
    assert result.breakdown["compute"] > 0
    assert 0 < result.mfu < 1


def test_more_bandwidth_is_never_slower() -> None:
    slow, fast = (run(platform(2, 4, latency_ns=latency), tensor_parallel=2, pipeline_parallel=2) for latency in (1000, 10))
    assert fast.iteration_s < slow.iteration_s
