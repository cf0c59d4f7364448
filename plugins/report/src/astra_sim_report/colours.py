"""Colours, each with one meaning: an item has the same colour in all figures of a page.

Known things have colours of their own, of which the first are those of Okabe and Ito, which people with impaired colour vision can tell
apart. Things that are known by their names alone, such as communicator groups, get others, in the order in which they come.
"""

from __future__ import annotations

import colorsys
from collections.abc import Iterator
from itertools import chain

KNOWN = {
    "compute": "#0072B2",
    "compute, forward": "#4393C3",
    "compute, input gradient": "#92C5DE",
    "compute, weight gradient": "#C6DFEE",
    "optimizer": "#44AA99",
    "exposed communication": "#D55E00",
    "exposed, forward": "#E08A4A",
    "exposed, input gradient": "#EDB48A",
    "exposed, weight gradient": "#F6D8C2",
    "tp": "#E69F00",
    "pp": "#CC79A7",
    "dp": "#882255",
    "ep": "#009E73",
    "cp": "#F0E442",
    "bubble": "#999999",
    "idle": "#BBBBBB",
    "wait": "#C9B8D8",
    "memory": "#6B4C9A",
    "read": "#8C6BB1",
    "write": "#B39CD0",
    "memoryaccess": "#7A5BA6",
    "all_reduce": "#A6761D",
    "all_gather": "#66A61E",
    "reduce_scatter": "#7570B3",
    "all_to_all": "#E7298A",
    "broadcast": "#BF5B17",
    "reduce": "#8DA0CB",
    "send": "#F781BF",
    "receive": "#A65628",
    "message": "#80B1D3",
    "communicate": "#FB8072",
    "recorded": "#F4A582",
    "bandwidth": "#C44E52",
    "latency": "#DD8452",
    "queueing": "#937860",
    "network": "#8C8C00",
    "endpoint": "#DA8BC3",
    "reduction": "#64B5CD",
    "bus": "#55A868",
    "collective": "#CCB974",
    "rendezvous": "#4D9DA6",
    "overhead": "#B07AA1",
    "processor": "#9C755F",
    "update": "#B2DF8A",
    "start": "#CAB2D6",
    "by layer": "#5B7083",
    "total": "#777777",
}
"""The items with a colour of their own in all figures."""

SERIES = (
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#882255", "#999933", "#44AA99", "#AA4499", "#332288", "#DDCC77",
    "#117733", "#CC6677", "#88CCEE", "#661100",
)  # fmt: skip
"""Colours of series of a figure that has no known things: those of Okabe and Ito, then of Tol."""


class Colours:
    """The colours of a page, or of a figure that is alone: the same item gets the same colour, and no two items get one."""

    def __init__(self) -> None:
        self._others: dict[str, str] = {}
        used = {colour.upper() for colour in KNOWN.values()}
        self._left: Iterator[str] = (colour for colour in chain(SERIES, _all_colours()) if colour.upper() not in used)

    def of(self, thing: str) -> str:
        """The colour of a thing."""
        known = KNOWN.get(thing)
        if known is None:
            known = self._others.get(thing)
        if known is None:
            known = self._others[thing] = next(self._left)
        return known


def series(count: int) -> list[str]:
    """As many different colours as a figure has series."""
    result = chain(SERIES, _all_colours())
    return [next(result) for _ in range(count)]


def _all_colours() -> Iterator[str]:
    """Colours without end: hues by the golden ratio, which never come again, in three shades."""
    number = 0
    while True:
        red, green, blue = colorsys.hls_to_rgb(number * 0.618033988749895 % 1, (0.42, 0.58, 0.70)[number % 3], (0.55, 0.70)[number % 2])
        yield f"#{round(255 * red):02X}{round(255 * green):02X}{round(255 * blue):02X}"
        number += 1
