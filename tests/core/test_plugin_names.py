"""What plugins raise and how they name things: nothing that a plugin does ends a run silently or is silently skipped."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import astra_sim
import attrs
import pytest
from astra_sim import CollectiveProvider, InputWarning, PluginError, Provider, hookimpl
from astra_sim._boundary import call
from astra_sim.compute import Compute, Work
from astra_sim.network import EventNetwork, Message, RouteDelayNetwork
from astra_sim.platform import Dimension
from astra_sim.schedule import Request, Schedule, exchange, shift
from astra_sim.setup.known_components import BUILT_IN
from astra_sim.setup.plugins import Plugins
from support import ROOT, warm

RUN: dict[str, Any] = {
    "workload": "plugin:collective?bytes=4096",
    "platform": "plugin:ring?size=4&links=2&link_bandwidth_gb_per_s=1&link_latency_ns=100",
}
LAYERS = {"loop": "data", "layers": [{"name": "conv", "forward": {"compute_ns": 10}}]}


class Leaving(BaseException):
    """Neither an Exception nor SystemExit."""


def offering(name: str = "mine", plugins: Plugins | None = None, **hooks: Callable[[], Any]) -> Plugins:
    """The installed plugins and one with these hooks."""
    result = plugins or Plugins()
    functions = {f"astra_{hook}": staticmethod(hookimpl(function, specname=f"astra_{hook}")) for hook, function in hooks.items()}
    result.register(type("Mine", (), functions)(), name)
    return result


def leaves(error: BaseException) -> Callable[..., NoReturn]:
    def function(*_: object) -> NoReturn:
        raise error

    return function


# -- Plugins that try to leave -----------------------------------------------------------------------------------------

ERRORS = pytest.mark.parametrize("error", [SystemExit(0), SystemExit("bye"), Leaving("bye"), GeneratorExit()], ids=repr)


@ERRORS
def test_only_an_interrupt_passes_the_boundary(error: BaseException) -> None:
    with pytest.raises(PluginError, match=f"thing failed: {type(error).__name__}"):
        call("thing", leaves(error))
    with pytest.raises(KeyboardInterrupt):
        call("thing", leaves(KeyboardInterrupt()))


class Delays(RouteDelayNetwork):
    def __init__(self, platform: Any, error: BaseException) -> None:
        super().__init__(platform)
        self.route_delay = leaves(error)  # type: ignore[method-assign]

    def route_delay(self, dimension: int, hops: int, size: int) -> int:
        return 0


class Events(EventNetwork):
    def __init__(self, platform: Any, error: BaseException, where: str) -> None:
        super().__init__(platform)
        self._error, self._where = error, where
        self._numbers: list[int] = []
        self._time = 0

    def inject(self, time: int, messages: Any) -> None:
        self._time = time + 1000
        self._numbers += [message.number for message in messages if isinstance(message, Message)]
        self._leave("inject")

    def advance(self, until: int | None) -> tuple[int, list[int]] | None:
        self._leave("advance")
        numbers, self._numbers = self._numbers, []
        return (self._time, numbers) if numbers else None

    def statistics(self) -> dict[str, object]:
        self._leave("statistics")
        return {}

    def begin(self) -> int:
        self._leave("begin")
        return 0

    def _leave(self, where: str) -> None:
        if where == self._where:
            raise self._error


class Model(Compute):
    def __init__(self, error: BaseException) -> None:
        self._error = error

    def duration_ns(self, work: Work) -> float:
        raise self._error


@attrs.frozen
class Line:
    """A topology that raises where it is asked for hops."""

    error: BaseException
    name: str = "line"

    def hops(self, source: int, destination: int) -> int:
        raise self.error

    def is_symmetric(self, peer: object) -> bool:
        return False

    def links_per_message(self) -> int:
        return 1

    def links_per_npu(self) -> int:
        return 2


def choice(where: str, error: BaseException) -> dict[str, Any]:
    """The arguments of a run in which a plugin raises an error there."""
    mine = {"plugin": "mine"}
    if where in ("inject", "advance", "begin", "statistics"):
        return {**RUN, "network": mine, "plugins": offering(networks=lambda: [Provider("mine", "-", lambda p: Events(p, error, where))])}
    if where == "route_delay":
        return {**RUN, "network": mine, "plugins": offering(networks=lambda: [Provider("mine", "-", lambda p: Delays(p, error))])}
    if where == "network":
        return {**RUN, "network": mine, "plugins": offering(networks=lambda: [Provider("mine", "-", leaves(error))])}
    if where == "collective":
        return {
            **RUN,
            "set": ["system.all_reduce=mine"],
            "plugins": offering(collectives=lambda: [CollectiveProvider("mine", "-", leaves(error))]),
        }
    if where == "compute":
        plugins = offering(computes=lambda: [Provider("mine", "-", lambda: Model(error))])
        return {**RUN, "workload": LAYERS, "compute": mine, "plugins": plugins}
    plugins = offering(platforms=lambda: [Provider("mine", "-", lambda: [Dimension(Line(error), 4, 1, 1.0, 1.0)])])
    return {**RUN, "platform": mine, "plugins": plugins}


@ERRORS
@pytest.mark.parametrize("engine", ["python", "compiled"])
@pytest.mark.parametrize("where", ["network", "begin", "inject", "advance", "statistics", "route_delay", "collective", "compute", "hops"])
def test_a_plugin_that_tries_to_leave_is_an_error_that_names_it(where: str, engine: str, error: BaseException) -> None:
    with pytest.raises(PluginError, match=type(error).__name__):
        astra_sim.simulate(**choice(where, error), engine=engine)


# -- Installed plugins -------------------------------------------------------------------------------------------------

COLLECTIVE = """
from astra_sim import CollectiveProvider, hookimpl
from astra_sim.schedule import Schedule, exchange, shift


