"""Hooks."""

from __future__ import annotations

from astra_sim import Provider, hookimpl


@hookimpl
def astra_computes() -> list[Provider]:
    return [Provider("recorded", "The computing times that the workload records", "astra_sim_compute_recorded.recorded:Recorded")]
