"""Hooks."""

from __future__ import annotations

from astra_sim import Provider, hookimpl

_HERE = "astra_sim_flows"


@hookimpl
def astra_commands() -> list[Provider]:
    return [
        Provider("collective", "Simulate collectives by themselves: the table of nccl-tests.", f"{_HERE}.collective_command:collective"),
        Provider("flows", "Let messages run by themselves on any network: a file of flows, or a pattern.", f"{_HERE}.flows_command:flows"),
    ]
