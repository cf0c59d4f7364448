"""A message on a ring has the links of one direction, on all networks; what asks for both; and links of topologies of others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import astra_sim
import attrs
import pytest
from astra_sim import RunError
from astra_sim.errors import InputWarning
from astra_sim.fabric import Wire, both_ways
from astra_sim.fabric.graph import uniform_links_of
from astra_sim.fabric.links import UniformLinks
from astra_sim.graph import ExecutionGraph
from astra_sim.platform import Dimension, Platform
from astra_sim.schedule import Collective, Peer, Request
from astra_sim.setup.components import Components, build
from astra_sim.setup.experiment import Experiment
from astra_sim.setup.plugins import shared_plugins
from astra_sim_collectives.ring import RingAlgorithmOptions, ring
from astra_sim_devkit.testing import check_schedule
from astra_sim_devkit.testing.topologies import check_links
from astra_sim_flows.running import Flow, run_flows
from astra_sim_network_analytical.topologies import FullyConnected, Ring, Switch
from support.commands import Astra, command

LINKS = "link_bandwidth_gb_per_s=50&link_latency_ns=500"
RING = f"plugin:ring?size=4&links=2&{LINKS}"
WIDE = "plugin:torus?sizes=4,4&both_ways=true"
TORUS = f"plugin:torus?sizes=4,4&{LINKS}"
NETWORKS = ("analytical", "analytical?congestion=aware", "flow", "packet", "packet?deadlock_freedom=bubble", "roce")
TOLERANCE = {"packet": 0.001, "packet?deadlock_freedom=bubble": 0.03, "roce": 0.09}
"""How much longer a message of 10 MB may take than by the formula: packets fill their flits, and carry headers (roce)."""
SIZE = 10_000_000


def components(platform: Any, network: str) -> Components:
    experiment, plugins = Experiment(), shared_plugins()
    for kind, value in (("platform", platform), ("network", network), ("workload", ExecutionGraph((), (), ()))):
        experiment.use(kind, value, plugins)
    return build(experiment, plugins)


def one_message_us(platform: Any, network: str) -> float:
    """What a message of 10 MB from NPU 0 to NPU 1 takes."""
    (times,) = run_flows(components(platform, network).network, [Flow(0, 1, SIZE)])
    return times.received / 1e6


def all_gather(algorithm: str, platform: Any, network: str, **more: Any) -> astra_sim.Result:
    return astra_sim.simulate(
        workload="plugin:collective?collective=all_gather&bytes=1000000",
        platform=platform,
        network=f"plugin:{network}",
        system=f"plugin:astra2?all_gather={algorithm}",
        **more,
    )


# -- One message -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize(
    ("platform", "us"), [(RING, 200.5), (TORUS, 200.5), ("plugin:tpu_v4", 201.0), ("plugin:dgx_1", SIZE / 75_000 + 0.6)]
)
def test_a_message_takes_as_long_on_all_networks(platform: str, us: float, network: str) -> None:
    took = one_message_us(platform, f"plugin:{network}")
    assert us * (1 - 1e-5) <= took <= us * (1 + TOLERANCE.get(network, 1e-5))


@pytest.mark.parametrize("network", NETWORKS)
def test_both_ways_is_for_the_formula_and_the_packet_network(network: str) -> None:
    """As in ASTRA-sim 1.0. All others have no link as wide."""
    us = 100.5 if network.startswith(("packet", "analytical")) and "aware" not in network else 200.5
    took = one_message_us(f"{RING}&both_ways=true", f"plugin:{network}")
    assert us * (1 - 1e-5) <= took <= us * (1 + TOLERANCE.get(network, 1e-5))


@pytest.mark.parametrize(("network", "us"), [("analytical", 100.5), ("analytical?congestion=aware", 200.5), ("packet", 100.5)])
def test_files_of_astra_sim_1_ask_for_both(network: str, us: float, tmp_path: Path) -> None:
    table = {
        "topology-name": "Hierarchical",
        "dimensions-count": 1,
        "topologies-per-dim": ["Ring"],
        "dimension-type": ["N"],
        "units-count": [4],
        "links-count": [2],
        "link-latency": [500],
        "link-bandwidth": [50e9 / 2**30],
    }
    path = tmp_path / "network.json"
    path.write_text(json.dumps(table))
    assert one_message_us(str(path), f"plugin:{network}") == pytest.approx(us, rel=1e-3)


def test_a_ring_of_astra_sim_2_has_one_direction(tmp_path: Path) -> None:
    path = tmp_path / "network.yml"
    path.write_text("topology: [ Ring ]\nnpus_count: [ 4 ]\nbandwidth: [ 46.566128731 ]\nlatency: [ 500 ]\n")
    with pytest.warns(InputWarning, match="only the platform"):
        assert one_message_us(str(path), "plugin:analytical") == pytest.approx(200.5, rel=1e-3)


# -- The audit and explanations ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("network", NETWORKS[1:])
@pytest.mark.parametrize(("platform", "npus"), [(TORUS, 16), (f"plugin:ring?size=8&links=2&{LINKS}", 8)])
def test_no_network_is_faster_than_its_links(platform: str, npus: int, network: str) -> None:
    result = all_gather("direct", platform, network, strict=True)
    # On a ring of n a message to all others crosses n^2/4 links in all (n even), and there are two of an NPU.
    bound_us = {16: 4 * 20.0 * 4 / 2, 8: 20.0 * 16 / 2}[npus]
    assert result.finish_ns >= 1000 * bound_us


@pytest.mark.parametrize("network", ["analytical", "packet", "packet?deadlock_freedom=bubble"])
def test_the_audit_finds_links_as_wide_as_both_directions(network: str) -> None:
    platform = f"{WIDE}&{LINKS}" if network == "packet" else f"plugin:ring?size=8&links=2&both_ways=true&{LINKS}"
    finding = all_gather("direct", platform, network).audit[0]
    assert finding.ratio > 1.05
    assert "both_ways=false" in finding.message
    with pytest.raises(RunError, match="both_ways=false"):
        all_gather("direct", platform, network, strict=True)


@pytest.mark.parametrize("network", ["analytical", "packet?deadlock_freedom=bubble"])
def test_an_explanation_names_both_directions(network: str, capsys: pytest.CaptureFixture[str]) -> None:
    astra: Astra = command(capsys)
    platform = f"plugin:ring?size=8&links=2&both_ways=true&{LINKS}"
    workload = "plugin:collective?collective=all_gather&bytes=1000000"
    system = "plugin:astra2?all_gather=direct"
    done = astra("explain", "--platform", platform, "--network", f"plugin:{network}", "--workload", workload, "--system", system)
    assert "bandwidth of both directions (both_ways)" in " ".join(done.out.split())
    assert "0 (ring of 8, both_ways)" in done.out


def test_the_wire_bound_counts_all_links_of_a_message() -> None:
    explanation = all_gather("direct", f"plugin:ring?size=8&links=2&{LINKS}", "flow", explain="path").explanation
    assert explanation is not None
    assert next(bound.ns for bound in explanation.bounds if bound.kind == "wire") == pytest.approx(160_000)


# -- The ring algorithm in both directions ----------------------------------------------------------------------------


@pytest.mark.parametrize("collective", Collective)
@pytest.mark.parametrize("ranks", [2, 3, 4, 7, 8])
def test_halves_of_blocks_go_round_both_ways(collective: Collective, ranks: int) -> None:
    request = Request(collective, ranks, 10_007)
    both, one = (ring(request, RingAlgorithmOptions(directions=directions)) for directions in (2, 1))
    check_schedule(both, request)
    sent = [sum(step.bytes * step.times for step in each.programs[0].steps) for each in (both, one)]
    assert sent[0] == sent[1]
    assert len({step.send_to for step in both.programs[0].steps}) == (1 if ranks == 2 else 2)


def test_parts_that_do_not_make_a_whole_are_found() -> None:
    request = Request(Collective.ALL_GATHER, 3, 900)
    good = ring(request, RingAlgorithmOptions(directions=2))
    steps = good.programs[0].steps
    bad = attrs.evolve(
        good, programs=(attrs.evolve(good.programs[0], steps=(*steps[:-1], attrs.evolve(steps[-1], pieces=[("upper", 0)]))),)
    )
    with pytest.raises(AssertionError, match="does not hold piece"):
        check_schedule(bad, request)


@pytest.mark.parametrize("network", NETWORKS)
def test_auto_on_a_ring_uses_both_directions(network: str) -> None:
    platform = f"plugin:ring?size=8&links=2&{LINKS}"
    auto, one = (all_gather(algorithm, platform, network) for algorithm in ("auto", "ring"))
    assert auto.messages == 2 * one.messages == 2 * 8 * 7
    assert 1.8 < one.finish_ns / auto.finish_ns <= 2.01
    assert not auto.audit


# -- Links of topologies of others -------------------------------------------------------------------------------------


@attrs.frozen
class Theirs:
    """A cube, whatever its name says."""

    name: str
    size: int = 8

    def hops(self, source: int, destination: int) -> int:
        return (source ^ destination).bit_count()

    def is_symmetric(self, peer: Peer) -> bool:
        return peer.operator == "xor"

    def links_per_message(self) -> int:
        return 1

    def links_per_npu(self) -> int:
        return 3

    def wires(self) -> list[Wire]:
        return both_ways(Wire(a, a ^ bit) for a in range(8) for bit in (1, 2, 4) if a < a ^ bit)


@pytest.mark.parametrize("network", NETWORKS[1:])
@pytest.mark.parametrize("name", ["ring", "switch", "fully_connected"])
def test_a_topology_with_the_name_of_a_built_in_one_keeps_its_links(name: str, network: str) -> None:
    if "bubble" in network:
        pytest.skip("bubbles are for rings")
    times = [all_gather("direct", Platform((Dimension(Theirs(each), 8, 3, 50.0, 500.0),)), network).finish_ns for each in (name, "theirs")]
    assert times[0] == times[1]


@pytest.mark.parametrize("topology", [Ring(2, 2), Ring(5, 4), Ring(8, 2), FullyConnected(5, 8), Switch(6, 3)])
def test_uniform_links_are_those_that_are_listed(topology: Any) -> None:
    uniform = uniform_links_of(Dimension(topology, topology.size, 2, 1.0, 1.0))
    assert uniform is not None
    wires = topology.wires()
    assert len(wires) == uniform.link_count()
    assert {wire.width for wire in wires} == {uniform.width}
    around = uniform.pattern == "ring" and topology.size > 2
    assert sorted(wire.order for wire in wires) == (sorted([*range(topology.size)] * 2) if around else [-1] * len(wires))
    assert UniformLinks("ring", 1).wires() == []


def test_the_conformance_kit_compares_uniform_links_with_the_list() -> None:
    class Liar(Theirs):
        def uniform_links(self) -> UniformLinks:
            return UniformLinks("ring", 8)

    with pytest.raises(AssertionError, match="wires\\(\\) lists other links"):
        check_links(Dimension(Liar("cube"), 8, 3, 50.0, 500.0))
    check_links(Dimension(Ring(8, 2), 8, 2, 50.0, 500.0))
