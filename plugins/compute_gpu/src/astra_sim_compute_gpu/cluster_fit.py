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
_STEPS, _PRECISION, _CLEARLY, _MOST_ROWS, _SAME = 10, 3e-3, 0.8, 10, 1e-6
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


def fit_fabric(rows: Sequence[MeasuredCollective], simulate: Simulate, usual_gb_s: float) -> FabricFit:
    """The bandwidth and latency with which simulated times are nearest to measured ones, by the mean square of their logarithms.

    The bandwidth is `usual_gb_s`, the machine's, if that is as near: collectives may be limited by something else.
    """
    even = [row for row in rows if row.bytes.bit_length() % 2]
    odd = [row for row in rows if not row.bytes.bit_length() % 2]
    held_out = None
    if len(even) > 2 and len(odd) > 2:
        held_out = _error(odd, simulate, *_fitted(even, simulate, usual_gb_s))
    nic_gb_s, latency = _fitted(rows, simulate, usual_gb_s)
    return FabricFit(nic_gb_s, latency, len(rows), _error(rows, simulate, nic_gb_s, latency), held_out)


def _fitted(every: Sequence[MeasuredCollective], simulate: Simulate, usual_gb_s: float) -> tuple[float, str]:
    """The best bandwidth with each named latency and with a fitted one. Of many rows some are looked at, evenly spread."""
    rows = [every[place * len(every) // _MOST_ROWS] for place in range(_MOST_ROWS)] if len(every) > _MOST_ROWS else every

    def loss(nic_gb_s: float, latency: str) -> float:
        return statistics.fmean(math.log(simulate(row, nic_gb_s, latency) / row.microseconds) ** 2 for row in rows)

    by_name = {name: _least(lambda gb_s, name=name: loss(gb_s, name), *BANDWIDTHS) for name in FABRICS}  # type: ignore[misc]
    name = min(by_name, key=lambda each: loss(by_name[each], each))
    named = by_name[name]
    latency = _least(lambda us: loss(named, f"{us:.4g}"), *LATENCIES)
    nic = _least(lambda gb_s: loss(gb_s, f"{latency:.4g}"), *BANDWIDTHS)
    # A name brings the fabric's other properties with it: a number must be clearly better than these.
    text, fitted = name, named
    if loss(nic, f"{latency:.4g}") < _CLEARLY * loss(named, name):
        text, fitted = f"{latency:.4g}", nic
    if loss(usual_gb_s, text) <= loss(fitted, text) + _SAME:
        return usual_gb_s, text
    return round(fitted, 3), text


def _error(rows: Sequence[MeasuredCollective], simulate: Simulate, nic_gb_s: float, latency: str) -> float:
    return statistics.fmean(abs(simulate(row, nic_gb_s, latency) / row.microseconds - 1) for row in rows)


def _grid(low: float, high: float) -> list[float]:
    """Numbers from one to another, the same factor apart."""
    return [low * (high / low) ** (step / _STEPS) for step in range(_STEPS + 1)]


def _least(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a function of one number is least: a grid of its logarithm, then golden section around the best."""
    grid = _grid(low, high)
    values = [function(each) for each in grid]
    place = values.index(min(values))
    a, b = math.log(grid[max(0, place - 1)]), math.log(grid[min(_STEPS, place + 1)])
    ratio = (math.sqrt(5) - 1) / 2
    c, d = b - ratio * (b - a), a + ratio * (b - a)
    at_c, at_d = function(math.exp(c)), function(math.exp(d))
    while b - a > _PRECISION:
        if at_c < at_d:
            b, d, at_d = d, c, at_c
            c = b - ratio * (b - a)
            at_c = function(math.exp(c))
        else:
            a, c, at_c = c, d, at_d
            d = a + ratio * (b - a)
            at_d = function(math.exp(d))
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
