"""Goodput: what of months of training is lost to failures, checkpoints and recovery."""

from __future__ import annotations

from astra_sim_goodput.goodput import Goodput, MonteCarlo, goodput
from astra_sim_goodput.plan import GoodputPlan, read_plan

__all__ = ["Goodput", "GoodputPlan", "MonteCarlo", "goodput", "read_plan"]
