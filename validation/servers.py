"""Servers of language models against what was measured: kernels of attention, and whole servers without tables of kernels.

`python -m validation.servers ../shared/reference/serving.jsonl` fits `paged_attention` of devices on half of the lines, and prints errors.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from astra_sim.commands import component, shared_plugins
from astra_sim.shapes import Attention
from astra_sim_compute_gpu.attention import paged_us
from astra_sim_compute_gpu.device import PagedAttentionFit
from astra_sim_compute_gpu.model import Gpu
from astra_sim_serving import serve
from astra_sim_serving.result import ServingResult

DEVICES = {"h100_sxm": "h100", "h200_sxm": "h200", "b200_sxm": "b200", "a100_sxm": "a100-80"}
"""Devices by their names in the tables of kernels."""

GRID = {
    "start_us": (4, 5, 6, 7, 7.5, 8, 8.5, 9, 9.5, 10, 11, 12, 14),
    "wave_us": (0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6),
    "byte_efficiency": (0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95),
}

MODELS: Mapping[str, Mapping[str, Any]] = {
    "meta-llama/Llama-3.1-70B-Instruct": {"name": "llama-3.1-70b"},
    "meta-llama/Llama-2-7b-hf": {"name": "llama-2-7b"},
    "mistralai/Mistral-Nemo-Instruct-2407": {
        "dimensions": {
            "layers": 40, "hidden": 5120, "heads": 32, "kv_heads": 8, "head_dim": 128, "ffn": 14336, "gated": True, "vocab": 131072,
        },
    },
    "Qwen/Qwen2.5-7B-Instruct": {
        "dimensions": {"layers": 28, "hidden": 3584, "heads": 28, "kv_heads": 4, "ffn": 18944, "gated": True, "vocab": 152064},
    },
    "RedHatAI/Llama-4-Scout-17B-16E-Instruct-FP8-dynamic": {
        "dimensions": {
            "layers": 48, "hidden": 5120, "heads": 40, "kv_heads": 8, "head_dim": 128, "ffn": 16384, "gated": True, "vocab": 202048,
            "experts": 16, "top_k": 1, "expert_ffn": 8192, "shared_experts": 1,
        },
        "precision": "fp8",
    },
}  # fmt: skip
"""Models of the measured servers, after their config.json."""


@attrs.frozen
class KernelLine:
    """A measured kernel; `fits`: it is of the half on which numbers are fitted."""

    shape: Attention
    us: float
    fits: bool


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The lines of a file of measurements."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def attention_lines(lines: Iterable[Mapping[str, Any]], system: str, metric: str) -> list[KernelLine]:
    """Kernels of attention of a device: `generation_attention` (one query a sequence) or `context_attention`. Halves go by a hash."""
    found = []
    for line in lines:
        given = line.get("config", {})
        if line.get("metric") != metric or given.get("system") != system or given.get("window_size"):
            continue
        sequences = given["batch_size"]
        decodes = metric == "generation_attention"
        shape = Attention(
            heads=given["num_heads"] * sequences,
            query_length=1 if decodes else given["isl"],
            key_length=given.get("step", 0) + (1 if decodes else given["isl"]),
            head_size=given["head_dim"],
            key_heads=given["num_key_value_heads"] * sequences,
            causal=True,
            paged=True,
            element_type="fp8" if given["kv_cache_dtype"] == "fp8" else "bf16",
        )
        digest = hashlib.sha256(json.dumps(given, sort_keys=True).encode()).digest()
        found.append(KernelLine(shape, line["value"] * 1e3, digest[-1] % 2 == 0))
    return found


def device_of(system: str) -> Gpu:
    """The compute model of a device."""
    made: Gpu = component("compute", f"gpu?device={DEVICES[system]}", shared_plugins(), "validation")
    return made


def simulated_us(compute: Gpu, shape: Attention, fit: PagedAttentionFit) -> float:
    """The time of a kernel with other numbers of paged attention."""
    profile, kind = compute.profile, shape.element_type or "bf16"
    bandwidth = profile.memory_bandwidth_gb_per_s * 1e3
    return paged_us(shape, kind, (profile.attention_fit("bf16"), fit), compute.stack.attention_rate, profile.multiprocessors, bandwidth)


def fitted(compute: Gpu, lines: Sequence[KernelLine]) -> PagedAttentionFit:
    """The numbers of `GRID` with the least mean absolute logarithm of simulated over measured, on the half that fits."""
    candidates = (PagedAttentionFit(**dict(zip(GRID, values, strict=True))) for values in itertools.product(*GRID.values()))
    own = [line for line in lines if line.fits]
    return min(candidates, key=lambda fit: sum(abs(math.log(simulated_us(compute, line.shape, fit) / line.us)) for line in own))


def error_of(compute: Gpu, lines: Sequence[KernelLine], fit: PagedAttentionFit) -> tuple[float, float]:
    """Mean and mean absolute error on the half that does not fit."""
    errors = [simulated_us(compute, line.shape, fit) / line.us - 1 for line in lines if not line.fits]
    return sum(errors) / len(errors), sum(map(abs, errors)) / len(errors)


# -- Whole servers -------------------------------------------------------------------------------------------------------


def servers(lines: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """The lines of servers on H100 whose load is known, by experiment."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for line in lines:
        if line["group"] == "blis-vllm" and "load" in line["config"]:
            found.setdefault(line["experiment"], []).append(line)
    return found


