"""Fits the parameters of NCCL to measured collectives. `docs/nccl.md` states the procedure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import attrs
from astra_sim import InputError
from astra_sim.collective_tables import MeasuredCollective
from astra_sim.fitting import ErrorOf, error_of, minimise
from astra_sim.schedule import Collective

from astra_sim_network_analytical.nccl_parameters import Fit, Protocol, ring_share, steps

LEAST_SIZES = 3
LARGE_BYTES = 1 << 20
_LEAST_RANKS_OF_NVLS = 4
_PRIOR, _HELD, _SMALL = 0.002, 0.02, 0.03
_STARTS = ((1.5, 3.0, 0.3), (1.8, 5.0, 0.3), (1.5, 3.5, 0.15))
"""Where fits start: latencies of LL128 and Simple over that of LL, and bandwidth of LL over that of Simple."""

_STEP_US = 0.6
_NVLS_US = 25.0
_DIGITS = 4

Rows = Mapping[int, Sequence[MeasuredCollective]]
"""Measurements of one collective, by the number of ranks."""

Lines = Mapping[str, tuple[float, float]]
"""Latency (us) and bus bandwidth (bytes/us) of each protocol for one number of ranks."""


@attrs.frozen
class Outcome:
    """The fits of a collective, and their errors over the sizes that were fitted, those that were not, and of these from 1 MiB on."""

    fits: list[Fit]
    fitted: ErrorOf
    held_out: ErrorOf
    held_out_large: ErrorOf


def is_fitted(row: MeasuredCollective) -> bool:
    """Whether a row is for fitting: the whole part of the logarithm of its size to base 2 is even. The others are held out."""
    return (row.bytes.bit_length() - 1) % 2 == 0


def by_ranks(rows: Sequence[MeasuredCollective]) -> dict[int, list[MeasuredCollective]]:
    """Rows by their number of ranks, in order of size."""
    found: dict[int, list[MeasuredCollective]] = {}
    for row in sorted(rows, key=lambda row: (row.ranks, row.bytes)):
        found.setdefault(row.ranks, []).append(row)
    return found


def fit_collective(operation: Collective, rows: Sequence[MeasuredCollective], nvls: bool) -> Outcome:
    """Fit one collective to the rows that are for fitting; `nvls`: switches of the node reduce. Raises InputError for too few sizes."""
    fitting = by_ranks([row for row in rows if is_fitted(row)])
    for ranks, part in by_ranks(rows).items():
        sizes = len({row.bytes for row in fitting.get(ranks, part[:0])})
        if sizes < LEAST_SIZES:
            raise InputError(
                f"{operation} on {ranks} ranks: {sizes} sizes whose logarithm to base 2 is even (the others are held out);"
                f" expected at least {LEAST_SIZES}"
            )
    joint = _Joint(operation, fitting, nvls)
    best = min((minimise(joint.distance, start) for start in joint.starts()), key=lambda found: found[1])[0]
    fits = [_fit_of(joint, best, ranks) for ranks in fitting]
    found = {fit.ranks: fit for fit in fits}

    def error(chosen: Callable[[MeasuredCollective], bool]) -> ErrorOf:
        part = [row for row in rows if chosen(row)]
        return error_of(((row.ranks, row.bytes), abs(time_us(found[row.ranks], row.bytes) / row.microseconds - 1)) for row in part)

    return Outcome(
        fits,
        error(is_fitted),
        error(lambda row: not is_fitted(row)),
        error(lambda row: not is_fitted(row) and row.bytes >= LARGE_BYTES),
    )


def table_fits(operation: Collective, rows: Sequence[MeasuredCollective]) -> Outcome:
    """The fitting half as measured tables; held-out errors are those of the interpolation. Raises InputError where times do not rise."""
    fits = []
    for ranks, part in by_ranks([row for row in rows if is_fitted(row)]).items():
        for earlier, later in pairwise(part):
            if later.bytes <= earlier.bytes or later.microseconds <= earlier.microseconds:
                raise InputError(
                    f"{operation} on {ranks} ranks: {later.bytes} bytes take {later.microseconds} us after {earlier.bytes} bytes in"
                    f" {earlier.microseconds} us; expected sizes and times that rise"
                )
        fits.append(
            Fit(
                operation=operation.value,
                ranks=ranks,
                bytes=tuple(float(row.bytes) for row in part),
                microseconds=tuple(row.microseconds for row in part),
            )
        )
    found = {fit.ranks: fit for fit in fits}
    errors = [(row, abs(found[row.ranks].table_us(row.bytes) / row.microseconds - 1)) for row in rows if row.ranks in found]
    held_out = [(row, error) for row, error in errors if not is_fitted(row)]
    large = [(row, error) for row, error in held_out if row.bytes >= LARGE_BYTES]
    fitted = [(row, error) for row, error in errors if is_fitted(row)]
    return Outcome(fits, *(error_of(((row.ranks, row.bytes), error) for row, error in part) for part in (fitted, held_out, large)))


def time_us(fit: Fit, size: float) -> float:
    """Microseconds by the protocols of a fit: the least."""
    volume = ring_share(Collective(fit.operation), fit.ranks) * size / 1e3
    return min(each.latency_us + volume / each.gb_per_s for each in fit.protocols().values())


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
        """Where to start: from the least time, and the rate of the largest size on most ranks."""
        ranks = self._ranks[0]
        last = self.rows[ranks][-1]
        rate = math.log(1.05 * ring_share(self.operation, ranks) * last.bytes / last.microseconds)
        least = math.log(0.8 * min(time for _, _, time in self._points))
        made = []
        for ll128, simple, share in _STARTS:
            latencies = [least, least + math.log(ll128), least + math.log(simple)]
            start = latencies + [math.log(_STEP_US)] * 3 + [rate + math.log(share), rate + math.log(0.75), rate]
            start += [math.log(_NVLS_US), rate] if self.has_nvls else []
            made.append(start + [0.0] * (len(self._ranks) - 1))
        return made

    def lines(self, point: Sequence[float], ranks: int) -> dict[str, tuple[float, float]]:
        """The protocols of a number of ranks."""
        place = self._ranks.index(ranks)
        factor = point[len(point) - len(self._ranks) + place] if place else 0.0
        count = steps(self.operation, ranks)
        found = {}
        for number, name in enumerate(("ll", "ll128", "simple")):
            latency = math.exp(point[number]) + count * math.exp(point[3 + number])
            found[name] = latency, math.exp(point[6 + number] + factor)
        if self.has_nvls and ranks >= _LEAST_RANKS_OF_NVLS:
            found["nvls"] = math.exp(point[9]), math.exp(point[10] + factor)
        return found

    def step_us(self, point: Sequence[float]) -> dict[str, float]:
        """What a step adds, by protocol."""
        return {"ll": math.exp(point[3]), "ll128": math.exp(point[4]), "simple": math.exp(point[5]), "nvls": 0.0}

    def distance(self, point: Sequence[float]) -> float:
        """The mean distance of the rows, and a little for what is unlikely, which decides what the rows do not."""
        try:
            lines = {ranks: self.lines(point, ranks) for ranks in self._ranks}
            off = sum(_off(_least(lines[ranks], self.operation, ranks, size) / time) for ranks, size, time in self._points)
        except OverflowError:
            return 1e9
        return off / len(self._points) + _PRIOR * self._unlikely(point)

    def _unlikely(self, point: Sequence[float]) -> float:
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
    """The distance of a ratio from 1: |log|, but rounded where that is small, so that no row is met exactly at the cost of others."""
    return math.hypot(math.log(ratio), _SMALL) - _SMALL


def _least(lines: Lines, operation: Collective, ranks: int, size: float) -> float:
    volume = ring_share(operation, ranks) * size
    return min(latency + volume / rate for latency, rate in lines.values())


def _fit_of(joint: _Joint, point: Sequence[float], ranks: int) -> Fit:
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
    return Fit(
        operation=joint.operation.value,
        ranks=ranks,
        ll=protocols["ll"],
        ll128=protocols["ll128"],
        simple=protocols["simple"],
        nvls=protocols.get("nvls"),
    )


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
