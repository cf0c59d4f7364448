"""Helpers for commands of plugins: build what a user names, run it, and print the results.

A command names the components of an experiment as `astra` does (`component_options`, `Experiment.use`, `load_experiment`), and makes them
(`build`, or a platform alone with `build_platform`). `candidates` are for shell completion. `run_components`
runs the components of `build`; a whole experiment is run by `astra_sim.simulate`. A command prints each `Table`, of `Column`s, on a
`Screen`, made from the options of `table_options`. With `Progress` it shows its progress on standard error, but for `quiet_option`. It
writes its files before it prints (`write_then_show`), since readers may stop. An error in an input is an InputError, which `astra` turns
into one message.

Every name is imported at first use, so that a command costs nothing until it runs.

Examples:

A command that prints how long one message takes on a platform:

    >>> import time
    >>> from pathlib import Path
    >>> import click
    >>> from astra_sim.commands import (
    ...     Column, Components, Experiment, Plugins, Progress, Screen, Table, build, build_platform, candidates, component_options,
    ...     json_option, load_experiment, quiet_option, run_components, say_json, shared_plugins, table_options, write_then_show,
    ... )
    >>> @click.command()
    ... @click.argument("path", required=False, shell_complete=candidates("experiments"))
    ... @component_options(multiple=False)
    ... @json_option
    ... @table_options
    ... @quiet_option
    ... def finish(path, assignments, as_json, every, units, quiet, **chosen):
    ...     '''When an experiment ends.'''
    ...     plugins: Plugins = shared_plugins()
    ...     experiment = load_experiment(path, plugins) if path else Experiment()
    ...     for kind, value in chosen.items():
    ...         if value:
    ...             experiment.use(kind, value, plugins)
    ...     components: Components = build(experiment, plugins)
    ...     with Progress(enabled=not quiet) as progress:
    ...         result = run_components(components, "finish", time.perf_counter(), progress)
    ...     if as_json:
    ...         say_json({"npus": build_platform(experiment, plugins).npus, "finish_ns": result.finish_ns, "files": ["finish.txt"]})
    ...         return
    ...     columns = [Column("NPUs"), Column("finish (ns)")]
    ...     table = Table(columns, [[str(result.npus), str(result.finish_ns)]], "One run")
    ...     write_then_show(lambda: Path("finish.txt").write_text(str(result.finish_ns)), lambda: Screen(every, units).table(table))
    >>> words = ["--platform", "plugin:ring?size=4&links=2&link_bandwidth_gb_per_s=25&link_latency_ns=500"]
    >>> words += ["--workload", "plugin:collective?bytes=1MiB"]
    >>> finish.main([*words, "--quiet"], standalone_mode=False)
    One run
    NPUs  finish (ns)
       4        34522
    >>> finish.main([*words, "--json", "--quiet"], standalone_mode=False)
    {"npus": 4, "finish_ns": 34522, "files": ["finish.txt"]}
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
