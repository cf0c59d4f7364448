"""The flow network: what messages take, alone and together, over which ways, and what the network says of its links."""

from __future__ import annotations

import csv
import re
import signal
from pathlib import Path
from typing import Any

import astra_sim
import pytest
from astra_sim.graph import Communicate, Compute, ExecutionGraph, Pass
from astra_sim.network import Message
from astra_sim.platform import Dimension, LogicalDimension, Platform
from astra_sim.report.network_files import network_files
from astra_sim.schedule import Collective
from astra_sim_devkit.testing.deliveries import Batch, deliver
from astra_sim_network_analytical.network import AnalyticalNetwork
from astra_sim_network_analytical.options import AnalyticalOptions
from astra_sim_network_analytical.topologies import FullyConnected, Ring, Switch
from astra_sim_platforms.graph import GraphFile, GraphLink
from astra_sim_platforms.topologies import FatTreeOptions, fat_tree
from hypothesis import given, settings
from hypothesis import strategies as st
from support import ROOT

pytest.importorskip("astra_sim_network_flow")

from astra_sim_network_flow.network import FlowNetwork
from astra_sim_network_flow.options import PRESETS, FlowOptions

WIRES = "link_bandwidth_gb_per_s=25&link_latency_ns=500"
FAT_TREE = f"plugin:fat_tree?arity=4&levels=2&{WIRES}"
DIRECT = "plugin:astra1?all_to_all=direct&all_reduce=ring"


def graph(npus: int, *links: tuple[int, int, float, float]) -> Platform:
    """A platform of links both ways: two nodes, bytes/ns, ns."""
    both = tuple(GraphLink(*ends, bandwidth, latency) for a, b, bandwidth, latency in links for ends in ((a, b), (b, a)))
    return Platform((Dimension(GraphFile(npus, both, (1,) * npus * npus), npus, 1, 1.0, 0.0),))


def network(platform: Platform, **options: Any) -> FlowNetwork:
    return FlowNetwork(FlowOptions(**{"tolerance": 0, **options}), platform)


def arrivals(made: FlowNetwork, *sent: tuple[int, int, int, int]) -> list[int]:
    """When messages arrive (ps): each a time (ps), source, destination, bytes."""
    made.begin()
    numbered = [(time, Message(number, *rest)) for number, (time, *rest) in enumerate(sent)]
    batches = [Batch(time, [message for at, message in numbered if at == time]) for time in sorted({time for time, _ in numbered})]
    arrived = deliver(made, batches)
    return [arrived[number] for number in range(len(sent))]


# -- What messages take ------------------------------------------------------------------------------------------------


TOPOLOGIES = st.one_of(
    st.integers(1, 5).map(lambda size: Ring(size, 2, both_ways=False)),
    st.integers(2, 5).map(lambda size: Switch(size, 3)),
    st.integers(2, 5).map(lambda size: FullyConnected(size, 2 * size - 2)),
)


@given(st.lists(TOPOLOGIES, min_size=1, max_size=3), st.data())
@settings(max_examples=60, deadline=None)
def test_a_message_alone_takes_what_the_formula_says(topologies: list[Any], data: st.DataObject) -> None:
    """In one dimension: over several the formula charges one of them."""
    bandwidth, latency = data.draw(st.sampled_from([3.0, 6.25, 25.0])), data.draw(st.sampled_from([0.0, 30.5, 500.0]))
    platform = Platform(tuple(Dimension(t, t.size, t.ports, bandwidth, latency, 7.0, 9.0) for t in topologies))
    result, formula = network(platform), AnalyticalNetwork(AnalyticalOptions(rounding="picosecond"), platform)
    size = data.draw(st.integers(0, 10**9))
    for dimension, (topology, stride) in enumerate(zip(topologies, platform.strides, strict=True)):
        for place in range(1, topology.size):
            assert abs(arrivals(result, (0, 0, place * stride, size))[0] - formula.message_delay(0, place * stride, size)) <= 1, dimension


