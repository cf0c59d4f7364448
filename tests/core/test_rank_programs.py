"""Graphs in which NPUs do different things: messages between them, groups, programs of their own."""

from __future__ import annotations

from typing import Any

import astra_sim
import pytest
from astra_sim import DeadlockError, InputError
from astra_sim.graph import Communicate, Compute, ExecutionGraph, NpuProgram, Operation, Pass, Receive, Send
from astra_sim.platform import LogicalDimension
from astra_sim.schedule import Collective, rank, shift
from support import figures

ENGINES = ["python", "compiled"]
RING = "plugin:ring?both_ways=true&size={}&links=2&link_bandwidth_gb_per_s=0.5&link_latency_ns=100"


def run(npus: int, *programs: list[Operation], engine: str = "compiled", **more: Any) -> astra_sim.Result:
    """Run programs, one for each NPU; the last one is for the remaining NPUs."""
    others = tuple(
        NpuProgram(tuple(program), tuple(range(number, npus)) if program is programs[-1] else (number,))
        for number, program in enumerate(programs)
        if number
    )
    graph = ExecutionGraph(tuple(programs[0]), (LogicalDimension(npus, 1, 0),), (), None, others)
    return astra_sim.simulate(workload=graph, platform=RING.format(npus), engine=engine, **more)


def all_reduce(size: int, group: tuple[int, ...] | None = None, after: tuple[int, ...] = ()) -> Communicate:
    return Communicate(after, Collective.ALL_REDUCE, size, (0,), -1, Pass.FORWARD, group=group)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_pipeline_of_sends_and_receives(engine: str) -> None:
    first: list[Operation] = [Compute((), 1_000_000), Send((0,), rank(1), 5000, name="out")]
    second: list[Operation] = [Receive((), rank(0), 5000), Compute((0,), 2_000_000)]
    result = run(2, first, second, engine=engine)
    assert result.npu_finish_ns == [1000 + 100 + 5000, 1000 + 100 + 5000 + 2000]
    assert result.finish_ns == 8100
    assert result.compute_ns == 1000


@pytest.mark.parametrize("engine", ENGINES)
def test_one_program_with_relative_peers_serves_all(engine: str) -> None:
    around: list[Operation] = [Send((), shift(1), 1000), Receive((), shift(-1), 1000), Compute((0, 1), 10_000)]
    result = run(8, around, engine=engine)
    assert result.npu_finish_ns == [1110] * 8
    assert result.messages == 8


@pytest.mark.parametrize("engine", ENGINES)
def test_collectives_of_programs_of_their_own_meet_by_number(engine: str) -> None:
    early: list[Operation] = [all_reduce(1000), all_reduce(4000, after=(0,))]
    late: list[Operation] = [Compute((), 5_000_000), all_reduce(1000, after=(0,)), all_reduce(4000, after=(1,))]
    together = run(4, early, engine=engine)
    result = run(4, early, late, engine=engine)
    assert together.finish_ns < result.finish_ns < together.finish_ns + 5001
    assert result.dimensions[0].average_chunk_latency_ns is not None


@pytest.mark.parametrize("engine", ENGINES)
def test_other_collectives_under_the_same_number_are_an_error(engine: str) -> None:
    with pytest.raises(InputError, match=r"NPU 1: operation 0 \(all_reduce of 2000 bytes.*collective number 1 of its group"):
        run(2, [all_reduce(1000)], [all_reduce(2000)], engine=engine)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_receive_without_a_send_names_both(engine: str) -> None:
    with pytest.raises(DeadlockError) as caught:
        run(3, [Compute((), 1000)], [Receive((), rank(0), 64, 7, name="in"), Compute((0,), 5)], [Compute((), 1000)], engine=engine)
    text = str(caught.value)
    assert "NPU 1: operation 0 (receive of 64 bytes, 'in') waits for a message of NPU 0 with tag 7" in text
    assert "NPU 1: operation 1 (compute" in text


@pytest.mark.parametrize(
    ("operation", "what"),
    [
        (Send((), rank(0), 1), "NPU 0"),
        (Send((), rank(5), 1), "NPU 5"),
        (Receive((), rank(1), -1), "has bytes -1; expected a whole number from 0"),
        (Send((), rank(1), 1, 2**31), "tag"),
        (all_reduce(10, (0, 0)), r"group \[0, 0\]"),
        (all_reduce(10, (0, 4)), r"group \[0, 4\]"),
    ],
)
@pytest.mark.parametrize("engine", ENGINES)
def test_messages_and_groups_that_cannot_be_are_errors(operation: Operation, what: str, engine: str) -> None:
    with pytest.raises(InputError, match=what):
        run(4, [operation], [Compute((), 1)], engine=engine)


def pipeline(stages: int, replicas: int, micro_batches: int) -> list[list[Operation]]:
    """Forward and backward of micro-batches through stages, each of which is replicated and reduces its gradients."""
    programs = []
    for stage in range(stages):
        group = tuple(range(stage * replicas, (stage + 1) * replicas))
        operations: list[Operation] = []
        for tag in range(micro_batches):
            if stage:
                operations.append(Receive((), shift(-replicas), 4000, tag))
            operations.append(Compute((len(operations) - 1,) if stage else (), 700_000 + 1000 * stage))
            if stage < stages - 1:
                operations.append(Send((len(operations) - 1,), shift(replicas), 4000, tag))
        operations.append(all_reduce(64_000, group, tuple(range(len(operations)))))
        programs += [operations] * replicas
    return programs


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("system", ["astra1", "astra2"])
@pytest.mark.parametrize("algorithm", ["ring", "direct"])
def test_classes_of_npus_give_the_same_answer(engine: str, system: str, algorithm: str) -> None:
    programs = pipeline(4, 3, 5)
    graph = ExecutionGraph(
        tuple(programs[0]),
        (LogicalDimension(3, 1, 0), LogicalDimension(4, 3, 1)),
        (),
        None,
        tuple(NpuProgram(tuple(programs[3 * stage]), tuple(range(3 * stage, 3 * stage + 3))) for stage in range(1, 4)),
    )
    platform = "plugin:torus?sizes=3,4&link_bandwidth_gb_per_s=1&link_latency_ns=100"
    choices = {"workload": graph, "platform": platform, "engine": engine, "system": f"plugin:{system}?all_reduce={algorithm}"}
    short, full = (astra_sim.simulate(symmetry=symmetry, **choices) for symmetry in (True, False))  # type: ignore[arg-type]
    assert (short.simulated_npus, full.simulated_npus) == (4, 12)
    assert short.npu_finish_ns == full.npu_finish_ns
    assert short.messages == full.messages
    assert {**figures(short), "events": 0} == {**figures(full), "events": 0}


def test_npus_that_are_not_alike_are_all_simulated() -> None:
    """Stages that send from one place to another of the next stage."""
    others = (NpuProgram((Receive((), shift(-3), 10),), (2, 3)),)
    graph = ExecutionGraph((Send((), shift(3), 10),), (LogicalDimension(4, 1, 0),), (), None, others)
    with pytest.raises(DeadlockError):
        astra_sim.simulate(workload=graph, platform=RING.format(4))
    around = run(4, [Send((), shift(1), 10), Receive((), shift(-1), 10)])
    assert around.simulated_npus == 4
