"""How tokens are distributed over experts: which get some, and how many the fullest rank of expert parallelism has."""

from __future__ import annotations

import math
from typing import NamedTuple

from astra_sim.models import ModelDescription
from astra_sim.random import RandomStream

_DRAWS = 16
_MOST = 0.8
"""Share of the tokens that the most popular expert gets at most, in proportion to one token for the least popular."""


class ExpertLoad(NamedTuple):
    """The experts of a rank that get tokens, and choices of these experts: the mean, or those of the fullest rank."""

    touched: float
    choices: float


def touched_experts(model: ModelDescription, tokens: int) -> float:
    """Experts that get at least one token, on average, if each token chooses by chance."""
    return model.experts * (1 - (1 - model.top_k / model.experts) ** tokens)


def expert_load(model: ModelDescription, tokens: int, ranks: int, power: float | None) -> ExpertLoad:
    """The load of a rank. Without a `power` tokens choose by chance, all experts alike; else experts are chosen in proportion to numbers
    with density x^-power from 1 to 0.8 of the tokens (0.01 to 2 if there are more experts than choices): mean of 16 draws.

    Source: the power laws with which aiconfigurator measures (ai-dynamo/aiconfigurator, helpers of its collector).
    """
    choices = tokens * model.top_k
    if power is None:
        return ExpertLoad(touched_experts(model, tokens) / ranks, choices / ranks)
    low, high = (1.0, max(1.0, _MOST * tokens)) if choices > model.experts else (0.01, 2.0)
    stream, each = RandomStream(0, "experts"), model.experts // ranks
    touched = fullest = 0.0
    for draw in range(_DRAWS):
        weights = [_bounded_power(stream.uniform(draw * model.experts + number), power, low, high) for number in range(model.experts)]
        scale = choices / sum(weights)
        loads = [min(tokens, weight * scale) for weight in weights]
        rank = max((loads[first : first + each] for first in range(0, each * ranks, each)), key=sum)
        fullest += sum(rank) / _DRAWS
        touched += sum(1 - math.exp(-load) for load in rank) / _DRAWS
    return ExpertLoad(touched, fullest)


def _bounded_power(uniform: float, power: float, low: float, high: float) -> float:
    """A number with density x^-power between two bounds, by its cumulative share."""
    if abs(power - 1) < 1e-9:
        return low * float((high / low) ** uniform)
    exponent = 1 - power
    return float((uniform * (high**exponent - low**exponent) + low**exponent) ** (1 / exponent))
