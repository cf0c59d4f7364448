"""Networks that price whole collectives: when those begin and end, where they take their turn, and what counts."""

from __future__ import annotations

import math
from typing import Any

import astra_sim
import pytest
from astra_sim import DeadlockError, PluginError
from astra_sim.graph import Communicate, Compute, ExecutionGraph, NpuProgram, Operation, Pass, Receive, Send
from astra_sim.network import RouteDelayNetwork
from astra_sim.platform import Group, GroupShape, LogicalDimension, Platform, product_dimension
from astra_sim.schedule import Collective, shift
from astra_sim_devkit.testing.deliveries import check_prices
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import figures
from support.components import components_of
from support.layered_experiments import experiments
from support.networks import Replayed

ENGINES = ["python", "compiled"]
ALL_REDUCE = Collective.ALL_REDUCE
NODES_OF_4 = "plugin:torus?sizes=4,4&links=2&link_bandwidth_gb_per_s=1&link_latency_ns=100"


class Priced(RouteDelayNetwork):
    """Messages as on another network; a collective takes 1 us, 1 ns a rank, and 1 ps a byte. `refused` are left to schedules."""

    def __init__(self, inner: RouteDelayNetwork, refused: tuple[Collective, ...] = ()) -> None:
        super().__init__(inner.platform)
        self.accounting_dimension = inner.accounting_dimension
        self._inner = inner
        self._refused = refused
        self.asked: list[tuple[Collective, int, GroupShape]] = []

    def route_delay(self, dimension: int, hops: int, size: int) -> int:
        return self._inner.route_delay(dimension, hops, size)

    def collective_ps(self, collective: Collective, size: int, shape: GroupShape) -> int | None:
        self.asked.append((collective, size, shape))
        return None if collective in self._refused else 1_000_000 + 1000 * shape.ranks + 100_000 * (shape.nodes - 1) + size


class PricedReplayed(Replayed):
    """An event network that prices collectives."""

    def collective_ps(self, collective: Collective, size: int, shape: GroupShape) -> int | None:
        return 1_000_000 + 1000 * shape.ranks + 100_000 * (shape.nodes - 1) + size


def priced(refused: tuple[Collective, ...] = (), **sections: Any) -> Priced:
    inner = components_of(workload="plugin:collective?bytes=1", **{"platform": NODES_OF_4, **sections}).network
    assert isinstance(inner, RouteDelayNetwork)
    return Priced(inner, refused)


def all_reduce(size: int, group: tuple[int, ...] | None = None, dimensions: tuple[int, ...] = (0,), **more: Any) -> Communicate:
    after = more.pop("after", ())
    return Communicate(after, ALL_REDUCE, size, dimensions, -1, Pass.FORWARD, group=group, **more)


def run(network: Any, first: list[Operation], others: dict[tuple[int, ...], list[Operation]], **more: Any) -> astra_sim.Result:
    """Run a program, and that of some NPUs that do something else."""
    programs = tuple(NpuProgram(tuple(program), npus) for npus, program in others.items())
    graph = ExecutionGraph(tuple(first), network.platform.logical_dimensions(), (), None, programs)
    return astra_sim.simulate(workload=graph, network=network, **{"system": "plugin:astra2", **more})


# -- Time --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("symmetry", [True, False])
@pytest.mark.parametrize("system", ["plugin:astra1", "plugin:astra2"])
def test_a_priced_collective_takes_its_time_and_sends_no_message(engine: str, symmetry: bool, system: str) -> None:
    network = priced()
    result = run(network, [all_reduce(4000)], {}, engine=engine, symmetry=symmetry, system=system)
    assert result.finish_ns == 1000 + 4 + 4
    assert result.messages == 0
    assert result.network["payload_bytes"] == 6000
    assert [each.bytes for each in result.dimensions] == [6000, 0]
    assert network.asked == [(ALL_REDUCE, 4000, GroupShape((4, 1, 1), 4))]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("system", ["plugin:astra1", "plugin:astra2"])
def test_each_group_waits_for_its_own_last_member(engine: str, system: str) -> None:
    late: list[Operation] = [Compute((), 7_000_000), all_reduce(4000, after=(0,))]
    result = run(priced(), [all_reduce(4000)], {(5,): late}, engine=engine, system=system)
    took = 1008
    assert result.npu_finish_ns == [took] * 4 + [7000 + took] * 4 + [took] * 8


