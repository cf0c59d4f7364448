"""Helpers for commands of plugins: build what a user names, run it, and print the results.

A command names the components of an experiment as `astra` does (`component_options`, `Experiment.use`, `load_experiment`), and makes them
(`build`, or a platform alone with `build_platform`). `candidates` are for shell completion. `run_components`
runs the components of `build`; a whole experiment is run by `astra_sim.simulate`. A command prints each `Table`, of `Column`s, on a
`Screen`, made from the options of `table_options`. With `Progress` it shows its progress on standard error, but for `quiet_option`. It
writes its files before it prints (`write_then_show`), since readers may stop. An error in an input is an InputError, which `astra` turns
into one message.

Every name is imported at first use, so that a command costs nothing until it runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from astra_sim._lazy import lazy_names

if TYPE_CHECKING:
    from astra_sim.api import run_components
    from astra_sim.command.options import candidates, component_options, json_option, quiet_option, say_json, table_options, write_then_show
    from astra_sim.command.progress import Progress
    from astra_sim.report.layout import Column, Table
    from astra_sim.report.screen import Screen
    from astra_sim.setup.components import Components, build, build_platform
    from astra_sim.setup.experiment import Experiment, load_experiment
    from astra_sim.setup.plugins import Plugins, shared_plugins

__all__ = [
    "Column",
    "Components",
    "Experiment",
    "Plugins",
    "Progress",
    "Screen",
    "Table",
    "build",
    "build_platform",
    "candidates",
    "component_options",
    "json_option",
    "load_experiment",
    "quiet_option",
    "run_components",
    "say_json",
    "shared_plugins",
    "table_options",
    "write_then_show",
]

__getattr__ = lazy_names(
    __name__,
    {
        "api": ("run_components",),
        "command.options": (
            "candidates",
            "component_options",
            "json_option",
            "quiet_option",
            "say_json",
            "table_options",
            "write_then_show",
        ),
        "command.progress": ("Progress",),
        "report.layout": ("Column", "Table"),
        "report.screen": ("Screen",),
        "report.tables": ("print_result",),  # in `display`, but importable from here since 0.1.0, as are the next two
        "setup.components": ("Components", "build", "build_compute", "build_platform", "component"),
        "setup.experiment": ("Experiment", "load_experiment"),
        "setup.plugins": ("Plugins", "shared_plugins"),
    },
)
