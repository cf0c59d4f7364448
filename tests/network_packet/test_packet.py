"""The packet network: what must always hold, closed formulas, deadlock, and the analytical network on an idle platform."""

from __future__ import annotations

from typing import Any

import astra_sim
import pytest
from astra_sim import DeadlockError, InputError
from astra_sim.network import Message
from astra_sim.platform import Platform
from astra_sim_devkit.testing.contracts import NetworkContract
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("astra_sim_network_packet")

from astra_sim_network_analytical.network import AnalyticalNetwork
from astra_sim_network_analytical.options import AnalyticalOptions
from astra_sim_network_analytical.topologies import SwitchOptions, switch
from astra_sim_network_packet.options import PacketOptions
from astra_sim_platforms.garnet import Torus3dOptions, torus3d
from astra_sim_platforms.graph import GraphOptions as FileGraphOptions
from astra_sim_platforms.graph import graph as file_graph
from astra_sim_platforms.topologies import MeshOptions, mesh
from support.packet import OPTIONS, PLATFORMS, deliver, loads, network

FAR = "link_bandwidth_gb_per_s=50&link_latency_ns=100000"


@settings(deadline=None, max_examples=150)
@given(loads())
def test_nothing_is_lost_and_extrapolation_changes_nothing(load: tuple[str, str, list[tuple[int, int, int, int]]]) -> None:
    platform, options, messages = load
    quick = network(PLATFORMS[platform](), **OPTIONS[options])
    arrived = deliver(quick, messages)
    quick.check()
    assert sorted(arrived) == list(range(len(messages)))
    slow = network(PLATFORMS[platform](), **OPTIONS[options], exact="every-period")
    assert deliver(slow, messages) == arrived
    slow.check()
    assert slow.statistics() == quick.statistics()
    assert slow.links() == quick.links()


@settings(deadline=None, max_examples=60)
@given(loads(), st.integers(1, 50))
def test_credits_are_conserved_at_any_time(load: tuple[str, str, list[tuple[int, int, int, int]]], stops: int) -> None:
    platform, options, messages = load
    result = network(PLATFORMS[platform](), **OPTIONS[options])
    for number, (time, *message) in sorted(enumerate(messages), key=lambda entry: entry[1][0]):
        result.inject(time, [Message(number, *message)])
    for stop in range(stops):
        result.advance(stop * 10_000)
        result.check()


@st.composite
def ring_loads(draw: st.DrawFn) -> list[tuple[int, int, int, int, int]]:
    """Messages (time, source, destination, bytes, queue) on a torus of 2 x 2 x 3: of one NPU, or the same of all, or of some."""
    strides = {0: (1, 2), 1: (2, 2), 2: (2, 2), 3: (4, 3), 4: (4, 3)}
    result = []
    for _ in range(draw(st.integers(1, 6))):
        queue = draw(st.integers(0, 4))
        time, size = draw(st.integers(0, 50)) * 1000, draw(st.one_of(st.integers(1, 10_000), st.integers(1, 500_000)))
        stride, ring = strides[queue]
        for npu in draw(st.one_of(st.just(range(12)), st.sets(st.integers(0, 11), min_size=1))):
            place = npu // stride % ring
            step = -1 if queue in {2, 4} else 1  # one hop, which cannot deadlock
            result.append((time, npu, npu + (((place + step) % ring) - place) * stride, size, queue))
    return result


