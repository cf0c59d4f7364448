"""A platform under synthetic traffic at one injection rate, measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import attrs
from astra_sim import DeadlockError, InputError

from astra_sim_network_packet._core import Shape, run_traffic

# Student's t for 95 % confidence, by degrees of freedom.
_T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.16, 2.145, 2.131, 2.12, 2.11, 2.101, 2.093)

MAX_PERIODS = 100_000
_BOUNDS = {
    "warm_up": (0, 10**9),
    "period": (1, 10**9),
    "periods": (1, MAX_PERIODS),
    "drain_limit": (0, 10**9),
    "packet_flits": (1, 10**9),
}


@attrs.frozen
class LoadMeasurement:
    """The times of a measurement, in cycles: a warm-up, then periods of equal length, whose means give the confidence interval."""

    warm_up: int = 2500
    period: int = 2500
    periods: int = 4
    drain_limit: int = 100_000
    seed: int = 1
    packet_flits: int = 1
    hot_share: float = 0.0
    hot_node: int = 0

    def __attrs_post_init__(self) -> None:
        for name, (least, most) in _BOUNDS.items():
            if not least <= getattr(self, name) <= most:
                raise InputError(f"{name} is {getattr(self, name)}; expected a whole number from {least} to {most}")
        if not 0 <= self.seed < 2**63:
            raise InputError(f"seed is {self.seed}; expected a whole number from 0 to 2^63 - 1")
        if not 0 <= self.hot_share <= 1:
            raise InputError(f"the share of the hot spot is {self.hot_share}; expected 0 to 1")


@attrs.frozen
class FlitLoad:
    """A link between routers: its ends, and the share of cycles in which it takes a flit."""

    name: str
    dimension: int
    source: int
    sink: int
    flits: int
    load: float


@attrs.frozen
class TrafficLoad:
    """The figures of one rate. Rates in flits per node and cycle, latencies in cycles.

    Packet latency counts from the generation of a packet, network latency from when its head leaves the source, both to the arrival of its
    tail; half widths are those of 95 % confidence intervals. `hops` counts links between routers. `drained`: all measured packets arrived;
    `stable`: the network also accepted all offered traffic.
    """

    rate: float
    offered_rate: float
    accepted_rate: float
    packet_latency: float | None
    packet_latency_half_width: float | None
    network_latency: float | None
    queueing_latency: float | None
    smallest_latency: int
    largest_latency: int
    hops: float | None
    packets: int
    drained: bool
    stable: bool
    cycles: int
    flit_hops: int
    links: tuple[FlitLoad, ...] = attrs.field(repr=False)


def measure(
    shape: Shape, targets: Sequence[int | None], rate: float, how: LoadMeasurement, tell: Callable[[int], None] | None = None
) -> TrafficLoad:
    """Drive a network with random packets; `tell` is called with the current cycle repeatedly.

    Raises InputError for an impossible rate, DeadlockError if the network deadlocks.
    """
    if not 0 < rate <= how.packet_flits:
        raise InputError(f"rate is {rate:g}; expected more than 0 and at most {how.packet_flits} flits per node and cycle")
    nodes = len(targets)
    if not 0 <= how.hot_node < nodes:
        raise InputError(f"the hot spot is NPU {how.hot_node}; expected 0 to {nodes - 1}")
    result = run_traffic(shape, how, rate, [-1 if target is None else target for target in targets], tell)
    if result["waiting"]:
        head = f"the network deadlocks at a rate of {rate:g} flits per node and cycle, and packets cannot arrive"
        raise DeadlockError("\n  ".join([head, *result["waiting"]]), result["waiting"])
    periods = result["periods"]
    packets = sum(p[0] for p in periods)
    cycles = how.period * how.periods * nodes
    accepted, offered = sum(p[4] for p in periods) / cycles, sum(p[5] for p in periods) / cycles
    latency = sum(p[1] for p in periods) / packets if packets else None
    network = sum(p[2] for p in periods) / packets if packets else None
    # The traffic that an open source offers in a period is random; a gap of three standard deviations is no sign of saturation.
    chance = 3 * math.sqrt(rate * how.packet_flits / cycles)
    links = tuple(
        FlitLoad(name, dimension, source, sink, flits, flits / max(1, result["cycles"]))
        for name, dimension, source, sink, flits in result["channels"]
        if dimension >= 0
    )
    return TrafficLoad(
        rate,
        offered,
        accepted,
        latency,
        _half_width([p[1] / p[0] for p in periods if p[0]]),
        network,
        latency - network if latency is not None and network is not None else None,
        result["smallest"],
        result["largest"],
        result["hops"] / packets if packets else None,
        packets,
        result["drained"],
        result["drained"] and accepted >= offered * 0.98 - chance,
        result["cycles"],
        result["flit_hops"],
        links,
    )


def _half_width(means: Sequence[float]) -> float | None:
    """Half the width of the 95 % confidence interval of the mean of batch means; None for fewer than two."""
    n = len(means)
    if n < 2:
        return None
    mean = math.fsum(means) / n
    variance = math.fsum((m - mean) ** 2 for m in means) / (n - 1)
    return (_T95[n - 2] if n - 2 < len(_T95) else 1.96) * math.sqrt(variance / n)
