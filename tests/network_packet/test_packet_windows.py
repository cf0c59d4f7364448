"""Routers of the packet network run for some cycles by themselves, but for `exact`: every figure is what it is cycle by cycle."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest
from astra_sim import InputError
from astra_sim.network import Message
from astra_sim.platform import Dimension
from hypothesis import assume, given, settings
from hypothesis import strategies as st

pytest.importorskip("astra_sim_network_packet")

from astra_sim_network_analytical.topologies import DimensionOptions, SwitchOptions, fully_connected, switch
from astra_sim_network_packet.load import LoadMeasurement
from astra_sim_network_packet.options import PacketOptions
from astra_sim_network_packet.traffic import read_platform, sweep
from astra_sim_platforms.topologies import DragonflyOptions, FatTreeOptions, MeshOptions, dragonfly, fat_tree, mesh
from support.packet import BANDWIDTH, network, torus

FABRICS: dict[str, Callable[[float], list[Dimension]]] = {
    "ring": lambda latency: torus(35, link_latency_ns=latency),
    "torus": lambda latency: torus(4, 3, 3, link_latency_ns=latency),
    "mesh": lambda latency: mesh(MeshOptions(sizes=(6, 6), link_latency_ns=latency, **BANDWIDTH)),
    "switch": lambda latency: switch(SwitchOptions(size=36, links=1, link_latency_ns=latency, **BANDWIDTH)),
    "fully_connected": lambda latency: fully_connected(DimensionOptions(size=18, links=17, link_latency_ns=latency, **BANDWIDTH)),
    "narrow": lambda latency: [
        *torus(6, link_latency_ns=latency),
        *switch(SwitchOptions(size=6, links=1, link_latency_ns=latency, link_bandwidth_gb_per_s=11.0)),
    ],
    "fat_tree": lambda latency: fat_tree(FatTreeOptions(arity=2, levels=3, link_latency_ns=latency, **BANDWIDTH)),
    "dragonfly": lambda latency: dragonfly(DragonflyOptions(routers=2, npus=2, link_latency_ns=latency, **BANDWIDTH)),
}
"""All have more routers than a tile has (windows.cpp)."""
CHOICES: dict[str, dict[str, Any]] = {
    "default": {},
    "every flit": {"exact": ("every-period",)},
    "one injection port": {"injection_ports": 1},
    "small buffers": {"vcs": 4, "buffers": 2},
    "bubble": {"vcs": 4, "deadlock_freedom": "bubble"},
    "adaptive": {"vcs": 4, "routing": "adaptive"},
    "deep": {"vcs": 4, "router_latency": 3, "credit_delay": 2},
    "booksim": {"preset": "booksim", "packet_bytes": 128},
    "speculative": {"preset": "booksim", "packet_bytes": 128, "speculative": True, "input_speedup": 2},
}


def exactly(options: dict[str, Any], what: str) -> dict[str, Any]:
    """Options with one more word of `exact`."""
    return options | {"exact": (*options.get("exact", ()), what)}


@st.composite
def sent(draw: st.DrawFn) -> list[tuple[int, int, int, int]]:
    """Messages (time, source, distance, bytes): of one NPU, of some, or the same of all."""
    result = []
    for _ in range(draw(st.integers(1, 5))):
        time, size = draw(st.integers(0, 400)) * 1000, draw(st.one_of(st.integers(1, 3000), st.integers(1, 200_000)))
        distance = draw(st.integers(0, 7))
        sources = draw(st.one_of(st.just(range(36)), st.sets(st.integers(0, 35), min_size=1)))
        result += [(time, source, distance, size) for source in sorted(sources)]
    return result


def answers(
    fabric: list[Dimension], options: dict[str, Any], messages: list[tuple[int, int, int, int]], waits: int, looks: int
) -> list[object]:
    """Arrivals, of which the first bring other messages `waits` later; checks and figures; with `looks` picoseconds at a time first."""
    result = network(fabric, **exactly(options, "every-npu"))
    npus = result.platform.npus
    pending = {}
    for number, (time, source, distance, size) in sorted(enumerate(messages), key=lambda entry: entry[1][0]):
        pending[number] = (source % npus, (source + distance) % npus, size)
        result.inject(time, [Message(number, *pending[number])])
    seen: list[object] = []
    until: int | None = looks
    while True:
        delivery = result.advance(until)
        if delivery is None:
            if until is None:
                break
            until = None if until > 20 * looks else until + looks
            continue
        now, arrived = delivery
        seen.append((now, sorted(arrived)))
        for number in arrived:
            source, destination, size = pending[number]
            if number >= 3000:
                continue
            follower = (destination, source, max(1, size // 3))
            pending[number + 1000] = follower
            result.inject(now + waits, [Message(number + 1000, *follower)])
    result.check()
    return [seen, result.statistics(), result.links()]


@settings(deadline=None, max_examples=80)
@given(
    st.sampled_from(sorted(FABRICS)),
    st.sampled_from(sorted(CHOICES)),
    st.sampled_from([25.0, 60.0, 400.0]),
    sent(),
    st.sampled_from([0, 1, 70_000]),
    st.sampled_from([7_000, 2_000_000]),
    st.integers(1, 3),
)
def test_windows_and_threads_change_no_figure(
    fabric: str, options: str, latency: float, messages: list[tuple[int, int, int, int]], waits: int, looks: int, threads: int
) -> None:
    result = FABRICS[fabric](latency)
    try:
        network(result, **exactly(CHOICES[options], "every-npu"))
    except InputError:
        assume(False)  # bubbles are for rings
    by_cycle = answers(result, exactly(CHOICES[options], "every-cycle"), messages, waits, looks)
    assert answers(result, {**CHOICES[options], "threads": threads}, messages, waits, looks) == by_cycle


@pytest.mark.parametrize("fabric", ["ring", "torus", "mesh", "switch", "fat_tree"])
@pytest.mark.parametrize("options", ["default", "every flit", "adaptive", "deep", "speculative"])
def test_threads_share_windows(fabric: str, options: str) -> None:
    dimensions = FABRICS[fabric](60.0)
    seen = []
    for threads in (1, 2, 4):
        result = network(dimensions, **exactly(CHOICES[options], "every-npu"), threads=threads)
        npus = result.platform.npus
        for distance in (1, 5, npus - 1):
            result.inject(0, [Message(1000 * distance + npu, npu, (npu + distance) % npus, 70_000 + 100 * npu) for npu in range(npus)])
        arrivals = []
        while (delivery := result.advance(None)) is not None:
            arrivals.append((delivery[0], sorted(delivery[1])))
        result.check()
        assert (result.core.shared_windows > 0) == (threads > 1)
        seen.append((arrivals, result.statistics(), result.links()))
    assert seen[1:] == seen[:1] * 2


@pytest.mark.parametrize("options", ["booksim", "speculative", "adaptive"])
@pytest.mark.parametrize("latency", [2, 9])
def test_windows_and_threads_change_no_figure_of_traffic(options: str, latency: int) -> None:
    platform = read_platform(f"plugin:torus?sizes=6,6&links=2&link_bandwidth_gb_per_s=32&link_latency_ns={latency}")
    measured = [
        sweep(
            platform,
            PacketOptions(**{**chosen, "threads": threads, "packet_bytes": 512}),
            "uniform",
            [0.001, 0.3],
            LoadMeasurement(periods=2, period=100),
        )
        for chosen, threads in ((exactly(CHOICES[options], "every-cycle"), 1), (CHOICES[options], 1), (CHOICES[options], 3))
    ]
    assert measured[1:] == measured[:1] * 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_fork_can_give_up_networks_with_threads() -> None:
    """It has none of the threads. Where their stacks were given back, and there are many, to wait for one is a segmentation fault."""
    networks = []
    for _ in range(8):
        result = network(FABRICS["torus"](60.0), exact="every-npu", threads=3)
        for distance in (1, 5):
            result.inject(0, [Message(1000 * distance + npu, npu, (npu + distance) % 36, 70_000 + 100 * npu) for npu in range(36)])
        while result.advance(None) is not None:
            pass
        assert result.core.shared_windows > 0
        networks.append(result)
    del result
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        networks.clear()
        gc.collect()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
