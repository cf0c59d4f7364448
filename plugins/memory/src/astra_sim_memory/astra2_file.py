"""The memory file of ASTRA-sim 2.x, in JSON."""

from __future__ import annotations

import json
from typing import Any

from astra_sim import InputError
from astra_sim.errors import suggestion
from astra_sim.files import parse_json

_ARRANGEMENTS = {
    "NO_MEMORY_EXPANSION": "none",
    "PER_NPU_MEMORY_EXPANSION": "per_npu",
    "PER_NODE_MEMORY_EXPANSION": "per_node",
    "MEMORY_POOL": "pool",
}
_KEYS = {"remote-mem-latency": "latency_ns", "remote-mem-bw": "bandwidth_gb_per_s"}
_PER_NODE = {"num-nodes": "nodes", "num-npus-per-node": "npus_per_node"}


def recognises(text: str) -> bool:
    """Whether a text is a JSON object that has a memory type."""
    if not text.lstrip().startswith("{"):
        return False
    try:
        return "memory-type" in json.loads(text)
    except (ValueError, RecursionError):
        return '"memory-type"' in text


def read(text: str, path: str) -> dict[str, dict[str, Any]]:
    """The section `memory`. Bandwidth is in bytes per ns. Raises InputError naming the key and value."""
    table = parse_json(text, path)
    memory_type = table["memory-type"]
    if not isinstance(memory_type, str) or memory_type not in _ARRANGEMENTS:
        raise InputError(f"{path}: memory-type is {memory_type!r}; {suggestion(str(memory_type), _ARRANGEMENTS)}")
    known = {"memory-type": None, **_KEYS, **_PER_NODE}
    section: dict[str, Any] = {"plugin": "remote", "arrangement": _ARRANGEMENTS[memory_type]}
    for key, value in table.items():
        if key not in known:
            raise InputError(f"{path}: unknown key {key!r}; {suggestion(key, known)}")
        option = known[key]
        if option is not None and (key not in _PER_NODE or section["arrangement"] == "per_node"):
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise InputError(f"{path}: {key} is {value!r}; expected a number")
            section[option] = int(value) if key in _PER_NODE and float(value).is_integer() else value
    if section["arrangement"] == "none":
        section.pop("bandwidth_gb_per_s", None)
    return {"memory": section}
