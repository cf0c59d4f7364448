"""The error of simulated iterations against measured ones: rows of `residuals.csv` for similar runs.

Each row of the file is a published iteration, simulated with a stack: its own, or (half `other`) that which a user of another software
would get. The expected error is the quantile `SHARE` of the sizes of these errors, each weighted by exp(-d^2 / 2) + `FLOOR`, and of one
beyond all for the requested run itself, which counts as the row most like it (conformal prediction, arXiv 2202.13415, eq. 11). Here d is
how far the row's configuration is from the requested one; with the floor a configuration unlike all others has the error of the whole
stack. Rows of the half `fit` record measurements, and give no error.

`python3 dev.py validate` writes the file and reports on the page of the validation how many measured runs are within the expected error
when their own configuration, or all runs of their software, are left out.
"""

from __future__ import annotations

import csv
import functools
import math
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import attrs
from astra_sim.compute import ExpectedError
from astra_sim.platform import device_family

from astra_sim_compute_gpu.stack import BITS

FILE = "residuals.csv"
SHARE = 0.8
FLOOR = 0.03
FIT = "fit"
DOUBLINGS = {
    "npus": ("NPUs", 4.5),
    "parameters": ("parameters", 3.5),
    "sequence": ("sequence", 2.25),
    "tokens_per_npu": ("tokens of an NPU", 4.5),
    "tokens_of_micro_batch": ("tokens of a micro-batch", 3.5),
}
"""The name of a number of a configuration, and the number of doublings that count as a distance of 1."""
DIFFERENCES = {
    "tensor_parallel": ("tensor parallelism", 0.4),
    "pipeline_parallel": ("pipeline parallelism", 0.4),
    "context_parallel": ("context parallelism", 0.4),
    "expert_parallel": ("expert parallelism", 0.6),
    "experts": ("experts", 1.8),
    "bits": ("precision", 0.4),
    "sharded_weights": ("sharding of weights", 1.8),
    "recomputed": ("recomputation", 0.4),
    "device": ("device", 1.8),
}
"""The name of a property, its test, and the distance of configurations that differ in it."""
_NAMED = 3


@attrs.frozen
class RunConfiguration:
    """The coordinates of the distance: logarithms of numbers, and properties."""

    numbers: tuple[float, ...]
    properties: tuple[object, ...]

    def distance2(self, other: RunConfiguration) -> float:
        """The square of the distance to another."""
        scales = (doublings for _, doublings in DOUBLINGS.values())
        far = sum(((mine - its) / scale) ** 2 for mine, its, scale in zip(self.numbers, other.numbers, scales, strict=True))
        sizes = (size for _, size in DIFFERENCES.values())
        return far + sum(size**2 for mine, its, size in zip(self.properties, other.properties, sizes, strict=True) if mine != its)


@attrs.frozen
class Residual:
    """A row: a published run, simulated with a stack, and the relative error (positive: simulated too long)."""

    stack: str
    half: str
    software: str
    name: str
    configuration: RunConfiguration
    error: float


def configuration_of(device: str, npus: int, facts: Mapping[str, Any]) -> RunConfiguration:
    """The configuration of a workload, from the arguments of `Compute.expected_error`."""
    sequence, batch = float(facts["sequence"]), float(facts["global_batch"])
    numbers = (npus, float(facts["parameters"]), sequence, sequence * batch / npus, sequence * float(facts["micro_batch"]))
    parallel = (int(facts[f"{name}_parallel"]) > 1 for name in ("tensor", "pipeline", "context", "expert"))
    rest = (
        int(facts["experts"]) > 0,
        BITS.get(str(facts["precision"]), 0),
        int(facts["zero"]) >= _WEIGHTS,
        facts["recompute"] != "none",
        device_family(device),
    )
    return RunConfiguration(tuple(math.log2(number) for number in numbers), (*parallel, *rest))


_WEIGHTS = 3
"""The level of ZeRO that shards weights."""


@functools.cache
def residuals(stack: str) -> Sequence[Residual]:
    """The rows of a stack, none if it has none. Those of others are not parsed: a run needs one stack."""
    head, *lines = (resources.files(__package__) / FILE).read_text(encoding="utf-8").splitlines()
    result = []
    for row in csv.DictReader([head, *(line for line in lines if line.startswith(f"{stack},"))]):
        configuration = configuration_of(row["device"], int(row["npus"]), row)
        result.append(Residual(row["stack"], row["half"], row["software"], row["name"], configuration, float(row["error"])))
    return result


def expected_error(stack: str, configuration: RunConfiguration, rows: Sequence[Residual] | None = None) -> ExpectedError | None:
    """The expected error of a configuration with a stack, by these rows (all of the stack); None: there are none."""
    rows = residuals(stack) if rows is None else rows
    judged = [row for row in rows if row.half != FIT]
    if not judged:
        return None
    weights = [math.exp(-configuration.distance2(row.configuration) / 2) + FLOOR for row in judged]
    near = sum(weights) - FLOOR * len(weights)
    order = sorted(range(len(judged)), key=lambda place: abs(judged[place].error))
    reached, goal, within = 0.0, SHARE * (sum(weights) + max(weights)), abs(judged[order[-1]].error)
    for place in order:
        reached += weights[place]
        if reached >= goal:
            within = abs(judged[place].error)
            break
    nearest = sorted(range(len(judged)), key=lambda place: -weights[place])
    names = dict.fromkeys(judged[place].name for place in nearest)
    return ExpectedError(within, SHARE, len(judged), near, tuple(names)[:_NAMED], _outside(configuration, rows))


def _outside(configuration: RunConfiguration, rows: Sequence[Residual]) -> tuple[str, ...]:
    """The parts of a configuration that were never measured: numbers beyond those of all rows, properties that no row has."""
    result = []
    for place, (words, _) in enumerate(DOUBLINGS.values()):
        known = [row.configuration.numbers[place] for row in rows]
        if not min(known) - _SLACK <= configuration.numbers[place] <= max(known) + _SLACK:
            result.append(words)
    for place, (words, _) in enumerate(DIFFERENCES.values()):
        if all(row.configuration.properties[place] != configuration.properties[place] for row in rows):
            result.append(words)
    return tuple(result)


_SLACK = 0.01
