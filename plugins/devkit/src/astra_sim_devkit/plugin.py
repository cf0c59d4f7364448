"""Hooks."""

from __future__ import annotations

from astra_sim import Provider, hookimpl

_HERE = "astra_sim_devkit"


@hookimpl
def astra_commands() -> list[Provider]:
    return [
        Provider("completion", "Print a script with which bash, zsh or fish completes commands.", f"{_HERE}.completion:completion"),
        Provider("doctor", "Report installed, missing and broken parts.", f"{_HERE}.doctor:doctor"),
        Provider("plugins check", "Check that components load and keep their contract.", f"{_HERE}.commands:check"),
        Provider("plugins new", "Write a new plugin package, which works and passes its tests as it is.", f"{_HERE}.commands:new"),
        Provider("server", "Run a script with a warm process for all its runs of astra.", f"{_HERE}.server:server"),
    ]
