"""The packet network begins a run: always with nothing under way, and without building what is there already."""

from __future__ import annotations

import pytest
from astra_sim.network import Message
from astra_sim_network_packet import fabric
from astra_sim_network_packet.network import PacketNetwork
from astra_sim_network_packet.options import PacketOptions
from astra_sim_network_packet.traffic import read_platform

TORUS = "plugin:torus?sizes=2,2&links=2&link_bandwidth_gb_per_s=32&link_latency_ns=2"


def network() -> PacketNetwork:
    return PacketNetwork(PacketOptions(), read_platform(TORUS))


def arrivals(packets: PacketNetwork) -> list[tuple[int, list[int]]]:
    """When messages from every NPU to the next one arrive."""
    packets.inject(0, [Message(npu, npu, (npu + 1) % 4, 10_000) for npu in range(4)])
    result = []
    while (delivery := packets.advance(None)) is not None:
        result.append(delivery)
    return result


def test_every_run_begins_anew() -> None:
    packets = network()
    first = arrivals(packets)
    assert sorted(number for _, numbers in first for number in numbers) == [0, 1, 2, 3]
    for _ in range(2):
        packets.begin()
        assert packets.statistics()["packets"] == 0
        assert arrivals(packets) == first


def test_the_first_run_takes_the_network_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    built = []
    result = fabric.Builder.network

    def counted(builder: fabric.Builder) -> object:
        built.append(builder)
        return result(builder)

    monkeypatch.setattr(fabric.Builder, "network", counted)
    packets = network()
    packets.begin()
    assert len(built) == 1
    packets.begin()
    assert len(built) == 2
