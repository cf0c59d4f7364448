"""Fits the parameters of NCCL to measured collectives. `validation/COLLECTIVES.md` states the procedure.

`calibrated` makes parameters twice: of half of the sizes, for the error on the others, and of all rows, for use.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise

import attrs
from astra_sim import InputError
from astra_sim.collective_tables import MeasuredCollective
from astra_sim.fitting import ErrorOf, error_of, minimise
from astra_sim.schedule import Collective

from astra_sim_network_analytical.nccl_parameters import NcclFit, Protocol, ring_share, steps

LEAST_SIZES = 3
LARGE_BYTES = 1 << 20
ASYMPTOTIC_BYTES = 64 << 20
"""From this size on a collective shows its bandwidth."""

_LEAST_RANKS_OF_NVLS = 4
_SHARE_OF_NVLINK = 0.8
_PRIOR, _HELD, _SMALL = 0.002, 0.02, 0.03
_STARTS = ((1.5, 3.0, 0.3), (1.8, 5.0, 0.3), (1.5, 3.5, 0.15))
"""Starting points of fits: latencies of LL128 and Simple over that of LL, and bandwidth of LL over that of Simple."""

_STEP_US = 0.6
_NVLS_US = 25.0
_DIGITS = 4

Rows = Mapping[int, Sequence[MeasuredCollective]]
"""Measurements of one collective, by the number of ranks."""

Lines = Mapping[str, tuple[float, float]]
"""Latency (us) and bus bandwidth (bytes/us) of each protocol for one number of ranks."""


Make = Callable[[Sequence[MeasuredCollective]], list[NcclFit]]
"""The function that fits parameters to measurements: `fits_of` or `tables_of`."""


@attrs.frozen
class NcclNode:
    """Facts about a node besides measurements."""

    nvls: bool = False
    """Whether its switches reduce."""

    nvlink_gb_per_s: float | None = None
    """NVLink bandwidth of a GPU in one direction, 10^9 bytes/s."""


@attrs.frozen
class Calibration:
    """Parameters made of all rows, for use, and those made of half of the sizes, whose error on the others is that of the procedure."""

    rows: tuple[MeasuredCollective, ...]
    fits: list[NcclFit]
    half: list[NcclFit]

    def used(self, operation: Collective) -> ErrorOf:
        """The error of the parameters for use, over all rows, which they were made of."""
        return error_over(self.fits, self._part(operation))

    def fitted(self, operation: Collective) -> ErrorOf:
        """The error of those of half of the sizes over that half."""
        return error_over(self.half, filter(is_fitted, self._part(operation)))

    def held_out(self, operation: Collective, least_bytes: int = 0) -> ErrorOf:
        """The error of the parameters of half of the sizes over the others, from a least size on."""
        return error_over(self.half, (row for row in self._part(operation) if not is_fitted(row) and row.bytes >= least_bytes))

    def source(self, operation: Collective) -> str:
        """The source of a collective's numbers, from the file."""
        used, half, held_out = self.used(operation), self.fitted(operation), self.held_out(operation)
        other = f"fitted to the {half.rows} of even logarithm the others err by {held_out}"
        return f"fitted to all {used.rows} rows, error {used.mean:.2%}; {other}"

    def _part(self, operation: Collective) -> list[MeasuredCollective]:
        return [row for row in self.rows if row.operation is operation]


def calibrated(rows: Sequence[MeasuredCollective], make: Make) -> Calibration:
    """Parameters of all rows, and of half of the sizes. Raises InputError for too few sizes in that half."""
    fitting = [row for row in rows if is_fitted(row)]
    for operation in Collective:
        for ranks, part in by_ranks([row for row in rows if row.operation is operation]).items():
            sizes = len({row.bytes for row in part if is_fitted(row)})
            if sizes < LEAST_SIZES:
                raise InputError(
                    f"{operation} on {ranks} ranks: {sizes} sizes whose logarithm to base 2 is even (the others are held out);"
                    f" expected at least {LEAST_SIZES}"
                )
    return Calibration(tuple(rows), make(rows), make(fitting))


def error_over(fits: Sequence[NcclFit], rows: Iterable[MeasuredCollective]) -> ErrorOf:
    """The error of parameters over rows of numbers of ranks that they have."""
    by_ranks = {(fit.operation, fit.ranks): fit for fit in fits}
    errors = ((row, by_ranks[row.operation.value, row.ranks].time_us(row.bytes) / row.microseconds - 1) for row in rows)
    return error_of(((row.operation, row.ranks, row.bytes), abs(error)) for row, error in errors)


def is_fitted(row: MeasuredCollective) -> bool:
    """Whether a row is for fitting: the whole part of the logarithm of its size to base 2 is even. The others are held out."""
    return (row.bytes.bit_length() - 1) % 2 == 0


def by_ranks(rows: Sequence[MeasuredCollective]) -> dict[int, list[MeasuredCollective]]:
    """Rows by their number of ranks, in order of size."""
    result: dict[int, list[MeasuredCollective]] = {}
    for row in sorted(rows, key=lambda row: (row.ranks, row.bytes)):
        result.setdefault(row.ranks, []).append(row)
    return result


