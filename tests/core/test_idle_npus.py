"""A workload on the first NPUs of a larger platform; the others are idle."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import astra_sim
import pytest
from astra_sim.network import Message
from astra_sim.platform import with_logical_dimensions
from support.commands import Astra, command

pytest.importorskip("astra_sim_platforms")

LINK = "link_bandwidth_gb_per_s=12.5&link_latency_ns=500"
NETWORKS = ("analytical", "analytical?congestion=aware", "flow", "packet", "packet?preset=booksim", "roce", "roce?preset=reference")
LARGER = {
    "switch": (f"switch?size=8&{LINK}", f"switch?size=4&{LINK}"),
    "clos": (f"clos?npus=32&ports=8&{LINK}", f"clos?npus=16&ports=8&{LINK}"),
    "fully_connected": (f"fully_connected?size=8&links=7&{LINK}", f"fully_connected?size=4&links=3&{LINK}"),
    "mesh": (f"mesh?sizes=8&{LINK}", f"mesh?sizes=4&{LINK}"),
}


def finish_ns(network: str, platform: str, collective: str, symmetry: bool = True, engine: str = "auto") -> float:
    result = astra_sim.simulate(
        workload=f"plugin:collective?collective={collective}&bytes=65536",
        platform=f"plugin:{platform}&logical_dims=2,2",
        network=f"plugin:{network}",
        symmetry=symmetry,
        engine=engine,
    )
    assert result.npus == 4
    assert result.audit == []
    return result.finish_ns


@pytest.mark.parametrize("collective", ["all_reduce", "all_to_all"])
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("larger", LARGER)
def test_idle_npus_change_nothing_where_others_work(larger: str, network: str, collective: str) -> None:
    if larger == "mesh" and network.startswith("roce"):
        pytest.skip("an NPU that forwards has a link inside as fast as all its links, and NPU 3 has one more on the larger mesh")
    pytest.importorskip(f"astra_sim_network_{network.partition('?')[0]}")
    big, small = (finish_ns(network, platform, collective) for platform in LARGER[larger])
    assert big == small


@pytest.mark.parametrize("network", NETWORKS)
def test_symmetry_and_engines_agree_beside_idle_npus(network: str) -> None:
    """Automorphisms of the whole switch take working NPUs to idle ones: nothing may be folded by them."""
    pytest.importorskip(f"astra_sim_network_{network.partition('?')[0]}")
    kinds = itertools.product((True, False), ("auto", "python"))
    result = {finish_ns(network, f"switch?size=8&{LINK}", "all_reduce", symmetry, engine) for symmetry, engine in kinds}
    assert len(result) == 1


@pytest.mark.parametrize(("npus", "hops"), [(8, 3), (5, 2)])
def test_idle_npus_forward_where_npus_do(npus: int, hops: int) -> None:
    """On a ring of 8, NPU 0 sends to NPU 3 over the two between them; on one of 5, over the idle one."""
    pytest.importorskip("astra_sim_network_flow")
    from astra_sim_network_flow.network import FlowNetwork
    from astra_sim_network_flow.options import FlowOptions
    from astra_sim_network_packet.traffic import read_platform

    wired = read_platform(f"plugin:ring?size={npus}&links=2&{LINK}")
    network = FlowNetwork(FlowOptions(), with_logical_dimensions(wired, [2, 2]))
    network.inject(0, [Message(0, 0, 3, 0)])
    assert network.advance(None) == (hops * 500_000, [0])


@pytest.fixture
def astra(capsys: pytest.CaptureFixture[str]) -> Astra:
    return command(capsys)


def test_files_of_ns3_with_more_npus_than_logical_dimensions(tmp_path: Path, astra: Astra) -> None:
    pytest.importorskip("astra_sim_network_roce")
    lines = [f"{npu} {8} 100Gbps 0.0005ms 0" for npu in range(8)]
    (tmp_path / "topology.txt").write_text("\n".join(["9 1 8", "8", *lines]) + "\n")
    (tmp_path / "logical.json").write_text('{"logical-dims": ["4"]}')
    files = "--network", "plugin:roce", "--platform", str(tmp_path / "topology.txt")
    done = astra(*files, "--set", "platform.logical_dims=4", "--workload", "plugin:collective?bytes=65536", "--json")
    assert (done.status, json.loads(done.out)["npus"]) == (0, 4), done.error
    (tmp_path / "config.txt").write_text(f"ENABLE_QCN 1\nTOPOLOGY_FILE {tmp_path}/topology.txt\n")
    both = "--network", str(tmp_path / "config.txt"), "--platform", str(tmp_path / "logical.json"), "--set", "network.ecn=false"
    done = astra(*both, "--workload", "plugin:collective?bytes=65536", "--json")
    assert (done.status, json.loads(done.out)["npus"]) == (0, 4), done.error
    flows = astra("flows", *both, "--pattern", "permutation", "--json")
    assert len(json.loads(flows.out)["flows"]) == 8  # flows know no logical dimensions