def experiment_of(given: Mapping[str, Any], front_end_ms: float) -> dict[str, Any]:
    """The experiment of a measured server. Its prompts come from a list that is repeated, so that all are cached after a round."""
    prompts, stages = given["load"]["shared_prefix"], given["load"]["stages"]
    tokens = prompts["system_prompt_len"] + prompts["question_len"]
    table: dict[str, Any] = {
        "serving": {
            "model": MODELS[given["model"]],
            "max_sequences": given["max_num_seqs"],
            "max_batched_tokens": given["max_num_batched_tokens"],
            "kv_blocks": given["kv_blocks"],
            "pool": [{"tensor_parallel": given["tp"]}],
            "requests": {
                "arrival": "stages",
                "stages": [{"rate": stage["rate"], "duration_s": stage["duration"]} for stage in stages],
                "prefix": {"groups": prompts["num_unique_system_prompts"] * prompts["num_users_per_system_prompt"], "tokens": tokens - 1},
                "input": 1,
                "output": prompts["output_len"],
            },
        },
        "compute": {"plugin": "gpu", "device": "h100", "front_end_ms": front_end_ms},
    }
    if given["tp"] > 1:
        table["platform"] = {"plugin": "dgx_h100"}
        table["network"] = {"plugin": "analytical", "model": "nccl", "device": "h100"}
    return table


def mean_ms(result: ServingResult, metric: str) -> float:
    """The mean of a latency over all requests; `itl` is the gap between two tokens."""
    summary = result.document()[f"{metric}_s"]
    return float(1e3 * summary["mean"])


def main() -> None:
    """Print what is fitted, and errors."""
    lines = lines_of(Path(sys.argv[1]))
    for system in DEVICES:
        compute = device_of(system)
        decode = attention_lines(lines, system, "generation_attention")
        fit = fitted(compute, decode)
        print(system, fit, "held-out error {:+.1%}, {:.1%} absolute".format(*error_of(compute, decode, fit)))
    for name, own in servers(lines).items():
        result = serve(experiment_of(own[0]["config"], 24.0))
        for line in own:
            if line["statistic"] == "mean" and line["stage"] == -1:
                simulated = mean_ms(result, line["metric"])
                print(f"{name:50} {line['metric']:5} {line['value']:9.1f} {simulated:9.1f} ms {simulated / line['value'] - 1:+.1%}")


if __name__ == "__main__":
    main()
