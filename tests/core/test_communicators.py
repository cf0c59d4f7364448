"""Collectives over dimensions are counted by group: programs that share no group have nothing to do with each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import astra_sim
import pytest
from astra_sim import InputError
from astra_sim.graph import Communicate, Compute, ExecutionGraph, NpuProgram, Operation, Pass, Receive, Send
from astra_sim.platform import LogicalDimension
from astra_sim.run.communicators import join_programs
from astra_sim.schedule import Collective, shift
from support import figures

NPUS = 8
PAIRS, FOURS, HALVES = LogicalDimension(2, 1, 0, "pairs"), LogicalDimension(2, 2, 0, "fours"), LogicalDimension(2, 4, 0, "halves")
PLATFORM = {"dimensions": [{"topology": "switch", "size": NPUS, "links": 1, "link_bandwidth_gb_per_s": 10, "link_latency_ns": 50}]}
ENGINES = ["python", "compiled"]
SYSTEMS = ["plugin:astra1", "plugin:astra2"]

Programs = Sequence[tuple[Sequence[Operation], Sequence[int]]]


def collective(size: int, *dimensions: int, after: tuple[int, ...] = (), algorithm: str = "") -> Communicate:
    return Communicate(after, Collective.ALL_REDUCE, size, dimensions, -1, Pass.FORWARD, algorithm=algorithm)


def run(programs: Programs, **more: Any) -> Any:
    """Run programs, each by some NPUs; NPU 0 runs the first."""
    others = tuple(NpuProgram(tuple(operations), npus) for operations, npus in programs[1:])
    graph = ExecutionGraph(tuple(programs[0][0]), (PAIRS, FOURS, HALVES), (), None, others)
    arguments: dict[str, Any] = {"workload": graph, "platform": PLATFORM, "system": "plugin:astra2"}
    return astra_sim.simulate(**arguments | more)


def stages(*sizes: Sequence[int], dimension: int = 0) -> Programs:
    """Two stages of four NPUs: the first computes, reduces and sends, the second receives and reduces, each as often as it has sizes."""
    first: list[Operation] = [Compute((), 1_000_000)]
    for size in sizes[0]:
        first.append(collective(size, dimension, after=(len(first) - 1,)))
    first.append(Send((len(first) - 1,), shift(4), 4096))
    second: list[Operation] = [Receive((), shift(-4), 4096)]
    for size in sizes[1]:
        second.append(collective(size, dimension, after=(len(second) - 1,)))
    return [(first, range(4)), (second, range(4, 8))]


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dimension", [0, 1])
def test_programs_use_one_dimension_differently(dimension: int, engine: str, system: str) -> None:
    """Other sizes, and other numbers of collectives: each program counts its own."""
    programs = stages((1000, 50_000, 300), (2000,), dimension=dimension)
    short = run(programs, engine=engine, system=system)
    full = run(programs, engine=engine, system=system, symmetry=False)
    assert figures(short) == figures(full)
    assert (short.simulated_npus, full.simulated_npus) == (2, NPUS)
    assert short.network["payload_bytes"] == full.network["payload_bytes"] > 0
    assert short.messages == full.messages > 0


def test_a_stage_takes_as_long_as_alone() -> None:
    alone = [(stages((1000, 50_000), ())[0][0][:-1], range(8))]
    both = stages((1000, 50_000), (7, 7, 7))
    npu_finish = run(both, symmetry=False).npu_finish_ns
    assert npu_finish[0] - run(alone).finish_ns == pytest.approx(2 * 50 + 4096 / 10, abs=1)  # the message


@pytest.mark.parametrize("engine", ENGINES)
def test_classes_with_several_dimensions(engine: str) -> None:
    first, second = (list(operations) for operations, _ in stages((1000, 2000), (3000,)))
    first += [collective(5000, 0, 1, after=(3,)), collective(600, 1, after=(3,))]
    second += [collective(700, 1, after=(0,)), collective(800, 0, 1, after=(1,))]
    programs = [(first, range(4)), (second, range(4, 8))]
    short, full = run(programs, engine=engine), run(programs, engine=engine, symmetry=False)
    assert figures(short) == figures(full)
    assert short.simulated_npus == 2


@pytest.mark.parametrize("engine", ENGINES)
def test_a_group_across_programs_meets_by_number(engine: str) -> None:
    """Members in different programs: the n-th collective of one is the n-th of the other."""
    early: list[Operation] = [collective(1000, 2), collective(4000, 2, after=(0,))]
    late: list[Operation] = [Compute((), 5_000_000), collective(1000, 2, after=(0,)), collective(4000, 2, after=(1,))]
    result = run([(early, range(4)), (late, range(4, 8))], engine=engine)
    assert result.simulated_npus == NPUS
    assert result.finish_ns == run([(late, range(8))]).finish_ns


@pytest.mark.parametrize("engine", ENGINES)
def test_unlike_collectives_of_a_group_are_an_error(engine: str) -> None:
    first: list[Operation] = [collective(1000, 2), collective(2000, 2, after=(0,))]
    second: list[Operation] = [collective(1000, 2), collective(9999, 2, after=(0,))]
    with pytest.raises(InputError, match=r"NPU \d: operation 1 \(all_reduce of \d+ bytes.*\) is collective number 2 of its group"):
        run([(first, range(4)), (second, range(4, 8))], engine=engine)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_collective_that_others_of_a_group_lack_never_ends(engine: str) -> None:
    first: list[Operation] = [collective(1000, 2), collective(2000, 2, after=(0,))]
    with pytest.raises(astra_sim.DeadlockError, match="all_reduce of 2000 bytes"):
        run([(first, range(4)), (first[:1], range(4, 8))], engine=engine)


@pytest.mark.parametrize("engine", ENGINES)
def test_an_algorithm_over_the_whole_platform_joins_all_programs(engine: str) -> None:
    """It runs on all NPUs, whatever dimensions are named, so all programs count it together."""
    both = collective(8000, 0, algorithm="one_ring")
    first: list[Operation] = [Compute((), 1_000_000), Communicate((0,), *_fields(both))]
    second: list[Operation] = [Compute((), 3_000_000), Communicate((0,), *_fields(both))]
    result = run([(first, range(4)), (second, range(4, 8))], engine=engine)
    assert result.finish_ns == run([(second, range(8))]).finish_ns
    assert result.earliest_finish_ns > 3000


def _fields(operation: Communicate) -> tuple[Any, ...]:
    return (operation.collective, operation.bytes, operation.dimensions, -1, Pass.FORWARD, 0, 0, False, False, None, operation.algorithm)


def test_which_programs_share_groups() -> None:
    quarters = [range(2), range(2, 4), range(4, 6), range(6, 8)]
    assert join_programs([PAIRS], quarters) == [0, 1, 2, 3]
    assert join_programs([FOURS], quarters) == [0, 0, 2, 2]
    assert join_programs([HALVES], quarters) == [0, 1, 0, 1]
    assert join_programs([FOURS, HALVES], quarters) == [0, 0, 0, 0]
    assert join_programs([], quarters) == [0, 1, 2, 3]


def test_groups_that_reach_over_dimensions_are_all_looked_at() -> None:
    """The pair of NPUs 0 and 1 is in a row; that of 2 and 3 is not, and takes longer: NPU 0 cannot represent all."""
    rows = [
        {"topology": "ring", "size": 3, "links": 2, "link_bandwidth_gb_per_s": 100},
        {"topology": "switch", "size": 4, "links": 1, "link_bandwidth_gb_per_s": 1},
    ]
    dimensions = (LogicalDimension(2, 1, None), LogicalDimension(6, 2, None))
    for system in SYSTEMS:
        graph = ExecutionGraph((collective(60_000, 0), collective(60_000, 1, after=(0,))), dimensions, ())
        short = astra_sim.simulate(workload=graph, platform={"dimensions": rows}, system=system)
        full = astra_sim.simulate(workload=graph, platform={"dimensions": rows}, system=system, symmetry=False)
        assert figures(short) == figures(full)


def test_auto_finds_an_algorithm_for_any_number_of_ranks_across_dimensions() -> None:
    """The first dimension's own would be for powers of two."""
    dimensions = [{"topology": "switch", "size": size, "links": 1, "link_bandwidth_gb_per_s": 1} for size in (4, 3)]
    for kind in Collective:
        operation = Communicate((), kind, 6000, (0,), -1, Pass.FORWARD)
        graph = ExecutionGraph((operation,), (LogicalDimension(6, 1, None), LogicalDimension(2, 6, None)), ())
        assert astra_sim.simulate(workload=graph, platform={"dimensions": dimensions}, system="plugin:astra2").finish_ns > 0
