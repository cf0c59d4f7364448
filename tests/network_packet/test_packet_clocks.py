"""The packet network with a clock for each router: formulas, throughput, extrapolation, invariants and errors."""

from __future__ import annotations

import math
from typing import Any

import pytest
from astra_sim import InputError
from astra_sim.network import Message
from astra_sim.platform import Platform
from hypothesis import example, given, settings
from hypothesis import strategies as st

pytest.importorskip("astra_sim_network_packet")

from astra_sim_network_packet.fabric import clock_of
from astra_sim_network_packet.load import LoadMeasurement
from astra_sim_network_packet.options import PacketOptions
from astra_sim_network_packet.traffic import sweep
from astra_sim_platforms.garnet import Torus3dOptions, torus3d
from astra_sim_platforms.topologies import MeshOptions, mesh
from support.packet import OPTIONS, PLATFORMS, deliver, loads, network

Messages = list[tuple[int, ...]]

STAGED: dict[str, Any] = {"preset": "booksim", "packet_bytes": 256, "flit_bytes": 256}
COMBINED: dict[str, Any] = {"packet_bytes": 256, "flit_bytes": 256, "vcs": 16, "interface_latency_ns": 0.0}
CLOCKS = [(1000, 1000, 1000), (1000, 3000, 1000), (2000, 3000, 5000), (3000, 1000, 2000), (1500, 1000, 2250), (333, 1000, 500)]
LINK_PS = 5000


def line(npus: int, gb_per_s: float = 10_000.0) -> Any:
    """NPUs in a row with links that, if not said otherwise, carry a flit in less than any of the clocks here."""
    return mesh(MeshOptions(sizes=(npus,), link_bandwidth_gb_per_s=gb_per_s, link_latency_ns=LINK_PS / 1000))