@settings(deadline=None, max_examples=100)
@given(ring_loads(), st.sampled_from([1, 2, 8]), st.sampled_from([2, 4, 64]), st.sampled_from([256, 2048]))
def test_one_ring_stands_for_those_that_do_the_same(load: list[tuple[int, int, int, int, int]], vcs: int, buffers: int, width: int) -> None:
    answers = []
    for quick in (True, False):
        dimensions = torus3d(Torus3dOptions(npus=12, packages=6, package_rows=3, tile_link_width_bits=width, package_link_width_bits=256))
        result = network(
            dimensions,
            preset="garnet",
            flit_bytes=256,
            packet_bytes=4096,
            vcs=vcs,
            buffers=buffers,
            exact=() if quick else ("every-npu", "every-period"),
        )
        answer: list[Any] = []
        # What arrives brings a second message of the same, a little later, as a collective's steps do.
        for number, (time, source, destination, size, queue) in sorted(enumerate(load), key=lambda entry: entry[1][0]):
            result.inject(time, [Message(number, source, destination, size, queue)])
        again = True
        while (delivery := result.advance(None)) is not None:
            answer.append(delivery)
            if again:
                again = delivery[0] < 60_000
                for number in delivery[1]:
                    _, source, destination, size, queue = load[number % 1000]
                    result.inject(delivery[0] + 10_000, [Message(number + 1000, source, destination, size, queue)])
        result.check()
        answers.append((answer, result.statistics(), result.links()))
    assert answers[0] == answers[1]


@given(
    hops=st.integers(1, 3),
    latency=st.integers(1, 30),
    local=st.integers(1, 20),
    depth=st.integers(1, 4),
    parts=st.sampled_from([1, 4, 8]),
    packets=st.integers(1, 5),
)
def test_an_idle_ring_takes_what_the_formula_says(hops: int, latency: int, local: int, depth: int, parts: int, packets: int) -> None:
    dimensions = torus3d(
        Torus3dOptions(npus=8, packages=8, tile_link_width_bits=2048 // parts, package_link_width_bits=2048 // parts,
                       local_link_latency_ns=local, package_link_latency_ns=latency)
    )  # fmt: skip
    result = network(dimensions, preset="garnet", flit_bytes=256, packet_bytes=4096, vcs=8, buffers=5000, router_latency=depth)
    result.inject(5_000, [Message(0, 1, 1 + hops, 4096 * packets, 1)])
    serial = 0 if parts == 1 else 4 + parts - 1
    cycles = 2 + 2 * local + (hops + 1) * depth + hops * (latency + serial) + (16 * packets - 1) * parts
    assert result.advance(None) == (5_000 + 1000 * cycles, [0])


@pytest.mark.parametrize("name", ["ring", "torus", "switch", "fully_connected", "hierarchy"])
def test_idle_analytical_and_packet_networks_agree_within_the_pipeline(name: str) -> None:
    dimensions = PLATFORMS[name]()
    platform = Platform(tuple(dimensions))
    analytical = AnalyticalNetwork(AnalyticalOptions(rounding="picosecond"), platform)
    result = network(dimensions)
    # A packet more on the wires at every hop (store and forward of flits), and a few cycles in every router and interface.
    for destination in range(1, platform.npus):
        for size in (1, 4096, 10**6):
            route = platform.route(0, destination)
            if any(platform.coordinate(destination, d) for d in range(len(dimensions)) if d != route.dimension):
                continue
            delay = deliver(network(dimensions), [(0, 0, destination, size)])[0]
            flit = 256 / dimensions[route.dimension].link_bandwidth * 1000
            expected = analytical.message_delay(0, destination, size)
            assert -flit <= delay - expected <= (route.hops + 1) * (flit + 4000) + 20_000, (destination, size)
    assert result.statistics()["packets"] == 0


def test_one_way_rings_without_datelines_deadlock_and_say_which_links_wait() -> None:
    results = network(torus3d(Torus3dOptions(npus=4, packages=4)), preset="garnet", vcs=1, buffers=1, packet_bytes=4096)
    for npu in range(4):
        results.inject(0, [Message(npu, npu, (npu + 2) % 4, 10**5, 1)])
    with pytest.raises(DeadlockError, match="deadlocked: 4 messages") as result:
        results.advance(None)
    assert len(result.value.waiting) == 4
    assert all("waits for router" in line for line in result.value.waiting)


