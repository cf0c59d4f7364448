"""Checks for plugin authors: whether a component keeps its contract. They are in the package astra-sim-devkit, `astra_sim_devkit.testing`.

`check_schedule` moves real pieces along a collective's schedule. The classes of `astra_sim.testing.contracts` are test classes
for pytest: subclass one, name your component, and its tests run. `check_component` runs them with the examples that a provider offers.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from astra_sim_devkit.testing import check_component, check_schedule

__all__ = ["check_component", "check_schedule"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(kit("astra_sim_devkit.testing"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def kit(module: str) -> Any:
    """A module of the kit. Raises ImportError with an installation hint if its package is absent."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "astra_sim_devkit":
            raise
        raise ImportError("astra_sim.testing needs astra-sim-devkit, which is not installed: pip install astra-sim-devkit") from None
