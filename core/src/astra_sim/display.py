"""Output of astra's own commands beyond tables: options and files of `astra run`, and parts of tables. Provisional.

`run_options` and `output_options` are the options of `astra run`, `Reports` the files that the latter ask for, `write_document` writes the
result.json of a run, `network_files` the files of a network. `say_findings` prints what the audit finds; `scalar_figures` are
those of a workload that are one value each, `amount` puts a value into words, and `fold` finds layers that repeat.

Every name is imported at first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from astra_sim._lazy import lazy_names

if TYPE_CHECKING:
    from astra_sim.command.findings import say_findings
    from astra_sim.command.options import all_option, json_output, output_options, run_options
    from astra_sim.report.amounts import DisplayUnit, amount
    from astra_sim.report.figures import scalar_figures
    from astra_sim.report.frames import frame_of
    from astra_sim.report.network_files import network_files
    from astra_sim.report.repeated_layers import Folded, fold
    from astra_sim.report.tables import print_result
    from astra_sim.report.writing import Reports, write_document


__getattr__ = lazy_names(
    __name__,
    {
        "command.findings": ("say_findings",),
        "command.options": ("all_option", "json_output", "output_options", "run_options"),
        "report.amounts": ("DisplayUnit", "amount"),
        "report.figures": ("scalar_figures",),
        "report.frames": ("frame_of",),
        "report.network_files": ("network_files",),
        "report.repeated_layers": ("Folded", "fold"),
        "report.tables": ("print_result",),
        "report.writing": ("Reports", "write_document"),
    },
)
