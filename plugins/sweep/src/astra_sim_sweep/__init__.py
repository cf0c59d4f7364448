"""Sweeps of astra: many runs, one table. `sweep` runs one or a shard, `merge` joins shards, `search` finds the best point."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from astra_sim_sweep.running import Merge, Sweep, merge, sweep
    from astra_sim_sweep.searching import Search, search

_MODULES = {"Merge": "running", "Search": "searching", "Sweep": "running", "merge": "running", "search": "searching", "sweep": "running"}
__all__ = ["Merge", "Search", "Sweep", "merge", "search", "sweep"]


def __getattr__(name: str) -> Any:
    """The object of a name, imported when it is first used: `astra --help` imports this package."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"astra_sim_sweep.{_MODULES[name]}"), name)