@pytest.mark.parametrize("size", [1000, 1 << 20, 10**9])
def test_a_ring_all_reduce_takes_what_the_formula_says(size: int) -> None:
    sections: dict[str, Any] = {
        "workload": f"plugin:collective?collective=all_reduce&bytes={size}",
        "platform": f"plugin:ring?size=8&links=2&both_ways=false&{WIRES}",
        "system": "plugin:astra1?all_reduce=ring",
    }
    flow = astra_sim.simulate(**sections, network="plugin:flow")
    formula = astra_sim.simulate(**sections, network="plugin:analytical?rounding=picosecond")
    assert flow.finish_ns == formula.finish_ns
    assert not flow.audit


def test_a_message_that_crosses_dimensions_has_the_rate_of_the_slowest_link() -> None:
    fast, slow = Dimension(Ring(3, 2, both_ways=False), 3, 2, 50.0, 100.0, 5.0), Dimension(Switch(2, 1), 2, 1, 10.0, 200.0, 7.0, 9.0)
    latency_ns = 100 + 2 * 5 + 2 * 200 + 2 * 7 + 9
    assert arrivals(network(Platform((fast, slow))), (0, 0, 5, 1000)) == [1000 * (latency_ns + 100)]


def test_messages_share_a_link_and_the_one_that_is_left_takes_it_all() -> None:
    # Both at 5 bytes/ns until the short one has ended, and then the other at 10.
    both = arrivals(network(graph(2, (0, 1, 10.0, 100.0))), (0, 0, 1, 1000), (0, 0, 1, 3000))
    assert both == [1000 * (100 + 200), 1000 * (100 + 200 + 200)]


def test_what_a_slow_link_leaves_goes_to_others() -> None:
    # On the link of 10 to node 3, NPU 0 can send 2 only; NPU 1 has the other 8.
    star = graph(3, (0, 3, 2.0, 0.0), (1, 3, 50.0, 0.0), (2, 3, 10.0, 0.0))
    assert arrivals(network(star), (0, 0, 2, 2000), (0, 1, 2, 8000)) == [1_000_000, 1_000_000]


def test_a_message_of_no_bytes_takes_the_latency_and_a_late_one_its_share() -> None:
    result = network(graph(2, (0, 1, 10.0, 100.0)))
    assert arrivals(result, (0, 0, 1, 0), (0, 0, 1, 3000), (200_000, 0, 1, 500)) == [100_000, 450_000, 400_000]


# -- Connections -------------------------------------------------------------------------------------------------------


def queued(made: FlowNetwork, *sent: tuple[int, int, int, int], flow: int = 1) -> list[float]:
    """When messages from NPU 0 to NPU 1 arrive (ns): each a time (ns), bytes, queue (-1: none), and what its flow is after the first."""
    made.begin()
    numbered = [(time, Message(number, 0, 1, size, queue, flow + more)) for number, (time, size, queue, more) in enumerate(sent)]
    batches = [Batch(1000 * time, [message for at, message in numbered if at == time]) for time in sorted({time for time, _ in numbered})]
    arrived = deliver(made, batches)
    return [arrived[number] / 1000 for number in range(len(sent))]


QUEUED = [(0, 1000, 0, 0), (0, 0, 0, 1), (0, 2000, 0, 2), (0, 1500, 1, 3), (500, 100, 0, 4)]


def test_messages_of_a_queue_go_one_after_another_and_share_links_with_others() -> None:
    # Queue 0 and queue 1 have 5 bytes/ns each up to 400 ns; the message of 2000 begins at 300 ns and has 10 bytes/ns from 400 ns on.
    assert queued(network(graph(2, (0, 1, 10.0, 100.0))), *QUEUED) == [300, 300, 550, 400, 610]


def test_each_message_may_have_a_connection() -> None:
    # 10 / 3 bytes/ns for each of three messages, 5 for each of two.
    ends = queued(network(graph(2, (0, 1, 10.0, 100.0)), connections="message"), *QUEUED)
    assert ends == [400, 100, 550, 500, 610]


@pytest.mark.parametrize(("flows", "ends"), [((0, 0), [200, 400]), ((0, 1), [300, 400])])
def test_outside_of_queues_a_flow_is_a_connection(flows: tuple[int, int], ends: list[int]) -> None:
    sent = [(0, size, -1, more) for size, more in zip((1000, 2000), flows, strict=True)]
    assert queued(network(graph(2, (0, 1, 10.0, 100.0))), *sent) == ends


