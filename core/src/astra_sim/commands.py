"""What the commands of plugins need: to build what a user names, to run it, and to print what came of it.

A command names the components of an experiment as `astra` does (`component_options`, `Experiment.use`, `load_experiment`), and makes them
(`build`, or one of them with `build_platform`, `build_compute` or `component`). It prints each `Table`, of `Column`s, on a `Screen`, made
of what the options of `table_options` say; `fold` finds layers that repeat. With `Progress` it says on standard error how far it is, but
for `quiet_option`. A whole experiment is run by `astra_sim.simulate`. A command that runs many numbers their combinations with `Grid`,
makes each of `Change`s with `changed`, and its row with `row_of`. Communicator groups are read with `read_groups` and `check_groups`. What
is wrong in an input is an InputError, which `astra` turns into one message.

Every name is imported when it is first used, so that a command costs nothing until somebody runs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from astra_sim._lazy import lazy_names

if TYPE_CHECKING:
    from astra_sim.command.options import all_option, component_options, quiet_option, table_options
    from astra_sim.command.progress import Progress
    from astra_sim.report.folding import Folded, fold
    from astra_sim.report.frames import frame_of
    from astra_sim.report.layout import Column, Table
    from astra_sim.report.screen import Screen
    from astra_sim.report.tables import print_result
    from astra_sim.setup.components import Components, build, build_compute, build_platform, component
    from astra_sim.setup.experiment import Experiment, load_experiment
    from astra_sim.setup.groups import check_groups, read_groups
    from astra_sim.setup.plugins import Plugins, shared_plugins
    from astra_sim.setup.points import Change, Grid, changed, row_of
    from astra_sim.setup.provenance import versions

__all__ = [
    "Change",
    "Column",
    "Components",
    "Experiment",
    "Folded",
    "Grid",
    "Plugins",
    "Progress",
    "Screen",
    "Table",
    "all_option",
    "build",
    "build_compute",
    "build_platform",
    "changed",
    "check_groups",
    "component",
    "component_options",
    "fold",
    "frame_of",
    "load_experiment",
    "print_result",
    "quiet_option",
    "read_groups",
    "row_of",
    "shared_plugins",
    "table_options",
    "versions",
]

__getattr__ = lazy_names(
    __name__,
    {
        "command.options": ("all_option", "component_options", "quiet_option", "table_options"),
        "command.progress": ("Progress",),
        "report.folding": ("Folded", "fold"),
        "report.frames": ("frame_of",),
        "report.layout": ("Column", "Table"),
        "report.screen": ("Screen",),
        "report.tables": ("print_result",),
        "setup.components": ("Components", "build", "build_compute", "build_platform", "component"),
        "setup.experiment": ("Experiment", "load_experiment"),
        "setup.groups": ("check_groups", "read_groups"),
        "setup.plugins": ("Plugins", "shared_plugins"),
        "setup.points": ("Change", "Grid", "changed", "row_of"),
        "setup.provenance": ("versions",),
    },
)
