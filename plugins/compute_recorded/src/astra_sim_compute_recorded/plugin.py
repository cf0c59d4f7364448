"""Hooks."""

from __future__ import annotations

from astra_sim import Provider, hookimpl


@hookimpl
def astra_computes() -> list[Provider]:
    times = "astra_sim_compute_recorded.recorded:Recorded"
    return [Provider("recorded", "The compute times recorded in the workload", times, pure=True)]
