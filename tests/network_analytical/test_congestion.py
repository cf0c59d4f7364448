"""The congestion-aware analytical network: its rules by hand, and that it is the same in C++ and in Python."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import astra_sim
import pytest
from astra_sim.function_table import FunctionTable
from astra_sim.network import EventNetwork, Message, RouteDelayNetwork
from astra_sim.platform import Dimension, Platform
from astra_sim.setup.components import build
from astra_sim.setup.experiment import Experiment
from astra_sim.setup.plugins import shared_plugins
from astra_sim_devkit.testing import contracts
from astra_sim_flows.running import Flow, run_flows
from astra_sim_network_analytical.congestion import CompiledFifoNetwork, FifoNetwork
from astra_sim_network_analytical.link_map import LinkMap
from astra_sim_network_analytical.network import analytical
from astra_sim_network_analytical.options import AnalyticalOptions
from astra_sim_network_analytical.topologies import FullyConnected, Ring, Switch
from hypothesis import given, settings
from hypothesis import strategies as st
from support import figures
from support.platforms import LINK, platform_of

ROUNDINGS = ["nanosecond", "nanosecond_sum", "picosecond"]


def dimension(topology: Any, bandwidth: float = 1.0, latency: float = 100.0, **more: Any) -> Dimension:
    """Links of 1 byte/ns and 100 ns, unless something else is asked for."""
    return Dimension(topology, topology.size, 1, bandwidth, latency, **more)


def ring(size: int, **more: Any) -> Dimension:
    return dimension(Ring(size, 2), **more)


def network(*dimensions: Dimension, compiled: bool = False, **options: Any) -> EventNetwork:
    links = LinkMap(Platform(dimensions))
    analytical_options = AnalyticalOptions(congestion="aware", link_figures=True, **options)
    return CompiledFifoNetwork(analytical_options, links) if compiled else FifoNetwork(analytical_options, links)


def arrivals(made: EventNetwork) -> list[tuple[int, int]]:
    """(Nanoseconds, number) of all messages still to come, in order."""
    result = []
    while (delivery := made.advance(None)) is not None:
        result += [(delivery[0] // 1000, number) for number in delivery[1]]
    return result


def send(made: EventNetwork, *messages: tuple[int, int, int]) -> dict[int, int]:
    """When messages (source, destination, bytes) arrive that are sent together at time 0, in nanoseconds."""
    made.inject(0, [Message(number, *message) for number, message in enumerate(messages)])
    return {number: time for time, number in arrivals(made)}


both = pytest.mark.parametrize("compiled", [False, True])


# -- Rules, by hand ----------------------------------------------------------------------------------------------------


@both
def test_messages_on_one_link_go_one_after_another(compiled: bool) -> None:
    # The second one starts when the first has been put on the link, not when it has arrived.
    assert send(network(ring(4), compiled=compiled), (0, 1, 1000), (0, 1, 500)) == {0: 1100, 1: 1600}


@both
def test_links_of_either_direction_are_links_of_their_own(compiled: bool) -> None:
    assert send(network(ring(4), compiled=compiled), (0, 1, 1000), (1, 0, 1000), (0, 3, 1000)) == dict.fromkeys(range(3), 1100)


@both
def test_a_message_is_stored_before_it_is_passed_on(compiled: bool) -> None:
    assert send(network(ring(4), compiled=compiled), (0, 2, 1000)) == {0: 2200}
    # It waits for what is on the second link.
    assert send(network(ring(4), compiled=compiled), (0, 2, 1000), (1, 2, 3000)) == {0: 4100, 1: 3100}


@both
def test_cut_through_passes_on_the_head(compiled: bool) -> None:
    def made(**more: Any) -> EventNetwork:
        return network(ring(6), compiled=compiled, switching="cut_through", **more)

    assert send(made(), (0, 3, 1000)) == {0: 1300}
    assert send(made(), (0, 1, 1000), (0, 1, 1000)) == {0: 1100, 1: 2100}
    # The head waits for the second link, the first one is free all the same.
    assert send(made(), (1, 2, 3000), (0, 2, 1000), (0, 1, 1000)) == {0: 3100, 1: 4100, 2: 2100}


@both
def test_cut_through_is_as_slow_as_the_slowest_link_so_far(compiled: bool) -> None:
    slow, fast = dimension(FullyConnected(2, 1), bandwidth=1.0), dimension(FullyConnected(2, 1), bandwidth=10.0)
    first_slow = network(slow, fast, compiled=compiled, switching="cut_through")
    assert send(first_slow, (0, 3, 1000)) == {0: 1200}
    assert [link["busy_ns"] for link in first_slow.statistics()["links"]] == [1000, 1000]  # type: ignore[attr-defined]
    first_fast = network(fast, slow, compiled=compiled, switching="cut_through")
    assert send(first_fast, (0, 3, 1000)) == {0: 1200}
    assert [link["busy_ns"] for link in first_fast.statistics()["links"]] == [100, 1000]  # type: ignore[attr-defined]


@both
@pytest.mark.parametrize(("destination", "first"), [(1, "NPU 1"), (2, "NPU 1"), (3, "NPU 3")])
def test_a_ring_is_gone_round_the_shorter_way_and_upwards_in_case_of_doubt(compiled: bool, destination: int, first: str) -> None:
    result = network(ring(4), compiled=compiled)
    send(result, (0, destination, 8))
    assert result.statistics()["links"][0]["to"] == first  # type: ignore[index]


@both
def test_a_switch_has_a_link_to_and_from_every_npu(compiled: bool) -> None:
    star = dimension(Switch(4, 1))
    assert send(network(star, compiled=compiled), (0, 2, 1000)) == {0: 2200}
    # Two messages meet on the way to NPU 2, two others on the way from NPU 0.
    assert send(network(star, compiled=compiled), (0, 2, 1000), (1, 2, 1000), (0, 3, 1000)) == {0: 2200, 1: 3200, 2: 3200}


@both
def test_dimensions_are_gone_through_in_ascending_order(compiled: bool) -> None:
    result = network(ring(2), dimension(Switch(2, 1), bandwidth=10.0, latency=5.0), compiled=compiled)
    assert send(result, (0, 3, 1000)) == {0: 1100 + 2 * 105}
    ends = [(link["from"], link["to"]) for link in result.statistics()["links"]]  # type: ignore[attr-defined]
    assert ends == [
        ("NPU 0", "NPU 1"),
        ("NPU 1", "switch 1"),
        ("switch 1", "NPU 3"),
    ]


@both
def test_interfaces_and_routers_add_latency_but_take_no_time_of_the_link(compiled: bool) -> None:
    star = dimension(Switch(4, 1), nic_latency_ns=7.0, router_latency_ns=20.0)
    assert send(network(star, compiled=compiled), (0, 1, 1000), (0, 1, 1000)) == {0: 2 * 1107 + 20, 1: 1000 + 2 * 1107 + 20}
    assert send(network(ring(6, nic_latency_ns=7.0), compiled=compiled), (0, 3, 1000)) == {0: 3300 + 14}


@both
@pytest.mark.parametrize(
    ("rounding", "expected"),
    [
        ("nanosecond", [(0, [0]), (1000, [1])]),
        ("nanosecond_sum", [(1000, [0, 1])]),
        ("picosecond", [(1500, [0]), (2800, [1])]),
    ],
)
def test_roundings(compiled: bool, rounding: str, expected: list[Any]) -> None:
    # Latency 0.6 ns, and 0.9 ns and 1.3 ns for 9 and 13 bytes. Times for which a link is busy are rounded too.
    result = network(dimension(FullyConnected(2, 1), 10.0, 0.6), compiled=compiled, rounding=rounding)
    result.inject(0, [Message(0, 0, 1, 9), Message(1, 0, 1, 13)])
    assert [result.advance(None) for _ in expected] == expected
    assert result.advance(None) is None


@both
def test_of_what_comes_at_once_the_hop_goes_before_what_is_sent(compiled: bool) -> None:
    result = network(ring(6), compiled=compiled)
    result.inject(0, [Message(0, 0, 2, 1000)])
    assert result.advance(1_100_000) is None
    result.inject(1_100_000, [Message(1, 1, 2, 1000)])
    assert arrivals(result) == [(2200, 0), (3200, 1)]


@both
def test_what_is_sent_together_goes_in_order(compiled: bool) -> None:
    result = network(ring(4), compiled=compiled)
    result.inject(0, [Message(5, 0, 1, 1000), Message(6, 0, 1, 0), Message(7, 0, 1, 0)])
    assert result.advance(1_099_999) is None
    assert result.advance(1_100_000) == (1_100_000, [5, 6, 7])
    assert result.advance(None) is None


@both
@pytest.mark.parametrize("message", [(0, 4, 1), (-1, 2, 1), (3, 3, 1), (0, 1, -1)])
def test_a_message_without_a_way_is_an_error(compiled: bool, message: tuple[int, int, int]) -> None:
    with pytest.raises(astra_sim.InputError, match="has no route"):
        network(ring(4), compiled=compiled).inject(0, [Message(0, *message)])


@both
def test_a_message_that_takes_too_long_is_an_error(compiled: bool) -> None:
    with pytest.raises(astra_sim.InputError, match="longer than can be simulated"):
        network(ring(4), compiled=compiled).inject(0, [Message(0, 0, 1, 2**62)])


# -- Both versions, and the network without congestion -----------------------------------------------------------------


class Star:
    """A third-party topology: NPUs around a hub, links of different speeds, and a link past the hub."""

    name = "star"

    def __init__(self, size: int) -> None:
        self.size = size

    def hops(self, source: int, destination: int) -> int:
        return 1 if (source, destination) == (0, 1) else 2

    def is_symmetric(self, peer: Any) -> bool:
        return False

    def links_per_message(self) -> int:
        return 1

    def links(self) -> list[tuple[int, int, float, float]]:
        up = [(npu, self.size, 1.0 + npu, 10.0) for npu in range(self.size)]
        down = [(self.size, npu, 2.0, 3.0 * npu) for npu in range(self.size)]
        return [*up, *down, (0, 1, 5.0, 1.0)]


figure = st.one_of(st.just(0.0), st.integers(1, 50).map(float), st.floats(1e-2, 500))


@st.composite
def dimensions(draw: st.DrawFn) -> list[Dimension]:
    result = []
    for _ in range(draw(st.integers(1, 3))):
        size = draw(st.integers(2, 5))
        topology = draw(st.sampled_from([Ring(size, 2), Ring(size, 4), FullyConnected(size, size - 1), Switch(size, 3), Star(size)]))
        bandwidth = draw(st.one_of(st.sampled_from([1.0, 10.0]), st.floats(0.1, 100)))
        extra = {"nic_latency_ns": draw(figure), "router_latency_ns": draw(figure)} if draw(st.booleans()) else {}
        result.append(dimension(topology, bandwidth, draw(figure), **extra))
    return result


@settings(max_examples=250, deadline=None)
@given(
    parts=dimensions(),
    rounding=st.sampled_from(ROUNDINGS),
    switching=st.sampled_from(["store_and_forward", "cut_through"]),
    data=st.data(),
)
def test_cpp_and_python_are_one_network_in_which_nothing_is_lost(
    parts: list[Dimension], rounding: str, switching: str, data: st.DataObject
) -> None:
    python, compiled = (network(*parts, compiled=way, rounding=rounding, switching=switching) for way in (False, True))
    npus = python.platform.npus
    pair = st.lists(st.integers(0, npus - 1), min_size=2, max_size=2, unique=True)
    size = st.one_of(st.sampled_from([0, 1, 100]), st.integers(0, 5000))
    number = now = 0
    arrived: list[int] = []
    for _ in range(data.draw(st.integers(1, 6))):
        ends = [data.draw(pair) for _ in range(data.draw(st.integers(1, 12)))]
        batch = [Message(number + k, source, target, data.draw(size)) for k, (source, target) in enumerate(ends)]
        number += len(batch)
        for result in (python, compiled):
            result.inject(now, batch)
        until = now + data.draw(st.integers(0, 2000)) * 1000
        while True:
            got = python.advance(until)
            assert got == compiled.advance(until)
            if got is None:
                break
            assert now <= got[0] <= until
            arrived += got[1]
        now = until
    while (got := python.advance(None)) is not None:
        assert got == compiled.advance(None)
        assert got[0] >= now
        now = got[0]
        arrived += got[1]
    assert compiled.advance(None) is None
    assert sorted(arrived) == list(range(number))
    assert python.statistics() == compiled.statistics()


@settings(max_examples=100, deadline=None)
@given(
    bandwidth=st.floats(0.1, 5000),
    latency=st.one_of(st.just(0.0), st.floats(1e-3, 3000)),
    nic=st.one_of(st.just(0.0), st.floats(1e-3, 100)),
    size=st.integers(0, 2**34),
    rounding=st.sampled_from(ROUNDINGS),
    switching=st.sampled_from(["store_and_forward", "cut_through"]),
    topology=st.sampled_from([Ring(5, 2, both_ways=False), FullyConnected(5, 4)]),
)
def test_one_hop_through_an_idle_network_takes_what_the_formula_says(
    bandwidth: float, latency: float, nic: float, size: int, rounding: str, switching: str, topology: Any
) -> None:
    part = dimension(topology, bandwidth, latency, nic_latency_ns=nic)
    formula = analytical(AnalyticalOptions(rounding=rounding), Platform((part,)))
    assert isinstance(formula, RouteDelayNetwork)
    aware = network(part, rounding=rounding, switching=switching)
    aware.inject(0, [Message(0, 2, 3, size)])
    assert aware.advance(None) == (formula.message_delay(2, 3, size), [0])


@given(size=st.integers(0, 10**6), bandwidth=st.sampled_from([1.0, 3.0, 107.3741824]))
def test_cut_through_an_idle_network_takes_what_the_formula_says(size: int, bandwidth: float) -> None:
    for part, destination in ((dimension(Switch(5, 1), bandwidth), 3), (dimension(Ring(9, 2, both_ways=False), bandwidth), 4)):
        formula = analytical(AnalyticalOptions(), Platform((part,)))
        assert isinstance(formula, RouteDelayNetwork)
        aware = network(part, switching="cut_through")
        aware.inject(0, [Message(0, 0, destination, size)])
        assert aware.advance(None) == (formula.message_delay(0, destination, size), [0])


# -- In a run ----------------------------------------------------------------------------------------------------------

RING = "plugin:ring?size=8&links=2&both_ways=false&link_bandwidth_gib_per_s=50&link_latency_ns=500"


def simulate(**more: Any) -> astra_sim.Result:
    return astra_sim.simulate(workload="plugin:collective?bytes=1000000", **{"platform": RING, **more})


@pytest.mark.parametrize("algorithm", ["ring", "direct", "double_binary_tree"])
@pytest.mark.parametrize("switching", ["store_and_forward", "cut_through"])
def test_engines_and_versions_give_the_same_run(algorithm: str, switching: str, monkeypatch: pytest.MonkeyPatch) -> None:
    choice: dict[str, Any] = {
        "network": f"plugin:analytical?congestion=aware&switching={switching}&link_figures=true",
        "set": ["system.splits=4", f"system.all_reduce={algorithm}"],
    }
    first = figures(simulate(engine="python", **choice))
    assert first == figures(simulate(engine="compiled", **choice))
    monkeypatch.setitem(sys.modules, "astra_sim_network_analytical._core", None)
    monkeypatch.delattr("astra_sim_network_analytical._core", raising=False)
    assert first == figures(simulate(engine="compiled", **choice))
    # The time is that of the longest way.
    assert first["finish_ns"] >= simulate(set=choice["set"]).finish_ns * (0.99 if switching == "cut_through" else 1)


def test_a_ring_on_a_ring_never_waits() -> None:
    free = simulate(set=["system.all_reduce=ring"])
    aware = simulate(network="plugin:analytical?congestion=aware", set=["system.all_reduce=ring"])
    assert aware.finish_ns == free.finish_ns
    assert aware.simulated_npus == 8
    assert aware.network["dimensions"][0]["largest_queue"] == 0


def test_statistics_say_what_the_links_did() -> None:
    result = network(ring(4))
    send(result, (0, 1, 1000), (0, 1, 500), (0, 2, 500))
    statistics: dict[str, Any] = result.statistics()
    assert statistics["links"] == [
        {"dimension": 0, "from": "NPU 0", "to": "NPU 1", "messages": 3, "bytes": 2000, "busy_ns": 2000, "largest_queue": 2},
        {"dimension": 0, "from": "NPU 1", "to": "NPU 2", "messages": 1, "bytes": 500, "busy_ns": 500, "largest_queue": 0},
    ]
    # The last message arrives at 2100 + 600; there are eight links.
    assert statistics["dimensions"] == [
        {"links": 8, "bytes": 2500, "busy_ns": 2500, "largest_queue": 2, "utilisation": pytest.approx(2500 / 8 / 2700)}
    ]
    result.begin()
    assert result.statistics() == {"dimensions": [{**dict.fromkeys(statistics["dimensions"][0], 0), "links": 8}], "links": []}
    assert network(dimension(FullyConnected(5, 4))).statistics()["dimensions"][0]["links"] == 20  # type: ignore[index]


def test_a_run_has_statistics_of_links_where_they_are_asked_for() -> None:
    without = simulate(network="plugin:analytical?congestion=aware").to_dict()["network"]
    assert 0 < without["dimensions"][0]["utilisation"] <= 1
    assert "links" not in without
    assert len(simulate(network="plugin:analytical?congestion=aware&link_figures=true").to_dict()["network"]["links"]) == 16


def test_a_topology_that_does_not_give_its_links_is_an_error() -> None:
    class Unknown:
        name = "unknown"
        size = 4

        def links_per_message(self) -> int:
            return 1

    with pytest.raises(astra_sim.InputError, match=r"dimension 0: topology 'unknown' does not list its links"):
        network(dimension(Unknown()))


@pytest.mark.parametrize(
    ("listed", "wrong"),
    [
        ([(0, 1, 1.0, 1.0)], "no route from NPU 1 to NPU 0"),
        ([(0, 0, 1.0, 1.0)], "two nodes"),
        ([(0, 1, 0.0, 1.0)], "a bandwidth above 0"),
        ([(0, 1, 2e9, 1.0)], "a bandwidth above 0 and at most 1e\\+09"),
        ([(0, 1, 1.0, -1.0)], "a latency of at least 0"),
    ],
)
def test_links_that_cannot_be_are_an_error(listed: list[Any], wrong: str) -> None:
    class Own:
        name = "own"
        size = 2

        def links_per_message(self) -> int:
            return 1

        def links(self) -> list[Any]:
            return listed

    with pytest.raises(astra_sim.InputError, match=f"dimension 0: topology 'own'.*{wrong}"):
        network(dimension(Own()))


def test_memory_behind_the_links_is_an_error() -> None:
    with pytest.raises(astra_sim.InputError, match=r"hbm_scale is 2.0; expected 0"):
        network(ring(4, hbm_scale=2.0))


# -- The formula as ASTRA-sim 2.x has it -------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(parts=dimensions(), rounding=st.sampled_from(ROUNDINGS), data=st.data())
def test_a_message_may_be_charged_for_its_lowest_dimension(parts: list[Dimension], rounding: str, data: st.DataObject) -> None:
    platform = Platform(tuple(parts))
    result = analytical(AnalyticalOptions(rounding=rounding, accounting_dimension="lowest"), platform)
    assert isinstance(result, RouteDelayNetwork)
    table = FunctionTable(result.function_table())
    source, destination = data.draw(st.lists(st.integers(0, platform.npus - 1), min_size=2, max_size=2, unique=True))
    lowest = min(d for d in range(len(parts)) if platform.coordinate(source, d) != platform.coordinate(destination, d))
    hops = parts[lowest].topology.hops(platform.coordinate(source, lowest), platform.coordinate(destination, lowest))
    assert result.message_delay(source, destination, 999) == result.route_delay(lowest, hops, 999) == table.delay(source, destination, 999)


@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_symmetry_changes_nothing_where_the_lowest_dimension_is_charged(engine: str) -> None:
    choice: dict[str, Any] = {
        "workload": "plugin:collective?bytes=100000",
        "platform": "plugin:torus?sizes=4,2&link_bandwidth_gib_per_s=50&link_latency_ns=500",
        "network": "plugin:analytical?accounting_dimension=lowest&rounding=nanosecond_sum",
        "set": ["system.all_reduce=ring", "system.splits=3"],
        "engine": engine,
    }
    assert figures(astra_sim.simulate(**choice)) == figures(astra_sim.simulate(symmetry=False, **choice))


class TestAware(contracts.NetworkContract):
    name = "analytical"
    options: Mapping[str, Any] = {"congestion": "aware"}
    platform = Platform((ring(4), dimension(Switch(3, 1))))


class TestCutThrough(TestAware):
    options: Mapping[str, Any] = {"congestion": "aware", "switching": "cut_through", "rounding": "picosecond"}


def test_without_congestion_is_the_default() -> None:
    experiment = Experiment()
    for kind, value in {"workload": "plugin:collective?bytes=1", "platform": RING, "network": "plugin:analytical"}.items():
        experiment.use(kind, value, shared_plugins())
    assert isinstance(build(experiment, shared_plugins()).network, RouteDelayNetwork)


def test_routes_of_a_large_fabric_are_found_when_messages_take_them() -> None:
    """A table of all nodes and destinations would have 90 million entries."""
    platform = platform_of(f"clos?npus=8192&ports=64&levels=3&{LINK}")
    network = CompiledFifoNetwork(AnalyticalOptions(congestion="aware"), LinkMap(platform))
    near, far = run_flows(network, [Flow(0, 1, 50_000), Flow(32, 8191, 50_000)])
    # Each link holds all of a message before it passes it on: 500 ns, and 1000 ns for the bytes.
    assert (near.received, far.received) == (2 * 1_500_000, 6 * 1_500_000)
