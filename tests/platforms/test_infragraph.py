"""Platforms that InfraGraph describes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import astra_sim
import pytest
import yaml  # type: ignore[import-untyped]
from astra_sim import InputError
from astra_sim.platform import Dimension, Platform
from astra_sim_platforms.examples import infragraph as write_example
from astra_sim_platforms.infragraph import InfraGraphOptions, infragraph
from astra_sim_platforms.infragraph_file import recognises
from support import ROOT

POD = ROOT / "examples" / "platforms" / "infragraph_pod.yaml"
COLLECTIVE = "plugin:collective?collective=all_reduce&bytes=16777216"


def two_hosts(folder: Path) -> Any:
    """The file that the provider is tried with: two hosts of two NPUs, each with a NIC, at a switch."""
    write_example(folder)
    return yaml.safe_load((folder / "infragraph.yaml").read_text())


def made(table: Any, folder: Path, **options: Any) -> Any:
    path = folder / "graph.json"
    path.write_text(json.dumps(table))
    (dimension,) = infragraph(InfraGraphOptions(file=str(path), **options))
    return dimension.topology


def test_the_example_is_recognised_and_runs_on_every_network() -> None:
    assert recognises(POD.read_text())
    assert recognises(json.dumps(yaml.safe_load(POD.read_text())))
    assert not recognises("topology: [Ring]\nnpus_count: [4]\n")
    times = {
        network: astra_sim.simulate(platform=str(POD), network=f"plugin:{network}", workload=COLLECTIVE).finish_ns
        for network in ("flow", "roce", "analytical?congestion=aware&switching=cut_through")
    }
    # All-reduce moves 30/16 of the bytes of each NPU; all but the first halves of halving-doubling leave the server on 50 GB/s.
    least = 16777216 / 450
    assert all(time > least for time in times.values())
    assert times["flow"] < times["roce"] < 1.3 * times["flow"]


def test_the_example_has_the_links_and_ways_that_it_says() -> None:
    (dimension,) = infragraph(InfraGraphOptions(file=str(POD)))
    fabric = Platform((dimension,)).fabric()
    assert fabric.npus == 16
    lanes = 16 * 32 * 128 / 130 / 8
    assert {(round(link.bandwidth, 6), link.latency_ns) for link in fabric.links} == {
        (450.0, 300.0),
        (round(lanes, 6), 150.0),
        (round(lanes, 6), 0.0),  # the ports of NPUs, which NVLink is faster than
        (50.0, 0.0),
        (50.0, 500.0),
    }
    distance = fabric.distances(0, through_npus=False)
    assert distance[3] == 2  # over the switch in the server
    assert distance[4] == distance[5] == 10  # a port at either end; NIC, leaf, NIC: two ports each, and the leaf's inside
    assert distance[6] == 16  # another leaf, over a spine: two ports and an inside more for each
    npus_ports = [sum(link.source == npu for link in fabric.links) for npu in range(16)]
    assert npus_ports == [2] * 16


def test_slices_are_those_of_python_and_one2one_pairs_them(tmp_path: Path) -> None:
    table = two_hosts(tmp_path)
    table["devices"][0]["edges"][0]["scheme"] = "many2many"  # so that NPUs reach each other over one NIC
    nics = {"nic": 2, "nic[0:2]": 2, "nic[:]": 2, "nic[::2]": 1, "nic[-1]": 1, "nic[1]": 1, "nic[:-1]": 1}
    for component, used in nics.items():
        table["edges"][0]["ep1"]["component"] = component
        topology = made(table, tmp_path, bandwidth_gb_per_s=64)
        assert sum(link.latency_ns == 500 for link in topology.links()) == 2 * 2 * used, component


def test_a_wire_that_is_said_twice_is_one(tmp_path: Path) -> None:
    table = two_hosts(tmp_path)
    count = len(made(table, tmp_path, bandwidth_gb_per_s=64).links())
    table["edges"].append({**table["edges"][0], "ep1": table["edges"][0]["ep2"], "ep2": table["edges"][0]["ep1"]})
    assert len(made(table, tmp_path, bandwidth_gb_per_s=64).links()) == count


def test_what_the_file_leaves_open_is_an_option(tmp_path: Path) -> None:
    table = two_hosts(tmp_path)
    with pytest.raises(
        InputError, match=r"graph.json: device 0 'host': link 0 'pcie': it has no physical bandwidth; expected one, or bandw"
    ):
        made(table, tmp_path)
    inside = {(link.bandwidth, link.latency_ns) for link in made(table, tmp_path, bandwidth_gb_per_s=64, latency_ns=7).links()}
    assert inside == {(64.0, 7.0), (50.0, 500.0)}
    table["devices"][0]["links"][0]["physical"] = {"bandwidth": {"choice": "gigatransfers_per_second", "gigatransfers_per_second": 5}}
    assert 8 * 5 * 0.8 / 8 in {link.bandwidth for link in made(table, tmp_path, lanes=8).links()}


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("device",), [], r"graph.json: unknown key 'device'; did you mean 'devices'\?"),
        (("devices", 0, "components", 0, "count"), -2, r"device 0 'host': component 0 'xpu': count is -2; expected a whole number of at"),
        (("devices", 0, "components", 0, "choice"), "gpu", r"component 0 'xpu': choice is 'gpu'; expected cpu, custom, device, memory"),
        (("devices", 0, "components", 0, "choice"), "cpu", r"0 components of type xpu \(types: cpu, nic, switch\); expected at least 2"),
        (("devices", 0, "components", 0, "choice"), "device", r"component 0 'xpu': name is 'xpu'; expected a device of the file"),
        (("devices", 0, "edges", 0, "link"), "pci", r"edge 0: link is 'pci'; expected a link of the file, did you mean 'pcie'\?"),
        (("devices", 1, "name"), "host", r"device 1 'host': the name is there already; expected one for each device"),
        (("edges", 0, "scheme"), "ring", r"edge 0: scheme is 'ring'; expected many2many or one2one \(the package infragraph makes no"),
        (("edges", 0, "ep1", "instance"), "hosts", r"edge 0: ep1: instance is 'hosts'; expected an instance of the file, did you mean"),
        (
            ("edges", 0, "ep1", "component"),
            "nic[0:9]",
            r"edge 0: ep1: component 'nic\[0:9\]' has the slice \[0:9\]; expected numbers up to 2",
        ),
        (("edges", 0, "ep1", "component"), "nic[x]", r"component 'nic\[x\]' has the slice \[x\]; expected such as \[0:4\]"),
        (("edges", 0, "ep1", "component"), "nic[2]", r"component 'nic\[2\]' has the number 2; there are 2"),
        (("edges", 0, "ep1", "component"), "nic.port", r"looks into nic, a nic; expected a device"),
        (("edges", 0, "ep1", "component"), "nic[", r"component is 'nic\['; expected a name, with a slice such as \[0:4\]"),
        (("edges", 0, "ep1"), None, r"edge 0: ep1: it is missing; expected a mapping"),
        (("instances", 0, "device"), "hots", r"instance 0 'host': device is 'hots'; expected a device of the file, did you mean 'host'\?"),
        (("instances", 0, "count"), True, r"instance 0 'host': count is True; expected a whole number"),
        (("links", 0, "physical", "bandwidth", "gigabits_per_second"), 0, r"gigabits_per_second is 0; expected a number above 0"),
        (("links", 0, "physical", "latency", "choice"), "s", r"link 0 'eth': physical: latency: choice is 's'; expected ms, us, ns"),
        (("edges", 0, "ep1", "component"), "nic[0]", r"there is no route from NPU 1 to NPU 0"),
        (("devices", 0, "edges"), [], r"no edge joins host.0.xpu.0 to anything; expected a way between all NPUs"),
    ],
)
def test_what_cannot_be_is_named(place: tuple[Any, ...], value: Any, message: str, tmp_path: Path) -> None:
    table = two_hosts(tmp_path)
    at = table
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = value
    with pytest.raises(InputError, match=message):
        made(table, tmp_path, bandwidth_gb_per_s=64)


def test_a_device_that_holds_itself_is_an_error(tmp_path: Path) -> None:
    table = two_hosts(tmp_path)
    table["devices"][0]["components"].append({"name": "host", "count": 1, "choice": "device"})
    with pytest.raises(InputError, match="device 0 'host': devices are in devices more than 16 deep; expected that none holds itself"):
        made(table, tmp_path)


def test_yaml_that_is_none_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("devices:\n- {name: x\ninstances:\n")
    with pytest.raises(InputError, match=r"bad.yaml:\d+: not YAML: "):
        astra_sim.simulate(platform=str(path), network="plugin:flow", workload=COLLECTIVE)


def servers(folder: Path) -> dict[str, Any]:
    """What blueprints of the package look like: links of a device without figures, parts of no type, NPUs at NVLink and at PCIe."""

    def edge(one: str, other: str, link: str, scheme: str = "many2many") -> dict[str, Any]:
        return {"ep1": {"component": one}, "ep2": {"component": other}, "scheme": scheme, "link": link}

    def part(name: str, count: int, choice: str) -> dict[str, Any]:
        return {"name": name, "description": name, "count": count, "choice": choice}

    inside = [
        edge("xpu", "nvlsw", "nvlink"),
        edge("xpu[0:2]", "pciesw[0]", "pcie"),
        edge("xpu[2:4]", "pciesw[1]", "pcie"),
        edge("nic[0:2]", "pciesw[0]", "pcie"),
        edge("nic[2:4]", "pciesw[1]", "pcie"),
        edge("cpu", "pciesw", "pcie"),
        edge("storage", "cpu", "pcie"),
    ]
    parts = [part("cpu", 1, "cpu"), part("xpu", 4, "xpu"), part("nvlsw", 1, "switch"), part("pciesw", 2, "switch"), part("nic", 4, "nic")]
    ends = {"ep1": {"instance": "server", "component": "nic"}, "ep2": {"instance": "switch", "component": "asic"}}
    table = {
        "name": "fabric",
        "description": "Servers at a switch",
        "devices": [
            {
                "name": "server",
                "components": [*parts, part("storage", 2, "custom")],
                "links": [{"name": "nvlink"}, {"name": "pcie", "description": "PCI Express"}],
                "edges": inside,
            },
            {"name": "switch", "components": [part("asic", 1, "switch")]},
        ],
        "instances": [{"name": "server", "device": "server", "count": 2}, {"name": "switch", "device": "switch", "count": 1}],
        "links": [{"name": "eth", "physical": {"bandwidth": {"choice": "gigabits_per_second", "gigabits_per_second": 400}}}],
        "edges": [{**ends, "scheme": "many2many", "link": "eth"}],
    }
    (folder / "servers.json").write_text(json.dumps(table, indent=2))
    return table


def test_json_as_the_package_writes_it_is_recognised(tmp_path: Path) -> None:
    """Its keys come in the order of the alphabet; nothing is left to the network file of ASTRA-sim 1.0, which is JSON, too."""
    servers(tmp_path)
    platform = {"file": str(tmp_path / "servers.json"), "link_bandwidths": ["nvlink:450", "pcie:64"]}
    result = astra_sim.simulate(platform=platform, network="plugin:flow", workload="plugin:collective?collective=all_to_all&bytes=4096")
    assert result.npus == 8


def test_of_equal_ways_an_npu_takes_the_one_over_its_fastest_links(tmp_path: Path) -> None:
    table = servers(tmp_path)
    topology = made(table, tmp_path, link_bandwidths=("nvlink:450", "pcie:64"), latency_ns=100)
    fabric = Platform((Dimension(topology, 8, 1, 50.0, 0.0),)).fabric()
    ways = [fabric.graph.paths_to(destination, through_npus=False) for destination in range(8)]
    for source in range(4):
        for destination in range(4):
            if source != destination:
                cost, link = ways[destination][source]
                assert (cost, fabric.links[link].bandwidth) == (2, 450.0)
    assert ways[4][0][0] == 2 + 3 + 1 + 2  # port, switch, NIC, the switch between servers, and so down again
    alike = made(table, tmp_path, bandwidth_gb_per_s=64)  # nothing says which is faster
    assert topology.hops(0, 4) == alike.hops(0, 4) + 2


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (("nvlink:450",), r"link 1 'pcie': it has no physical bandwidth; expected one, or .* or link_bandwidths such as nvlink:50,pcie:50"),
        (("nvlnk:450",), "link_bandwidths has 'nvlnk'; expected links of which .*graph.json has no bandwidth: nvlink, pcie"),
        (("eth:450",), "link_bandwidths has 'eth'; expected links of which .*graph.json has no bandwidth: nvlink, pcie"),
        (("nvlink",), "link_bandwidths has 'nvlink'; expected NAME:BANDWIDTH, a link and 10.9 bytes/s above 0"),
        (("nvlink:-1",), "link_bandwidths has 'nvlink:-1'; expected NAME:BANDWIDTH"),
    ],
)
def test_bandwidths_of_links_that_cannot_be(entries: tuple[str, ...], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        made(servers(tmp_path), tmp_path, link_bandwidths=entries)
