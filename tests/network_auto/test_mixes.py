"""The network `auto` on runs of which parts overlap: pipelines and programs that differ between NPUs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import pytest
from astra_sim import Result, RunError, simulate
from astra_sim.fabric import RouteRules
from astra_sim.fabric.routes import RouteChoice
from astra_sim.graph import Communicate, Composite, Compute, ExecutionGraph, NpuProgram, Operation, Pass, Receive, Send, Wait
from astra_sim.platform import LogicalDimension, Platform
from astra_sim.schedule import Collective, rank, shift
from astra_sim.setup.components import build_platform
from astra_sim.setup.experiment import Experiment
from astra_sim.setup.plugins import shared_plugins
from support.pipelines import pipeline

pytest.importorskip("astra_sim_network_auto")

from astra_sim_network_auto.clusters import RunTimes, merged
from astra_sim_network_auto.components import Member, TrafficComponent, alike, components_of, paths_on
from astra_sim_network_auto.traffic import GraphTraffic

SWITCH = "plugin:switch?size=8&link_bandwidth_gb_per_s=50&link_latency_ns=500"
AWARE = "analytical?congestion=aware"


def steps(batches: int = 4, **changes: int) -> ExecutionGraph:
    """Two stages of two tensor ranks and two replicas."""
    sizes = {"compute_ps": 100_000_000, "message": 65536, "reduced": 65537, "gradients": 65536, **changes}
    return pipeline(8, tensor=2, stages=2, batches=batches, layers=2, **sizes)


def both(graph: ExecutionGraph, target: str, error: str = "1%", platform: str = SWITCH, **more: Any) -> tuple[Result, Result]:
    """A run by its parts, and the whole run on the target."""
    parts: dict[str, Any] = {"workload": graph, "platform": platform, **more}
    return simulate(network={"plugin": "auto", "target": target, "error": error}, **parts), simulate(network=f"plugin:{target}", **parts)


@pytest.mark.parametrize("target", ["packet", "flow", AWARE])
def test_a_pipeline_lies_within_the_bound(target: str) -> None:
    in_parts, whole = both(steps(), target)
    error = in_parts.figures["network_error"]
    assert {part["basis"] for part in error["parts"]} == {"simulated", "together"}
    assert error["floor_ns"] < error["lower_ns"] <= whole.finish_ns <= error["upper_ns"]
    assert (error["lower_ns"] == error["upper_ns"]) == (target == AWARE)
    assert error["width"] < 0.01
    assert error["simulated_bytes"] < error["run_bytes"]
    assert not error["proved"]


def test_kinds_are_counted_and_named() -> None:
    parts = both(steps(batches=4), AWARE)[0].figures["network_error"]["parts"]
    counts = {(part["name"], part["count"]) for part in parts}
    # Of each stage: 2 layers x 4 batches x 2 passes among tensor ranks, gradients of 2 layers, a message for each batch.
    expected = {("1 x all_reduce of 65537 bytes", 16), ("1 x all_reduce of 65536 bytes", 2), ("1 x message of 65536 bytes", 4)}
    assert counts == {*expected, ("traffic that shares links", 6)}


def test_a_run_without_overlaps_is_the_whole_run_on_a_network_without_state() -> None:
    in_parts, whole = both(pipeline(8, 2, 4, 1, 3, 300_000_000, 65536, 65537, 0), AWARE)
    error = in_parts.figures["network_error"]
    assert in_parts.finish_ns == whole.finish_ns == error["lower_ns"]
    assert {part["basis"] for part in error["parts"]} == {"simulated"}


def test_what_is_known_less_well_than_asked_is_simulated_whole() -> None:
    graph = steps(compute_ps=20_000_000)
    in_parts, whole = both(graph, "packet", error="0.1%")
    assert in_parts.finish_ns == whole.finish_ns
    assert [part["basis"] for part in in_parts.figures["network_error"]["parts"]] == ["whole"]
    wide = both(graph, "packet", error="90%")[0].figures["network_error"]
    assert 0.001 < wide["width"] < 0.9
    assert wide["lower_ns"] < whole.finish_ns < wide["upper_ns"]


def test_a_run_too_large_for_that_has_a_wider_bound() -> None:
    graph = steps(batches=8, message=1 << 29, compute_ps=100_000_000_000)
    network = {"plugin": "auto", "target": "flow", "error": "0.001%", "part_bytes": 1 << 30}
    error = simulate(workload=graph, platform=SWITCH, network=network).figures["network_error"]
    assert error["run_bytes"] > 1 << 30
    assert error["width"] > 0.00001
    with pytest.raises(RunError, match="the makespan is known within"):
        simulate(workload=graph, platform=SWITCH, network=network, strict=True)


def test_messages_have_the_times_of_their_ends() -> None:
    """In a node, and between nodes: one program sends both."""
    first: list[Operation] = [
        Compute((), 10_000_000),
        Send((0,), shift(4), 100_000),
        Compute((1,), 10_000_000),
        Send((2,), shift(4), 100_000),
    ]
    last: list[Operation] = [Receive((), shift(-4), 100_000), Receive((0,), shift(-4), 100_000)]
    idle = NpuProgram([Compute((), 0)], [npu for npu in range(16) if npu not in (0, 1, 5, 6, 10)])
    graph = ExecutionGraph(
        [Compute((), 0)], (LogicalDimension(16, 1, None),), (), others=(NpuProgram(first, [1, 6]), NpuProgram(last, [5, 10]), idle)
    )
    dgx = "plugin:dgx_h100?nodes=2"
    in_parts, whole = both(graph, "packet", error="5%", platform=dgx)
    error = in_parts.figures["network_error"]
    assert {part["basis"] for part in error["parts"]} <= {"simulated", "skewed", "together"}
    assert error["lower_ns"] < whole.finish_ns < error["upper_ns"]


def test_collectives_of_composites_take_their_time_on_the_target() -> None:
    reduce = Communicate((), Collective.ALL_REDUCE, 1 << 16, (0,), -1, Pass.FORWARD)
    composite = Composite((), [Compute((), 5_000_000), attrs.evolve(reduce, after=(0,))])
    send, receive = Send((0,), rank(1), 4096), Receive((0,), rank(0), 4096)
    first: list[Operation] = [
        composite,
        send,
        attrs.evolve(composite, after=(1,)),
        attrs.evolve(send, after=(2,)),
        attrs.evolve(send, after=(3,)),
    ]
    second: list[Operation] = [composite, receive, attrs.evolve(receive, after=(1,)), attrs.evolve(receive, after=(2,))]
    rest = NpuProgram([composite], range(2, 8))
    dimension = (LogicalDimension(8, 1, 0),)
    graph = ExecutionGraph(first, dimension, (), others=(NpuProgram(second, [1]), rest))
    in_parts, whole = both(graph, AWARE)
    assert {part["basis"] for part in in_parts.figures["network_error"]["parts"]} == {"simulated"}
    assert in_parts.finish_ns == whole.finish_ns


def test_programs_with_a_group_in_common_communicate_at_once() -> None:
    everyone = Communicate((), Collective.ALL_REDUCE, 64, (0, 1), 0, Pass.FORWARD)
    pairs = attrs.evolve(everyone, dimensions=(0,))
    programs: list[list[Operation]] = [[everyone, pairs], [everyone, pairs, Wait((), (0, 1), 0, Pass.FORWARD)]]
    dimensions = (LogicalDimension(2, 1, None), LogicalDimension(4, 2, None))
    traffic = GraphTraffic(ExecutionGraph(programs[0], dimensions, (), others=(NpuProgram(programs[1], range(4, 8)),)), 8)
    assert {kind.npus for kind in traffic.kinds} == {tuple(range(8)), tuple(range(4)), tuple(range(4, 8))}
    assert traffic.instances() == 4


def platform_of(spec: str) -> Platform:
    experiment, plugins = Experiment(), shared_plugins()
    experiment.use("platform", spec, plugins)
    return build_platform(experiment, plugins)


def components(spec: str, members: Sequence[tuple[int, ...]], choice: RouteChoice = "destination") -> list[TrafficComponent] | None:
    paths = paths_on(platform_of(spec), RouteRules("if_needed", choice))
    assert paths is not None
    return components_of([Member(0, npus) for npus in members], paths)


def test_groups_that_share_no_link_are_alike_where_their_links_are() -> None:
    parts_of = components("plugin:dgx_h100?nodes=4", [tuple(range(8 * node, 8 * node + 8)) for node in range(4)])
    assert parts_of is not None
    assert [component.npus for component in parts_of] == [tuple(range(8 * node, 8 * node + 8)) for node in range(4)]
    assert [len(same) for same in alike(parts_of)] == [4]
    line = components("plugin:mesh?sizes=6&link_bandwidth_gb_per_s=50&link_latency_ns=500", [(0, 1), (2, 3), (3, 5), (4, 5)])
    assert line is not None
    assert [component.npus for component in line] == [(0, 1), (2, 3, 4, 5)]
    assert [len(same) for same in alike(line)] == [1, 1]


def test_roles_and_bandwidths_tell_components_apart() -> None:
    paths = paths_on(platform_of("plugin:dgx_h100?nodes=2"), RouteRules("if_needed"))
    assert paths is not None
    parts_of = components_of([Member(0, (0, 1)), Member(1, (2, 3)), Member(0, (0, 8)), Member(0, (4, 5)), Member(0, (6, 14))], paths)
    assert parts_of is not None
    # NPUs join what they send: the pair in a node and that between nodes are one component.
    assert [[member.npus for member in component.members] for component in parts_of] == [
        [(0, 1), (0, 8)],
        [(2, 3)],
        [(4, 5)],
        [(6, 14)],
    ]
    assert len(list(alike(parts_of))) == 4


def test_routes_that_may_differ_are_not_known() -> None:
    fabric = "plugin:clos?npus=16&leaf_npus=4&link_bandwidth_gb_per_s=50&link_latency_ns=500"
    across = [(0, 4), (1, 5)]
    assert components(fabric, across, "all") is None
    assert components(fabric, [(0, 1), (4, 5)], "all") is not None
    assert components(fabric, across) is not None


@pytest.mark.parametrize(
    ("ends", "apart", "expected"),
    [
        ([(0, 10), (5, 15), (20, 30)], 0, [[0, 1], [2]]),
        ([(0, 10), (10, 15)], 0, [[0], [1]]),
        ([(0, 10), (10, 15)], 1, [[0, 1]]),
        ([(0, 40), (5, 6), (20, 50), (45, 60)], 0, [[0, 1, 2, 3]]),
    ],
)
def test_what_is_under_way_at_once_is_joined(ends: list[tuple[int, int]], apart: int, expected: list[list[int]]) -> None:
    times = RunTimes((), [begin for begin, _ in ends], [end for _, end in ends], 0)
    assert merged(times, lambda one, other: True, lambda one, other: apart, apart) == expected
    assert merged(times, lambda one, other: False, lambda one, other: apart, apart) == [[number] for number in range(len(ends))]


def test_traffic_that_shares_links_runs_together() -> None:
    """Two stages send to each other's NPUs while these reduce: alone each takes half of the time."""
    size, reduced = 1 << 20, 1 << 20
    reduce = Communicate((), Collective.ALL_REDUCE, reduced, (0,), 0, Pass.FORWARD)
    everyone = Communicate((0, 1), Collective.ALL_REDUCE, 64, (0, 1), 0, Pass.FORWARD)
    first: list[Operation] = [reduce, Send((), shift(4), size), everyone]
    second: list[Operation] = [reduce, Receive((), shift(-4), size), everyone]
    for program in (first, second):
        for _ in range(15):
            last = len(program) - 1
            program += [attrs.evolve(each, after=(last,)) for each in program[:2]]
            program.append(attrs.evolve(everyone, after=(last + 1, last + 2)))
    dimensions = (LogicalDimension(4, 1, None), LogicalDimension(2, 4, None))
    graph = ExecutionGraph(first, dimensions, ("l",), others=(NpuProgram(second, range(4, 8)),))
    in_parts, whole = both(graph, "flow", error="3%", system="plugin:astra1")
    error = in_parts.figures["network_error"]
    together = [part for part in error["parts"] if part["basis"] == "together"]
    assert [part["count"] for part in together] == [16]
    assert error["lower_ns"] <= whole.finish_ns <= error["upper_ns"]
    assert in_parts.finish_ns == pytest.approx(whole.finish_ns, rel=2e-3)
    alone = simulate(workload=graph, platform=SWITCH, network="plugin:analytical").finish_ns
    assert whole.finish_ns > 1.05 * alone
    assert error["simulated_bytes"] < error["run_bytes"]


