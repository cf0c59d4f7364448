"""Commands of astra that do the work of programs."""

from __future__ import annotations

import click
from astra_sim import InputError
from astra_sim.commands import shared_plugins


def run_command(name: str, command: str, *arguments: str) -> None:
    """Run a command of astra in the name of a program. Raises AstraError, also if no installed plugin has it."""
    try:
        shared_plugins().get("command", command).load_factory().main(list(arguments), name, standalone_mode=False)
    except click.ClickException as error:
        raise InputError(error.format_message()) from None
