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
        )
    ]
