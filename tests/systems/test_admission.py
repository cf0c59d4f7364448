"""NPUs of a program begin chunks and collectives in one order, unless they are asked to go each by its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import astra_sim
import pytest
from astra_sim import DeadlockError
from astra_sim.engine.interface import COLLECTIVE, PhaseStep, Task
from astra_sim.engine.orders import Job
from astra_sim.graph import Communicate, Compute, ExecutionGraph, NpuProgram, Operation, Pass
from astra_sim.platform import LogicalDimension
from astra_sim.schedule import Collective
from astra_sim.setup.engines import find_engine
from random_checks import finishes

LINKS = {"link_bandwidth_gb_per_s": 50, "link_latency_ns": 500}
PLATFORM = {
    "dimensions": [
        {"topology": "ring", "size": 4, "links": 2, **LINKS},
        {"topology": "switch", "size": 2, "links": 1, **LINKS},
        {"topology": "switch", "size": 2, "links": 1, **LINKS},
    ]
}
ENGINES = pytest.mark.parametrize("engine", ["python", "compiled"])


def all_reduce(network: str, engine: str = "auto", **system: Any) -> float:
    system = {"plugin": "astra2", "splits": 16, "active_chunks_per_dimension": 2, "all_reduce": "direct", **system}
    workload = "plugin:collective?collective=all_reduce&bytes=1048576"
    return astra_sim.simulate(workload=workload, platform=PLATFORM, network=network, system=system, engine=engine).finish_ns


@pytest.mark.parametrize(
    "network",
    ["plugin:flow", "plugin:roce", "plugin:flow?routing=hash", "plugin:roce?load_balancing=ecmp", "plugin:analytical?congestion=aware"],
)
def test_a_plain_all_reduce_finishes(network: str) -> None:
    assert all_reduce(network, "python") == all_reduce(network, "compiled") > 20_000


@ENGINES
def test_each_by_its_own_order_they_wait_for_each_other_and_the_error_says_what_helps(engine: str) -> None:
    network = "plugin:roce?load_balancing=ecmp&payload_bytes=1000&connections=message"
    with pytest.raises(DeadlockError, match=r"admission=common \(.*active_chunks_per_dimension is 2, expected at least splits, 16"):
        all_reduce(network, engine, admission="own")
    assert all_reduce(network, engine, admission="own", active_chunks_per_dimension=16) > 20_000


def test_files_of_astra_sim_2_keep_the_rule_of_that_program(tmp_path: Path) -> None:
    from astra_sim_systems import astra2_file

    names = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
    text = ", ".join(['"preferred-dataset-splits": 16', *(f'"{name}-implementation": ["direct"]' for name in names)])
    assert astra2_file.read("{" + text + "}", "system.json")["system"]["admission"] == "own"


@ENGINES
def test_who_comes_first_decides_and_the_others_wait(engine: str) -> None:
    """The queue has one slot. NPU 0 has the chunk of task 2 first, NPU 1 that of task 3."""

    def issue(task: int, now: int) -> list[list[PhaseStep]]:
        return [[PhaseStep(Job(task, "all_reduce", 10, 0), 0, -1, 100)]]

    for agreement, ends in ((-1, [205, 105]), (0, [205, 305])):
        result = find_engine(engine)(2)
        result.add_queues([(1, lambda jobs, started, job: started)])
        for npu, delays in enumerate([(0, 5), (105, 5)]):
            result.record.observe(npu)
            tasks = [Task(1, delays[0]), Task(1, delays[1]), Task(COLLECTIVE, 0, (0,)), Task(COLLECTIVE, 0, (1,))]
            result.add_program(tasks, [npu], issue, agreement)
        assert not result.run()
        # NPU 0 begins task 2 at 0, and task 3 at 100. NPU 1 has task 3 from 5 on, and task 2 from 105 on.
        assert list(result.record.times(0)[1][2:]) == [100, 200]
        assert list(result.record.times(1)[1][2:]) == ends


@pytest.mark.parametrize("times", ["alike", "own"])
def test_npus_that_compute_for_different_times_have_one_order(times: str) -> None:
    """Two collectives, of which the later one has priority; a late NPU has issued the first one alone when its slot is free."""
    dimensions = (LogicalDimension(4, 1, 0),)

    def program(npu: int) -> list[Operation]:
        late = 1_000_000 * (1 + (npu if times == "own" else 0))
        operations: list[Operation] = [Compute((), 1000), Compute((0,), late), Compute((1,), 1000)]
        return operations + [Communicate((after,), Collective.ALL_REDUCE, 100_000, (0,), -1, Pass.FORWARD) for after in (0, 0, 1, 2)]

    others = tuple(NpuProgram(program(npu), (npu,)) for npu in range(1, 4))
    graph = ExecutionGraph(program(0), dimensions, (), None, others)
    platform = {"dimensions": [{"topology": "switch", "size": 4, "links": 1, **LINKS}]}
    system = {"plugin": "astra2", "one_at_a_time": False, "all_reduce": "direct", "splits": 1}
    runs = [
        astra_sim.simulate(workload=graph, platform=platform, network="plugin:flow", system=system, engine=e)
        for e in ("python", "compiled")
    ]
    assert runs[0].finish_ns == runs[1].finish_ns > 4000


def test_events_that_the_engine_sorts_while_it_asks_the_network_are_not_lost(tmp_path: Path) -> None:
    """A message that arrived while others were being sorted was counted to a run of events that had moved: it was never handled."""
    assert finishes.check(2601, tmp_path) == []