def fits_of(rows: Sequence[MeasuredCollective], node: NcclNode) -> list[NcclFit]:
    """Protocols fitted to all these rows."""
    fits = []
    for operation in Collective:
        part = by_ranks([row for row in rows if row.operation is operation])
        if part:
            joint = _Joint(operation, part, node.nvls)
            best = min((minimise(joint.distance, start) for start in joint.starts()), key=lambda minimum: minimum[1])[0]
            fits += [_extended(_fit_of(joint, best, ranks), rows, node) for ranks in part]
    return fits


def tables_of(rows: Sequence[MeasuredCollective], node: NcclNode) -> list[NcclFit]:
    """All these rows as measured tables; times that fall are levelled. Raises InputError if a size occurs twice."""
    fits = []
    for operation in Collective:
        for ranks, part in by_ranks([row for row in rows if row.operation is operation]).items():
            sizes = [row.bytes for row in part]
            for earlier, later in pairwise(sizes):
                if earlier == later:
                    raise InputError(f"{operation} on {ranks} ranks: {later} bytes occur twice; expected each size once")
            times = tuple(levelled_times([row.microseconds for row in part]))
            fit = NcclFit(operation=operation.value, ranks=ranks, bytes=tuple(map(float, sizes)), microseconds=times)
            fits.append(_extended(fit, rows, node))
    return fits


def levelled_times(times: Sequence[float]) -> list[float]:
    """The nearest times that do not fall, by logarithms: neighbours that fall take their geometric mean."""
    pools: list[list[float]] = []
    for time in times:
        pools.append([time])
        while len(pools) > 1 and statistics.geometric_mean(pools[-1]) < statistics.geometric_mean(pools[-2]):
            pools[-2:] = [pools[-2] + pools[-1]]
    return [time if len(pool) == 1 else statistics.geometric_mean(pool) for pool in pools for time in pool]


def _extended(fit: NcclFit, rows: Sequence[MeasuredCollective], node: NcclNode) -> NcclFit:
    """A fit with the line that holds beyond its largest size, if that size does not show the bandwidth and others do."""
    operation = Collective(fit.operation)
    largest = max(row.bytes for row in rows if (row.operation, row.ranks) == (operation, fit.ranks))
    rate = None if largest >= ASYMPTOTIC_BYTES else bandwidth_beyond(operation, fit.ranks, rows, node)
    if rate is None:
        return fit
    volume, time = ring_share(operation, fit.ranks) * largest / 1e3, fit.time_us(largest)
    last = min(fit.protocols().values(), key=lambda each: each.latency_us + volume / each.gb_per_s)
    if rate <= last.gb_per_s or volume / rate >= time:
        return fit
    return attrs.evolve(fit, beyond=attrs.evolve(last, latency_us=_rounded(time - volume / rate), gb_per_s=_rounded(rate)))


def bandwidth_beyond(operation: Collective, ranks: int, rows: Sequence[MeasuredCollective], node: NcclNode) -> float | None:
    """The bus bandwidth (10^9 bytes/s) of a collective that was not measured with large sizes, by those that were, or by NVLink; None
    by default.
    """
    reached: dict[tuple[Collective, int], float] = {}
    for row in sorted(rows, key=lambda row: row.bytes):
        if row.bytes >= ASYMPTOTIC_BYTES:
            reached[row.operation, row.ranks] = ring_share(row.operation, row.ranks) * row.bytes / row.microseconds / 1e3
    ratios = [
        rate * reached[other, ranks] / reached[other, count]
        for (kind, count), rate in reached.items()
        for other in Collective
        if kind is operation and other is not operation and {(other, ranks), (other, count)} <= reached.keys()
    ]
    on_these = [rate for (_, count), rate in reached.items() if count == ranks]
    of_this = [rate for (kind, _), rate in reached.items() if kind is operation]
    known = ratios or on_these or of_this
    if known:
        rate = statistics.geometric_mean(known)
    elif node.nvlink_gb_per_s is not None:
        rate = _SHARE_OF_NVLINK * node.nvlink_gb_per_s
    else:
        return None
    if node.nvlink_gb_per_s is None:
        return rate
    reduces = node.nvls and operation is Collective.ALL_REDUCE and ranks >= _LEAST_RANKS_OF_NVLS
    return min(rate, node.nvlink_gb_per_s * (ring_share(operation, ranks) if reduces else 1))