def test_the_next_message_of_a_connection_may_take_another_route() -> None:
    # The second message goes around, over both other NPUs: 20 bytes/ns after 20 ns, once the first has arrived.
    mesh = Platform((Dimension(FullyConnected(4, 3), 4, 3, 10.0, 10.0),))
    sent = (0, 1000, 0, 0), (0, 1000, 0, 0)
    assert queued(network(mesh, routing="ugal"), *sent) == [110, 160]
    assert queued(network(mesh, routing="ugal", connections="message"), *sent) == [110, 70]


@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_an_npu_that_comes_late_to_a_ring_delays_it_by_its_lateness(engine: str) -> None:
    """While NPU 3 computes for 100 us more, it gets the messages of three steps, and then it sends those of four at once.

    A step takes 20 us and 1 us of latency, and the data of NPU 3 are sent in six.
    """
    reduce = Communicate((0,), Collective.ALL_REDUCE, 1_000_000, (0,), -1, Pass.FORWARD, blocking=True)
    run: dict[str, Any] = {
        "workload": ExecutionGraph([Compute((), 10_000_000), reduce], (LogicalDimension(4, 1, 0),), (), None, ()),
        "platform": "plugin:switch?size=4&link_bandwidth_gb_per_s=12.5&link_latency_ns=500", "network": "plugin:flow",
        "system": "plugin:astra2?all_reduce=ring&endpoint_delay_ns=0", "slow_npus": "3:11", "engine": engine,
    }  # fmt: skip
    assert astra_sim.simulate(**run).finish_ns == 110_000 + 6 * 21_000
    assert astra_sim.simulate(**{**run, "network": "plugin:flow?connections=message"}).finish_ns > 110_000 + 9 * 21_000


# -- Rules of TCP ------------------------------------------------------------------------------------------------------


def test_presets_fill_in_what_is_not_given() -> None:
    ideal = FlowOptions().resolved()
    assert {name: getattr(ideal, name) for name in PRESETS["ideal"]} == PRESETS["ideal"]
    mixed = FlowOptions(preset="simgrid_lv08", latency_factor=1.0).resolved()
    assert (mixed.latency_factor, mixed.bandwidth_factor, mixed.weight_bytes) == (1.0, 0.97, 20537.0)


@pytest.mark.parametrize(
    ("options", "end_ns"),
    [
        ({"bandwidth_factor": 0.5}, 100 + 200),
        ({"latency_factor": 3}, 300 + 100),
        ({"window_bytes": 400}, 100 + 500),
        ({"window_bytes": 400, "bandwidth_factor": 0.5}, 100 + 1000),
        ({"window_bytes": 1e9}, 100 + 100),
        ({"ack_share": 0.5}, 100 + 100),
    ],
)
def test_each_option_does_what_it_says(options: dict[str, float], end_ns: int) -> None:
    assert arrivals(network(graph(2, (0, 1, 10.0, 100.0)), **options), (0, 0, 1, 1000)) == [1000 * end_ns]


def test_acknowledgements_take_a_share_of_the_way_back() -> None:
    # Each link carries a message, and half as much of acknowledgements.
    ends = arrivals(network(graph(2, (0, 1, 15.0, 0.0)), ack_share=0.5), (0, 0, 1, 1000), (0, 1, 0, 1000))
    assert ends == [100_000, 100_000]


def test_round_trips_decide_where_fairness_is_rtt() -> None:
    # 100 ns and 300 ns of latency: weights of 3 and 1 on the link of 12.
    star = graph(3, (0, 3, 100.0, 50.0), (1, 3, 100.0, 250.0), (2, 3, 12.0, 50.0))
    late = [(200_000, 0, 2, 9000), (0, 1, 2, 9000)]
    assert arrivals(network(star, fairness="rtt"), *late) == [300_000 + 1_000_000, 300_000 + 1_000_000 + 500_000]
    assert arrivals(network(star, fairness="equal"), *late) == [300_000 + 1_500_000] * 2
    # So many bytes that bandwidths matter much more than latencies: weights are nearly the same.
    near = arrivals(network(star, fairness="rtt", weight_bytes=1e9), *late)
    assert near == pytest.approx([300_000 + 1_500_000] * 2, rel=1e-3)


