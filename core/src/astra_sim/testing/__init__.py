"""Checks for plugin authors: whether a component keeps its contract. They are in the package astra-sim-devkit, `astra_sim_devkit.testing`.

`check_schedule` moves real pieces along a collective's schedule. The classes of `astra_sim.testing.contracts` are test classes
for pytest: subclass one, name your component, and its tests run. `check_component` runs them with the examples that a provider offers.

Example:

    >>> from astra_sim.commands import shared_plugins
    >>> from astra_sim.schedule import Collective, Request, Schedule, exchange, shift
    >>> from astra_sim.testing import check_component, check_schedule
    >>> request = Request(Collective.ALL_GATHER, ranks=4, bytes=100)
    >>> def ring(steps):
    ...     return Schedule.shared(request, [exchange(shift(1), 100, pieces=[-step]) for step in range(steps)])
    >>> pieces = check_schedule(ring(3), request)
    >>> sorted(pieces[0])  # the pieces that rank 0 holds in the end
    [0, 1, 2, 3]
    >>> check_schedule(ring(2), request)
    Traceback (most recent call last):
        ...
    AssertionError: rank 0 does not hold piece 1
    >>> check_component("collective", shared_plugins().get("collective", "ring"))  # an empty text: its contract was run, and held
    ''
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
