"""The model `nccl` of the analytical network: what whole collectives take, and which parameters it takes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import astra_sim
import attrs
import pytest
from astra_sim import InputError
from astra_sim.network import RouteDelayNetwork
from astra_sim.platform import GroupShape
from astra_sim.schedule import Collective
from astra_sim_network_analytical.nccl import NcclPrices
from astra_sim_network_analytical.nccl_devices import device_names
from astra_sim_network_analytical.nccl_fabrics import on_fabric
from astra_sim_network_analytical.nccl_parameters import BetweenNodes, NcclFit, NcclParameters, Protocol, parameters_of, read_device
from hypothesis import given
from hypothesis import strategies as st
from support import figures
from support.components import components_of

AR, AG, RS, A2A = Collective.ALL_REDUCE, Collective.ALL_GATHER, Collective.REDUCE_SCATTER, Collective.ALL_TO_ALL
NODE_OF_8 = GroupShape((8, 1, 1), 8)


def protocol(latency: float, rate: float, step: float = 0.0) -> dict[str, float]:
    return {"latency_us": latency, "gb_per_s": rate, "step_us": step}


def device(**more: Any) -> NcclParameters:
    """A device with round numbers: LL 10 us and 50 GB/s, Simple 50 us and 200 GB/s, on 8 ranks."""
    fits = [
        {"operation": operation, "ranks": 8, "ll": protocol(10, 50, 0.5), "simple": protocol(50, 200, 2)}
        for operation in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
    ]
    return parameters_of({"title": "round", "calibrated": True, "fits": fits, **more}, "here")


# -- In a node ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operation", "size", "expected"),
    [
        (AR, 8_000, 10 + 1.75 * 8_000 / 50e3),  # LL
        (AR, 800_000_000, 50 + 1.75 * 800_000_000 / 200e3),  # Simple
        (AG, 800_000_000, 50 + 0.875 * 800_000_000 / 200e3),
        (RS, 800_000_000, 50 + 0.875 * 800_000_000 / 200e3),
        (A2A, 800_000_000, 50 + 0.875 * 800_000_000 / 200e3),
    ],
)
def test_the_protocol_that_takes_least(operation: Collective, size: int, expected: float) -> None:
    assert NcclPrices(device()).us(operation, size, NODE_OF_8) == pytest.approx(expected)


def test_other_numbers_of_ranks_have_other_steps() -> None:
    prices = NcclPrices(device())
    assert prices.us(AR, 0, GroupShape((16, 1), 16)) == pytest.approx(10 + 16 * 0.5)
    assert prices.us(AG, 0, GroupShape((4, 1), 4)) == pytest.approx(10 - 4 * 0.5)
    assert prices.us(AR, 0, GroupShape((2, 1), 2)) == pytest.approx(10 - 12 * 0.5)


def test_fewer_channels_have_less_bandwidth() -> None:
    parameters = device(channels=16)
    full, half, more = (NcclPrices(parameters, channels=count).us(AR, 8e8, NODE_OF_8) for count in (16, 8, 99))
    assert half - 50 == pytest.approx(2 * (full - 50))
    assert more == full


def test_a_measured_table_is_followed() -> None:
    table = {"operation": "all_reduce", "ranks": 8, "bytes": [1000.0, 16000.0, 1e6], "microseconds": [10.0, 40.0, 400.0]}
    prices = NcclPrices(parameters_of({"title": "table", "calibrated": True, "fits": [table]}, "here"))
    sizes = (8, 1000, 4000, 16000, 1_000_000, 10_000_000)
    assert [prices.us(AR, size, NODE_OF_8) for size in sizes] == pytest.approx([10, 10, 20, 40, 400, 4000])


# -- Between nodes -----------------------------------------------------------------------------------------------------


EFFICIENCY = BetweenNodes().nic_efficiency


def between(shape: GroupShape, operation: Collective = AR, nics: tuple[float, ...] = (600, 25, 12.5), size: float = 8e9) -> float:
    return NcclPrices(device(), nics).us(operation, size, shape)


def test_one_rank_in_each_node_has_one_nic_and_all_have_all() -> None:
    rail, full = between(GroupShape((16, 16, 1), 1)), between(GroupShape((128, 16, 1), 8))
    assert rail == pytest.approx(2 * 15 / 16 * 8e9 / (25e3 * EFFICIENCY), rel=0.01)
    assert full == pytest.approx(2 * 127 / 128 * 8e9 / (8 * 25e3 * EFFICIENCY), rel=0.02)


def test_the_bus_of_the_node_may_be_less_than_its_nics() -> None:
    assert between(GroupShape((128, 16, 1), 8), nics=(600, 100)) == pytest.approx(2 * 127 / 128 * 8e9 / 200e3, rel=0.02)


def test_the_slowest_dimension_that_is_crossed_counts() -> None:
    inside, across = between(GroupShape((16, 4, 1, 1), 4)), between(GroupShape((16, 4, 2, 1), 4))
    assert across == pytest.approx(2 * inside, rel=0.02)


def test_small_all_reduces_take_a_tree_and_others_a_ring() -> None:
    between_nodes = BetweenNodes()
    shape = GroupShape((256, 256, 1), 1)
    assert between(shape, size=8) == pytest.approx(10 - 7 + 8 * between_nodes.level_us.ll, rel=0.01)
    assert between(shape, AG, size=8) == pytest.approx(10 - 3.5 + 255 * between_nodes.step_alone_us.ll, rel=0.01)


def test_a_ring_that_leaves_its_nodes_takes_at_least_its_posts() -> None:
    """128 ranks in 16 nodes: 127 steps, of which 15 are between nodes; 7 of the others are in the latency of 10 us, 0.5 us each."""
    between_nodes = BetweenNodes()
    shape = GroupShape((128, 16, 1), 8)
    assert between_nodes.post_us.ll > 0.5
    assert between(shape, AG, size=8) == pytest.approx(
        10 - 7 * 0.5 + 112 * between_nodes.post_us.ll + 15 * between_nodes.step_us.ll, rel=0.01
    )


def test_a_tree_of_two_nodes_sends_everything_once_and_of_more_twice() -> None:
    """With one rank in a node its NIC counts alone: 25 GB/s * EFFICIENCY * tree_share, where a ring takes 2 (N - 1) / N of the bytes."""
    between_nodes = BetweenNodes()
    rate = 25e3 * EFFICIENCY * between_nodes.share.simple
    alone, tree = (between(GroupShape((nodes, nodes, 1), 1), size=1e12) for nodes in (2, 4))
    assert alone == pytest.approx(1e12 / rate, rel=1e-3)
    assert tree == pytest.approx(1.5e12 / rate, rel=1e-3)
    small = between(GroupShape((2, 2, 1), 1), size=1e7)
    assert small <= 10 - 7 + between_nodes.level_us.ll + 1e7 / (25e3 * EFFICIENCY * between_nodes.share.ll * between_nodes.tree_share)


def test_a_fabric_has_its_latency_its_share_of_the_nics_and_its_protocols() -> None:
    """Its protocol Simple pays the latency twice: the data, and the message that they are there."""
    shape = GroupShape((16, 16, 1), 1)

    def times(size: float, **options: Any) -> float:
        table = {"plugin": "analytical", "model": "nccl", "device": "h100"} | options
        dimensions = [{"topology": "switch", "size": size_, "link_bandwidth_gb_per_s": 50, "link_latency_ns": 1350} for size_ in (1, 16)]
        network = components_of(workload="plugin:collective?bytes=64", platform={"dimensions": dimensions}, network=table).network
        collective_ps = network.collective_ps(AG, round(size / 16), shape)
        assert collective_ps is not None
        return collective_ps / 1e6

    plain, later = times(1e12), times(1e12, fabric_latency="12.7")
    assert later - plain == pytest.approx(15 * 2 * 10, rel=1e-3)
    assert times(16, fabric_latency="12.7") - times(16) == pytest.approx(15 * 10, rel=1e-3)
    assert times(1e12, fabric_latency="tcpxo") - later == pytest.approx((1 / 0.93 - 1 / EFFICIENCY) * 15 / 16 * 1e12 / 50e3, rel=0.01)
    assert times(16, fabric_latency="tcpxo") > times(16, fabric_latency="21") + 15 * 21
    assert times(1e12, fabric_latency="efa", nic_efficiency=0.5) == pytest.approx(15 / 16 * 1e12 / 25e3, rel=1e-3)


def test_nvls_of_large_nodes_is_filled_first() -> None:
    """A rack of 72 has 32 * 72 chunks on its way; until the first come out, and at each level of a tree again, nothing arrives."""
    prices, size = NcclPrices(read_device("gb200"), (0, 50)), 16 << 30
    rate = 434e3 / 2
    loop = 32 * 72 * 64 * 1024 - 32 * 8 * 64 * 1024
    few, many = (prices.us(AR, size, GroupShape((72 * nodes, nodes, 1), 72)) for nodes in (4, 16))
    assert many - few == pytest.approx(2 * (41.8 + loop / rate))
    assert few > size / rate


def test_processors_of_a100_machines_post_more_slowly() -> None:
    assert read_device("a100").between_nodes.post_us.simple == 2 * read_device("h100").between_nodes.post_us.simple


def test_an_all_to_all_sends_by_the_nic_of_each_rank() -> None:
    between_nodes = BetweenNodes()
    expected = 120 / 128 * 8e9 / (25e3 * EFFICIENCY) + 120 * between_nodes.peer_us + between_nodes.step_us.ll + 10
    assert between(GroupShape((128, 16, 1), 8), A2A) == pytest.approx(expected)


@given(
    name=st.sampled_from(device_names()),
    operation=st.sampled_from(list(Collective)),
    members=st.sampled_from((1, 2, 4, 8)),
    nodes=st.sampled_from((1, 2, 16, 1024)),
    size=st.floats(1, 1e10),
)
def test_more_bytes_and_more_ranks_take_no_less(name: str, operation: Collective, members: int, nodes: int, size: float) -> None:
    ranks = members * nodes
    if ranks == 1:
        return
    prices = NcclPrices(read_device(name), (600, 50))
    shape = GroupShape((ranks, nodes, 1), members)
    time = prices.us(operation, size, shape)
    assert 1 < time < prices.us(operation, 2 * size, shape)
    if nodes > 1:
        assert time < prices.us(operation, size, GroupShape((2 * ranks, 2 * nodes, 1), members))


# -- In a run ----------------------------------------------------------------------------------------------------------

PLATFORM: dict[str, Any] = {
    "name": "DGX A100",
    "dimensions": [
        {"topology": "switch", "size": 8, "link_bandwidth_gb_per_s": 300, "link_latency_ns": 300},
        {"topology": "switch", "size": 4, "link_bandwidth_gb_per_s": 25, "link_latency_ns": 1350},
    ],
}


@pytest.mark.parametrize("system", ["plugin:astra1", "plugin:astra2"])
def test_a_run_takes_what_the_model_says(system: str) -> None:
    experiment: dict[str, Any] = {
        "workload": "plugin:collective?bytes=1000000",
        "platform": PLATFORM,
        "network": "plugin:analytical?model=nccl",
        "system": system,
    }
    result = astra_sim.simulate(**experiment)
    expected = NcclPrices(read_device("a100"), (300, 25)).us(AR, 1_000_000, GroupShape((32, 4, 1), 8))
    assert result.finish_ns == pytest.approx(expected * 1e3, rel=1e-6)
    assert figures(result) == figures(astra_sim.simulate(**experiment, symmetry=False))
    assert figures(result) == figures(astra_sim.simulate(**experiment, engine="python"))


def test_a_machine_by_name_says_its_device() -> None:
    result = astra_sim.simulate(
        workload="plugin:collective?bytes=1000000", platform="plugin:dgx_a100", network="plugin:analytical?model=nccl"
    )
    assert result.finish_ns == pytest.approx(NcclPrices(read_device("a100")).us(AR, 1_000_000, NODE_OF_8) * 1e3, rel=1e-6)


def test_messages_take_the_delay_of_their_links() -> None:
    network = components_of(workload="plugin:collective?bytes=1", platform=PLATFORM, network="plugin:analytical?model=nccl").network
    plain = components_of(workload="plugin:collective?bytes=1", platform=PLATFORM).network
    assert isinstance(network, RouteDelayNetwork)
    assert isinstance(plain, RouteDelayNetwork)
    assert network.message_delay(0, 9, 5000) == plain.message_delay(0, 9, 5000)


# -- Errors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("model=nccl", r"model=nccl needs a device, and the platform names none; expected device=a100\|"),
        ("model=nccl&device=h1000", "device is 'h1000'.*h100"),
        ("model=nccl&device=h100&parameters=x.toml", "device and parameters are given"),
        ("model=nccl&parameters=none.toml", "none.toml"),
        ("model=nccl&device=h100&congestion=aware", "model is nccl and congestion is aware"),
        ("model=nccl&device=b200&channels=4", "channels is 4, and B200-SXM, NCCL 2.29.2 does not tell with how many"),
        ("device=h100", "device is given, which model=nccl alone reads"),
        ("nic_efficiency=0.5", "nic_efficiency is given"),
        ("fabric_latency=efa", "fabric_latency is given"),
        (
            "model=nccl&device=h100&fabric_latency=token_ring",
            "fabric_latency is 'token_ring'; expected infiniband, efa, tcpxo, or microseconds",
        ),
        ("model=nccl&device=h100&fabric_latency=-1", "fabric_latency is '-1'"),
    ],
)
def test_options_that_do_not_fit(options: str, why: str) -> None:
    platform = {"dimensions": PLATFORM["dimensions"]}
    with pytest.raises(InputError, match=why):
        components_of(workload="plugin:collective?bytes=1", platform=platform, network=f"plugin:analytical?{options}")


FIT = {"operation": "all_reduce", "ranks": 8}


@pytest.mark.parametrize(
    ("fits", "why"),
    [
        ([FIT], r"fits.0 \(all_reduce, 8 ranks\): expected a protocol"),
        ([{**FIT, "ll": protocol(1, 1)}] * 2, r"fits.1 \(all_reduce, 8 ranks\): it occurs twice"),
        ([{**FIT, "ll": protocol(1, 0)}], "gb_per_s is 0"),
        ([{**FIT, "ll": {"latency_us": 1}}], "gb_per_s"),
        ([{**FIT, "bytes": [1.0, 1.0], "microseconds": [1.0, 2.0]}], "as many microseconds as bytes, bytes rising"),
        ([{**FIT, "operation": "allreduce", "ll": protocol(1, 1)}], "all_reduce"),
    ],
)
def test_parameters_that_are_wrong(fits: list[dict[str, Any]], why: str) -> None:
    with pytest.raises(InputError, match=why):
        parameters_of({"title": "wrong", "calibrated": True, "fits": fits}, "mine.toml")


def both(gb_per_s: float = 1.0) -> NcclFit:
    """A protocol that takes 10 us and 1 us a thousand bytes of the bus, and a table of two sizes."""
    simple = Protocol(latency_us=10.0, gb_per_s=gb_per_s)
    return NcclFit(operation="all_gather", ranks=2, simple=simple, bytes=(20_000.0, 80_000.0), microseconds=(40.0, 25.0 * 4))


def test_a_table_beside_protocols_holds_at_its_sizes() -> None:
    """The protocol takes 20 us and 50 us there, so twice as long; between them it is the protocol's shape."""
    fit = both()
    assert [fit.time_us(size) for size in (20_000, 80_000)] == pytest.approx([40, 100])
    assert [fit.time_us(size) for size in (0, 40_000, 160_000)] == pytest.approx([20, 60, 180])
    assert fit.protocols().keys() == {"simple"}


