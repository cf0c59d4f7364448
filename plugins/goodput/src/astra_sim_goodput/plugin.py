"""Hooks."""

from __future__ import annotations

from astra_sim import Provider, hookimpl


@hookimpl
def astra_commands() -> list[Provider]:
    summary = "Say what of months of training is lost to failures, checkpoints and recovery."
    return [Provider("goodput", summary, "astra_sim_goodput.command:goodput_command")]
