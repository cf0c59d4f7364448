"""Random numbers by counter: the n-th number of a stream follows from the seed, the name of the stream and n alone.

The generator is SplitMix64 (Steele, Lea and Flood, OOPSLA 2014, doi 10.1145/2660193.2660195), whose n-th output is a hash of its start plus
n times an odd constant. Streams of different names are independent of each other, and of how many numbers are drawn from others, so that
two policies can be compared on the same draws.

Examples:

Two streams of a seed do not disturb each other, and a number follows from its counter:

    >>> from astra_sim.random import RandomStream
    >>> arrivals, lengths = RandomStream(7, "arrivals"), RandomStream(7, "lengths")
    >>> [round(arrivals.exponential(counter), 3) for counter in range(3)]
    [0.393, 3.818, 1.627]
    >>> round(arrivals.exponential(2), 3), round(lengths.exponential(2), 3)
    (1.627, 0.901)
"""

from __future__ import annotations

import math

__all__ = ["RandomStream"]

_MASK = (1 << 64) - 1
_GAMMA = 0x9E3779B97F4A7C15
_TO_UNIT = 2.0**-53


def mix64(word: int) -> int:
    """The finalizer of SplitMix64: a bijection of 64-bit words in which every bit of the input changes half of the output."""
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _MASK
    return word ^ (word >> 31)


class RandomStream:
    """The numbers of one stream. `RandomStream(seed)` is SplitMix64 from that seed; a name selects another start."""

    __slots__ = ("_start",)

    def __init__(self, seed: int, name: str = "") -> None:
        start = seed & _MASK
        for byte in name.encode():
            start = mix64((start + _GAMMA + byte) & _MASK)
        self._start = start

    def word(self, counter: int) -> int:
        """The 64-bit word of a counter from 0 on."""
        return mix64((self._start + (counter + 1) * _GAMMA) & _MASK)

    def uniform(self, counter: int) -> float:
        """A number of [0, 1), a multiple of 2^-53."""
        return (self.word(counter) >> 11) * _TO_UNIT

    def exponential(self, counter: int) -> float:
        """A number of the exponential distribution of mean 1."""
        return -math.log1p(-self.uniform(counter))

    def normal(self, counter: int) -> float:
        """A number of the standard normal distribution (Box and Muller), from the words 2 n and 2 n + 1."""
        word = self._start + (2 * counter + 1) * _GAMMA
        radius = math.sqrt(-2 * math.log1p(-((mix64(word & _MASK) >> 11) * _TO_UNIT)))
        return radius * math.cos(2 * math.pi * ((mix64((word + _GAMMA) & _MASK) >> 11) * _TO_UNIT))

    def gamma(self, shape: float, counter: int) -> float:
        """A number of the gamma distribution of scale 1 (Marsaglia and Tsang, ACM TOMS 26(3), 2000, doi 10.1145/358407.358414).

        Its words are those of a stream that the word of the counter begins.
        """
        stream = RandomStream(self.word(counter))
        if shape < 1:
            boost = (1 - stream.uniform(0)) ** (1 / shape)
            return float(stream.gamma(shape + 1, 1) * boost)
        d = shape - 1 / 3
        c = 1 / math.sqrt(9 * d)
        attempt = 0
        while True:
            x = stream.normal(2 * attempt)
            u = 1 - stream.uniform(4 * attempt + 2)
            v = (1 + c * x) ** 3
            if v > 0 and math.log(u) < x * x / 2 + d - d * v + d * math.log(v):
                return d * v
            attempt += 1