def test_a_round_trip_of_no_time_has_no_weight() -> None:
    with pytest.raises(astra_sim.AstraError, match="fairness=rtt: the route from NPU 0 to NPU 1 has no latency"):
        arrivals(network(graph(2, (0, 1, 10.0, 0.0)), fairness="rtt"), (0, 0, 1, 1000))


def test_with_a_tolerance_others_wait_for_their_share_a_little() -> None:
    # The short message takes 200 ns, so the other continues with 5 bytes/ns for 20 ns.
    result = network(graph(2, (0, 1, 10.0, 0.0)), tolerance=0.1)
    assert arrivals(result, (0, 0, 1, 1000), (0, 0, 1, 3000)) == [200_000, 200_000 + 20_000 + 190_000]
    sections: dict[str, Any] = {"workload": "plugin:collective?collective=all_to_all&bytes=1048576", "platform": FAT_TREE, "system": DIRECT}
    exact = astra_sim.simulate(**sections, network="plugin:flow?routing=hash&tolerance=0")
    near = astra_sim.simulate(**sections, network="plugin:flow?routing=hash&tolerance=0.01")
    assert near.network["rate_updates"] < exact.network["rate_updates"]
    assert exact.finish_ns <= near.finish_ns < 1.01 * exact.finish_ns


# -- Ways --------------------------------------------------------------------------------------------------------------


TREE = Platform(tuple(fat_tree(FatTreeOptions(arity=4, levels=2, link_bandwidth_gb_per_s=25, link_latency_ns=500))))


def middle_loads(routing: str, **options: Any) -> dict[str, float]:
    """Bytes of the links up to the spine, where NPUs 0 to 3 send to 4 NPUs of the next leaf."""
    result = network(TREE, routing=routing, **options)
    arrivals(result, *((0, npu, 4 + npu, 1000) for npu in range(4)))
    return {load.target: load.bytes for load in result.links() if load.source == "switch 0" and load.target.startswith("switch")}


def test_the_first_way_is_that_of_all() -> None:
    assert list(middle_loads("first").values()) == [4000]


def test_digits_of_the_destination_spread_messages_evenly() -> None:
    assert list(middle_loads("destination").values()) == [1000] * 4


def test_split_messages_go_over_all_ways_in_equal_parts() -> None:
    assert list(middle_loads("split").values()) == [1000] * 4
    result = network(TREE, routing="split")
    # Four ways of 25 bytes/ns, but the NPU has one link.
    assert arrivals(result, (0, 0, 4, 25_000)) == [1_000_000 + 4 * 500_000]


def test_a_split_message_has_the_rate_of_all_its_links_together() -> None:
    planes = graph(2, *((npu, 2 + plane, 10.0, 50.0) for plane in range(20) for npu in (0, 1)))
    assert arrivals(network(planes, routing="split"), (0, 0, 1, 200_000)) == [100_000 + 1_000_000]
    assert arrivals(network(planes), (0, 0, 1, 200_000)) == [100_000 + 20_000_000]


def test_hashed_ways_depend_on_the_pair_and_the_seed() -> None:
    loads = [middle_loads("hash", seed=seed) for seed in range(20)]
    assert loads[0] == middle_loads("hash")
    assert len({tuple(sorted(each.items())) for each in loads}) > 5
    assert all(sum(each.values()) == 4000 for each in loads)


def test_npus_forward_only_where_they_must() -> None:
    # From NPU 0 to NPU 2: over NPU 1, or over three switches.
    detour = graph(3, (0, 1, 10.0, 1.0), (1, 2, 10.0, 1.0), (0, 3, 10.0, 1.0), (3, 4, 10.0, 1.0), (4, 5, 10.0, 1.0), (5, 2, 10.0, 1.0))
    assert arrivals(network(detour), (0, 0, 2, 0)) == [4000]
    assert arrivals(network(detour, npus_forward="always"), (0, 0, 2, 0)) == [2000]
    line = graph(3, (0, 1, 10.0, 1.0), (1, 2, 10.0, 1.0), (0, 3, 10.0, 1.0))
    assert arrivals(network(line), (0, 0, 2, 0)) == [2000]
    with pytest.raises(astra_sim.AstraError) as error:
        arrivals(network(line, npus_forward="never"), (0, 0, 2, 0))
    assert str(error.value) == (
        "there is no route from NPU 0 to NPU 2: in dimension 0 no links lead from position 0 to position 2 over switches alone "
        "(npus_forward=never)"
    )


