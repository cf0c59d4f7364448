"""What is kept from run to run changes no figure, and does not grow; what may change is not kept."""

from __future__ import annotations

import gc
import json
import pickle
import subprocess
import sys
import weakref
from collections import Counter
from collections.abc import Sequence
from typing import Any

import astra_sim
import attrs
import pytest
from astra_sim import CollectiveProvider, InputError, Provider, hookimpl, options
from astra_sim.engine import has_compiled
from astra_sim.graph import Communicate, Compute, ExecutionGraph, Pass
from astra_sim.layers import LayeredProgram
from astra_sim.platform import Dimension, LogicalDimension, Platform
from astra_sim.report import result as result_module
from astra_sim.report.audit import Finding, audit
from astra_sim.schedule import Request, Schedule
from astra_sim.setup.plugins import Plugins
from astra_sim.system import ChunkPlan, SystemSession
from astra_sim.testing.bench import BenchMemory, BenchSystem, pairwise
from astra_sim_network_analytical.topologies import Ring
from astra_sim_systems import kept_plans
from support import ROOT, figures

VGG16 = str(ROOT / "examples" / "vgg16_dgx2_pod.toml")
RING = "plugin:ring?size=4&links=2&link_bandwidth_gb_per_s=1&link_latency_ns={}"
COLLECTIVE = "plugin:collective?bytes=65536"

CHANGES: list[dict[str, Any]] = [
    {},
    {"set": ["platform.dimensions.0.link_latency_ns=777"]},
    {"set": ["platform.dimensions.1.router_latency_ns=99"]},
    {"compute_scale": 0.7},
    {"comm_scale": 1.5},
    {"passes": 2},
    {"rendezvous": True},
    {"injection_scale": 3.0},
    {"queues_per_dim": 2},
    {"set": ["system.splits=3"]},
    {"set": ["system.endpoint_delay_ns=50"]},
    {"set": ["system.all_reduce=ring"]},
    {"set": ["network.rounding=picosecond"]},
    {"memory": "plugin:local?latency_ns=40&bandwidth_bytes_per_ns=10"},
    {"system": "plugin:astra2?local_memory_gb_per_s=3"},
    {"system": "plugin:astra2?local_memory_gb_per_s=5"},
    {"set": ["workload.loop=model"]},
    {"set": ["workload.layers.3.weight_gradient.collective_bytes=123456"]},
    {"set": ["workload.single_precision=true"]},
    {"engine": "python", "compute_scale": 0.9},
]
"""Runs that differ in one thing each, so that what one leaves behind would show in another."""

ALL = """
import json, sys
import astra_sim
sys.path.insert(0, sys.argv[1])
from support import figures
from test_kept import CHANGES, VGG16
print(json.dumps([figures(astra_sim.simulate(VGG16, **change)) for change in reversed(CHANGES)][::-1]))
"""


def test_figures_do_not_depend_on_the_runs_before() -> None:
    folder = str(ROOT / "tests")
    done = subprocess.run([sys.executable, "-c", ALL, folder], capture_output=True, text=True, check=True)
    there = json.loads(done.stdout)
    for _ in range(2):
        here = [figures(astra_sim.simulate(VGG16, **change)) for change in CHANGES]
        assert json.loads(json.dumps(here)) == there
    assert len({json.dumps(each) for each in there}) > len(CHANGES) - 3


def test_a_wrong_value_that_equals_a_right_one_is_still_wrong() -> None:
    platform = {"dimensions": [{"topology": "ring", "size": 4, "links": 2, "link_bandwidth_gb_per_s": 1, "link_latency_ns": 1}]}
    astra_sim.simulate(workload=COLLECTIVE, platform=platform)
    platform["dimensions"][0]["link_latency_ns"] = True
    with pytest.raises(InputError, match="True is not a finite number"):
        astra_sim.simulate(workload=COLLECTIVE, platform=platform)


def test_options_stay_as_they_were_typed() -> None:
    for latency, kept in (("1", 1), ("1.0", 1.0)):
        experiment = astra_sim.simulate(workload=COLLECTIVE, platform=RING.format(latency)).experiment
        assert repr(experiment["platform"]["link_latency_ns"]) == repr(kept)


