"""Lengths of prompts and answers: distributions, drawn by counter."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from astra_sim import InputError, option
from astra_sim.options import structure
from astra_sim.random import RandomStream

DISTRIBUTIONS = ("constant", "uniform", "lognormal", "empirical", "mixture")


@attrs.frozen
class Lengths:
    """A distribution of lengths in tokens. Which of the numbers it needs depends on its name."""

    distribution: str = option("constant", choices=DISTRIBUTIONS, help="which distribution")
    value: int | None = option(None, minimum=1, help="constant: the length", unit="tokens")
    low: int | None = option(None, minimum=1, help="uniform: the smallest length", unit="tokens")
    high: int | None = option(None, minimum=1, help="uniform: the largest length", unit="tokens")
    mean: float | None = option(None, above=0, help="lognormal: the mean", unit="tokens")
    sigma: float | None = option(None, minimum=0, maximum=10, help="lognormal: the standard deviation of the logarithm")
    values: tuple[int, ...] = option((), minimum=1, help="empirical: lengths that are drawn with equal probability", unit="tokens")
    maximum: int | None = option(None, minimum=1, help="longer ones are cut to this", unit="tokens")
    parts: tuple[dict[str, Any], ...] = option((), help="mixture: distributions, each with a weight")


_NEEDS = {
    "constant": ("value",),
    "uniform": ("low", "high"),
    "lognormal": ("mean", "sigma"),
    "empirical": ("values",),
    "mixture": ("parts",),
}


class LengthSampler:
    """Draws lengths of a distribution: the n-th follows from the stream and n alone."""

    def __init__(self, table: int | str | Mapping[str, Any], where: str) -> None:
        options = table if isinstance(table, Mapping) else {"value": table}
        self._lengths: Lengths = structure(Lengths, options, where)
        needs = _NEEDS[self._lengths.distribution]
        for name in needs:
            if getattr(self._lengths, name) in (None, ()):
                raise InputError(f"{where}: {self._lengths.distribution} needs {' and '.join(needs)}; {name} is missing")
        for field in attrs.fields(Lengths):
            unused = field.name not in ("distribution", "maximum", *needs)
            if unused and getattr(self._lengths, field.name) != field.default:
                raise InputError(f"{where}: {field.name} has no effect with distribution = {self._lengths.distribution!r}")
        if self._lengths.distribution == "uniform" and self._lengths.low > self._lengths.high:
            raise InputError(f"{where}: low is {self._lengths.low}; expected at most high, which is {self._lengths.high}")
        self._parts: Sequence[LengthSampler] = ()
        self._ends: list[float] = []
        if self._lengths.distribution == "mixture":
            weights = [_weight(part, f"{where}: parts.{number}") for number, part in enumerate(self._lengths.parts)]
            self._parts = [
                LengthSampler({key: value for key, value in part.items() if key != "weight"}, f"{where}: parts.{number}")
                for number, part in enumerate(self._lengths.parts)
            ]
            self._ends = [end / sum(weights) for end in itertools.accumulate(weights)]

    def draw(self, stream: RandomStream, counter: int) -> int:
        """The length of a counter: at least one token."""
        lengths = self._lengths
        length = self._draw(RandomStream(stream.word(counter)))
        return min(length, lengths.maximum) if lengths.maximum else length

    def parameters(self, most: int) -> tuple[str, list[float], list[int], int, list[LengthSampler]]:
        """The distribution, its numbers, lengths that it gives, the longest (0: none) and its parts, as the compiled one takes them.

        Lengths above `most` are that. Raises OverflowError if a uniform distribution goes beyond.
        """
        lengths, name = self._lengths, self._lengths.distribution
        numbers: list[float] = list(self._ends)
        if name == "uniform":
            if int(lengths.high or 1) >= most:
                raise OverflowError(f"lengths of up to {lengths.high} tokens")
            numbers = [int(lengths.low or 1), int(lengths.high or 1)]
        elif name == "lognormal":
            numbers = [_log_median(lengths), float(lengths.sigma or 0)]
        values = [min(each, most) for each in lengths.values or (lengths.value or 1,)]
        return name, numbers, values, min(lengths.maximum or 0, most), list(self._parts)

    def _draw(self, stream: RandomStream) -> int:
        """A length by the distribution, before it is limited."""
        lengths, name = self._lengths, self._lengths.distribution
        if name == "mixture":
            u = stream.uniform(0)
            part = next((number for number, end in enumerate(self._ends) if u < end), len(self._ends) - 1)
            return self._parts[part].draw(stream, 1)
        if name == "uniform":
            low, high = int(lengths.low or 1), int(lengths.high or 1)
            return low + int(stream.uniform(0) * (high - low + 1))
        if name == "lognormal":
            return max(1, round(math.exp(_log_median(lengths) + float(lengths.sigma or 0) * stream.normal(0))))
        if name == "empirical":
            return lengths.values[int(stream.uniform(0) * len(lengths.values))]
        return int(lengths.value or 1)


def _log_median(lengths: Lengths) -> float:
    """The logarithm of the median of a lognormal distribution."""
    return math.log(float(lengths.mean or 1)) - float(lengths.sigma or 0) ** 2 / 2


def _weight(part: Mapping[str, Any], where: str) -> float:
    weight = part.get("weight") if isinstance(part, Mapping) else None
    if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not 0 < weight < 1e9:
        raise InputError(f"{where}: weight is {weight!r}; expected a number above 0")
    return weight
