"""NPUs that compute slower, always or in a window, and compute models that say what an operation takes on an NPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import astra_sim
import attrs
import pytest
from astra_sim.compute import Compute, Work
from astra_sim.errors import InputError, PluginError
from astra_sim.graph import Communicate, ExecutionGraph, NpuProgram, Operation, Pass, Unit
from astra_sim.graph import Compute as Computing
from astra_sim.platform import LogicalDimension
from astra_sim.schedule import Collective
from astra_sim.setup.slow_npus import SlowNpus

ENGINES = ("python", "compiled")
RING = {"dimensions": [{"topology": "ring", "size": 4, "links": 2, "link_bandwidth_gb_per_s": 50, "link_latency_ns": 500}]}
NS = 1000


def graph(operations: list[Operation]) -> ExecutionGraph:
    return ExecutionGraph(operations, (LogicalDimension(4, 1, 0),), (), None, ())


def chain(*durations_ns: int, **fields: Any) -> ExecutionGraph:
    """Operations that compute one after another."""
    return graph([Computing((place - 1,) if place else (), each * NS, **fields) for place, each in enumerate(durations_ns)])


def run(workload: ExecutionGraph, **options: Any) -> astra_sim.Result:
    return astra_sim.simulate(workload=workload, platform=RING, npu_times=True, **options)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("slow", "ends"),
    [
        ("", [300, 300, 300, 300]),
        ("1:2", [300, 600, 300, 300]),
        ("all:0.5", [150, 150, 150, 150]),
        ("2-3:1.5", [300, 300, 450, 450]),
        # 150 ns of work before the window; in its 100 ns 50 are done; the rest takes 100.
        ("0:2@150ns-250ns", [350, 300, 300, 300]),
        ("0:2@0.15us-", [450, 300, 300, 300]),
        # 50 ns at 2, 50 at 6, the rest at 3: 25 + 50 / 6 + 3 (300 - 25 - 50 / 6), and what takes part of a picosecond is rounded.
        ("0:2@0ns-100ns, 0:3@50ns-", [900, 300, 300, 300]),
    ],
)
def test_computing_takes_longer_there_and_then(slow: str, ends: list[float], engine: str) -> None:
    result = run(chain(100, 200), slow_npus=slow, engine=engine)
    assert result.npu_finish_ns == pytest.approx(ends)
    assert result.finish_ns == max(result.npu_finish_ns)
    assert result.compute_ns == pytest.approx(ends[0])


def test_a_window_is_of_the_moment_at_which_work_is_done() -> None:
    slow = SlowNpus.parsed("0:2@100ns-200ns", 1, "test")
    assert slow.duration_ps(0, 0, 100 * NS) == 100 * NS
    assert slow.duration_ps(0, 100 * NS, 50 * NS) == 100 * NS
    assert slow.duration_ps(0, 150 * NS, 50 * NS) == 75 * NS
    assert slow.duration_ps(0, 200 * NS, 50 * NS) == 50 * NS
    ends = [start + slow.duration_ps(0, start, 50 * NS) for start in range(0, 300 * NS, 700)]
    assert ends == sorted(ends)


@pytest.mark.parametrize("engine", ENGINES)
def test_all_wait_for_a_straggler(engine: str) -> None:
    workload = graph([Computing((), 1000 * NS), Communicate((0,), Collective.ALL_REDUCE, 4000, (0,), -1, Pass.FORWARD, blocking=True)])
    plain, slow = run(workload, engine=engine), run(workload, slow_npus="2:3", engine=engine)
    assert (plain.simulated_npus, slow.simulated_npus) == (1, 4)
    assert slow.finish_ns == plain.finish_ns + 2000
    assert [time.accelerator_ns for time in slow.unit_times()] == [1000, 1000, 3000, 1000]


def test_tables_timelines_and_explanations_have_the_times_of_each_npu() -> None:
    first, second = [Computing((), each * NS, unit=Unit.ACCELERATOR) for each in (100, 400)]
    workload = ExecutionGraph([first], (LogicalDimension(4, 1, 0),), (), None, (NpuProgram([second], (1,)),))
    result = run(workload, slow_npus="all:2, 3:3", explain=True, timelines=True)
    assert [sum(time.accelerator_ns or 0 for time in result.unit_times() if npu in time.npus) for npu in range(4)] == [200, 800, 200, 600]
    spans = {timeline.npu: [(each.begin_ns, each.end_ns) for each in timeline] for timeline in result.timelines()}
    assert spans == {0: [(0, 200)], 1: [(0, 800)], 2: [(0, 200)], 3: [(0, 600)]}
    assert result.explanation is not None
    assert [row.ns for row in result.explanation.path] == [800]
    assert result.explanation.bounds[0].ns == 800
    compute = next(each for each in result.explanation.sensitivities if each.parameter == "compute speed")
    assert compute.method == "re-runs"
    assert compute.derivative_ns == pytest.approx(-800, rel=1e-3)


def test_what_runs_on_the_cpu_or_idles_is_not_slowed() -> None:
    assert run(chain(100, unit=Unit.CPU), slow_npus="all:2").finish_ns == 100
    assert run(chain(100, idle=True), slow_npus="all:2").finish_ns == 100


@pytest.mark.parametrize(
    ("slow", "message"),
    [
        ("3", "'3'; expected NPU:FACTOR, FIRST-LAST:FACTOR or all:FACTOR"),
        ("3:-1", "'3:-1'; expected NPU:FACTOR"),
        ("1:2,", "''; expected NPU:FACTOR"),
        ("1:2@5ms", "'1:2@5ms'; expected NPU:FACTOR"),
        ("1:0.0", "'1:0.0' has the factor 0; expected more"),
        ("1:2@5ms-1ms", "'1:2@5ms-1ms' has a window that ends before it begins"),
        ("4:2", "'4:2'; expected NPUs 0 to 3"),
        ("3-1:2", "'3-1:2'; expected NPUs 0 to 3, the first of them first"),
    ],
)
def test_what_is_wrong_is_named(slow: str, message: str) -> None:
    with pytest.raises(InputError) as raised:
        run(chain(100), slow_npus=slow)
    assert f"run: slow_npus: {message}" in str(raised.value)


def test_operations_that_are_simulated_as_one_are_refused() -> None:
    llm = {
        "plugin": "llm",
        "model": "gpt3-175b",
        "tensor_parallel": 2,
        "pipeline_parallel": 2,
        "global_batch": 2,
        "detail": "pass",
        "check_memory": False,
    }
    arguments: dict[str, Any] = {"workload": llm, "platform": RING, "compute": "plugin:gpu?device=h100", "slow_npus": "3:2"}
    with pytest.raises(InputError, match=r"operations that are simulated as one .* detail=layer"):
        astra_sim.simulate(**arguments)
    slow = astra_sim.simulate(**{**arguments, "workload": {**llm, "detail": "layer"}})
    plain = astra_sim.simulate(**{**arguments, "workload": {**llm, "detail": "layer"}, "slow_npus": None})
    assert plain.finish_ns < slow.finish_ns < 2 * plain.finish_ns


# -- compute models ----------------------------------------------------------------------------------------------------


@attrs.frozen(eq=False)
class Varying(Compute):
    """A model with a function of (NPU, start, duration)."""

    function: Callable[[int, int, int], Any]
    varies: bool = True

    def duration_ns(self, work: Work) -> float:
        return work.recorded_ns or 0.0

    def npu_duration_ps(self, npu: int, start_ps: int, duration_ps: int) -> int:
        result: int = self.function(npu, start_ps, duration_ps)
        return result


@pytest.mark.parametrize("engine", ENGINES)
def test_a_compute_model_says_what_an_operation_takes_on_an_npu(engine: str) -> None:
    asked: list[tuple[int, int, int]] = []

    def function(npu: int, start_ps: int, duration_ps: int) -> int:
        asked.append((npu, start_ps, duration_ps))
        return duration_ps + npu * NS + start_ps // 100

    result = run(chain(100, 200), compute=Varying(function), engine=engine)
    assert result.npu_finish_ns == [301 + npu * 2.01 for npu in range(4)]
    assert sorted(asked) == sorted([(npu, 0, 100 * NS) for npu in range(4)] + [(npu, (100 + npu) * NS, 200 * NS) for npu in range(4)])
    slowed = run(chain(100, 200), compute=Varying(lambda npu, start, duration: duration + NS), slow_npus="0:2", engine=engine)
    assert slowed.npu_finish_ns == [604, 302, 302, 302]


def test_a_model_that_does_not_vary_is_not_asked() -> None:
    def function(npu: int, start_ps: int, duration_ps: int) -> int:
        raise AssertionError("it is asked")

    assert run(chain(100), compute=Varying(function, varies=False)).simulated_npus == 1


WRONG: list[Any] = [
    pytest.param(lambda *arguments: -1, "is -1; expected a time of at least 0", id="negative"),
    pytest.param(lambda *arguments: "soon", "is 'soon'; expected a time of at least 0", id="text"),
    pytest.param(lambda *arguments: 1 // 0, "failed: ZeroDivisionError", id="exception"),
]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("function", "message"), WRONG)
def test_a_wrong_answer_names_the_model(function: Callable[[int, int, int], Any], message: str, engine: str) -> None:
    with pytest.raises(PluginError, match="compute Varying: npu_duration_ps of 100000 ps on NPU 0 at 0 ps") as raised:
        run(chain(100), compute=Varying(function), engine=engine)
    assert message in str(raised.value)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("factor", [10_000_000, 5_000_000], ids=["operation", "run"])
def test_more_time_than_can_be_simulated_is_an_error(factor: int, engine: str) -> None:
    with pytest.raises(astra_sim.AstraError, match=r"106\.75 days"):
        run(chain(10**9, 10**9), slow_npus=f"0:{factor}", engine=engine)
