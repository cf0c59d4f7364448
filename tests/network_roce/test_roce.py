"""The network roce: what holds whatever the options, losses, failures, pauses that wait for each other, ways."""

from __future__ import annotations

import contextlib
import csv
from itertools import pairwise
from pathlib import Path
from typing import Any

import astra_sim
import attrs
import pytest
from astra_sim.errors import DeadlockError, InputWarning
from astra_sim.graph import ExecutionGraph, NpuProgram, Receive, Send
from astra_sim.network import LinkLoad
from astra_sim.schedule import shift
from astra_sim_flows.running import Flow
from astra_sim_network_roce.options import PRESETS, RoceOptions
from hypothesis import given, settings
from hypothesis import strategies as st
from support import ROOT
from support.roce import STAR, clos, network, platform, run, topology

ALGORITHMS = ("none", "dcqcn", "hpcc", "timely", "dctcp", "pint", "swift")
BALANCING = ("ecmp", "spray_random", "spray_round_robin", "flowlet", "adaptive")
FLOWS = st.tuples(st.integers(0, 7), st.integers(0, 7), st.integers(0, 60_000)).filter(lambda flow: flow[0] != flow[1])
INCAST = [(npu, 0, 200_000) for npu in range(1, 5)]


@pytest.fixture
def fabric(tmp_path: Path) -> str:
    """A leaf-spine fabric of 4 leaves with 2 NPUs and 3 spines."""
    path = tmp_path / "clos.txt"
    path.write_text(clos(4, 3, 2))
    return str(path)


def bytes_of_links(made: Any) -> dict[str, int]:
    names = map(made.fabric.link_name, range(len(made.fabric.links)))
    return dict.fromkeys(names, 0) | {f"{load.source} to {load.target}": load.bytes for load in made.links()}


