"""Fabrics that people build: their graphs have the ports, path lengths and bandwidths that they should."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import astra_sim
import pytest
from astra_sim import InputError
from astra_sim.fabric import Fabric
from astra_sim.fabric.paths import UNREACHABLE
from astra_sim.setup.components import make_network
from astra_sim.setup.experiment import Experiment
from astra_sim.setup.plugins import shared_plugins
from astra_sim_explain.what_if import scaled_platform
from astra_sim_flows.running import Flow, run_flows
from astra_sim_platforms.clos import Clos
from astra_sim_platforms.servers import Servers
from astra_sim_platforms.shortest_paths import shortest_paths
from hypothesis import given, settings
from hypothesis import strategies as st
from support.max_flow import max_flow
from support.platforms import LINK, platform_of

FABRICS = [
    f"clos?npus=8&{LINK}",
    f"clos?npus=32&ports=8&{LINK}",
    f"clos?npus=32&ports=8&rails=4&{LINK}",
    f"clos?npus=36&ports=8&oversubscription=3&{LINK}",
    f"clos?npus=48&ports=16&rails=4&oversubscription=2&spines=3&{LINK}",
    f"clos?npus=16&ports=8&planes=2&{LINK}",
    f"clos?npus=64&ports=8&levels=3&{LINK}",
    f"clos?npus=64&ports=8&levels=3&rails=4&pod_leaves=4&{LINK}",
    f"clos?npus=21&ports=8&rails=3&{LINK}",
    f"dragonfly_plus?leaves=3&npus=2&{LINK}",
    f"dragonfly_plus?leaves=2&spines=3&npus=2&global_links=2&groups=4&{LINK}",
    f"hyperx?sizes=4,3&npus=2&{LINK}",
    f"hyperx?sizes=2,2,4&width=2&{LINK}",
    f"slim_fly?q=3&npus=2&{LINK}",
    "rail_optimized?servers=4",
    "rail_optimized?servers=6&rails=1&ports=16&oversubscription=3",
    "rail_optimized?servers=5&npus_per_server=4&rails=2&ports=8",
    "dgx_h100?nodes=5",
    "dgx_2?nodes=3",
]


def links_of(fabric: Fabric, node: int) -> int:
    """The links that leave a node."""
    return sum(link.source == node for link in fabric.links)


def halves(fabric: Fabric) -> float:
    """The bandwidth between the first half of the NPUs and the second."""
    return max_flow(fabric, range(fabric.npus // 2), range(fabric.npus // 2, fabric.npus))


# -- What holds for all -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", FABRICS)
def test_every_pair_has_a_way_as_long_as_the_topology_says(spec: str) -> None:
    platform = platform_of(spec)
    fabric, (whole,) = platform.fabric(), platform.wired().dimensions
    assert UNREACHABLE not in fabric.reverses()

    def more(source: int, destination: int) -> int:
        """A link to a NIC that NPUs share costs two."""
        return 2 if spec.startswith("dgx_2") and source // 16 != destination // 16 else 0

    for destination in range(fabric.npus):
        distance = fabric.distances(destination, through_npus=False)
        for source in range(fabric.npus):
            if source != destination:
                assert distance[source] == whole.topology.hops(source, destination) + more(source, destination), (source, destination)


@pytest.mark.parametrize("network", ["analytical?congestion=aware&switching=cut_through", "packet", "flow", "flow?routing=split", "roce"])
def test_npus_that_share_a_nic_meet_at_the_switch_of_their_server(network: str) -> None:
    """Two links are there over either; over the NIC two neighbours of a DGX-2 would have a twelfth of the bandwidth."""
    times = []
    for neighbour in (1, 2):
        experiment = Experiment()
        experiment.use("network", f"plugin:{network}", shared_plugins(), where="--network")
        result = make_network(experiment, shared_plugins(), platform_of("dgx_2?nodes=2"))
        assert result is not None
        times += [each.received for each in run_flows(result, [Flow(0, neighbour, 1 << 20)])]
    assert times[0] == times[1]


DRAGONFLY = f"dragonfly?routers=3&npus=2&groups=4&global_links=1&global_latency_factor=100&{LINK}"


@pytest.mark.parametrize(
    "spec", ["analytical?congestion=aware", "packet", "flow", "flow?routing=split", "flow?routing=destination", "roce"]
)
def test_no_network_takes_two_global_links_of_a_dragonfly(spec: str) -> None:
    """Two of them are often fewer links than one and a link of a group at either end, but they cost more."""
    experiment = Experiment()
    experiment.use("network", f"plugin:{spec}", shared_plugins(), where="--network")
    platform = platform_of(DRAGONFLY)
    pairs = [(a, b) for a in range(platform.npus) for b in range(platform.npus) if a // 6 != b // 6]
    flows = [Flow(*pair, bytes=1, after=(number - 1,) if number else ()) for number, pair in enumerate(pairs)]
    network, across_ps = make_network(experiment, shared_plugins(), platform), 100 * 500_000
    assert network is not None
    times = run_flows(network, flows)
    assert {(each.received - each.started) // across_ps for each in times} == {1}


def test_distances_are_sums_of_costs() -> None:
    fabric = platform_of(DRAGONFLY).fabric()
    ends, costs = [link[:2] for link in fabric.links], [link.cost for link in fabric.links]
    assert set(costs) == {1, 3}
    _, distances = shortest_paths(fabric.nodes, fabric.npus, ends, "graph", costs=costs)
    for target in range(fabric.npus):
        for through_npus in (False, True):
            assert fabric.distances(target, through_npus) == distances[target :: fabric.npus]


@pytest.mark.parametrize("spec", FABRICS)
def test_links_are_counted_before_they_are_listed(spec: str) -> None:
    topology: Any = platform_of(spec).wired().dimensions[0].topology
    assert len(platform_of(spec).fabric().links) == topology.link_count()


@pytest.mark.parametrize("spec", FABRICS)
def test_collectives_run_on_every_network(spec: str) -> None:
    """With contention no faster than the wires, and bytes are the same on all of them."""
    results = [
        astra_sim.simulate(
            workload="plugin:collective?collective=all_reduce&bytes=4096",
            platform=f"plugin:{spec}",
            network=f"plugin:{network}",
        )
        for network in ("analytical", "analytical?congestion=aware&switching=cut_through", "packet")
    ]
    assert len({result.network["payload_bytes"] for result in results}) == 1
    assert results[1].audit == results[2].audit == []


# -- Clos ---------------------------------------------------------------------------------------------------------------


def clos_of(spec: str) -> tuple[Clos, Fabric]:
    platform = platform_of(spec)
    topology = platform.dimensions[0].topology
    assert isinstance(topology, Clos)
    return topology, platform.fabric()


def test_a_thousand_gpus_on_rails_in_one_line() -> None:
    clos, fabric = clos_of(f"clos?npus=1024&rails=8&{LINK}")
    assert (clos.leaves, clos.leaf_npus, clos.uplinks, clos.spines) == (32, 32, 32, 16)
    assert (fabric.npus, fabric.switches, len(fabric.links)) == (1024, 48, 2 * (1024 + 1024))
    assert Counter(len(ports) for ports in fabric.ports()) == {1: 1024, 64: 48}
    # NPU i of a server is on rail i, and NPUs of one rail in 32 servers in a row are at one leaf.
    assert [clos.leaf(npu) for npu in (0, 1, 7, 8, 255, 256)] == [0, 1, 7, 0, 7, 8]


@pytest.mark.parametrize("spec", [each for each in FABRICS if each.startswith("clos")])
def test_switches_of_a_clos_have_no_more_ports_than_they_may(spec: str) -> None:
    clos, fabric = clos_of(spec)
    most = int((re.search(r"ports=(\d+)", spec) or [0, 64])[1])
    degrees = [len(ports) for ports in fabric.ports()]
    assert set(degrees[: fabric.npus]) == {clos.planes}
    assert max(degrees[fabric.npus :]) <= most
    for leaf in range(fabric.npus, fabric.npus + clos.leaves):
        up = sum(link.target >= fabric.npus for link in fabric.links if link.source == leaf)
        assert up == clos.uplinks
        assert links_of(fabric, leaf) - up <= clos.leaf_npus


@pytest.mark.parametrize(
    ("options", "share"),
    [
        ("npus=32&ports=8", 1.0),
        ("npus=32&ports=8&rails=4", 1.0),
        ("npus=64&ports=8&levels=3", 1.0),
        ("npus=48&ports=8&oversubscription=3", 1 / 3),
        ("npus=40&ports=16&oversubscription=2", 1 / 2),
        ("npus=96&ports=8&levels=3&oversubscription=3", 1 / 3),
        ("npus=32&ports=8&planes=3", 3.0),
        ("npus=48&ports=8&oversubscription=3&uplink_bandwidth_gb_per_s=100&leaf_npus=6", 1 / 3),
    ],
)
def test_half_of_the_npus_reach_the_other_half_by_the_oversubscription(options: str, share: float) -> None:
    clos, fabric = clos_of(f"clos?{options}&{LINK}")
    assert clos.leaves % 2 == 0
    assert halves(fabric) == pytest.approx(fabric.npus / 2 * 50 * share)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_any_clos_is_whole_or_refused(data: st.DataObject) -> None:
    rails = data.draw(st.sampled_from([1, 2, 4]))
    options: dict[str, Any] = {
        "npus": rails * data.draw(st.integers(1, 40)),
        "rails": rails,
        "ports": data.draw(st.sampled_from([4, 8, 16])),
        "levels": data.draw(st.sampled_from([2, 3])),
        "planes": data.draw(st.sampled_from([1, 2])),
        "oversubscription": data.draw(st.sampled_from([1, 2, 3])),
    }
    refused = ""
    try:
        clos, fabric = clos_of(f"clos?{'&'.join(f'{key}={value}' for key, value in options.items())}&{LINK}")
    except InputError as error:
        refused = str(error)
    if refused:
        assert any(f"{name} is {options[name]}" in refused for name in ("ports", "levels", "oversubscription")), refused
        return
    assert max(len(ports) for ports in fabric.ports()) <= options["ports"]
    assert UNREACHABLE not in fabric.distances(0, through_npus=False)[: fabric.npus]
    assert Counter(clos.leaf(npu) for npu in range(clos.size)).most_common(1)[0][1] <= clos.leaf_npus
    if clos.uplinks:
        assert clos.leaf_npus == options["oversubscription"] * clos.uplinks


def test_destinations_are_spread_over_the_spines() -> None:
    """An all-to-all on the congestion-aware network loads all links up to the spines alike."""
    result = astra_sim.simulate(
        workload="plugin:collective?collective=all_to_all&bytes=64000",
        platform=f"plugin:clos?npus=64&ports=16&levels=3&leaf_npus=4&{LINK}",
        network="plugin:analytical?congestion=aware&link_figures=true",
        system="plugin:astra1?all_to_all=direct",
    )
    up = [link["bytes"] for link in result.network["links"] if link["from"].startswith("switch") and link["to"].startswith("switch")]
    assert max(up) <= 2 * min(up)


# -- Dragonfly+, HyperX -------------------------------------------------------------------------------------------------


def test_every_two_groups_of_a_dragonfly_plus_are_joined() -> None:
    fabric = platform_of(f"dragonfly_plus?leaves=3&npus=2&{LINK}").fabric()
    assert (fabric.npus, fabric.switches) == (24, 24)
    # A spine: three leaves and a link to another group; a leaf: two NPUs and three spines.
    assert Counter(len(ports) for ports in fabric.ports()) == {1: 24, 5: 12, 4: 12}
    spines = range(24 + 12, 48)
    groups = Counter(
        ((link.source - 36) // 3, (link.target - 36) // 3) for link in fabric.links if link.source in spines and link.target in spines
    )
    assert groups == {(a, b): 1 for a in range(4) for b in range(4) if a != b}
    assert halves(fabric) == 4 * 50.0


def test_links_between_groups_go_round_the_spines() -> None:
    topology: Any = platform_of(f"dragonfly_plus?leaves=2&spines=3&npus=2&global_links=2&groups=4&{LINK}").dimensions[0].topology
    assert topology.links_between == 2
    spines = Counter(wire.source for wire in topology.wires() if wire.length == 1.0 and min(wire.source, wire.target) >= 16 + 8)
    assert set(spines.values()) == {2}


def test_switches_of_a_hyperx_are_joined_along_each_dimension() -> None:
    fabric = platform_of(f"hyperx?sizes=4,6&npus=2&{LINK}").fabric()
    assert (fabric.npus, fabric.switches) == (48, 24)
    assert Counter(len(ports) for ports in fabric.ports()) == {1: 48, 2 + 3 + 5: 24}
    assert halves(fabric) == min(24, 4 * 3 * 3) * 50.0
    assert halves(platform_of(f"hyperx?sizes=2,2&npus=4&width=0.5&{LINK}").fabric()) == 2 * 25.0


# -- Servers on rails ---------------------------------------------------------------------------------------------------


def test_servers_have_two_networks() -> None:
    platform = platform_of("rail_optimized?servers=32")
    assert [(d.topology.name, d.size, d.link_bandwidth) for d in platform.dimensions] == [("switch", 8, 450.0), ("switch", 32, 50.0)]
    fabric = platform.fabric()
    assert Counter(link.bandwidth for link in fabric.links if link.source < 256) == {450.0: 256, 50.0: 256}
    # 32 switches of servers, 8 leaves, 4 spines of 64 ports.
    assert fabric.switches == 32 + 8 + 4
    assert halves(fabric) == 128 * 50.0
    assert halves(platform_of("rail_optimized?servers=12&rails=1&ports=16&oversubscription=3").fabric()) == pytest.approx(48 * 50 / 3)


def test_the_way_over_nvlink_is_the_shorter_also_where_a_server_is_at_one_leaf() -> None:
    rails, plain = (platform_of(f"rail_optimized?servers=4&rails={rails}").wired().dimensions[0].topology for rails in (8, 1))
    assert isinstance(rails, Servers)
    assert isinstance(plain, Servers)
    assert (rails.nics, plain.nics) == (0, 32)
    assert [rails.hops(0, npu) for npu in (1, 8, 9)] == [2, 2, 4]
    assert [plain.hops(0, npu) for npu in (1, 8, 9)] == [2, 4, 4]


def test_links_of_each_network_scale_with_their_dimension() -> None:
    platform = platform_of("dgx_h100?nodes=2")
    for number, rates in ((0, {900.0, 50.0}), (1, {450.0, 100.0})):
        changed = scaled_platform(platform, number, 2.0, 3.0)
        assert changed is not None
        assert {link.bandwidth for link in changed.fabric().links} == rates
    slower = platform.slowed_between_nodes(0.5)
    assert {link.bandwidth for link in slower.fabric().links} == {450.0, 25.0}
    logical = platform_of(f"clos?npus=32&ports=8&logical_dims=4,8&{LINK}")
    assert scaled_platform(logical, 0, 2.0, 1.0) is None


# -- Logical dimensions -------------------------------------------------------------------------------------------------


def test_collectives_may_see_other_dimensions_than_the_wires_have() -> None:
    platform = platform_of(f"clos?npus=32&ports=8&rails=4&logical_dims=4,8&{LINK}")
    whole = platform_of(f"clos?npus=32&ports=8&rails=4&{LINK}")
    assert [d.size for d in platform.dimensions] == [4, 8]
    assert platform.physical == whole.dimensions[0]
    assert platform.fabric() == whole.fabric()
    # Within a server over the spines; along a rail at one leaf.
    assert [d.topology.hops(0, 1) for d in platform.dimensions] == [4, 2]
    assert [platform.route(0, npu).hops for npu in (1, 4, 31)] == [4, 2, 4]


@pytest.mark.parametrize("network", ["analytical", "analytical?congestion=aware", "packet"])
def test_logical_dimensions_give_other_collectives_on_the_same_wires(network: str, tmp_path: Path) -> None:
    results = [
        astra_sim.simulate(
            workload="plugin:collective?collective=all_reduce&bytes=65536",
            platform=f"plugin:clos?npus=32&ports=8&rails=4&{LINK}{sizes}",
            network=f"plugin:{network}",
            system="plugin:astra1?all_reduce=ring",
        )
        for sizes in ("", "&logical_dims=4,8", "&logical_dims=32")
    ]
    assert [len(result.dimensions) for result in results] == [1, 2, 1]
    assert results[1].finish_ns < results[0].finish_ns  # 6 + 14 steps in place of 62
    assert results[2].finish_ns == results[0].finish_ns
    (tmp_path / "result.json").write_text(json.dumps(results[1].to_dict()))
    assert astra_sim.simulate(tmp_path / "result.json").finish_ns == results[1].finish_ns


@pytest.mark.parametrize("network", ["analytical?congestion=aware", "packet"])
@pytest.mark.parametrize("engine", ["python", "compiled"])
@pytest.mark.parametrize("symmetry", [True, False])
def test_engines_and_symmetry_agree_on_logical_dimensions(network: str, engine: str, symmetry: bool) -> None:
    def finish(**more: Any) -> float:
        time: float = astra_sim.simulate(
            workload="plugin:collective?collective=all_reduce&bytes=4096",
            platform=f"plugin:clos?npus=16&ports=8&rails=2&logical_dims=2,8&{LINK}",
            network=f"plugin:{network}",
            **more,
        ).finish_ns
        return time

    assert finish(engine=engine, symmetry=symmetry) == finish()


def test_the_cost_is_that_of_the_wires_and_of_a_machine_that_of_its_dimensions() -> None:
    def cost(platform: str) -> object:
        return astra_sim.simulate(workload="plugin:collective?bytes=1024", platform=f"plugin:{platform}").network["cost_usd"]

    assert cost(f"switch?size=16&logical_dims=4,4&{LINK}") == cost(f"switch?size=16&{LINK}")
    assert cost("dgx_h100?nodes=4") == cost("dgx_h100?nodes=4&between_nodes=switches") is not None


# -- Errors -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("clos?npus=100&rails=8", "npus is 100 and rails is 8; expected a multiple of rails for npus"),
        ("clos?npus=64&ports=2&oversubscription=3", "ports is 2, and a leaf has"),
        ("clos?npus=64&ports=8&leaf_npus=6", "ports is 8, and a leaf has 6 links down and 6 up"),
        ("clos?npus=64&ports=8&leaf_npus=5&oversubscription=2", "a leaf of 5 NPUs has 2.5 links up for it; expected a whole number"),
        ("clos?npus=4096&ports=16", "ports is 16, and the 512 leaves need as many of a spine; expected levels=3, more ports or fewer npus"),
        ("clos?npus=4096&ports=4&levels=3", "ports is 4, and the"),
        ("clos?npus=32&ports=8&spines=3", "spines is 3, and 4 links lead up to them; expected a divisor of 4"),
        ("clos?npus=64&ports=8&spines=1", "spines is 1, and each needs 64 ports; expected more spines, or more ports"),
        ("clos?npus=32&ports=8&pod_leaves=2", "pod_leaves is 2, and levels is 2; expected levels=3, or no pod_leaves"),
        ("clos?npus=64&ports=8&levels=3&pod_leaves=3", "pod_leaves is 3, and there are 16 leaves; expected a divisor of 16 below it"),
        ("clos?npus=64&ports=8&levels=3&pod_leaves=8", "pod_leaves is 8, and an aggregation switch needs twice as many ports"),
        ("clos?npus=8&levels=3", "levels is 3, and a single leaf joins all 8 NPUs; expected leaf_npus below 8, or no levels"),
        ("clos?npus=8&oversubscription=2", "oversubscription is 2, and a single leaf joins all 8 NPUs"),
        ("clos?npus=8&uplink_latency_ns=5", "uplink_latency_ns is 5, and a single leaf joins all 8 NPUs"),
        ("clos?npus=8&rail=2", "unknown key 'rail'; did you mean 'rails'?"),
        ("clos?npus=32&ports=8&logical_dims=4,9", "logical dimensions of 4 x 9 NPUs on a platform of 32; expected at most as many NPUs"),
        ("clos?npus=32&ports=8&logical_dims=4,x", "logical_dims is '4,x'; expected a list of whole numbers, such as [8, 2]"),
        ("dragonfly_plus?leaves=2&groups=9", "groups is 9; 2 spines with 1 global links reach at most 3 groups"),
        ("hyperx?sizes=4,4&npus=4&ports=8", "ports is 8, and a switch needs 10: 4 for NPUs and 6 for switches"),
        ("mesh?sizes=4,4&logical_dims=2,8", "logical dimensions of a platform of 2 dimensions; expected one that contains all NPUs"),
    ],
)
def test_what_cannot_be_built_names_the_option(spec: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        platform_of(f"{spec}&{LINK}")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("rail_optimized?servers=4&rails=3", "npus_per_server is 8 and rails is 3; expected a divisor of npus_per_server for rails"),
        ("rail_optimized?servers=600", "ports is 64, and the"),
        (f"clos?npus=1000000000&rails=8&ports=60000&{LINK}", "the platform has 1000000000 NPUs; expected at most 4194304"),
        (f"clos?npus=1000&ports=100000&{LINK}", "ports is 100000; expected at most 65536"),
        (f"clos?npus=4000000&ports=10000&{LINK}", "a clos of 4000000 NPUs has 16000000 links; expected at most 4194304"),
        (f"hyperx?sizes=1000,1000&{LINK}", "a hyperx of 1000000 NPUs has 2000000000 links; expected at most 4194304"),
        (f"dragonfly_plus?leaves=200&npus=50&{LINK}", "expected at most 4194304"),
    ],
)
def test_servers_that_cannot_be_built(spec: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        platform_of(spec).fabric()


def test_what_is_asked_for_is_kept_in_the_result() -> None:
    result = astra_sim.simulate(
        workload="plugin:collective?bytes=1024", platform=f"plugin:clos?npus=32&ports=8&rails=4&logical_dims=4,8&{LINK}"
    )
    platform = json.loads(json.dumps(result.to_dict()))["experiment"]["platform"]
    assert (platform["plugin"], platform["npus"], platform["logical_dims"]) == ("clos", 32, [4, 8])
