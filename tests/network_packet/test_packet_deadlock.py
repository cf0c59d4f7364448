"""The packet network is free from deadlock: no circle among what packets hold and want, and heavy traffic that arrives."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from astra_sim import DeadlockError, InputError
from astra_sim.network import Message
from astra_sim.platform import Platform

pytest.importorskip("astra_sim_network_packet")

from astra_sim_network_packet.load import LoadMeasurement
from astra_sim_network_packet.network import PacketNetwork, VcRange
from astra_sim_network_packet.options import PacketOptions
from astra_sim_network_packet.traffic import read_platform, sweep

WIRES = "link_bandwidth_gb_per_s=32&link_latency_ns=3"
PLATFORMS = {
    **{f"ring {size}": f"plugin:ring?size={size}&links=2&{WIRES}" for size in (2, 3, 4, 5, 6, 8, 16)},
    "torus 4x4": f"plugin:torus?sizes=4,4&links=2&{WIRES}",
    "torus 5x2x4": f"plugin:torus?sizes=5,2,4&links=2&{WIRES}",
    "mesh 4x5": f"plugin:mesh?sizes=4,5&{WIRES}",
    "switch": f"plugin:switch?size=6&links=1&{WIRES}",
    "fully connected": f"plugin:fully_connected?size=6&links=5&{WIRES}",
    "fat tree 2-3": f"plugin:fat_tree?arity=2&levels=3&{WIRES}",
    "fat tree 3-2": f"plugin:fat_tree?arity=3&levels=2&{WIRES}",
    "dragonfly 2": f"plugin:dragonfly?routers=2&{WIRES}",
    "dragonfly 4-2-2": f"plugin:dragonfly?routers=4&npus=2&global_links=2&{WIRES}",
    "dragonfly 4 of 5 groups": f"plugin:dragonfly?routers=4&npus=2&groups=4&{WIRES}",
}
GARNET = {
    "Garnet torus": "plugin:torus3d?npus=32&packages=8&package_rows=2",
    "Garnet switches": "plugin:nv_switch?npus=12&packages=4&links_per_tile=2",
}
OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "two": {"vcs": 2},
    "three": {"vcs": 3},
    "five": {"vcs": 5},
    "adaptive": {"vcs": 4, "routing": "adaptive"},
    "adaptive three": {"vcs": 3, "routing": "adaptive"},
    "cut through": {"vcs": 2, "flow_control": "cut_through"},
    "one injection port": {"vcs": 2, "injection_ports": 1},
    "booksim": {"preset": "booksim"},
    "booksim three": {"preset": "booksim", "vcs": 3},
    "booksim adaptive": {"preset": "booksim", "routing": "adaptive"},
    "booksim tail credit": {"preset": "booksim", "vcs": 2, "wait_for_tail_credit": True, "routing_delay": 0},
    "garnet with dateline": {"preset": "garnet", "deadlock_freedom": "dateline", "vcs": 2},
}
LINKS: dict[str, list[tuple[int, ...]]] = {
    "one ring": [(a, (a + 1) % 9) for a in range(9)],
    "torus": [(4 * x + y, 4 * u + v) for x in range(4) for y in range(4) for u, v in (((x + 1) % 4, y), (x, (y + 1) % 4))],
    "random": sorted({*((a, (a + 1) % 24) for a in range(24)), *(tuple(random.Random(7 + a).sample(range(24), 2)) for a in range(24))}),
}


def graph(folder: Path, links: Iterable[tuple[int, ...]]) -> str:
    file = folder / "links.csv"
    file.write_text("source,target,bandwidth_gb_per_s,latency_ns\n" + "".join(f"{a},{b},32,3\n" for a, b in links))
    return f"plugin:graph?file={file}"


def network(platform: Platform, **options: Any) -> PacketNetwork:
    return PacketNetwork(PacketOptions(**options), platform)


def has_circle(dependencies: Iterable[tuple[VcRange, VcRange]]) -> bool:
    """Whether virtual channels, one by one, depend on each other in a circle (Kahn's algorithm)."""
    wanted: dict[tuple[int, int, int], set[tuple[int, int, int]]] = {}
    for held, next_ in dependencies:
        for vc in range(held.first, held.end):
            followers = wanted.setdefault((held.domain, held.link, vc), set())
            followers |= {(next_.domain, next_.link, other) for other in range(next_.first, next_.end)}
    holders = dict.fromkeys(wanted, 0)
    for followers in wanted.values():
        for follower in followers:
            holders[follower] = holders.get(follower, 0) + 1
    free = [vc for vc, count in holders.items() if count == 0]
    removed = 0
    while free:
        removed += 1
        for follower in wanted.get(free.pop(), ()):
            holders[follower] -= 1
            if holders[follower] == 0:
                free.append(follower)
    return removed < len(holders)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("platform", PLATFORMS | GARNET)
def test_dependencies_form_no_circle(platform: str, options: str) -> None:
    result = network(read_platform((PLATFORMS | GARNET)[platform]), **OPTIONS[options])
    assert not has_circle(result.dependencies())


@pytest.mark.parametrize("links", LINKS)
@pytest.mark.parametrize("options", OPTIONS)
def test_routes_of_any_graph_form_no_circle(links: str, options: str, tmp_path: Path) -> None:
    result = {**OPTIONS[options], "vcs": 7}
    platform = read_platform(graph(tmp_path, LINKS[links]))
    assert not has_circle(network(platform, **result).dependencies())
    if result.get("preset") != "garnet":
        assert has_circle(network(platform, **{**result, "deadlock_freedom": "none"}).dependencies())


@pytest.mark.parametrize("platform", ["ring 6", "torus 5x2x4", "dragonfly 2", "Garnet torus"])
def test_without_classes_there_is_a_circle(platform: str) -> None:
    result = network(read_platform((PLATFORMS | GARNET)[platform]), deadlock_freedom="none", vcs=4)
    assert has_circle(result.dependencies())


@pytest.mark.parametrize("vcs", [2, 3, 5, 7])
@pytest.mark.parametrize("preset", ["default", "booksim"])
def test_classes_share_no_virtual_channel_and_leave_none_out(preset: str, vcs: int) -> None:
    ranges = {vc for pair in network(read_platform(PLATFORMS["ring 8"]), preset=preset, vcs=vcs).dependencies() for vc in pair}
    assert {(vc.first, vc.end) for vc in ranges} == {(0, vcs - vcs // 2), (vcs - vcs // 2, vcs)}


def test_too_few_virtual_channels_for_the_classes(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a dragonfly of 6 NPUs need 2 classes of virtual channels; vcs is 1, expected at least 2"):
        network(read_platform(PLATFORMS["dragonfly 2"]), vcs=1)
    with pytest.raises(InputError, match="which is for rings, and the routes of a dragonfly of 6 NPUs can wait for each other in a circle"):
        network(read_platform(PLATFORMS["dragonfly 2"]), deadlock_freedom="bubble", vcs=4)
    platform = read_platform(graph(tmp_path, LINKS["torus"]))
    with pytest.raises(InputError, match="need 3 classes of virtual channels; vcs is 1"):
        network(platform, vcs=1)
    network(read_platform(PLATFORMS["mesh 4x5"]), vcs=1)


def deliver(made: PacketNetwork, messages: list[tuple[int, int, int, int]]) -> int:
    """Send messages (time, source, destination, bytes). Return how many arrive. Raises DeadlockError."""
    for number, (time, *message) in enumerate(sorted(messages)):
        made.inject(time, [Message(number, *message)])
    arrived = 0
    while (delivery := made.advance(None)) is not None:
        arrived += len(delivery[1])
    made.check()
    return arrived


@pytest.mark.parametrize("vcs", [2, 3, 4])
@pytest.mark.parametrize("size", [4, 5, 6, 8, 16])
def test_all_to_all_on_rings_arrives(size: int, vcs: int) -> None:
    messages = [(0, a, b, 20_000) for a in range(size) for b in range(size) if a != b]
    platform = read_platform(f"plugin:ring?size={size}&links=2&{WIRES}")
    for options in ({}, {"flow_control": "cut_through"}, {"routing": "adaptive"}, {"buffers": 1}, {"preset": "booksim"}):
        assert deliver(network(platform, vcs=vcs, **options), messages) == len(messages)


def hunt(seed: int) -> None:
    """A random platform, random options, and more than the network can carry at once."""
    draw = random.Random(seed)
    npus = 99
    while npus > 40:
        sizes = ",".join(str(draw.randint(2, 7)) for _ in range(draw.randint(1, 3)))
        spec = draw.choice([f"plugin:torus?sizes={sizes}&links=2&{WIRES}", *PLATFORMS.values()])
        platform = read_platform(spec)
        npus = platform.npus
    options: dict[str, Any] = {
        "preset": draw.choice(["default", "booksim"]),
        "vcs": draw.randint(2, 6),
        "buffers": draw.choice([1, 2, 16]),
        "packet_bytes": draw.choice([256, 1024]),
        "flit_bytes": draw.choice([64, 256]),
        "routing": draw.choice(["dimension_order", "adaptive"]),
        "router_latency": draw.randint(1, 3),
        "wait_for_tail_credit": draw.random() < 0.3,
        "speculative": draw.random() < 0.3,
        "injection_ports": draw.choice([None, 1, 2]),
    }
    if draw.random() < 0.3:
        options |= {"flow_control": "cut_through", "buffers": 16}
    if draw.random() < 0.3 and "dragonfly" not in spec:
        options |= {"deadlock_freedom": "bubble", "preset": "default", "buffers": 16}
    messages = [
        (draw.randint(0, 3) * 10_000, source, (source + draw.randint(1, npus - 1)) % npus, draw.randint(1, 20_000))
        for source in range(npus)
        for _ in range(draw.randint(1, 8))
    ]
    try:
        assert deliver(network(platform, **options), messages) == len(messages)
    except DeadlockError as error:
        raise AssertionError(f"seed {seed}: {spec} with {options}: {error}") from None


@pytest.mark.parametrize("seed", range(60))
def test_random_traffic_arrives(seed: int) -> None:
    hunt(seed)


def test_traffic_says_where_the_network_deadlocks() -> None:
    platform = read_platform(PLATFORMS["ring 8"])
    how = LoadMeasurement(warm_up=100, period=500, periods=2, packet_flits=16, drain_limit=1000)
    with pytest.raises(DeadlockError, match=r"deadlocks at a rate of 0\.9 flits") as caught:
        sweep(platform, PacketOptions(vcs=2, deadlock_freedom="none", arbitration="round_robin"), "uniform", [0.9], how)
    assert all(" waits for NPU " in line for line in caught.value.waiting)
    assert len(caught.value.waiting) == 8
    (load,) = sweep(platform, PacketOptions(vcs=2), "uniform", [0.9], how)
    assert not load.stable
    assert load.accepted_rate > 0.2


def test_the_command_traffic_fails_where_the_network_deadlocks() -> None:
    command = [sys.executable, "-m", "astra_sim", "traffic", "--platform", PLATFORMS["ring 8"], "--rate", "0.9", "--packet-flits", "16"]
    command += ["--network", "plugin:packet?vcs=2&deadlock_freedom=none&arbitration=round_robin", "--drain-limit", "1000"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert run.stdout == ""
    assert run.stderr.startswith(
        "astra: error: the network deadlocks at a rate of 0.9 flits per node and cycle, and packets cannot arrive\n"
    )