class _Joint:
    """All numbers of ranks of a collective together, as logarithms in one list: latency of no step, a step and bandwidth of LL, LL128 and
    Simple; with NVLS its latency and bandwidth; and for each number of ranks but the largest its bandwidths over those of the largest.
    """

    def __init__(self, operation: Collective, rows: Rows, nvls: bool) -> None:
        self.operation = operation
        self.rows = rows
        self.has_nvls = nvls and operation is Collective.ALL_REDUCE and max(rows) >= _LEAST_RANKS_OF_NVLS
        self._ranks = sorted(rows, reverse=True)
        self._points = [(ranks, row.bytes, row.microseconds) for ranks, part in rows.items() for row in part]

    def starts(self) -> list[list[float]]:
        """The starting point: the least time, and the rate of the largest size on most ranks."""
        ranks = self._ranks[0]
        last = self.rows[ranks][-1]
        rate = math.log(1.05 * ring_share(self.operation, ranks) * last.bytes / last.microseconds)
        least = math.log(0.8 * min(time for _, _, time in self._points))
        result = []
        for ll128, simple, share in _STARTS:
            latencies = [least, least + math.log(ll128), least + math.log(simple)]
            start = latencies + [math.log(_STEP_US)] * 3 + [rate + math.log(share), rate + math.log(0.75), rate]
            start += [math.log(_NVLS_US), rate] if self.has_nvls else []
            result.append(start + [0.0] * (len(self._ranks) - 1))
        return result

    def lines(self, point: Sequence[float], ranks: int) -> dict[str, tuple[float, float]]:
        """The protocols of a number of ranks."""
        place = self._ranks.index(ranks)
        factor = point[len(point) - len(self._ranks) + place] if place else 0.0
        count = steps(self.operation, ranks)
        result = {}
        for number, name in enumerate(("ll", "ll128", "simple")):
            latency = math.exp(point[number]) + count * math.exp(point[3 + number])
            result[name] = latency, math.exp(point[6 + number] + factor)
        if self.has_nvls and ranks >= _LEAST_RANKS_OF_NVLS:
            # The rate between a rank and a switch does not depend on the number of ranks: the bus bandwidth does.
            share = ring_share(self.operation, ranks) / ring_share(self.operation, self._ranks[0])
            result["nvls"] = math.exp(point[9]), math.exp(point[10]) * share
        return result

    def step_us(self, point: Sequence[float]) -> dict[str, float]:
        """The time that a step adds, by protocol."""
        return {"ll": math.exp(point[3]), "ll128": math.exp(point[4]), "simple": math.exp(point[5]), "nvls": 0.0}

    def distance(self, point: Sequence[float]) -> float:
        """The mean distance of the rows, with a small penalty on unlikely parameters, which decides those that the rows leave open."""
        try:
            lines = {ranks: self.lines(point, ranks) for ranks in self._ranks}
            off = sum(_off(_least(lines[ranks], self.operation, ranks, size) / time) for ranks, size, time in self._points)
        except OverflowError:
            return 1e9
        return off / len(self._points) + _PRIOR * self._unlikely(point)

    def _unlikely(self, point: Sequence[float]) -> float:
        """The distance of parameters from those of known machines, in squared spreads: a prior for what the measured sizes leave open."""
        expected = [
            (point[6] - point[8], math.log(0.3), 0.6),
            (point[7] - point[8], math.log(0.75), 0.4),
            (point[1] - point[0], math.log(1.7), 0.5),
            (point[2] - point[0], math.log(3.5), 0.6),
            *((point[place], math.log(_STEP_US), 1.5) for place in (3, 4, 5)),
            *((factor, 0.0, 0.5) for factor in point[len(point) - len(self._ranks) + 1 :]),
        ]
        if self.has_nvls:
            expected += [(point[9], math.log(_NVLS_US), 0.5), (point[10] - point[8], math.log(1.2), 0.3)]
        return sum(((value - middle) / spread) ** 2 for value, middle, spread in expected)


def _off(ratio: float) -> float:
    """The distance of a ratio from 1: |log|, but rounded if that is small, so that no row is met exactly at the cost of others."""
    return math.hypot(math.log(ratio), _SMALL) - _SMALL


def _least(lines: Lines, operation: Collective, ranks: int, size: float) -> float:
    volume = ring_share(operation, ranks) * size
    return min(latency + volume / rate for latency, rate in lines.values())


def _fit_of(joint: _Joint, point: Sequence[float], ranks: int) -> NcclFit:
    """The protocols of one number of ranks: fitted to its rows alone, and held near those of all numbers together."""
    lines, rows = joint.lines(point, ranks), joint.rows[ranks]

    def moved(shifts: Sequence[float]) -> dict[str, tuple[float, float]]:
        return {
            name: (latency * math.exp(shifts[2 * number]), rate * math.exp(shifts[2 * number + 1]))
            for number, (name, (latency, rate)) in enumerate(lines.items())
        }

    def distance(shifts: Sequence[float]) -> float:
        try:
            near = moved(shifts)
            off = sum(_off(_least(near, joint.operation, ranks, row.bytes) / row.microseconds) for row in rows)
        except OverflowError:
            return 1e9
        return off / len(rows) + _HELD * sum(shift * shift for shift in shifts)

    best, _ = minimise(distance, [0.0] * (2 * len(lines)))
    step = joint.step_us(point)
    protocols = {
        name: Protocol(latency_us=_rounded(latency), gb_per_s=_rounded(rate / 1e3), step_us=_rounded(step[name]))
        for name, (latency, rate) in moved(best).items()
    }
    return NcclFit(
        operation=joint.operation.value,
        ranks=ranks,
        ll=protocols["ll"],
        ll128=protocols["ll128"],
        simple=protocols["simple"],
        nvls=protocols.get("nvls"),
    )


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
