"""Sweeps of astra: many runs, one table. `sweep` runs one, `search` finds the best of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from astra_sim_sweep.running import Sweep, sweep
    from astra_sim_sweep.searching import Search, search

_MODULES = {"Search": "searching", "Sweep": "running", "search": "searching", "sweep": "running"}
__all__ = ["Search", "Sweep", "search", "sweep"]


def __getattr__(name: str) -> Any:
    """What a name stands for, imported when it is first used: `astra --help` imports this package."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"astra_sim_sweep.{_MODULES[name]}"), name)
