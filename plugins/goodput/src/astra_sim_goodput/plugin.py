"""Hooks."""

from __future__ import annotations

from astra_sim import Provider, hookimpl


@hookimpl
def astra_commands() -> list[Provider]:
    summary = "Say what of months of training is lost to failures, checkpoints and recovery."
    return [Provider("goodput", summary, "astra_sim_goodput.command:goodput_command")]


@hookimpl
def astra_accounts() -> list[Provider]:
    here = "astra_sim_goodput.energy"
    energy = {"idle_w": 100, "compute_w": 650}
    return [
        Provider("energy", "Energy and power of a run", f"{here}:energy", f"{here}:EnergyOptions", examples=[energy]),
        Provider("cost", "Cost of a run in USD", f"{here}:cost", f"{here}:CostOptions", examples=[{"gpu_hour_usd": 2.5}]),
    ]
