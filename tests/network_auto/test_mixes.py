"""The network `auto` on runs of which parts overlap: pipelines and programs that differ between NPUs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import attrs
import pytest
from astra_sim import Result, RunError, simulate
from astra_sim.graph import Communicate, Composite, Compute, ExecutionGraph, NpuProgram, Operation, Pass, Receive, Send, Wait
from astra_sim.platform import LogicalDimension
from astra_sim.schedule import Collective, rank, shift
from support.pipelines import pipeline

pytest.importorskip("astra_sim_network_auto")

from astra_sim_network_auto.overlaps import Link, Passage, SharedLinks
from astra_sim_network_auto.traffic import GraphTraffic

SWITCH = "plugin:switch?size=8&link_bandwidth_gb_per_s=50&link_latency_ns=500"
AWARE = "analytical?congestion=aware"
LINKS: list[Link] = [(0, "a", "b"), (0, "b", "c"), (0, "c", "d")]


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
    assert {part["basis"] for part in error["parts"]} == {"simulated", "overlapping"}
    assert error["floor_ns"] < error["lower_ns"] < whole.finish_ns < error["upper_ns"]
    assert error["width"] < 0.01
    assert error["simulated_bytes"] * 3 < error["run_bytes"]
    assert not error["proved"]


def test_kinds_are_counted_and_named() -> None:
    parts = both(steps(batches=4), AWARE)[0].figures["network_error"]["parts"]
    counts = {(part["name"], part["count"]) for part in parts}
    # Of each stage: 2 layers x 4 batches x 2 passes among tensor ranks, gradients of 2 layers, a message for each batch.
    expected = {("1 x all_reduce of 65537 bytes", 16), ("1 x all_reduce of 65536 bytes", 2), ("1 x message of 65536 bytes", 4)}
    assert counts == {*expected, ("waiting for others on links", 1)}


def test_a_run_without_overlaps_is_the_whole_run_on_a_network_without_state() -> None:
    in_parts, whole = both(pipeline(8, 2, 4, 1, 3, 300_000_000, 65536, 65537, 0), AWARE)
    error = in_parts.figures["network_error"]
    assert in_parts.finish_ns == whole.finish_ns == error["lower_ns"]
    assert {part["basis"] for part in error["parts"]} == {"simulated", "overlapping"}


def test_what_is_known_less_well_than_asked_is_simulated_whole() -> None:
    graph = steps(compute_ps=20_000_000)
    in_parts, whole = both(graph, "packet", error="0.1%")
    assert in_parts.finish_ns == whole.finish_ns
    assert [part["basis"] for part in in_parts.figures["network_error"]["parts"]] == ["whole"]
    wide = both(graph, "packet", error="90%")[0].figures["network_error"]
    assert 0.001 < wide["width"] < 0.9
    assert wide["lower_ns"] < whole.finish_ns < wide["upper_ns"]


def test_a_run_too_large_for_that_has_a_wider_bound() -> None:
    graph = attrs.evolve(steps(compute_ps=1000, gradients=1 << 32, batches=2))
    network = {"plugin": "auto", "target": AWARE, "error": "0.001%", "part_bytes": 1 << 30}
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
    assert {part["basis"] for part in error["parts"]} <= {"simulated", "skewed", "overlapping"}
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
    assert {part["basis"] for part in in_parts.figures["network_error"]["parts"]} == {"simulated", "overlapping"}
    assert in_parts.finish_ns == whole.finish_ns


def test_programs_with_a_group_in_common_communicate_at_once() -> None:
    everyone = Communicate((), Collective.ALL_REDUCE, 64, (0, 1), 0, Pass.FORWARD)
    pairs = attrs.evolve(everyone, dimensions=(0,))
    programs: list[list[Operation]] = [[everyone, pairs], [everyone, pairs, Wait((), (0, 1), 0, Pass.FORWARD)]]
    dimensions = (LogicalDimension(2, 1, None), LogicalDimension(4, 2, None))
    traffic = GraphTraffic(ExecutionGraph(programs[0], dimensions, (), others=(NpuProgram(programs[1], range(4, 8)),)), 8)
    assert {kind.npus for kind in traffic.kinds} == {tuple(range(8)), tuple(range(4)), tuple(range(4, 8))}
    assert traffic.instances() == 4


@pytest.mark.parametrize(
    ("links", "passages", "delay"),
    [
        ([{0}, {1}], [(0, 10, 0), (5, 15, 1)], 0),
        ([{0, 1}, {1, 2}], [(0, 10, 0), (5, 15, 1)], 5),
        ([{0, 1}, {1, 2}], [(0, 10, 0), (10, 15, 1)], 0),
        ([{0}, set()], [(0, 10, 0), (2, 4, 1)], 2),
        ([{0}], [(0, 10, 0), (5, 15, 0)], 5),
        ([{0}], [(0, 10, 0), (0, 10, 0)], 10),
        ([{0, 1}, {1, 2}, {2}], [(0, 10, 0), (0, 10, 1), (0, 10, 2)], 20),
        ([{0}, {1}, {2}, {0}], [(0, 10, 0), (0, 10, 1), (0, 10, 2), (4, 6, 3)], 2),
    ],
)
def test_waiting_is_that_of_one_with_its_rivals(links: list[set[int]], passages: list[tuple[int, int, int]], delay: int) -> None:
    shared = SharedLinks([{LINKS[number] for number in each} for each in links], [{number} for number in range(len(links))])
    assert shared.delay_ps(Counter(Passage(*each) for each in passages)) == delay


def test_late_ones_meet_those_of_other_programs() -> None:
    links = [{LINKS[0]}, {LINKS[0]}]
    passages = Counter([Passage(0, 10, 0), Passage(14, 30, 1)])
    apart, of_one = SharedLinks(links, [{0}, {1}]), SharedLinks(links, [{0, 1}, {1}])
    assert [apart.delay_ps(passages, late) for late in (0, 3, 6, 10)] == [0, 0, 2, 6]
    assert of_one.delay_ps(passages, 10) == 0


def test_no_run_is_shorter_than_its_busiest_link_needs() -> None:
    """Each NPU sends eight messages of 1 MiB, of 50 bytes/ns, and the first layer's gathers."""
    graph = pipeline(8, 4, 2, 8, 1, 100_000_000, 1 << 20, 4096, 0)
    in_parts, whole = both(graph, AWARE, error="60%")
    floor = in_parts.figures["network_error"]["floor_ns"]
    assert 8 * (1 << 20) / 50 < floor < whole.finish_ns
