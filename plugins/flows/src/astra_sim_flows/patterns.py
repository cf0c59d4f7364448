"""Flows of patterns: incast, permutation, all-to-all, and Poisson arrivals with sizes of a distribution at a load."""

from __future__ import annotations

import bisect
import itertools
import random
import re
from collections.abc import Sequence

import attrs
from astra_sim.errors import InputError
from astra_sim.units import parse_size

from astra_sim_flows.running import Flow

PATTERNS = ("incast", "permutation", "all_to_all", "poisson")

SIZES: dict[str, tuple[tuple[int, float], ...]] = {
    "websearch": (
        (1, 0.0),
        (10_000, 0.15),
        (20_000, 0.2),
        (30_000, 0.3),
        (50_000, 0.4),
        (80_000, 0.53),
        (200_000, 0.6),
        (1_000_000, 0.7),
        (2_000_000, 0.8),
        (5_000_000, 0.9),
        (10_000_000, 0.97),
        (30_000_000, 1.0),
    ),
}
"""Distributions by name: bytes, and the share of flows that have no more.

`websearch` is traffic_gen/WebSearch_distribution.txt of HPCC's study (github.com/alibaba-edu/High-Precision-Congestion-Control), from
measurements of DCTCP (SIGCOMM 2010).
"""


@attrs.frozen
class PatternOptions:
    """The parameters of a pattern: bytes of a flow, the NPU that an incast is to, and for Poisson arrivals their number, load and sizes."""

    bytes: int = 1_000_000
    target: int = 0
    senders: int | None = None
    flows: int = 1000
    load: float = 0.5
    sizes: str = "websearch"
    seed: int = 1


def make_flows(pattern: str, options: PatternOptions, npus: int, nic_bytes_per_ns: float) -> list[Flow]:
    """The flows of a pattern on `npus` NPUs, whose NICs have a bandwidth in bytes/ns. Raises InputError."""
    if npus < 2:
        raise InputError(f"a pattern on {npus} NPU; expected at least 2")
    if pattern == "incast":
        return _incast(options, npus)
    if pattern == "permutation":
        order = list(range(npus))
        random.Random(options.seed).shuffle(order)  # a cycle through all NPUs: none sends to itself
        return [Flow(order[place], order[(place + 1) % npus], options.bytes) for place in range(npus)]
    if pattern == "all_to_all":
        return [Flow(npu, (npu + step) % npus, options.bytes) for step in range(1, npus) for npu in range(npus)]
    return _poisson(options, npus, nic_bytes_per_ns)


def _incast(options: PatternOptions, npus: int) -> list[Flow]:
    if not 0 <= options.target < npus:
        raise InputError(f"--to is {options.target}; expected an NPU from 0 to {npus - 1}")
    others = [npu for npu in range(npus) if npu != options.target]
    count = len(others) if options.senders is None else options.senders
    if not 1 <= count <= len(others):
        raise InputError(f"--senders is {count}; expected 1 to {len(others)}")
    return [Flow(npu, options.target, options.bytes) for npu in others[:count]]


def _poisson(options: PatternOptions, npus: int, nic_bytes_per_ns: float) -> list[Flow]:
    """Flows between random NPUs; together they load each NIC with a share `load` of its bandwidth on the average."""
    table = size_table(options.sizes)
    generator = random.Random(options.seed)
    mean = mean_size(table)
    gap_ps = mean / (options.load * nic_bytes_per_ns * npus) * 1000
    flows, time = [], 0.0
    for _ in range(options.flows):
        time += generator.expovariate(1 / gap_ps)
        source = generator.randrange(npus)
        destination = (source + 1 + generator.randrange(npus - 1)) % npus
        flows.append(Flow(source, destination, draw_size(table, generator.random()), round(time)))
    return flows


def size_table(text: str) -> Sequence[tuple[int, float]]:
    """A distribution by name, or SIZE:SHARE,SIZE:SHARE,... with the share of flows of no more bytes, up to 1. Raises InputError."""
    if text in SIZES:
        return SIZES[text]
    table: list[tuple[int, float]] = []
    for entry in text.split(","):
        match = re.fullmatch(r"([^:]+):(\d*\.?\d+)", entry.strip())
        if match is None:
            raise InputError(f"--distribution has {entry!r}; expected {' or '.join(SIZES)}, or SIZE:SHARE,... such as 1K:0.5,1M:1")
        table.append((parse_size(match[1], "--distribution"), float(match[2])))
    if [*table] != sorted(table) or table[-1][1] != 1 or any(a[1] > b[1] for a, b in itertools.pairwise(table)):
        raise InputError(f"--distribution is {text!r}; expected sizes and shares that rise, up to a share of 1")
    return table


def draw_size(table: Sequence[tuple[int, float]], share: float) -> int:
    """The size that is above a share of flows, on straight lines between the entries."""
    place = bisect.bisect_left([each for _, each in table], share)
    size, upper = table[place]
    if place == 0:
        return size
    below, lower = table[place - 1]
    return max(1, round(below + (size - below) * (share - lower) / (upper - lower)))


def mean_size(table: Sequence[tuple[int, float]]) -> float:
    """The mean of a distribution in bytes."""
    mean = table[0][0] * table[0][1]
    for (low, before), (high, after) in itertools.pairwise(table):
        mean += (low + high) / 2 * (after - before)
    return mean
