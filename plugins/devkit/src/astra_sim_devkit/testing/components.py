"""Checks that need no experiment: that a component loads, documents its options, and keeps the contract of its kind."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from astra_sim.errors import AstraError, PluginError
from astra_sim.experiments import SECTIONS
from astra_sim.options import describe_options
from astra_sim.providers import FileFormat, Provider, load

from astra_sim_devkit.testing.contracts import CONTRACTS, OptionsRefused, run_contract


def check_component(kind: str, component: Provider | FileFormat) -> str:
    """Check one component, with the defaults of its options and with the examples that it offers.

    Returns why its contract was not run, "" if it was. Raises an exception that describes the error.
    """
    if isinstance(component, FileFormat):
        _check_format(component)
        return ""
    if not component.summary:
        raise PluginError("it has no summary")
    required = []
    for option in describe_options(component.load_options()):
        if not option.help:
            raise PluginError(f"option {option.name} has no help text (make it with astra_sim.option)")
        if option.default == "required" and "." not in option.name:
            required.append(option.name)
    factory = component.load_factory()
    if kind == "command":
        _check_command(factory, component.name)
    if kind not in CONTRACTS:
        return ""
    with tempfile.TemporaryDirectory(prefix="astra-check-") as folder:
        examples = component.load_examples(Path(folder))
        for options in examples:
            _run(kind, component, options)
    if examples:
        return ""
    if required:
        return f"its contract was not run: {', '.join(required)} must be given, and it offers no examples"
    try:
        run_contract(kind, component, {})
    except OptionsRefused as error:
        return f"its contract was not run: {error}; it offers no examples"
    return ""


_OF_NOBODY = ("", "\n", "lorem ipsum dolor\n", "<nothing/>\n", "a,b\n1,2\n", "\x00\ufffd\x7f")
"""Texts that no format can tell from those of others."""


def _check_format(component: FileFormat) -> None:
    """Raise PluginError unless a file format loads, fills sections that there are, and leaves the files of others alone."""
    load(component.read, component.name)
    if not component.summary:
        raise PluginError("it has no summary")
    if not component.kinds or not set(component.kinds) <= set(SECTIONS):
        raise PluginError(f"its kinds are {component.kinds!r}; expected some of {', '.join(SECTIONS)}")
    for text in _OF_NOBODY:
        if component.is_of(text):
            raise PluginError(f"it recognises {'an empty text' if not text else repr(text)} as its own")


def _check_command(factory: object, name: str) -> None:
    """Raise PluginError unless this is a click command that can be asked for help."""
    if not isinstance(factory, click.Command):
        raise PluginError(f"it is {factory!r}, which is not a click command")
    from click.testing import CliRunner

    done = CliRunner().invoke(factory, ["--help"], prog_name=f"astra {name}")
    if done.exit_code:
        raise PluginError(f"--help ends with exit status {done.exit_code}: {done.output.strip() or done.exception}")


def _run(kind: str, component: Provider, options: Mapping[str, Any]) -> None:
    try:
        run_contract(kind, component, options)
    except AstraError as error:
        if not options:
            raise
        text = ", ".join(f"{key}={value}" for key, value in options.items())
        raise PluginError(f"with {text}: {error}") from None
