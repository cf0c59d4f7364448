"""Explanations: parts of the critical path add up to the makespan, and sensitivities are those of finite differences."""

from __future__ import annotations

import contextlib
import copy
import math
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from astra_sim import AstraError
from astra_sim import Experiment as Sections
from astra_sim.network import Network
from astra_sim.records import ExplainedRun
from astra_sim.run.critical_path import SegmentKind
from astra_sim.run.record import RunRecord
from astra_sim.run.simulation import Explain, simulate_graph
from astra_sim.setup.components import Components
from astra_sim.setup.plugins import shared_plugins
from astra_sim_explain.explanation import explain, of_path
from astra_sim_explain.what_if import scaled_compute, scaled_platform
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from support.experiment_checks import components_of
from support.random_experiments import Experiment


def explained(components: Components, empty: Network | None = None) -> RunRecord:
    """A run that has kept its critical path; messages are taken apart on an empty network, if there is one."""
    parts = components.graph, components.system, components.network, components.memory, components.engine
    return simulate_graph(*parts, components.run.symmetry, explain=Explain(lambda: empty))


def run_of(components: Components, record: RunRecord) -> ExplainedRun:
    """A run as explainers get it, which cannot be run again."""
    return ExplainedRun("run", components, record, Sections(), shared_plugins())


SEEDS = range(300)
BLOCK = 25


@pytest.mark.parametrize("first", SEEDS[::BLOCK])
def test_parts_add_up_to_the_makespan(first: int, tmp_path: Path) -> None:
    """Of random experiments, with the engines taking turns; each part begins where the one before ends."""
    count = 0
    for seed in range(first, first + BLOCK):
        folder = tmp_path / str(seed)
        folder.mkdir()
        try:
            how = Experiment(seed, folder).options, ("compiled", "python")[seed % 2], seed % 4 < 2
            record = explained(components_of(*how), components_of(*how).network)
        except AstraError:
            continue
        assert record.path is not None
        at = 0
        for part in record.path.segments:
            assert part.begin == at, f"seed {seed}: {part}"
            assert part.ps >= 0, f"seed {seed}: {part}"
            at += part.ps
        assert at == record.finish_ps, f"seed {seed}"
        assert SegmentKind.NETWORK not in {part.kind for part in record.path.segments}
        count += 1
    assert count > BLOCK // 2


@pytest.mark.parametrize("first", range(1000, 1000 + 4 * BLOCK, BLOCK))
def test_engines_and_symmetry_explain_alike(first: int, tmp_path: Path) -> None:
    """Neither which engine runs nor how much of the platform is simulated changes the path, the bounds or a sensitivity."""
    for seed in range(first, first + BLOCK):
        folder = tmp_path / str(seed)
        folder.mkdir()
        options = Experiment(seed, folder).options
        result = []
        for engine, symmetry in (("python", True), ("compiled", True), ("compiled", False)):
            with contextlib.suppress(AstraError):
                components = components_of(options, engine, symmetry)
                result.append(explain(run_of(components, explained(components)), ()))
        for each in result:
            assert (each.path, each.bounds) == (result[0].path, result[0].bounds), f"seed {seed}"
            derivatives = [sensitivity.derivative_ns for sensitivity in result[0].sensitivities]
            assert [sensitivity.derivative_ns for sensitivity in each.sensitivities] == pytest.approx(derivatives), f"seed {seed}"


@pytest.mark.parametrize("network", ["plugin:analytical", "plugin:analytical?congestion=aware"])
def test_engines_explain_long_runs_alike(network: str) -> None:
    """Of more events than the compiled engine keeps links of before it forgets some."""
    options = {
        "workload": "plugin:collective?bytes=1000000",
        "platform": "plugin:torus?sizes=4,4&link_bandwidth_gib_per_s=50&link_latency_ns=500",
        "system": "plugin:astra1?splits=128",
        "network": network,
    }
    records = [explained(components_of(options, engine, symmetry=False)) for engine in ("python", "compiled")]
    assert records[0].events > 2 * 16384
    first, second = (record.path for record in records)
    assert first is not None
    assert second is not None
    assert [part[:4] for part in first.segments] == [part[:4] for part in second.segments]


def test_a_request_that_came_first_belongs_to_the_message(tmp_path: Path) -> None:
    """The sender finds a request of another program, whose tasks are not its own."""
    components = components_of(Experiment(2674, tmp_path).options, "compiled", symmetry=True)
    assert components.system.rendezvous
    path = explained(components).path
    assert path is not None
    assert sum(part.ps for part in path.segments) > 0


