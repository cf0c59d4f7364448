"""NCCL's topology XML as a platform: what is joined, with which bandwidth, and errors in files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import astra_sim
import pytest
from astra_sim.errors import InputError
from astra_sim.options import structure
from astra_sim.platform import Platform
from astra_sim_platforms.nccl_topology import NcclTopologyOptions, nccl_topology
from astra_sim_platforms.nccl_xml import recognises

SWITCHED = '<nvlink target="0000:c1:00.0" count="5" tclass="0x068000"/><nvlink target="0000:c2:00.0" count="4" tclass="0x068000"/>'
COLLECTIVE = "plugin:collective?collective=all_reduce&bytes=1048576"


def pci(bus: str, inside: str, speed: str = "16 GT/s", width: str = "16") -> str:
    return f'<pci busid="{bus}" class="0x030200" link_speed="{speed}" link_width="{width}">\n{inside}\n</pci>\n'


def gpu(dev: int, links: str = "", sm: int = 90, more: str = "") -> str:
    return f'<gpu dev="{dev}" sm="{sm}" gdr="1"{more}>{links}</gpu>'


def nic(dev: int, speed: str = "400000") -> str:
    return f'<nic><net name="mlx5_{dev}" dev="{dev}" speed="{speed}" port="1" guid="0x1" gdr="1"/></nic>'


def system(*cpus: str) -> str:
    return (
        '<system version="1">\n' + "".join(f'<cpu numaid="{n}" arch="x86_64">\n{cpu}</cpu>\n' for n, cpu in enumerate(cpus)) + "</system>\n"
    )


def server(links: str = SWITCHED) -> str:
    """Two CPUs, each with a bridge, two GPUs and a NIC behind it."""
    behind = ["".join(pci(f"0000:{n}{k}:00.0", gpu(2 * n + k, links)) for k in range(2)) for n in range(2)]
    return system(*(pci(f"0000:{n}f:00.0", behind[n] + pci(f"0000:{n}e:00.0", nic(n)), "32 GT/s") for n in range(2)))


def made(text: str, folder: Path, **options: Any) -> Any:
    path = folder / "node.xml"
    path.write_text(text)
    (dimension,) = nccl_topology(structure(NcclTopologyOptions, {"file": str(path), **options}, "options"))
    return dimension.topology


def test_a_file_is_recognised_and_runs_on_every_network(tmp_path: Path) -> None:
    path = tmp_path / "node.xml"
    path.write_text("<!-- of NCCL -->\n" + server())
    assert recognises(path.read_text())
    assert not recognises("<algo name='x'/>")
    times = [
        astra_sim.simulate(platform=str(path), network=network, system="plugin:astra1?all_reduce=ring", workload=COLLECTIVE).finish_ns
        for network in ("plugin:analytical", "plugin:analytical?congestion=aware&switching=cut_through", "plugin:flow", "plugin:roce")
    ]
    assert times[1:3] == pytest.approx([times[0]] * 2, rel=0.02)
    assert times[0] < times[3] < 1.5 * times[0]


def test_nvswitch_joins_the_gpus_with_all_their_links(tmp_path: Path) -> None:
    topology = made(server(), tmp_path)
    assert topology.size == 4
    assert {(link.bandwidth, link.latency_ns) for link in topology.links()} == {(9 * 25.0, 300.0)}
    assert len(topology.links()) == 8
    assert {topology.hops(a, b) for a in range(4) for b in range(4) if a != b} == {2}


def test_without_nvlink_ways_go_over_bridges_and_cpus(tmp_path: Path) -> None:
    topology = made(server(links=""), tmp_path)
    assert [topology.hops(0, other) for other in (1, 2)] == [4, 7]
    bandwidths = {round(link.bandwidth, 3) for link in topology.links()}
    assert bandwidths == {round(16 * 16 * 128 / 130 / 8, 3), round(32 * 16 * 128 / 130 / 8, 3), 20.8}


def test_nvlinks_between_gpus_are_taken_once_for_both_ways(tmp_path: Path) -> None:
    def link(to: str) -> str:
        return f'<nvlink target="0000:{to}:00.0" count="4" tclass="0x030200"/>'

    text = system(pci("0000:0A:00.0", gpu(1, link("0b"), sm=80)) + pci("0000:0b:00.0", gpu(0, link("0a"), sm=80)))
    topology = made(text, tmp_path)
    assert topology.hops(0, 1) == 1
    assert [link.bandwidth for link in topology.links() if {link.source, link.target} == {0, 1}] == [100.0, 100.0]


def test_nodes_meet_at_a_switch_for_each_nic(tmp_path: Path) -> None:
    topology = made(server(), tmp_path, nodes=3, net_latency_ns=700)
    assert topology.size == 12
    to_rails = [link for link in topology.links() if link.latency_ns == 700]
    assert len(to_rails) == 2 * 3 * 2
    assert {link.bandwidth for link in to_rails} == {50.0}
    platform = Platform(tuple(nccl_topology(NcclTopologyOptions(file=str(tmp_path / "node.xml"), nodes=3))))
    fabric = platform.fabric()
    assert fabric.distances(4, through_npus=False)[0] == fabric.distances(5, through_npus=False)[1] == 8


def test_ranks_order_gpus_where_all_have_one(tmp_path: Path) -> None:
    link = '<nvlink target="0000:{}:00.0" count="1" tclass="0x030200"/>'
    chain = [gpu(0, link.format("0b"), more=' rank="2"'), gpu(1, link.format("0c"), more=' rank="0"'), gpu(2, more=' rank="1"')]
    topology = made(system("".join(pci(f"0000:0{bus}:00.0", each) for bus, each in zip("abc", chain, strict=True))), tmp_path)
    assert (topology.hops(0, 2), topology.hops(0, 1), topology.hops(1, 2)) == (1, 1, 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<system><cpu></system>", r"node.xml:1: not XML: mismatched tag"),
        ("<!DOCTYPE system><system/>", r"node.xml:1: a DOCTYPE; expected none"),
        ('<system version="1"/>', r"node.xml:1: 0 <gpu> in 1 node; expected two GPUs at least, as in NCCL's own files"),
        (
            system(pci("a", gpu(0), speed="fast", width="0")),
            r"node.xml:3: link_speed of <pci> is 'fast' and link_width '0'; expected such as '16 GT/s' and '16'",
        ),
        (system('<pci class="0x060400"/>'), r"node.xml:3: <pci> has no busid; expected it, as NCCL writes it"),
        (system(pci("a", gpu(0)) + pci("b", gpu(0))), r"node.xml:7: dev of <gpu> is 0 again \(first .*node.xml:4\); expected another"),
        (system(pci("a", gpu(0)) + pci("a", gpu(1))), r"node.xml:7: a second <gpu> at busid a"),
        (server().replace('count="5"', 'count="x"', 1), r"node.xml:5: count of <nvlink> is 'x'; expected a whole number of at least 1"),
        (server().replace('"0x068000"', '"0x02"', 1), r"node.xml:5: tclass of <nvlink> is '0x02'; expected 0x068000 \(NVSwitch\)"),
        (server().replace('"0x068000"', '"0x0302"', 1), r"node.xml:5: target of <nvlink> is '0000:c1:00.0'; expected the busid"),
        (server().replace('sm="90"', 'sm="52"', 1), r"node.xml:5: sm of <gpu> is 52, which has no NVLink"),
        (
            server().replace('speed="400000"', 'speed="fast"', 1),
            r"node.xml:11: speed of <net> is 'fast'; expected a whole number of Mbit/s",
        ),
        (server().replace('dev="1" speed', 'dev="0" speed', 1), r"node.xml:\d+: dev of <net> is 0 again \(first .*node.xml:11\)"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        made(text, tmp_path)


def test_several_nodes_need_a_nic(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nodes is 2, and no <nic> has a <net> with dev"):
        made(system(pci("a", gpu(0)) + pci("b", gpu(1))), tmp_path, nodes=2)


def test_pcie_without_a_speed_takes_the_option(tmp_path: Path) -> None:
    text = system(pci("a", gpu(0), speed="", width="0") + pci("b", gpu(1), speed="Unknown"))
    assert {link.bandwidth for link in made(text, tmp_path, pcie_gb_per_s=32).links()} == {32.0}


# -- What files of real machines have, by those in issues of NCCL and SimAI and in images of clouds --------------------


def bandwidths(topology: Any) -> dict[tuple[int, int], float]:
    return {(link.source, link.target): round(link.bandwidth, 3) for link in topology.links()}


def test_a_virtual_machine_says_no_speeds_and_nccl_takes_usual_ones(tmp_path: Path) -> None:
    """Four CPUs with a GPU each, two of which NVLink joins; the NIC hangs on a CPU, with a speed of its driver."""
    buses = ["0001:00:00.0", "0002:00:00.0", "0003:00:00.0", "0004:00:00.0"]
    cpus = []
    for number, (bus, other) in enumerate(zip(buses, [buses[1], buses[0], buses[3], buses[2]], strict=True)):
        link = f'<nvlink target="{other}" count="12" tclass="0x030200"/>'
        nic = '<nic><net name="eth0" dev="0" speed="-1" port="0" guid="0x0" gdr="0"/></nic>' if number == 0 else ""
        part = pci(bus, gpu(number, link, sm=80), speed="", width="0")
        cpus.append(f'<cpu numaid="{number}" affinity="00ff" arch="x86_64">{part}{nic}</cpu>')
    text = '<system version="1">' + "".join(cpus) + "</system>"
    one = made(text, tmp_path)
    assert bandwidths(one)[0, 1] == 12 * 25
    assert set(bandwidths(one).values()) == {300.0, round(8 * 16 * 128 / 130 / 8, 3), 20.8}
    assert one.hops(0, 2) == 5
    two = made(text, tmp_path, nodes=2)
    assert {round(link.bandwidth, 3) for link in two.links() if link.latency_ns == 1000} == {1.25}
    assert set(bandwidths(made(text, tmp_path, pcie_gb_per_s=20)).values()) == {300.0, 20.0, 20.8}


def test_nvswitch_that_a_virtual_machine_does_not_see(tmp_path: Path) -> None:
    """Its NVLinks have a target that is no device; CPUs are without a node."""
    link = '<nvlink target="fffffff:ff:ff.0" count="18" tclass="0x068000"/>'
    parts = "".join(pci(f"0000:0{place}:00.0", gpu(place, link), speed="16.0 GT/s PCIe") for place in range(4))
    topology = made(f'<system version="1"><cpu host_hash="0x51" numaid="-1" arch="x86_64">{parts}</cpu></system>', tmp_path)
    assert set(bandwidths(topology).values()) == {18 * 25.0}
    assert len(topology.links()) == 8


def test_a_card_with_two_ports_is_two_nics_at_one_place(tmp_path: Path) -> None:
    nets = '<net name="mlx5_4" dev="4" speed="200000" port="1"/><net name="mlx5_5" dev="5" speed="100000" port="2"/>'
    bridge = pci("0000:60:00.0", pci("0000:61:00.0", f"<nic>{nets}</nic>") + pci("0000:62:00.0", gpu(0)), speed="16.0 GT/s PCIe")
    topology = made(system(bridge), tmp_path, nodes=2)
    to_rails = sorted(link.bandwidth for link in topology.links() if link.latency_ns == 1000)
    assert to_rails == [12.5] * 4 + [25.0] * 4
    assert topology.hops(0, 1) == 2 * 4  # behind its port, the bridge, the card, and the switch of a number


def test_grace_is_joined_over_nvlink_c2c(tmp_path: Path) -> None:
    inside = '<c2c bw="44712" count="5"/>'
    parts = pci("0009:01:00.0", gpu(0, inside, sm=100)) + pci("0009:06:00.0", gpu(1, inside, sm=100))
    topology = made(system(parts), tmp_path)
    assert topology.hops(0, 1) == 2
    assert max(bandwidths(topology).values()) == 223.56


def test_a_file_of_two_hosts_that_nvlink_joins(tmp_path: Path) -> None:
    """Bus ids and numbers are those of each host; the NVSwitch is one for all."""
    link = '<nvlink target="fffffff:ff:ff.0" count="18" tclass="0x068000"/>'
    nic = '<nic><net name="mlx5_0" dev="0" speed="400000"/></nic>'

    def host(name: str, ranks: tuple[int, int], links: str = link) -> str:
        gpus = (pci(f"0008:0{place}:00.0", gpu(place, links, sm=100, more=f' rank="{ranks[place]}"')) for place in range(2))
        return f'<cpu host_hash="{name}" numaid="0" arch="arm64">{"".join(gpus)}{pci("0000:03:00.0", nic)}</cpu>'

    def text(*hosts: str) -> str:
        return f'<system version="2">{"".join(hosts)}</system>'

    switched = made(text(host("0xa", (0, 2)), host("0xb", (1, 3))), tmp_path)
    assert switched.size == 4
    assert {switched.hops(a, b) for a in range(4) for b in range(4) if a != b} == {2}
    assert set(bandwidths(switched).values()) == {18 * 50.0}
    # Without NVLink the hosts meet at the switch of their NICs.
    over_nics = made(text(host("0xa", (0, 2), ""), host("0xb", (1, 3), "")), tmp_path)
    assert [over_nics.hops(0, other) for other in (2, 1)] == [4, 8]
    with pytest.raises(InputError, match=r"rank of <gpu> is 0 again \(first .*node.xml:\d+\)"):
        made(text(host("0xa", (0, 2)), host("0xb", (0, 3))), tmp_path)
