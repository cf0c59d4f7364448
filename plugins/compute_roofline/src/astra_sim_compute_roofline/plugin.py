"""Hooks."""

from __future__ import annotations

from astra_sim import Provider, hookimpl

_HERE = "astra_sim_compute_roofline"


@hookimpl
def astra_computes() -> list[Provider]:
    return [
        Provider(
            "roofline",
            "Operations at peak rate, or bytes at memory bandwidth, whichever takes longer",
            factory=f"{_HERE}.roofline:Roofline",
            options=f"{_HERE}.roofline:RooflineOptions",
            examples=[{"peak_tera_ops_per_s": 100}, {"peak_by_type": {"fp16": 312}, "memory_bandwidth_gb_per_s": 1555}],
        )
    ]
