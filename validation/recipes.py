"""What the recipes of Megatron-Bridge say of runs with experts that their lines do not: a release, a model and a GPU decide it.

Read in NVIDIA-NeMo/Megatron-Bridge, scripts/performance/configs/{qwen,qwen3,deepseek,gpt_oss} at the tags v0.2.0 (release 25.11), v0.3.0,
v0.3.1 (26.02 and 26.02.01), v0.4.0, v0.4.2 (26.04 and 26.04.01), v0.5.0 (26.06), and src/megatron/bridge/perf_recipes at v0.6.0 (26.08).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Line = Mapping[str, Any]

_QWEN_30B, _QWEN_235B, _DEEPSEEK, _GPT_OSS = "Qwen3_30B_a3B", "Qwen3_235B_a22B", "DeepSeekV3", "GPT OSS 120B"


def _release(line: Line) -> str:
    return str(line["stack"]).rpartition("-")[2]


def _gpu(line: Line) -> str:
    return str(line["gpu"]).partition("-")[0]


def is_one_graph(line: Line) -> bool:
    """Whether a recipe has `full_iteration` graphs, and with them fused grouped products: MXFP8 on GB200 and GB300 from 26.06 on."""
    return _release(line) >= "26.06" and _gpu(line) in ("GB200", "GB300") and "MX" in line["precision"]


def hides_experts(line: Line) -> bool:
    """Whether a recipe has `moe_a2a_overlap`."""
    name, gpu, stages = line["model"]["name"], _gpu(line), line["parallel"]["pp"]
    if is_one_graph(line):
        return True
    if name == _QWEN_235B:
        return gpu == "H100" or (gpu == "B200" and _release(line) == "25.11")
    if name == _GPT_OSS:
        return gpu == "GB200" and _release(line) >= "26.04"
    if name == _QWEN_30B:
        return bool(gpu == "H100" and stages > 1)
    return bool(gpu == "B200" and stages == 8)


def _graphs(line: Line) -> str:
    """The scope of CUDA graphs: `moe_router` and `moe_preprocess`, `attn` with them, or all."""
    name, gpu, release = line["model"]["name"], _gpu(line), _release(line)
    if is_one_graph(line):
        return "iteration"
    if name == _GPT_OSS:
        return "attention" if gpu == "GB300" else "none"
    if gpu == "H100" or (name == _QWEN_235B and gpu == "B200"):
        return "none"
    if name == _QWEN_30B:
        if gpu == "B200":
            return "attention" if line["batch"]["micro"] > 1 else "router"
        return "attention" if gpu == "GB200" and line["precision"] == "BF16" else "router"
    if name == _QWEN_235B:
        return "router" if gpu == "GB300" and line["precision"] == "BF16" and release < "26.04" else "attention"
    if gpu == "GB300":
        return "attention" if line["precision"] == "BF16" or release == "25.11" else "none"
    if gpu == "GB200":
        return "router" if release == "25.11" else "attention"
    return "attention" if line["parallel"]["pp"] == 8 else "none"


def _has_all_to_all(line: Line) -> bool:
    """Whether tokens go by a plain all-to-all, not by DeepEP or HybridEP: where a recipe names no `moe_flex_dispatcher_backend`."""
    name, gpu, release = line["model"]["name"], _gpu(line), _release(line)
    if name == _GPT_OSS:
        return not is_one_graph(line) and (gpu not in ("GB200", "B200") or release < "26.04")
    if name == _QWEN_235B:
        return gpu in ("H100", "B200")
    if name == _QWEN_30B:
        return (gpu == "B200" and line["batch"]["micro"] == 1) or (gpu == "H100" and release == "25.11")
    return gpu == "B200" and release == "25.11"


def _recompute_modules(line: Line) -> list[str]:
    """The parts that a recipe recomputes."""
    name, gpu, release = line["model"]["name"], _gpu(line), _release(line)
    if name == _GPT_OSS:
        return [] if is_one_graph(line) or gpu == "GB300" else ["layernorm", "moe_act"]
    if name != _DEEPSEEK or (gpu == "GB300" and is_one_graph(line)):
        return []
    if gpu == "GB300" and (release == "25.11" or line["precision"] == "BF16"):
        return ["moe_act"]
    if gpu == "GB200" and release == "26.04" and line["precision"] != "BF16":
        return ["mlp"]
    return ["mla_up_proj", "mlp"] if gpu == "B200" and release >= "26.04" else ["mla_up_proj"]


_LAYERS_OF_DEEPSEEK = {8: [8] * 7 + [5], 16: [4] * 15 + [1], 32: [1, *[2] * 30, 0]}
"""Layers of each of a number of virtual stages: the last has the head and the predictor of a further token."""


_GROUPS_OF_DEEPSEEK = [8, 4]
"""moe_router_num_groups and moe_router_group_topk (src/megatron/bridge/models/deepseek; arXiv 2412.19437, 2.1.2)."""


def options_of(line: Line, slots: int) -> dict[str, Any]:
    """Options of the workload for a line with a number of virtual stages."""
    result: dict[str, Any] = {
        "cuda_graphs": _graphs(line),
        "fused_experts": is_one_graph(line),
        "dispatch": "experts" if _has_all_to_all(line) else "nodes",
        "recompute_modules": _recompute_modules(line),
        "fp8_attention": is_one_graph(line) and (line["model"]["name"], _gpu(line)) != (_DEEPSEEK, "GB200"),
    }
    if line["model"]["name"] == _DEEPSEEK and result["dispatch"] != "experts":
        result["expert_groups"] = _GROUPS_OF_DEEPSEEK
    if line["model"]["name"] == _DEEPSEEK and slots in _LAYERS_OF_DEEPSEEK:
        result["stages"] = _LAYERS_OF_DEEPSEEK[slots]
    return result
