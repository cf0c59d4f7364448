"""Random checks of platform, device, stack and precision of one experiment.

Without a device it is the platform's. What was not made for each other is said, and nothing else is. A workload takes the options of its
stack that it is not given: a run with them given takes as long, what is given stays, and no option of a stack makes a run fail. The
experiment of a result gives the same result again.
"""

from __future__ import annotations

import json
import random
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import astra_sim
from astra_sim import InputError, load_experiment
from astra_sim_compute_gpu import device as devices
from astra_sim_compute_gpu import stack as stacks

IN_TESTS = 8
IN_NIGHTLY = 300

_PLATFORMS = {
    "dgx_a100": "a100-80",
    "dgx_h100": "h100",
    "dgx_h200": "h200",
    "dgx_b200": "b200",
    "gb200_nvl72": "gb200",
    "gb300_nvl72": "gb300",
}
_DENSE = {"layers": 4, "hidden": 1024, "heads": 8, "vocab": 2048, "sequence": 256}
_EXPERTS = _DENSE | {"experts": 8, "top_k": 2, "expert_ffn": 512, "gated": True}
_GIVEN: Mapping[str, tuple[Any, ...]] = {
    "gradients": ("fp32", "same"),
    "reduction": ("shards", "all"),
    "attention": ("flash", "unfused"),
    "fused_loss": (False, True),
    "overlap.dp": (False, True),
    "overlap.p2p": (False, True),
    "overlap.tp": ("none", "gather", "userbuffers"),
    "overlap.contention": (0.0, 0.2),
}


def check(seed: int, folder: Path) -> list[str]:
    """One experiment."""
    chance = random.Random(seed)
    platform, stack = chance.choice(list(_PLATFORMS)), chance.choice(stacks.names())
    device = chance.choice((None, None, None, *devices.names()))
    base: dict[str, Any] = {
        "platform": {"plugin": platform, "nodes": chance.choice((1, 2)), "gpus": 8},
        "system": "plugin:astra2",
        "network": {"plugin": "analytical", "model": chance.choice(("schedule", "nccl"))},
        "workload": _workload(chance),
    }
    compute = {"plugin": "gpu", "stack": stack} | ({} if device is None else {"device": device})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result, why = _result(compute, base)
        results = {str(each.message) for each in caught}
    what = f"{platform}, device {device}, stack {stack}, {base['workload']}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if result is None:
            plain, _ = _result({**compute, "stack": _numbers(stack)}, base)
            return [] if plain is None else [f"{what}: fails with the options of the stack alone: {why}"]
        return [f"{what}: {line}" for line in _wrong(result, compute, base, results, folder)]


def _workload(chance: random.Random) -> dict[str, Any]:
    table: dict[str, Any] = {
        "plugin": "llm",
        "model": chance.choice((_DENSE, _EXPERTS)),
        "global_batch": 32,
        "mode": chance.choice(("train", "train", "train", "prefill", "decode")),
        "precision": chance.choice(("bf16", "fp16", "fp8", "mxfp8")),
        "tensor_parallel": chance.choice((1, 2)),
        "pipeline_parallel": chance.choice((1, 2)),
        "detail": chance.choice(("layer", "pass")),
        "check_memory": False,
    }
    if table["mode"] == "train":
        table["zero"] = chance.choice((0, 1, 2, 3))
        if table["pipeline_parallel"] > 1 and chance.random() < 0.3:
            table["schedule"] = chance.choice(("gpipe", "1f1b", "zb-h1"))
        if table["model"] is _EXPERTS and chance.random() < 0.5:
            table["expert_parallel"] = 2
        for name in chance.sample(list(_GIVEN), chance.choice((0, 0, 1, 2, 3))):
            first, _, second = name.partition(".")
            value = chance.choice(_GIVEN[name])
            if second:
                table.setdefault(first, {})[second] = value
            else:
                table[first] = value
    return table


def _result(compute: Mapping[str, Any], base: Mapping[str, Any]) -> tuple[Any, str]:
    """The result, or why there is none."""
    try:
        return astra_sim.simulate(**base, compute=dict(compute)), ""
    except InputError as error:
        return None, str(error)


def _numbers(stack: str) -> dict[str, float]:
    """The numbers of a stack without its options."""
    known = stacks.read_stack(stack)
    names = ("gemm_share", "elementwise_share", "attention_rate", "collective_share", "launch_us")
    return {name: getattr(known, name) for name in names}


def _wrong(result: Any, compute: dict[str, Any], base: dict[str, Any], said: set[str], folder: Path) -> Iterator[str]:
    workload, own = base["workload"], _PLATFORMS[base["platform"]["plugin"]]
    used = result.compute
    if "device" not in compute and used["device"] != own:
        yield f"the device is {used['device']}, and that of the platform {own}"
    profile, stack = devices.read_device(used["device"]), stacks.read_stack(compute["stack"])
    expected = {
        "kernels are those": _family(used["device"]) != _family(own),
        "was fitted on": bool(stack.devices) and _family(used["device"]) not in map(_family, stack.devices),
        "was fitted with": bool(stack.precisions) and "8" not in "".join(stack.precisions) and "8" in workload["precision"],
        "no MX formats": workload["precision"] == "mxfp8" and profile.block_scaling is False,
    }
    messages = [each.message for each in result.mismatches]
    for words, wanted in expected.items():
        if any(words in message for message in messages) != wanted:
            yield f"mismatches {messages}; {'expected' if wanted else 'not expected'}: {words}"
    if not set(messages) <= said:
        yield f"mismatches that no warning says: {set(messages) - said}"
    taken = used.get("workload_options", {})
    offered = dict(_dotted(stack.workload.get("llm", {})))
    for name, value in taken.items():
        if offered.get(name) != value or _value(workload, name) is not None:
            yield f"option {name} = {value} is said to be of the stack, which has {offered.get(name)}; given: {_value(workload, name)}"
    explicit = _with(workload, taken)
    again, why = _result(compute, {**base, "workload": explicit})
    if again is None or again.finish_ns != result.finish_ns:
        yield f"with {taken} given it takes {why or again.finish_ns} ns, else {result.finish_ns}"
    file = folder / "result.json"
    file.write_text(json.dumps(result.to_dict()))
    repeated = astra_sim.simulate(load_experiment(str(file)))
    if repeated.finish_ns != result.finish_ns or repeated.compute | {"device_from": ""} != used | {"device_from": ""}:
        yield f"run again: {repeated.finish_ns} ns and {repeated.compute}, first {result.finish_ns} and {used}"


def _family(device: str) -> str:
    return {"a100-40": "a100", "a100-80": "a100"}.get(device, device)


def _dotted(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _dotted(value, f"{key}.")
        else:
            yield f"{prefix}{key}", value


def _value(table: Mapping[str, Any], name: str) -> Any:
    first, _, second = name.partition(".")
    return table.get(first, {}).get(second) if second else table.get(first)


def _with(table: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {key: dict(value) if key == "overlap" else value for key, value in table.items()}
    for name, value in options.items():
        first, _, second = name.partition(".")
        if second:
            result.setdefault(first, {})[second] = value
        else:
            result[first] = value
    return result
