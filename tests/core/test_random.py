"""Random numbers by counter: published vectors, independence of streams, moments."""

from __future__ import annotations

import statistics

import pytest
from astra_sim.random import RandomStream


def test_words_are_those_of_splitmix64() -> None:
    """The first outputs of SplitMix64 from the seed 1234567 (Rosetta Code, Pseudo-random numbers/Splitmix64)."""
    stream = RandomStream(1234567)
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]
    assert [stream.word(counter) for counter in range(5)] == expected


def test_a_number_follows_from_seed_name_and_counter_alone() -> None:
    words = [RandomStream(1, "arrivals").word(counter) for counter in range(100)]
    backwards = RandomStream(1, "arrivals")
    assert [backwards.word(counter) for counter in reversed(range(100))] == words[::-1]
    others = [RandomStream(1, "input"), RandomStream(2, "arrivals"), RandomStream(1)]
    assert all(set(words).isdisjoint(other.word(counter) for counter in range(100)) for other in others)


def test_distributions_have_their_moments() -> None:
    stream, count = RandomStream(7, "moments"), 20000
    uniform = [stream.uniform(counter) for counter in range(count)]
    assert min(uniform) >= 0
    assert max(uniform) < 1
    assert abs(statistics.fmean(uniform) - 0.5) < 0.01
    exponential = [stream.exponential(counter) for counter in range(count)]
    assert abs(statistics.fmean(exponential) - 1) < 0.03
    normal = [stream.normal(counter) for counter in range(count)]
    assert abs(statistics.fmean(normal)) < 0.03
    assert abs(statistics.pstdev(normal) - 1) < 0.03


@pytest.mark.parametrize("shape", [0.25, 1.0, 7.0])
def test_gamma_numbers_have_mean_and_variance_of_their_shape(shape: float) -> None:
    stream = RandomStream(5)
    values = [stream.gamma(shape, counter) for counter in range(20_000)]
    assert statistics.fmean(values) == pytest.approx(shape, rel=0.04)
    assert statistics.pvariance(values) == pytest.approx(shape, rel=0.08)
