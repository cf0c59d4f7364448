"""Graphs from files, and the network file of ASTRA-sim 2.x."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import astra_sim
import pytest
from astra_sim.network import Message
from astra_sim.platform import Platform
from astra_sim_devkit.testing import contracts
from astra_sim_network_analytical import astra2_file
from astra_sim_network_analytical.network import analytical
from astra_sim_network_analytical.options import AnalyticalOptions
from astra_sim_platforms.graph import GraphFile, GraphOptions, graph
from hypothesis import example, given
from hypothesis import strategies as st
from support import figures

# -- Graphs ------------------------------------------------------------------------------------------------------------

TWO_SPEEDS = """
# NPUs 0 and 1 at one switch, 2 and 3 at another, a slow link between them
source,target,bandwidth_gb_per_s,latency_ns,both_ways
0, left, 10, 100,
1, left, 10, 100,
2, right, 10, 100,
3, right, 10, 100, true
left, right, 1, 1000,
"""

MESH = """
[[links]]
source = 0
target = 1
bandwidth_gb_per_s = 10
latency_ns = 5
[[links]]
source = "1"
target = 2
bandwidth_gb_per_s = 10.0
latency_ns = 5
"""


def read(folder: Path, text: str, name: str = "graph.csv") -> GraphFile:
    (folder / name).write_text(text)
    (result,) = graph(GraphOptions(file=str(folder / name)))
    assert isinstance(result.topology, GraphFile)
    return result.topology


def test_every_link_has_its_own_figures(tmp_path: Path) -> None:
    result = read(tmp_path, TWO_SPEEDS)
    assert (result.size, result.hops(0, 1), result.hops(0, 3), len(result.links())) == (4, 2, 3, 10)
    platform = Platform(tuple(graph(GraphOptions(file=str(tmp_path / "graph.csv")))))
    network: Any = analytical(AnalyticalOptions(congestion="aware"), platform)
    network.inject(0, [Message(0, 0, 1, 1000), Message(1, 0, 3, 1000), Message(2, 3, 2, 1000)])
    # 200 ns a hop, and 2000 ns between the switches; message 1 leaves NPU 0 after message 0, which takes 100 ns.
    assert [network.advance(None) for _ in range(2)] == [(400_000, [0, 2]), (2_500_000, [1])]


def test_of_ways_of_one_length_that_of_the_destination_is_taken(tmp_path: Path) -> None:
    square = "source,target,bandwidth_gb_per_s\n3,1,1\n2,0,1\n3,2,1\n0,1,1\n"
    (tmp_path / "square.csv").write_text(square)
    platform = Platform(tuple(graph(GraphOptions(file=str(tmp_path / "square.csv")))))
    network: Any = analytical(AnalyticalOptions(congestion="aware", link_figures=True), platform)
    network.inject(0, [Message(0, 0, 3, 10), Message(1, 3, 0, 10), Message(2, 2, 1, 10)])
    while network.advance(None):
        pass
    ways = [(link["from"], link["to"]) for link in network.statistics()["links"]]
    assert sorted(ways) == [(f"NPU {a}", f"NPU {b}") for a, b in [(0, 2), (2, 0), (2, 3), (3, 1), (3, 2)]]


def test_a_graph_runs_with_and_without_congestion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mesh.toml").write_text(MESH)
    (tmp_path / "speeds.csv").write_text(TWO_SPEEDS)
    choice: dict[str, Any] = {"workload": "plugin:collective?bytes=30000"}
    free = astra_sim.simulate(platform="plugin:graph?file=mesh.toml", **choice)
    aware = astra_sim.simulate(platform="plugin:graph?file=mesh.toml", network="plugin:analytical?congestion=aware", **choice)
    assert aware.finish_ns > free.finish_ns
    aware = astra_sim.simulate(platform="plugin:graph?file=speeds.csv", network="plugin:analytical?congestion=aware", **choice)
    again = astra_sim.simulate(
        platform="plugin:graph?file=speeds.csv", network="plugin:analytical?congestion=aware", engine="python", **choice
    )
    assert figures(aware) == figures(again)
    with pytest.raises(astra_sim.InputError, match=r"links of the graph differ.*expected congestion=aware"):
        astra_sim.simulate(platform="plugin:graph?file=speeds.csv", **choice)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "join 0 NPUs"),
        ("source,target,bandwidth_gb_per_s\na,b,1\n", "join 0 NPUs"),
        ("source,target,bandwidth_gb_per_s\n0,2,1\n", "there is an NPU 2, but no NPU 1"),
        ("source,target,bandwidth_gb_per_s\n0,01,1\n", "there is an NPU 01, but no NPU 1"),
        ("source,target,bandwidth_gb_per_s\n0,0,1\n1,0,1\n", r":2: a link from 0 to itself"),
        ("source,target,bandwidth_gb_per_s\n0,1,1\n1,0,2\n", r":3: the link between 1 and 0 is there already"),
        ("source,target,bandwidth_gb_per_s,both_ways\n0,1,1,false\n", "there is no route from NPU 1 to NPU 0"),
        ("source,target,bandwidth_gb_per_s\n0,1\n", r":2: 2 cells under 3 headings"),
        ("source,target,bandwidth_gb_per_s\n0,1,fast\n", r":2: bandwidth_gb_per_s: 'fast' is not a number"),
        ("source,target,bandwidth_gb_per_s\n0,1,0\n", r":2: .*expected more than 0"),
        ("source,target,bandwith\n0,1,1\n", r":2: unknown key 'bandwith'; did you mean"),
        ("source,target\n0,1\n", "exactly one of bandwidth_gb_per_s and bandwidth_gib_per_s"),
        ("source,bandwidth_gb_per_s\n0,1\n", ":2: target is missing"),
        ("source,target,latency_ns,bandwidth_gb_per_s\n0,1,-1,1\n", r"latency_ns is -1; expected at least 0"),
    ],
)
def test_a_graph_that_cannot_be_is_an_error(text: str, wrong: str, tmp_path: Path) -> None:
    with pytest.raises(astra_sim.InputError, match=wrong) as caught:
        read(tmp_path, text)
    assert "graph.csv" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "links is missing"),
        ("links = 3", "links is 3"),
        ("links = [3]", "link 1: 3 is not a table"),
        ("npus = 3", "unknown key 'npus'"),
        ("links = [", "graph.toml: Invalid value"),
        ("[[links]]\nsource = 0\ntarget = 1.5\nbandwidth_gb_per_s = 1", "link 1: target: 1.5 is not text"),
    ],
)
def test_a_toml_graph_that_cannot_be_is_an_error(text: str, wrong: str, tmp_path: Path) -> None:
    with pytest.raises(astra_sim.InputError, match=wrong):
        read(tmp_path, text, "graph.toml")


class TestGraphTopology(contracts.TopologyContract):
    name = "graph"
    options: Mapping[str, Any] = {"file": "graph.csv"}

    @pytest.fixture(autouse=True)
    def _file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "graph.csv").write_text(TWO_SPEEDS)
        monkeypatch.chdir(tmp_path)


# -- Network files of ASTRA-sim 2.x --------------------------------------------------------------------------------------

RING_AND_SWITCH = """
# a comment
topology: [ Ring, Switch ]  # of each dimension
npus_count: [ 4, 8 ]
bandwidth: [ 250.0, 50.0 ]  # GB/s
latency: [ 500.0, 1e3 ]  # ns
"""


def test_a_network_file_gives_platform_and_rules() -> None:
    assert astra2_file.recognises(RING_AND_SWITCH)
    sections = astra2_file.read(RING_AND_SWITCH, "n.yml")
    assert sections["network"] == {"plugin": "analytical", "rounding": "nanosecond_sum", "accounting_dimension": "lowest"}
    assert sections["platform"]["dimensions"] == [
        {
            "topology": "ring",
            "size": 4,
            "links": 2,
            "link_bandwidth_gib_per_s": 250.0,
            "link_latency_ns": 500.0,
            "both_ways": False,
        },
        {"topology": "switch", "size": 8, "links": 1, "link_bandwidth_gib_per_s": 50.0, "link_latency_ns": 1000.0},
    ]
    assert not astra2_file.recognises(json.dumps({"topology": "Ring", "npus_count": 3}))


def test_the_backend_is_chosen_by_an_option(tmp_path: Path) -> None:
    (tmp_path / "n.yml").write_text(RING_AND_SWITCH)
    choice: dict[str, Any] = {"workload": "plugin:collective?bytes=10000000", "network": str(tmp_path / "n.yml")}
    direct = ["system.all_reduce=direct"]
    free = astra_sim.simulate(set=direct, **choice)
    aware = astra_sim.simulate(set=[*direct, "network.congestion=aware"], **choice)
    assert free.npus == aware.npus == 32
    assert aware.finish_ns > free.finish_ns
    backend = "plugin:analytical?congestion=aware&rounding=nanosecond_sum&accounting_dimension=lowest"
    alone = astra_sim.simulate(workload=choice["workload"], set=direct, platform=choice["network"], network=backend)
    assert alone.finish_ns == aware.finish_ns


def _with(**changed: str) -> str:
    lines = {"topology": "[ Ring ]", "npus_count": "[ 4 ]", "bandwidth": "[ 50 ]", "latency": "[ 500 ]", **changed}
    return "\n".join(f"{key}: {value}" for key, value in lines.items() if value)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (_with(topology="[ Rings ]"), "topology has 'Rings'; did you mean 'Ring'"),
        (_with(topology="[ 3 ]"), "topology has 3"),
        (_with(topology="Rings"), "topology has 'Rings'; did you mean 'Ring'"),
        (_with(topology="3"), "topology is 3; expected a list"),
        (_with(topology="[]"), r"topology is \[\]; expected a list"),
        (_with(npus_count="[ 1 ]"), "npus_count has 1; expected whole numbers of at least 2"),
        (_with(npus_count="[ 4.0 ]"), "npus_count has 4.0"),
        (_with(npus_count="[ true ]"), "npus_count has True"),
        (_with(npus_count="[ 4, 4 ]"), "npus_count has 2 values for 1 dimensions"),
        (_with(bandwidth="[ 0 ]"), "bandwidth is 0; expected a number above 0"),
        (_with(bandwidth="[ fast ]"), "bandwidth is 'fast'; expected a number"),
        (_with(bandwidth="[ .inf ]"), "bandwidth is inf"),
        (_with(latency="[ -1 ]"), "latency is -1; expected a number of at least 0"),
        (_with(latency="[ .nan ]"), "latency is nan"),
        (_with(latency=""), "latency is missing"),
        (_with(latencies="[ 3 ]"), "unknown key 'latencies'; did you mean 'latency'"),
        (_with() + "\nlatency: [ 3 ]", ":5: the key 'latency' is given twice"),
        (_with() + "\n? [1, 2]\n: 3", ":5: not YAML: found unhashable key"),
        (_with(latency="[ 3"), ":4: not YAML: expected"),
        (_with(latency="!!python/object/apply:os.getcwd []"), "not YAML"),
        (_with() + "\n--- 3", "not YAML"),
        (_with(latency="\a"), "not YAML"),
        ("- topology: 3", "not a YAML mapping"),
        ("topology: " + "[" * 5000, "nested too deeply|not YAML"),
    ],
)
def test_a_network_file_that_cannot_be_is_an_error(text: str, wrong: str) -> None:
    with pytest.raises(astra_sim.InputError, match=f"n.yml.*({wrong})"):
        astra2_file.read(text, "n.yml")


def test_a_wrong_file_is_named_with_its_value(tmp_path: Path) -> None:
    (tmp_path / "n.yml").write_text(_with(npus_count="[ 1 ]"))
    with pytest.raises(astra_sim.InputError, match=r"n\.yml: npus_count has 1"):
        astra_sim.simulate(workload="plugin:collective?bytes=10", network=str(tmp_path / "n.yml"))


@given(text=st.one_of(st.text(), st.text(alphabet="topolgynus_cbadwih:[]{},0123456789. \n&*!|>-'\"?#%@")))
@example(text="topology: &a [*a]\nnpus_count: *a\nbandwidth: *a\nlatency: *a")
@example(text="topology: 2020-13-45")
@example(text="? &a [*a]\n: 1")
@example(text="? {a: 1}\n: 1")
def test_any_text_is_read_or_a_clear_error(text: str) -> None:
    astra2_file.recognises(text)
    with contextlib.suppress(astra_sim.InputError):
        astra2_file.read(text, "n.yml")


@given(cut=st.integers(0, len(RING_AND_SWITCH)), bit=st.integers(0, 6), at=st.integers(0, len(RING_AND_SWITCH) - 1))
def test_damaged_files_are_read_or_a_clear_error(cut: int, bit: int, at: int) -> None:
    flipped = RING_AND_SWITCH[:at] + chr(ord(RING_AND_SWITCH[at]) ^ 1 << bit) + RING_AND_SWITCH[at + 1 :]
    for text in (RING_AND_SWITCH[:cut], flipped):
        with contextlib.suppress(astra_sim.InputError):
            astra2_file.read(text, "n.yml")
