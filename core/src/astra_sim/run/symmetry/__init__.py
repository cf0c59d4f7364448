"""Symmetry: how few NPUs are simulated for all, and why the result is the same. `docs/architecture.md` states what is proven when.

scope            how much is simulated, chosen before a run
representatives  classes of NPUs, of which one is simulated for all
schedules        whether one rank of a phase can represent all
"""

from astra_sim.run.symmetry.representatives import NpuClass, is_closed
from astra_sim.run.symmetry.schedules import ScheduleSymmetry
from astra_sim.run.symmetry.scope import Scope, ScopeSelection, choose, every_npu, is_exact

__all__ = ["NpuClass", "ScheduleSymmetry", "Scope", "ScopeSelection", "choose", "every_npu", "is_closed", "is_exact"]
