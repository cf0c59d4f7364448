"""The boundary to plugins: what they raise, and what they answer, becomes an error that names them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from astra_sim.errors import AstraError, InputError, PluginError

MAX_PICOSECONDS = 2**63 - 1
"""Times are 64-bit numbers: a bit over 106 days."""


class Lazily:
    """A text that is made only where it is needed: in the message of an error."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[[], str]) -> None:
        self._make = make

    def __str__(self) -> str:
        return self._make()


def call(what: str | Lazily, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a plugin's function. What it raises becomes a PluginError that begins with `what`."""
    try:
        return function(*arguments)
    except (AstraError, MemoryError):
        raise
    except Exception as error:
        raise PluginError(f"{what} failed: {type(error).__name__}: {error}") from error


def picoseconds(value: Any, what: str | Lazily) -> int:
    """A time that `what` gave, as whole picoseconds. Raises PluginError if it is none, InputError if it is too long."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value) or value < 0:
        raise PluginError(f"{what} is {value!r}; a time of at least 0 is right")
    if value > MAX_PICOSECONDS:
        raise InputError(f"{what} is {float(value) / 1000:.3g} ns; at most {MAX_PICOSECONDS / 1000:.3g} ns can be simulated")
    return round(value)
