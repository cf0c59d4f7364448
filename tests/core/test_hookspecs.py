"""What the hook specifications say of factories is how they are called, and what docs/plugins.md says."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import astra_sim
import attrs
import click
import pytest
from astra_sim import CollectiveProvider, FileFormat, Provider, Result, SchedulerProvider, hookimpl, hookspecs, option
from astra_sim.command.cli import astra
from astra_sim.context import Context
from astra_sim.layers import LayeredProgram
from astra_sim.models import ModelDescription
from astra_sim.network import RouteDelayNetwork
from astra_sim.platform import Dimension, Platform
from astra_sim.records import ExplainedRun
from astra_sim.reports import ReportFolder
from astra_sim.schedule import Request
from astra_sim.setup.plugin_modules import KINDS
from astra_sim.setup.plugins import Plugins
from astra_sim.system import DimensionOrder
from astra_sim_devkit.testing.bench import PLATFORM, BenchCompute, BenchMemory, BenchNetwork, BenchSystem, pairwise
from astra_sim_goodput.placement import placed
from astra_sim_serving import serve
from astra_sim_serving.presets import Sarathi
from click.testing import CliRunner
from support import ROOT


@attrs.frozen
class Options:
    """Options of a component of the test."""

    number: int = option(7, help="a number")


ARGUMENTS = {
    "options": Options,
    "context": Context,
    "program": LayeredProgram,
    "request": Request,
    "platform": Platform,
    "results": list,
    "folder": ReportFolder,
    "run": ExplainedRun,
    "result": Result,
}
"""What the arguments of factories are, by their names in the specifications."""


class Ascending(DimensionOrder):
    """All that is left, through all dimensions from first to last."""

    def chunk(
        self, collective: object, rest: int, size: int, dimensions: Sequence[object], usable: Sequence[bool]
    ) -> tuple[int, Sequence[int]]:
        return min(rest, size), range(len(dimensions))


class Nothing:
    """An explanation that says nothing."""

    def to_dict(self) -> dict[str, Any]:
        return {}

    def show(self, screen: object) -> None:
        pass


def workload(context: Context) -> Any:
    program = LayeredProgram([], context, "test")
    return program.build()


def dimensions() -> list[Dimension]:
    return list(PLATFORM.dimensions)


MAKERS: dict[str, Callable[..., Any]] = {
    "workload": workload,
    "training_loop": lambda program: None,
    "system": lambda context: BenchSystem(),
    "collective": pairwise,
    "queue scheduler": lambda: lambda jobs, started, job: len(jobs),
    "dimension scheduler": lambda platform: Ascending(),
    "platform": dimensions,
    "network": BenchNetwork,
    "compute": BenchCompute,
    "memory": BenchMemory,
    "report": lambda results, folder: None,
    "model": lambda: ModelDescription(layers=1, hidden=8, heads=1, vocab=16),
    "serving_policy": Sarathi,
    "explainer": lambda run: Nothing(),
    "account": lambda result, platform: {"paid": 1},
    "variation": lambda platform: lambda started: started.duration_ps,
    "placement": lambda: lambda free, count: free[:count],
}
"""Working components, made without options."""


class Recorded:
    """Plugins with a component of each kind, and what their factories were called with."""

    def __init__(self, options: type | None) -> None:
        self.calls: dict[str, tuple[Any, ...]] = {}
        self.plugins = Plugins()
        providers: dict[str, list[Any]] = {
            kind: [Provider("probe", "test", self._factory(kind), options)] for kind in MAKERS if kind in KINDS
        }
        providers["collective"] = [CollectiveProvider("probe", "test", self._factory("collective"), options)]
        providers["scheduler"] = [
            SchedulerProvider(f"probe_{orders}", "test", self._factory(kind), options, orders=orders)
            for kind, orders in (("queue scheduler", "queue"), ("dimension scheduler", "dimensions"))
        ]
        hooks = {KINDS[kind]: self._hook(offered) for kind, offered in providers.items()}
        self.plugins.register(SimpleNamespace(**hooks), "probe")

    def _hook(self, offered: list[Any]) -> Callable[[], list[Any]]:
        return hookimpl(lambda: offered)

    def _factory(self, kind: str) -> Callable[..., Any]:
        def factory(*arguments: Any) -> Any:
            self.calls[kind] = arguments
            return MAKERS[kind](*(argument for argument in arguments if not isinstance(argument, Options)))

        return factory

    def run(self) -> None:
        """Simulate with all of them: once with our own workload and system layer, which call some, and once with theirs."""
        models: Mapping[str, Any] = dict.fromkeys(("platform", "network", "compute", "memory"), "plugin:probe")
        system = {
            "plugin": "astra1",
            "all_reduce": "probe",
            "intra_dimension_scheduling": "probe_queue",
            "inter_dimension_scheduling": "probe_dimensions",
        }
        astra_sim.simulate(workload="plugin:collective?bytes=4096", system=system, plugins=self.plugins, **models)
        layers = {"plugin": "layers", "loop": "probe", "layers": [{"name": "dense"}]}
        astra_sim.simulate(workload=layers, system="plugin:probe", plugins=self.plugins, **models)
        experiment = astra_sim.Experiment(plugin_sections={"probe": {}})
        probes = {"workload": "plugin:probe", "system": "plugin:probe", **models}
        result = astra_sim.simulate(experiment, explain="plugin:probe", plugins=self.plugins, **probes)
        with tempfile.TemporaryDirectory() as folder:
            astra_sim.write_reports(result, folder, reports=("probe",), plugins=self.plugins)
        placed("probe", 1, [0], "here", self.plugins)
        requests = {"count": 1, "rate": 1.0, "input": 4, "output": 2}
        serving = {"engine": "probe", "kv_blocks": 8, "model": {"name": "probe"}, "requests": requests}
        serve({"serving": serving, "compute": {"plugin": "gpu", "device": "h100"}}, plugins=self.plugins)


@pytest.fixture(scope="module", params=[Options, None], ids=["options", "no options"])
def recorded(request: pytest.FixtureRequest) -> Recorded:
    result = Recorded(request.param)
    result.run()
    return result


def specification(hook: str) -> str:
    """The docstring of a hook, in one line."""
    return " ".join((getattr(hookspecs, hook).__doc__ or "").split())


def signatures(hook: str) -> list[str]:
    """The arguments and answers of a hook's factories, as its docstring gives them."""
    return re.findall(r"factory(\([^)]*\)(?: -> \w+(?: (?:of|or) \w+)*)?)", specification(hook))


