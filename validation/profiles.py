"""The fitted profiles as stacks of the compute model `gpu`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
from astra_sim.toml_text import to_toml
from astra_sim_llm.options import PRECISIONS, LlmOptions, Overlap

from validation.iterations import FIT, HELD_OUT, Table, experiment, lines
from validation.results import Results
from validation.stack_fits import undetermined

Workload = Mapping[str, Any]
FOLDER = Path(__file__).parents[1] / "plugins" / "compute_gpu" / "src" / "astra_sim_compute_gpu" / "stacks"
_COMMENT = "Written by `python3 dev.py validate`: see docs/validation.md"


def write(results: Results) -> None:
    """Write the file of each stack."""
    for name, text in files(results).items():
        (FOLDER / f"{name}.toml").write_text(text, encoding="utf-8")


def files(results: Results) -> dict[str, str]:
    """The text of each stack's file, by its name."""
    return {name: to_toml(_table(name, stack), _COMMENT) for name, stack in results["stacks"].items()}


SOFTWARE: Mapping[str, Callable[[Workload], bool]] = {
    "gradients": lambda workload: True,
    "fused_gradients": lambda workload: True,
    "fused_loss": lambda workload: True,
    "attention": lambda workload: True,
    "reduction": lambda workload: workload.get("zero") in (1, 2),
    "update": lambda workload: workload.get("zero") in (1, 2),
    "nics": lambda workload: workload.get("update") == "broadcast",
    "scatter": lambda workload: "scatter" in workload,
    "sequence_parallel": lambda workload: workload["tensor_parallel"] > 1,
    "dispatch": lambda workload: workload["expert_parallel"] > 1,
    "cuda_graphs": lambda workload: "experts" in workload["model"],
    "fused_experts": lambda workload: "experts" in workload["model"],
    "fp8_attention": lambda workload: workload["precision"] in ("fp8", "mxfp8"),
    "overlap.tp": lambda workload: workload["tensor_parallel"] > 1,
    "overlap.dp": lambda workload: True,
    "overlap.gathers": lambda workload: workload.get("zero") in (1, 2),
    "overlap.p2p": lambda workload: workload["pipeline_parallel"] > 1,
    "overlap.ep": lambda workload: workload["expert_parallel"] > 1,
    "overlap.contention": lambda workload: True,
}
"""Options of the workload that follow from software, and where they are read. Parallelism, sharding, recomputation and precision do not:
a user says them."""


def options_of(name: str) -> Table:
    """The options of the workload that are the same in all lines of a stack that read them, where they are not the workload's defaults."""
    workloads = [experiment(line).workload for line in lines() if line["stack"] == name]
    result: Table = {}
    for option, is_read in SOFTWARE.items():
        first, _, second = option.partition(".")
        default = getattr(Overlap(), second) if second else attrs.fields_dict(LlmOptions)[first].default
        values = [_value(workload, option, default) for workload in workloads if is_read(workload)]
        if values and values[0] != default and all(value == values[0] for value in values):
            place = result.setdefault(first, {}) if second else result
            place[second or first] = values[0]
    return result


def without_software(workload: Workload) -> Table:
    """A workload as written by a user who names no software: without the options that a stack may have."""
    result = {key: dict(value) if key == "overlap" else value for key, value in workload.items() if key not in SOFTWARE}
    for option in SOFTWARE:
        first, _, second = option.partition(".")
        if second:
            result.get(first, {}).pop(second, None)
    return {key: value for key, value in result.items() if key != "overlap" or value}


def _value(workload: Workload, option: str, default: Any) -> Any:
    """The value of an option of a workload, in the table `overlap` or not."""
    first, _, second = option.partition(".")
    return workload.get(first, {}).get(second, default) if second else workload.get(first, default)


def _conditions(name: str) -> Table:
    """The devices and precisions of the lines of a stack."""
    own = [experiment(line) for line in lines() if line["stack"] == name]
    precisions = {each.workload["precision"] for each in own}
    return {"devices": sorted({each.device for each in own}), "precisions": [each for each in PRECISIONS if each in precisions]}


NEWEST = {
    "bridge-h100": ("h100", "h200", "gh200"),
    "bridge-gb200": ("gb200", "b200"),
    "bridge-gb300": ("gb300", "b300"),
    "bridge-nvfp4": ("gb200", "b200", "gb300", "b300"),
    "llm-foundry-a100-40": ("a100-40",),
    "llm-foundry-a100-80": ("a100-80",),
    "bridge-moe-26.04": ("h100", "h200", "gh200", "b200"),
    "bridge-moe-26.08": ("gb200", "gb300", "b300"),
}
"""The newest stack of each device, for dense models and for mixtures of experts; where it was not fitted on the device a run warns."""


def _of_experts(name: str) -> bool:
    return "-moe-" in name


def _table(name: str, stack: Results) -> dict[str, object]:
    fitted, held_out = (stack["fitted"][half] for half in (FIT, HELD_OUT))
    source = (
        f"fitted by validation on {fitted['lines']} lines ({fitted['configurations']} configurations): error {fitted['mean']:.1%};"
        f" on {held_out['lines']} lines of configurations that were held out {held_out['mean']:.1%}"
    )
    return {
        "title": stack["title"],
        **stack["profile"],
        **_conditions(name),
        **({"experts": True} if _of_experts(name) else {}),
        **({"undetermined": unsure} if (unsure := undetermined(stack["profile"])) else {}),
        **({"newest_on": list(NEWEST[name])} if name in NEWEST else {}),
        "workload": {"llm": options_of(name)},
        "held_out_error": round(held_out["mean"], 4),
        "held_out_lines": held_out["lines"],
        "source": source,
    }
