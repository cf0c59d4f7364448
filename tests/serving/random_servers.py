"""Random servers and loads."""

from __future__ import annotations

import random
from typing import Any

from astra_sim_serving.routers import ROUTERS

from serving.cases import EXPERTS, RING, case


def add_models(draw: random.Random, result: dict[str, Any]) -> None:
    """Let windows, experts that are chosen unevenly, drafts or adapters be there."""
    if draw.random() < 0.2:
        dimensions = result["serving"]["model"]["dimensions"]
        result["serving"]["model"] = {
            "dimensions": {**dimensions, "window": draw.choice([1, 20, 60]), "full_interval": draw.choice([0, 2])}
        }
    if "experts" in result["serving"]["model"]["dimensions"] and draw.random() < 0.3:
        result["serving"]["model"]["expert_power"] = draw.choice([1.01, 1.2])
    if draw.random() < 0.3:
        result["serving"]["speculative"] = {
            "tokens": draw.randint(1, 5), "acceptance": draw.choice([0.0, 0.6, 1.0]), "draft": draw.choice(["ngram", "mtp"]),
        }  # fmt: skip
    if draw.random() < 0.4:
        lora = result["serving"]["lora"] = {"adapters": draw.randint(1, 6), "rank": 4, "share": draw.choice([0.5, 1.0])}
        if "engine" not in result["serving"]:
            lora["max_loras"] = draw.randint(1, 3)


def random_case(seed: int) -> dict[str, Any]:
    """A random server and load: small caches, so that sequences are preempted, prompts shed, and beginnings shared."""
    draw = random.Random(seed)
    arrival = draw.choice(["poisson", "gamma", "constant", "closed", "burst", "stages"])
    rate = draw.choice([1.0, 30.0, 1000.0])
    requests: dict[str, Any] = {
        "arrival": arrival,
        "count": 40,
        "input": draw.choice(
            [5, {"distribution": "uniform", "low": 1, "high": 90}, {"distribution": "lognormal", "mean": 30, "sigma": 1.0}]
        ),
        "output": draw.choice([1, {"distribution": "uniform", "low": 1, "high": 60}]),
    }
    if arrival in ("poisson", "gamma", "constant"):
        requests["rate"] = rate
    if arrival == "gamma":
        requests["cv"] = draw.choice([0.5, 3.0])
    if arrival == "closed":
        requests["concurrency"] = draw.randint(1, 9)
    if arrival == "stages":
        requests["stages"] = [{"rate": rate, "duration_s": 20 / rate}, {"rate": 3 * rate, "duration_s": 10 / rate}]
    if draw.random() < 0.5:
        requests["prefix"] = {"groups": draw.randint(1, 3), "tokens": draw.randint(1, 40)}
    by_priority = draw.random() < 0.3
    if by_priority:
        requests["priorities"] = [0, 2, 1]
    split = draw.random() < 0.3
    shared = {
        "tensor_parallel": draw.choice([1, 1, 2]),
        "data_parallel": draw.choice([1, 1, 2, 3]),
        "pipeline_parallel": draw.choice([1, 1, 2]),
    }
    pools = [{"role": "prefill", "instances": draw.randint(1, 2)}, {"role": "decode", "instances": draw.randint(1, 2)}]
    result = case(
        kv_blocks=draw.choice([10, 30, 200]),
        block_tokens=draw.choice([1, 4, 16]) if draw.random() < 0.7 else 16,
        max_sequences=draw.choice([1, 3, 16]),
        max_batched_tokens=draw.choice([8, 64, 512]),
        max_prefill_tokens=draw.choice([0, 0, 7]),
        prefix_caching=draw.random() < 0.8,
        priorities=by_priority,
        jumps=draw.random() < 0.5,
        seed=seed,
        requests=requests,
        pool=pools if split else [{"instances": draw.randint(1, 3), **shared}],
        router={"policy": draw.choice(ROUTERS),
                **({"queue_limit": 3} if draw.random() < 0.2 else {})},
        transfer={
            **({"bandwidth_gb_per_s": 0.1} if draw.random() < 0.7 else {}),
            "mode": draw.choice(["after", "layerwise"]),
        },
    )  # fmt: skip
    result["platform"] = {**RING, "size": 36}
    if draw.random() < 0.3:
        policy, target = draw.choice([("queue", 2), ("kv", 0.3), ("rate", rate / 2), ("ttft", 5.0)])
        result["serving"]["autoscale"] = {
            "policy": policy,
            "target": target,
            "period_s": 4 / rate,
            "cold_start_s": draw.choice([0.0, 3 / rate]),
            "down_after_s": 8 / rate,
        }
    if result["serving"]["prefix_caching"] and draw.random() < 0.4:
        result["serving"]["tier"] = [
            {"capacity_gib": 1e-4, "read_gb_per_s": 0.01, "shared": draw.random() < 0.5},
            {"capacity_gib": 1e-3, "read_gb_per_s": 0.001, "latency_us": 1000.0},
        ][: draw.randint(1, 2)]
    engines = [
        "vllm-v0",
        "sarathi",
        "sjf?by=output",
        "edf",
        "orca",
        "trtllm",
        "trtllm?capacity=max-utilization&chunked_context=true",
        "sglang",
    ]
    if not by_priority and draw.random() < 0.5:
        result["serving"]["engine"] = draw.choice(engines)
        if draw.random() < 0.5:
            requests["max_output"] = draw.choice([40, 100])
    if draw.random() < 0.5:
        result["serving"]["model"] = {"dimensions": EXPERTS}
        if not split:
            ranks = shared["tensor_parallel"] * shared["data_parallel"]
            result["serving"]["pool"][0]["expert_parallel"] = draw.choice([n for n in (1, 2, 4) if ranks % n == 0])
            if shared["data_parallel"] > 1:
                result["serving"]["pool"][0]["exchange"] = draw.choice(["gather", "all-to-all"])
    add_models(draw, result)
    if draw.random() < 0.5:
        result["network"] = draw.choice([{"plugin": "analytical", "congestion": "aware"}, {"plugin": "flow"}])
    return result


def plain_case(seed: int) -> dict[str, Any]:
    """The same without what the compiled loop does not have."""
    result, draw = random_case(seed), random.Random(-1 - seed)
    serving = result["serving"]
    for section in ("tier", "lora"):
        serving.pop(section, None)
    (pool, *others) = serving["pool"]
    if others:
        for each in serving["pool"]:
            each["instances"] = draw.randint(1, 4)
    else:
        serving["pool"] = [{"instances": draw.randint(1, 4)}]
        if draw.random() < 0.6:
            serving["pool"][0] |= {key: value for key, value in pool.items() if key != "pipeline_parallel"}
            serving["graph_tokens"] = draw.choice([0, 8, 512])
    is_timed = bool(others) or "autoscale" in serving  # then others would do things for all the time that so large a model takes
    if "speculative" in serving and not is_timed and draw.random() < 0.3:
        serving["speculative"]["draft"] = "llama3-8b"
    serving["seed"] = draw.choice([0, 5, 2**61 + 3])
    if draw.random() < 0.3:
        serving.pop("engine", None)
    if draw.random() < 0.3:
        result["compute"]["front_end_ms"] = 2.0
    if draw.random() < 0.2:
        result["compute"] |= {"host_us": 3000.0, "host_us_per_sequence": 100.0}
        serving["async_scheduling"] = draw.random() < 0.5
    if draw.random() < 0.2:
        serving["max_model_tokens"] = 80
    serving["slo"] = {"ttft_ms": 50.0, "tpot_ms": 5.0}
    return result
