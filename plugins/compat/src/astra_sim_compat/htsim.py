"""The program of ASTRA-sim 2.x with its HTSim back end: its options; the network `flow` takes the place of HTSim's TCP."""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Sequence
from typing import Any

from astra_sim import InputError
from astra_sim.commands import Experiment, build_platform, shared_plugins
from astra_sim.errors import warn

from astra_sim_compat import astra2
from astra_sim_compat.arguments import UsageError, existing_file
from astra_sim_compat.logs import log_in

_REST = "--htsim_opts"
"""All that follows is for HTSim."""

_COUPLINGS = ("UNCOUPLED", "COUPLED_INC", "FULLY_COUPLED", "COUPLED_TCP", "COUPLED_SCALABLE_TCP", "COUPLED_EPSILON")
_NIC_GB_PER_S, _LINK_LATENCY_NS = 12.5, 1000
"""Of a fat tree that HTSim makes if no file is given: its constants HOST_NIC and the latency of a hop."""


def htsim(name: str, argv: Sequence[str]) -> None:
    """AstraSim_HTSim: messages share links as flows of TCP do in the long run."""
    place = argv.index(_REST) if _REST in argv else len(argv)
    known = astra2.options(name, "HTSim back end")
    known.add_argument("--htsim-proto", metavar="TEXT", choices=("tcp",), default="tcp", help="transport: tcp")
    known.add_argument(_REST, nargs=argparse.REMAINDER, help="-topo FILE, -nodes N; others of HTSim have no effect")
    values = known.known(argv[:place])
    print(*argv[place:], flush=True)
    file, nodes = _of_htsim(argv[place + 1 :])
    with log_in(values["logging_folder"], values["logging_configuration"]) as log:
        experiment = Experiment()
        experiment.use("network", astra2.file_of(values, "network-configuration"), shared_plugins(), where="--network-configuration")
        sizes = [dimension.size for dimension in build_platform(experiment, shared_plugins()).dimensions]
        npus = math.prod(sizes)
        if nodes not in (None, npus):
            raise InputError(f"-nodes is {nodes}; expected {npus}, the NPUs of --network-configuration")
        experiment.use("platform", _fat_tree(npus) if file is None else existing_file("htsim_opts -topo", file), shared_plugins())
        wired = build_platform(experiment, shared_plugins()).npus
        if wired != npus:
            raise InputError(f"{file} has {wired} nodes; expected {npus}, the NPUs of --network-configuration")
        experiment.sections["platform"] |= {"logical_dims": sizes}
        experiment.use("network", "plugin:flow?routing=hash", shared_plugins())
        astra2.simulate(log, astra2.experiment(values) | {"experiment": experiment})


def _of_htsim(argv: Sequence[str]) -> tuple[str | None, int | None]:
    """The topology file and the number of nodes among the options of HTSim. Raises UsageError if something is no option."""
    file = nodes = None
    words = iter(argv)
    for word in words:
        if word in _COUPLINGS:
            if word == "COUPLED_EPSILON":
                next(words, "")  # its epsilon
            warn(f"{word} has no effect: a message is one flow")
        elif word not in ("-topo", "-nodes", "-o", "-sub"):
            raise UsageError(
                f"{word!r:.80} after {_REST}; expected -topo FILE, -nodes N, -o FILE, -sub N, or one of {', '.join(_COUPLINGS)}"
            )
        elif not (value := next(words, "")):
            raise UsageError(f"{word} after {_REST} has no value")
        elif word == "-topo":
            file = value
        elif not value.isdecimal() and word != "-o":
            raise UsageError(f"{word} after {_REST} is {value!r:.80}; expected a whole number")
        elif word == "-nodes":
            nodes = int(value)
        else:
            warn(f"{word} {value} has no effect: {'HTSim alone writes that file' if word == '-o' else 'a message is one flow'}")
    return file, nodes


def _fat_tree(npus: int) -> dict[str, Any]:
    """The fat tree of three tiers that HTSim makes of `npus` nodes, K^3 / 4 with switches of K ports. Raises InputError."""
    ports = next(ports for ports in itertools.count(2) if ports**3 // 4 >= npus)
    if ports % 2 or ports**3 // 4 != npus:
        raise InputError(f"--network-configuration has {npus} NPUs; expected K^3 / 4 for an even K (2, 16, 54, 128, ...), or -topo FILE")
    return {
        "plugin": "clos",
        "npus": npus,
        "levels": 3,
        "ports": ports,
        "leaf_npus": ports // 2,
        "link_bandwidth_gb_per_s": _NIC_GB_PER_S,
        "link_latency_ns": _LINK_LATENCY_NS,
    }