def test_ratios_of_a_table_to_protocols_are_straight_lines_between_logarithms() -> None:
    fit = attrs.evolve(both(), microseconds=(20.0, 100.0))
    assert fit.time_us(40_000) == pytest.approx(30 * math.sqrt(2))


def test_a_table_beside_protocols_holds_for_its_number_of_ranks_and_in_the_node_alone() -> None:
    plain, measured = (
        NcclPrices(NcclParameters(title="x", calibrated=True, fits=(fit,)), (0, 100)) for fit in (protocols_of(both()), both())
    )
    gather = Collective.ALL_GATHER
    assert measured.us(gather, 40_000, GroupShape((2, 1), 2)) == pytest.approx(2 * plain.us(gather, 40_000, GroupShape((2, 1), 2)))
    for shape in (GroupShape((3, 1), 3), GroupShape((4, 2, 1), 2)):
        assert measured.us(gather, 40_000, shape) == plain.us(gather, 40_000, shape)


def protocols_of(fit: NcclFit) -> NcclFit:
    return attrs.evolve(fit, bytes=(), microseconds=())


def test_a_collective_without_a_fit_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        'title = "mine"\ncalibrated = true\nnode = { gb_per_s = 300 }\n'
        '[[fits]]\noperation = "all_gather"\nranks = 8\nll = { latency_us = 1, gb_per_s = 1 }\n'
    )
    with pytest.raises(InputError, match="mine: it has no fit of all_reduce"):
        astra_sim.simulate(
            workload="plugin:collective?bytes=1000000", platform=PLATFORM, network=f"plugin:analytical?model=nccl&parameters={file}"
        )


def test_trees_on_tcpxo_fill_the_ranks_of_a_node_first() -> None:
    """Sixteen hops of a chunk of 2 MiB at most on each of 8 channels; then size / NICs."""

    def us(size: int) -> float:
        parameters, _ = on_fabric(read_device("h100"), "tcpxo")
        return NcclPrices(parameters, (0, 25)).us(AR, size, GroupShape((16, 2, 1), 8))

    full = 16 * 2**21 / 42e3
    assert us(2**30) - us(2**29) == pytest.approx(2**29 / (8 * 25e3 * 0.93), rel=1e-6)
    assert us(2**29) - us(2**20) == pytest.approx((2**29 - 2**20) / (8 * 25e3 * 0.93) + full - 16 * 2**17 / 42e3, rel=1e-6)
