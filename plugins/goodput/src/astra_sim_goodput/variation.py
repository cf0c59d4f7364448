"""The section `variation`: ranks and links that are slower than others, kernels whose times scatter, and pauses.

Every number is drawn by counter, from the seed, the entry, the rank, and its purpose: nothing, the pass, or the place of the
operation in the program. So a rank has the same fate under another network, and in both engines.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import attrs
from astra_sim import InputError, option
from astra_sim.compute import Started, Variation
from astra_sim.fabric import LinkChange
from astra_sim.platform import Platform
from astra_sim.random import RandomStream

from astra_sim_goodput.numbers import read_numbers

DISTRIBUTIONS = ("constant", "lognormal", "gamma", "exponential", "empirical")
SCOPES = ("rank", "pass", "operation")
_RANKS = re.compile(r"\d+(?:-\d+)?", re.ASCII)
_PS = 1000
_LARGEST_FACTOR = 1e6
_MOST_CACHED_CLASSES = 64


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
    steady_ranks: str | None = option(None, help="ranks that neither vary nor pause, as for a what-if: 5, 0-7,16; none: all may")
    noise_classes: int | None = option(
        None, minimum=1, help="approximation: groups of ranks that share their draws, rank modulo this number; none: each rank has its own"
    )
    links: tuple[dict[str, Any], ...] = option(
        (), help="links that are slower: from, to, bandwidth and latency (factors); needs a network that simulates links"
    )
    compute: tuple[ComputeVariation, ...] = option((), help="factors of the times of operations; those of several entries multiply")
    pauses: tuple[Pauses, ...] = option((), help="pauses of ranks, as of an operating system")

    def link_changes(self) -> list[LinkChange]:
        """The entries of `links`. Raises InputError."""
        return [_link_change(entry, f"variation: links[{place}]") for place, entry in enumerate(self.links)]


_LINK_KEYS = ("from", "to", "bandwidth", "latency")


def _link_change(entry: Mapping[str, Any], where: str) -> LinkChange:
    """An entry of `links`: nodes `from` and `to`, and factors of the links' bandwidth and latency. Raises InputError."""
    for key in entry:
        if key not in _LINK_KEYS:
            raise InputError(f"{where}: unknown key {key!r}; expected {', '.join(_LINK_KEYS)}")
    for key in ("from", "to"):
        if not isinstance(entry.get(key), (int, str)):
            raise InputError(f"{where}: {key} is {entry.get(key)!r}; expected an NPU by its number, 'NPU N', or 'switch N'")
    factors = {key: entry.get(key, 1.0) for key in ("bandwidth", "latency")}
    for key, value in factors.items():
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, float))
            or not 0 <= value <= _LARGEST_FACTOR
            or (not value and key == "bandwidth")
        ):
            raise InputError(
                f"{where}: {key} is {value!r}; expected a factor {'above' if key == 'bandwidth' else 'of at least'} 0, such as 0.25"
            )
    return LinkChange(entry["from"], entry["to"], float(factors["bandwidth"]), float(factors["latency"]), where)


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


Draw = Callable[[Started], float]
"""The factor of an operation."""


