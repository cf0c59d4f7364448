"""The program of ASTRA-sim 2.x with its ns-3 back end: its options; the network `roce` takes the place of ns-3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from astra_sim import RunError
from astra_sim.commands import Experiment, build_platform, shared_plugins
from astra_sim.files import FileSet, read_text

from astra_sim_compat import astra2
from astra_sim_compat.logs import log_in

_OUTPUTS = {"FCT_OUTPUT_FILE": "fct.txt", "PFC_OUTPUT_FILE": "pfc.txt"}
"""Keys of a network file that name files to write, and the network's names for them."""


def ns3(name: str, argv: Sequence[str]) -> None:
    """ns3.42-AstraSimNetwork-default, and its names in other builds."""
    known = astra2.options(name, "ns-3 back end")
    known.text("logical-topology-configuration", 'sizes of the dimensions of collectives (JSON): {"logical-dims": ["8", "2"]}')
    values = known.all(argv)
    network = astra2.file_of(values, "network-configuration")
    print("ASTRA-sim + NS3")
    with log_in(values["logging_folder"], values["logging_configuration"]) as log:
        experiment = Experiment()
        experiment.use("network", network, shared_plugins(), where="--network-configuration")
        logical = "logical-topology-configuration"
        experiment.use("platform", astra2.file_of(values, logical), shared_plugins(), where=f"--{logical}")
        platform = build_platform(experiment, shared_plugins())
        sizes = "".join(f"{dimension.size}," for dimension in platform.dimensions)
        print(f"There are {platform.npus} npus: {sizes}", flush=True)
        result = astra2.simulate(log, astra2.experiment(values) | {"experiment": experiment})
    _write_outputs(network, result)


def _write_outputs(network: str, result: Any) -> None:
    """Write the files that a network file names, from the network's records. Raises RunError."""
    words = [line.split() for line in read_text(network).splitlines()]
    reports = result.network_reports()
    with FileSet() as files:
        for key, *value in filter(None, words):
            if key in _OUTPUTS and value and _OUTPUTS[key] in reports:
                try:
                    files.write(value[0], [reports[_OUTPUTS[key]]])
                except RunError as error:
                    raise RunError(f"{network}: {key}: {error}") from None
