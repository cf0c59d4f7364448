"""The workload generator of ASTRA-sim 1.0, `gen_astrasim_workload_input.py`: its options; `astra generate` does the work."""

from __future__ import annotations

import os
from collections.abc import Sequence

from astra_sim.errors import warn

from astra_sim_compat.arguments import Arguments
from astra_sim_compat.commands import run_command

_OF_SCALE_SIM = {"scalesim_path": "../../extern/compute/SCALE-Sim", "run_name": "test"}
"""The folders of SCALE-Sim and of its output. Here the plugin `systolic` computes the cycles."""


def generate(name: str, argv: Sequence[str]) -> None:
    """Write a text workload from the matrix products of layers."""
    known = Arguments(name, "Workload generator of ASTRA-sim 1.0, by `astra generate`.")
    known.text("mnk", "layers: CSV of name, m, n, k (mnk_inputs/test.csv)", "mnk_inputs/test.csv")
    known.text("output_file", "the workload (workload.txt)", "workload.txt")
    known.text("parallel", "parallelisation (DATA)", "DATA")
    known.number("datatype_size", "bytes of an element", 2)
    known.number("num_npus", "NPUs", 8)
    known.number("num_packages", "packages of NPUs", 1)
    default = "../../extern/compute/SCALE-Sim/configs/google.cfg"
    known.text("scalesim_config", f"array, as SCALE-Sim describes it ({default})", default)
    for option, value in _OF_SCALE_SIM.items():
        known.text(option, "has no effect: SCALE-Sim is not needed", value)
    values = known.all(argv)
    if values["run_name"] != _OF_SCALE_SIM["run_name"]:
        warn(f"--run_name is {values['run_name']}, and has no effect: SCALE-Sim does not run, and no folder of its output is written")
    arguments = ["--layers", values["mnk"], "--parallel", values["parallel"], "--npus", str(values["num_npus"])]
    arguments += ["--packages", str(values["num_packages"]), "--datatype-bytes", str(values["datatype_size"])]
    arguments += ["--compute", values["scalesim_config"], "--format", "text", "--output", os.path.abspath(values["output_file"])]
    run_command(name, "generate", *arguments, "--quiet")
