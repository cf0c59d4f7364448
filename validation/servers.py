"""Servers of language models by formulas alone against what was measured: whole servers, single iterations, throughput and static batches.

`python -m validation.servers ../shared/reference/serving.jsonl` prints what is fitted, and errors. The procedure: validation/serving.md.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from astra_sim_serving import serve
from astra_sim_serving.result import ServingResult

from validation import paged_attention

Line = Mapping[str, Any]

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


NETWORKS = {"h100": ("dgx_h100", "h100"), "h200": ("dgx_h100", "h100"), "a100-80": ("dgx_a100", "a100"), "a100-40": ("dgx_a100", "a100")}
"""The platform of a device, and the device of `model=nccl`."""


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The lines of a file of measurements."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def _experiment(model: Any, device: str, tensor_parallel: int, serving: Mapping[str, Any], **compute: Any) -> dict[str, Any]:
    """An experiment of one instance."""
    table: dict[str, Any] = {
        "serving": {"model": model, "pool": [{"tensor_parallel": tensor_parallel}], **serving},
        "compute": {"plugin": "gpu", "device": device, **compute},
    }
    if tensor_parallel > 1:
        platform, table_of_nccl = NETWORKS[device]
        table["platform"] = {"plugin": platform}
        table["network"] = {"plugin": "analytical", "model": "nccl", "device": table_of_nccl}
    return table


def _fits(config: Mapping[str, Any]) -> bool:
    """Whether a line is of the half on which constants are fitted, by a hash of its configuration."""
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).digest()[-1] % 2 == 0


@attrs.frozen
class Compared:
    """A measured and a simulated value of a line. `host` says how much longer it takes for a host with some constants."""

    what: str
    measured: float
    simulated: float
    fits: bool = False
    host: Callable[[float, float], float] = lambda an_iteration, a_sequence: 0.0

    def error(self, an_iteration: float = 0.0, a_sequence: float = 0.0) -> float:
        """The relative error with a host that takes a number of microseconds."""
        return (self.simulated + self.host(an_iteration, a_sequence)) / self.measured - 1


def mean_error(lines: Iterable[Compared], an_iteration: float = 0.0, a_sequence: float = 0.0) -> float:
    """The mean absolute error."""
    errors = [abs(line.error(an_iteration, a_sequence)) for line in lines]
    return sum(errors) / len(errors)


def fitted_host(lines: Sequence[Compared], iterations: Iterable[float], sequences: Iterable[float] = (0.0,)) -> tuple[float, float]:
    """The constants of the host, of those given, with the least mean absolute error on the half that fits."""
    own = [line for line in lines if line.fits]
    candidates = [(an_iteration, a_sequence) for an_iteration in iterations for a_sequence in sequences]
    return min(candidates, key=lambda host: mean_error(own, *host))


# -- Whole servers: vLLM 0.15.1 on H100 --------------------------------------------------------------------------------


def servers(lines: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """The lines of servers on H100 whose load is known, by experiment."""
    result: dict[str, list[Mapping[str, Any]]] = {}
    for line in lines:
        if line["group"] == "blis-vllm" and "load" in line["config"]:
            result.setdefault(line["experiment"], []).append(line)
    return result


def experiment_of(given: Mapping[str, Any], front_end_ms: float) -> dict[str, Any]:
    """The experiment of a measured server. Its prompts come from a list that is repeated, so that all are cached after a round."""
    prompts, stages = given["load"]["shared_prefix"], given["load"]["stages"]
    tokens = prompts["system_prompt_len"] + prompts["question_len"]
    serving = {
        "max_sequences": given["max_num_seqs"],
        "max_batched_tokens": given["max_num_batched_tokens"],
        "kv_blocks": given["kv_blocks"],
        "requests": {
            "arrival": "stages",
            "stages": [{"rate": stage["rate"], "duration_s": stage["duration"]} for stage in stages],
            "prefix": {"groups": prompts["num_unique_system_prompts"] * prompts["num_users_per_system_prompt"], "tokens": tokens - 1},
            "input": 1,
            "output": prompts["output_len"],
        },
    }
    return _experiment(MODELS[given["model"]], "h100", given["tp"], serving, front_end_ms=front_end_ms)


def mean_ms(result: ServingResult, metric: str) -> float:
    """The mean of a latency over all requests; `itl` is the gap between two tokens."""
    summary = result.document()[f"{metric}_s"]
    return float(1e3 * summary["mean"])


# -- Transfers of keys and values: SGLang with Mooncake on RoCE --------------------------------------------------------

LATENCIES_US = range(250, 5001, 250)
BANDWIDTHS = range(100, 201, 2)


def transfers(lines: Iterable[Line]) -> tuple[int, int, list[Compared]]:
    """The latency (us) and bandwidth (10^9 bytes/s) of `serving.transfer` that fit every second size, and seconds of all of them."""
    sizes = sorted((line["config"]["kv_bytes"], line["value"] / 1e3) for line in lines if line["kind"] == "kv-transfer")

    def compared(latency_us: float, bandwidth: float) -> list[Compared]:
        return [
            Compared(f"{size:.0f} bytes", seconds, latency_us / 1e6 + size / (bandwidth * 1e9), fits=number % 2 == 0)
            for number, (size, seconds) in enumerate(sizes)
        ]

    latency, bandwidth = min(
        itertools.product(LATENCIES_US, BANDWIDTHS), key=lambda pair: mean_error(line for line in compared(*pair) if line.fits)
    )
    return latency, bandwidth, compared(latency, bandwidth)


# -- Iterations: vLLM of 2023, Llama-2-70B and BLOOM-176B on A100 and H100 (Splitwise) ---------------------------------

_ITERATED = {
    "llama2-70b": {"name": "llama-2-70b"},
    "bloom-176b": {"dimensions": {"layers": 70, "hidden": 14336, "heads": 112, "vocab": 250880}},
}
_LONGEST_PREFILL = 2048
"""Tokens up to which a prompt was one iteration."""


def iterations(lines: Iterable[Line], gpu: str) -> list[Compared]:
    """Prefill and decode iterations of a GPU, in milliseconds. Each waits for the host, as those engines did."""
    compareds = []
    for line in lines:
        value = line.get("config", {})
        if line.get("group") != "splitwise" or value["gpu"] != gpu:
            continue
        prefill = "prefill" in line["metric"]
        if prefill and value["batch"] * value["prompt"] > _LONGEST_PREFILL:
            continue
        answer = 1 if prefill else 2
        requests = {
            "arrival": "burst",
            "count": value["batch"],
            "input": value["prompt"] + (0 if prefill else value["output"] // 2),
            "output": answer,
        }
        serving = {"kv_blocks": 100_000, "max_batched_tokens": 1_000_000, "prefix_caching": False, "requests": requests}
        device = "h100" if gpu.startswith("h100") else "a100-80"
        document = serve(_experiment(_ITERATED[value["model"]], device, value["tp"], serving)).document()
        simulated = document["ttft_s" if prefill else "tpot_s"]["mean"] * 1e3
        compareds.append(Compared(line["metric"], line["value"], simulated, _fits(value), lambda host, _: host / 1e3))
    return compareds


# -- Throughput: TensorRT-LLM 1.0, all requests at once ----------------------------------------------------------------

_SERVED = {"Llama 3.3 70B": "llama-3.3-70b", "Llama 3.1 8B": "llama-3.1-8b"}
_MOST_TOKENS = 2_000_000
TENSORRT_LLM: dict[str, Any] = {
    "engine": "trtllm?chunked_context=true",
    "max_sequences": 2048,
    "max_batched_tokens": 8192,
    "block_tokens": 32,
    "memory_utilization": 0.95,
    "memory_margin_gib": 3.0,
}
"""The settings of TensorRT-LLM's servers in benchmarks of throughput."""