@settings(max_examples=60, deadline=None)
@given(
    algorithm=st.sampled_from(ALGORITHMS),
    balancing=st.sampled_from(BALANCING),
    windows=st.booleans(),
    payload=st.sampled_from([256, 1000, 4096]),
    flows=st.lists(
        st.tuples(st.integers(0, 7), st.integers(0, 7), st.integers(0, 60_000)).filter(lambda f: f[0] != f[1]), min_size=1, max_size=12
    ),
    seed=st.integers(0, 99),
)
def test_every_message_arrives_once_and_a_run_repeats(
    algorithm: str, balancing: str, windows: bool, payload: int, flows: list[tuple[int, int, int]], seed: int, tmp_path_factory: Any
) -> None:
    path = tmp_path_factory.mktemp("roce") / "clos.txt"
    path.write_text(clos(4, 3, 2))
    options: dict[str, Any] = {"congestion_control": algorithm, "load_balancing": balancing, "windows": windows, "seed": seed}
    result = network(str(path), payload_bytes=payload, **options)
    first = run(result, *flows)
    assert result.statistics()["drops"] == 0
    for each, (_, _, size) in zip(first, flows, strict=True):
        assert each.figures is not None
        assert 0 <= each.started < each.received < each.ended
        assert each.figures.packets >= max(1, -(-size // payload))
    assert run(result, *flows) == first
    assert run(network(str(path), payload_bytes=payload, **options), *flows) == first


def test_an_idle_network_takes_what_the_wires_take() -> None:
    """2000 bytes in two packets of 1000, with 58 bytes of headers and 20 of gaps, over two links of 100 Gbit/s and 1 us."""
    (each,) = run(network(STAR.format(2)), (0, 1, 2000))
    wire = (1000 + 58 + 20) * 80  # ps of a packet
    assert each.received == 3 * wire + 2 * 1_000_000
    assert each.ended == each.received + 2 * (64 + 20) * 80 + 2 * 1_000_000


@pytest.mark.parametrize("preset", ["default", "reference"])
@pytest.mark.parametrize("later", [1, 17, 16_383, 16_384, 40_000, 3_000_000, 2_000_000_001])
def test_flows_take_as_long_whenever_they_start(preset: str, later: int) -> None:
    def times(start_ns: int) -> list[tuple[int, int]]:
        first = Flow(0, 1, 5000, 0)
        flows = [Flow(npu, 0, 20_000, 1000 * (start_ns + 100 * npu)) for npu in range(1, 4)]
        ends = run(network(STAR.format(4), preset=preset), first, *flows)[1:]
        return [(end.received - 1000 * start_ns, end.ended - 1000 * start_ns) for end in ends]

    assert times(1_000_000 + later) == times(1_000_000)


@pytest.mark.parametrize("delay", ["0.005ms", "2ms", "70ms"])
def test_an_idle_path_takes_its_delays_however_long(delay: str, tmp_path: Path) -> None:
    path = tmp_path / "far.txt"
    path.write_text(f"3 1 2\n2\n0 2 100Gbps 0.0005ms 0\n1 2 100Gbps {delay} 0\n")
    (flow,) = run(network(str(path), preset="reference"), (0, 1, 1000))
    there = 2 * 83 + 500 + round(1e6 * float(delay.removesuffix("ms")))
    back = 2 * 4 + 500 + round(1e6 * float(delay.removesuffix("ms")))
    assert (flow.received, flow.ended) == (1000 * there, 1000 * (there + back))


def test_a_higher_delay_of_switches_is_a_later_arrival() -> None:
    soon, late = (run(network(STAR.format(2), switch_latency_ns=ns), (0, 1, 1))[0].received for ns in (0.0, 300.0))
    assert late - soon == 300_000


@pytest.mark.parametrize("balancing", BALANCING)
def test_lost_packets_are_sent_again(balancing: str, fabric: str) -> None:
    result = network(fabric, error_rate=0.02, load_balancing=balancing, rto_us=50.0)
    times = run(result, (0, 7, 300_000), (2, 7, 300_000))
    figures = result.statistics()
    assert figures["losses"] > 0  # type: ignore[operator]
    assert all(each.figures is not None and each.figures.packets > 300 for each in times)


def test_without_a_timeout_a_lost_packet_is_named() -> None:
    result = network(STAR.format(2), error_rate=1.0, rto_us=0.0)
    with pytest.raises(DeadlockError, match=r"nothing moves after .* rto_us = 0 means .*\n  NPU 0 to NPU 1: 0 of 5"):
        run(result, (0, 1, 5))


def test_a_link_that_loses_everything_is_an_end_too() -> None:
    why = r"nothing moves after \d+ ns: 1000 timeouts in a row brought no acknowledgement \(0 dropped by switches, 100\d lost on links\)\n"
    with pytest.raises(DeadlockError, match=why):
        run(network(STAR.format(2), error_rate=1.0, rto_us=10.0), (0, 1, 5))


def test_a_timeout_shorter_than_a_round_trip_is_named() -> None:
    """Nothing is lost: a chunk takes longer than the timeout, which goes back to its start."""
    why = (
        r"1000 timeouts in a row brought no acknowledgement \(0 dropped by switches, 0 lost on links\); "
        r"a packet from NPU 0 to NPU 1 and its acknowledgement take [\d.]+ us and rto_us is 1000, expected more\n"
        r"  NPU 0 to NPU 1: 0 of 200000"
    )
    with pytest.raises(DeadlockError, match=why):
        run(network("plugin:switch?size=2&link_bandwidth_gb_per_s=0.001&link_latency_ns=1", back_to_chunk=True), (0, 1, 200_000))


def test_timers_of_messages_that_have_ended_are_no_end(tmp_path: Path) -> None:
    """One message waits for its timeout while those of thirty others, which have arrived, go off one after another."""
    result = network(STAR.format(32), windows=False, buffer_mib=2, pfc=False, ecn=False, slow_restart=False)
    times = run(result, *[(npu, 0, 400_000) for npu in range(1, 32)])
    with pytest.warns(astra_sim.InputWarning, match="switches dropped"):
        figures = result.statistics()
    assert figures["timeouts"] > 0  # type: ignore[operator]
    assert figures["messages"] == 31
    assert all(each.received > 0 for each in times)


@pytest.mark.parametrize("size", [1, 999, 4000, 5001, 50_001])
@pytest.mark.parametrize("error_rate", [0.0, 0.05])
def test_messages_that_end_within_a_chunk_end(size: int, error_rate: float) -> None:
    result = network(STAR.format(4), back_to_chunk=True, error_rate=error_rate)
    times = run(result, (0, 1, size), (2, 1, size))
    assert all(each.ended >= each.received > 0 for each in times)


@pytest.mark.parametrize("balancing", ["ecmp", "spray_random"])
def test_packets_of_other_bounds_fill_what_is_missing(balancing: str) -> None:
    """Chunks are no multiples of packets: what is sent again begins elsewhere than what was lost."""
    result = network(STAR.format(4), back_to_chunk=True, chunk_bytes=1500, error_rate=0.02, load_balancing=balancing, rto_us=50.0, seed=3)
    times = run(result, (0, 1, 60_000), (2, 1, 60_000), (3, 0, 60_000))
    assert result.statistics()["losses"] > 0  # type: ignore[operator]
    assert all(each.ended >= each.received > 0 for each in times)


def test_queues_are_sampled_where_they_change() -> None:
    result = network(STAR.format(4), qlen_interval_us=1.0)
    run(result, (1, 0, 100_000), (2, 0, 100_000), (1, 3, 1000))
    heading, *rows = result.reports()["qlen.csv"].splitlines()
    assert heading == "time_ns,link,bytes"
    samples = [(int(time), link, int(size)) for time, link, size in (row.split(",") for row in rows)]
    assert {time % 1000 for time, _, _ in samples} == {0}
    to_0 = [size for _, link, size in samples if link == "switch 0 to NPU 0"]
    assert all(before != after for before, after in pairwise(to_0))
    assert 0.95 * result.statistics()["highest_queue_bytes"] < max(to_0) <= result.statistics()["highest_queue_bytes"]  # type: ignore[operator]
    assert "qlen.csv" not in network(STAR.format(4)).reports()


def test_pfc_prevents_drops() -> None:
    lossless = network(STAR.format(8), windows=False, buffer_mib=0.5)
    run(lossless, *INCAST)
    assert (lossless.statistics()["drops"], lossless.statistics()["pfc_frames"]) == (0, 40)
    lossy = network(STAR.format(8), windows=False, buffer_mib=0.5, pfc=False)
    times = run(lossy, *INCAST)
    with pytest.warns(astra_sim.InputWarning, match=r"switches dropped \d+ packets for want of memory"):
        figures = lossy.statistics()
    assert figures["drops"] > 0  # type: ignore[operator]
    assert figures["pfc_frames"] == 0
    assert all(each.figures is not None and each.figures.packets >= 200 for each in times)


@pytest.mark.parametrize("algorithm", [name for name in ALGORITHMS if name != "none"])
def test_congestion_control_needs_fewer_pauses(algorithm: str) -> None:
    frames = {}
    for chosen in ("none", algorithm):
        result = network(
            STAR.format(8),
            congestion_control=chosen,
            windows=False,
            buffer_mib=2.0,
            timely_low_us=5.0,
            timely_high_us=20.0,
            swift_base_us=8.0,
        )
        run(result, *[(npu, 0, 2_000_000) for npu in range(1, 8)])
        frames[chosen] = result.statistics()["pfc_frames"]
    assert frames[algorithm] < frames["none"]  # type: ignore[operator]


def test_pauses_that_wait_for_each_other_are_named(tmp_path: Path) -> None:
    """Five switches in a ring, of which each sends two further on: every link waits for the next."""
    links = [(2 * switch + npu, 10 + switch) for switch in range(5) for npu in range(2)]
    path = tmp_path / "ring.txt"
    path.write_text(topology(10, 5, [*links, *((10 + switch, 10 + (switch + 1) % 5) for switch in range(5))]))
    result = network(str(path), windows=False, buffer_mib=0.25)
    flows = [(2 * switch + npu, (2 * switch + 4 + npu) % 10, 3_000_000) for switch in range(5) for npu in range(2)]
    with pytest.raises(DeadlockError, match=r"deadlocked at \d+ ns: links pause each other in a circle") as raised:
        run(result, *flows)
    lines = str(raised.value).split("\n")[1:]
    assert len(lines) == 5
    assert all("switch" in line and " waits for switch " in line for line in lines)
    assert lines[0].split(" waits for ")[0].strip() == lines[-1].split(" waits for ")[1]


def test_a_link_that_fails_is_left_out(fabric: str) -> None:
    before = network(fabric)
    run(before, (0, 7, 500_000))
    used = [name for name, count in bytes_of_links(before).items() if count > 400_000 and name.startswith("switch 0 to")]
    spine = int(used[0].split()[-1])
    after = network(fabric, link_down=[f"10:8:{8 + spine}"], rto_us=20.0)
    (times,) = run(after, (0, 7, 500_000))
    assert times.figures is not None
    assert times.figures.packets > 500
    assert bytes_of_links(after)[used[0]] < bytes_of_links(before)[used[0]] / 2


def test_an_npu_whose_last_link_fails_is_an_error(fabric: str) -> None:
    with pytest.raises(DeadlockError, match="NPU 0 has lost its last way to NPU 7, while a message was under way"):
        run(network(fabric, link_down=["10:0:8"]), (0, 7, 500_000))


@pytest.mark.parametrize("balancing", BALANCING)
def test_balancing_uses_the_ways_that_it_says(balancing: str, fabric: str) -> None:
    result = network(fabric, load_balancing=balancing, flowlet_gap_ns=0.0)
    run(result, (0, 7, 400_000))
    loads = bytes_of_links(result)
    spread = [loads[f"switch 0 to switch {4 + spine}"] for spine in range(3)]
    if balancing == "ecmp":
        assert sum(load > 0 for load in spread) == 1
    elif balancing == "spray_round_robin":
        assert max(spread) - min(spread) <= 1058
    elif balancing != "adaptive":  # an idle fabric has no emptiest port
        assert min(spread) > 50_000


def test_several_interfaces_are_chosen_by_message(tmp_path: Path) -> None:
    path = tmp_path / "rails.txt"
    path.write_text(topology(2, 2, [(0, 2), (1, 2), (0, 3), (1, 3)]))
    result = network(str(path), load_balancing="ecmp")
    run(result, *[(0, 1, 1000)] * 40)
    loads = bytes_of_links(result)
    assert loads["NPU 0 to switch 0"] > 5000
    assert loads["NPU 0 to switch 1"] > 5000


def test_npus_forward_where_they_must() -> None:
    ring = "plugin:ring?size=5&links=2&link_bandwidth_gb_per_s=12.5&link_latency_ns=1000"
    near, far = (run(network(ring), (0, npu, 1000))[0].received for npu in (1, 2))
    assert far - near == 1_000_000 + (1000 + 58 + 20) * 80
    with pytest.raises(astra_sim.InputError, match="there is no route from NPU 2 to NPU 0 over switches; expected npu_forwarding = true"):
        network(ring, preset="reference", ecn=False)


def test_npus_of_a_server_meet_over_its_own_switch(tmp_path: Path) -> None:
    """A topology file of SimAI: two servers of two GPUs, an NV switch in each, and one switch for all."""
    path = tmp_path / "simai.txt"
    lines = ["0 4 3600Gbps 0.000025ms 0", "1 4 3600Gbps 0.000025ms 0", "2 5 3600Gbps 0.000025ms 0", "3 5 3600Gbps 0.000025ms 0"]
    lines += [f"{npu} 6 100Gbps 0.001ms 0" for npu in range(4)]
    path.write_text("\n".join(["7 2 2 1 8 H100", "4 5 6", *lines]) + "\n")
    result = network(str(path))
    run(result, *[(0, 1, 1000)] * 20, *[(0, 3, 1000)] * 20)
    loads = bytes_of_links(result)
    assert loads["NPU 0 to switch 0"] == loads["NPU 0 to switch 2"] == 20 * 1058


def test_a_send_ends_when_its_sender_knows() -> None:
    """On both engines, from the table and from Python."""

    class InPython(type(network(STAR.format(2)))):  # type: ignore[misc]
        def function_table(self) -> None:
            return None

    receiver = (Receive((), shift(-1), 1000),)
    graph = ExecutionGraph((Send((), shift(1), 1000),), (), (), None, (NpuProgram(receiver, (1,)),))
    finishes = set()
    for engine in ("python", "compiled"):
        plain = network(STAR.format(2))
        plain.__class__ = InPython
        for result in (network(STAR.format(2)), plain):
            finishes.add(astra_sim.simulate(workload=graph, network=result, engine=engine).finish_ns)
    (ended,) = {each.ended for each in run(network(STAR.format(2)), (0, 1, 1000))}
    assert finishes == {ended / 1000}


@pytest.mark.parametrize("payload", [256, 1000, 9000])
@pytest.mark.parametrize(
    "where",
    [
        "plugin:rail_optimized?servers=4&npus_per_server=4&ports=8&oversubscription=2",
        "plugin:clos?npus=12&ports=8&oversubscription=3&link_bandwidth_gb_per_s=12.5&link_latency_ns=0",
        "plugin:clos?npus=8&ports=8&link_bandwidth_gb_per_s=50&link_latency_ns=100",
    ],
)
def test_pauses_come_in_time_on_links_without_latency(where: str, payload: int) -> None:
    options: dict[str, Any] = {"windows": False, "ecn": False, "buffer_mib": 4, "payload_bytes": payload}
    npus = platform(where).npus
    incast = [(npu, 0, 1_000_000) for npu in range(1, npus)]
    result = network(where, **options)
    run(result, *incast)
    figures = result.statistics()
    assert figures["drops"] == 0
    assert figures["pfc_frames"]
    if "latency_ns=100" not in where:
        plain = network(where, **options, covering_headroom=False)
        run(plain, *incast)
        with pytest.warns(InputWarning, match="for want of memory"):
            assert plain.statistics()["drops"]


def test_flows_of_two_priority_groups_take_turns() -> None:
    result = network(STAR.format(3), windows=False)
    times = run(result, Flow(1, 0, 200_000, traffic_class=3), Flow(2, 0, 200_000, traffic_class=4))
    assert abs(times[0].received - times[1].received) < 2 * (1000 + 78) * 80 + 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ecn_kmin": ["x"]}, "ecn_kmin has 'x'; expected RATE:VALUE, a rate in Gbit/s and a number of at least 0"),
        ({"ecn_kmin": ["100:9"], "ecn_kmax": ["100:5"]}, "ecn_kmin is 9 and ecn_kmax 5 kB at 100 Gbit/s; expected kmin <= kmax"),
        (
            {"preset": "reference", "ecn_kmin": ["25:9"]},
            "ecn_kmin has no value for links of 100 Gbit/s, which a switch has",
        ),
        ({"link_down": ["1:0:1"]}, "link_down has '1:0:1'; expected a time in us and two nodes that a link joins"),
        ({"link_down": ["1:0"]}, "link_down has '1:0'; expected TIME:NODE:NODE, a time in us and two nodes that a link joins"),
        (
            {"buffer_mib": 0.01},
            r"buffer_mib is 0.01; the ports of switch 0 reserve 0.0793 MiB \(headroom_factor\), expected more than that, such as 8, or ",
        ),
        ({"congestion_control": "dcqn"}, "congestion_control is 'dcqn'; did you mean 'dcqcn'"),
    ],
)
def test_options_that_cannot_be_are_errors(options: dict[str, Any], message: str) -> None:
    with pytest.raises(astra_sim.InputError, match=message):
        network(STAR.format(2), **options)


