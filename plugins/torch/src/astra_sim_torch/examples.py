"""Examples of the workload, for tests of components."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_HEAD = {"format": "astra torch capture", "version": 1, "world": 8, "rank": 0, "script": ["train.py"], "made": []}
_EVENTS = (
    {"kind": "kernel", "op": "mm", "flops": 2 * 64**3, "read": 32768, "write": 16384, "gemm": [64, 64, 64, 1], "type": "fp32"},
    {"kind": "collective", "op": "all_reduce", "bytes": 16384, "group": "0", "work": 1, "phase": "backward"},
    {"kind": "kernel", "op": "relu", "flops": 0, "read": 16384, "write": 16384},
    {"kind": "wait", "work": 1},
    {"kind": "kernel", "op": "add", "flops": 0, "read": 32768, "write": 16384, "phase": "optimizer"},
)


def workload(folder: Path) -> list[dict[str, Any]]:
    """A product, and an all-reduce beside another kernel, on eight ranks."""
    path = folder / "rank_0.jsonl"
    lines = [{**_HEAD, "groups": {"0": list(range(8))}}, *({"stream": 0, **event} for event in _EVENTS)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return [{"path": str(path)}]
