"""A cluster fitted to its owner's measurements: the network between nodes, and a factor of computing.

The two numbers of the network between nodes, the bandwidth of a GPU's NIC and the latency of a message, are fitted to measured
collectives of more than one node, the factor to measured iterations. Each fit is judged by what it has not seen: half of the sizes, or
each iteration in turn.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import astra_sim
import attrs
from astra_sim.collective_tables import MeasuredCollective
from astra_sim.errors import InputError

BANDWIDTHS = (1.0, 1000.0)
LATENCIES = (0.5, 500.0)
FACTORS = (0.2, 5.0)
FABRICS = ("infiniband", "efa", "tcpxo")
"""Fabrics whose latency the network knows by name."""
LARGE_BYTES = 64 << 20
"""From this size on the bandwidth of NICs shows."""


@attrs.frozen
class FabricFit:
    """The network between nodes: GB/s of a GPU and direction, and the latency, a name of a fabric or microseconds as text.

    `error` is the mean absolute relative error on the sizes of the fit, `held_out` that on the others of a fit without them.
    """

    nic_gb_s: float
    fabric_latency: str
    rows: int
    error: float
    held_out: float | None


@attrs.frozen
class Iteration:
    """A measured iteration: the path of its experiment, and seconds."""

    experiment: str
    seconds: float


@attrs.frozen
class FactorFit:
    """The factor of computing times, and of each iteration the simulated time and its error; `held_out` of a fit without it."""

    compute_scale: float
    simulated_s: list[float]
    errors: list[float]
    held_out: list[float] | None


Simulate = Callable[[MeasuredCollective, float, str], float]
"""The microseconds of a collective with a bandwidth (GB/s) and a latency of the fabric."""


def collective_time(platform: str, network: Mapping[str, Any], gpus_per_node: int) -> Simulate:
    """Simulates collectives on a machine of several nodes by NCCL's formulas."""

    def simulate(row: MeasuredCollective, nic_gb_s: float, latency: str) -> float:
        nodes = nodes_of(row, gpus_per_node)
        result = astra_sim.simulate(
            workload={"plugin": "collective", "collective": row.operation.value, "bytes": row.bytes},
            platform={"plugin": platform, "nodes": nodes, "gpus": row.ranks // nodes, "nic_gb_s": nic_gb_s},
            network={**network, "plugin": "analytical", "model": "nccl", "nic_efficiency": 1.0, "fabric_latency": latency},
            system="plugin:astra2",
        )
        return float(result.finish_ns) / 1000

    return simulate


def nodes_of(row: MeasuredCollective, gpus_per_node: int) -> int:
    """The nodes of a measured collective: its hosts, or as few as can hold its ranks. Raises InputError if ranks differ among nodes."""
    nodes = row.nodes or -(-row.ranks // gpus_per_node)
    if row.ranks % nodes:
        raise InputError(f"{row.ranks} ranks on {nodes} nodes; expected as many on each node")
    return nodes


def fit_fabric(rows: Sequence[MeasuredCollective], simulate: Simulate) -> FabricFit:
    """The bandwidth and latency with which simulated times are nearest to measured ones, by the mean square of their logarithms."""
    even = [row for row in rows if row.bytes.bit_length() % 2]
    odd = [row for row in rows if not row.bytes.bit_length() % 2]
    held_out = None
    if len(even) > 2 and len(odd) > 2:
        held_out = _error(odd, simulate, *_fitted(even, simulate))
    nic_gb_s, latency = _fitted(rows, simulate)
    return FabricFit(nic_gb_s, latency, len(rows), _error(rows, simulate, nic_gb_s, latency), held_out)


def _fitted(rows: Sequence[MeasuredCollective], simulate: Simulate) -> tuple[float, str]:
    """The best bandwidth with each named latency and with a fitted one."""

    def loss(nic_gb_s: float, latency: str) -> float:
        return statistics.fmean(math.log(simulate(row, nic_gb_s, latency) / row.microseconds) ** 2 for row in rows)

    best: list[tuple[float, float, str]] = []
    for name in FABRICS:
        nic = _least(lambda gb_s, name=name: loss(gb_s, name), *BANDWIDTHS)  # type: ignore[misc]
        best.append((loss(nic, name), nic, name))
    nic, latency = statistics.fmean(each[1] for each in best), 5.0
    for _ in range(3):
        latency = _least(lambda us, nic=nic: loss(nic, f"{us:.4g}"), *LATENCIES)  # type: ignore[misc]
        nic = _least(lambda gb_s, us=latency: loss(gb_s, f"{us:.4g}"), *BANDWIDTHS)  # type: ignore[misc]
    best.append((loss(nic, f"{latency:.4g}"), nic, f"{latency:.4g}"))
    # A name brings the fabric's other properties with it: a number must be better by more than its own freedom.
    named = min(best[:-1])
    _, nic, text = best[-1] if best[-1][0] < 0.8 * named[0] else named
    return round(nic, 3), text


def _error(rows: Sequence[MeasuredCollective], simulate: Simulate, nic_gb_s: float, latency: str) -> float:
    return statistics.fmean(abs(simulate(row, nic_gb_s, latency) / row.microseconds - 1) for row in rows)


def _least(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a function of one number is least: a grid of its logarithm, then golden section around the best."""
    grid = [math.exp(math.log(low) + step / 16 * math.log(high / low)) for step in range(17)]
    values = [function(each) for each in grid]
    place = values.index(min(values))
    a, b = math.log(grid[max(0, place - 1)]), math.log(grid[min(16, place + 1)])
    ratio = (math.sqrt(5) - 1) / 2
    while b - a > 1e-3:
        c, d = b - ratio * (b - a), a + ratio * (b - a)
        a, b = (a, d) if function(math.exp(c)) < function(math.exp(d)) else (c, b)
    return math.exp((a + b) / 2)


def fit_factor(iterations: Sequence[Iteration], seconds_of: Callable[[str, float], float]) -> FactorFit:
    """The factor of computing times with which iterations are nearest to measured ones; `seconds_of` simulates one with a factor."""
    known: dict[tuple[str, float], float] = {}

    def seconds(path: str, factor: float) -> float:
        if (path, factor) not in known:
            known[path, factor] = seconds_of(path, factor)
        return known[path, factor]

    def fitted(some: Sequence[Iteration]) -> float:
        return _least(lambda c: statistics.fmean(math.log(seconds(each.experiment, c) / each.seconds) ** 2 for each in some), *FACTORS)

    factor = round(fitted(iterations), 4)
    simulated = [seconds(each.experiment, factor) for each in iterations]
    held_out = None
    if len(iterations) > 1:
        held_out = []
        for place, each in enumerate(iterations):
            other = fitted([*iterations[:place], *iterations[place + 1 :]])
            held_out.append(seconds(each.experiment, other) / each.seconds - 1)
    errors = [time / each.seconds - 1 for time, each in zip(simulated, iterations, strict=True)]
    return FactorFit(factor, simulated, errors, held_out)