def test_the_page_lists_every_option() -> None:
    page = (ROOT / "plugins" / "network_roce" / "OPTIONS.md").read_text()
    for field in attrs.fields(RoceOptions):
        assert f"| `{field.name}` |" in page


def test_the_file_of_links_is_what_charts_read(tmp_path: Path) -> None:
    runs = pytest.importorskip("astra_sim_report.runs")
    ring = "plugin:ring?size=4&links=2&link_bandwidth_gib_per_s=25&link_latency_ns=500"
    result = astra_sim.simulate(workload="plugin:collective?bytes=200000", platform=ring, network="plugin:roce")
    astra_sim.write_reports(result, tmp_path)
    rows = list(csv.DictReader((tmp_path / "links.csv").read_text().splitlines()))
    assert list(rows[0]) == list(LinkLoad._fields)
    (run,) = runs.load_runs([str(tmp_path)])
    assert [(f"NPU {link.source}", f"NPU {link.target}") for link in run.links] == [(row["source"], row["target"]) for row in rows]
    assert [link.utilisation for link in run.links] == [float(row["utilisation"]) for row in rows]
    assert 0 < max(link.utilisation for link in run.links) <= 1


@pytest.mark.parametrize(
    "where",
    [
        "plugin:gb200_nvl72",
        "plugin:switch?size=512&link_bandwidth_gb_per_s=50&link_latency_ns=1000",
        "plugin:clos?npus=64&ports=64&link_bandwidth_gb_per_s=100&link_latency_ns=1000",
    ],
)
def test_the_memory_of_switches_follows_the_platform(where: str) -> None:
    """Nothing is dropped in an incast, and the memory that is stated for such a platform is not enough."""
    result = network(where, windows=False)
    npus = result.platform.npus
    times = run(result, *[(npu, 0, 2_000_000) for npu in range(1, min(npus, 64))])
    assert all(each.received > 0 for each in times)
    assert result.statistics()["drops"] == 0
    with pytest.raises(
        astra_sim.InputError, match=r"buffer_mib is 1; .* reserve .* MiB \(headroom_factor\), expected more than that, such as"
    ):
        network(where, buffer_mib=1)


