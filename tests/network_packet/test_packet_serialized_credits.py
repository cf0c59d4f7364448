"""Links of Garnet that are narrower than a flit: their credits come in parts, which overtake one another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from astra_sim.options import structure
from astra_sim.setup.experiment import Experiment
from astra_sim.setup.plugins import shared_plugins

network_module = pytest.importorskip("astra_sim_network_packet.network")

FILE = """num-npus: 8
num-packages: {packages}
package-rows: 1
topology: {topology}
local-rings: 2
vertical-rings: 1
horizontal-rings: 1
links-per-tile: 2
flit-width: 2048
local-packet-size: 512
package-packet-size: {packet}
tile-link-width: {width}
package-link-width: {width}
vcs-per-vnet: {vcs}
routing-algorithm: {routing}
router-latency: {router_latency}
local-link-latency: {local_latency}
package-link-latency: {package_latency}
buffers-per-vc: {buffers}
local-link-efficiency: 1.0
package-link-efficiency: 1.0
"""
SWITCH = {
    "packages": 4, "topology": "NV_Switch", "routing": "AllToAll", "packet": 4096, "width": 256, "vcs": 1, "buffers": 64,
    "router_latency": 2, "local_latency": 9, "package_latency": 20,
}  # fmt: skip
TORUS = {**SWITCH, "packages": 8, "topology": "Torus3D", "routing": "Ring_XY"}

Message = tuple[int, int, int, int, int]
"""When it is sent (cycles), source, destination, bytes, virtual network."""


def arrivals(folder: Path, file: dict[str, Any], messages: list[Message], **options: Any) -> list[int]:
    """When each message arrives (cycles)."""
    from astra_sim_network_packet.options import PacketOptions
    from astra_sim_network_packet.traffic import read_platform

    path = folder / "network.txt"
    path.write_text(FILE.format(**file))
    experiment = Experiment()
    experiment.use("network", str(path), shared_plugins())
    table = {key: value for key, value in experiment.sections["network"].items() if key != "plugin"} | options
    network = network_module.PacketNetwork(structure(PacketOptions, table, str(path)), read_platform(str(path)))
    for number, (at, source, destination, size, vnet) in enumerate(messages):
        network.inject(at * 1000, [(number, source, destination, size, vnet)])
    arrived: dict[int, int] = {}
    while (delivery := network.advance(None)) is not None:
        arrived |= dict.fromkeys(delivery[1], delivery[0] // 1000)
    network.check()
    return [arrived[number] for number in range(len(messages))]


def test_routers_of_two_cycles_give_credits_back_after_the_wires_have_taken_a_part(tmp_path: Path) -> None:
    """With one virtual channel a packet waits for the credit of the last one's tail, so that each packet shows when that comes."""
    messages = [(186, 5, 4, 24576, 1), (207, 1, 6, 32768, 3), (236, 1, 0, 20480, 1)]
    assert arrivals(tmp_path, SWITCH, messages) == [1140, 1095, 1031]
    alone = [arrivals(tmp_path, SWITCH, [(0, 5, 4, 4096 * packets, 1)])[0] for packets in (5, 6, 7)]
    assert alone[1] - alone[0] == alone[2] - alone[1] == 158


def test_messages_that_contend_for_a_link(tmp_path: Path) -> None:
    file = {**TORUS, "width": 512, "packet": 2048, "vcs": 4, "buffers": 4, "router_latency": 1, "local_latency": 2, "package_latency": 5}
    messages = [(102, 2, 6, 10240, 2), (210, 6, 5, 16384, 3), (283, 3, 4, 16384, 3)]
    assert arrivals(tmp_path, file, messages) == [361, 654, 803]


@pytest.mark.parametrize(("vcs", "buffers"), [(1, 64), (2, 1), (2, 2), (4, 4), (8, 64)])
@pytest.mark.parametrize("router_latency", [1, 2, 3])
def test_passing_over_periods_changes_nothing(tmp_path: Path, vcs: int, buffers: int, router_latency: int) -> None:
    """Credits beyond the buffers, parts that are left over and the order of calls are all part of what repeats."""
    options = {"vcs": vcs, "buffers": buffers, "router_latency": router_latency}
    messages = [(0, 1, 6, 2_000_000, 2), (3, 3, 6, 1_500_000, 2), (400_001, 0, 2, 700_000, 2), (500_000, 6, 1, 300_000, 3)]
    # On rings to the next NPU only: without deadlock avoidance, messages of several hops may block each other.
    to_next = [(at, source, (source + 1) % 8, size, 2) for at, source, _, size, _ in messages]
    for file, sent in ((SWITCH, messages), (TORUS, to_next)):
        every_flit = arrivals(tmp_path, {**file, **options}, sent, exact=("every-npu", "every-period"))
        assert arrivals(tmp_path, {**file, **options}, sent) == every_flit