@pytest.mark.parametrize("engine", ENGINES)
def test_a_group_of_ranks_waits_for_the_latest(engine: str) -> None:
    group = (1, 6, 11)
    late: list[Operation] = [Compute((), 3_000_000), all_reduce(3000, group, after=(0,)), Compute((1,), 1_000_000)]
    early: list[Operation] = [all_reduce(3000, group)]
    result = run(priced(), [Compute((), 1000)], {(6,): late, (1, 11): early}, engine=engine)
    took = 1000 + 3 + 200 + 3
    assert [result.npu_finish_ns[npu] for npu in (0, 1, 6, 11)] == [1, 3000 + took, 4000 + took, 3000 + took]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_shared_bus_carries_nothing_of_it(engine: str) -> None:
    bus = "plugin:astra1?shared_bus=true&bus_latency_ns=5&bus_overhead_ns=3&bus_gap_ns=2&bus_gap_per_byte_ns=0.5"
    plain = run(priced(), [all_reduce(4000)], {}, engine=engine, system="plugin:astra1")
    for symmetry in (True, False):
        assert run(priced(), [all_reduce(4000)], {}, engine=engine, system=bus, symmetry=symmetry).finish_ns == plain.finish_ns


@pytest.mark.parametrize("engine", ENGINES)
def test_a_member_that_does_not_come_is_named(engine: str) -> None:
    with pytest.raises(DeadlockError, match="NPU 0 waits for NPU 2 to come to the collective"):
        run(priced(), [all_reduce(64, (0, 2))], {tuple(range(1, 16)): [Compute((), 1000)]}, engine=engine)


def test_a_priced_collective_on_an_event_network() -> None:
    inner = priced()
    result = run(PricedReplayed(inner), [all_reduce(4000)], {})
    assert result.finish_ns == run(inner, [all_reduce(4000)], {}).finish_ns
    assert result.messages == 0


# -- Which collectives are priced --------------------------------------------------------------------------------------


def test_what_is_not_priced_goes_by_schedule() -> None:
    network = priced((ALL_REDUCE,))
    by_schedule = run(network._inner, [all_reduce(4000)], {})
    result = run(network, [all_reduce(4000)], {})
    assert figures(result)["finish_ns"] == by_schedule.finish_ns
    assert result.messages == by_schedule.messages > 0
    assert len(network.asked) == 1


def test_a_collective_that_names_its_algorithm_goes_by_schedule() -> None:
    network = priced()
    assert run(network, [all_reduce(1600, algorithm="ring")], {}).messages > 0
    assert network.asked == []


def test_the_network_is_asked_once_for_collectives_that_are_alike() -> None:
    network = priced()
    run(network, [all_reduce(4000), all_reduce(4000, dimensions=(1,)), all_reduce(4000, dimensions=(0,)), all_reduce(8)], {})
    assert sorted(network.asked) == sorted(
        [
            (ALL_REDUCE, 4000, GroupShape((4, 1, 1), 4)),
            (ALL_REDUCE, 4000, GroupShape((4, 4, 1), 1)),
            (ALL_REDUCE, 8, GroupShape((4, 1, 1), 4)),
        ]
    )


def test_several_dimensions_are_one_collective() -> None:
    network = priced()
    result = run(network, [all_reduce(16, dimensions=(0, 1))], {})
    assert network.asked == [(ALL_REDUCE, 16, GroupShape((16, 4, 1), 4))]
    assert [each.bytes for each in result.dimensions] == [30, 0]


@pytest.mark.parametrize("answer", [-1, math.nan, "soon"])
def test_an_answer_that_is_no_time_is_an_error(answer: Any) -> None:
    network = priced()
    network.collective_ps = lambda collective, size, shape: answer  # type: ignore[method-assign]
    with pytest.raises(PluginError, match="the time of an all_reduce of 4000 bytes"):
        run(network, [all_reduce(4000)], {})


def test_the_contract_looks_at_prices() -> None:
    network = priced()
    check_prices(network)
    check_prices(priced((ALL_REDUCE,))._inner)
    network.collective_ps = lambda collective, size, shape: 10**12 - size  # type: ignore[method-assign]
    with pytest.raises(AssertionError, match=r"of 1000 bytes on 4 ranks in 1 nodes is .* and that of 1 bytes .*expected no less"):
        check_prices(network)


# -- Queues ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_priced_collectives_wait_in_the_queue_of_their_dimension(engine: str) -> None:
    system = "plugin:astra2?one_at_a_time=false&active_chunks_per_dimension=1"
    same = run(priced(), [all_reduce(4000), all_reduce(4000)], {}, engine=engine, system=system)
    other = run(priced(), [all_reduce(4000), all_reduce(4000, dimensions=(1,))], {}, engine=engine, system=system)
    assert same.finish_ns == 2 * 1008
    assert other.finish_ns == 1008 + 300


@pytest.mark.parametrize("engine", ENGINES)
def test_an_urgent_one_goes_before_those_that_wait(engine: str) -> None:
    system = "plugin:astra2?one_at_a_time=false&active_chunks_per_dimension=1&scheduling_policy=fifo"
    program: list[Operation] = [all_reduce(4000), all_reduce(2_000_000), all_reduce(40, urgent=True), Compute((2,), 1000)]
    result = run(priced(), program, {}, engine=engine, system=system, symmetry=False)
    assert result.finish_ns == pytest.approx(1008 + 1004.04 + 3004, abs=0.001)


