"""Which virtual network of the packet network carries a message: the rule that a network declares."""

from __future__ import annotations

from typing import Any, cast

import pytest
from astra_sim.platform import Platform

pytest.importorskip("astra_sim_network_packet")
from astra_sim_network_packet import fabric, garnet_topologies
from astra_sim_network_packet._core import Network, VnetChoice
from astra_sim_platforms.garnet import Torus3dOptions, torus3d
from support.packet import torus


def test_one_virtual_network_carries_all_messages() -> None:
    choice = VnetChoice.single()
    assert {choice.vnet_of(0, 5, queue) for queue in (None, 0, 7)} == {0}


def test_the_last_dimension_in_which_the_ends_differ() -> None:
    """On a torus of 4 x 4, whatever the queue."""
    platform = Platform(tuple(torus(4, 4)))
    choice = fabric.vnet_choice(platform, ports_by_dimension=True)
    assert [choice.vnet_of(0, destination, 3) for destination in (1, 3, 4, 5, 15)] == [0, 0, 1, 1, 1]
    assert fabric.vnet_choice(platform, ports_by_dimension=False).vnet_of(0, 4) == 0


def test_the_table_of_queues() -> None:
    choice = VnetChoice.by_queue([2, 0])
    assert [choice.vnet_of(0, 1, queue) for queue in (0, 1, 2, None)] == [2, 0, None, None]


def test_every_queue_of_a_garnet_network_is_a_virtual_network() -> None:
    network = cast(Any, torus3d(Torus3dOptions(npus=8, packages=4, package_rows=2))[0].topology).network
    choice = garnet_topologies.vnet_choice(network)
    assert [choice.vnet_of(0, 1, queue) for queue in range(network.vnets)] == list(range(network.vnets))
    assert choice.vnet_of(0, 1, network.vnets) is None


def test_a_rule_names_virtual_networks_that_there_are() -> None:
    with pytest.raises(ValueError, match="expected messages in 2 virtual networks, got one in number 2"):
        Network(4, 2, VnetChoice.by_queue([2, 0]), 1000, True)
    with pytest.raises(ValueError, match="expected virtual networks from 0 on, got -1"):
        VnetChoice.by_queue([-1])
