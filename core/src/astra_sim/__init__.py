"""astra: a plugin framework that simulates distributed deep-learning training.

`simulate` runs an experiment; `load_experiment` reads one; `write_reports` writes files about results. Plugins import the names in
`__all__` and the modules in `PUBLIC_MODULES`.
Everything is imported when it is first used.

Examples:

Simulate, read the answer, write the reports of ASTRA-sim 1.0:

    >>> import astra_sim
    >>> from astra_sim import Experiment, Result, load_experiment, simulate, write_reports
    >>> platform = "plugin:switch?size=8&links=1&link_bandwidth_gb_per_s=100&link_latency_ns=500"
    >>> result = simulate(workload="plugin:collective?collective=all_reduce&bytes=64MiB", platform=platform)
    >>> isinstance(result, Result), result.npus, result.messages
    (True, 8, 48)
    >>> round(result.finish_ns)
    1180621
    >>> sorted(path.name for path in write_reports(result, "results"))[:2]
    ['EndToEnd.csv', 'backend_dim_info.csv']
    >>> experiment = load_experiment("results")  # the experiment that a result came from
    >>> isinstance(experiment, Experiment), simulate(experiment).finish_ns == result.finish_ns
    (True, True)

A plugin is a module with hooks, which return providers; here a file, chosen for this process as by `astra -p FILE`:

    >>> from pathlib import Path
    >>> text = '''
    ... import attrs
    ... from astra_sim import CollectiveProvider, FileFormat, Provider, SchedulerProvider, hookimpl, option
    ...
    ... @attrs.frozen
    ... class Options:
    ...     factor: int = option(2, minimum=1, help="by how much times are longer")
    ...
    ... @hookimpl
    ... def astra_computes():
    ...     return [Provider("slower", "Recorded times, made longer", "slower:Slower", "slower:Options")]
    ... '''
    >>> _ = Path("slower.py").write_text(text)
    >>> astra_sim.use_plugins("slower.py")
    >>> from astra_sim.commands import shared_plugins
    >>> shared_plugins().get("compute", "slower").summary
    'Recorded times, made longer'
    >>> Path(astra_sim.get_include(), "astra_sim", "network.h").is_file()  # for networks in C or C++
    True

Errors are of a class of `AstraError`; `astra_sim.errors` has an example of each:

    >>> from astra_sim import AstraError, CapacityError, DeadlockError, InputError, InputWarning, PluginError, RunError, ScheduleError
    >>> try:
    ...     simulate(platform=platform, workload="plugin:collective?bytes=8MX")
    ... except AstraError as error:
    ...     print(f"{type(error).__name__}: {error}")
    InputError: plugin:collective?bytes=8MX: bytes: '8MX' is not a whole number
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
    "value_objects",
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
