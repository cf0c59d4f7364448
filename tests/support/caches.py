"""Runs that differ in one input each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

NAMES = ("direct", "ring", "fifo", "lifo", "round_robin", "ascending")
"""Values for options that are texts: names of algorithms and orders, one of which may be right."""


def other_values(field: Any, value: Any) -> list[Any]:
    """Values of an option other than the one it has; some may be wrong."""
    choices = field.metadata.get("choices")
    if choices:
        return [str(each) for each in choices if each != value][:2]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, (int, float)):
        return [value * 2 + 1, value / 2 if isinstance(value, float) else value + 1]
    if isinstance(value, str) or value is None:
        return [*NAMES, *((2, 3.5, True) if value is None else ())]
    return []


def changes(cls: type | None, given: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Each option of a class with each of its other values, where `given` are those that are not the defaults."""
    for field in attrs.fields(cls) if cls is not None else ():
        default = field.default.factory() if isinstance(field.default, attrs.Factory) else field.default  # type: ignore[arg-type]
        for value in other_values(field, given.get(field.name, None if default is attrs.NOTHING else default)):
            yield field.name, value
