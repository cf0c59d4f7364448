"""Programs in columns, collectives that are planned once for all, and figures made of columns: all as one by one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import astra_sim
import pytest
from astra_sim import InputError
from astra_sim.engine.columns import union
from astra_sim.engine.interface import EngineType, PhaseStepRecord, PhaseStepRecords
from astra_sim.graph import Communicate, Compute, ExecutionGraph, NpuProgram, Pass, check_graph
from astra_sim.platform import LogicalDimension
from astra_sim.rows import Dependencies, Rows, column, kinds_of, packed
from astra_sim.schedule import Collective
from astra_sim.setup.engines import compiled_engine, find_engine
from astra_sim_chakra import Node, NodeType, write_nodes
from astra_sim_systems.chunking import Session
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import figures
from support.layered_experiments import experiments

needs_compiled = pytest.mark.skipif(compiled_engine() is None, reason="no compiled engine")
ENGINES: list[EngineType] = [find_engine("python"), find_engine()]
"""The readable one, and the compiled one where it is installed."""
TORUS = "plugin:torus?sizes=4,2&link_bandwidth_gib_per_s=50&link_latency_ns=500"


def rows(*members: tuple[str, tuple[int, ...]]) -> Rows[str]:
    kinds = sorted({name for name, _ in members})
    after = Dependencies.of([waits for _, waits in members])
    return Rows(
        kinds, column([kinds.index(name) for name, _ in members], "I"), after, lambda kind, row, after: f"{kind} {row} after {list(after)}"
    )


def test_rows_are_a_sequence() -> None:
    result = rows(("b", ()), ("a", (0,)), ("b", (0, 1)))
    assert list(result) == ["b 0 after []", "a 1 after [0]", "b 2 after [0, 1]"]
    assert result[-1] == result[2]
    assert result[1:] == list(result)[1:]
    assert kinds_of(result) == ["a", "b"]
    assert kinds_of(["x", "x"]) == ["x", "x"]
    with pytest.raises(IndexError, match="row 3 of 3"):
        result[3]


@pytest.mark.parametrize(
    ("waits", "message"),
    [
        ([(), (1,)], "operation 1 waits for operation 1; only earlier operations can be waited for"),
        ([(), (0,), (0, 7)], "operation 2 waits for operation 7"),
    ],
)
def test_a_graph_in_columns_is_checked(waits: list[tuple[int, ...]], message: str) -> None:
    def make(kind: Compute, row: int, after: tuple[int, ...]) -> Compute:
        return Compute(after, kind.duration_ps)

    operations = Rows([Compute((), 5)], column([0] * len(waits), "I"), Dependencies.of(waits), make)
    with pytest.raises(ValueError, match=message):
        check_graph(ExecutionGraph(operations, (), ()), 1)


# -- Collectives that repeat -------------------------------------------------------------------------------------------


def never(self: Session, operation: Communicate) -> bool:
    return False


@settings(max_examples=80, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(experiment=experiments(), symmetry=st.booleans())
def test_planning_once_is_planning_every_time(experiment: dict[str, Any], symmetry: bool) -> None:
    answer = figures(astra_sim.simulate(**experiment, symmetry=symmetry))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Session, "repeats", never)
        assert figures(astra_sim.simulate(**experiment, symmetry=symmetry)) == answer


def nodes(rank: int) -> Iterator[Node]:
    """Rounds of two all-reduces on all, one in a group of every other rank, and a message to the next rank."""
    for first in range(0, 40, 5):
        waits = (first - 1,) if first else ()
        common = {"is_cpu_op": False, "type": NodeType.COMM_COLL_NODE, "comm_type": 0}
        yield Node(id=first, type=NodeType.COMP_NODE, duration_ns=1000 * (1 + rank % 2), data=waits, is_cpu_op=False)
        yield Node(id=first + 1, name=f"big {first}", data=(first,), comm_size=1 << 20, involved_dim=(True, True), **common)  # type: ignore[arg-type]
        yield Node(id=first + 2, data=(first,), comm_size=(1 << 18) + first % 2, involved_dim=(True, False), **common)  # type: ignore[arg-type]
        yield Node(id=first + 3, data=(first,), comm_size=1 << 19, pg_name=str(rank % 2 + 1), **common)  # type: ignore[arg-type]
        to, source = (rank + 1) % 8, (rank - 1) % 8
        yield Node(id=first + 4, type=NodeType.COMM_SEND_NODE, data=(first + 1, first + 3), comm_size=4096, comm_dst=to, is_cpu_op=False)
        yield Node(id=first + 40, type=NodeType.COMM_RECV_NODE, data=(first + 2,), comm_size=4096, comm_src=source, is_cpu_op=False)


GROUPS = {str(parity + 1): list(range(parity, 8, 2)) for parity in range(2)}


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Traces of 8 ranks, two programs."""
    prefix = tmp_path_factory.mktemp("traces") / "t"
    for rank in range(8):
        write_nodes(f"{prefix}.{rank}.et", nodes(rank))
    return prefix


