"""Checks for plugin authors: whether a component keeps its contract.

`check_schedule` moves real pieces along a collective's schedule. The classes of `astra_sim_devkit.testing.contracts` are test classes
for pytest: subclass one, name your component, and its tests run. `check_component` runs them with the examples that a provider offers.
"""

from astra_sim_devkit.testing.components import check_component
from astra_sim_devkit.testing.pieces import check_schedule

__all__ = ["check_component", "check_schedule"]