def test_messages_take_until_they_have_arrived() -> None:
    """On `roce` a sender ends later, when it knows; what waits for a message does not wait for that."""
    message = 1 << 20
    first: list[Operation] = []
    second: list[Operation] = []
    for number in range(8):
        after = (len(first) - 1,) if number else ()
        first += [Send(after, rank(1), message), Receive((), rank(1), message)]
        second += [Receive((), rank(0), message), Send((len(second),), rank(0), message)]
    idle = NpuProgram([Compute((), 0)], range(2, 8))
    graph = ExecutionGraph(first, (LogicalDimension(8, 1, 0),), (), others=(NpuProgram(second, [1]), idle))
    in_parts, whole = both(graph, "roce", "2%")
    assert in_parts.figures["network_error"]["parts"][0]["basis"] == "simulated"
    error = in_parts.figures["network_error"]
    assert error["lower_ns"] <= whole.finish_ns <= error["upper_ns"]


def test_no_run_is_shorter_than_its_busiest_link_needs() -> None:
    """Each NPU sends eight messages of 1 MiB, of 50 bytes/ns."""
    graph = pipeline(8, 1, 2, 8, 1, 100_000_000, 1 << 20, 4096, 4096)
    in_parts, whole = both(graph, AWARE, error="60%")
    floor = in_parts.figures["network_error"]["floor_ns"]
    assert 8 * (1 << 20) / 50 < floor < whole.finish_ns
