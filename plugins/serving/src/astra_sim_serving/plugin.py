"""Hooks."""

from __future__ import annotations

from astra_sim import Provider, hookimpl


@hookimpl
def astra_commands() -> list[Provider]:
    summary = "Simulate a server of a language model, request by request."
    return [Provider("serve", summary, "astra_sim_serving.command:serve_command")]
