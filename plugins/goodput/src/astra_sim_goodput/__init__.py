"""Goodput: the losses of months of training to failures, checkpoints and recovery."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from astra_sim_goodput.estimate import Goodput, MonteCarlo, goodput
    from astra_sim_goodput.plan import GoodputPlan, read_plan
    from astra_sim_goodput.samples import Sample, sample

_MODULES = {
    "Goodput": "estimate",
    "GoodputPlan": "plan",
    "MonteCarlo": "estimate",
    "goodput": "estimate",
    "read_plan": "plan",
    "Sample": "samples",
    "sample": "samples",
}
__all__ = ["Goodput", "GoodputPlan", "MonteCarlo", "Sample", "goodput", "read_plan", "sample"]


def __getattr__(name: str) -> Any:
    """The object of a name, imported when it is first used: every command imports this package."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"astra_sim_goodput.{_MODULES[name]}"), name)
