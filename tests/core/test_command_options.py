"""Options that commands share: the same letter means the same in all of them."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest
from astra_sim.command.cli import astra


def _commands(group: click.Group, context: click.Context, name: str) -> Iterator[tuple[str, click.Command]]:
    for each in group.list_commands(context):
        command = group.get_command(context, each)
        assert command is not None, each
        inner = click.Context(command, info_name=each, parent=context)
        yield f"{name}{each}", command
        if isinstance(command, click.Group):
            yield from _commands(command, inner, f"{name}{each} ")


COMMANDS = dict(_commands(astra, click.Context(astra), ""))
SHORT = {"--output": "-o"}
"""Short forms that every command with the option has."""


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_the_short_form_of_its_output(name: str) -> None:
    for parameter in COMMANDS[name].params:
        for long, short in SHORT.items():
            assert (long in parameter.opts) == (short in parameter.opts), f"astra {name}: {parameter.opts}"


def test_commands_of_plugins_are_among_them() -> None:
    assert {"run", "traffic", "systolic", "generate", "calibrate gemm", "calibrate collective", "memory", "sweep", "report"} <= set(
        COMMANDS
    )
