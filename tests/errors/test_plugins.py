"""Plugins that cannot be used."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import astra_sim
import attrs
import pytest
from astra_sim import (
    AstraError,
    CollectiveProvider,
    FileFormat,
    InputError,
    PluginError,
    Provider,
)
from astra_sim.options import option

from errors.inputs import CHOSEN_BY, COMPONENTS, Recorded, Words, cases, choosing, holds, mine, offering, raises

HOOKS = (*COMPONENTS.values(), *CHOSEN_BY, "formats", "commands")


@pytest.mark.parametrize("hook", HOOKS)
@cases(
    {
        "raises": (raises(RuntimeError("no luck")), "RuntimeError", "no luck"),
        "answers nothing": (lambda: None, "None"),
        "answers a number in a list": (lambda: [3], "3"),
    }
)
def test_a_hook_that_fails_is_reported_and_stops_nobody(inputs: dict[str, Any], hook: str, given: Callable[[], Any], words: Words) -> None:
    plugins = offering(**{hook: given})
    assert astra_sim.simulate(**inputs, plugins=plugins).finish_ns == 24896
    (info,) = [info for info in plugins.infos() if info.error is not None]
    assert info.name == "mine"
    holds(info.error or "", [f"astra_{hook}", *words])


@pytest.mark.parametrize("hook", [*COMPONENTS.values(), *CHOSEN_BY])
@pytest.mark.parametrize(
    "reference", ["nosuchmodule:thing", "os:nosuchthing", "os", "", ":", "os:name", "os:"], ids=lambda text: f"<{text}>"
)
def test_a_factory_that_cannot_be_loaded_is_named(inputs: dict[str, Any], hook: str, reference: str) -> None:
    provider = CollectiveProvider if hook == "collectives" else Provider
    plugins = offering(**{hook: lambda: [provider("mine", "A component of the tests", reference)]})
    with pytest.raises(PluginError, match="mine"):
        astra_sim.simulate(**choosing(inputs, hook), plugins=plugins)


@pytest.mark.parametrize("hook", [*COMPONENTS.values(), *CHOSEN_BY])
@pytest.mark.parametrize("error", [RuntimeError("no luck"), ImportError("no luck"), ValueError("no luck"), KeyError("no luck")], ids=repr)
def test_a_factory_that_fails_is_named_with_its_error(inputs: dict[str, Any], hook: str, error: Exception) -> None:
    plugins = offering(**{hook: lambda: mine(raises(error))})
    with pytest.raises(PluginError) as caught:
        astra_sim.simulate(**choosing(inputs, hook), plugins=plugins)
    holds(str(caught.value), ["mine", type(error).__name__, "no luck"])


@pytest.mark.parametrize("hook", [*COMPONENTS.values(), "collectives", "schedulers"])
@pytest.mark.parametrize("answer", [None, 3, [3], "x"], ids=repr)
def test_a_factory_that_makes_something_else_is_named(inputs: dict[str, Any], hook: str, answer: Any) -> None:
    plugins = offering(**{hook: lambda: mine(lambda *_: answer)})
    with pytest.raises(InputError, match="mine"):
        astra_sim.simulate(**choosing(inputs, hook), plugins=plugins)


@attrs.frozen
class Options:
    """Options of a component of the tests."""

    size: int = option(help="a size")


@cases(
    {
        "that cannot be loaded": ("nosuchmodule:Options", "nosuchmodule"),
        "that are a number": (3, "mine"),
        "that are no attrs class": (int, "mine"),
        "that are a function": (raises(RuntimeError("no luck")), "mine"),
        "of which one is missing": (Options, "size", "missing"),
    }
)
def test_options_of_a_plugin_that_cannot_be_used_are_named(inputs: dict[str, Any], given: Any, words: Words) -> None:
    plugins = offering(computes=lambda: mine(lambda _: Recorded(0), given))
    with pytest.raises(InputError) as caught:
        astra_sim.simulate(**inputs, compute="plugin:mine", plugins=plugins)
    holds(str(caught.value), words)


@cases(
    {
        "recognises raises": ((raises(RuntimeError("no luck")), raises(RuntimeError("no luck"))), "no luck"),
        "recognises cannot be loaded": (("nosuchmodule:a", "nosuchmodule:b"), "nosuchmodule"),
        "read raises": ((lambda text: True, raises(RuntimeError("no luck"))), "no luck"),
        "read answers nothing": ((lambda text: True, lambda text, path: None), "None"),
        "read answers no table of sections": ((lambda text: True, lambda text, path: {"network": 3}), "3"),
        "read answers other sections": ((lambda text: True, lambda text, path: {"colour": {}}), "colour"),
    }
)
@pytest.mark.parametrize("kind", ["network", "platform"])
def test_a_file_format_that_fails_is_named(inputs: dict[str, Any], kind: str, given: tuple[Any, Any], words: Words) -> None:
    recognises, read = given
    plugins = offering(formats=lambda: [FileFormat("aaa", "A format of the tests", ("network", "platform"), recognises, read)])
    arguments = {**inputs, "network": "plugin:analytical", "platform": "n.json"} if kind == "platform" else inputs
    Path("n.json").write_text("in a format of the tests")
    with pytest.raises(AstraError) as caught:
        astra_sim.simulate(**arguments, plugins=plugins)
    holds(str(caught.value), ["aaa", *words])


def test_a_plugin_registered_with_a_hook_of_other_arguments_is_refused() -> None:
    wrong: Any = lambda size: []  # noqa: E731
    with pytest.raises(PluginError, match="mine"):
        offering(computes=wrong)