def test_small_platforms_keep_32_mib() -> None:
    same = [run(network(STAR.format(8), windows=False, **more), *INCAST) for more in ({}, {"buffer_mib": 32})]
    assert same[0] == same[1]


PUBLISHED_DCQCN = {"alpha_interval_us": 55, "decrease_interval_us": 50, "increase_interval_us": 55, "fast_recovery": 5, "rate_ai_mbps": 40}


def test_the_default_is_dcqcn_as_published() -> None:
    """Rates recover from an incast; with the preset reference they hardly do."""
    flows = [(npu, 0, 8_000_000) for npu in range(1, 9)]

    def last(**options: Any) -> float:
        result = network(
            STAR.format(9), windows=False, payload_bytes=options.pop("payload_bytes", 4096), congestion_control="dcqcn", **options
        )
        return max(each.received for each in run(result, *flows)) / (8 * 8_000_000 * 80 + 2_000_000)

    reference = {name: PRESETS["reference"][name] for name in PUBLISHED_DCQCN}
    assert last() == last(**PUBLISHED_DCQCN)
    assert last() < 1.3
    assert last(payload_bytes=1000, **reference) > 1.6
    assert RoceOptions().chosen("payload_bytes") == 4096
    assert RoceOptions(preset="reference").chosen("payload_bytes") == 1000


