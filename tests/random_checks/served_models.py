"""Random fleets of several models on pools of their own, against the fleet of each model alone with its own requests."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

from astra_sim_serving import serve
from astra_sim_serving.result import ServingResult
from serving.cases import EXPERTS, RING, TINY, case, check_conserved

IN_TESTS = 10
IN_NIGHTLY = 400

_COMPARED = ("requests", "ttft_s", "tpot_s", "itl_s", "e2e_s", "queue_s", "kv", "explanation", "speculation", "lora")
_OF_REQUEST = ("request", "instance", "prefill_instance", "model")
"""Columns of a request that are numbers of the whole fleet."""


def random_pools(random: Random, model: str) -> list[dict[str, Any]]:
    """The pools of a model."""
    roles = ["prefill", "decode"] if random.random() < 0.3 else ["both"] * random.choice([1, 1, 2])
    pools = []
    for role in roles:
        pool: dict[str, Any] = {"role": role, "model": model, "instances": random.randint(1, 3)}
        if random.random() < 0.3:
            pool["max_sequences"] = random.randint(1, 4)
        if role == "both" and random.random() < 0.4:
            pool |= random.choice([{"tensor_parallel": 2}, {"pipeline_parallel": 2}, {"data_parallel": 2}])
        pools.append(pool)
    return pools


def random_fleet(random: Random) -> dict[str, Any]:
    """A fleet of one to three models. Its router and its drafts do not depend on the numbers of requests and instances."""
    names = ["chat", "code", "embed"][: random.randint(1, 3)]
    pools = [pool for name in names for pool in random_pools(random, name)]
    random.shuffle(pools)
    serving: dict[str, Any] = {
        "models": {name: {"dimensions": {**random.choice([TINY, EXPERTS]), "layers": random.randint(2, 5)}} for name in names},
        "pool": pools,
        "kv_blocks": random.choice([20, 200]),
        "max_sequences": random.choice([2, 8]),
        "max_batched_tokens": random.choice([32, 256]),
        "jumps": random.random() < 0.5,
        "router": {"policy": random.choice([None, "round-robin", "least-requests", "least-tokens", "least-kv", "prefix"])},
        "transfer": {"bandwidth_gb_per_s": 1.0, "mode": random.choice(["after", "layerwise"])},
        "slo": {"ttft_ms": 5.0},
    }
    if random.random() < 0.5:
        serving["gpu_hour_usd"] = 2.0
    if serving["router"]["policy"] is None:
        del serving["router"]
    if random.random() < 0.2:
        serving["speculative"] = {"tokens": 2, "acceptance": 1.0}
    if random.random() < 0.2:
        serving["lora"] = {"adapters": 1}
    if random.random() < 0.3:
        policy, target = random.choice([("queue", 2), ("kv", 0.3), ("rate", 50.0)])
        serving["autoscale"] = {"policy": policy, "target": target, "period_s": 0.01, "cold_start_s": 0.005}
    table = case(**serving)
    del table["serving"]["model"]
    table["platform"] = {**RING, "size": 32}
    return table


def random_requests(random: Random, names: list[str]) -> list[dict[str, Any]]:
    """Requests in order of arrival, of which the first for each model arrive at once."""
    rate = 10 ** random.uniform(1, 4)
    now, result = 0.0, []
    for number in range(random.randint(len(names), 60)):
        if number >= len(names):
            now += random.expovariate(rate)
        name = names[number] if number < len(names) else random.choice(names)
        result.append({"arrival_s": now, "input": random.randint(1, 150), "output": random.randint(1, 20), "model": name})
    return result


def alone(table: Mapping[str, Any], name: str, trace: str) -> dict[str, Any]:
    """The experiment of a model's pools alone."""
    result = copy.deepcopy(dict(table))
    serving = result["serving"]
    serving["model"] = serving.pop("models")[name]
    pools = [pool for pool in serving["pool"] if pool["model"] == name]
    serving["pool"] = [{key: value for key, value in pool.items() if key != "model"} for pool in pools]
    serving["requests"] = {"trace": trace}
    return result


def of_requests(result: ServingResult, name: str | None = None) -> list[dict[str, Any]]:
    """The rows of the requests for a model, without what is numbered in the whole fleet."""
    rows = [row for row in result.rows() if name is None or row["model"] == name]
    return [{key: value for key, value in row.items() if key not in _OF_REQUEST} for row in rows]


def check(seed: int, folder: Path) -> list[str]:
    """A fleet, the same again, and each of its models alone."""
    random = Random(seed)
    table = random_fleet(random)
    names = list(table["serving"]["models"])
    requests = random_requests(random, names)
    (folder / "all.jsonl").write_text("".join(json.dumps(each) + "\n" for each in requests))
    table["serving"]["requests"] = {"trace": str(folder / "all.jsonl")}
    result = serve(copy.deepcopy(table))
    document = result.document()
    wrong = []
    if json.dumps(document) != json.dumps(serve(copy.deepcopy(table)).document()):
        wrong.append("the same experiment gives another document")
    try:
        check_conserved(result)
    except AssertionError as error:
        wrong.append(f"not conserved: {str(error)[:300]}")
    for name in names:
        trace = folder / f"{name}.jsonl"
        trace.write_text("".join(json.dumps(each) + "\n" for each in requests if each["model"] == name))
        by_itself = serve(alone(table, name, str(trace)))
        if of_requests(result, name) != of_requests(by_itself):
            wrong.append(f"requests for {name} are served in other times than by its pools alone")
        ours, other = document["models"][name], by_itself.document()
        wrong += [f"{key} of {name} is {ours[key]}, alone {other[key]}" for key in _COMPARED if ours.get(key) != other.get(key)]
    sums = [("requests", "arrived"), ("requests", "finished"), ("throughput", "output_tokens_s"), ("goodput", "requests_s")]
    for keys in [*sums, *([("cost", "usd")] if "cost" in document else [])]:
        total = sum(document["models"][name][keys[0]][keys[1]] for name in names)
        if abs(total - document[keys[0]][keys[1]]) > 1e-9 * total:
            wrong.append(f"{'.'.join(keys)} of all models is {total}, of the fleet {document[keys[0]][keys[1]]}")
    return [f"{table}: {line}" for line in wrong]
