"""The packet network with one NPU for all that automorphisms take to it: every figure is that of the whole network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import astra_sim
import pytest
from astra_sim import DeadlockError
from astra_sim.network import Message
from astra_sim.platform import Dimension, Platform
from hypothesis import example, given, settings
from hypothesis import strategies as st

pytest.importorskip("astra_sim_network_packet")

from astra_sim_network_analytical.topologies import (
    DimensionOptions,
    RingOptions,
    SwitchOptions,
    fully_connected,
    ring,
    switch,
)
from astra_sim_network_packet import fabric
from astra_sim_network_packet.network import PacketNetwork
from astra_sim_platforms.topologies import MeshOptions, mesh
from support import figures
from support.packet import BANDWIDTH, OPTIONS, network

SLOW: dict[str, Any] = {"link_bandwidth_gb_per_s": 11.0, "link_latency_ns": 30.0}
FAST: dict[str, Any] = {**BANDWIDTH, "link_latency_ns": 7.0}


def rings(*sizes: int) -> list[Dimension]:
    return [d for number, size in enumerate(sizes) for d in ring(RingOptions(size=size, links=2, **(SLOW if number else FAST)))]


def connected(size: int) -> list[Dimension]:
    return list(fully_connected(DimensionOptions(size=size, links=size - 1, **FAST)))


def switched(size: int) -> list[Dimension]:
    return list(switch(SwitchOptions(size=size, links=1, **SLOW)))


SHAPES: dict[str, Callable[[], list[Dimension]]] = {
    "ring of 2": lambda: rings(2),
    "ring of 3": lambda: rings(3),
    "ring of 4": lambda: rings(4),
    "ring of 5": lambda: rings(5),
    "torus of 2 x 2 x 2": lambda: rings(2, 2, 2),
    "torus of 4 x 3": lambda: rings(4, 3),
    "torus of 2 x 5": lambda: rings(2, 5),
    "fully connected 4": lambda: connected(4),
    "fully connected 5": lambda: connected(5),
    "switch of 4": lambda: switched(4),
    "switch of 3": lambda: switched(3),
    "ring of 3, switch of 4": lambda: [*rings(3), *switched(4)],
    "fully connected 4, ring of 3": lambda: [*connected(4), *rings(3)],
    "switch of 2, fully connected 3": lambda: [*switched(2), *connected(3)],
    "line of 3, ring of 3": lambda: [*mesh(MeshOptions(sizes=(3,), link_latency_ns=3.0, **BANDWIDTH)), *rings(3)],
    "ring of 4, line of 2": lambda: [*rings(4), *mesh(MeshOptions(sizes=(2,), link_latency_ns=3.0, **BANDWIDTH))],
}
CHOICES: dict[str, dict[str, Any]] = {
    **OPTIONS,
    "garnet": {"preset": "garnet", "vcs": 8},
    "no classes": {"deadlock_freedom": "none"},
    "one injection port": {"injection_ports": 1},
    "three injection ports": {"injection_ports": 3, "vcs": 2},
    "odd packets": {"packet_bytes": 1000, "flit_bytes": 300, "buffers": 4},
    "booksim without classes": {"preset": "booksim", "deadlock_freedom": "none", "wait_for_tail_credit": True},
}

Wave = tuple[int, list[tuple[int, int]], str, int]
"""What NPUs send: when (ps), by how many numbers further on and how many bytes, how, and which NPU begins."""


@st.composite
def waves(draw: st.DrawFn) -> tuple[str, str, list[Wave]]:
    shape = draw(st.sampled_from(sorted(SHAPES)))
    options = draw(st.sampled_from(sorted(CHOICES)))
    npus = Platform(tuple(SHAPES[shape]())).npus
    size = st.one_of(st.integers(1, 5000), st.integers(1, 100_000))
    messages = st.lists(st.tuples(st.integers(1, npus - 1), size), min_size=1, max_size=3)
    how = st.sampled_from(["distance", "distance", "distance", "exclusive or", "number", "some", "alone"])
    wave = st.tuples(st.integers(0, 20_000), messages, how, st.integers(0, npus - 1))
    return shape, options, draw(st.lists(wave, min_size=1, max_size=4))


def receiver(platform: Platform, source: int, by: int, how: str) -> int | None:
    """Where an NPU sends a message to; None where it sends none."""
    if how == "alone":
        return (source + by) % platform.npus if source == 0 else None
    if how in {"number", "some"}:
        return (source + by) % platform.npus if how == "number" or source % 3 else None
    results = 0
    for d, (dimension, stride) in enumerate(zip(platform.dimensions, platform.strides, strict=True)):
        here, distance = platform.coordinate(source, d), platform.coordinate(by, d)
        line = dimension.topology.name == "mesh"
        place = (here ^ distance if how == "exclusive or" else here + distance) % dimension.size
        results += (distance if line else place) * stride
    return results if results != source else None


def answers(dimensions: Sequence[Dimension], options: dict[str, Any], load: Sequence[Wave]) -> tuple[PacketNetwork, list[Any]]:
    """The results of a network for messages and links. Every message that arrives brings another one of the same, a little later, once."""
    results = network(dimensions, **options)
    results.begin()
    platform = results.platform
    sent: dict[int, tuple[int, int, int]] = {}
    batches = []
    for time, messages, how, first in sorted(load, key=lambda wave: wave[0]):
        batch = []
        for place in range(platform.npus):
            source = (first + place) % platform.npus
            # NPUs that do the same need not come to it in the same order.
            for by, size in messages if place % 2 else messages[::-1] if len({by for by, _ in messages}) == len(messages) else messages:
                to = receiver(platform, source, by, how)
                if to is not None:
                    sent[len(sent)] = source, to, size
                    batch.append(Message(len(sent) - 1, source, to, size))
        batches.append((time, batch))
    outcome: list[Any] = []
    for time, batch in batches:
        while (delivery := results.advance(time - 1)) is not None:
            outcome.append(delivery)
        results.inject(time, batch)
    again = len(sent)
    try:
        while (delivery := results.advance(None)) is not None:
            outcome.append(delivery)
            results.inject(delivery[0] + 5000, [Message(again + number, *sent[number]) for number in delivery[1] if number < again])
    except DeadlockError as error:
        outcome.append(str(error))
    results.check()
    statistics = results.statistics()
    del statistics["simulated_npus"]
    return results, [outcome, statistics, results.links(), results.links(), results.reports()]


@settings(deadline=None, max_examples=300)
@given(waves())
@example(("fully connected 4", "default", [(0, [(2, 9000)], "distance", 0), (0, [(1, 9000)], "exclusive or", 0)]))
@example(("ring of 3, switch of 4", "booksim", [(0, [(3, 1), (3, 1), (6, 193)], "distance", 0)]))
@example(("switch of 4", "default", [(0, [(1, 9000), (2, 9000)], "distance", 0)]))
@example(("ring of 5", "no classes", [(0, [(2, 90_000)], "distance", 0), (9000, [(1, 9000)], "distance", 3)]))
@example(("torus of 4 x 3", "default", [(0, [(1, 90_000)], "distance", 0), (50_000, [(4, 9000)], "some", 3)]))
@example(("ring of 4", "default", [(0, [(1, 9000), (2, 9000), (3, 9000), (1, 100)], "alone", 0)]))
def test_every_figure_is_that_of_the_whole_network(load: tuple[str, str, list[Wave]]) -> None:
    shape, options, sent = load
    _, collapsed = answers(SHAPES[shape](), CHOICES[options], sent)
    _, whole = answers(SHAPES[shape](), {**CHOICES[options], "exact": "every-npu"}, sent)
    assert collapsed == whole


def simulated(dimensions: Sequence[Dimension], options: dict[str, Any], load: Sequence[Wave]) -> int:
    outcome, _ = answers(dimensions, options, load)
    results = outcome.statistics()["simulated_npus"]
    assert isinstance(results, int)
    return results


NEIGHBOURS: list[Wave] = [(0, [(1, 50_000), (4, 50_000)], "distance", 0)]


@pytest.mark.parametrize(
    ("shape", "options", "load", "npus"),
    [
        ("ring of 5", "default", [(0, [(1, 50_000), (4, 50_000)], "distance", 0)], 1),
        ("ring of 5", "default", [(0, [(2, 50_000)], "distance", 0)], 5),  # datelines
        ("ring of 5", "no classes", [(0, [(2, 50_000)], "distance", 0)], 5),  # inputs beside the dateline have other numbers
        ("ring of 4", "no classes", [(0, [(2, 50_000)], "distance", 0)], 4),  # two ways to the opposite NPU
        ("torus of 4 x 3", "default", [(0, [(1, 50_000), (4, 50_000)], "distance", 0)], 1),
        # The next number is in another row for the last of a row: the same in all rows.
        ("torus of 4 x 3", "default", [(0, [(1, 50_000)], "number", 0)], 4),
        ("torus of 4 x 3", "default", [(0, [(1, 50_000), (4, 50_000)], "some", 0)], 12),
        # Datelines of the first dimension are no matter of the second.
        ("torus of 4 x 3", "default", [(0, [(4, 9000)], "distance", 0), (9, [(2, 50_000)], "distance", 0)], 4),
        ("torus of 4 x 3", "default", [(0, [(2, 9000)], "distance", 0), (9, [(1, 50_000)], "some", 0)], 12),
        ("torus of 2 x 2 x 2", "one injection port", [(0, [(7, 50_000), (3, 20_000), (1, 70_000)], "distance", 0)], 1),
        ("torus of 2 x 2 x 2", "booksim", [(0, [(7, 5000)], "distance", 0), (9, [(3, 2000)], "distance", 3)], 1),
        ("fully connected 5", "default", [(0, [(1, 9000), (2, 9000), (3, 9000), (4, 9000)], "distance", 0)], 1),
        ("fully connected 4", "default", [(0, [(1, 9000), (2, 9000), (3, 9000)], "exclusive or", 0)], 1),
        ("switch of 4", "default", [(0, [(1, 9000), (2, 9000), (3, 9000)], "distance", 0)], 1),
        ("switch of 4", "default", [(0, [(1, 9000), (2, 9000), (3, 9000)], "exclusive or", 0)], 1),
        ("line of 3, ring of 3", "default", [(0, [(3, 9000)], "distance", 0)], 3),
        ("ring of 3, switch of 4", "garnet", [(0, [(1, 9000), (3, 9000)], "distance", 0)], 1),
    ],
)
def test_how_many_npus_are_simulated(shape: str, options: str, load: list[Wave], npus: int) -> None:
    assert simulated(SHAPES[shape](), CHOICES[options], load) == npus


@pytest.mark.parametrize("system", ["astra1", "astra2"])
@pytest.mark.parametrize("sizes", ["4,3", "2,2,2"])
@pytest.mark.parametrize("collective", ["all_reduce", "all_to_all", "all_gather"])
@pytest.mark.parametrize("algorithm", ["auto", "direct", "one_ring"])
def test_collectives_have_the_figures_of_the_whole_network(system: str, sizes: str, collective: str, algorithm: str) -> None:
    def result(*options: str, symmetry: bool = True) -> dict[str, Any]:
        run = astra_sim.simulate(
            workload=f"plugin:collective?collective={collective}&bytes=300000",
            system=f"plugin:{system}?splits=3&active_chunks_per_dimension=2&{collective}={algorithm}",
            platform=f"plugin:torus?sizes={sizes}&link_bandwidth_gb_per_s=16&link_latency_ns=100",
            network="plugin:packet",
            queues_per_dim=2,
            set=options,
            symmetry=symmetry,
        )
        return figures(run)

    whole = result("network.exact=every-npu")
    assert result() == whole
    assert result(symmetry=False) == whole


ARBITRARY = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 59), st.integers(0, 59), st.integers(0, 5000)), min_size=1, max_size=24)


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(sorted(SHAPES)), ARBITRARY)
@example("ring of 3", [(0, 0, 1, 100)] * 300)  # as many as three NPUs that send a hundred each
@example("ring of 5", [(0, 4, 1, 0), (0, 0, 4, 0), (0, 2, 0, 1), (0, 2, 3, 10), (0, 0, 1, 10)])
def test_messages_of_some_npus_are_those_of_the_whole_network(shape: str, sent: list[tuple[int, int, int, int]]) -> None:
    """Whatever NPUs send, also where there are as many messages as there would be if all sent alike."""

    def told(**options: Any) -> list[Any]:
        outcome = network(SHAPES[shape](), **options)
        npus = outcome.platform.npus
        outcome.begin()
        for moment in range(4):
            ends = [(number, a % npus, b % npus, size) for number, (at, a, b, size) in enumerate(sent) if at == moment]
            outcome.inject(moment * 20_000, [Message(number, a, b, size) for number, a, b, size in ends if a != b])
        results: list[Any] = []
        while (delivery := outcome.advance(None)) is not None:
            results.append(delivery)
        outcome.check()
        return [results, outcome.links()]

    assert told() == told(exact="every-npu")


def test_a_torus_of_4096_npus_is_one() -> None:
    run = astra_sim.simulate(
        workload=f"plugin:collective?bytes={64 << 20}",
        platform="plugin:torus?sizes=16,16,16&link_bandwidth_gb_per_s=16&link_latency_ns=100",
        network="plugin:packet",
    )
    assert run.network["simulated_npus"] == 1
    # Of a ring all-reduce (or its halves) over n NPUs, each sends 2 (n - 1) / n of what it has, here in flits of 256 bytes.
    sent = sum(2 * 15 * (64 << 20) // 16 ** (d + 1) for d in range(3))
    assert run.network["flit_hops"] == 4096 * sent // 256


def test_an_interrupt_while_the_whole_network_is_made_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    messages = [Message(npu, npu, (npu + 1) % 5, 90_000) for npu in range(5)]
    whole, interrupts = fabric.Builder.whole, iter([True, True, False])

    def interrupted(builder: fabric.Builder) -> object:
        if next(interrupts):
            raise KeyboardInterrupt
        return whole(builder)

    monkeypatch.setattr(fabric.Builder, "whole", interrupted)
    results = network(rings(5))
    results.begin()
    results.inject(0, messages)
    results.inject(1000, [Message(5, 0, 2, 90_000)])
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            results.advance(None)
    monkeypatch.undo()
    other = network(rings(5), exact="every-npu")
    other.inject(0, messages)
    other.inject(1000, [Message(5, 0, 2, 90_000)])
    while (delivery := other.advance(None)) is not None:
        assert results.advance(None) == delivery
    assert results.advance(None) is None
