"""Random small runs of the workload `llm`: all kinds of models, schedules and parallelisms, on platforms of one to three dimensions."""

from __future__ import annotations

import math
from random import Random
from typing import Any

LATENT = {"query_rank": 32, "key_value_rank": 16, "nope": 16, "rope": 8, "value": 16}


def experiment(random: Random, most_npus: int = 32) -> dict[str, Any]:
    """Arguments of `astra_sim.simulate`. They fit together in nearly all cases; where they do not, the run is refused."""
    mode = random.choice(["train"] * 6 + ["prefill", "decode"])
    pipeline = random.choice((1, 2, 2, 3, 4))
    tensor = random.choice((1, 2, 2, 4)) if pipeline < 4 else random.choice((1, 2))
    context = random.choice((1, 1, 1, 2)) if mode != "decode" else 1
    data = random.choice((1, 2, 2, 3, 4))
    while pipeline * tensor * context * data > most_npus:
        data, context, tensor = (data - 1, context, tensor) if data > 1 else (1, 1, tensor if context > 1 else tensor // 2)
    npus = pipeline * tensor * context * data
    model = _model(random)
    workload: dict[str, Any] = {
        "plugin": "llm",
        "model": model,
        "mode": mode,
        "tensor_parallel": tensor,
        "pipeline_parallel": pipeline,
        "context_parallel": context,
        "precision": random.choice(("fp16", "bf16", "fp8", "mxfp8")),
        "detail": random.choice(("kernel", "layer", "layer", "pass")),
        "check_memory": False,
    }
    if context > 1:
        workload["context"] = random.choice(("ring", "ulysses"))
    if mode != "decode" and workload.get("context") != "ring":
        workload["attention"] = random.choice(("flash", "unfused"))
    if not model.get("experts"):
        workload["sequence_parallel"] = random.choice((True, False)) if tensor > 1 and mode != "decode" else None
    else:
        _experts(random, workload, model, tensor * context * data)
    micro_batches = random.choice((1, 2, 3, 4, 5, 8))
    if mode == "train":
        micro_batches = _training(random, workload, pipeline, micro_batches, data * context, model)
    elif mode == "decode":
        workload["decode_tokens"] = random.choice((1, 2, 3))
        workload["kv_length"] = random.choice((None, 100))
    workload["micro_batch"] = random.choice((1, 2))
    workload["global_batch"] = workload["micro_batch"] * micro_batches * data
    chunks = pipeline * (2 if workload.get("schedule") == "zb-v" else workload.get("virtual_stages", 1))
    model["layers"] = chunks * random.choice((1, 1, 2))
    workload["stages"] = "even"
    if random.random() < 0.3:
        workload["stages"] = random.choice(("weighted", "embedding_as_layer"))
        model["layers"] += random.choice((0, 1)) if workload["stages"] == "weighted" else 0
    elif random.random() < 0.3:
        counts = [model["layers"] // chunks] * chunks
        if chunks > 1 and counts[0]:
            counts[0] -= 1
            counts[-1] += 1
        workload["stages"] = counts
    model["dense_layers"] = random.choice((0, 1)) if model.get("experts") else 0
    workload = {key: value for key, value in workload.items() if value is not None}
    device = "h100" if workload["precision"] in ("fp8", "mxfp8") else "a100-80"
    system: dict[str, Any] = {"plugin": random.choice(("astra1", "astra2", "astra2"))}
    if random.random() < 0.3:
        system["splits"] = random.choice((2, 3))
    if random.random() < 0.2:
        system["scheduling_policy"] = "fifo"
    network = {"plugin": "analytical"} if random.random() < 0.7 else {"plugin": "analytical", "congestion": "aware"}
    arguments = {
        "platform": _platform(random, npus),
        "network": network,
        "system": system,
        "compute": random.choice((f"plugin:gpu?device={device}", {"plugin": "roofline", "peak_tera_ops_per_s": 20})),
        "workload": workload,
        "passes": random.choice((1, 1, 2)),
    }
    _kernels(random, workload, bool(model.get("experts")))
    if random.random() < 0.2:
        arguments["compute"] = {"plugin": "gpu", "device": device, "stack": {"launch_us": random.choice((1.0, 30.0))}}
        graphs = ("none", "attention", "iteration", *(("router",) if model.get("experts") else ()))
        workload["cuda_graphs"] = random.choice(graphs)
    if workload["mode"] == "train":
        _ends(random, workload, npus, bool(model.get("experts")))
        workload |= {"lora": _lora(random, model)} if random.random() < 0.15 else {}
    return arguments


def _ends(random: Random, workload: dict[str, Any], npus: int, experts: bool) -> None:
    """What follows the passes."""
    fixed = workload["tensor_parallel"] * workload["pipeline_parallel"] * workload.get("context_parallel", 1)
    if npus > fixed and random.random() < 0.3:
        workload["scatter"] = random.choice((0.025, 0.1))
    overlap = workload["overlap"]
    if workload.get("zero") in (1, 2) and not experts and not overlap.get("gathers", overlap.get("dp")):
        workload["update"] = random.choice(("gather", "broadcast"))


def _lora(random: Random, model: dict[str, Any]) -> dict[str, Any]:
    """Adapters of some of the products that may have them."""
    possible = ["projection"] + ([] if "mla" in model else ["qkv"]) + ([] if model.get("experts") else ["fc1", "fc2"])
    return {"rank": random.choice((1, 4, 16)), "targets": sorted(random.sample(possible, random.randint(1, len(possible))))}


def _kernels(random: Random, workload: dict[str, Any], experts: bool) -> None:
    """Which kernels are fused, and how gradients and tokens are sent."""
    training = workload["mode"] == "train"
    workload["fused_loss"] = training and random.random() < 0.3
    if workload.get("zero") in (1, 2):
        workload["reduction"] = random.choice(("shards", "shards", "all"))
        if random.random() < 0.3:
            workload["overlap"]["gathers"] = random.choice((True, False))
    if workload.get("zero") in (2, 3):
        workload["accumulation"] = random.choice(("shards", "shards", "whole"))
    if experts:
        workload["fused_experts"] = random.choice((True, False))
        workload["dispatch"] = random.choice(("experts", "ranks", "nodes")) if workload["expert_parallel"] > 1 else "experts"
    if workload["precision"] in ("fp8", "mxfp8") and workload.get("attention") != "unfused":
        workload["fp8_attention"] = random.choice((True, False))


def _model(random: Random) -> dict[str, Any]:
    """A model with heads and widths that up to four tensor ranks share, perhaps with experts."""
    model: dict[str, Any] = {
        "layers": 1,
        "hidden": random.choice((64, 128)),
        "heads": 8,
        "vocab": random.choice((100, 256)),
        "sequence": random.choice((32, 64)),
    }
    model["kv_heads"] = random.choice((None, 1, 2, 4, 8))
    model["gated"] = random.choice((True, False))
    model["tied"] = random.choice((True, False))
    model["biases"] = random.choice((True, False))
    model["dropout"] = random.choice((True, False))
    model["learned_positions"] = random.choice((True, False))
    if random.random() < 0.2:
        model["mla"] = LATENT
        model["kv_heads"] = None
    if random.random() < 0.35:
        model |= {"experts": random.choice((4, 8)), "top_k": random.choice((1, 2)), "expert_ffn": 64}
        model["shared_experts"] = random.choice((0, 1))
        model["expert_biases"] = random.choice((False, False, True))
    if random.random() < 0.2:
        model["mtp_layers"] = random.choice((1, 2))
    return {key: value for key, value in model.items() if value is not None}


def _experts(random: Random, workload: dict[str, Any], model: dict[str, Any], ranks: int) -> None:
    expert = random.choice([one for one in (1, 2, 4, 8) if ranks % one == 0 and model["experts"] % one == 0])
    workload["expert_parallel"] = expert
    tensors = [one for one in (1, 2, 4) if ranks % (expert * one) == 0]
    workload["expert_tensor_parallel"] = (
        random.choice([None, *tensors]) if workload["tensor_parallel"] in tensors else random.choice(tensors)
    )
    workload["expert_skew"] = random.choice((None, 1.5))
    workload["capacity_factor"] = random.choice((None, None, 1.25)) if workload["expert_skew"] is None else None
    workload["node_limit"] = random.choice((None, None, 1)) if expert > 1 else None


def _training(random: Random, workload: dict[str, Any], pipeline: int, micro_batches: int, replicas: int, model: dict[str, Any]) -> int:
    """Options of training. Returns the micro-batches that fit the schedule."""
    schedules = ["gpipe", "1f1b", "zb-h1"] + (["interleaved", "zb-v"] if pipeline > 1 else [])
    schedules += ["dualpipe"] if pipeline % 2 == 0 and not model.get("mtp_layers") else []
    schedule = random.choice(schedules)
    workload["schedule"] = schedule
    if schedule == "interleaved":
        workload["virtual_stages"] = random.choice((2, 3))
        micro_batches = pipeline * random.choice((1, 2, 3))
    if schedule == "dualpipe":
        micro_batches = 2 * pipeline + random.choice((0, 2))
    workload["zero"] = random.choice((0, 1, 2, 3) if not schedule.startswith("zb") else (0, 1))
    divisors = [one for one in range(2, replicas + 1) if replicas % one == 0]
    if workload["zero"] and divisors and random.random() < 0.3:
        workload["shard_group"] = random.choice(divisors)
    workload["recompute"] = random.choice(("none", "none", "selective", "full", "full_early_stop", {"layers": 1}))
    workload["gradients"] = random.choice(("fp32", "same"))
    workload["fused_gradients"] = random.choice((True, False))
    overlap: dict[str, Any] = {
        "tp": random.choice(("none", "backward", "userbuffers")),
        "dp": random.choice((True, False)),
        "p2p": random.choice((True, False)),
    }
    if workload.get("expert_parallel", 1) > 1 and schedule in ("1f1b", "interleaved", "dualpipe"):
        overlap["ep"] = random.choice((True, False))
    if overlap["dp"] or overlap.get("ep"):
        overlap["contention"] = random.choice((0.0, 0.3))
    workload["overlap"] = overlap
    return micro_batches


def _platform(random: Random, npus: int) -> Any:
    """A platform of a number of NPUs: nodes around a switch, or one to three dimensions."""
    if random.random() < 0.4:
        inner = random.choice([one for one in range(1, 9) if npus % one == 0])
        return f"plugin:dgx_a100?nodes={npus // inner}&gpus={inner}"
    sizes: list[int] = []
    for _ in range(random.choice((0, 1, 2))):
        left = npus // math.prod(sizes)
        divisors = [one for one in range(2, left + 1) if left % one == 0]
        if divisors:
            sizes.append(random.choice(divisors))
    sizes.append(npus // math.prod(sizes))
    return {"dimensions": [_dimension(random, size) for size in sizes]}


def _dimension(random: Random, size: int) -> dict[str, Any]:
    topology = random.choice(("ring", "fully_connected", "switch"))
    links = {"ring": 2, "switch": 1}.get(topology, max(1, size - 1))
    bandwidth, latency = random.choice((3, 25, 100)), random.choice((0, 30, 500))
    return {"topology": topology, "size": size, "links": links, "link_bandwidth_gib_per_s": bandwidth, "link_latency_ns": latency}
