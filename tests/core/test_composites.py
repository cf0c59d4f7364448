"""Composites: operations that run as one leave the same record as if each ran by itself."""

from __future__ import annotations

from typing import Any

import astra_sim
import attrs
import pytest
from astra_sim.graph import Communicate, Composite, Compute, ExecutionGraph, Operation, Pass, Unit, Wait, check_graph
from astra_sim.platform import LogicalDimension
from astra_sim.schedule import Collective
from astra_sim_explain.what_if import scaled_compute
from support import figures

DIMENSIONS = (LogicalDimension(4, 1, 0), LogicalDimension(2, 4, 1))
LINKS = {"topology": "switch", "links": 1, "link_bandwidth_gb_per_s": 50, "link_latency_ns": 300}
PLATFORM = {"dimensions": [LINKS | {"size": 4}, LINKS | {"size": 2}]}


def compute(after: tuple[int, ...], ps: int, name: str) -> Compute:
    return Compute(after, ps, name=name)


def communicate(after: tuple[int, ...], size: int, dimension: int, collective: Collective = Collective.ALL_REDUCE) -> Communicate:
    return Communicate(after, collective, size, (dimension,), -1, Pass.FORWARD, name=f"exchange {dimension}", unit=Unit.NONE)


ROWS: list[Operation] = [
    compute((), 2_000_000, "first"),
    communicate((0,), 1 << 20, 0),
    compute((0,), 1_000_000, "beside"),
    communicate((2,), 1 << 18, 1),
    Wait((2,), (1, 3), -1, Pass.FORWARD),
    compute((4,), 3_000_000, "last"),
]
"""Compute beside two collectives over different dimensions, and what waits for both."""


def graph(*operations: Operation, layers: tuple[str, ...] = ()) -> ExecutionGraph:
    return ExecutionGraph(operations, DIMENSIONS, layers)


def run(workload: ExecutionGraph, **options: Any) -> Any:
    result: dict[str, Any] = {"platform": PLATFORM, "system": "plugin:astra2", "npu_times": True, "explain": "path"}
    return astra_sim.simulate(workload=workload, **result | options)


def parted() -> ExecutionGraph:
    """The rows in three composites, of which the second begins when the first compute has ended, and the third with the last one."""
    first = Composite((), ROWS[:1])
    second = Composite((0,), ROWS[1:3], (2,), first)
    third = Composite((1,), ROWS[3:], (), second)
    return graph(first, second, third)


def told(result: Any) -> dict[str, Any]:
    """What a result says, but for the order of rows that are alike."""
    tables = {name: sorted(rows, key=repr) for name, rows in result.npu_tables().items()}
    tables.pop("links", None)  # loads are those of messages that the network itself has carried
    path = sorted(map(repr, result.explanation.path))
    results = figures(result)
    results["network"].pop("dimensions", None)
    results.pop("links", None)
    return results | tables | {"explanation": path, "sensitivities": result.explanation.sensitivities}


@pytest.mark.parametrize("options", [{}, {"symmetry": False}, {"engine": "python"}, {"network": "plugin:analytical?congestion=aware"}])
@pytest.mark.parametrize("workload", [graph(Composite((), tuple(ROWS))), parted()])
def test_operations_leave_the_same_record(workload: ExecutionGraph, options: dict[str, Any]) -> None:
    assert told(run(workload, **options)) == told(run(graph(*ROWS), **options))


def test_operations_count_for_their_layers() -> None:
    rows = [each if isinstance(each, Wait) else attrs.evolve(each, layer=place % 2) for place, each in enumerate(ROWS)]
    rows[3] = attrs.evolve(communicate((2,), 1 << 18, 1), layer=1, blocking=True)
    once = run(graph(*rows, layers=("even", "odd"))).layers
    assert once[1].forward.total_comm_ns > once[1].forward.exposed_comm_ns > 0
    assert run(graph(Composite((), tuple(rows)), layers=("even", "odd"))).layers == once


def test_the_program_goes_on_when_a_composite_ends() -> None:
    composite = Composite((), tuple(ROWS))
    after: list[Operation] = [compute((0,), 500_000, "after"), attrs.evolve(composite, after=(1,))]
    result = run(graph(composite, *after))
    once = run(graph(*ROWS))
    assert result.finish_ns == pytest.approx(2 * once.finish_ns + 500)
    assert result.messages == 2 * once.messages
    assert sum(row.ps for row in result.explanation.path) == result.explanation.finish_ps


def test_compute_within_composites_can_be_scaled() -> None:
    for workload in (graph(Composite((), tuple(ROWS))), parted()):
        for layer in (None, "last"):
            one, own = (scaled_compute(each, 1.5, layer) for each in (workload, graph(*ROWS)))
            assert run(one).finish_ns == run(own).finish_ns > run(workload).finish_ns


def test_bounds_are_those_of_the_operations() -> None:
    for workload in (graph(Composite((), tuple(ROWS))), parted()):
        assert run(workload).explanation.bounds == run(graph(*ROWS)).explanation.bounds


@pytest.mark.parametrize(
    ("composite", "words"),
    [
        (Composite((), [compute((1,), 1, "")]), "operation waits for one that is not before it"),
        (Composite((), [communicate((), 8, 2)]), "operation 0 uses dimension 2 of 2"),
        (Composite((), [communicate((), -8, 0)]), "operation 0 has bytes -8; expected a whole number from 0"),
        (Composite((), [attrs.evolve(communicate((), 8, 0), group=(0, 1))]), "collective of the group"),
        (Composite((), [Composite((), [])]), "a composite with a composite"),
        (Composite((), [Wait((), (), 0, Pass.FORWARD)]), r"operation 0 is a wait of layer 0; expected one without a layer \(-1\)"),
        (Composite((), [compute((), 1, "")], (1,)), r"ends with its operations \[1\]; it has 1"),
    ],
)
def test_wrong_composites_are_errors(composite: Composite, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        check_graph(graph(composite, layers=("first",)), 8)
