"""What is simulated for what: decided before the run wherever it can be, and by the routes that messages and their requests take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import astra_sim
import attrs
import pytest
from astra_sim.graph import Communicate, Compute, ExecutionGraph, NpuProgram, Pass, Receive, Send
from astra_sim.network import RouteDelayNetwork
from astra_sim.platform import Dimension, LogicalDimension, Platform
from astra_sim.run import simulation
from astra_sim.schedule import Collective, Peer, RankProgram, Request, Schedule, exchange, rank, receive, send, shift
from astra_sim.system import ChunkPlan, PhasePlan, QueuePlan, SystemSession
from astra_sim_devkit.testing.bench import BenchSystem
from hypothesis import given, settings
from hypothesis import strategies as st
from support import figures

RUNS = [(engine, symmetry) for engine in ("python", "compiled") for symmetry in (True, False)]


@attrs.frozen
class Uneven:
    """NPUs with as many hops from one to another as a table says; by distance where it has one row."""

    table: tuple[tuple[int, ...], ...]
    name: str = "uneven"

    def hops(self, source: int, destination: int) -> int:
        row = self.table[source % len(self.table)]
        return row[(destination - source) % len(row)]

    def is_symmetric(self, peer: Peer) -> bool:
        return len(self.table) == 1 and peer.operator == "shift"

    def links_per_message(self) -> int:
        return 1

    def links_per_npu(self) -> int:
        return 1


def platform_of(*topologies: Uneven) -> Platform:
    return Platform(tuple(Dimension(topology, len(topology.table[0]), 1, 1.0, 1000.0) for topology in topologies))


@st.composite
def topologies(draw: st.DrawFn) -> Uneven:
    """Distances that are not the same there and back, for all NPUs alike or (backwards) for each its own."""
    size = draw(st.integers(2, 5))
    hops = st.integers(1, 9)
    forth = draw(st.lists(hops, min_size=size, max_size=size))
    if draw(st.booleans()):
        return Uneven((tuple(forth),))
    return Uneven(tuple((*forth[: size // 2 + 1], *(draw(hops) for _ in range(size - size // 2 - 1))) for _ in range(size)))


@settings(max_examples=120, deadline=None)
@given(
    dimensions=st.lists(topologies(), min_size=1, max_size=2),
    collective=st.sampled_from(["all_reduce", "reduce_scatter", "all_gather", "all_to_all"]),
    algorithm=st.sampled_from(["ring", "direct", "direct?window=1"]),
    system=st.sampled_from(["astra1", "astra2"]),
    rendezvous=st.booleans(),
    engine=st.sampled_from(["python", "compiled"]),
    queues=st.integers(1, 2),
)
def test_hops_that_differ_by_direction(
    dimensions: list[Uneven], collective: str, algorithm: str, system: str, rendezvous: bool, engine: str, queues: int
) -> None:
    """A request goes the way back, which may be longer: it counts where one NPU represents all, and whether it can."""
    experiment: dict[str, Any] = {
        "workload": f"plugin:collective?bytes=60000&collective={collective}",
        "platform": platform_of(*dimensions),
        "system": f"plugin:{system}?{collective}={algorithm}",
        "rendezvous": rendezvous,
        "queues_per_dim": queues,
        "engine": engine,
    }
    assert figures(astra_sim.simulate(**experiment)) == figures(astra_sim.simulate(**experiment, symmetry=False))


def test_a_request_takes_the_way_back() -> None:
    """One hop of 1000 ns there, three back; a byte takes a nanosecond."""
    result = astra_sim.simulate(
        workload="plugin:collective?bytes=400&collective=all_gather",
        platform=platform_of(Uneven(((0, 1, 2, 3),))),
        system="plugin:astra1?all_gather=ring&endpoint_delay_ns=0",
        rendezvous=True,
    )
    assert result.simulated_npus == 1
    assert result.finish_ns == 3 * (3000 + 8192 + 1000 + 400)


class BySize(RouteDelayNetwork):
    """Messages of 5000 bytes take as long in both dimensions; others do not."""

    def route_delay(self, dimension: int, hops: int, size: int) -> int:
        return 1_000_000 if size == 5000 else 1000 * size * (1 + dimension)


@pytest.mark.parametrize(("rendezvous", "simulated"), [(False, 3), (True, 6)])
def test_requests_of_members_may_not_take_as_long(rendezvous: bool, simulated: int) -> None:
    """0 sends to 1 over the first dimension, 2 to 3 over the second: the messages take as long, requests for them do not."""
    platform = platform_of(Uneven(((0, 1, 1),)), Uneven(((0, 1),)))
    others = NpuProgram((Receive((), shift(-1), 5000),), (1, 3)), NpuProgram((Compute((), 1000),), (4, 5))
    graph = ExecutionGraph((Send((), shift(1), 5000),), platform.logical_dimensions(), (), None, others)
    runs = [astra_sim.simulate(workload=graph, network=BySize(platform), rendezvous=rendezvous, symmetry=on) for on in (True, False)]
    assert runs[0].simulated_npus == simulated
    assert [bool(each.every_npu_reason) for each in runs] == [simulated == 6, True]
    assert figures(runs[0]) == figures(runs[1])
    assert runs[0].npu_finish_ns == runs[1].npu_finish_ns


# -- decided before the run --------------------------------------------------------------------------------------------


def runs_of(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The scopes in which runs are begun from now on."""
    scopes: list[Any] = []
    run = simulation._run

    def counted(*, choice: Any, **more: Any) -> Any:
        scopes.append(choice.scope.name)
        return run(choice=choice, **more)

    monkeypatch.setattr(simulation, "_run", counted)
    return scopes


