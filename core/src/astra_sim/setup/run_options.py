"""Options of a run: one definition for experiment files, the command line and Python."""

from __future__ import annotations

from typing import Any

import attrs

from astra_sim.options import option
from astra_sim.value_objects import ValueObject


@attrs.frozen(eq=False, repr=False)
class RunOptions(ValueObject):
    """The options of a run.

    These are the keys of the section `run`, the options of `astra run` and `astra compare`, and keywords of `simulate`.
    """

    passes: int = option(1, minimum=1, maximum=1_000_000, help="training iterations")
    compute_scale: float = option(1.0, minimum=0, help="factor on every compute time")
    comm_scale: float = option(1.0, above=0, help="factor on the size of every collective")
    injection_scale: float = option(1.0, minimum=0, help="factor on the endpoint delay of the system")
    queues_per_dim: int = option(
        1, minimum=1, maximum=1024, help="queues of each dimension; those of the second half run in the opposite direction"
    )
    rendezvous: bool = option(False, help="a message waits for a request from its receiver")
    symmetry: bool = option(True, help="simulate one NPU for all that provably do the same")
    strict: bool = option(False, help="findings of the physics audit are an error")
    groups: dict[str, Any] = option(factory=dict, help="communicator groups: the NPUs of each by name, or their file (JSON, TOML)")
    slow_npus: str = option("", help="slowdown of the compute of NPUs, always or in a window: 3:1.5, 8-15:2@10ms-20ms (all: every NPU)")
    engine: str = option(
        "auto",
        names="astra_sim.setup.engines:engine_names",
        help="which engine runs: auto (the compiled one if it is installed), python, compiled, or one of a plugin",
    )
