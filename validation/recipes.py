"""What the recipes of Megatron-Bridge say of runs with experts that their lines do not: a release, a model and a GPU decide it.

Read in NVIDIA-NeMo/Megatron-Bridge, scripts/performance/configs/{qwen,qwen3,deepseek} at the tags v0.2.0 (release 25.11), v0.3.0 and
v0.3.1 (26.02 and 26.02.01), v0.4.0 (26.04), v0.5.0 (26.06), and src/megatron/bridge/perf_recipes at v0.6.0 (26.08).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Line = Mapping[str, Any]

_QWEN_30B, _QWEN_235B, _DEEPSEEK = "Qwen3_30B_a3B", "Qwen3_235B_a22B", "DeepSeekV3"


def _release(line: Line) -> str:
    return str(line["stack"]).removeprefix("bridge-moe-")


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
    if name == _QWEN_30B:
        return bool(gpu == "H100" and stages > 1)
    return bool(gpu == "B200" and stages == 8)


def _graphs(line: Line) -> str:
    """The scope of CUDA graphs: `moe_router` and `moe_preprocess`, `attn` with them, or all."""
    name, gpu, release = line["model"]["name"], _gpu(line), _release(line)
    if is_one_graph(line):
        return "iteration"
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
    if name == _QWEN_235B:
        return gpu in ("H100", "B200")
    if name == _QWEN_30B:
        return (gpu == "B200" and line["batch"]["micro"] == 1) or (gpu == "H100" and release == "25.11")
    return gpu == "B200" and release == "25.11"


def _nodes(line: Line, node: int) -> int | None:
    """Nodes to which a token is sent at most, where experts lie on several and the dispatcher sends it to each of them once."""
    nodes = (line["parallel"].get("ep") or 1) // node
    return nodes if 1 < nodes < line["model"]["top_k"] and not _has_all_to_all(line) else None


_LAYERS_OF_DEEPSEEK = {8: [8] * 7 + [5], 16: [4] * 15 + [1], 32: [1, *[2] * 30, 0]}
"""Layers of each of a number of virtual stages: the last has the head and the predictor of a further token."""


def options_of(line: Line, slots: int, node: int) -> dict[str, Any]:
    """Options of the workload for a line with a number of virtual stages, on nodes of a number of GPUs."""
    result: dict[str, Any] = {
        "cuda_graphs": _graphs(line),
        "fused_experts": is_one_graph(line),
        "dispatch": "experts" if _has_all_to_all(line) else "ranks",
        "fp8_attention": is_one_graph(line) and (line["model"]["name"], _gpu(line)) != (_DEEPSEEK, "GB200"),
    }
    if line["model"]["name"] == _DEEPSEEK and slots in _LAYERS_OF_DEEPSEEK:
        result["stages"] = _LAYERS_OF_DEEPSEEK[slots]
    limit = _nodes(line, node)
    return result if limit is None else {**result, "node_limit": limit}
