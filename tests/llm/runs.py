"""Small runs of the workload `llm` for its tests."""

from __future__ import annotations

import warnings
from typing import Any

import astra_sim

MODEL: dict[str, Any] = {"layers": 4, "hidden": 64, "heads": 8, "vocab": 128, "sequence": 32}
EXPERTS: dict[str, Any] = MODEL | {"experts": 4, "top_k": 2, "expert_ffn": 64}
ROOFLINE = {"plugin": "roofline", "peak_tera_ops_per_s": 20}


def platform(*sizes: int, latency_ns: float = 100) -> dict[str, Any]:
    """Switches, the innermost first."""
    shared = {"topology": "switch", "links": 1, "link_bandwidth_gb_per_s": 100, "link_latency_ns": latency_ns}
    return {"dimensions": [shared | {"size": size} for size in sizes]}


def run(npus: Any = 8, arguments: dict[str, Any] | None = None, **options: Any) -> Any:
    """The result of a run on a switch of a number of NPUs, or on a platform."""
    workload: dict[str, Any] = {"plugin": "llm", "model": MODEL, "global_batch": 8, "check_memory": False} | options
    result: dict[str, Any] = {"platform": platform(npus) if isinstance(npus, int) else npus, "system": "plugin:astra2", "compute": ROOFLINE}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return astra_sim.simulate(**result | {"workload": workload} | (arguments or {}))
