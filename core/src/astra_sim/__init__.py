"""astra: a plugin framework that simulates distributed deep-learning training.

`simulate` runs an experiment; `load_experiment` reads one; `write_reports` writes files about results.
Plugin authors use `hookimpl` and the classes named in `__all__`.
Everything is imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from astra_sim.api import simulate
    from astra_sim.errors import AstraError, DeadlockError, InputError, InputWarning, PluginError, RunError, ScheduleError
    from astra_sim.function_table import get_include
    from astra_sim.hookspecs import hookimpl
    from astra_sim.options import option
    from astra_sim.providers import CollectiveProvider, FileFormat, Provider, SchedulerProvider
    from astra_sim.report.result import Result
    from astra_sim.report.writing import write_reports
    from astra_sim.setup.experiment import Experiment, load_experiment

__all__ = [
    "AstraError",
    "CollectiveProvider",
    "DeadlockError",
    "Experiment",
    "FileFormat",
    "InputError",
    "InputWarning",
    "PluginError",
    "Provider",
    "Result",
    "RunError",
    "ScheduleError",
    "SchedulerProvider",
    "get_include",
    "hookimpl",
    "load_experiment",
    "option",
    "simulate",
    "write_reports",
]

_HOMES = {
    "errors": ("AstraError", "DeadlockError", "InputError", "InputWarning", "PluginError", "RunError", "ScheduleError"),
    "setup.experiment": ("Experiment", "load_experiment"),
    "function_table": ("get_include",),
    "hookspecs": ("hookimpl",),
    "options": ("option",),
    "providers": ("CollectiveProvider", "FileFormat", "Provider", "SchedulerProvider"),
    "report.result": ("Result",),
    "report.writing": ("write_reports",),
    "api": ("simulate",),
}
_HOME = {name: f"astra_sim.{module}" for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'astra_sim' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value