def arguments_of(signature: str, with_options: bool) -> list[type]:
    names = re.findall(r"\w+", signature.partition(")")[0])
    return [ARGUMENTS[name] for name in names if with_options or name != "options"]


def hook_of(kind: str) -> str:
    return KINDS[kind.rpartition(" ")[2]]


@pytest.mark.parametrize("kind", list(MAKERS))
def test_factories_are_called_as_their_hook_says(recorded: Recorded, kind: str) -> None:
    offered = signatures(hook_of(kind))
    signature = offered[kind == "dimension scheduler"]
    result = recorded.calls[kind]
    with_options = any(isinstance(argument, Options) for argument in result)
    assert "options" in signature
    assert [type(argument) for argument in result] == arguments_of(signature, with_options)


def test_options_are_given_where_there_are_some_and_left_out_where_there_are_none() -> None:
    for options in (Options, None):
        result = Recorded(options)
        result.run()
        assert set(result.calls) == set(MAKERS)
        for results in result.calls.values():
            assert [argument for argument in results if isinstance(argument, Options)] == ([] if options is None else [Options()])


def test_every_hook_with_a_factory_is_tried_here() -> None:
    with_factory = {kind for kind, hook in KINDS.items() if signatures(hook)}
    assert with_factory == {kind.rpartition(" ")[2] for kind in MAKERS}
    assert len(signatures("astra_schedulers")) == 2
    assert set(KINDS.values()) == {name for name in vars(hookspecs) if name.startswith("astra_")}


def test_what_a_network_may_be_is_what_the_kernel_takes() -> None:
    answer = signatures("astra_networks")[0].partition(" -> ")[2]
    assert re.findall(r"\w+Network", answer) == ["RouteDelayNetwork", "EventNetwork"]
    assert issubclass(BenchNetwork, RouteDelayNetwork)


def test_formats_are_called_as_their_hook_says() -> None:
    calls = []

    def recognises(*arguments: Any) -> bool:
        calls.append(("recognises", arguments))
        return True

    def read(*arguments: Any) -> dict[str, Any]:
        calls.append(("read", arguments))
        return {}

    file_format = FileFormat("probe", "test", ("workload",), recognises, read)
    file_format.is_of("the text")
    file_format.tables("the text", "the path")
    result = {"text": "the text", "path": "the path"}
    matches = re.findall(r"(recognises|read)\(([^)]*)\)", specification("astra_formats"))
    assert calls == [(name, tuple(result[argument] for argument in names.split(", "))) for name, names in matches]


def test_the_factory_of_a_command_is_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "a click command" in specification("astra_commands")
    plugins = Plugins()
    command = click.Command("probe", callback=lambda: click.echo("it runs"))
    plugins.register(SimpleNamespace(astra_commands=hookimpl(lambda: [Provider("probe", "test", command)])), "probe")
    monkeypatch.setattr("astra_sim.setup.plugins.shared_plugins", lambda: plugins)
    assert CliRunner().invoke(astra, ["probe"]).output == "it runs\n"


@pytest.mark.parametrize("kind", list(KINDS))
def test_the_documentation_says_the_same(kind: str) -> None:
    page = (ROOT / "docs" / "plugins.md").read_text()
    rows = [line.split("|") for line in page.splitlines() if line.startswith(f"| `{KINDS[kind]}`")]
    assert len(rows) == 1
    assert re.findall(r"`(\([^`]*)`", rows[0][3]) == signatures(KINDS[kind])