@pytest.mark.parametrize("freedom", ["dateline", "bubble"])
def test_the_same_rings_with_freedom_from_deadlock_deliver(freedom: str) -> None:
    result = network(
        torus3d(Torus3dOptions(npus=4, packages=4)), preset="garnet", vcs=2, buffers=128, packet_bytes=4096, deadlock_freedom=freedom
    )
    for npu in range(4):
        result.inject(0, [Message(npu, npu, (npu + 2) % 4, 10**5, 1)])
    arrived = []
    while (delivery := result.advance(None)) is not None:
        arrived += delivery[1]
    assert sorted(arrived) == [0, 1, 2, 3]


def test_any_preset_runs_on_any_platform() -> None:
    for preset in ("default", "garnet", "booksim"):
        result = network(torus3d(Torus3dOptions(npus=8, packages=4, package_rows=2)), preset=preset)
        assert deliver(result, [(0, 0, 1, 10_000), (0, 0, 2, 10_000), (0, 0, 4, 10_000)]).keys() == {0, 1, 2}
        assert deliver(network(PLATFORMS["hierarchy"](), preset=preset), [(0, 0, 8, 10_000)]).keys() == {0}


def test_a_long_message_costs_less_than_its_flits() -> None:
    result = network(PLATFORMS["torus"]())
    size = 10**12
    result.inject(0, [Message(0, 0, 1, size)])
    time, _ = result.advance(None) or (0, [])
    assert time == pytest.approx(size / 32 * 1000, rel=1e-3)
    result.check()