def edge(time: int, clock: int) -> int:
    return -(-time // clock) * clock


def routers_of(name: str) -> int:
    """Routers of one of the platforms, as the error for a wrong number of clocks says."""
    with pytest.raises(InputError, match="routers; expected one for each") as result:
        network(PLATFORMS[name](), router_clock_ps=(1000,) * 1000)
    return int(str(result.value).split("the platform has ")[1].split()[0])


ROUTERS = {name: routers_of(name) for name in PLATFORMS}


@pytest.mark.parametrize("start", [0, 4000, 4500])
@pytest.mark.parametrize("clocks", CLOCKS)
def test_an_idle_path_takes_what_the_formula_says_with_combined_allocation(clocks: tuple[int, ...], start: int) -> None:
    base = math.gcd(*clocks)
    # Seen at an edge, made into a packet a cycle later, sent in the next.
    time = edge(edge(start, base), clocks[0]) + 2 * clocks[0]
    time += clocks[0]  # through the router
    for clock in clocks[1:]:
        time = edge(time + LINK_PS // base * base + (base if LINK_PS % base else 0), clock) + clock
    assert deliver(network(line(3), **COMBINED, router_clock_ps=clocks), [(start, 0, 2, 200)]) == {0: time}


@pytest.mark.parametrize("start", [0, 4000, 4500])
@pytest.mark.parametrize("clocks", CLOCKS)
def test_an_idle_path_takes_what_the_formula_says_with_staged_allocation(clocks: tuple[int, ...], start: int) -> None:
    base = math.gcd(*clocks)
    time = edge(edge(start, base), clocks[0]) + 2 * clocks[0]
    # Interfaces are a cycle of clock_ps away. Route, virtual channel, switch (two cycles to the link).
    time = edge(time + base, clocks[0]) + 4 * clocks[0]
    for clock in clocks[1:]:
        time = edge(time + edge(LINK_PS, base), clock) + 4 * clock
    time = edge(time + base, clocks[-1])
    assert deliver(network(line(3), **STAGED, router_clock_ps=clocks), [(start, 0, 2, 200)]) == {0: time}


def test_an_example_by_hand() -> None:
    # NPU 0's router has edges at multiples of 2 ns, NPU 1's at multiples of 3 ns. Sent at 0, made at 2, on the way to the router at 4,
    # on the link at 6, there at 11 and seen at 12, at the interface at 15.
    assert deliver(network(line(2), **COMBINED, router_clock_ps=(2000, 3000)), [(0, 0, 1, 1)]) == {0: 15_000}
    # The other way: made at 3, to the router at 6, on the link at 9, there and seen at 14, at the interface at 16.
    assert deliver(network(line(2), **COMBINED, router_clock_ps=(2000, 3000)), [(0, 1, 0, 1)]) == {0: 16_000}
    # Credits and a second flit of the message: made at 4 (2 ns later), there at 13 and seen at 15, at the interface at 18.
    assert deliver(network(line(2), **COMBINED, router_clock_ps=(2000, 3000)), [(0, 0, 1, 512)]) == {0: 18_000}


@pytest.mark.parametrize("options", [COMBINED, {**STAGED, "vcs": 16}], ids=["combined", "staged"])
@pytest.mark.parametrize("clocks", [(1000, 3000, 1000), (3000, 1000, 1000), (1000, 1000, 3000), (1500, 2500, 3000), (2000, 2000, 3000)])
def test_the_slowest_router_limits_the_throughput(options: dict[str, Any], clocks: tuple[int, ...]) -> None:
    flits = 10_000
    result = network(line(3), **{**options, "packet_bytes": 4096, "vcs": 32, "buffers": 16}, router_clock_ps=clocks)
    assert deliver(result, [(0, 0, 2, 256 * flits)])[0] == pytest.approx(flits * max(clocks), rel=0.01)
    result.check()


def test_a_slow_router_takes_less_traffic() -> None:
    how = LoadMeasurement(drain_limit=100)
    platform = Platform(tuple(line(2)))
    rates = []
    for clock in (1000, 2000, 4000):
        options = PacketOptions(preset="booksim", vcs=16, clock_ps=1000, router_clock_ps=(clock, 1000))
        rates.append(sweep(platform, options, "neighbour", [1.0], how)[0].accepted_rate)
    # NPU 0 sends less, and so does NPU 1 that sends to it.
    assert rates == [pytest.approx(share, rel=0.02) for share in (1, 1 / 2, 1 / 4)]


@settings(deadline=None, max_examples=60)
@given(loads())
def test_equal_clocks_are_no_clocks(load: tuple[str, str, Messages]) -> None:
    platform, options, messages = load
    common = clock_of(PacketOptions(**OPTIONS[options]).settings(), Platform(tuple(PLATFORMS[platform]())))
    without = network(PLATFORMS[platform](), **OPTIONS[options])
    given_all = network(PLATFORMS[platform](), **OPTIONS[options], router_clock_ps=(common,) * ROUTERS[platform])
    assert deliver(given_all, messages) == deliver(without, messages)
    assert given_all.statistics() == without.statistics()
    assert given_all.links() == without.links()


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(sorted(OPTIONS)),
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 3), st.integers(1, 3), st.integers(1, 300_000)), min_size=1, max_size=8),
    st.sampled_from([2, 3, 5]),
    st.sampled_from([10_000.0, 100.0, 64.0, 25.0]),
)
@example("default", [(0, 0, 1, 1), (0, 0, 1, 1), (1, 0, 2, 1)], 2, 10_000.0)
@example("default", [(0, 0, 1, 1), (1, 0, 2, 1), (1, 0, 1, 1)], 2, 10_000.0)
def test_a_finer_tick_than_the_clock_of_all_routers_changes_nothing(
    options: str, sends: list[tuple[int, int, int, int]], divider: int, gb_per_s: float
) -> None:
    messages: Messages = [(time * 700, source, (source + way) % 4, size) for time, source, way, size in sends]
    given_options = {**OPTIONS[options], "flit_bytes": 256, "packet_bytes": 4096, "vcs": 4, "buffers": 16, "interface_latency_ns": 0.0}
    clock = divider * 1000
    coarse = network(line(4, gb_per_s), **given_options, clock_ps=clock)
    fine = network(line(4, gb_per_s), **given_options, clock_ps=1000, router_clock_ps=(clock,) * 4)
    assert deliver(fine, messages) == deliver(coarse, messages)


