"""Routes under uniform traffic: what every link carries, against closed formulas, and how interfaces keep up with their links."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("astra_sim_network_packet")

import astra_sim
from astra_sim.network import Message
from astra_sim_network_packet.load import LoadMeasurement
from astra_sim_network_packet.network import PacketNetwork
from astra_sim_network_packet.options import PacketOptions
from astra_sim_network_packet.traffic import read_platform, sweep
from astra_sim_platforms.topologies import DragonflyOptions, FatTreeOptions, Graph, dragonfly, fat_tree
from support.links import numbered

WIRES = "link_bandwidth_gb_per_s=32&link_latency_ns=1"
BANDWIDTH: dict[str, Any] = {"link_bandwidth_gb_per_s": 32.0}


def carried(spec: str, **options: Any) -> dict[tuple[int, int, int], int]:
    """A flit from every NPU to every other one: by dimension, source and sink, what the link carries."""
    platform = read_platform(f"{spec}{'&' if '?' in spec else '?'}{WIRES}" if "file=" not in spec else spec)
    packet_network = PacketNetwork(PacketOptions(**options), platform)
    pairs = list(itertools.permutations(range(platform.npus), 2))
    for number, (source, destination) in enumerate(pairs):
        packet_network.inject(0, [Message(number, source, destination, 1)])
    while packet_network.advance(None) is not None:
        pass
    flits = {(link.dimension, link.source, link.target): 0 for link in platform.fabric().links}
    for load in packet_network.links():
        flits[load.dimension, *numbered(load, platform)] = load.bytes // packet_network.settings.flit_bytes
    return flits


@pytest.mark.parametrize("size", [3, 4, 5, 7, 8, 12])
def test_ring(size: int) -> None:
    assert set(carried(f"plugin:ring?size={size}&links=2").values()) == {size**2 // 8}


@pytest.mark.parametrize("size", [6, 10])
def test_ring_of_which_half_is_odd(size: int) -> None:
    """Half a flit more or less: the ways half round cannot be divided evenly."""
    loads = carried(f"plugin:ring?size={size}&links=2").values()
    assert sum(loads) / len(loads) == size**2 / 8
    assert max(loads) - min(loads) == 1


def test_torus() -> None:
    loads = carried("plugin:torus?sizes=4,3,5&links=2")
    for dimension, size in enumerate((4, 3, 5)):
        assert {flits for (d, *_), flits in loads.items() if d == dimension} == {size**2 // 8 * 60 // size}


def test_mesh() -> None:
    sizes, npus = (4, 3), 12
    loads = carried("plugin:mesh?sizes=4,3")
    for (dimension, source, sink), flits in loads.items():
        size, stride = sizes[dimension], (1, 4)[dimension]
        before = min(source, sink) // stride % size + 1
        assert flits == before * (size - before) * npus // size


def test_switch_and_fully_connected() -> None:
    assert set(carried("plugin:switch?size=6&links=1").values()) == {5}
    assert set(carried("plugin:fully_connected?size=6&links=5").values()) == {1}


def fat_tree_loads(arity: int, levels: int) -> Counter[int]:
    """Links up, and as many down, from every level: they carry what leaves a subtree."""
    npus = arity**levels
    return Counter({npus - arity**level: 2 * npus for level in range(levels)})


@pytest.mark.parametrize(("arity", "levels"), [(2, 2), (2, 3), (2, 5), (3, 3), (4, 2), (4, 3), (5, 2)])
def test_fat_tree(arity: int, levels: int) -> None:
    assert Counter(carried(f"plugin:fat_tree?arity={arity}&levels={levels}").values()) == fat_tree_loads(arity, levels)


def lines_of(links: Any) -> Iterator[str]:
    yield "source,target,bandwidth_gb_per_s,latency_ns"
    yield from (f"{link.source},{link.target},32,1" for link in links if link.source < link.target)


def test_a_fat_tree_from_a_file(tmp_path: Path) -> None:
    (dimension,) = fat_tree(FatTreeOptions(arity=3, levels=3, **BANDWIDTH))
    file = tmp_path / "tree.csv"
    # Positions of a file's graph are numbers; other names are switches.
    assert isinstance(dimension.topology, Graph)
    lines = "\n".join(lines_of(dimension.topology.edges)).split("\n")
    named = [",".join(f"s{w}" if i < 2 and w.isdigit() and int(w) >= 27 else w for i, w in enumerate(row.split(","))) for row in lines]
    file.write_text("\n".join(named) + "\n")
    assert Counter(carried(f"plugin:graph?file={file}").values()) == fat_tree_loads(3, 3)


def test_a_tapered_tree_uses_all_links_up(tmp_path: Path) -> None:
    """Four NPUs and four links up at each of 8 edge switches, two links up at each of the middle ones."""
    file = tmp_path / "tree.csv"
    rows = [f"{npu},e{npu // 4:02}" for npu in range(32)]
    rows += [f"e{edge:02},m{edge // 4}{up}" for edge in range(8) for up in range(4)]
    rows += [f"m{half}{up},t{top}" for half in range(2) for up in range(4) for top in range(2)]
    file.write_text("source,target,bandwidth_gb_per_s,latency_ns\n" + "".join(f"{row},32,1\n" for row in rows))
    # Up from an edge switch: 4 NPUs to 28 others over 4 links; from the middle: 16 NPUs to 16 over 8.
    assert Counter(carried(f"plugin:graph?file={file}").values()) == {31: 64, 28: 64, 32: 32}


@pytest.mark.parametrize(("routers", "npus", "global_links"), [(2, 1, 1), (4, 2, 2), (3, 1, 2), (2, 3, 1)])
def test_dragonfly(routers: int, npus: int, global_links: int) -> None:
    """Every router to every other of its group, and one global link between groups: minimal routes take no more than one."""
    a, p, h = routers, npus, global_links
    groups = a * h + 1
    expected: Counter[int] = Counter()
    expected[groups * a * p - 1] += 2 * groups * a * p
    expected[p * p + 2 * p * h * a * p] += groups * a * (a - 1)
    expected[(a * p) ** 2] += groups * (groups - 1)
    assert Counter(carried(f"plugin:dragonfly?routers={a}&npus={p}&global_links={h}").values()) == expected


def test_hops_of_a_dragonfly_are_those_of_its_routes() -> None:
    (dimension,) = dragonfly(DragonflyOptions(routers=4, npus=1, global_links=2, **BANDWIDTH))
    hops = Counter(dimension.topology.hops(a, b) for a, b in itertools.permutations(range(36), 2))
    assert sum(hops.values()) == 36 * 35
    total = sum(carried("plugin:dragonfly?routers=4&npus=1&global_links=2").values())
    assert sum(count * of for of, count in hops.items()) == total


@pytest.mark.parametrize("network", [{"preset": "booksim"}, {"preset": "booksim", "routing": "adaptive"}, {"vcs": 4, "flit_bytes": 32}])
def test_a_deep_fat_tree_carries_what_booksim_carries(network: dict[str, Any]) -> None:
    """BookSim 2 on its 4-ary 3-tree (nca, 4 VCs of 8 flits, uniform): 24.0, 25.8 and 31.0 cycles at 0.05, 0.3 and 0.5; 0.67 at most.

    Here NPUs have routers of their own, two more on every way.
    """
    platform = read_platform(f"plugin:fat_tree?arity=4&levels=3&{WIRES}")
    how = LoadMeasurement(warm_up=1000, period=1000, periods=3, drain_limit=3000)
    low, middle, high, over = sweep(platform, PacketOptions(**network), "uniform", [0.05, 0.3, 0.5, 0.75], how)
    assert all(load.stable for load in (low, middle, high))
    if "preset" in network:
        assert low.packet_latency is not None
        assert middle.packet_latency is not None
        assert high.packet_latency is not None
        assert middle.packet_latency - low.packet_latency == pytest.approx(25.8 - 24.0, abs=1.0)
        assert high.packet_latency - low.packet_latency == pytest.approx(31.0 - 24.0, abs=2.0)
        assert over.accepted_rate == pytest.approx(0.67, abs=0.03)


def test_a_dragonfly_saturates_where_booksim_does() -> None:
    """BookSim's links take 10 cycles in a group and 100 between groups: with 8 flits and one virtual channel a class, 0.038."""
    platform = read_platform(
        "plugin:dragonfly?routers=4&npus=2&global_links=2&link_bandwidth_gb_per_s=32&link_latency_ns=10&global_latency_factor=10"
    )
    how = LoadMeasurement(warm_up=2500, period=2500, periods=2, drain_limit=1000)
    (small,) = sweep(platform, PacketOptions(preset="booksim", vcs=2, buffers=8), "uniform", [0.2], how)
    assert small.accepted_rate == pytest.approx(0.0385, abs=0.002)
    (large,) = sweep(platform, PacketOptions(preset="booksim", vcs=2, buffers=256), "uniform", [0.2], how)
    assert large.stable


