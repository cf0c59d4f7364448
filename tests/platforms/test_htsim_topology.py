"""Fat trees in topology files of HTSim: the graph, what a file may leave out, and errors."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import astra_sim
import pytest
from astra_sim import InputError
from astra_sim_platforms.examples import htsim_topology as write_example
from astra_sim_platforms.htsim_topology import HtsimTopologyOptions, htsim_topology, parse, recognises
from hypothesis import given
from hypothesis import strategies as st

LEAF_SPINE = """\
# two tiers
nodes 32
Tiers 2
Podsize 32

Tier 0
Downlink_speed_Gbps 100
Radix_Down 8
Radix_Up 2
Downlink_Latency_ns 1000
Switch_Latency_ns 50
Oversubscribed 4

Tier 1
Downlink_speed_Gbps 100
Radix_Down 4
Downlink_Latency_ns 700
Switch_Latency_ns 90
"""


def tree(leaf: int, leaves: int, pods: int, middle: int, bundle: int, cores: int, core_bundle: int) -> str:
    """A file of three tiers: NPUs of a leaf, leaves and aggregation switches of a pod, cores of an aggregation switch, bundles of links."""
    up, core_up = middle * bundle, cores * core_bundle
    # What goes up is what goes down at every switch, so that nothing is oversubscribed.
    tiers = [(up * core_up, leaf, 1), (leaf * core_up, leaves * bundle, bundle), (leaf * leaves * bundle, pods * core_bundle, core_bundle)]
    lines = [f"Nodes {leaf * leaves * pods}", "Tiers 3", f"Podsize {leaf * leaves}"]
    for number, (speed, down, bundle_of_tier) in enumerate(tiers):
        lines += [f"Tier {number}", f"Downlink_speed_Gbps {speed}", f"Radix_Down {down}", f"Downlink_Latency_ns {10 * (number + 1)}"]
        lines += [f"Bundle {bundle_of_tier}", *([f"Radix_Up {(up, core_up)[number]}"] if number < 2 else [])]
    return "\n".join(lines)


@given(*[st.integers(1, 3)] * 7)
def test_every_two_npus_are_as_far_apart_as_on_the_graph(
    leaf: int, leaves: int, pods: int, middle: int, bundle: int, cores: int, core_bundle: int
) -> None:
    topology = parse(tree(leaf, leaves, pods, middle, bundle, cores, core_bundle), "tree.topo")
    near: dict[int, set[int]] = {}
    for link in topology.edges:
        near.setdefault(link.source, set()).add(link.target)
    for source in range(topology.size):
        distances, reached = {source: 0}, [source]
        for node in reached:
            for other in near[node] - distances.keys():
                distances[other] = distances[node] + 1
                reached.append(other)
        assert len(distances) == len(near)
        for other in range(topology.size):
            if other != source:
                assert topology.hops(source, other) == distances[other]
    ways = Counter((link.source, link.target) for link in topology.edges)
    assert all(ways[pair] == ways[pair[::-1]] for pair in ways)
    assert len(topology.edges) == 2 * pods * (leaf * leaves + leaves * middle * bundle + middle * cores * core_bundle)
    nodes = leaf * leaves * pods + (leaves + middle) * pods + middle * cores
    assert len(near) == nodes


def test_links_have_the_figures_of_their_tier_and_switches_their_latency() -> None:
    topology = parse(LEAF_SPINE, "leaf_spine.topo")
    figures = {(link.source, link.target): link[2:] for link in topology.edges}
    assert figures[0, 32] == (12.5, 1050)
    assert figures[32, 0] == (12.5, 1000)
    assert figures[32, 36] == (12.5, 790)
    assert figures[36, 32] == (12.5, 750)
    assert len(figures) == 2 * (32 + 4 * 2)
    assert topology.links_per_npu() == 1


def test_a_file_is_a_platform_by_its_content(tmp_path: Path) -> None:
    (results,) = write_example(tmp_path)
    result = astra_sim.simulate(
        platform=str(results["file"]), workload="plugin:collective?collective=all_to_all&bytes=8388608", network="plugin:flow?routing=split"
    )
    assert result.npus == 8
    # Four of the seven other NPUs are in the other pod, and 100 Gbit/s of each NPU's 200 would be too few: the cores have two links each.
    assert result.finish_ns == pytest.approx(7 * 1048576 / 25, rel=0.05)
    (dimension,) = htsim_topology(HtsimTopologyOptions(file=str(results["file"])))
    assert (dimension.size, dimension.links) == (8, 1)


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        (LEAF_SPINE, True),
        (LEAF_SPINE.upper(), True),
        ("nodes 4\ntiers 2\n", False),
        ("nodes 4\nTier 0\n", False),
        ("", False),
        ('{"nodes": 4}', False),
    ],
)
def test_files_are_known_by_their_heading(text: str, is_one: bool) -> None:
    assert recognises(text) == is_one


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("nodes 32", "nodes 0", "nodes is 0 and podsize is 32; expected nodes to be a multiple of podsize"),
        ("nodes 32", "nodes 48", "nodes is 48 and podsize is 32"),
        ("nodes 32", "nodes x", r":2: nodes is 'x'; expected a whole number"),
        ("nodes 32", "nodes 32 3", r":2: nodes is '32 3'"),
        ("nodes 32", "nodes 3²", r":2: nodes is '3²'"),
        ("nodes 32\n", "", "nodes is missing; expected it above the tiers"),
        ("Tiers 2", "Tiers 4", "tiers is 4; expected 2 or 3"),
        ("Tiers 2", "Tiers 3", "radix_up is missing"),
        ("Tier 1", "Tier 2", "tier 2, and tiers is 2; expected tiers 0 to 1"),
        ("Tier 1", "Tier 0", r":14: tier 0 again; expected each tier once"),
        ("Podsize 32", "Podsize 16", "podsize is 16; expected 32, all nodes, with two tiers"),
        ("Radix_Down 8", "Radix_Down 5", "podsize is 32 and radix_down of tier 0 is 5; expected podsize to be a multiple"),
        ("Radix_Down 8", "Radix_Dwn 8", r":8: unknown key 'radix_dwn'; did you mean 'radix_down'"),
        ("Radix_Down 8", "Radix_Up 2", r":9: radix_up again; expected it once"),
        ("Radix_Up 2", "", "tier 0: radix_up is missing; expected a whole number above 0"),
        ("Radix_Down 4", "Radix_Down 6", "tier 1: radix_down is 6; expected 4, a bundle to each of 4 switches of tier 0"),
        ("Radix_Down 4", "Radix_Down 4\nRadix_Up 4", "tier 1: radix_up is 4; expected none in the highest tier"),
        ("Radix_Down 4", "Radix_Down 12\nBundle 3", "tier 0: radix_up is 2 and bundle of tier 1 is 3; expected radix_up to be a multiple"),
        ("Oversubscribed 4", "Oversubscribed 2", "tier 0: oversubscribed is 2, and .* 100 Gbit/s down and 25 up for each NPU"),
        ("Switch_Latency_ns 50", "Bundle 2", "tier 0: bundle is 2; expected 1, as an NPU has one link"),
        ("Downlink_Latency_ns 700", "Downlink_Latency_ns 0", "tier 1: downlink_latency_ns is 0; expected a whole number above 0"),
    ],
)
def test_what_is_wrong_is_named(old: str, new: str, says: str) -> None:
    assert old in LEAF_SPINE
    with pytest.raises(InputError, match=r"^leaf\.topo:.*" + says.removeprefix(":")):
        parse(LEAF_SPINE.replace(old, new, 1), "leaf.topo")


def test_sizes_of_queues_have_no_effect() -> None:
    with pytest.warns(UserWarning, match=r"leaf\.topo:8: queue_up has no effect: queues are those of the network"):
        parse(LEAF_SPINE.replace("Radix_Down 8", "Queue_Up 100\nRadix_Down 8", 1), "leaf.topo")


def test_a_tree_that_is_too_large_is_an_error() -> None:
    text = tree(64, 1024, 1024, 1, 1, 1, 1)
    with pytest.raises(InputError, match=r"huge\.topo: nodes is 67108864: a tree of \d+ links; expected at most"):
        parse(text, "huge.topo")
