"""Hooks."""

from __future__ import annotations

from astra_sim import Provider, hookimpl


@hookimpl
def astra_commands() -> list[Provider]:
    summary = "Estimate the losses of months of training to failures, checkpoints and recovery."
    scatter = "Run an experiment that varies with many seeds, and report the spread of its time."
    return [
        Provider("goodput", summary, "astra_sim_goodput.command:goodput_command"),
        Provider(
            "jobs",
            "Run several jobs on one platform, and report how much they slow each other.",
            "astra_sim_goodput.jobs_command:jobs_command",
        ),
        Provider("sample", scatter, "astra_sim_goodput.sample_command:sample_command"),
    ]


@hookimpl
def astra_accounts() -> list[Provider]:
    here = "astra_sim_goodput.energy"
    energy = {"idle_w": 100, "compute_w": 650}
    return [
        Provider("energy", "Energy and power of a run", f"{here}:energy", f"{here}:EnergyOptions", examples=[energy]),
        Provider("cost", "Cost of a run in USD", f"{here}:cost", f"{here}:RunCostOptions", examples=[{"gpu_hour_usd": 2.5}]),
    ]


@hookimpl
def astra_variations() -> list[Provider]:
    here = "astra_sim_goodput.variation"
    noise = {"seed": 7, "compute": [{"distribution": "lognormal", "cv": 0.1, "scope": "operation"}]}
    summary = "Ranks that are slower than others, kernels whose times scatter, pauses"
    return [Provider("variation", summary, f"{here}:variation", f"{here}:VariationOptions", examples=[noise])]


@hookimpl
def astra_placements() -> list[Provider]:
    here = "astra_sim_goodput.placement"
    return [
        Provider("packed", "The lowest free NPUs", f"{here}:packed"),
        Provider("striped", "Every n-th free NPU", f"{here}:striped", f"{here}:StripedOptions", examples=[{"stride": 2}]),
        Provider("random", "Free NPUs at random, by a seed", f"{here}:random", f"{here}:RandomOptions", examples=[{"seed": 1}]),
        Provider("racks", "NPUs of as few racks as possible", f"{here}:racks", f"{here}:RacksOptions", examples=[{"npus": 4}]),
    ]