def test_update_time_comes_after_it() -> None:
    assert run(priced(), [all_reduce(4000, update_ps=5000)], {}).finish_ns == 1008 + 5


# -- Symmetry ----------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(experiment=experiments(), refused=st.sets(st.sampled_from(list(Collective))))
def test_symmetry_and_engines_agree(experiment: dict[str, Any], refused: set[Collective]) -> None:
    sections = {kind: experiment.pop(kind) for kind in ("platform", "network")}
    answers = [
        figures(astra_sim.simulate(**experiment, network=priced(tuple(refused), **sections), engine=engine, symmetry=symmetry))
        for engine in ENGINES
        for symmetry in (True, False)
    ]
    assert all(answer == answers[0] for answer in answers)


@settings(max_examples=40, deadline=None)
@given(
    computes=st.lists(st.integers(1, 3_000_000), min_size=8, max_size=8),
    sizes=st.lists(st.integers(1, 2_000_000), min_size=3, max_size=3),
    system=st.sampled_from(("plugin:astra1", "plugin:astra2", "plugin:astra2?one_at_a_time=false&active_chunks_per_dimension=1")),
    across=st.booleans(),
)
def test_stages_with_programs_of_their_own_agree(computes: list[int], sizes: list[int], system: str, across: bool) -> None:
    # Two stages of eight: each reduces within itself, the first sends to the second; with `across` both reduce together, too.
    stages = tuple(range(8)), tuple(range(8, 16))
    first: list[Operation] = [Compute((), computes[0]), all_reduce(sizes[0], stages[0], after=(0,)), Send((1,), shift(8), sizes[1])]
    second: list[Operation] = [Receive((), shift(-8), sizes[1]), Compute((0,), computes[1]), all_reduce(sizes[2], stages[1], after=(1,))]
    first += [Compute((2,), computes[2]), all_reduce(sizes[2], stages[0], after=(2,)), all_reduce(sizes[0], stages[0], after=(3,))]
    second += [Compute((), computes[3]), all_reduce(sizes[0], stages[1], after=(3,)), Compute((2, 4), computes[4])]
    if across:
        first.append(all_reduce(sizes[1], after=(5,)))
        second.append(all_reduce(sizes[1], after=(5,)))
    answers = [
        figures(run(priced(), first, {stages[1]: second}, system=system, engine=engine, symmetry=symmetry))
        for engine in ENGINES
        for symmetry in (True, False)
    ]
    assert all(answer == answers[0] for answer in answers)


# -- Shapes ------------------------------------------------------------------------------------------------------------


def platform_of(*sizes: int) -> Platform:
    return components_of(
        workload="plugin:collective?bytes=1",
        platform=f"plugin:torus?sizes={','.join(map(str, sizes))}&links=2&link_bandwidth_gb_per_s=1",
    ).platform


@pytest.mark.parametrize(
    ("logical", "shape"),
    [
        (LogicalDimension(8, 1, 0), GroupShape((8, 1, 1, 1), 8)),  # tensor parallel in a node
        (LogicalDimension(2, 1, 0), GroupShape((2, 1, 1, 1), 2)),
        (LogicalDimension(16, 8, None), GroupShape((16, 16, 4, 1), 1)),  # data parallel: one of each node
        (LogicalDimension(16, 4, None), GroupShape((16, 8, 2, 1), 2)),  # two of each node
        (LogicalDimension(128, 1, None), GroupShape((128, 16, 4, 1), 8)),
        (product_dimension([LogicalDimension(2, 1, 0), LogicalDimension(4, 32, 2)]), GroupShape((8, 4, 4, 1), 2)),
        (product_dimension([LogicalDimension(4, 8, 1), LogicalDimension(8, 1, 0)]), GroupShape((32, 4, 1, 1), 8)),
        (Group((0, 1, 8, 9, 10, 127)), GroupShape((6, 3, 2, 1), 1)),
    ],
)
def test_how_groups_lie(logical: LogicalDimension | Group, shape: GroupShape) -> None:
    platform = platform_of(8, 4, 4)
    assert platform.shape(logical) == shape


def test_where_groups_lie_differently_the_worst_counts() -> None:
    # 0 to 2, 3 to 5, ... on nodes of 4: the first is within one node.
    assert platform_of(4, 6).shape(LogicalDimension(3, 1, None)) == GroupShape((3, 2, 1), 1)


@given(st.data())
def test_shapes_by_arithmetic_are_those_of_the_members(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    platform = platform_of(*sizes)
    chosen = data.draw(st.sets(st.sampled_from(range(len(sizes))), min_size=1))
    logical = product_dimension([platform.logical_dimensions()[number] for number in chosen])
    assert logical.size == math.prod(sizes[number] for number in chosen)
    groups = logical.groups(platform.npus)
    assert sorted(npu for group in groups for npu in group) == list(range(platform.npus))
    for group in groups:
        assert [logical.index(npu) for npu in group] == list(range(logical.size))
        assert platform.shape(Group(tuple(group))) == platform.shape(logical)