# -- Interfaces ----------------------------------------------------------------------------------------------------------


def finish(platform: str, network: str, collective: str = "all_reduce", algorithm: str = "direct") -> float:
    result = astra_sim.simulate(
        workload=f"plugin:collective?collective={collective}&bytes=1048576",
        platform=f"{platform}&link_bandwidth_gb_per_s=32&link_latency_ns=10",
        network=network,
        set=[f"system.{collective}={algorithm}"],
    )
    return result.finish_ns


@pytest.mark.parametrize("size", [4, 8])
def test_as_many_injection_ports_as_links_keep_them_all_busy(size: int) -> None:
    platform = f"plugin:fully_connected?size={size}&links={size - 1}"
    analytical = finish(platform, "plugin:analytical")
    assert finish(platform, "plugin:packet") == pytest.approx(analytical, rel=0.02)
    assert finish(platform, "plugin:packet?injection_ports=1") == pytest.approx((size - 1) * analytical, rel=0.02)


def test_injection_ports_of_the_presets() -> None:
    platform = read_platform(f"plugin:fully_connected?size=5&links=4&{WIRES}")
    for preset, injection_ports in (("default", 0), ("garnet", 1), ("booksim", 1)):
        assert PacketOptions(preset=preset).settings().injection_ports == injection_ports
    time = {}
    for injection_ports in (1, 2, 4, 0):
        packet_network = PacketNetwork(PacketOptions(injection_ports=injection_ports), platform)
        for destination in range(1, 5):
            packet_network.inject(0, [Message(destination, 0, destination, 1_000_000)])
        while (delivery := packet_network.advance(None)) is not None:
            time[injection_ports] = delivery[0]
        packet_network.check()
    assert time[0] == time[4]
    assert time[1] == pytest.approx(4 * time[0], rel=0.01)
    assert time[2] == pytest.approx(2 * time[0], rel=0.01)
