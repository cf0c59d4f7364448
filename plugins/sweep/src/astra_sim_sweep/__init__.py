"""Sweeps of astra: many runs, one table. `sweep` runs one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from astra_sim_sweep.running import Sweep, sweep

__all__ = ["Sweep", "sweep"]


def __getattr__(name: str) -> Any:
    """`sweep` and `Sweep`, imported when they are first used: `astra --help` imports this package."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from astra_sim_sweep import running

    return getattr(running, name)
