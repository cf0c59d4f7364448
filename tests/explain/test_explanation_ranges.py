"""Ranges of sensitivities: within them the run follows the line of its path, and beyond their ends it does not."""

from __future__ import annotations

from pathlib import Path

import astra_sim
import pytest
from astra_sim import AstraError
from astra_sim.graph import Communicate, Compute, ExecutionGraph, Operation, Pass
from astra_sim.records import ExplainedRun
from astra_sim.run.simulation import Explain, simulate_graph
from astra_sim.schedule import Collective
from astra_sim.setup.plugins import shared_plugins
from astra_sim_explain.explanation import Range, Sensitivity
from astra_sim_explain.options import ExplainOptions
from astra_sim_explain.ranges import SAME
from astra_sim_explain.what_if import explain_run, varied
from support.experiment_checks import components_of, experiment_of
from support.random_experiments import Experiment

US = 1_000_000
LINE = "plugin:ring?size=2&links=2&link_bandwidth_gb_per_s=1&link_latency_ns=500"
NETWORK = "plugin:analytical?rounding=picosecond"
SYSTEM = "plugin:astra1?splits=1&endpoint_delay_ns=0"


def race(compute_ps: int) -> list[Operation]:
    """Compute beside an all-reduce of two NPUs."""
    return [
        Compute((), compute_ps, name="work"),
        Communicate((), Collective.ALL_REDUCE, 4000, (0,), -1, Pass.FORWARD, name="sum"),
    ]


def explained(compute_ps: int) -> tuple[astra_sim.Result, dict[tuple[str, int | None], Range | None]]:
    dimensions = components_of({"workload": "plugin:collective?bytes=1", "platform": LINE}, "compiled", True).graph.dimensions
    graph = ExecutionGraph(race(compute_ps), dimensions, ())
    result = astra_sim.simulate(workload=graph, platform=LINE, system=SYSTEM, network=NETWORK, explain="ranges")
    assert result.explanation is not None
    return result, {(each.parameter, each.dimension): each.range for each in result.explanation.sensitivities}


def test_the_other_chain_takes_over_where_it_is_as_long() -> None:
    """The all-reduce takes two latencies of 500 ns and 4000 bytes over 1 byte/ns: 5 us. It ends after 6 us where bandwidth falls to 4/5."""
    result, ranges = explained(6 * US)
    assert result.finish_ns == 6000
    bandwidth, speed, latency = ranges["bandwidth", 0], ranges["compute speed", None], ranges["latency", 0]
    assert bandwidth is not None
    assert bandwidth.low_percent == pytest.approx(-20, abs=0.1)
    assert (bandwidth.low_ends, bandwidth.high_ends) == (True, False)
    assert speed is not None
    assert speed.high_percent == pytest.approx(20, abs=0.1)
    assert (speed.low_ends, speed.high_ends) == (False, True)
    assert latency is not None
    assert latency.high_percent == pytest.approx(100, abs=0.2)


def test_a_tie_is_the_end_of_a_range() -> None:
    result, ranges = explained(5 * US)
    assert result.finish_ns == 5000
    speed, bandwidth = ranges["compute speed", None], ranges["bandwidth", 0]
    assert speed is not None
    assert bandwidth is not None
    ends = [abs(end) < 0.2 for end in (speed.low_percent, speed.high_percent, bandwidth.low_percent, bandwidth.high_percent)]
    assert sum(ends) == 2  # whichever of the two is reported, more of the one and less of the other make it another


def test_a_range_is_not_known_where_messages_wait_for_each_other() -> None:
    result = astra_sim.simulate(workload="plugin:collective?bytes=4000", platform=LINE, network="plugin:packet", explain="ranges")
    assert result.explanation is not None
    assert {each.range for each in result.explanation.sensitivities} == {None}


def picoseconds_at(run: ExplainedRun, sensitivity: Sensitivity, factor: float) -> int:
    """What the run takes with a parameter of `factor`."""
    again = varied(run, sensitivity.parameter, sensitivity.dimension, sensitivity.layer)(factor, False)
    assert again is not None
    return again.record.finish_ps


def ends_of(found: Range) -> list[tuple[float, int]]:
    """The ends of a range that it has, as factors, and the way out."""
    both = (found.low_percent, -1, found.low_ends), (found.high_percent, 1, found.high_ends)
    return [(1 + percent / 100, way) for percent, way, ends in both if ends]


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_random_runs_follow_the_line_within_a_range_and_leave_it_beyond(first: int, tmp_path: Path) -> None:
    """Of experiments whose messages take times that are not rounded: by differences of runs, not by their paths.

    Where a queue orders chunks otherwise there is a step, not a bend, and beyond it the slope may be the same.
    """
    within = ends = left = 0
    for seed in range(first, first + 10):
        folder = tmp_path / str(seed)
        folder.mkdir()
        try:
            sections, components = experiment_of(Experiment(seed, folder).options, "compiled", symmetry=True)
            parts = components.graph, components.system, components.network, components.memory, components.engine
            record = simulate_graph(*parts, components.run.symmetry, explain=Explain(), npu_ps=components.npu_ps)
            run = ExplainedRun("run", components, record, sections, shared_plugins())
            explanation = explain_run(ExplainOptions(reruns=False, ranges=True), run)
        except AstraError:
            continue
        finish = record.finish_ps
        for each in explanation.sensitivities:
            if each.range is None or each.method != "path":
                continue
            inverse = each.parameter in ("bandwidth", "compute speed")
            slope = abs(each.derivative_ns) * 1000
            for percent in (each.range.low_percent, each.range.high_percent):
                factor = 1 + 0.9 * percent / 100
                x = 1 / factor if inverse else factor
                error = 2 * SAME * slope * abs(x - 1) + 1e-6 * finish + 2000
                assert picoseconds_at(run, each, factor) == pytest.approx(finish + slope * (x - 1), abs=error), (seed, each)
                within += 1
            for end, way in ends_of(each.range):
                factors = end * (1 + way * 0.01), end * (1 + way * 0.05)
                times = [picoseconds_at(run, each, factor) for factor in factors]
                x_s = [1 / factor if inverse else factor for factor in factors]
                ends += 1
                bends = abs((times[1] - times[0]) / (x_s[1] - x_s[0]) - slope) > SAME / 2 * slope
                left += bends or abs(times[1] - finish - slope * (x_s[1] - 1)) > 1e-6 * finish
    assert within > 10
    assert left >= 0.9 * ends