@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_a_run_without_a_route_is_an_error_on_both_engines(tmp_path: Path, engine: str) -> None:
    path = tmp_path / "graph.csv"
    path.write_text("source,target,bandwidth_gb_per_s,latency_ns\n0,1,25,100\n1,2,25,100\n")
    with pytest.raises(astra_sim.AstraError, match="there is no route from NPU 0 to NPU 2"):
        astra_sim.simulate(
            workload="plugin:collective?collective=all_to_all&bytes=1000", system=DIRECT, engine=engine,
            platform=f"plugin:graph?file={path}", network="plugin:flow?npus_forward=never",
        )  # fmt: skip


def test_a_message_that_takes_too_long_is_an_error() -> None:
    with pytest.raises(astra_sim.AstraError, match="a message takes longer than can be simulated"):
        arrivals(network(graph(2, (0, 1, 1e-9, 0.0))), (0, 0, 1, 1 << 60))


# -- Runs --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("network_spec", ["plugin:flow", "plugin:flow?routing=split", "plugin:flow?preset=simgrid_lv08"])
@pytest.mark.parametrize("platform", [FAT_TREE, f"plugin:torus?sizes=4,2&links=2&{WIRES}", f"plugin:mesh?sizes=3,3&{WIRES}"])
def test_engines_agree(platform: str, network_spec: str) -> None:
    runs = [
        astra_sim.simulate(workload="plugin:collective?collective=all_to_all&bytes=100000", system=DIRECT, platform=platform,
                           network=network_spec, engine=engine)
        for engine in ("python", "compiled")
    ]  # fmt: skip
    assert runs[0].finish_ns == runs[1].finish_ns
    assert runs[0].network == runs[1].network


