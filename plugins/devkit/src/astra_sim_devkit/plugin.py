"""Hooks."""

from __future__ import annotations

from astra_sim import Provider, hookimpl

_HERE = "astra_sim_devkit.commands"


@hookimpl
def astra_commands() -> list[Provider]:
    return [
        Provider("plugins check", "Check that components load and keep their contract.", f"{_HERE}:check"),
        Provider("plugins new", "Write a new plugin package, which works and passes its tests as it is.", f"{_HERE}:new"),
    ]
