"""The boundary to plugins: what they raise, and what they answer, becomes an error that names them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from astra_sim.errors import AstraError, InputError, PluginError, in_figures

MAX_PICOSECONDS = 2**63 - 1
"""Times are 64-bit numbers: a bit over 106 days."""

LONGEST_TIME = "9223372.036854775807 s (106.75 days)"
"""The same, as messages say it."""


class Lazily:
    """A text that is made only where it is needed: in the message of an error."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[[], str]) -> None:
        self._make = make

    def __str__(self) -> str:
        return self._make()


def call(what: str | Lazily, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a plugin's function. What it raises becomes a PluginError that begins with `what`.

    That holds for SystemExit too, which would end the run without a word. KeyboardInterrupt is the user's, and passes.
    """
    try:
        return function(*arguments)
    except (AstraError, MemoryError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise PluginError(f"{what} failed: {in_words(error)}") from error


@contextlib.contextmanager
def staying() -> Iterator[None]:
    """What plugin code raises to leave Python (SystemExit and others that are no Exception) becomes a PluginError with its place.

    This is for methods that are called too often, or in too many places, to `call` each. KeyboardInterrupt passes.
    """
    try:
        yield
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as error:
        import traceback

        frames = traceback.extract_tb(error.__traceback__)
        place = f" in {frames[-1].filename}, line {frames[-1].lineno}" if frames else ""
        raise PluginError(f"a plugin ended the run{place}: {in_words(error)}") from error


def in_words(error: BaseException) -> str:
    """What a plugin raised: its type and its message."""
    return f"{type(error).__name__}: {error}"


def in_seconds(ps: float) -> str:
    """A long time, in words."""
    return f"{in_figures(ps / 10**12 if isinstance(ps, float) else ps // 10**12)} s"


def picoseconds(value: Any, what: str | Lazily) -> int:
    """A time that `what` gave, as whole picoseconds. Raises PluginError if it is not a time, InputError if it is too long."""
    if type(value) is int and 0 <= value <= MAX_PICOSECONDS:
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
        raise PluginError(f"{what} is {value!r}; expected a time of at least 0")
    if value > MAX_PICOSECONDS:
        raise InputError(f"{what} is {in_seconds(value)}; at most {LONGEST_TIME} can be simulated")
    return round(value)