def throughputs(lines: Iterable[Line]) -> list[Compared]:
    """Tokens of answers a second of dense models in FP8 on H100 and H200. Nothing is fitted."""
    compareds = []
    for line in lines:
        value = line.get("config", {})
        ranks = re.fullmatch(r"TP(\d+)", value.get("parallel", ""))
        if line.get("group") != "tensorrt-llm" or not ranks or value["model"] not in _SERVED or value["gpu"] not in ("H100", "H200"):
            continue
        if value["precision"] != "FP8" or "total" not in line["unit"]:
            continue
        length = value["input"] + value["output"]
        serving = {
            **TENSORRT_LLM,
            "requests": {
                "arrival": "burst",
                "count": max(64, min(1500, _MOST_TOKENS // length)),
                "input": value["input"],
                "output": value["output"],
            },
        }
        model = {"name": _SERVED[value["model"]], "precision": "fp8", "kv": "fp8"}
        document = serve(_experiment(model, value["gpu"].lower(), int(ranks[1]), serving)).document()
        what = f"{value['model']} {value['gpu']} x {ranks[1]}, {value['input']} / {value['output']}"
        compareds.append(Compared(what, line["value"], document["throughput"]["output_tokens_s"]))
    return compareds


# -- Static batches: vLLM and TensorRT-LLM of 2024 (LLM-Inference-Bench) -----------------------------------------------

_BATCHED: Mapping[str, Mapping[str, Any]] = {
    "meta-llama/Llama-2-7b-hf": {"name": "llama-2-7b"},
    "meta-llama/Meta-Llama-3-8B": {"name": "llama-3-8b"},
    "meta-llama/Llama-2-70b-hf": {"name": "llama-2-70b"},
    "meta-llama/Meta-Llama-3-70B": {"name": "llama-3-70b"},
    "mistralai/Mixtral-8x7B-v0.1": {"name": "mixtral-8x7b"},
    "mistralai/Mistral-7B-v0.1": {
        "dimensions": {"layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 8, "ffn": 14336, "gated": True, "vocab": 32000},
    },
}
_HARDWARE = {"Nvidia H100 GPU": "h100", "Nvidia A100 GPU": "a100-40", "Nvidia GH200 GPU": "gh200"}
ENGINES = [(hardware, framework) for hardware in _HARDWARE for framework in ("TensorRT-LLM", "vLLM")]
"""Hardware and framework of the static batches that are compared."""


def static_batches(lines: Iterable[Line], hardware: str, framework: str) -> list[Compared]:
    """Latencies of batches in seconds. Each iteration waits for the host."""
    compareds = []
    for line in lines:
        value = line.get("config", {})
        if line.get("group") != "llm-inference-bench" or (value["hardware"], value["framework"]) != (hardware, framework):
            continue
        if value["model"] not in _BATCHED or "input_output_length" not in value or (value["num_of_hardware"] > 1 and "GH200" in hardware):
            continue
        length, batch = value["input_output_length"], value["batch_size"]
        serving = {
            "max_sequences": 256,
            "max_batched_tokens": max(8192, length * batch),
            "kv_blocks": 200_000,
            "prefix_caching": False,
            "requests": {"arrival": "burst", "count": batch, "input": length, "output": length},
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = serve(_experiment(_BATCHED[value["model"]], _HARDWARE[hardware], value["num_of_hardware"], serving))

        def host(an_iteration: float, a_sequence: float, length: int = length, batch: int = batch) -> float:
            return length * (an_iteration + a_sequence * batch) / 1e6

        compareds.append(Compared(f"{value['model']} {length} {batch}", line["value"], result.makespan_s, _fits(value), host))
    return compareds


HOSTS = range(0, 20_001, 250)
SEQUENCES = range(0, 201, 10)
"""Constants of the host in microseconds that are tried, for an iteration and for each of its sequences."""


def main() -> None:
    """Print what is fitted, and errors."""
    lines = lines_of(Path(sys.argv[1]))
    for system in paged_attention.DEVICES:
        compute = paged_attention.device_of(system)
        decode = paged_attention.attention_lines(lines, system, "generation_attention")
        fit = paged_attention.fitted(compute, decode)
        print(system, fit, "held-out error {:+.1%}, {:.1%} absolute".format(*paged_attention.error_of(compute, decode, fit)))
    for name, own in servers(lines).items():
        result = serve(experiment_of(own[0]["config"], 24.0))
        for line in own:
            if line["statistic"] == "mean" and line["stage"] == -1:
                simulated = mean_ms(result, line["metric"])
                print(f"{name:50} {line['metric']:5} {line['value']:9.1f} {simulated:9.1f} ms {simulated / line['value'] - 1:+.1%}")
    for gpu in ("a100-80gb", "h100-80gb"):
        _print_halves(f"iterations {gpu}", iterations(lines, gpu), (0.0,))
    results = throughputs(lines)
    for each in results:
        print(f"{each.what:40} {each.measured:9.0f} {each.simulated:9.0f} tokens/s {each.error():+.1%}")
    print(f"throughput: {len(results)} lines, {mean_error(results):.1%}")
    for hardware, framework in ENGINES:
        _print_halves(f"{hardware} {framework}", static_batches(lines, hardware, framework), SEQUENCES)


def _print_halves(name: str, compared: Sequence[Compared], sequences: Iterable[float]) -> None:
    host = fitted_host(compared, HOSTS, sequences)
    held_out = [line for line in compared if not line.fits]
    without = mean_error(held_out)
    print(f"{name}: {len(compared)} lines, without host {without:.1%}; host {host} us: held-out error {mean_error(held_out, *host):.1%}")


if __name__ == "__main__":
    main()