@pytest.mark.parametrize("engine", ["python", "compiled"])
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer that sends a signal")
def test_a_signal_stops_a_run(engine: str) -> None:
    """The exact rates of 65 280 messages that end one by one take half a minute, with few events of the engine."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 1.5)
        with pytest.raises(KeyboardInterrupt):
            astra_sim.simulate(
                workload="plugin:collective?collective=all_to_all&bytes=16777216", system=DIRECT, engine=engine,
                platform=f"plugin:fat_tree?arity=4&levels=4&{WIRES}", network="plugin:flow?routing=hash&tolerance=0",
            )  # fmt: skip
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_figures_of_links_add_up() -> None:
    result = astra_sim.simulate(
        workload="plugin:collective?collective=all_reduce&bytes=1048576", platform=f"plugin:torus?sizes=4,2&links=2&{WIRES}",
        network="plugin:flow?link_figures=true",
    )  # fmt: skip
    figures = result.network
    for dimension, total in enumerate(figures["dimensions"]):
        mine = [link for link in figures["links"] if link["dimension"] == dimension]
        assert total["bytes"] == sum(link["bytes"] for link in mine) == 8 * figures["payload_bytes_per_dimension"][dimension]
        assert total["utilisation"] <= total["highest_utilisation"] * (1 + 1e-12)
        assert total["highest_utilisation"] == max(link["utilisation"] for link in mine) <= 1
    assert figures["flows"] == result.messages
    assert not result.audit


def test_the_file_of_links_is_what_charts_read(tmp_path: Path) -> None:
    result = network(TREE, routing="split")
    arrivals(result, (0, 0, 4, 1000), (0, 1, 2, 500))
    (tmp_path / "links.csv").write_text(network_files(result)["links.csv"])
    rows = list(csv.DictReader((tmp_path / "links.csv").read_text().splitlines()))
    assert [(row["source"], row["target"], row["transfers"], row["most_waiting"], row["bytes"]) for row in rows[:2]] == [
        ("NPU 0", "switch 0", "1", "1", "1000"),
        ("NPU 1", "switch 0", "1", "1", "500"),
    ]
    charts = pytest.importorskip("astra_sim_report.runs")
    read = charts._links(tmp_path / "links.csv", npus=16)
    assert read[0][:2] == (0, 16)
    assert [link.utilisation for link in read] == [float(row["utilisation"]) for row in rows]


@pytest.mark.parametrize(
    ("platform", "collective"),
    [
        (f"plugin:switch?size=8&{WIRES}", "all_to_all"),
        (f"plugin:fully_connected?size=6&links=5&{WIRES}", "all_to_all"),
        (f"plugin:mesh?sizes=8&{WIRES}", "all_reduce"),
        (FAT_TREE, "all_reduce"),
    ],
)
def test_flits_take_little_longer_the_longer_messages_are(platform: str, collective: str) -> None:
    differences = []
    for size in (1 << 14, 1 << 18, 1 << 22):
        workload = f"plugin:collective?collective={collective}&bytes={size}"
        sections: dict[str, Any] = {"workload": workload, "platform": platform, "system": DIRECT}
        flow, packet = (astra_sim.simulate(**sections, network=network).finish_ns for network in ("plugin:flow", "plugin:packet"))
        differences.append(packet / flow - 1)
    assert differences == sorted(differences, reverse=True)
    assert 0 <= differences[-1] < 0.005


FLITS = {
    "all-to-all, 8 NPUs at a switch": ("all_to_all", "switch?size=8"),
    "all-to-all, 6 NPUs fully connected": ("all_to_all", "fully_connected?size=6&links=5"),
    "all-reduce, line of 8 NPUs": ("all_reduce", "mesh?sizes=8"),
    "all-reduce, fat tree of 16 NPUs": ("all_reduce", "fat_tree?arity=4&levels=2"),
    "all-to-all, fat tree of 16 NPUs": ("all_to_all", "fat_tree?arity=4&levels=2"),
    "all-to-all, mesh of 4 x 4 NPUs": ("all_to_all", "mesh?sizes=4,4"),
    "all-to-all, ring of 8 NPUs": ("all_to_all", "ring?size=8&links=2"),
    "all-reduce, ring of 8 NPUs": ("all_reduce", "ring?size=8&links=2"),
    "all-to-all, torus of 4 x 4 NPUs": ("all_to_all", "torus?sizes=4,4&links=2"),
    "all-reduce, torus of 4 x 4 NPUs": ("all_reduce", "torus?sizes=4,4&links=2"),
    "all-to-all, HyperX of 4 x 4 NPUs": ("all_to_all", "hyperx?sizes=4,4"),
    "all-reduce, HyperX of 4 x 4 NPUs": ("all_reduce", "hyperx?sizes=4,4"),
}
PAGE = (ROOT / "plugins" / "network_flow" / "ACCURACY.md").read_text(encoding="utf-8")
ROWS = {row[0]: row[1:] for row in re.findall(r"^\| (all-\S+, [^|]+) \| ([-\d.]+) % \| ([-\d.]+) % \| ([-\d.]+) % \|$", PAGE, re.MULTILINE)}


@pytest.mark.parametrize("case", FLITS)
def test_the_page_says_how_much_longer_packets_take(case: str) -> None:
    pytest.importorskip("astra_sim_network_packet")
    collective, platform = FLITS[case]
    algorithm = "direct" if collective == "all_to_all" else "ring"
    longer = []
    for size in (1 << 14, 1 << 18, 1 << 22):
        run: dict[str, Any] = {
            "workload": f"plugin:collective?collective={collective}&bytes={size}",
            "platform": f"plugin:{platform}&link_bandwidth_gb_per_s=25&link_latency_ns=500",
            "system": f"plugin:astra2?{collective}={algorithm}",
        }
        packets, flows = (astra_sim.simulate(**run, network=f"plugin:{name}").finish_ns for name in ("packet", "flow"))
        longer.append(f"{100 * (packets / flows - 1):.2f}")
    assert tuple(longer) == ROWS[case]
