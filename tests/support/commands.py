"""The command `astra`, run in this process."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple

import pytest
from astra_sim.command.cli import astra
from astra_sim.errors import AstraError


class Done(NamedTuple):
    """What a command has printed, its error, and its status."""

    status: int
    out: str
    error: str


Astra = Callable[..., Done]


def command(capsys: pytest.CaptureFixture[str]) -> Astra:
    """A function that runs the command with arguments; what it raises is the error."""

    def run(*arguments: str) -> Done:
        capsys.readouterr()
        error, status = "", 0
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                astra.main(list(arguments), standalone_mode=False)
        except AstraError as raised:
            error, status = str(raised), raised.exit_status
        except SystemExit as stop:
            status = int(stop.code or 0)
        return Done(status, capsys.readouterr().out, error)

    return run


def commands_of(readme: str) -> list[str]:
    """The commands that the README of a plugin package shows for use."""
    section = readme.split("## Use\n")[1].split("\n## ", maxsplit=1)[0]
    return [line.strip() for line in section.splitlines() if line.startswith("    ")]
