"""Differences between a result that was written and another run of its experiment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

APART = ("wall_s", "experiment", "versions", "inputs", "invocation", "units", "explanation")
"""Keys that a rerun does not compare: they differ each time, are compared separately, or need other runs."""


@attrs.frozen
class Difference:
    """A figure that is not the recorded one, by its place in the result; None: there is none."""

    figure: str
    recorded: Any
    now: Any


def figure_differences(recorded: Mapping[str, Any], now: Mapping[str, Any]) -> list[Difference]:
    """The figures in which two results as JSON differ. Numbers are equal or not: runs are deterministic."""
    return list(_differences("", *({key: value for key, value in run.items() if key not in APART} for run in (recorded, now))))


def _differences(place: str, recorded: Any, now: Any) -> Iterator[Difference]:
    if isinstance(recorded, Mapping) and isinstance(now, Mapping):
        for key in dict.fromkeys([*recorded, *now]):
            yield from _differences(f"{place}.{key}" if place else str(key), recorded.get(key), now.get(key))
    elif isinstance(recorded, list) and isinstance(now, list):
        for index in range(max(len(recorded), len(now))):
            pair = (each[index] if index < len(each) else None for each in (recorded, now))
            yield from _differences(f"{place}[{index}]", *pair)
    elif recorded != now:
        yield Difference(place, recorded, now)
