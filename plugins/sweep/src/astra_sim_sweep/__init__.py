"""Sweeps of astra: many runs, one table. `sweep` runs one."""

from __future__ import annotations

from astra_sim_sweep.running import Sweep, sweep

__all__ = ["Sweep", "sweep"]
