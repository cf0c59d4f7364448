"""Options as programs of ASTRA-sim take them: `--name=value` or `--name value`; of some any number of values."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import Any, NoReturn

from astra_sim import InputError
from astra_sim.errors import suggestion, warn


class UsageError(InputError):
    """Options of a program are wrong."""


class Arguments(argparse.ArgumentParser):
    """The options of a program. An error among them is a UsageError."""

    def __init__(self, name: str, description: str) -> None:
        super().__init__(name, description=description, allow_abbrev=False)

    def text(self, name: str, words: str, default: str | None = None) -> None:
        """An option of text; without a default it must be given."""
        self.add_argument(f"--{name}", metavar="TEXT", help=words, required=default is None, default=default)

    def number(self, name: str, words: str, default: float) -> None:
        """An option that is a number: an integer if the default is."""
        self.add_argument(f"--{name}", metavar="N", type=type(default), help=f"{words} ({default})", default=default)

    def numbers(self, name: str, words: str, kind: type[int] | type[float]) -> None:
        """An option of several numbers, one for each dimension."""
        self.add_argument(f"--{name}", metavar="N", type=kind, nargs="+", help=words)

    def switch(self, name: str, words: str) -> None:
        """An option that is true or false; without a value it is true."""
        self.add_argument(f"--{name}", metavar="true|false", type=_boolean, nargs="?", const=True, default=False, help=words)

    def error(self, message: str) -> NoReturn:
        """Raise the error."""
        raise UsageError(f"{message}; --help lists the options")

    def known(self, argv: Sequence[str]) -> dict[str, Any]:
        """The values of options by name; a warning names unknown options, which ASTRA-sim skips. Raises UsageError."""
        values, others = self.parse_known_args(argv)
        for other in others:
            name = other.partition("=")[0]
            near = suggestion(name, self._option_string_actions) if other.startswith("--") else "--help lists the options"
            warn(f"{other} is no option, and has no effect; {near}")
        return vars(values)

    def all(self, argv: Sequence[str]) -> dict[str, Any]:
        """The values of options by name. Raises UsageError if something is no option."""
        values, others = self.parse_known_args(argv)
        if others:
            raise UsageError(f"unrecognised option {others[0]!r}; {suggestion(others[0].partition('=')[0], self._option_string_actions)}")
        return vars(values)


_TRUE, _FALSE = ("1", "t", "true", "on", "yes"), ("0", "f", "false", "off", "no")


def _boolean(text: str) -> bool:
    if text.lower() not in (*_TRUE, *_FALSE):
        raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
    return text.lower() in _TRUE


def check_scale(name: str, value: float) -> None:
    """Warn that a scale has no effect, as in ASTRA-sim 2.x."""
    if value != 1:
        warn(f"--{name} is {value:g}, and has no effect: ASTRA-sim 2.x scales nothing by it; `astra run --{name}` does")


def existing_file(name: str, path: str) -> str:
    """The path of a file that an option names. Raises InputError if there is none; an unset variable of a script leaves it empty."""
    if not path:
        raise InputError(f"--{name} is empty; expected the path of a file")
    if not os.path.isfile(path):
        raise InputError(f"--{name} is {path}; there is no such file")
    return path
