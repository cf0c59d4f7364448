"""Routes that are not the shortest: those that a topology names, and ways around (Valiant, UGAL)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import astra_sim
import attrs
import pytest
from astra_sim.errors import InputError
from astra_sim.fabric import Wire, both_ways
from astra_sim.fabric.graph import next_links_of, wires_of
from astra_sim.graph import ExecutionGraph, NpuProgram, Receive, Send
from astra_sim.platform import Dimension, Platform
from astra_sim.schedule import shift
from astra_sim_flows.running import Flow, run_flows
from astra_sim_network_flow.network import FlowNetwork
from astra_sim_network_flow.options import FlowOptions
from astra_sim_platforms.slim_fly import SlimFlyOptions, slim_fly
from astra_sim_platforms.topologies import DragonflyOptions, dragonfly
from support.roce import network as roce

NETWORKS = [
    "plugin:flow",
    "plugin:flow?routing=hash",
    "plugin:flow?routing=split",
    "plugin:roce",
    "plugin:roce?load_balancing=ecmp",
    "plugin:packet",
    "plugin:packet?preset=booksim",
    "plugin:analytical?congestion=aware&switching=cut_through",
]
LATENCY_NS = 10_000.0


@attrs.frozen
class Rotary:
    """Six NPUs, each at a switch of its own; the switches form a ring. Messages go upwards only, or wherever it is shorter."""

    upwards: bool
    switched: bool = True
    name: str = "rotary"
    size: int = 6

    def wires(self) -> list[Wire]:
        first = self.size if self.switched else 0
        hosts = [Wire(npu, self.size + npu) for npu in range(self.size)] if self.switched else []
        return both_ways([*hosts, *(Wire(first + at, first + (at + 1) % self.size) for at in range(self.size))])

    def __getattr__(self, name: str) -> Any:
        if name != "next_links" or not self.upwards:
            raise AttributeError(name)
        return self._next

    def _next(self, node: int, destination: int) -> Sequence[int]:
        at, hosts = node % self.size, 2 * self.size if self.switched else 0
        if node < self.size and self.switched:
            return [2 * node]
        return [2 * at + 1] if at == destination else [hosts + 2 * at]

    def hops(self, source: int, destination: int) -> int:
        return 1

    def is_symmetric(self, peer: object) -> bool:
        return False

    def links_per_message(self) -> int:
        return 1

    def links_per_npu(self) -> int:
        return 1


def platform(topology: Any) -> Platform:
    return Platform((Dimension(topology, topology.size, 1, 12.5, LATENCY_NS),))


def finish(topology: Any, network: str, upwards_by: int) -> float:
    """Nanoseconds of a message from NPU 5 to an NPU a number of places further up."""
    target = (5 + upwards_by) % 6
    programs: dict[int, list[Any]] = {npu: [] for npu in range(6)}
    programs[5] = [Send((), shift(upwards_by), 64)]
    programs[target] = [Receive((), shift(-upwards_by), 64)]
    others = tuple(NpuProgram(tuple(programs[npu]), (npu,)) for npu in range(1, 6))
    graph = ExecutionGraph(tuple(programs[0]), (), (), None, others)
    return astra_sim.simulate(workload=graph, platform=platform(topology), network=network).finish_ns


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("switched", [True, False])
def test_networks_take_the_routes_that_a_topology_names(network: str, switched: bool) -> None:
    """Five links up instead of one down; acknowledgements of roce (whose sender waits for them) go the other way about."""
    near, far = (finish(Rotary(upwards, switched), network, 5) for upwards in (False, True))
    assert far - near == pytest.approx(4 * LATENCY_NS, rel=0.1)
    same = [finish(Rotary(upwards, switched), network, 2) for upwards in (False, True)]
    assert same[1] - same[0] == pytest.approx(2 * LATENCY_NS if "roce" in network else 0, rel=0.1, abs=1)


@pytest.mark.parametrize("network", NETWORKS)
def test_collectives_run_on_named_routes(network: str) -> None:
    for topology in (Rotary(True), Rotary(True, switched=False)):
        results = Platform((Dimension(topology, 6, 1, 12.5, 100.0), Dimension(topology, 6, 1, 12.5, 100.0)))
        result = astra_sim.simulate(workload="plugin:collective?bytes=36000", platform=results, network=network, system="plugin:astra2")
        assert result.finish_ns > 0


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ([99], r"dimension 0: topology 'rotary': next_links\(7, 3\) has 99; expected numbers of links that leave node 7"),
        ([0], r"next_links\(7, 3\) has 0; expected numbers of links that leave node 7"),
        ([], r"next_links\(7, 3\) is empty, and a route from position \d to 3 leads to node 7; expected a link"),
        ([13], r"routes to position 3 come back to node \d+; expected that they end"),
    ],
)
def test_routes_that_cannot_be_are_errors(entry: list[int], message: str) -> None:
    class Own(Rotary):
        def _next(self, node: int, destination: int) -> Sequence[int]:
            return entry if (node, destination) == (7, 3) else super()._next(node, destination)

    with pytest.raises(InputError, match=message):
        next_links_of(platform(Own(True)).dimensions[0], "dimension 0")


@pytest.mark.parametrize("network", ["plugin:flow?routing=valiant", "plugin:flow?routing=ugal", "plugin:roce?load_balancing=ugal"])
def test_named_routes_leave_no_way_around(network: str) -> None:
    with pytest.raises(InputError, match=r"the topology 'rotary'.* names its routes; expected destination"):
        finish(Rotary(True), network, 1)


# -- Ways around -------------------------------------------------------------------------------------------------------

A, P, H = 4, 2, 2  # a balanced dragonfly: a = 2 p = 2 h
GROUP = A * P
NPUS = GROUP * (A * H + 1)
ADVERSARIAL = [(npu, (npu + GROUP) % NPUS) for npu in range(NPUS)]
UNIFORM = [(npu, (npu + further) % NPUS) for further in range(1, NPUS) for npu in range(NPUS)]


def throughput(network: str, routing: str, pairs: Sequence[tuple[int, int]], size: int, where: Platform | None = None) -> float:
    """What each NPU sends until all has arrived, as a share of its link."""
    links: dict[str, Any] = {"link_bandwidth_gb_per_s": 12.5, "link_latency_ns": 100.0}
    if where is None:
        where = Platform(tuple(dragonfly(DragonflyOptions(routers=A, npus=P, global_links=H, **links))))
    flow_network: Any = FlowNetwork(FlowOptions(routing=routing), where) if network == "flow" else None
    if flow_network is None:
        flow_network = roce(where, load_balancing=routing, payload_bytes=4096)
    times = run_flows(flow_network, [Flow(source, target, size) for source, target in pairs])
    sent = sum(source == pairs[0][0] for source, _ in pairs) * size
    return sent / 12.5 / max(each.received for each in times) * 1000


@pytest.mark.parametrize(("network", "minimal", "valiant", "ugal"), [("flow", "split", 0.45, 0.35), ("roce", "destination", 0.35, 0.35)])
def test_ways_around_a_dragonfly_have_the_published_gain(network: str, minimal: str, valiant: float, ugal: float) -> None:
    """All of group i send to group i + 1: on shortest paths over one link, 1 / (a p) (Kim et al., ISCA 2008); around up to a half."""
    assert 0.11 < throughput(network, minimal, ADVERSARIAL, 400_000) <= 1 / GROUP
    assert valiant < throughput(network, "valiant", ADVERSARIAL, 400_000) <= 0.51
    assert ugal < throughput(network, "ugal", ADVERSARIAL, 400_000) <= 0.6


@pytest.mark.parametrize(("network", "minimal", "least"), [("flow", "split", 0.95), ("roce", "destination", 0.75)])
def test_uniform_traffic_loses_by_going_around(network: str, minimal: str, least: float) -> None:
    """Valiant halves it; UGAL stays above that."""
    direct, valiant, ugal = (throughput(network, routing, UNIFORM, 16_384) for routing in (minimal, "valiant", "ugal"))
    assert least < direct <= 1
    assert 0.4 < valiant < 0.56
    assert valiant < ugal <= 1


@pytest.mark.parametrize("network", ["flow", "roce"])
def test_ways_around_a_slim_fly(network: str) -> None:
    """NPUs of a switch send to those of one that is two links away."""
    (dimension,) = slim_fly(SlimFlyOptions(q=5, link_bandwidth_gb_per_s=12.5, link_latency_ns=100.0))
    where = Platform((dimension,))
    each = dimension.size // 50
    joined = {(wire.source, wire.target) for wire in wires_of(dimension, "dimension 0")}
    pairs = [(npu, (npu + each) % dimension.size) for npu in range(dimension.size)]
    assert any((dimension.size + a // each, dimension.size + b // each) not in joined for a, b in pairs)
    minimal = throughput(network, "destination", pairs, 200_000, where)
    assert throughput(network, "valiant", pairs, 200_000, where) > 1.2 * minimal
    assert throughput(network, "ugal", pairs, 200_000, where) > 1.2 * minimal


@pytest.mark.parametrize("q", [3, 5, 7, 11])
def test_switches_of_a_slim_fly_are_two_links_apart(q: int) -> None:
    (dimension,) = slim_fly(SlimFlyOptions(q=q, npus=1, link_bandwidth_gb_per_s=1.0))
    near: dict[int, set[int]] = {}
    for wire in wires_of(dimension, "dimension 0"):
        if min(wire.source, wire.target) >= dimension.size:
            near.setdefault(wire.source, set()).add(wire.target)
    assert len(near) == 2 * q * q
    assert {len(each) for each in near.values()} == {(3 * q - (1 if q % 4 == 1 else -1)) // 2}
    assert all(len({switch, *own, *(far for one in own for far in near[one])}) == len(near) for switch, own in near.items())


@pytest.mark.parametrize("q", [4, 9, 15])
def test_a_slim_fly_needs_a_prime(q: int) -> None:
    with pytest.raises(InputError, match=f"q is {q}; expected a prime above 2"):
        slim_fly(SlimFlyOptions(q=q, link_bandwidth_gb_per_s=1.0))
