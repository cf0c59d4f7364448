"""Measured iterations: the lines of `data/iterations.jsonl`, and the experiment of each.

    python -m validation.iterations --assign    record the half of every line of a fitted stack that has none yet

`PROCEDURE.md` says how lines become experiments. Each line names its source, its `stack`, and its `half`: "fit" (a profile was fitted to
it), "held_out", or "none" (its stack is in no fit).
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from validation import recipes

FILE = Path(__file__).parent / "data" / "iterations.jsonl"
FIT, HELD_OUT, NONE = "fit", "held_out", "none"
CORE8 = "core8"
Line = Mapping[str, Any]
Table = dict[str, Any]


@attrs.frozen
class Machine:
    """How astra names a GPU and what it stands in: the device, the platform preset, GPUs of a node that take part, NCCL parameters."""

    device: str
    preset: str
    node: int
    nccl: str


MACHINES = {
    "A100-SXM4-80GB": Machine("a100-80", "dgx_a100", 8, "a100"),
    "A100-SXM4-40GB": Machine("a100-40", "dgx_a100", 8, "a100"),
    "H100-SXM5-80GB": Machine("h100", "dgx_h100", 8, "h100"),
    "H200": Machine("h200", "dgx_h200", 8, "h200"),
    "B200-SXM": Machine("b200", "dgx_b200", 8, "b200"),
    "GB200": Machine("gb200", "gb200_nvl72", 64, "gb200"),
    "GB300": Machine("gb300", "gb300_nvl72", 64, "gb300"),
}


RIDGE, RIDGE_OF_FEW = 0.01, 0.1
"""How much a fit holds numbers to where they start, for each squared logarithm; more where a stack has few lines, of several GPUs."""


@attrs.frozen
class StackOf:
    """A stack: its name and title, the rule that makes workloads of its lines, and the numbers of its profile that a fit may change.

    Without numbers nothing is fitted. `ridge` is how much a fit holds them to 1. `goal` is the threshold of its held-out lines,
    `nic_gb_s` what its GPUs have between nodes if that is not as in the preset.
    """

    name: str
    title: str
    rule: Callable[[Line], Table]
    numbers: tuple[str, ...] = ()
    goal: float | None = None
    nic_gb_s: float | None = None
    ridge: float = RIDGE


def lines(path: Path = FILE) -> list[Line]:
    """All lines of the file."""
    return [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()]


CONTENTION = 0.5
"""Share of the shorter of compute and exchange by which compute slows where they run beside each other, the same in all stacks."""


SCATTER = 0.006
"""Coefficient of variation, between nodes, of the time of the passes of an iteration (STRAGGLERS.md), the same in all stacks."""


# -- Rules: what follows from a stack ----------------------------------------------------------------------------------


def _megatron(line: Line) -> Table:
    return {"attention": "unfused", "precision": line["precision"], "recompute": line["recompute"]}


def _megatron_2022(line: Line) -> Table:
    return {**_megatron(line), "overlap": {"tp": "gather"}}


def _llm_foundry(line: Line) -> Table:
    return {
        "precision": "bf16",
        "zero": {"FULL_SHARD": 3, "SHARD_GRAD_OP": 2}[line["parallel"]["fsdp"]],
        "recompute": "full_early_stop" if line["recompute"] == "full" else "none",
        "gradients": "same" if line["mp_mode"] == "PURE" else "fp32",
        "overlap": {"dp": True, "contention": CONTENTION},
    }


def _fms(line: Line) -> Table:
    shards = {"shard_group": 8} if line["parallel"]["fsdp"] == "HSDP" else {}
    recompute = "full_early_stop" if line["recompute"] == "selective" else "none"
    return {"precision": "bf16", "zero": 3, **shards, "recompute": recompute, "overlap": {"dp": True, "contention": CONTENTION}}


def _internevo(line: Line) -> Table:
    group = line["parallel"]["zero1_group"]
    shards = {} if group == -1 or group == line["parallel"]["dp"] else {"shard_group": group}
    return {
        "precision": "bf16",
        "zero": 1,
        **shards,
        "gradients": "same",
        "reduction": "all",
        "update": "broadcast",
        "nics": 4,
        "recompute": line["recompute"],
        "overlap": {"dp": True, "gathers": False, "contention": CONTENTION},
    }


def _bloom(line: Line) -> Table:
    uneven = line["model"]["layers"] % line["parallel"]["pp"]
    return {
        "precision": "bf16",
        "attention": "unfused",
        "zero": 1,
        "reduction": "all",
        "recompute": "full",
        "fused_gradients": False,
        "stages": "embedding_as_layer" if uneven else "even",
    }


def _megatron_core(line: Line) -> Table:
    several = line["parallel"]["tp"] > 1
    return {
        "precision": _precision_of(line["precision"].lower()),
        "zero": 3 if line["parallel"].get("fsdp") else 1,
        "gradients": "same",
        "overlap": {
            "tp": "userbuffers" if several else "none",
            "dp": True,
            "p2p": _virtual_stages(line) > 1,
            "ep": "experts" in line["model"] and recipes.hides_experts(line),
            "contention": CONTENTION,
        },
    }


def _precision_of(text: str) -> str:
    """The precision that a line of Megatron-Core names."""
    if "nvfp4" in text:
        return "nvfp4"
    if "mx" in text and "cs" not in text:
        return "mxfp8"
    return "fp8" if "fp8" in text else "bf16"


def _bridge(line: Line) -> Table:
    slots = line["parallel"]["pp"] * _virtual_stages(line)
    stages = {"stages": "embedding_as_layer"} if line["model"]["layers"] % slots else {}
    loss = {"fused_loss": line["stack"].startswith("bridge")}  # cross_entropy_fusion_impl = "te"
    if "experts" not in line["model"]:
        return {**_megatron_core(line), **stages, **loss}
    return {**_megatron_core(line), **stages, **loss, **recipes.options_of(line, slots)}


def _xla(line: Line) -> Table:
    """MaxText and Pax. A policy that saves some products only is nearest to recomputing a layer up to its last product."""
    fsdp, dp, recompute = line["parallel"]["fsdp"], line["parallel"]["dp"], line.get("recompute", "none")
    return {
        "precision": "fp8" if "fp8" in line["precision"] else "bf16",
        "zero": 3,
        **({"shard_group": fsdp} if fsdp < dp else {}),
        "recompute": {"none": "none", "minimal_flash": "none", "full": "full"}.get(recompute, "full_early_stop"),
        "gradients": "same",
        "overlap": {"dp": True, "contention": CONTENTION},
    }


_MEMORY_BOUND = ("gemm_share", "elementwise_share")
_HOST_BOUND = (*_MEMORY_BOUND, "collective_share", "launch_us")
_UNFUSED = (*_MEMORY_BOUND, "collective_share")
_ALL = (*_MEMORY_BOUND, "attention_rate", "collective_share")
_DENSE_GOAL, _MOE_GOAL = 0.06, 0.15
RELEASES = ("25.11", "26.02", "26.04", "26.06", "26.08")
STACKS = {
    stack.name: stack
    for stack in (
        StackOf(CORE8, "Megatron-LM 2022, A100 (arXiv 2205.05198)", _megatron_2022),
        StackOf("megatron-2021", "Megatron-LM 2021, A100, 64 to 3072 GPUs (arXiv 2104.04473)", _megatron, _UNFUSED, _DENSE_GOAL),
        StackOf("llm-foundry-a100-80", "llm-foundry, A100-80, FSDP, 8 GPUs", _llm_foundry, _ALL[:3], _DENSE_GOAL),
        StackOf("llm-foundry-a100-40", "llm-foundry, A100-40, FSDP, 8 to 128 GPUs", _llm_foundry, _ALL, _DENSE_GOAL),
        StackOf("llm-foundry-h100", "llm-foundry, H100, FSDP, 8 to 512 GPUs", _llm_foundry, _ALL, _DENSE_GOAL),
        StackOf("internevo", "InternEvo 7B, A100, 4 x 100 Gb/s, 8 to 512 GPUs", _internevo, _ALL, _DENSE_GOAL, 6.25),
        StackOf("bloom", "Megatron-DeepSpeed (BLOOM's search), A100, Omni-Path, to 384 GPUs", _bloom, _UNFUSED, _DENSE_GOAL, 6.25),
        StackOf("nemo-h100", "NeMo 24.05 and 24.07, H100, FP8, 8 to 512 GPUs", _bridge, _ALL, _DENSE_GOAL),
        StackOf("bridge-h100", "Megatron-Bridge, H100, Llama 3, FP8, 8 to 1024 GPUs", _bridge, _ALL, _DENSE_GOAL),
        StackOf("bridge-gb200", "Megatron-Bridge, GB200, Llama 3, FP8 and MXFP8, 8 to 64 GPUs", _bridge, _ALL[:3], _DENSE_GOAL),
        StackOf("bridge-gb300", "Megatron-Bridge, GB300, Llama 3, FP8 and MXFP8, 8 to 256 GPUs", _bridge, _ALL, _DENSE_GOAL),
        StackOf("bridge-nvfp4", "Megatron-Bridge, GB200 and GB300, Llama 3, NVFP4, 64 and 256 GPUs", _bridge, _MEMORY_BOUND, _DENSE_GOAL),
        *(
            StackOf(
                f"bridge-moe-{release}",
                f"Megatron-Bridge {release}: Qwen3, DeepSeek-V3, H100 and Blackwell",
                _bridge,
                _HOST_BOUND,
                _MOE_GOAL,
                ridge=RIDGE_OF_FEW,
            )
            for release in RELEASES
        ),
        *(
            StackOf(f"gpt-oss-{release}", f"Megatron-Bridge {release}: GPT-OSS 120B, 64 H100 and Blackwell", _bridge)
            for release in RELEASES
        ),
        StackOf("mt-nlg", "MT-NLG 530B, A100, 2240 to 3360 GPUs (arXiv 2201.11990)", _megatron),
        StackOf("fms-fsdp", "fms-fsdp, Llama 2, A100 and H100, 96 and 128 GPUs", _fms),
        StackOf("nemo-25.02", "NeMo 25.02 and 25.04 (dgxc-benchmarking), H100 and GB200, 8 to 2048 GPUs", _bridge),
        StackOf("xla", "MaxText and Pax, A100, H100, H200, B200, FSDP, 8 to 2048 GPUs", _xla),
        StackOf("mlperf-h100", "MLPerf v4.0 GPT-3, H100, FP8, 512 to 11,616 GPUs", _bridge),
    )
}


# -- Experiments -------------------------------------------------------------------------------------------------------


@attrs.frozen
class Experiment:
    """What is simulated for a line: components without the profile."""

    platform: Table
    network: Table
    device: str
    workload: Table

    @functools.cached_property
    def key(self) -> str:
        """A text that is equal where experiments are."""
        return json.dumps([self.platform, self.network, self.device, self.workload], sort_keys=True)


def as_run(line: Line) -> Line:
    """A line with the sizes of parallel groups with which it ran, where its table has others (`ran_with`; its notes say why)."""
    return {**line, "parallel": {**line["parallel"], **line.get("ran_with", {})}}


def experiment(line: Line) -> Experiment:
    """The experiment of a line."""
    line = as_run(line)
    stack, machine = STACKS[line["stack"]], MACHINES[line["gpu"]]
    parallel, batch, gpus = line["parallel"], line["batch"], line["gpus"]
    node = min(gpus, machine.node)
    platform: Table = {"plugin": machine.preset, "nodes": -(-gpus // node), "gpus": node}
    if stack.nic_gb_s is not None:
        platform["nic_gb_s"] = stack.nic_gb_s
    workload: Table = {
        "plugin": "llm",
        "model": _model(line["model"], 1 if stack.rule in _UNPADDED else 128 * (parallel.get("tp") or 1)),
        "sequence": line["model"]["seq"],
        "global_batch": batch["global_"],
        "micro_batch": batch["micro"],
        "tensor_parallel": parallel.get("tp") or 1,
        "pipeline_parallel": parallel.get("pp") or 1,
        "context_parallel": parallel.get("cp") or 1,
        "expert_parallel": parallel.get("ep") or 1,
        "virtual_stages": _virtual_stages(line),
        "detail": "pass",
        "check_memory": False,
    }
    if "sp" in parallel:
        workload["sequence_parallel"] = bool(parallel["sp"])
    elif stack.name in ("internevo", "bloom"):
        workload["sequence_parallel"] = False
    if gpus > workload["tensor_parallel"] * workload["pipeline_parallel"] * workload["context_parallel"]:
        workload["scatter"] = SCATTER
    network: Table = {"plugin": "analytical", "model": "nccl", "device": machine.nccl}
    return Experiment(platform, network, machine.device, {**workload, **stack.rule(line)})


_NEMO_VIRTUAL_STAGES = {"GPT3-175B": 6, "LLAMA2-13B": 10, "LLAMA2-70B": 20, "Nemotron-22B": 10, "LLAMA3-70B": 5}
"""Of release 24.07, for lines of 24.05 that do not say."""


def _virtual_stages(line: Line) -> int:
    value = line["parallel"].get("vp")
    if value is None and line["parallel"].get("pp", 1) > 1:
        return _NEMO_VIRTUAL_STAGES.get(line["model"]["name"], 1)
    return value or 1


_FAMILIES: dict[str, Table] = {
    "nemotron": {"tied": False},
    "gpt": {"tied": True, "biases": True, "dropout": True, "learned_positions": True},
    "mpt": {"tied": True, "learned_positions": True},
    "llama": {"gated": True},
    "qwen3_moe": {"gated": True, "query_norms": True},
    "deepseek_v3": {"gated": True, "mtp_layers": 1},
    "gpt_oss": {"gated": True, "query_biases": True, "expert_biases": True, "window": 128, "full_interval": 2},
}
_SAME_NAME = ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab", "experts", "top_k", "shared_experts", "dense_layers")
_LATENT = {"query_rank": "q_lora_rank", "key_value_rank": "kv_lora_rank", "nope": "qk_nope", "rope": "qk_rope", "value": "v_head"}


_UNPADDED = (_llm_foundry, _fms, _internevo, _xla)
"""Rules of stacks that do not come from Megatron-LM, which pads vocabularies to a multiple of 128 for each tensor-parallel rank."""


def _model(given: Line, multiple: int) -> Table:
    """A model by its dimensions, the vocabulary padded to a multiple; those of a family have what its papers say beside."""
    table = {name: given[name] for name in _SAME_NAME if name in given} | _FAMILIES[given["family"]]
    table["vocab"] = -(-given["vocab"] // multiple) * multiple
    if "w/o MTP" in (given.get("variant") or ""):
        table["mtp_layers"] = 0
    if "moe_ffn" in given:
        table["expert_ffn"] = given["moe_ffn"]
    if given.get("attention") == "mla":
        table["mla"] = {name: given[own] for name, own in _LATENT.items()}
    return table


# -- Halves ------------------------------------------------------------------------------------------------------------


def configuration(line: Line) -> str:
    """What decides the half of a line (PROCEDURE.md)."""
    model, parallel = line["model"], line["parallel"]
    groups = [parallel.get(name) or 1 for name in ("tp", "pp", "cp", "ep")]
    sharding = [parallel.get(name) or None for name in ("fsdp", "zero1_group")]
    own = [model["layers"], model["hidden"], model["heads"], model["seq"]]
    return json.dumps([line["stack"], own, line["gpu"], line["gpus"], groups, sharding, line.get("recompute")])


def assign_halves(found: Sequence[Line]) -> list[Line]:
    """The lines, each with a half: recorded ones stay, and new configurations of a stack go to fit and held_out in turn, by their hash."""
    halves = {configuration(line): line["half"] for line in found if "half" in line}
    for name, stack in STACKS.items():
        new = {configuration(line) for line in found if line["stack"] == name} - halves.keys()
        for place, text in enumerate(sorted(new, key=lambda text: hashlib.sha256(text.encode()).hexdigest())):
            halves[text] = (FIT, HELD_OUT)[place % 2] if stack.numbers else NONE
    return [{**line, "half": halves[configuration(line)]} for line in found]


def main() -> None:
    """Assign halves."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--assign", action="store_true", required=True, help="record the half of every line that has none yet")
    parser.parse_args()
    FILE.write_text("".join(f"{json.dumps(line, separators=(',', ':'))}\n" for line in assign_halves(lines())), encoding="utf-8")


if __name__ == "__main__":
    main()
