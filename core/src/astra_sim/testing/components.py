"""Checks that need no experiment: that a component loads, documents its options, and keeps the contract of its kind."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from astra_sim.errors import AstraError, PluginError
from astra_sim.options import describe_options
from astra_sim.providers import FileFormat, Provider, load
from astra_sim.testing.contracts import CONTRACTS, OptionsRefused, run_contract


def check_component(kind: str, component: Provider | FileFormat) -> str:
    """Check one component, with the defaults of its options and with the examples that it offers.

    Returns why its contract was not run, "" where it was. Raises an exception that says what is wrong.
    """
    if isinstance(component, FileFormat):
        load(component.read, component.name)
        if component.is_of(""):
            raise PluginError("it recognises an empty text as its own")
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
    if kind == "command" and not isinstance(factory, click.Command):
        raise PluginError(f"it is {factory!r}, which is not a click command")
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


def _run(kind: str, component: Provider, options: Mapping[str, Any]) -> None:
    try:
        run_contract(kind, component, options)
    except AstraError as error:
        if not options:
            raise
        given = ", ".join(f"{key}={value}" for key, value in options.items())
        raise PluginError(f"with {given}: {error}") from None
