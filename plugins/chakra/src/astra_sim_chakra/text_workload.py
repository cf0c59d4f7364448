"""Layered workloads as the text of ASTRA-sim 1.0, or with expert parallelism that of SimAI."""

from __future__ import annotations

from typing import Any

from astra_sim import InputError
from astra_sim.errors import suggestion

_PASSES = ("forward", "input_gradient", "weight_gradient")
_COLLECTIVES = {
    None: "NONE",
    "all_reduce": "ALLREDUCE",
    "all_gather": "ALLGATHER",
    "reduce_scatter": "REDUCESCATTER",
    "all_to_all": "ALLTOALL",
}
_GROUPS = {None: "", "expert": "_EP", "expert_data": "_DP_EP"}
_LOOPS = (
    "data",
    "model",
    "hybrid_data_model",
    "hybrid_model_data",
    "hybrid_dlrm",
    "hybrid_dlrm_enhanced",
    "hybrid_transformer",
    "hybrid_transformer_fwd_in_bckwd",
    "hybrid_customized",
    "micro",
    "distributed_inference",
)
_LONGEST = 10**18 - 1


def to_text(workload: dict[str, Any], where: str) -> tuple[str, list[str]]:
    """The text of a layered workload, and a line about each field that it drops. Raises InputError, naming features that the text lacks."""
    if workload.get("plugin", "layers") != "layers":
        raise InputError(f"{where}: the workload {workload['plugin']!r} cannot be written as text of ASTRA-sim 1.0; layers with a loop can")
    loop = workload.get("loop")
    if loop not in _LOOPS:
        raise InputError(f"{where}: ASTRA-sim 1.0 has no loop {loop!r}; {suggestion(loop, _LOOPS)}")
    layers = workload.get("layers")
    if not isinstance(layers, list) or not layers or not all(isinstance(layer, dict) for layer in layers):
        raise InputError(f"{where}: layers is {layers!r}; expected a list of at least one layer")
    grouped = any(layer.get(each, {}).get("collective_group") for layer in layers for each in _PASSES)
    lines = [_head(str(loop), workload.get("loop_options", {}), grouped, where), str(len(layers))]
    lines += [_layer(layer, str(loop), where) for layer in layers]
    return "\n".join(lines) + "\n", _left_out(workload, layers)


def _head(loop: str, options: Any, grouped: bool, where: str) -> str:
    """The first line: the loop, and its parameters. Raises InputError for a loop that the text cannot name."""
    if not isinstance(options, dict):
        raise InputError(f"{where}: loop_options is {options!r}; expected a table")
    words = [loop.upper()]
    if loop.startswith("hybrid_transformer"):
        words += ["model_parallel_NPU_group:", _whole(options.get("model_parallel_npus"), "model_parallel_npus", where)]
    experts = options.get("expert_parallel_npus", 1)
    if options.get("whole_gathers"):
        words += ["ep:", _whole(experts, "expert_parallel_npus", where)]
    elif grouped or experts != 1:
        raise InputError(f"{where}: expert parallelism is in the text of SimAI alone, whose all-gathers count their result (whole_gathers)")
    if loop == "hybrid_transformer_fwd_in_bckwd":
        for name in ("checkpoints", "checkpoint_initiates"):
            numbers = options.get(name, [])
            words += [f"{name}:", str(len(numbers)), *(_whole(number, name, where) for number in numbers)]
    if loop.startswith("hybrid_dlrm"):
        words.append(_whole(options.get("last_bottom_layer"), "last_bottom_layer", where))
    return " ".join(words)


def _layer(layer: dict[str, Any], loop: str, where: str) -> str:
    """The line of a layer. Raises InputError for features that the text lacks."""
    name = str(layer.get("name", ""))
    if not name or name.split() != [name]:
        raise InputError(f"{where}: the layer name {name!r} cannot be written as text of ASTRA-sim 1.0; a word without spaces can")
    words = [name, "-1"]
    for training_pass in _PASSES:
        options = layer.get(training_pass, {})
        what = f"layer {name}, {training_pass}"
        if "compute_ns" not in options and ("operations" in options or "memory_bytes" in options):
            raise InputError(f"{where}: {what} has operations and no compute_ns; the text of ASTRA-sim 1.0 has nothing but times")
        words.append(_whole(options.get("compute_ns", 0), f"{what}: compute_ns", where))
        collective = options.get("collective")
        if collective not in _COLLECTIVES:
            raise InputError(f"{where}: {what}: ASTRA-sim 1.0 has no collective {collective!r}")
        group = options.get("collective_group")
        if group not in _GROUPS:
            raise InputError(
                f"{where}: {what}: SimAI has no collective_group {group!r}; {suggestion(str(group), list(filter(None, _GROUPS)))}"
            )
        words += [
            _COLLECTIVES[collective] + (_GROUPS[group] if collective else ""),
            _whole(options.get("collective_bytes", 0) if collective else 0, f"{what}: bytes", where),
        ]
    words.append(_whole(layer.get("update_ns", 0), f"layer {name}: update_ns", where))
    if loop == "hybrid_customized":
        if layer.get("loop") not in _LOOPS:
            raise InputError(
                f"{where}: layer {name}: ASTRA-sim 1.0 has no loop {layer.get('loop')!r}; {suggestion(layer.get('loop'), _LOOPS)}"
            )
        words.append(str(layer["loop"]).upper())
    return "\t".join(words)


def _whole(value: Any, what: str, where: str) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value // 1 or not 0 <= value <= _LONGEST:
        raise InputError(f"{where}: {what} is {value!r}; the text of ASTRA-sim 1.0 has whole numbers from 0 to {_LONGEST}")
    return str(int(value))


def _left_out(workload: dict[str, Any], layers: list[dict[str, Any]]) -> list[str]:
    """Describe features of the workload that the text format lacks."""
    notes = []
    if workload.get("name"):
        notes.append(f"the name {workload['name']!r}")
    for key in ("operations", "memory_bytes"):
        count = sum(key in layer.get(training_pass, {}) for layer in layers for training_pass in _PASSES)
        if count:
            notes.append(f"{key} of {count} passes")
    if not workload.get("single_precision", False):
        notes.append("double precision: scaled times and sizes of a text are rounded to 32 bits")
    return notes
