"""Which engine runs: the compiled one where its package goes with the kernel, that of a plugin where it is named, else the readable one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import astra_sim
import attrs
import pytest
from astra_sim import Provider, hookimpl
from astra_sim._version import VERSION
from astra_sim.engine.reference import ReferenceEngine
from astra_sim.setup import engines
from astra_sim.setup.engines import COMPILED, compiled_engine, engine_name, find_engine
from astra_sim.setup.plugins import Plugins
from support import figures

COLLECTIVE = "plugin:collective?bytes=1000"
RING = "plugin:ring?size=4&links=2&link_bandwidth_gib_per_s=50&link_latency_ns=500"


class Counted(ReferenceEngine):
    """The readable engine, which counts how often it is created."""

    created = 0

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        Counted.created += 1


class Plugin:
    """A third-party engine."""

    @hookimpl
    def astra_engines(self) -> list[Provider]:
        return [Provider("counted", "Counts", Counted)]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is warned of, each once."""
    warned: list[str] = []
    monkeypatch.setattr(engines, "_warn_once", lambda message: warned.append(message) if message not in warned else None)
    return warned


def plugins_with(**changes: Any) -> Plugins:
    """The installed plugins, with other facts about the package of the compiled engine."""
    plugins = Plugins()
    plugins.infos()
    plugins._modules.infos = [
        attrs.evolve(info, **changes) if info.distribution == "astra-sim-engine" else info for info in plugins._modules.infos
    ]
    return plugins


@pytest.mark.skipif(compiled_engine() is None, reason="the compiled engine is not installed")
def test_the_compiled_engine_is_the_default_and_the_same_object_each_time() -> None:
    assert find_engine() is find_engine(COMPILED) is compiled_engine()
    assert engine_name("auto", Plugins()) == "compiled"
    assert astra_sim.simulate(workload=COLLECTIVE, platform=RING).versions["engine"] == "compiled"
    assert astra_sim.simulate(workload=COLLECTIVE, platform=RING, engine="python").versions["engine"] == "python"


@pytest.mark.skipif(compiled_engine() is None, reason="the compiled engine is not installed")
def test_a_compiled_engine_of_another_version_is_left_out_with_one_warning(told: list[str]) -> None:
    other = plugins_with(version="0.1.0")
    assert find_engine("auto", other) is find_engine("auto", other) is ReferenceEngine
    assert engine_name("auto", other) == "python"
    expected = f"astra-sim-engine has version 0.1.0, and astra-sim-core {VERSION}; expected the same"
    assert told == [f"{expected}; the engine in Python runs instead, with the same results, slower"]
    with pytest.raises(astra_sim.PluginError, match=expected):
        find_engine(COMPILED, other)


def test_a_compiled_engine_that_cannot_be_imported_is_left_out_with_one_warning() -> None:
    code = (
        "import sys; sys.modules['astra_sim_engine._compiled'] = None; import astra_sim;"
        f"[print(astra_sim.simulate(workload={COLLECTIVE!r}, platform={RING!r}).versions['engine']) for _ in range(2)]"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["python", "python"]
    assert done.stderr.count("the engine in Python runs instead, with the same results, slower") == 1
    assert "Traceback" not in done.stderr


def test_an_engine_of_a_plugin_runs_where_it_is_named_alone() -> None:
    plugins = Plugins()
    plugins.register(Plugin(), "counting")
    expected = figures(astra_sim.simulate(workload=COLLECTIVE, platform=RING))
    Counted.created = 0
    assert figures(astra_sim.simulate(workload=COLLECTIVE, platform=RING, plugins=plugins)) == expected
    assert Counted.created == 0
    result = astra_sim.simulate(workload=COLLECTIVE, platform=RING, plugins=plugins, engine="counted")
    assert (figures(result), result.versions["engine"]) == (expected, "counted")
    assert Counted.created > 0
    with pytest.raises(astra_sim.InputError, match="expected auto, python, compiled or counted"):
        astra_sim.simulate(workload=COLLECTIVE, platform=RING, plugins=plugins, engine="fast")


KERNEL_ALONE = """
from astra_sim import Provider, hookimpl
from astra_sim.network import RouteDelayNetwork
from astra_sim_devkit.testing import bench


class Wire(RouteDelayNetwork):
    def route_delay(self, dimension, hops, size):
        return 1000 * hops + size


@hookimpl
def astra_networks():
    return [Provider("wire", "A wire", Wire)]


@hookimpl
def astra_systems():
    return [Provider("astra2", "Chunks of one phase", lambda context: bench.BenchSystem())]


@hookimpl
def astra_computes():
    return [Provider("recorded", "No time", bench.BenchCompute)]


@hookimpl
def astra_memories():
    return [Provider("local", "No time", bench.BenchMemory)]
"""


def test_the_kernel_runs_alone_with_a_network_of_a_few_lines(tmp_path: Path) -> None:
    """Every package of astra but the kernel is switched off; what remains comes from one file."""
    (tmp_path / "wire.py").write_text(KERNEL_ALONE)
    names = sorted({info.distribution for info in Plugins().infos() if info.distribution.startswith("astra-sim-")} - {"astra-sim-core"})
    code = f"""
import astra_sim
from astra_sim.graph import Communicate, ExecutionGraph, Pass
from astra_sim.platform import LogicalDimension
from astra_sim.schedule import Collective
from astra_sim_devkit.testing.bench import PLATFORM
astra_sim.use_plugins(*[f"no:{{name}}" for name in {names!r}], {str(tmp_path / "wire.py")!r})
sizes = [dimension.size for dimension in PLATFORM.dimensions]
dimensions = tuple(LogicalDimension(size, 1 if i == 0 else sizes[0], i) for i, size in enumerate(sizes))
graph = ExecutionGraph([Communicate((), Collective.ALL_REDUCE, 4096, (0,), -1, Pass.FORWARD)], dimensions, ())
result = astra_sim.simulate(workload=graph, platform=PLATFORM, network="plugin:wire", system="plugin:astra2",
                            compute="plugin:recorded", memory="plugin:local")
print(result.finish_ns, result.versions["engine"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    finish, engine = done.stdout.split()
    assert (float(finish) > 0, engine) == (True, "python")