class _Factors:
    """The factors of one entry. Ranks with the same number modulo `classes` share their draws."""

    def __init__(self, entry: ComputeVariation, number: int, options: VariationOptions, npus: int) -> None:
        self._entry, self._name, self._seed = entry, f"variation compute {number}", options.seed
        self._classes = options.noise_classes or npus
        self.ranks = ranks_of(entry.ranks, npus, f"compute {number}")
        self._values = read_numbers(entry.file) if entry.file is not None else []
        self._draws: dict[int, Draw] = {}

    def of_rank(self, rank: int) -> Draw:
        """The factor of each operation of a rank."""
        noise_class = rank % self._classes
        if noise_class not in self._draws:
            self._draws[noise_class] = self._of_class(noise_class)
        return self._draws[noise_class]

    def _of_class(self, noise_class: int) -> Draw:
        """The factor of each operation of the ranks of a class, by the scope of the entry."""
        entry = self._entry
        factor = entry.factor
        if entry.distribution == "constant":
            return lambda started: factor
        drawn = self._distribution(RandomStream(self._seed, f"{self._name} rank {noise_class}"))
        if entry.scope == "rank":
            constant = factor * drawn(0)
            return lambda started: constant
        if entry.scope == "pass":
            of_pass: dict[int, float] = {}

            def pass_factor(started: Started) -> float:
                if started.iteration not in of_pass:
                    of_pass[started.iteration] = factor * drawn(started.iteration)
                return of_pass[started.iteration]

            return pass_factor
        if self._classes < _MOST_CACHED_CLASSES:
            cached = functools.cache(lambda number: factor * drawn(number))
            return lambda started: cached(started.number)
        return lambda started: factor * drawn(started.number)

    def _distribution(self, stream: RandomStream) -> Callable[[int], float]:
        """The n-th number of the distribution, by n."""
        entry, cv = self._entry, self._entry.cv or 0.0
        if entry.distribution == "lognormal":
            variance = math.log1p(cv * cv)
            deviation, shift = math.sqrt(variance), variance / 2 if entry.keep_mean else 0.0
            return lambda counter: math.exp(deviation * stream.normal(counter) - shift)
        if entry.distribution == "gamma":
            shape = 1 / (cv * cv)
            return lambda counter: stream.gamma(shape, counter) / shape
        if entry.distribution == "exponential":
            least = 1 - cv if entry.keep_mean else 1.0
            return lambda counter: least + cv * stream.exponential(counter)
        values = self._values
        mean = math.fsum(values) / len(values) if entry.keep_mean else 1.0
        return lambda counter: values[int(stream.uniform(counter) * len(values))] / mean


class _Pausing:
    """The pauses of one entry."""

    def __init__(self, entry: Pauses, number: int, options: VariationOptions, npus: int) -> None:
        self.ranks = ranks_of(entry.ranks, npus, f"pauses {number}")
        self._every, self._lasts = max(1, round(entry.every_ns * _PS)), round(entry.lasts_ns * _PS)
        self._phase = None if entry.phase == "random" else round(float(entry.phase) * _PS)
        self._stream, self._classes = RandomStream(options.seed, f"variation pauses {number}"), options.noise_classes or npus

    def end_ps(self, npu: int, start: int, duration: int) -> int:
        """When work ends that takes so long without pauses."""
        phase = int(self._stream.uniform(npu % self._classes) * self._every) if self._phase is None else self._phase
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


def variation(options: VariationOptions, platform: Platform) -> Variation:
    """The time of operations on each NPU, and the links that are slower.

    Raises InputError for ranks outside the platform, a file without numbers, or an entry of a link that is wrong.
    """
    npus = platform.npus
    factors = [_Factors(entry, number, options, npus) for number, entry in enumerate(options.compute)]
    pauses = [_Pausing(entry, number, options, npus) for number, entry in enumerate(options.pauses)]
    steady = frozenset[int]() if options.steady_ranks is None else ranks_of(options.steady_ranks, npus, "steady_ranks")
    of_rank: dict[int, tuple[list[Draw], list[_Pausing]]] = {}

    def duration_ps(started: Started) -> int:
        rank = started.npu
        noise = of_rank.get(rank)
        if noise is None:
            varies = rank not in steady
            noise = of_rank[rank] = (
                [each.of_rank(rank) for each in factors if varies and rank in each.ranks],
                [each for each in pauses if varies and rank in each.ranks],
            )
        draws, pausing = noise
        product = 1.0
        for draw in draws:
            product *= draw(started)
        duration = started.duration_ps if product == 1 else round(started.duration_ps * product)
        for each in pausing:
            duration = each.end_ps(rank, started.start_ps, duration) - started.start_ps
        return duration

    return Variation(duration_ps if factors or pauses else None, options.link_changes())