class _Slowed:
    """A collective `slowed` in which ranks compute so long on every message (picoseconds)."""

    def __init__(self, compute_ps: int) -> None:
        self._compute_ps = compute_ps

    def _make(self, request: Request) -> Schedule:
        steps = pairwise(request).programs[0].steps
        return Schedule.shared(request, [attrs.evolve(step, compute_ps=self._compute_ps) for step in steps])

    @hookimpl
    def astra_collectives(self) -> list[CollectiveProvider]:
        return [CollectiveProvider("slowed", "Slowed down", self._make, pure=True)]


def test_a_plugin_of_the_same_name_takes_the_place_of_one_that_went() -> None:
    plugins = Plugins()

    def finish(compute_ps: int) -> float:
        plugin = _Slowed(compute_ps)
        plugins.register(plugin)
        system = "plugin:astra1?all_reduce=slowed"
        finished = astra_sim.simulate(workload=COLLECTIVE, system=system, platform=RING.format(1), plugins=plugins).finish_ns
        plugins.unregister(plugin)
        return finished

    assert finish(2000) == finish(2000) < finish(4000)


@pytest.mark.parametrize("pure", [False, True])
def test_a_loop_writes_every_run_unless_it_is_pure(pure: bool) -> None:
    written = []

    def loop(program: LayeredProgram) -> None:
        written.append(program.platform.npus)
        for _ in program.iterations():
            program.compute(0, Pass.FORWARD)

    class Plugin:
        @hookimpl
        def astra_training_loops(self) -> list[Provider]:
            return [Provider("counted", "Counts how often it is asked", loop, pure=pure)]

    plugins = Plugins()
    plugins.register(Plugin())
    layer = {"name": "only", "forward": {"compute_ns": 5}}
    for latency in (1, 1, 2):  # of which the program does not depend
        run = astra_sim.simulate(workload={"loop": "counted", "layers": [layer]}, platform=RING.format(latency), plugins=plugins)
        assert run.finish_ns == 5
    assert len(written) == (1 if pure else 3)


class _Growing(BenchMemory):
    """A memory model that somebody changes between runs."""

    slowness = 1

    def access_ps(self, size: int, write: bool) -> int:
        return self.slowness * size


def test_a_memory_model_that_has_changed_counts() -> None:
    memory = _Growing()
    finished = []
    for memory.slowness in (1, 1, 50, 1):
        finished.append(astra_sim.simulate(workload=COLLECTIVE, platform=RING.format(1), memory=memory).finish_ns)
    assert finished[0] == finished[1] == finished[3] < finished[2]


def test_a_graph_that_has_changed_counts() -> None:
    graph = ExecutionGraph([Compute((), 5000, 0, Pass.FORWARD)], (LogicalDimension(4, 1, 0),), ("only",))
    assert isinstance(graph.operations, list)
    assert astra_sim.simulate(workload=graph, platform=RING.format(1)).finish_ns == 5
    graph.operations.append(Compute((0,), 7000, 0, Pass.FORWARD))
    assert astra_sim.simulate(workload=graph, platform=RING.format(1)).finish_ns == 12


