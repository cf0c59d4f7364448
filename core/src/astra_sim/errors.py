"""All errors that an input can cause. They derive from `AstraError`; no other exception should reach a user.

Example:

    >>> from astra_sim import simulate
    >>> from astra_sim.errors import AstraError, InputError, suggestion
    >>> try:
    ...     simulate(platform="plugin:rign?size=8", workload="plugin:collective?bytes=1MiB")
    ... except InputError as error:
    ...     print(error.exit_status, isinstance(error, AstraError))
    2 True
    >>> f"collective rign is unknown; {suggestion('rign', ['ring', 'direct'])}"
    "collective rign is unknown; did you mean 'ring'?"

The other errors, by who has to act: an author of a plugin, of an algorithm, or the user:

    >>> from astra_sim.errors import CapacityError, DeadlockError, PluginError, RunError, ScheduleError
    >>> [issubclass(each, AstraError) for each in (PluginError, ScheduleError, RunError)]
    [True, True, True]
    >>> issubclass(CapacityError, InputError), issubclass(DeadlockError, RunError)
    (True, True)

What has no effect is a warning:

    >>> import warnings
    >>> from astra_sim.errors import InputWarning, warn
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn("system.toml: active-chunks has no effect")
    >>> caught[0].category is InputWarning, str(caught[0].message)
    (True, 'system.toml: active-chunks has no effect')
"""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Collection, Iterable, Iterator
from typing import Any

__all__ = [
    "AstraError",
    "CapacityError",
    "DeadlockError",
    "InputError",
    "InputWarning",
    "PluginError",
    "RunError",
    "ScheduleError",
    "suggestion",
    "warn",
]

STATUS_INTERRUPTED = 130
"""Exit status of the command after Ctrl-C, as shells count it."""

_LONGEST_MESSAGE = 1200


def shortened(message: str) -> str:
    """A message; if it is very long, without its middle."""
    half = _LONGEST_MESSAGE // 2
    return message if len(message) <= _LONGEST_MESSAGE else f"{message[:half]} ... {message[-half:]}"


def printable(text: str) -> str:
    """A text with control characters escaped, which a terminal would obey or cannot show; line ends stay."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() or letter in "\n\u00a0" else repr(letter)[1:-1] for letter in text)


def in_figures(number: float) -> str:
    """A number for a message: rounded to six digits if it has many, whatever its size."""
    if isinstance(number, int) and abs(number) >= 10**300:
        return f"{'-' if number < 0 else ''}10^{math.log10(abs(number)):.0f}"
    return str(number) if isinstance(number, int) and abs(number) < 10**15 else f"{number:.6g}"


class AstraError(Exception):
    """Base class of all errors that `astra_sim` raises on purpose. `exit_status` is that of the command line."""

    exit_status = 1

    def __init__(self, message: str) -> None:
        super().__init__(shortened(printable(shortened(message))))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy without `__init__`, whose arguments differ from class to class."""
        return _restored, (type(self), self.args, dict(vars(self)))


class InputError(AstraError):
    """An input is wrong: a file, key, line or option, which the message names with its value. Exit status 2."""

    exit_status = 2


class PluginError(InputError):
    """A plugin is unknown, broken, or breaks its contract. Exit status 2."""


class ScheduleError(InputError):
    """A collective algorithm cannot serve a request, or its schedule contradicts itself. Exit status 2."""


class CapacityError(InputError):
    """A model does not fit the memory of an NPU: it needs `needed_bytes`, and there are `capacity_bytes`. Exit status 2."""

    def __init__(self, message: str, needed_bytes: float, capacity_bytes: float) -> None:
        super().__init__(message)
        self.needed_bytes = needed_bytes
        self.capacity_bytes = capacity_bytes


class InputWarning(UserWarning):
    """A part of an input has no effect."""


def warn(message: str) -> None:
    """Say that something in an input has no effect: an InputWarning, a line on standard error from the command line."""
    warnings.warn(printable(message), InputWarning, stacklevel=2)


class RunError(AstraError):
    """A run failed. Exit status 1."""


class DeadlockError(RunError):
    """A run cannot finish. The message lists who waits for whom; `waiting` holds the first `MOST_LINES` of these, a line each."""

    MOST_LINES = 1000

    def __init__(self, message: str, waiting: list[str]) -> None:
        super().__init__(message)
        self.waiting = [printable(line) for line in waiting[: self.MOST_LINES]]


def _restored(cls: type[AstraError], arguments: tuple[Any, ...], attributes: dict[str, Any]) -> AstraError:
    """An error of a class, without its `__init__`."""
    error = cls.__new__(cls, *arguments)
    vars(error).update(attributes)
    return error


def suggestion(word: object, known: Iterable[str]) -> str:
    """A hint for a misspelt `word`: the closest known name, or all of them."""
    import difflib

    names = sorted(known)
    word = str(word)
    close = difflib.get_close_matches(word[:100], names, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"known: {', '.join(names) or 'none'}"


def warn_of_unknown(where: str, keys: Iterable[object], known: Collection[str]) -> None:
    """Warn of each key of a file of another program that is not `known`, with the known name that is closest to it."""
    for key in keys:
        if key not in known:
            hint = suggestion(key, known)
            warn(f"{where}: {key!s:.80} is not known, and has no effect{f'; {hint}' if hint.startswith('did') else ''}")


def located(error: AstraError, where: str) -> AstraError:
    """The error with its place in front of the message, unless it names the place already."""
    if not isinstance(error, InputError) or str(error).startswith(printable(where)):
        return error
    return reworded(error, f"{where}: {error}")


@contextlib.contextmanager
def locating(where: str) -> Iterator[None]:
    """Within the block, an InputError gets its place in front of the message, unless it names it already."""
    try:
        yield
    except AstraError as error:
        raise located(error, where) from None


def reworded(error: AstraError, message: str) -> AstraError:
    """The error with another message."""
    return _restored(type(error), InputError(message).args, dict(vars(error)))