@pytest.mark.parametrize("senders", [2, 8])
@pytest.mark.parametrize("memory", [None, 1])
def test_an_incast_without_pauses_and_windows_goes_on(senders: int, memory: float | None) -> None:
    """Senders in step lose the same packets again and again: 158 times as long as they need, unless they react to losses."""
    more = {} if memory is None else {"buffer_mib": memory}
    result = network(STAR.format(senders + 1), windows=False, pfc=False, **more)
    times = run(result, *[(npu, 0, 16_000_000 // senders) for npu in range(1, senders + 1)])
    with pytest.warns(InputWarning, match="switches dropped") if result._core.statistics()["drops"] else contextlib.nullcontext():
        result.statistics()
    assert max(each.received for each in times) < 3 * 16_000_000 * 80


def test_switches_in_a_circle_go_on_without_pauses(tmp_path: Path) -> None:
    path = tmp_path / "ring.txt"
    path.write_text(topology(5, 5, [(npu, 5 + npu) for npu in range(5)] + [(5 + at, 5 + (at + 1) % 5) for at in range(5)]))
    result = network(str(path), windows=False, pfc=False, buffer_mib=1)
    times = run(result, *[(npu, (npu + 2) % 5, 8_000_000) for npu in range(5)])
    assert max(each.received for each in times) < 4 * 8_000_000 * 80


def test_timeouts_in_a_row_double_at_random(tmp_path: Path) -> None:
    """Two messages of a packet, of which most are lost: the network stays the same with a seed, and another has other times."""

    def last(seed: int) -> int:
        result = network(STAR.format(3), windows=False, seed=seed, error_rate=0.5, payload_bytes=4096)
        return max(each.received for each in run(result, (1, 0, 4000), (2, 0, 4000)))

    assert last(1) == last(1)
    assert len({last(seed) for seed in range(6)}) > 3