def once(request):
    return Schedule.shared(request, [exchange(shift(1), {size}, pieces=[("unnamed", 1e-9)])])


@hookimpl
def {hook}():
    return [CollectiveProvider("{name}", "One message", once)]
"""


@pytest.fixture
def install(tmp_path: Path) -> Callable[..., dict[str, str]]:
    """Installs packages with a module of this text each; returns the environment of a process that has them."""

    def make(**modules: str) -> dict[str, str]:
        for name, text in modules.items():
            (tmp_path / f"module_{name}.py").write_text(text)
            information = tmp_path / f"dist_{name}-0.1.dist-info"
            information.mkdir()
            (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: dist-{name}\nVersion: 0.1\n")
            (information / "entry_points.txt").write_text(f"[astra_sim]\n{name} = module_{name}\n")
        return {**os.environ, "PYTHONPATH": str(tmp_path)}

    return make


def astra(env: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([warm.astra(), *arguments], env=env, capture_output=True, text=True, check=False)


def collective(name: str, hook: str = "astra_collectives", size: int = 4096) -> str:
    return COLLECTIVE.format(name=name, hook=hook, size=size)


ARGUMENTS = tuple(word for kind, value in RUN.items() for word in (f"--{kind}", value))


@pytest.mark.parametrize("error", ["SystemExit(0)", "KeyError('x')", "type('Leaving', (BaseException,), {})('x')"])
def test_a_plugin_that_tries_to_leave_at_import_breaks_no_command(install: Callable[..., dict[str, str]], error: str) -> None:
    env = install(bad=f"raise {error}\n")
    for arguments in (("--help",), ("plugins",), (*ARGUMENTS, "--quiet")):
        done = astra(env, *arguments)
        assert (done.returncode, done.stderr) == (0, ""), arguments
    checked = astra(env, "plugins", "check", "bad")
    assert checked.returncode == 1
    assert error.partition("(")[0].replace("type", "Leaving") in checked.stdout


@pytest.mark.parametrize(("hook", "close"), [("astra_collective", "astra_collectives"), ("astra_network_backends", "astra_networks")])
def test_an_unknown_hook_is_told_at_once(install: Callable[..., dict[str, str]], hook: str, close: str) -> None:
    env = install(typo=collective("once", hook))
    done = astra(env, *ARGUMENTS, "--quiet")
    assert done.returncode == 0
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"astra: warning: plugin 'typo' of dist-typo: it implements the hook {hook}, which does not exist")
    assert close in done.stderr
    checked = astra(env, "plugins", "check", "typo")
    assert checked.returncode == 1
    assert f"FAILED plugin typo (dist-typo 0.1)\n       it implements the hook {hook}" in checked.stdout


def test_a_hook_that_is_not_marked_is_told_at_once(install: Callable[..., dict[str, str]]) -> None:
    env = install(plain=collective("once").replace("@hookimpl", ""))
    done = astra(env, *ARGUMENTS, "--quiet")
    assert "plugin 'plain' of dist-plain: its function astra_collectives is not marked with @hookimpl" in done.stderr
    assert astra(env, "plugins", "check", "plain").returncode == 1


def test_a_plugin_under_the_name_of_a_built_in_component_is_told_at_once(install: Callable[..., dict[str, str]]) -> None:
    plain = astra(dict(os.environ), *ARGUMENTS, "--json")
    env = install(aaa=collective("ring"))
    done = astra(env, *ARGUMENTS, "--json")
    text = "its collective 'ring' is already offered by collectives of astra-sim-collectives, which is used"
    assert done.stderr == f"astra: warning: plugin 'aaa' of dist-aaa: {text}\n"
    finish = json.loads(plain.stdout)["finish_ns"]
    assert json.loads(done.stdout)["finish_ns"] == finish
    finish = json.loads(astra(dict(os.environ), *ARGUMENTS, "--json", "--set", "system.all_reduce=ring").stdout)["finish_ns"]
    for distribution, same in (("astra-sim-collectives", True), ("dist-aaa", False), ("Dist_AAA", False), ("aaa", False)):
        chosen = astra(env, *ARGUMENTS, "--json", "--set", f"system.all_reduce=ring@{distribution}")
        assert (json.loads(chosen.stdout)["finish_ns"] == finish) is same
    for name in ("aaa", "ring"):
        checked = astra(env, "plugins", "check", name)
        assert checked.returncode == 1
        assert "collectives of astra-sim-collectives" in checked.stdout


def test_a_name_of_two_installed_plugins_must_be_chosen(install: Callable[..., dict[str, str]]) -> None:
    env = install(one=collective("once", size=100), two=collective("once", size=10_000))
    assert astra(env, *ARGUMENTS, "--quiet").stderr == ""
    done = astra(env, *ARGUMENTS, "--set", "system.all_reduce=once")
    assert (done.returncode, done.stdout) == (2, "")
    assert "collective 'once' is offered by one of dist-one and by two of dist-two" in done.stderr
    assert "choose plugin:once@dist-one or plugin:once@dist-two" in done.stderr
    times = [
        json.loads(astra(env, *ARGUMENTS, "--json", "--set", f"system.all_reduce=once@dist-{name}").stdout)["finish_ns"]
        for name in ("one", "two")
    ]
    assert times[0] < times[1]
    wrong = astra(env, *ARGUMENTS, "--set", "system.all_reduce=once@dist-three")
    assert wrong.returncode == 2
    assert "collective 'once' is not offered by 'dist-three'" in wrong.stderr
    assert astra(env, "plugins", "check", "once").returncode == 1
    assert astra(env, "plugins", "check", "two").returncode == 1


# -- Registered by hand ------------------------------------------------------------------------------------------------


def once(request: Request) -> Schedule:
    return Schedule.shared(request, [exchange(shift(1), 100)])


def test_plugins_registered_by_hand_are_chosen_by_their_name() -> None:
    plugins = offering("one", collectives=lambda: [CollectiveProvider("once", "-", once)])
    offering("two", plugins, collectives=lambda: [CollectiveProvider("once", "-", once)])
    with pytest.raises(PluginError, match="offered by one and by two; choose plugin:once@one or plugin:once@two"):
        plugins.get("collective", "once")
    assert plugins.get("collective", "once@two").name == "once"


def offers_nothing() -> list[CollectiveProvider]:
    return []


def test_a_warning_comes_once_in_a_process() -> None:
    plugins = Plugins()
    plugins.register(type("Mine", (), {"astra_collective": staticmethod(hookimpl(offers_nothing))})(), "mine")
    with pytest.warns(InputWarning, match="plugin 'mine': it implements the hook astra_collective, which does not exist"):
        astra_sim.simulate(**RUN, plugins=plugins)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        astra_sim.simulate(**RUN, plugins=plugins)


def test_a_plugin_that_offers_a_name_twice_is_reported() -> None:
    plugins = offering(collectives=lambda: [CollectiveProvider("once", "-", once), CollectiveProvider("once", "-", once)])
    (info,) = [info for info in plugins.infos() if info.error is not None]
    assert info.error == "it offers the collective 'once' twice; the first is used"
    assert plugins.get("collective", "once").name == "once"


def test_an_optional_hook_may_be_unknown() -> None:
    plugins = Plugins()
    plugins.register(type("Mine", (), {"astra_later": staticmethod(hookimpl(offers_nothing, optionalhook=True))})(), "mine")
    assert all(info.error is None for info in plugins.infos())


def test_built_in_distributions_are_those_of_this_repository() -> None:
    names = {tomllib.loads(path.read_text())["project"]["name"] for path in (ROOT / "plugins").glob("*/pyproject.toml")}
    assert names == BUILT_IN
