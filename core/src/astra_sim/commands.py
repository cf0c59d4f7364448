"""Helpers for commands of plugins: build what a user names, run it, and print the results.

A command names the components of an experiment as `astra` does (`component_options`, `Experiment.use`, `load_experiment`), and makes them
(`build`, or one of them with `build_platform`, `build_compute`, `network_of` or `component`). `candidates` are for shell completion. It
prints each `Table`, of `Column`s, on a `Screen`, made from the options of `table_options`; `fold` finds layers that repeat. With
`Progress` it shows its progress on standard error, but for `quiet_option`. A whole experiment is run by `astra_sim.simulate`. A command
that runs many numbers their combinations with `Grid`, makes each of `Change`s with `changed`, and its row with `row_of`; `check_options`
refuses unknown options without a run, `versions` and `binaries` identify the code that runs, `version_differences` names the packages that
differ, and `write_document` writes the result.json of a run (`Result.document`, with the `invocation`), `network_files` the files of a
network. `run_options` and `output_options` are those of `astra run`, `Reports` the files that the latter ask for, `say_findings` prints the
audit finds, `comparison_table` the figures of workloads side by side; `SpooledResults` holds results outside of memory. `assigned` takes an
assignment of `--set` apart, `changed_inputs` compares the input files of results. `run_components` runs the components of `build`, and
`contain_exits` keeps exceptions of a plugin from ending the process. A command writes its files before it prints (`write_then_show`), since
readers may stop. Code that reads a file without `astra_sim.files.read_text` calls `note_input`, so that no output replaces
it. Communicator groups are read with `read_groups` and `check_groups`. An error in an input is an InputError, which `astra` turns into
one message.

Every name is imported at first use, so that a command costs nothing until it runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from astra_sim._lazy import lazy_names

if TYPE_CHECKING:
    from astra_sim._boundary import contain_exits
    from astra_sim._cache_folder import cache_folder
    from astra_sim.api import run_components
    from astra_sim.command.findings import say_findings
    from astra_sim.command.options import (
        all_option,
        candidates,
        component_options,
        json_option,
        json_output,
        output_options,
        quiet_option,
        run_options,
        say_json,
        table_options,
        write_then_show,
    )
    from astra_sim.command.progress import Progress
    from astra_sim.report.amounts import DisplayUnit
    from astra_sim.report.figures import comparison_table
    from astra_sim.report.frames import frame_of
    from astra_sim.report.layout import Column, Table
    from astra_sim.report.network_files import network_files
    from astra_sim.report.repeated_layers import Folded, fold
    from astra_sim.report.screen import Screen
    from astra_sim.report.spool import SpooledResults
    from astra_sim.report.tables import print_result
    from astra_sim.report.writing import Reports, write_document
    from astra_sim.setup.components import (
        Components,
        build,
        build_compute,
        build_platform,
        check_options,
        component,
        dimensions_of,
        network_of,
        workload_options,
    )
    from astra_sim.setup.experiment import SECTIONS, Experiment, assigned, experiment_from, experiment_of, load_experiment
    from astra_sim.setup.groups import check_groups, check_npus, read_groups
    from astra_sim.setup.inputs import changed_inputs
    from astra_sim.setup.plugins import Plugins, shared_plugins
    from astra_sim.setup.points import Change, Grid, changed, row_of
    from astra_sim.setup.provenance import binaries, invocation, version_differences, versions
    from astra_sim.setup.run_options import RunOptions

__all__ = [
    "SECTIONS",
    "Change",
    "Column",
    "Components",
    "DisplayUnit",
    "Experiment",
    "Folded",
    "Grid",
    "Plugins",
    "Progress",
    "Reports",
    "RunOptions",
    "Screen",
    "SpooledResults",
    "Table",
    "all_option",
    "assigned",
    "binaries",
    "build",
    "build_compute",
    "build_platform",
    "cache_folder",
    "candidates",
    "changed",
    "changed_inputs",
    "check_groups",
    "check_npus",
    "check_options",
    "comparison_table",
    "component",
    "component_options",
    "contain_exits",
    "dimensions_of",
    "experiment_from",
    "experiment_of",
    "fold",
    "frame_of",
    "invocation",
    "json_option",
    "json_output",
    "load_experiment",
    "network_files",
    "network_of",
    "output_options",
    "print_result",
    "quiet_option",
    "read_groups",
    "row_of",
    "run_components",
    "run_options",
    "say_findings",
    "say_json",
    "shared_plugins",
    "table_options",
    "version_differences",
    "versions",
    "workload_options",
    "write_document",
    "write_then_show",
]

__getattr__ = lazy_names(
    __name__,
    {
        "_boundary": ("contain_exits",),
        "_cache_folder": ("cache_folder",),
        "api": ("run_components",),
        "command.findings": ("say_findings",),
        "command.options": (
            "all_option",
            "candidates",
            "component_options",
            "json_option",
            "json_output",
            "output_options",
            "quiet_option",
            "run_options",
            "say_json",
            "table_options",
            "write_then_show",
        ),
        "command.progress": ("Progress",),
        "report.amounts": ("DisplayUnit",),
        "report.figures": ("comparison_table",),
        "report.repeated_layers": ("Folded", "fold"),
        "report.frames": ("frame_of",),
        "report.layout": ("Column", "Table"),
        "report.network_files": ("network_files",),
        "report.screen": ("Screen",),
        "report.spool": ("SpooledResults",),
        "report.tables": ("print_result",),
        "report.writing": ("Reports", "write_document"),
        "setup.components": (
            "Components",
            "build",
            "build_compute",
            "build_platform",
            "check_options",
            "component",
            "dimensions_of",
            "network_of",
            "workload_options",
        ),
        "setup.experiment": ("SECTIONS", "Experiment", "assigned", "experiment_from", "experiment_of", "load_experiment"),
        "setup.groups": ("check_groups", "check_npus", "read_groups"),
        "setup.inputs": ("changed_inputs",),
        "setup.plugins": ("Plugins", "shared_plugins"),
        "setup.points": ("Change", "Grid", "changed", "row_of"),
        "setup.provenance": ("binaries", "invocation", "version_differences", "versions"),
        "setup.run_options": ("RunOptions",),
    },
)
