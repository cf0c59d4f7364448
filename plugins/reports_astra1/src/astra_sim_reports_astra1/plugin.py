"""Hooks."""

from __future__ import annotations

from astra_sim import Provider, hookimpl


@hookimpl
def astra_reports() -> list[Provider]:
    return [Provider("astra1", "The CSV files of ASTRA-sim 1.0", "astra_sim_reports_astra1.report:write")]