class _Replanned(BenchSystem):
    """A system layer whose sessions answer with one list, in which the chunk comes `count` times as a part of it."""

    def __init__(self) -> None:
        self.count = 1
        self._chunks: list[ChunkPlan] = []

    def session(self, dimensions: Sequence[LogicalDimension]) -> SystemSession:
        session = super().session(dimensions)
        plan = session.issue

        def issue(operation: Communicate, now_ps: int) -> Sequence[ChunkPlan]:
            part = attrs.evolve(operation, bytes=operation.bytes // self.count)
            self._chunks[:] = [chunk for _ in range(self.count) for chunk in plan(part, now_ps)]
            return self._chunks

        session.issue = issue  # type: ignore[method-assign]
        return session


def test_a_plan_that_comes_as_a_list_may_change() -> None:
    system = _Replanned()
    finished = []
    for system.count in (1, 1, 4, 1):
        finished.append(astra_sim.simulate(workload=COLLECTIVE, platform=RING.format(1), system=system).finish_ns)
    assert finished[0] == finished[1] == finished[3] != finished[2]


@pytest.mark.parametrize("inner", ["ring", "double_binary_tree"])
def test_variants_take_turns_as_if_nothing_were_kept(inner: str) -> None:
    """A session that has its plans from earlier ones counts phases as one that has made them."""
    experiment: dict[str, Any] = {
        "workload": {"loop": "data", "layers": [_layer(number) for number in range(6)]},
        "platform": {"dimensions": [_switch(4), _switch(4)]},
        "system": {"plugin": "astra1", "splits": 3, "all_reduce": [inner, "direct"]},
    }
    first = figures(astra_sim.simulate(**experiment))
    assert figures(astra_sim.simulate(**experiment)) == first
    assert figures(astra_sim.simulate(**experiment, engine="python")) == first
    kept_plans._of_sessions.clear()
    assert figures(astra_sim.simulate(**experiment)) == first


def _layer(number: int) -> dict[str, Any]:
    exchange = {"compute_ns": 100, "collective": "all_reduce", "collective_bytes": 4096 * (1 + number % 3)}
    return {"name": f"layer{number}", "forward": {"compute_ns": 10}, "input_gradient": {"compute_ns": 10}, "weight_gradient": exchange}


def _switch(size: int) -> dict[str, Any]:
    return {"topology": "switch", "size": size, "link_bandwidth_gb_per_s": 1, "link_latency_ns": 1}


def test_kept_plans_do_not_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_plans, "_of_sessions", {})
    monkeypatch.setattr(kept_plans.KeptPlans, "_MOST", 200)
    for splits in range(1, 40):
        for size in range(6):
            system = f"plugin:astra1?splits={splits}"
            astra_sim.simulate(workload=f"plugin:collective?bytes={65536 + size}", platform=RING.format(1), system=system)
    assert len(kept_plans._of_sessions) <= kept_plans._MOST_SESSIONS
    kept = [plans for plans in kept_plans._of_sessions.values() if plans._plans]
    assert kept
    assert all(sum(len(plan.chunks) for plan in plans._plans.values()) <= plans._size <= 200 for plans in kept)


def test_what_is_kept_does_not_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = options._Structured()
    monkeypatch.setattr(options._Structured, "_MOST", 8)
    monkeypatch.setattr(options, "_structured", kept)
    for latency in range(20):
        astra_sim.simulate(workload=COLLECTIVE, platform=RING.format(latency))
    assert 0 < len(kept._known) <= 8


@pytest.mark.skipif(not has_compiled(), reason="the compiled engine is not installed")
@pytest.mark.parametrize("experiment", [{"experiment": VGG16}, {"workload": COLLECTIVE, "platform": RING.format(1), "symmetry": False}])
def test_nothing_of_a_run_waits_for_the_collector(experiment: dict[str, Any]) -> None:
    astra_sim.simulate(**experiment)
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        astra_sim.simulate(**experiment)
        assert gc.collect() == 0, Counter(type(each).__name__ for each in gc.garbage).most_common(20)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def test_a_platform_that_nobody_has_is_gone_at_once() -> None:
    """Caches give up platforms during later runs, where no collector is to look for them."""
    platform = Platform((Dimension(Ring(4, 1), 4, 1, 50.0, 500.0),))
    last = weakref.ref(platform)
    gc.disable()
    try:
        del platform
        assert last() is None
    finally:
        gc.enable()


def test_the_audit_is_made_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def audited(*given: Any) -> list[Finding]:
        asked.append(1)
        return audit(*given)

    monkeypatch.setattr(result_module, "audit", audited)
    platform = {"dimensions": [{"topology": "switch", "size": 8, "link_bandwidth_gb_per_s": 1, "link_latency_ns": 1}]}
    result = astra_sim.simulate(workload=COLLECTIVE, platform=platform, set=["system.all_reduce=direct"])
    assert not asked
    platform["dimensions"][0]["link_bandwidth_gb_per_s"] = 1000
    (finding,) = result.audit
    assert result.audit == [finding]
    assert finding.bandwidth_bytes_per_ns == 1
    assert result.to_dict()["audit"][0]["message"] == finding.message
    assert len(asked) == 1
    assert pickle.loads(pickle.dumps(result)).audit == [finding]
