"""The network ns3: TCP in ns-3. `python3 dev.py ns3` builds it and runs these tests; without it they are skipped."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import astra_sim
import pytest
from astra_sim import InputError
from astra_sim.errors import DeadlockError
from astra_sim.fabric.routes import Routes, dimension_graph
from astra_sim.network import LinkLoad, Message
from astra_sim.options import structure
from astra_sim.platform import Dimension, Platform
from astra_sim_devkit.testing.deliveries import Batch, deliver
from astra_sim_flows.running import Flow, FlowTimes, run_flows
from astra_sim_platforms.graph import GraphFile, GraphLink
from support import ROOT
from support.platforms import LINK, platform_of

if TYPE_CHECKING:
    from astra_sim_network_ns3.network import Ns3Network

FOLDER = ROOT / "plugins" / "network_ns3"
BUILT = find_spec("astra_sim_network_ns3") is not None and find_spec("astra_sim_network_ns3._core") is not None
built = pytest.mark.skipif(not BUILT, reason="astra-sim-network-ns3 is not built: python3 dev.py ns3")

RATE = 12.5  # bytes/ns
LATENCY = 500_000  # ps
SEGMENT, HEADERS = 1460, 42
CALL = 1  # ps: ns-3 sends what a socket is given at its next tick
RING = "plugin:ring?size=8&links=2&both_ways=false&link_bandwidth_gb_per_s=12.5&link_latency_ns=500"


def graph(npus: int, *links: tuple[int, int, float, float]) -> Platform:
    """A platform of links both ways: two nodes, bytes/ns, ns."""
    both = tuple(GraphLink(*ends, bandwidth, latency) for a, b, bandwidth, latency in links for ends in ((a, b), (b, a)))
    return Platform((Dimension(GraphFile(npus, both, (1,) * npus * npus), npus, 1, 1.0, 0.0),))


PAIR = graph(2, (0, 1, RATE, 500.0))
STAR = graph(3, *((npu, 3, RATE, 500.0) for npu in range(3)))


def network(platform: Platform, **options: Any) -> Ns3Network:
    from astra_sim_network_ns3.network import Ns3Network
    from astra_sim_network_ns3.options import Ns3Options

    ns3_options: Ns3Options = structure(Ns3Options, options, "options")
    return Ns3Network(ns3_options, platform)


def times(made: Ns3Network, *flows: tuple[int, int, int] | Flow) -> list[FlowTimes]:
    return run_flows(made, [each if isinstance(each, Flow) else Flow(*each) for each in flows])


def on_the_wire(size: int, segment: int = SEGMENT) -> int:
    """Picoseconds that a link of the pair needs for a message and its headers."""
    return round((size + -(-size // segment) * HEADERS) / RATE * 1000)


# -- What messages take ------------------------------------------------------------------------------------------------


@built
@pytest.mark.parametrize("size", [1, 1460, 1461, 14_600])
def test_a_message_within_the_window_of_its_connection_takes_its_bytes_and_the_latency(size: int) -> None:
    """The first message has made the connection."""
    first, second = times(network(PAIR), (0, 1, 1), Flow(0, 1, size, 0, (0,)))
    assert second.received - second.started == CALL + on_the_wire(size) + LATENCY
    assert second.ended > second.received + LATENCY
    assert first.received - first.started > 3 * LATENCY  # SYN, SYN and ACK, data


@built
@pytest.mark.parametrize("options", [{"congestion_control": "newreno"}, {"congestion_control": "dctcp"}, {"hystart": False}], ids=str)
def test_slow_start_doubles_the_window_in_each_round_trip(options: dict[str, Any]) -> None:
    """10, 20 and 40 segments with a latency of 1 ms: a round trip to connect, two between the rounds, and the last way."""
    platform = graph(2, (0, 1, RATE, 1e6))
    size = 70 * SEGMENT
    (slow,) = times(network(platform, **options), (0, 1, size))
    assert slow.received / 1e9 == pytest.approx(2 + 2 * 2 + 1, rel=0.01)
    (fast,) = times(network(platform, initial_window=40, **options), (0, 1, 40 * SEGMENT))
    assert fast.received / 1e9 == pytest.approx(2 + 1, rel=0.01)


@built
def test_hystart_ends_slow_start_early() -> None:
    """After 20 segments CUBIC adds about one segment in a round trip: one more round for what is left of 70."""
    (cubic,) = times(network(graph(2, (0, 1, RATE, 1e6))), (0, 1, 70 * SEGMENT))
    assert cubic.received / 1e9 == pytest.approx(2 + 3 * 2 + 1, rel=0.01)


@built
@pytest.mark.parametrize("algorithm", ["cubic", "newreno", "dctcp"])
def test_a_long_message_has_the_goodput_of_its_link(algorithm: str) -> None:
    """Slow start takes the connection, and a few round trips until the window fills the link."""
    size = 4 << 20
    (one,) = times(network(PAIR, congestion_control=algorithm), (0, 1, size))
    least = on_the_wire(size) + LATENCY
    assert least < one.received < least + 6 * 2 * LATENCY


@built
def test_a_window_smaller_than_the_way_limits_the_rate() -> None:
    """64 KiB in each round trip of 200 us."""
    platform = graph(2, (0, 1, RATE, 100_000.0))
    (one,) = times(network(platform, send_buffer_kib=64, initial_window=100), (0, 1, 4 << 20))
    assert one.received / 1e6 == pytest.approx(200 * (1 + 63) + 100, rel=0.05)


@built
def test_messages_of_a_pair_follow_each_other_or_have_connections_of_their_own() -> None:
    both = (0, 1, 1 << 20), (0, 1, 1 << 20)
    first, second = times(network(PAIR), *both)
    assert second.received / first.received == pytest.approx(2, rel=0.02)
    result = network(PAIR, connections="message")
    first, second = times(result, *both)
    assert second.received / first.received < 1.7
    assert result.statistics()["connections"] == 2
    classes = network(PAIR)
    times(classes, Flow(0, 1, 1000, traffic_class=0), Flow(0, 1, 1000, traffic_class=1))
    assert classes.statistics()["connections"] == 2


@built
def test_a_message_of_no_bytes_arrives() -> None:
    _, empty = times(network(PAIR), (0, 1, 1), Flow(0, 1, 0, 0, (0,)))
    assert empty.received - empty.started == CALL + on_the_wire(1) + LATENCY


@built
@pytest.mark.parametrize("algorithm", ["cubic", "newreno", "dctcp"])
def test_two_senders_share_a_link_fairly(algorithm: str) -> None:
    ends = times(network(STAR, congestion_control=algorithm), (1, 0, 3_000_000), (2, 0, 3_000_000))
    last = max(each.received for each in ends)
    assert last == pytest.approx(on_the_wire(6_000_000), rel=0.02)  # the link is never idle for long
    rates = [1 / each.received for each in ends]
    assert sum(rates) ** 2 / (2 * sum(rate**2 for rate in rates)) > 0.97  # Jain's index


@built
def test_the_latency_of_switches_and_interfaces_counts() -> None:
    platform = graph(2, (0, 2, RATE, 500.0), (1, 2, RATE, 500.0))
    size = 1460
    for latency in (0.0, 300.0):
        _, second = times(network(platform, switch_latency_ns=latency), (0, 1, 1), Flow(0, 1, size, 0, (0,)))
        assert second.received - second.started == CALL + 2 * on_the_wire(size) + 2 * LATENCY + 1000 * latency


# -- Congestion --------------------------------------------------------------------------------------------------------


def queue(made: Ns3Network, link: str) -> Mapping[str, float]:
    """The figures of a link; of one that carried nothing all are 0."""
    result = [each for each in made.links() if f"{each.source} to {each.target}" == link]
    return {name: value for name, value in result[0]._asdict().items() if isinstance(value, (int, float))} if result else Counter()


@built
@pytest.mark.parametrize("threshold", [40, 80, 160])
def test_dctcp_keeps_the_queue_near_its_threshold(threshold: int) -> None:
    result = network(STAR, congestion_control="dctcp", ecn_threshold_packets=threshold)
    ends = times(result, (1, 0, 6_000_000), (2, 0, 6_000_000))
    mean = queue(result, "switch 0 to NPU 0")["mean_queue_bytes"] / (SEGMENT + HEADERS)
    assert threshold / 2 < mean < 1.5 * threshold
    assert result.statistics()["drops"] == 0
    assert all(each.figures is not None and 0 < each.figures.marked_acks < each.figures.acks for each in ends)


@built
def test_cubic_fills_the_queue_until_it_drops_and_sends_again() -> None:
    result = network(STAR, queue_packets=200)
    flows = (1, 0, 3_000_000), (2, 0, 3_000_000)
    ends = times(result, *flows)
    with pytest.warns(match="packets found a queue full and were dropped"):
        figures = result.statistics()
    assert figures["drops"] == figures["retransmissions"] != 0
    assert queue(result, "switch 0 to NPU 0")["highest_queue_bytes"] == 200 * 1502
    assert sum(each.figures.packets for each in ends if each.figures) == 2 * -(-3_000_000 // SEGMENT) + int(str(figures["retransmissions"]))
    large = network(STAR)
    times(large, *flows)
    assert large.statistics()["drops"] == 0


@built
def test_a_tail_that_is_lost_comes_after_the_timeout() -> None:
    """An incast of windows that the queue cannot hold: some connection has nothing more to send, and waits."""
    platform = graph(9, *((npu, 9, RATE, 500.0) for npu in range(9)))
    for timeout_ms in (5.0, 20.0):
        result = network(platform, queue_packets=8, min_rto_ms=timeout_ms, initial_window=4)
        ends = times(result, *((npu, 0, 4 * SEGMENT) for npu in range(1, 9)))
        with pytest.warns(match="dropped"):
            assert result.statistics()["drops"] != 0
        assert timeout_ms <= max(each.received for each in ends) / 1e9 < 1.1 * timeout_ms


@built
def test_acknowledgements_may_be_delayed() -> None:
    size = 20 * SEGMENT
    (each,) = times(network(PAIR, initial_window=20), (0, 1, size))
    (few,) = times(network(PAIR, initial_window=20, delayed_ack_segments=2), (0, 1, size))
    assert each.figures is not None
    assert few.figures is not None
    assert (each.figures.packets, each.figures.acks) == (20, 20)
    assert 10 <= few.figures.acks <= 11
    # The first segment of a connection is acknowledged at once, then one of two, and the last one late.
    (odd,) = times(network(PAIR, delayed_ack_segments=2, delayed_ack_ms=3.0), (0, 1, 4 * SEGMENT))
    assert odd.ended - odd.received == pytest.approx(3e9, rel=0.01)


@built
def test_connections_are_spread_over_equal_ways() -> None:
    """Two switches between two leaves: which of them a connection takes depends on its ends and the seed."""
    leaves = [(npu, 8 + npu // 4, RATE, 500.0) for npu in range(8)]
    platform = graph(8, *leaves, *((leaf, spine, RATE, 500.0) for leaf in (8, 9) for spine in (10, 11)))
    flows = [(npu, npu + 4, 100_000) for npu in range(4)]
    used = set()
    for seed in range(1, 6):
        result = network(platform, seed=seed)
        times(result, *flows)
        loads = [queue(result, f"switch 0 to switch {spine}")["bytes"] for spine in (2, 3)]
        assert sum(loads) > 4 * 100_000
        used.add(tuple(load > 50_000 for load in loads))
        used.add(tuple(load > 250_000 for load in loads))
    assert len(used) > 2


@built
@pytest.mark.parametrize("spec", ["fat_tree?arity=2&levels=3", "clos?npus=16&ports=8", "dragonfly?routers=3&npus=2&global_links=1"])
def test_segments_and_what_answers_them_take_links_of_the_fabric_s_sets(spec: str) -> None:
    platform = platform_of(f"{spec}&{LINK}")
    result = network(platform)
    routes = Routes(dimension_graph(platform.dimensions[0], "here"), "never")
    for pair in ((0, platform.npus - 1), (1, 2)):
        allowed = {end for ends in (pair, pair[::-1]) for end in links_of(routes, *ends)}
        times(result, (*pair, 20_000))
        taken = {(load.source, load.target) for load in result.links()}
        assert taken <= {(result.fabric.name(source), result.fabric.name(target)) for source, target in allowed}


def links_of(routes: Routes, source: int, destination: int) -> set[tuple[int, int]]:
    """The ends of all links of all paths of least cost."""
    ends, waiting = set(), [source]
    for node in waiting:
        for number in routes.next_links(node, destination):
            end = routes.graph.ends[number]
            if end not in ends:
                ends.add(end)
                waiting.append(end[1])
    return ends


# -- Runs --------------------------------------------------------------------------------------------------------------


def simulate(size: int = 1 << 20, network: str = "plugin:ns3", **options: Any) -> astra_sim.Result:
    workload, ring = f"plugin:collective?collective=all_reduce&bytes={size}", ["system.all_reduce=ring"]
    return astra_sim.simulate(workload=workload, platform=RING, network=network, set=ring, **options)


@built
def test_both_engines_say_the_same() -> None:
    tables = []
    for engine in ("python", "compiled"):
        table = simulate(engine=engine).to_dict()
        del table["wall_s"]
        tables.append(json.dumps(table["dimensions"]) + json.dumps(table["layers"]) + json.dumps(table["network"]))
    assert tables[0] == tables[1]


@built
def test_long_messages_come_near_to_flow_and_roce() -> None:
    """Headers of 42 bytes for 1460 here, none in `flow`, and 78 for 1000 (by default) in `roce`."""
    size = 4 << 20
    tcp, flow = simulate(size).finish_ns, simulate(size, "plugin:flow").finish_ns
    roce = simulate(size, "plugin:roce?payload_bytes=1460").finish_ns
    assert 1 < tcp / flow < 1.05
    assert tcp / roce == pytest.approx(1, abs=0.05)
    short = simulate(1 << 16).finish_ns / simulate(1 << 16, "plugin:flow").finish_ns
    assert short > tcp / flow


@built
def test_runs_are_repeated_exactly_and_seeds_differ() -> None:
    def once(**options: Any) -> list[int]:
        return [each.received for each in times(network(STAR, **options), (1, 0, 500_000), (2, 0, 500_000))]

    assert once(error_rate=0.01, seed=3) == once(error_rate=0.01, seed=3)
    assert once(error_rate=0.01, seed=3) != once(error_rate=0.01, seed=4)
    assert once() == once()


@built
def test_a_network_serves_many_runs_and_keeps_the_figures_of_its_last() -> None:
    one, other = network(PAIR), network(STAR)
    first = times(one, (0, 1, 100_000))
    figures, report = one.statistics(), one.reports()
    times(other, (1, 0, 100_000))
    assert (one.statistics(), one.reports()) == (figures, report)
    assert times(one, (0, 1, 100_000)) == first
    assert one.statistics() == figures


@built
def test_a_network_whose_run_another_has_ended_says_so() -> None:
    one, other = network(PAIR), network(PAIR)
    one.begin()
    one.inject(0, [Message(0, 0, 1, 1000)])
    other.begin()
    ended = "another network ns3 has begun in this process, and ns-3 simulates one at a time"
    with pytest.raises(InputError, match=ended):
        one.advance(None)
    with pytest.raises(InputError, match=ended):
        one.inject(10, [Message(1, 0, 1, 1000)])
    other.inject(0, [Message(0, 0, 1, 1000)])
    assert other.advance(None) is not None


@built
def test_it_goes_on_only_as_far_as_it_is_asked_to() -> None:
    result = network(PAIR)
    result.begin()
    assert result.advance(1_000_000) is None
    result.inject(2_000_000, [Message(0, 0, 1, 1000)])
    assert result.advance(3_000_000) is None
    answer = result.advance(None)
    assert answer is not None
    assert answer[0] > 2_000_000 + 3 * LATENCY
    assert answer[1] == [0]
    answer = result.advance(None)
    assert answer is not None
    assert (answer[1], result.take_completed()) == ([], [0])
    assert result.advance(None) is None


@built
@pytest.mark.parametrize("through_table", [False, True])
def test_batches_arrive_whether_by_method_or_by_table(through_table: bool) -> None:
    result = network(STAR)
    result.begin()
    batches = [Batch(time, [Message(time + npu, npu, 0, 5000) for npu in (1, 2)]) for time in (10, 20, 700_000)]
    table: Any = astra_sim.function_table.FunctionTable(result.function_table()) if through_table else result
    assert set(deliver(table, batches)) == {message.number for batch in batches for message in batch.messages}


# -- What cannot be ----------------------------------------------------------------------------------------------------


@built
def test_npus_that_cannot_reach_each_other_are_told() -> None:
    line = graph(3, (0, 1, RATE, 500.0), (1, 2, RATE, 500.0))
    with pytest.raises(InputError, match=r"no route from NPU \d to NPU \d over switches; expected npu_forwarding = true"):
        network(line, npu_forwarding=False)
    assert len(times(network(line), (0, 2, 1000))) == 1
    with pytest.raises(InputError, match=r"no route from NPU \d to NPU \d; expected links that join them"):
        network(graph(3, (0, 1, RATE, 500.0)))


@built
def test_a_link_without_one_back_is_told() -> None:
    one_way = GraphFile(2, (GraphLink(0, 1, RATE, 500.0), GraphLink(1, 0, RATE, 500.0), GraphLink(1, 0, RATE, 500.0)), (1,) * 4)
    with pytest.raises(InputError, match="NPU 1 to NPU 0 has no link back; expected links both ways"):
        network(Platform((Dimension(one_way, 2, 1, 1.0, 0.0),)))


@built
@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_messages_that_are_lost_for_good_end_the_run_and_are_named(engine: str) -> None:
    with pytest.raises(DeadlockError, match="the connection from NPU 0 to NPU 1 was never made") as caught:
        simulate(1000, "plugin:ns3?error_rate=1&retries=2&min_rto_ms=1&connect_timeout_ms=1", engine=engine)
    assert len(caught.value.waiting) == 8
    assert "from NPU 0 to NPU 1: 0 bytes have arrived" in caught.value.waiting[0]


@built
@pytest.mark.parametrize("options", [{}, {"connect_timeout_ms": 1e-9}, {"connect_timeout_ms": 1e6}, {"congestion_control": "dctcp"}])
def test_a_handshake_that_is_never_answered_ends_however_often_it_may_be_repeated(options: dict[str, Any]) -> None:
    """Its waits double: ns-3 would end the process when their sum is more than it can count."""
    with pytest.raises(DeadlockError, match="the connection from NPU 0 to NPU 1 was never made"):
        times(network(PAIR, error_rate=1.0, retries=1000, **options), (0, 1, 1000))


@built
def test_the_largest_seed_is_one_that_ns3_takes() -> None:
    assert times(network(PAIR, error_rate=0.01, seed=4294944442), (0, 1, 100_000))[0].received > 0
    with pytest.raises(InputError, match="seed is 4294944443; expected at most 4294944442"):
        network(PAIR, seed=4294944443)


@built
def test_a_connection_that_breaks_off_is_named() -> None:
    """Nine of ten packets are lost: it is made, and then a segment is not acknowledged often enough."""
    lost = []
    for seed in range(1, 12):
        result = network(PAIR, error_rate=0.6, retries=3, min_rto_ms=1.0, connect_timeout_ms=1.0, seed=seed)
        with pytest.raises(DeadlockError) as caught:
            times(result, (0, 1, 1_000_000))
        lost.append(str(caught.value))
    assert any(
        "the connection from NPU 0 to NPU 1 was given up: no answer to a segment, also when it was repeated (retries = 3)" in text
        for text in lost
    )


@built
@pytest.mark.parametrize(
    ("message", "what"),
    [(Message(0, 0, 0, 10), "NPU 0 to NPU 0"), (Message(0, 0, 7, 10), "to NPU 7"), (Message(0, 0, 1, -1), "a message of -1 bytes")],
)
def test_a_message_that_cannot_be_is_told(message: Message, what: str) -> None:
    result = network(PAIR)
    result.begin()
    with pytest.raises(InputError, match=what):
        result.inject(0, [message])


@built
@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"ecn_threshold_packets": 20}, "ecn_threshold_packets is 20, and congestion_control 'cubic'; expected 'dctcp'"),
        ({"congestion_control": "newreno", "hystart": False}, "hystart is false, and congestion_control 'newreno'; expected 'cubic'"),
        ({"congestion_control": "vegas"}, "vegas"),
        ({"segment_bytes": 0}, "segment_bytes"),
        ({"seed": 0}, "seed"),
    ],
)
def test_options_that_cannot_be_are_told(options: dict[str, Any], what: str) -> None:
    with pytest.raises(InputError, match=what):
        network(PAIR, **options)


# -- The command -------------------------------------------------------------------------------------------------------


def astra(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "astra_sim", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=100)


@built
@pytest.mark.parametrize("collective", ["all_reduce", "all_to_all"])
@pytest.mark.parametrize(
    ("larger", "smaller"),
    [
        ("switch?size=8", "switch?size=4"),
        ("clos?npus=32&ports=8", "clos?npus=16&ports=8"),
        ("fully_connected?size=8&links=7", "fully_connected?size=4&links=3"),
        ("mesh?sizes=8", "mesh?sizes=4"),
    ],
)
def test_idle_npus_change_nothing_where_others_work(larger: str, smaller: str, collective: str) -> None:
    """`logical_dims` of fewer NPUs than the wires join."""
    results = [
        astra_sim.simulate(
            workload=f"plugin:collective?collective={collective}&bytes=65536",
            platform=f"plugin:{platform}&link_bandwidth_gb_per_s=12.5&link_latency_ns=500&logical_dims=2,2",
            network="plugin:ns3",
        )
        for platform in (larger, smaller)
    ]
    assert results[0].npus == 4
    assert results[0].finish_ns == results[1].finish_ns


@built
def test_flows_have_their_figures(tmp_path: Path) -> None:
    (tmp_path / "flows.csv").write_text("id,src,dst,bytes,start_ns,after\na,0,1,100000,0,\nb,1,2,1000,3,a\n")
    done = astra("flows", "--platform", RING, "--network", "plugin:ns3", "--flows", "flows.csv", "--json", "-o", "out", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    table = json.loads(done.stdout)
    a, b = table["flows"]
    assert (a["packets"], a["nacks"], a["marked_acks"]) == (69, None, 0)
    assert a["start_ns"] < a["received_ns"] < a["end_ns"] == b["start_ns"] - 3
    assert (table["drops"], table["pfc_frames"], table["finish_ns"]) == (0, None, b["end_ns"])
    assert (tmp_path / "out" / "links.csv").read_text().startswith(",".join(LinkLoad._fields))


@built
def test_the_component_keeps_its_contract(tmp_path: Path) -> None:
    done = astra("plugins", "check", "ns3", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "ok     network ns3\n")


# -- The package, which is apart from the others -----------------------------------------------------------------------


def test_where_it_is_not_installed_an_error_says_how_to_get_it() -> None:
    from astra_sim.errors import PluginError
    from astra_sim.setup.plugins import Plugins

    with pytest.raises(PluginError, match=r"no network plugin 'ns3'; it comes with astra-sim-network-ns3 .*pip install --no-deps ns3=="):
        Plugins(load_entry_points=False).get("network", "ns3")


def requirements(folder: Path) -> Sequence[str]:
    table = tomllib.loads((folder / "pyproject.toml").read_text())
    extra = [each for listed in table["project"].get("optional-dependencies", {}).values() for each in listed]
    return [*table["build-system"]["requires"], *table["project"].get("dependencies", ()), *extra]


def test_no_other_package_needs_it_and_all_others_are_under_the_mit_licence() -> None:
    for folder in [ROOT / "core", *(path.parent for path in (ROOT / "plugins").glob("*/pyproject.toml"))]:
        assert not [each for each in requirements(folder) if "ns3" in each], folder
        project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
        assert project["license"] == ("GPL-2.0-only" if folder == FOLDER else "MIT")


def test_its_files_carry_its_licence() -> None:
    assert "GNU GENERAL PUBLIC LICENSE\n\t\t       Version 2, June 1991" in (FOLDER / "LICENSE").read_text()
    files = [*(FOLDER / "native").iterdir(), *(FOLDER / "src").rglob("*.py")]
    assert len(files) > 20
    assert [path.name for path in files if "SPDX-License-Identifier: GPL-2.0-only" not in path.read_text().split("\n")[0]] == []


def test_what_is_built_by_default_leaves_it_out() -> None:
    from devtools import workspace

    assert FOLDER not in workspace.members()
    assert workspace.separate() == [FOLDER]
    assert "ns3" not in (ROOT / ".ci" / "run").read_text()
