"""astra: a plugin framework that simulates distributed deep-learning training.

`simulate` runs an experiment; `load_experiment` reads one; `write_reports` writes files about results. Plugins import the names in
`__all__` and the modules in `PUBLIC_MODULES`.
Everything is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from astra_sim._lazy import lazy_names

if TYPE_CHECKING:
    from astra_sim.api import simulate
    from astra_sim.errors import AstraError, CapacityError, DeadlockError, InputError, InputWarning, PluginError, RunError, ScheduleError
    from astra_sim.function_table import get_include
    from astra_sim.hookspecs import hookimpl
    from astra_sim.options import option
    from astra_sim.providers import CollectiveProvider, FileFormat, Provider, SchedulerProvider
    from astra_sim.report.result import Result
    from astra_sim.report.writing import write_reports
    from astra_sim.setup.experiment import Experiment, load_experiment
    from astra_sim.setup.plugins import use_plugins

__all__ = [
    "AstraError",
    "CapacityError",
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
    "use_plugins",
    "write_reports",
]

PUBLIC_MODULES = (
    "schedule",
    "graph",
    "platform",
    "fabric",
    "network",
    "system",
    "compute",
    "memory",
    "models",
    "serving",
    "shapes",
    "layers",
    "context",
    "options",
    "providers",
    "hookspecs",
    "errors",
    "units",
    "rows",
    "files",
    "memo",
    "yaml_text",
    "random",
    "reports",
    "results",
    "toml_text",
    "function_table",
    "testing",
    "testing.contracts",
    "commands",
)
"""The modules of this package whose names in `__all__` are stable for plugins (docs/plugins.md)."""

PROVISIONAL_MODULES = (
    "schedule_bytes",
    "fabric.destination_order",
    "fabric.graph",
    "fabric.links",
    "fabric.paths",
    "fabric.routes",
    "fabric.ties",
    "fabric.topology",
    "limits",
    "collective_tables",
    "fitting",
    "records",
    "processors",
    "engines",
    "starting",
    "served",
    "experiments",
    "display",
)
"""Modules that packages released with the kernel share, like names of public modules outside of `__all__`. They may change at any time."""

__getattr__ = lazy_names(
    __name__,
    {
        "errors": (
            "AstraError",
            "CapacityError",
            "DeadlockError",
            "InputError",
            "InputWarning",
            "PluginError",
            "RunError",
            "ScheduleError",
        ),
        "setup.experiment": ("Experiment", "load_experiment"),
        "setup.plugins": ("use_plugins",),
        "function_table": ("get_include",),
        "hookspecs": ("hookimpl",),
        "options": ("option",),
        "providers": ("CollectiveProvider", "FileFormat", "Provider", "SchedulerProvider"),
        "report.result": ("Result",),
        "report.writing": ("write_reports",),
        "api": ("simulate",),
    },
)