@pytest.mark.parametrize("network", ["analytical", "analytical?congestion=aware"])
@pytest.mark.parametrize("options", ["", "&one_at_a_time=false", "&splits=3&active_chunks_per_dimension=2&scheduling_policy=fifo"])
def test_traces_are_planned_once(traces: Path, options: str, network: str) -> None:
    answers = []
    for engine, repeats in (("auto", None), ("python", None), ("auto", never), ("python", never)):
        with pytest.MonkeyPatch.context() as patch:
            if repeats is not None:
                patch.setattr(Session, "repeats", repeats)
            result = astra_sim.simulate(
                workload=str(traces),
                platform=TORUS,
                network=f"plugin:{network}",
                system=f"plugin:astra2?all_reduce=ring{options}",
                groups=GROUPS,
                engine=engine,
            )
        answers.append((figures(result), list(result.timeline())))
    assert answers[1:] == answers[:1] * 3
    assert answers[0][0]["messages"] > 0


def test_the_system_is_asked_once_for_each_kind(traces: Path) -> None:
    asked = []
    with pytest.MonkeyPatch.context() as patch:
        issue = Session.issue

        def counting(self: Session, operation: Communicate, now_ps: int) -> Any:
            asked.append((operation.bytes, operation.group))
            return issue(self, operation, now_ps)

        patch.setattr(Session, "issue", counting)
        astra_sim.simulate(workload=str(traces), platform=TORUS, system="plugin:astra2?all_reduce=ring", groups=GROUPS)
    assert len(asked) == len(set(asked)) == 1 + 2 + 2


@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_programs_that_do_not_share_the_same_collective(engine: str) -> None:
    if engine == "compiled" and compiled_engine() is None:
        pytest.skip("no compiled engine")

    def program(size: int) -> list[Communicate]:
        first = Communicate((), Collective.ALL_REDUCE, 1024, (0,), -1, Pass.FORWARD)
        return [first, Communicate((0,), Collective.ALL_REDUCE, size, (0,), -1, Pass.FORWARD, name="second")]

    platform = "plugin:ring?size=4&links=2&link_bandwidth_gib_per_s=50&link_latency_ns=500"
    others = (NpuProgram(tuple(program(2048)), (1, 3)),)
    graph = ExecutionGraph(tuple(program(4096)), (LogicalDimension(4, 1, 0),), (), None, others)
    message = (
        r"NPU 1: operation 1 \(all_reduce of 2048 bytes, 'second'\) is collective number 2 of its group,"
        r" but that of NPU 0 is operation 1 \(all_reduce of 4096 bytes, 'second'\)"
    )
    with pytest.raises(InputError, match=message):
        astra_sim.simulate(workload=graph, platform=platform, engine=engine)


# -- Figures -----------------------------------------------------------------------------------------------------------

times = st.integers(0, 60)


@needs_compiled
@given(
    st.lists(st.tuples(st.integers(0, 2), times, st.integers(-1, 20))), st.lists(st.integers(-1, 20), min_size=3, max_size=3), st.booleans()
)
def test_computing(tasks: list[tuple[int, int, int]], durations: list[int], timed: bool) -> None:
    ended = [end + 20 for _, end, _ in tasks]
    own = column([time for _, _, time in tasks], "q") if timed else None
    result = Rows[str](
        "abc", column([kind for kind, _, _ in tasks], "I"), Dependencies.of([()] * len(tasks)), lambda kind, row, after: kind, own
    )
    answer, again = (engine.computing(result, durations, ended) for engine in ENGINES)
    assert again == answer
    taken = [0 if durations[kind] < 0 else time if timed and time >= 0 else durations[kind] for kind, _, time in tasks]
    covered = {moment for time, end in zip(taken, ended, strict=True) for moment in range(end - time, end)}
    assert answer == (sum(taken), len(covered))


@needs_compiled
@given(st.lists(st.tuples(st.integers(0, 4), times, times, times)))
def test_uses(steps: list[tuple[int, int, int, int]]) -> None:
    records = [PhaseStepRecord._make([0, step, *sorted(moments), 0, 0]) for step, *moments in steps]
    columns = PhaseStepRecords(*zip(*records, strict=True)) if records else PhaseStepRecords(*[()] * len(PhaseStepRecord._fields))
    assert list(columns) == records
    assert columns[: len(records)] == records
    answers = [engine.uses_of(columns, [(0,), (1,), (1, 2), (), (2,)], 3) for engine in ENGINES]
    seen = [(counts, [(use.spent, list(use.spans.begins), list(use.spans.ends)) for use in uses]) for counts, uses in answers]
    assert seen[0] == seen[1]
    assert seen[0][0] == [sum(record.step == step for record in records) for step in range(5)]


@needs_compiled
@given(st.lists(st.tuples(st.integers(0, 2), times)))
def test_repeated(members: list[tuple[int, int]]) -> None:
    parts = [[1, 2], [], [-3]]
    numbers, offsets = column((number for number, _ in members), "I"), column((offset for _, offset in members), "q")
    answers = [engine.repeated([packed(part, "q") for part in parts], numbers, offsets) for engine in ENGINES]
    assert answers[0] == answers[1] == packed((each + offset for number, offset in members for each in parts[number]), "q")


@given(st.lists(st.tuples(times, times).map(sorted).map(tuple)))
def test_union(spans: list[tuple[int, int]]) -> None:
    result = union(spans)
    pairs = list(zip(result.begins, result.ends, strict=True))
    assert all(before[1] < after[0] for before, after in pairwise(pairs))
    assert {t for begin, end in pairs for t in range(begin, end)} == {t for begin, end in spans for t in range(begin, end)}
    assert result.covered == len({t for begin, end in spans for t in range(begin, end)})
