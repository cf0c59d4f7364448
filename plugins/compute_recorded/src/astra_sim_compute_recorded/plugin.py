"""Hooks."""

from __future__ import annotations

from astra_sim import Provider, hookimpl


@hookimpl
def astra_computes() -> list[Provider]:
    return [Provider("recorded", "The compute times recorded in the workload", "astra_sim_compute_recorded.recorded:Recorded")]
