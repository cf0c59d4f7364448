"""Themis (Rashidi et al., ISCA 2022): chunks take the dimensions in the order of their load, to keep all of them busy.

The load of a dimension is the time of the traffic planned for it, in units of 2^20 bytes at the bandwidth of
dimension 0. A chunk whose dimensions would gain less than a threshold by another order takes them in the default order.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence

import attrs
from astra_sim import option
from astra_sim.platform import LogicalDimension, Platform
from astra_sim.schedule import Collective
from astra_sim.system import DimensionOrder
from astra_sim.units import MIB


@attrs.frozen
class ThemisOptions:
    """Options of Themis."""

    gap_denominator: int = option(16, minimum=1, help="a gap below 1/this of a chunk is not worth another order")
    bandwidth: str = option(
        "npu", choices=("npu", "message"), help="bandwidth of a dimension: of all links of an NPU (ASTRA-sim 1.0), or of a message (2.x)"
    )


@attrs.define(slots=True)
class _DimensionLoad:
    time: float
    dimension: int


class Themis(DimensionOrder):
    """The common part of both variants: loads, their order, and the gap between the least and the most loaded dimension."""

    all_reduces_last = False

    def __init__(self, options: ThemisOptions, platform: Platform) -> None:
        self._gap_denominator = options.gap_denominator
        of_npu = options.bandwidth == "npu"
        totals = [
            (d.topology.links_per_npu() if of_npu else d.topology.links_per_message()) * d.link_bandwidth for d in platform.dimensions
        ]
        # A dimension of one NPU may have no links; it is never used.
        reference = next((total for total in totals if total), 1.0)
        self._relative = [total / reference if total else 1.0 for total in totals]
        self._loads: list[_DimensionLoad] = []
        self._issued_at = -1

    def begin(self, collective: Collective, now_ps: int) -> None:
        """Loads start anew with the first collective of every instant."""
        # What ASTRA-sim 1.0 means to do: there only NPU 0 resets the loads, and another NPU may have planned with stale ones before.
        if now_ps != self._issued_at:
            self._issued_at = now_ps
            self._loads = []

    def chunk(
        self, collective: Collective, rest: int, size: int, dimensions: Sequence[LogicalDimension], usable: Sequence[bool]
    ) -> tuple[int, Sequence[int]]:
        """The bytes of the next chunk, and its order of dimensions."""
        count = len(dimensions)
        if collective is Collective.ALL_TO_ALL or not any(usable):
            return min(rest, size), range(count)
        if len(self._loads) != count:
            self._loads = [_DimensionLoad(0.0, dimension) for dimension in range(count)]
        plan = _Plan(collective is Collective.ALL_GATHER, dimensions, usable, self._relative)
        self._loads.sort(key=lambda load: load.time)
        # Not sort(reverse=True), which would leave equal loads in place: ASTRA-sim sorts, then reverses the whole list.
        if plan.gathers:
            self._loads.reverse()
        gap = plan.gap(self._loads)
        taken, booked, default = self._decide(rest, size, gap)
        if default:
            self._loads.sort(key=lambda load: load.dimension, reverse=plan.gathers)
            # Loads are booked by place in the list, also if an all-gather has turned it round (ASTRA-sim 1.0).
            plan.book(booked, list(zip(range(count), self._loads, strict=True)))
            return taken, range(count)
        plan.book(booked, [(load.dimension, load) for load in self._loads])
        return taken, [load.dimension for load in self._loads]

    @abc.abstractmethod
    def _decide(self, rest: int, size: int, gap: int) -> tuple[int, int, bool]:
        """Bytes of the chunk, bytes to book for it, and whether it takes the default order."""


class OfflineGreedy(Themis):
    """Chunks of equal size."""

    def _decide(self, rest: int, size: int, gap: int) -> tuple[int, int, bool]:
        # The load of a shorter last chunk is booked as that of a whole one, as in ASTRA-sim 1.0.
        return min(rest, size), size, gap < size // self._gap_denominator


class OfflineGreedyFlex(Themis):
    """Chunks as large as the gap they fill, if that is more than the size asked for."""

    cuts_by_bandwidth = True

    def _decide(self, rest: int, size: int, gap: int) -> tuple[int, int, bool]:
        if gap < size:
            return min(rest, size), min(rest, size), True
        # Booked with the whole gap even if less is left (ASTRA-sim 1.0).
        return min(rest, gap), gap, False


@attrs.frozen
class _Plan:
    gathers: bool
    dimensions: Sequence[LogicalDimension]
    usable: Sequence[bool]
    relative_bandwidth: Sequence[float]

    def gap(self, loads: Sequence[_DimensionLoad]) -> int:
        """The number of bytes after which the first usable dimension of the list is as loaded as the last."""
        places = [place for place, load in enumerate(loads) if self.usable[load.dimension]]
        first, last = places[0], places[-1]
        if not self.gathers:
            # Against the most loaded dimension of all, even if this collective cannot use it (ASTRA-sim 1.0).
            return self._bytes(abs(loads[-1].time - loads[first].time), loads[first].dimension)
        gap = self._bytes(abs(loads[last].time - loads[first].time), loads[last].dimension)
        # The chunk reaches the last dimension grown by those before it. Each quotient is cut, as in ASTRA-sim 1.0.
        for place in reversed(places[:-1]):
            gap //= self.dimensions[loads[place].dimension].size
        return gap

    def book(self, size: int, order: Sequence[tuple[int, _DimensionLoad]]) -> None:
        """Add the loads of a chunk that takes the dimensions in this order, each to the entry beside it."""
        for dimension, load in order:
            if not self.usable[dimension]:
                continue
            n = self.dimensions[dimension].size
            load.time += size / MIB * self._share(dimension) / self._bandwidth(dimension)
            size = size * n if self.gathers else size // n

    def _bytes(self, time: float, dimension: int) -> int:
        return int(time * self._bandwidth(dimension) / self._share(dimension) * MIB)

    def _share(self, dimension: int) -> float:
        """The share of its data that a rank sends in a dimension."""
        n = self.dimensions[dimension].size
        return n - 1 if self.gathers else (n - 1) / n

    def _bandwidth(self, dimension: int) -> float:
        return self.relative_bandwidth[self.dimensions[dimension].physical or 0]
