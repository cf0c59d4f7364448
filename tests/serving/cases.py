"""Small servers for tests."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from astra_sim_serving import serve
from astra_sim_serving.result import ServingResult

TINY = {"layers": 2, "hidden": 64, "heads": 4, "kv_heads": 2, "ffn": 128, "gated": True, "vocab": 256}
EXPERTS = {**TINY, "layers": 3, "dense_layers": 1, "experts": 8, "top_k": 2, "expert_ffn": 32}
SHARING: dict[str, dict[str, Any]] = {
    "aware": {"plugin": "analytical", "congestion": "aware", "switching": "cut_through"},
    "flow": {"plugin": "flow", "tolerance": 0},
    "roce": {"plugin": "roce"},
    "packet": {"plugin": "packet"},
}
"""Networks on which messages wait for each other."""
RING = {"plugin": "ring", "links": 2, "link_bandwidth_gb_per_s": 10, "link_latency_ns": 1000}


def case(**serving: Any) -> dict[str, Any]:
    """An experiment of a tiny model on the roofline model, with these options of the section serving."""
    table: dict[str, Any] = {"model": {"dimensions": TINY}, "kv_blocks": 200, "requests": {"rate": 100.0, "count": 50}}
    table.update(copy.deepcopy(serving))
    compute = {"plugin": "roofline", "peak_tera_ops_per_s": 0.01, "memory_bandwidth_gb_per_s": 1.0}
    return {"serving": table, "compute": compute}


def run(**serving: Any) -> ServingResult:
    """Run such an experiment."""
    return serve(case(**serving))


def check_conserved(result: ServingResult) -> None:
    """What must hold of every run: requests add up, nothing is before its cause, causes add up to the whole."""
    from astra_sim_serving.explanation import tpot_causes, ttft_causes

    document = result.document()
    requests = document["requests"]
    assert requests["arrived"] == requests["finished"] + requests["shed"] + requests["unfinished"]
    assert requests["unfinished"] == 0
    for each in result.sequences:
        if each.shed:
            assert (each.scheduled, each.first_token, each.generated) == (-1.0, -1.0, 0)
            continue
        assert each.is_done
        assert each.generated == each.request.output
        assert each.request.arrival <= each.scheduled < each.first_token <= each.last_token
        assert (each.first_token == each.last_token) == (each.generated == 1)
        assert close(sum(ttft_causes(each, result.front_end_s)), result.ttft(each))
        tpot = result.tpot(each)
        if tpot is not None:
            assert close(sum(tpot_causes(each)), tpot)
    for instance in result.instances:
        instance.scheduler.cache.check([])
        assert not instance.scheduler.running
        assert not instance.scheduler.waiting
        assert instance.coming == 0
        assert close(sum(instance.totals.parts), instance.totals.busy_s)
    gaps = sum(result.gaps.counts.values())
    assert gaps == sum(each.generated - 1 for each in result.sequences if each.generated)


def close(first: float, second: float) -> bool:
    """Whether two times are equal but for rounding."""
    return abs(first - second) <= 1e-9 + 1e-9 * abs(second)


def flat(document: Mapping[str, Any]) -> dict[str, Any]:
    """Latencies of a document by name and statistic."""
    keys = ("ttft_s", "tpot_s", "itl_s", "e2e_s", "queue_s")
    return {f"{key}.{statistic}": value for key in keys for statistic, value in (document[key] or {}).items()}
