"""Max-min fair shares of links, in plain Python: the rule that `native/` computes piece by piece. Tests compare them.

All flows begin with a rate of 0, and the level rises from 0. The rate of a flow is the level times its weight, until a link on its way is
full or its bound is reached: there its rate stays, and the others go on. In the end no flow can have more without taking from one whose
level is as low or lower (Bertsekas and Gallager, Data Networks, 2nd edition 1992, section 6.5.2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import attrs


@attrs.frozen
class SharedFlow:
    """A flow: `links` is, for each link that it uses, its load on it for each unit of its rate.

    `weight` is above 0; `bound` is the highest rate that the flow may have, None: any.
    """

    links: Mapping[int, Fraction]
    weight: Fraction = Fraction(1)
    bound: Fraction | None = None


def max_min(capacity: Sequence[Fraction], flows: Sequence[SharedFlow]) -> list[Fraction]:
    """The rate of each flow, in the unit of `capacity`, the capacities of links. Every flow uses at least one link."""
    rates: list[Fraction | None] = [None] * len(flows)
    while None in rates:
        going_on = [number for number, rate in enumerate(rates) if rate is None]
        level, full = min(
            [_full_at(link, capacity[link], flows, rates) for link in sorted({link for number in going_on for link in flows[number].links})]
            + [(bound / flows[number].weight, [number]) for number in going_on if (bound := flows[number].bound) is not None]
        )
        for number in full:
            rates[number] = level * flows[number].weight
    return [rate for rate in rates if rate is not None]


def _full_at(link: int, capacity: Fraction, flows: Sequence[SharedFlow], rates: Sequence[Fraction | None]) -> tuple[Fraction, list[int]]:
    """The level at which a link is full, and its flows whose rate is not known yet."""
    left, weights, result = capacity, Fraction(0), []
    for number, (flow, rate) in enumerate(zip(flows, rates, strict=True)):
        part = flow.links.get(link, Fraction(0))
        if part and rate is None:
            weights += part * flow.weight
            result.append(number)
        elif rate is not None:
            left -= part * rate
    return left / weights, result