def test_what_takes_a_message_to_no_place_is_an_error() -> None:
    result = network(torus3d(Torus3dOptions(npus=8, packages=4)), preset="garnet")
    with pytest.raises(InputError, match="NPU 0 to NPU 3 in queue 0"):
        result.inject(0, [Message(0, 0, 3, 100, 0)])
    with pytest.raises(InputError, match="outside the platform of 8 NPUs"):
        result.inject(0, [Message(0, 0, 8, 100, 0)])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"packet_bytes": 16}, "packet_bytes is 16, less than a flit of 256 bytes"),
        ({"vcs": 1}, "the routes of a ring of 5 NPUs need 2 classes of virtual channels; vcs is 1"),
        ({"flow_control": "cut_through", "buffers": 2}, "need room for a packet of 16 flits"),
        ({"preset": "booksim", "deadlock_freedom": "bubble"}, "needs combined allocation"),
        ({"preset": "booksim", "arbitration": "transit_first"}, "arbitration is 'transit_first', which needs combined allocation"),
        ({"preset": "booksim", "matching": "maximal"}, "matching is 'maximal', which needs combined allocation"),
        ({"preset": "booksim", "speculative_allocator": "separate"}, "speculative is false; expected speculative = true"),
    ],
)
def test_options_that_do_not_go_together(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        network(PLATFORMS["ring"](), **options)


@pytest.mark.parametrize("key", ["vcs", "buffers", "flit_bytes", "packet_bytes", "router_latency", "input_speedup"])
def test_zeros_are_errors(key: str) -> None:
    options: dict[str, Any] = {key: 0}
    with pytest.raises(ValueError, match=f"{key} is 0; expected at least 1"):
        PacketOptions(**options)


def alone(dimensions: Any, messages: list[tuple[int, int, int, int]], **options: Any) -> dict[int, int]:
    """When messages arrive (ns), in whole nanoseconds."""
    return {number: time // 1000 for number, time in deliver(network(dimensions, **options), messages).items()}


def test_destinations_of_an_interface_take_turns() -> None:
    """Two long messages leave at once; of two to one destination, the second waits for the first."""
    three = PLATFORMS["switch"]()
    messages = [(0, 0, 1, 1 << 20), (0, 0, 2, 1 << 20)]
    half, first, all_ = 1 << 20, alone(three, messages[:1])[0], alone(three, messages)
    assert all_[1] - all_[0] < 0.01 * first
    one_after_another = alone(three, messages, interface_order="oldest")
    assert one_after_another[0] == first
    assert alone(three, [(0, 0, 1, half), (0, 0, 1, half)]) == one_after_another


def test_packets_on_their_way_go_before_those_of_interfaces() -> None:
    """On a line NPU 0 sends through NPU 1, which sends the same way: in transit first, NPU 0 is not held up."""
    line = mesh(MeshOptions(sizes=(3,), link_latency_ns=20.0, link_bandwidth_gb_per_s=32.0))
    messages = [(0, 0, 2, 1 << 20), (0, 1, 2, 1 << 20)]
    lone = alone(line, messages[:1])[0]
    assert alone(line, messages)[0] == pytest.approx(lone, rel=0.02)
    assert alone(line, messages, arbitration="round_robin")[0] == pytest.approx(2 * lone, rel=0.02)


def test_an_input_that_loses_an_output_asks_for_another() -> None:
    """An all-to-all on a fat tree: all inputs of switches have packets for all outputs, and links have room for all."""
    platform = "plugin:fat_tree?arity=4&levels=2&link_bandwidth_gb_per_s=25&link_latency_ns=500"
    workload = "plugin:collective?collective=all_to_all&bytes=262144"
    flows, single, maximal = (
        astra_sim.simulate(workload=workload, platform=platform, network=f"plugin:{network}", set=["system.all_to_all=direct"]).finish_ns
        for network in ("flow", "packet?matching=single", "packet")
    )
    assert flows < maximal < 1.2 * flows
    assert 1.3 * maximal < single


@pytest.mark.parametrize("platform", [f"plugin:switch?size=3&{FAR}", f"plugin:ring?size=4&links=2&{FAR}"])
def test_long_links_are_kept_busy(platform: str) -> None:
    """Virtual channels in thousands: messages of 5 MB over links of 100 us takes its bytes and its latency."""
    (flows, packets) = (
        astra_sim.simulate(workload="plugin:collective?bytes=5000000", platform=platform, network=f"plugin:{network}").finish_ns
        for network in ("flow", "packet")
    )
    assert flows <= packets < 1.01 * flows


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "vcs is 48832, as many as keep the longest link busy: the virtual networks of a link have 48832 virtual channels"),
        ({"vcs": 32767, "npus": 1100}, "vcs is 32767: all links together have 144174800 virtual channels; expected at most 134217728"),
    ],
)
def test_virtual_channels_that_are_too_many_are_an_error(options: dict[str, Any], words: str) -> None:
    npus = options.pop("npus", 3)
    far = switch(SwitchOptions(size=npus, links=1, link_latency_ns=1e6, link_bandwidth_gb_per_s=50.0))
    with pytest.raises(InputError, match=words + ".*larger flit_bytes and packet_bytes"):
        network(far, exact="every-npu", **options)


def test_a_graph_of_another_package_runs(tmp_path: Any) -> None:
    """Links with bandwidths and latencies of their own, through a switch."""
    file = tmp_path / "links.csv"
    file.write_text("source,target,bandwidth_gb_per_s,latency_ns\n0,hub,32,20\n1,hub,16,20\n2,hub,32,40\n")
    (dimension,) = file_graph(FileGraphOptions(file=str(file)))
    network_ = network([dimension])
    fast = deliver(network([dimension]), [(0, 0, 2, 100_000)])[0]
    slow = deliver(network_, [(0, 0, 1, 100_000)])[0]
    assert 100_000 / 16 * 1000 < slow < 100_000 / 16 * 1000 * 1.1
    assert 100_000 / 32 * 1000 < fast < 100_000 / 32 * 1000 * 1.1


class TestPacketContract(NetworkContract):
    """The kernel's conformance checks."""

    name = "packet"
    platform = Platform(tuple(PLATFORMS["torus"]()))