@settings(deadline=None, max_examples=150)
@given(loads(), st.data())
def test_nothing_is_lost_and_extrapolation_changes_nothing(load: tuple[str, str, Messages], data: st.DataObject) -> None:
    platform, options, messages = load
    clocks = data.draw(st.lists(st.integers(1, 3).map(lambda k: k * 2000), min_size=ROUTERS[platform], max_size=ROUTERS[platform]))
    chosen = {**OPTIONS[options], "clock_ps": 2000, "router_clock_ps": tuple(clocks)}
    quick = network(PLATFORMS[platform](), **chosen)
    arrived = deliver(quick, messages)
    quick.check()
    assert sorted(arrived) == list(range(len(messages)))
    slow = network(PLATFORMS[platform](), **chosen, exact="every-period")
    assert deliver(slow, messages) == arrived
    slow.check()
    assert slow.statistics() == quick.statistics()
    assert slow.links() == quick.links()


@settings(deadline=None, max_examples=60)
@given(loads(), st.integers(1, 50), st.data())
def test_credits_are_conserved_at_any_time(load: tuple[str, str, Messages], stops: int, data: st.DataObject) -> None:
    platform, options, messages = load
    clocks = data.draw(st.lists(st.integers(1, 3).map(lambda k: k * 2000), min_size=ROUTERS[platform], max_size=ROUTERS[platform]))
    result = network(PLATFORMS[platform](), **OPTIONS[options], router_clock_ps=tuple(clocks))
    for number, (time, *message) in sorted(enumerate(messages), key=lambda entry: entry[1][0]):
        result.inject(time, [Message(number, *message)])
    for stop in range(stops):
        result.advance(stop * 10_000)
        result.check()


@pytest.mark.parametrize("options", [COMBINED, STAGED], ids=["combined", "staged"])
def test_a_long_message_costs_less_than_its_flits(options: dict[str, Any]) -> None:
    chosen = {**options, "packet_bytes": 4096, "vcs": 32, "buffers": 16}
    flits = 10**9
    result = network(line(3), **chosen, router_clock_ps=(1000, 3000, 2000))
    assert deliver(result, [(0, 0, 2, 256 * flits)])[0] == pytest.approx(flits * 3000, rel=1e-3)
    result.check()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"router_clock_ps": (1000, 2000)}, "router_clock_ps has 2 clocks, and the platform has 5 routers; expected one for each"),
        (
            {"clock_ps": 700, "router_clock_ps": (1400,) * 4 + (1000,)},
            "is 1000 for router 4, and clock_ps is 700, .* a divisor of 200",
        ),
        ({"router_clock_ps": (1_000_000,) * 4 + (7,)}, "is 1000000 for router 0, more than 10000 times the cycle of 1 ps"),
        ({"preset": "garnet", "router_clock_ps": (1000,) * 5}, "router_clock_ps is given with preset 'garnet'"),
    ],
)
def test_clocks_that_cannot_be_are_errors(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        network(PLATFORMS["ring"](), **options)


def test_garnet_platforms_have_one_clock() -> None:
    with pytest.raises(InputError, match="router_clock_ps is given for Torus3D of Garnet"):
        network(torus3d(Torus3dOptions(npus=8, packages=4)), router_clock_ps=(1000,) * 8)


@pytest.mark.parametrize("clock", [0, -5])
def test_clocks_are_positive(clock: int) -> None:
    with pytest.raises(ValueError, match="expected at least 1"):
        PacketOptions(router_clock_ps=(1000, clock))
