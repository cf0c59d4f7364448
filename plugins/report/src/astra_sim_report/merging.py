"""Merging of items too small to be seen: intervals of a row that are shorter than a pixel and follow each other closely."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

FINEST = 1 << 16
"""Into how many pixels a run is divided at most."""


class Cluster(NamedTuple):
    """Intervals that are drawn as one, by their places in a row; from the begin of the first to the end of the last (ns)."""

    members: Sequence[int]
    begin_ns: float
    end_ns: float


def shares(counts: Sequence[int], most: int) -> list[int]:
    """The share of `most` of each of several rows with these numbers of intervals: equal, at most its number, and at least one."""
    result = [0] * len(counts)
    room = most
    order = sorted(range(len(counts)), key=lambda row: counts[row])
    for left, row in zip(range(len(counts), 0, -1), order, strict=True):
        result[row] = max(1, min(counts[row], room // left)) if counts[row] else 0
        room = max(0, room - result[row])
    return result


def clusters(begins: Sequence[float], ends: Sequence[float], pixel_ns: float, apart: bool = False) -> list[Cluster]:
    """The intervals of a row, given in the order of their begins: those not longer than a pixel, and not further apart, are one.

    With `apart` those that overlap are one, too, whatever their length, so that no two clusters overlap.
    """
    result: list[Cluster] = []
    members: list[int] = []
    first, reach, is_short = 0.0, 0.0, True
    for place, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        short = end - begin <= pixel_ns
        if members and ((apart and begin < reach) or (is_short and short and begin - reach <= pixel_ns)):
            members.append(place)
            reach = max(reach, end)
            is_short = is_short and short
            continue
        if members:
            result.append(Cluster(members, first, reach))
        members, first, reach, is_short = [place], begin, end, short
    if members:
        result.append(Cluster(members, first, reach))
    return result


def merged(begins: Sequence[float], ends: Sequence[float], finish_ns: float, most: int, apart: bool = False) -> tuple[list[Cluster], float]:
    """At most `most` clusters of a row, and the pixel (ns) that this takes; 0 if the row has no more intervals than that.

    A pixel is as small as it can be, from one part in FINEST of the run on. If that does not suffice, for long ones overlap, all that
    overlap are one.
    """
    result = clusters(begins, ends, -1.0, apart)
    if len(result) <= most:
        return result, 0.0
    parts = FINEST
    while parts > 8 * most and parts > 1:
        parts //= 2  # with fewer pixels than that there may be more clusters than pixels, with more there are too many
    while parts >= 1:
        pixel = finish_ns / parts
        result = clusters(begins, ends, pixel, apart)
        if len(result) <= most:
            return result, pixel
        parts //= 2
    return clusters(begins, ends, finish_ns, apart=True)[:], finish_ns
