"""What is kept from run to run, and how it is forgotten; runs that differ in one input each."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator, Mapping
from typing import Any
from weakref import WeakKeyDictionary

import attrs


def forget() -> None:
    """Forget what earlier runs have left behind: stores of limited size, and dictionaries that modules fill (names in small letters)."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0].startswith("astra_sim"):
            for what, value in list(vars(module).items()):
                if isinstance(value, functools._lru_cache_wrapper):
                    if value.cache_parameters()["maxsize"] is not None:
                        value.cache_clear()
                elif what.startswith("_") and not what.startswith("__") and not what.isupper():
                    _empty(value)


def _empty(store: Any) -> None:
    """Empty a dictionary, or those of an object of ours that holds some."""
    if isinstance(store, (dict, WeakKeyDictionary)):
        store.clear()
    elif not isinstance(store, type) and type(store).__module__.startswith("astra_sim"):
        for held in vars(store).values() if hasattr(store, "__dict__") else ():
            if isinstance(held, dict):
                held.clear()


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
