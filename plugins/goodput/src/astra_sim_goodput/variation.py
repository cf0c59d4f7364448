"""The section `variation`: ranks that are slower than others, kernels whose times scatter, and pauses.

Every number is drawn by counter, from the seed, the entry, the rank, and its purpose: nothing, the pass, or the place of the
operation in the program. So a rank has the same fate under another network, and in both engines.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

import attrs
from astra_sim import InputError, option
from astra_sim.compute import Started
from astra_sim.files import read_text
from astra_sim.platform import Platform
from astra_sim.random import RandomStream

DISTRIBUTIONS = ("constant", "lognormal", "gamma", "exponential", "empirical")
SCOPES = ("rank", "pass", "operation")
_RANKS = re.compile(r"\d+(?:-\d+)?", re.ASCII)
_PS = 1000


@attrs.frozen
class ComputeVariation:
    """The additional compute time of some ranks over the compute model."""

    ranks: str = option("all", help="all, or numbers and ranges of NPUs: 5, 0-7,16")
    factor: float = option(1.0, above=0, maximum=1e6, help="times as long")
    distribution: str = option("constant", choices=DISTRIBUTIONS, help="distribution of the random factor, of mean 1")
    cv: float | None = option(None, above=0, maximum=100, help="coefficient of variation; of constant and empirical none")
    file: str | None = option(None, path="path", help="empirical: a file with a number a line, one of which is drawn")
    scope: str = option("rank", choices=SCOPES, help="unit of a draw: each rank, each pass of it, or each operation")
    keep_mean: bool = option(True, help="the mean is 1; false: the median (lognormal), the least (exponential), the file's own (empirical)")

    def __attrs_post_init__(self) -> None:
        if (self.cv is None) != (self.distribution in ("constant", "empirical")):
            raise InputError(
                f"cv is {self.cv}; expected {'none' if self.cv is not None else 'one'} for the distribution {self.distribution}"
            )
        if (self.file is None) != (self.distribution != "empirical"):
            raise InputError(f"file is {self.file!r}; expected {'none' if self.file else 'one'} for the distribution {self.distribution}")
        if self.distribution == "exponential" and self.keep_mean and self.cv is not None and self.cv > 1:
            raise InputError(f"cv is {self.cv}; expected at most 1 for the distribution exponential, whose mean is kept")


@attrs.frozen
class Pauses:
    """Times in which ranks compute nothing, again and again."""

    ranks: str = option("all", help="all, or numbers and ranges of NPUs: 5, 0-7,16")
    every_ns: float = option(above=0, help="from the begin of a pause to that of the next", unit="ns")
    lasts_ns: float = option(above=0, help="how long a pause lasts", unit="ns")
    phase: str = option("random", help="when the first begins: random for each rank, or nanoseconds after the start of the run")

    def __attrs_post_init__(self) -> None:
        if self.lasts_ns >= self.every_ns:
            raise InputError(f"lasts_ns is {self.lasts_ns:g}; expected less than every_ns, which is {self.every_ns:g}")
        if self.phase != "random" and not re.fullmatch(r"\d+(\.\d+)?", self.phase, re.ASCII):
            raise InputError(f"phase is {self.phase!r}; expected random, or nanoseconds")


@attrs.frozen
class VariationOptions:
    """The section `variation` of an experiment."""

    seed: int = option(0, minimum=0, help="of all draws")
    compute: tuple[ComputeVariation, ...] = option((), help="factors of the times of operations; those of several entries multiply")
    pauses: tuple[Pauses, ...] = option((), help="pauses of ranks, as of an operating system")


def ranks_of(text: str, npus: int, where: str) -> frozenset[int]:
    """The ranks that a text names. Raises InputError."""
    if text.strip() == "all":
        return frozenset(range(npus))
    result: set[int] = set()
    for part in (each.strip() for each in text.split(",")):
        first, _, last = part.partition("-")
        if not _RANKS.fullmatch(part) or not int(first) <= int(last or first) < npus:
            raise InputError(f"{where}: ranks is {text!r}; expected all, or numbers and ranges of NPUs from 0 to {npus - 1}: 5, 0-7,16")
        result |= set(range(int(first), int(last or first) + 1))
    return frozenset(result)


class _Factors:
    """The factors of one entry."""

    def __init__(self, entry: ComputeVariation, number: int, seed: int, npus: int) -> None:
        self._entry, self._name, self._seed = entry, f"variation compute {number}", seed
        self.ranks = ranks_of(entry.ranks, npus, f"compute {number}")
        self._values = _numbers(entry.file) if entry.file is not None else []
        self._streams: dict[int, RandomStream] = {}

    def of(self, started: Started) -> float:
        """The factor of an operation."""
        entry = self._entry
        if entry.distribution == "constant":
            return entry.factor
        rank = started.npu
        if rank not in self._streams:
            self._streams[rank] = RandomStream(self._seed, f"{self._name} rank {rank}")
        counter = {"rank": 0, "pass": started.iteration, "operation": started.number}[entry.scope]
        return entry.factor * self._drawn(self._streams[rank], counter)

    def _drawn(self, stream: RandomStream, counter: int) -> float:
        """A number of the distribution."""
        entry, cv = self._entry, self._entry.cv or 0.0
        if entry.distribution == "lognormal":
            variance = math.log1p(cv * cv)
            return math.exp(math.sqrt(variance) * stream.normal(counter) - (variance / 2 if entry.keep_mean else 0.0))
        if entry.distribution == "gamma":
            shape = 1 / (cv * cv)
            return stream.gamma(shape, counter) / shape
        if entry.distribution == "exponential":
            return (1 - cv if entry.keep_mean else 1.0) + cv * stream.exponential(counter)
        mean = math.fsum(self._values) / len(self._values) if entry.keep_mean else 1.0
        return self._values[int(stream.uniform(counter) * len(self._values))] / mean


def _numbers(path: str) -> list[float]:
    """The numbers of a file, one a line. Raises InputError."""
    result = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if line.strip():
            try:
                value = float(line)
            except ValueError:
                value = math.nan
            if not 0 < value < math.inf:
                raise InputError(f"{path}: line {number} is {line.strip()!r}; expected a number above 0")
            result.append(value)
    if not result:
        raise InputError(f"{path}: no number; expected one a line")
    return result


class _Pausing:
    """The pauses of one entry."""

    def __init__(self, entry: Pauses, number: int, seed: int, npus: int) -> None:
        self.ranks = ranks_of(entry.ranks, npus, f"pauses {number}")
        self._every, self._lasts = max(1, round(entry.every_ns * _PS)), round(entry.lasts_ns * _PS)
        self._phase = None if entry.phase == "random" else round(float(entry.phase) * _PS)
        self._stream = RandomStream(seed, f"variation pauses {number}")

    def end_ps(self, npu: int, start: int, duration: int) -> int:
        """When work ends that takes so long without pauses."""
        phase = int(self._stream.uniform(npu) * self._every) if self._phase is None else self._phase
        now, left = start, duration
        while True:
            into = (now - phase) % self._every if now >= phase else self._every - (phase - now)
            if now >= phase and into < self._lasts:
                now += self._lasts - into
                continue
            until = (self._every - into) if now >= phase else phase - now
            if left <= until:
                return now + left
            now, left = now + until, left - until


def variation(options: VariationOptions, platform: Platform) -> Callable[[Started], int]:
    """The time of operations on each NPU. Raises InputError for ranks outside the platform, or a file without numbers."""
    factors = [_Factors(entry, number, options.seed, platform.npus) for number, entry in enumerate(options.compute)]
    pauses = [_Pausing(entry, number, options.seed, platform.npus) for number, entry in enumerate(options.pauses)]

    def duration_ps(started: Started) -> int:
        product = math.prod(_of(factors, started))
        duration = started.duration_ps if product == 1 else round(started.duration_ps * product)
        for each in pauses:
            if started.npu in each.ranks:
                duration = each.end_ps(started.npu, started.start_ps, duration) - started.start_ps
        return duration

    return duration_ps


def _of(factors: Sequence[_Factors], started: Started) -> list[float]:
    return [each.of(started) for each in factors if started.npu in each.ranks]