@attrs.frozen
class Change:
    """A parameter that a test changes, and how."""

    parameter: str
    components: Callable[[float], Components]
    dimension: int | None = None
    layer: str | None = None


STEP = 0.01


def changes(options: dict[str, Any], components: Components, cut_by_bandwidth: bool) -> Iterator[Change]:
    """What of an experiment can be changed by a factor, and follows from the path."""
    platform = components.platform

    def linked(number: int, bandwidth: float, latency: float) -> Components:
        changed = scaled_platform(platform, number, bandwidth, latency)
        return components_of({**options, "platform": changed}, "compiled", symmetry=True)

    def delayed(factor: float) -> Components:
        system = copy.copy(components.system)
        system.endpoint_ps = round(system.endpoint_ps * factor)
        return attrs.evolve(components, system=system)

    scales = [number for number in range(len(platform.dimensions)) if scaled_platform(platform, number, 1.0, 1.0) is not None]
    for number in () if cut_by_bandwidth else scales:
        yield Change("bandwidth", lambda factor, number=number: linked(number, factor, 1.0), number)  # type: ignore[misc]
        yield Change("latency", lambda factor, number=number: linked(number, 1.0, factor), number)  # type: ignore[misc]
    graph = components.graph
    yield Change("compute speed", lambda factor: attrs.evolve(components, graph=scaled_compute(graph, 1 / factor)))
    for layer in graph.layers:
        changed = lambda factor, layer=layer: attrs.evolve(components, graph=scaled_compute(graph, factor, layer))  # noqa: E731
        yield Change("layer compute", changed, layer=layer)
    if components.system.bus is None:
        yield Change("endpoint delay", delayed)


def told(components: Components, record: RunRecord, change: Change) -> float:
    """d time / d ln parameter in picoseconds, from the path; parameters that are not on the path change nothing."""
    assert record.path is not None
    which = change.parameter, change.dimension, change.layer
    result = {(each.parameter, each.dimension, each.layer): each for each in of_path(run_of(components, record))}
    assert {each.method for each in result.values()} == {"path"}
    return result[which].derivative_ns * 1000 if which in result or change.layer is None else 0.0


def finite_difference(change: Change, record: RunRecord, derivative: float, error_ps: float) -> float | None:
    """d time / d ln parameter in picoseconds; None at a kink, where by more than rounding it is another above and below.

    Where two paths are equally long the path may be a third one above and below. Then it is a kink, too.
    """
    times = []
    for factor in (1 + STEP, 1 - STEP):
        components = change.components(factor)
        changed = explained(components)
        times.append(changed.finish_ps)
        if changed.path is None or not changed.path.exact:
            return None
        if abs(told(components, changed, change) - derivative) > 0.03 * abs(derivative) + error_ps:
            return None
    right, left = (times[0] - record.finish_ps) / math.log(1 + STEP), (times[1] - record.finish_ps) / math.log(1 - STEP)
    # A time in proportion to a parameter, or to 1 / it, has a difference of 1 % between them.
    if abs(right - left) > 0.0105 * max(abs(right), abs(left)) + 4 * error_ps:
        return None
    return (times[0] - times[1]) / math.log((1 + STEP) / (1 - STEP))


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 1 << 30))
def test_sensitivities_are_finite_differences(seed: int) -> None:
    """Over training loops, traces, systems and networks without contention; collectives of loops are so large that rounding is small."""
    with tempfile.TemporaryDirectory() as folder:
        experiment = Experiment(seed, Path(folder))
        assume(experiment.network == "unaware")
        options = {
            **experiment.options,
            "network": {"plugin": "analytical", "rounding": "picosecond"},
            "comm_scale": 1000.0,
            "symmetry": True,
            "engine": "compiled",
        }
        try:
            components = components_of(options, "compiled", symmetry=True)
            record = explained(components)
        except AstraError:
            assume(False)
        assert record.path is not None
        assume(record.path.exact)  # a shared bus, or a port of remote memory
        # Each part of the path is rounded by half a picosecond.
        error_ps = 0.5 * len(record.path.segments) / STEP
        for change in changes(options, components, record.path.cut_by_bandwidth):
            derivative = told(components, record, change)
            result = finite_difference(change, record, derivative, error_ps)
            event("kink" if result is None else change.parameter)
            if result is not None:
                assert derivative == pytest.approx(result, rel=0.01, abs=error_ps), (change.parameter, change.dimension, change.layer)
