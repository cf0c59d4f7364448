"""What is kept from run to run changes no figure, and does not grow; what may change is not kept."""

from __future__ import annotations

import gc
import json
import pickle
import re
import subprocess
import sys
import weakref
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

import astra_sim
import attrs
import pytest
from astra_sim import CollectiveProvider, InputError, Provider, hookimpl, options
from astra_sim.graph import Communicate, Compute, ExecutionGraph, Pass
from astra_sim.layers import LayeredProgram
from astra_sim.memo import Cache, ObjectCaches, cache_statistics, cached, clear_caches, without_cache
from astra_sim.platform import Dimension, LogicalDimension, Platform
from astra_sim.report import result as result_module
from astra_sim.report.audit import Finding, audit
from astra_sim.schedule import Request, Schedule
from astra_sim.setup.engines import compiled_engine
from astra_sim.setup.plugins import Plugins
from astra_sim.system import ChunkPlan, SystemSession
from astra_sim_devkit.testing.bench import BenchMemory, BenchSystem, pairwise
from astra_sim_network_analytical.topologies import Ring
from astra_sim_systems import plan_cache
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
sys.path[:0] = sys.argv[1:]
from support import figures
from test_caches import CHANGES, VGG16
print(json.dumps([figures(astra_sim.simulate(VGG16, **change)) for change in reversed(CHANGES)][::-1]))
"""


def test_figures_do_not_depend_on_the_runs_before() -> None:
    folders = [str(ROOT / "tests"), str(ROOT / "tests" / "core")]
    done = subprocess.run([sys.executable, "-c", ALL, *folders], capture_output=True, text=True, check=True)
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
    for latency, result in (("1", 1), ("1.0", 1.0)):
        experiment = astra_sim.simulate(workload=COLLECTIVE, platform=RING.format(latency)).experiment
        assert repr(experiment["platform"]["link_latency_ns"]) == repr(result)


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
    """A memory model that is changed between runs."""

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
    """A system layer whose sessions return one list, in which the chunk comes `count` times as a part of it."""

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
    clear_caches()
    assert figures(astra_sim.simulate(**experiment)) == first


def _layer(number: int) -> dict[str, Any]:
    exchange = {"compute_ns": 100, "collective": "all_reduce", "collective_bytes": 4096 * (1 + number % 3)}
    return {"name": f"layer{number}", "forward": {"compute_ns": 10}, "input_gradient": {"compute_ns": 10}, "weight_gradient": exchange}


def _switch(size: int) -> dict[str, Any]:
    return {"topology": "switch", "size": size, "link_bandwidth_gb_per_s": 1, "link_latency_ns": 1}


def test_cached_plans_do_not_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    plans: ObjectCaches[Any, Any] = ObjectCaches("", 200, largest=50)
    monkeypatch.setattr(plan_cache, "_plans", plans)
    clear_caches()
    for splits in range(1, 40):
        for size in range(6):
            system = f"plugin:astra1?splits={splits}"
            astra_sim.simulate(workload=f"plugin:collective?bytes={65536 + size}", platform=RING.format(1), system=system)
    assert 0 < len(plan_cache._contents) <= plan_cache.MOST_SESSIONS
    assert len(plans._caches) <= plan_cache.MOST_SESSIONS
    full = [cache for cache in plans._caches.values() if len(cache)]
    assert full
    assert all(sum(plan.size for plan, _ in cache._entries.values()) == cache.size <= 200 for cache in full)


def test_what_is_kept_does_not_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    structured: Cache[Any, Any] = Cache("", 8)
    monkeypatch.setattr(options, "_structured", structured)
    for latency in range(20):
        astra_sim.simulate(workload=COLLECTIVE, platform=RING.format(latency))
    assert 0 < len(structured) <= 8


@pytest.mark.skipif(compiled_engine() is None, reason="the compiled engine is not installed")
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


# -- memo --------------------------------------------------------------------------------------------------------------


def test_the_oldest_values_go_where_a_cache_is_full() -> None:
    cache: Cache[int, str] = Cache("", 3)
    for number in range(5):
        assert cache.value(number, partial(str, number)) == str(number)
    assert [cache.get(number) for number in range(5)] == [None, None, "2", "3", "4"]
    cache.add(9, "nine", size=2)
    assert [cache.get(number) for number in (3, 4, 9)] == [None, "4", "nine"]
    assert cache.size == 3
    cache.add(10, "too large", size=4)
    cache.replace(9, "ten", size=1)
    assert (cache.get(10), cache.get(9), cache.size) == (None, "ten", 2)
    cache.clear()
    assert (len(cache), cache.size) == (0, 0)


def test_none_is_a_value_and_an_error_is_none() -> None:
    cache: Cache[str, Any] = Cache("", 3)
    asked = []
    for _ in range(2):
        cache.value("none", lambda: asked.append(1))
        with pytest.raises(ZeroDivisionError):
            cache.value("error", lambda: 1 // 0)
    assert asked == [1]


def test_what_may_change_is_no_key() -> None:
    cache: Cache[Any, int] = Cache("", 3)
    assert [cache.value([1], lambda: 5), cache.get([1]), len(cache)] == [5, None, 0]
    asked = []

    @cached("a test of what may change", 3)
    def length(values: Any) -> int:
        asked.append(values)
        return len(values)

    for values in ([1], [1], (1,), (1,)):
        assert length(values) == 1
    assert len(asked) == 3


def test_the_cache_of_an_object_goes_with_it_unless_it_may_equal_another() -> None:
    class Owner:
        pass

    @attrs.frozen
    class Equal:
        pass

    caches: ObjectCaches[int, int] = ObjectCaches("a test of objects", 3)
    owner = Owner()
    caches.of(owner).add(1, 2)
    assert (caches.of(owner).get(1), caches.statistics().entries) == (2, 1)
    del owner
    assert caches.statistics().entries == 0
    equal = Equal()
    caches.of(equal).add(1, 2)
    assert caches.of(equal).get(1) is None


def test_caches_are_counted_and_switched_off_by_name() -> None:
    clear_caches()
    assert all(each.entries == 0 for each in cache_statistics().values())
    before = cache_statistics()
    astra_sim.simulate(VGG16)
    first = cache_statistics()
    astra_sim.simulate(VGG16)
    second = cache_statistics()
    for name in ("algorithms", "components", "graphs", "described plans", "systems: plans", "analytical: formulas"):
        assert before[name].misses < first[name].misses
        assert first[name].hits < second[name].hits, name
        assert second[name].misses == first[name].misses, name
    with without_cache("algorithms"):
        astra_sim.simulate(VGG16)
        assert cache_statistics()["algorithms"].entries == 0
        assert cache_statistics()["components"].entries > 0
    with pytest.raises(KeyError), without_cache("no such cache"):
        pass


def test_whatever_is_kept_from_run_to_run_is_kept_by_memo() -> None:
    """Nothing else is: no `lru_cache`, no dictionary of weak keys, and no table that a module fills while it runs."""
    allowed = {"_idle"}  # workers that wait, which are no results
    paths = [path for folder in ("core/src", "plugins") for path in (ROOT / folder).glob("**/*.py") if "build" not in path.parts]
    assert len(paths) > 300
    for path in paths:
        if path.name != "memo.py":
            text = path.read_text()
            assert "lru_cache" not in text, path
            assert "WeakKeyDictionary" not in text, path
            assert set(re.findall(r"^(_[a-z_]+)(?:: dict\[.*)? = (?:\{\}|dict\(\))$", text, re.MULTILINE)) <= allowed, path
