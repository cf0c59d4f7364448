"""Layers that repeat, as one: twelve blocks of a model are `12 x block`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

FEWEST = 3
"""Repetitions from which on layers are folded."""
_SAVED = 3
"""Lines that folding must save."""
_TRIED = 64
"""Lengths of a block that are tried, at each of its layers."""


class Folded(NamedTuple):
    """A layer that repeats: its places among all layers, in order, and its title."""

    label: str
    places: Sequence[int]


def fold(names: Sequence[str], alike: Callable[[int, int], bool]) -> list[Folded]:
    """Fold blocks of layers that follow each other at least `FEWEST` times: layer n of each block becomes one. A few lines must be saved.

    Layers repeat if their names differ in nothing but numbers, and they are `alike` (of two places). Numbers that differ become `*`.
    Of several ways to fold, the one that covers most layers is taken, with the shortest block.
    """
    patterns = [re.sub(r"\d+", "0", name) for name in names]

    def repeats(first: int, other: int) -> bool:
        return patterns[first] == patterns[other] and alike(first, other)

    following = _places(patterns)
    folded: list[Folded] = []
    place = 0
    while place < len(names):
        length, count = _block(place, following[place], len(names), repeats)
        for layer in range(place, place + length):
            places = range(layer, layer + length * count, length)
            folded.append(Folded(_label([names[each] for each in places]), places))
        place += length * count
    return folded


def _places(patterns: Sequence[str]) -> list[Sequence[int]]:
    """For each layer, the places of the next ones that are called alike."""
    seen: dict[str, list[int]] = {}
    following: list[Sequence[int]] = []
    for place in reversed(range(len(patterns))):
        later = seen.setdefault(patterns[place], [])
        following.append(later[: -_TRIED - 1 : -1])
        later.append(place)
    return following[::-1]


def _block(place: int, following: Sequence[int], end: int, repeats: Callable[[int, int], bool]) -> tuple[int, int]:
    """The number of layers from a place on that form a block, and of its repetitions: (1, 1) if it is not repeated."""
    best = 1, 1
    for length in (other - place for other in following):
        count = 1 + _length_of_repetition(place, length, end, repeats) // length
        if count >= FEWEST and length * (count - 1) >= _SAVED and length * count > best[0] * best[1]:
            best = length, count
            if length * count == end - place:
                break
    return best


def _length_of_repetition(place: int, length: int, end: int, repeats: Callable[[int, int], bool]) -> int:
    """The number of layers after a block of some length that repeat it, one after another."""
    later = range(place + length, end)
    return next((number for number, layer in enumerate(later) if not repeats(place + number % length, layer)), len(later))


def _label(names: Sequence[str]) -> str:
    """The name of a layer that represents several."""
    if len(names) == 1:
        return names[0]
    numbers = zip(*(re.findall(r"\d+", name) for name in names), strict=True)
    marks = iter(["*" if len(set(number)) > 1 else number[0] for number in numbers])
    pattern = re.sub(r"\d+", lambda _: next(marks), names[0])
    return f"{len(names)} x {pattern}"
