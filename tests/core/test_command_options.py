"""Options that commands share: the same letter means the same in all of them."""

from __future__ import annotations

import inspect
import shlex
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


def _examples() -> Iterator[str]:
    """The command lines that help texts show."""
    for command in (astra, *COMMANDS.values()):
        text = inspect.cleandoc(command.help or "").replace("\\\n", " ")
        lines = [line.strip() for line in text.splitlines()]
        for line in lines:
            yield from (part.strip() for part in line.split("&&") if line.startswith("astra "))


EXAMPLES = sorted(set(_examples()))


def test_help_texts_have_examples() -> None:
    assert {"astra experiment.toml", "astra memory gpt3.toml --search", "astra server bash"} <= set(EXAMPLES)


@pytest.mark.parametrize("line", EXAMPLES)
def test_examples_of_help_texts_have_options_of_their_commands(line: str) -> None:
    """The command parses the words of an example, as far as that needs no files."""
    words = shlex.split(line)[1:]
    command: click.Command = astra
    context = click.Context(astra, info_name="astra")
    while isinstance(command, click.Group):
        named = command.get_command(context, words[0])
        inner = named or command.get_command(context, "run")  # the default command
        assert inner is not None
        words = words[1:] if named else words
        command, context = inner, click.Context(inner, parent=context)
    _, arguments, _ = command.make_parser(context).parse_args(words)
    assert "--" in words or not [word for word in arguments if word.startswith("-")]