@pytest.mark.parametrize(
    ("system", "scope"),
    [
        ("plugin:astra1?all_reduce=double_binary_tree", "PHASES"),
        ("plugin:astra1?all_reduce=double_binary_tree&shared_bus=true", "ALL_NPUS"),
        ("plugin:astra2?all_reduce=double_binary_tree", "ALL_NPUS"),
        ("plugin:astra2?all_reduce=ring", "PHASES"),
        ("plugin:astra1?all_reduce=ring&shared_bus=true", "ONE_NPU"),
    ],
)
def test_the_scope_is_chosen_before_the_run(system: str, scope: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scopes = runs_of(monkeypatch)
    result = astra_sim.simulate(
        workload="plugin:collective?bytes=65536",
        platform="plugin:ring?size=8&links=2&link_bandwidth_gb_per_s=1&link_latency_ns=100",
        system=system,
    )
    assert scopes == [scope]
    assert result.every_npu_reason == ("a collective does not treat all ranks alike" if scope == "ALL_NPUS" else "")


def test_the_result_says_why_every_npu_is_simulated() -> None:
    ring = "plugin:ring?size=8&links=2&link_bandwidth_gb_per_s=1&link_latency_ns=100"
    run: dict[str, Any] = {"workload": "plugin:collective?bytes=65536", "platform": ring}
    assert astra_sim.simulate(**run, symmetry=False).every_npu_reason == "symmetry is off"
    shared = astra_sim.simulate(**run, network="plugin:analytical?congestion=aware")
    assert shared.every_npu_reason == "messages share links of the network"
    assert shared.to_dict()["every_npu_reason"] == shared.every_npu_reason


class Changing(BenchSystem):
    """A system layer whose collectives from the second on have a program for each rank; NPUs are out of step."""

    phases_end_together = False

    def session(self, dimensions: Sequence[LogicalDimension]) -> SystemSession:
        return _ChangingSession(dimensions)


class _ChangingSession(SystemSession):
    def __init__(self, dimensions: Sequence[LogicalDimension]) -> None:
        self._logical = dimensions[0]
        self._issued = 0
        self.queues: Sequence[QueuePlan] = ()

    def issue(self, operation: Communicate, now_ps: int) -> list[ChunkPlan]:
        request = Request(operation.collective, self._logical.size, operation.bytes)
        schedule = Schedule.shared(request, [exchange(shift(1), operation.bytes)]) if not self._issued else _to_the_first(request)
        self._issued += 1
        return [ChunkPlan(None, (PhasePlan(0, self._logical, operation.collective, operation.bytes, schedule, -1),))]


def _to_the_first(request: Request) -> Schedule:
    """All send to rank 0, which replies to each."""
    others = range(1, request.ranks)
    first = RankProgram(tuple(step for other in others for step in (receive(rank(other), 9, after=0), send(rank(other), 9, after=1))), 0)
    rest = RankProgram((send(rank(0), 9, after=0), receive(rank(0), 9, after=0)), 0)
    return Schedule.per_rank(request, [first, *(rest for _ in others)])


@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_plans_that_depend_on_when_they_are_made_start_the_run_over(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first plan is symmetric, and that there is another shows in the run."""
    platform = platform_of(Uneven(((0, 1, 2, 3),)))
    collectives = [Communicate((), Collective.ALL_TO_ALL, 400, (0,), -1, Pass.FORWARD) for _ in range(2)]
    graph = ExecutionGraph(collectives, platform.logical_dimensions(), ())
    scopes = runs_of(monkeypatch)
    runs = [
        astra_sim.simulate(workload=graph, platform=platform, system=Changing(), engine=engine, symmetry=symmetry)
        for symmetry in (True, False)
    ]
    assert scopes == ["PHASES", "ALL_NPUS", "ALL_NPUS"]
    assert figures(runs[0]) == figures(runs[1])


class WrongRanks(BenchSystem):
    """A system layer whose schedules have a rank more than the dimension."""

    def session(self, dimensions: Sequence[LogicalDimension]) -> SystemSession:
        return _WrongRanksSession(dimensions)


class _WrongRanksSession(_ChangingSession):
    def issue(self, operation: Communicate, now_ps: int) -> list[ChunkPlan]:
        request = Request(operation.collective, self._logical.size + 1, operation.bytes)
        schedule = Schedule.shared(request, [exchange(shift(1), operation.bytes)])
        return [ChunkPlan(None, (PhasePlan(0, self._logical, operation.collective, operation.bytes, schedule, -1),))]


@pytest.mark.parametrize(("engine", "symmetry"), RUNS)
def test_a_schedule_of_other_ranks_is_an_error(engine: str, symmetry: bool) -> None:
    platform = platform_of(Uneven(((0, 1, 2, 3),)))
    graph = ExecutionGraph([Communicate((), Collective.ALL_TO_ALL, 400, (0,), -1, Pass.FORWARD)], platform.logical_dimensions(), ())
    with pytest.raises(astra_sim.AstraError, match=r"operation 0 .*: a schedule of 5 ranks was given for a dimension of 4"):
        astra_sim.simulate(workload=graph, platform=platform, system=WrongRanks(), engine=engine, symmetry=symmetry)
