"""Experiments in bulk, for astra's own commands that run many, compare, or record them. Provisional.

A command that runs many experiments numbers their combinations with `Grid`, makes each of `Change`s with `changed`, and its row with
`row_of`; `check_options` refuses unknown options without a run, `assigned` takes an assignment of `--set` apart. `versions` and `binaries`
identify the code that runs, `version_differences` names the packages that differ, `changed_inputs` compares the input files of results, and
`invocation` is what a result says of the command. `Spool` is the file of a result outside of memory. Communicator groups are read with
`read_groups` and `check_groups`. `contain_exits` keeps exceptions of a plugin from ending the process.

Every name is imported at first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from astra_sim._lazy import lazy_names

if TYPE_CHECKING:
    from astra_sim._boundary import contain_exits
    from astra_sim._cache_folder import cache_folder
    from astra_sim.report.spool import Spool
    from astra_sim.setup.components import build_compute, check_options, component, dimensions_of, network_of, workload_options
    from astra_sim.setup.experiment import SECTIONS, assigned, experiment_from, experiment_of
    from astra_sim.setup.groups import check_groups, check_npus, read_groups
    from astra_sim.setup.inputs import changed_inputs
    from astra_sim.setup.points import Change, Grid, changed, row_of
    from astra_sim.setup.provenance import binaries, invocation, version_differences, versions
    from astra_sim.setup.run_options import RunOptions


__getattr__ = lazy_names(
    __name__,
    {
        "_boundary": ("contain_exits",),
        "_cache_folder": ("cache_folder",),
        "report.spool": ("Spool",),
        "setup.components": ("build_compute", "check_options", "component", "dimensions_of", "network_of", "workload_options"),
        "setup.experiment": ("SECTIONS", "assigned", "experiment_from", "experiment_of"),
        "setup.groups": ("check_groups", "check_npus", "read_groups"),
        "setup.inputs": ("changed_inputs",),
        "setup.points": ("Change", "Grid", "changed", "row_of"),
        "setup.provenance": ("binaries", "invocation", "version_differences", "versions"),
        "setup.run_options": ("RunOptions",),
    },
)
