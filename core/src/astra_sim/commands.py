"""What the commands of plugins need: to build what a user names, to run it, and to print what came of it.

A command names the components of an experiment as `astra` does (`component_options`, `Experiment.use`, `load_experiment`), makes them
(`build`, or one of them with `build_platform`, `build_compute` or `component`), and prints tables on a `console`, with `Progress` on
standard error meanwhile. A whole experiment is run by `astra_sim.simulate`. What is wrong in an input is an InputError, which `astra`
turns into one message.

Every name is imported when it is first used, so that a command costs nothing until somebody runs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from astra_sim._lazy import lazy_names

if TYPE_CHECKING:
    from astra_sim.command.options import component_options
    from astra_sim.command.progress import Progress
    from astra_sim.report.frames import frame_of
    from astra_sim.report.tables import console, print_result
    from astra_sim.setup.components import Components, build, build_compute, build_platform, component
    from astra_sim.setup.experiment import Experiment, load_experiment
    from astra_sim.setup.plugins import Plugins, shared_plugins
    from astra_sim.setup.provenance import versions

__all__ = [
    "Components",
    "Experiment",
    "Plugins",
    "Progress",
    "build",
    "build_compute",
    "build_platform",
    "component",
    "component_options",
    "console",
    "frame_of",
    "load_experiment",
    "print_result",
    "shared_plugins",
    "versions",
]

__getattr__ = lazy_names(
    __name__,
    {
        "command.options": ("component_options",),
        "command.progress": ("Progress",),
        "report.frames": ("frame_of",),
        "report.tables": ("console", "print_result"),
        "setup.components": ("Components", "build", "build_compute", "build_platform", "component"),
        "setup.experiment": ("Experiment", "load_experiment"),
        "setup.plugins": ("Plugins", "shared_plugins"),
        "setup.provenance": ("versions",),
    },
)
