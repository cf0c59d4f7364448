"""Platforms whose links are slower or down: `platform.without` and `variation.links`."""

from __future__ import annotations

from typing import Any

import astra_sim
import pytest
from astra_sim.errors import InputError
from astra_sim.fabric import LinkChange
from astra_sim.platform import Dimension, Platform
from astra_sim.setup.changed_links import with_changed_links, without_parts
from astra_sim_network_analytical.topologies import Switch
from hypothesis import given
from hypothesis import strategies as st

NETWORKS = ("plugin:analytical?congestion=aware", "plugin:flow", "plugin:packet", "plugin:roce")
WORKLOAD = {
    "plugin": "layers",
    "loop": "data",
    "layers": [
        {
            "name": "a",
            "forward": {"compute_ns": 1000},
            "input_gradient": {"compute_ns": 0},
            "weight_gradient": {"compute_ns": 1000, "collective": "all_reduce", "collective_bytes": 1 << 22},
        }
    ],
}
NODES = {"plugin": "dgx_h100", "nodes": 2}
"""Two nodes of eight NPUs: switches 0 and 1 are those of the nodes, 2 to 9 the rails."""

RING = {"dimensions": [{"topology": "ring", "size": 8, "links": 2, "link_bandwidth_gb_per_s": 50, "link_latency_ns": 500}]}


def run(network: str = NETWORKS[0], without: Any = None, links: Any = None, symmetry: bool = True, platform: Any = NODES) -> Any:
    sections = {} if links is None else {"variation": {"links": links}}
    table = dict(platform) | ({} if without is None else {"without": without})
    experiment = astra_sim.Experiment(plugin_sections=sections)
    return astra_sim.simulate(experiment, workload=WORKLOAD, platform=table, network=network, symmetry=symmetry)


@pytest.mark.parametrize("network", NETWORKS)
def test_a_rail_that_is_down_slows_the_run_and_symmetry_changes_nothing(network: str) -> None:
    whole, without = run(network), run(network, {"links": [[0, "switch 2"]]})
    assert without.finish_ns > whole.finish_ns
    assert run(network, {"links": [[0, "switch 2"]]}, symmetry=False).finish_ns == without.finish_ns


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("platform", [NODES, RING])
def test_factors_of_one_change_nothing(network: str, platform: Any) -> None:
    """The links of all dimensions as one graph, of which none differs, are the platform itself."""
    target = "switch 0" if platform is NODES else 1
    assert run(network, links=[{"from": 0, "to": target}], platform=platform).finish_ns == run(network, platform=platform).finish_ns


@pytest.mark.parametrize("network", NETWORKS)
def test_a_link_of_a_quarter_of_the_bandwidth_is_the_bottleneck(network: str) -> None:
    """A ring all-gather in one direction: each link carries the same bytes, so that the slow one takes four times as long."""
    ring = {"dimensions": [{"topology": "fully_connected", "size": 2, "link_bandwidth_gb_per_s": 50, "link_latency_ns": 0}]}
    whole = run(network, platform=ring).finish_ns - 2000
    slow = run(network, platform=ring, links=[{"from": 0, "to": 1, "bandwidth": 0.25}]).finish_ns - 2000
    assert slow == pytest.approx(4 * whole, rel=0.02)


@given(st.sets(st.integers(0, 7), max_size=3), st.floats(0.1, 1), st.floats(1, 10))
def test_the_links_that_are_up_are_those_that_were_not_named(down: set[int], bandwidth: float, latency: float) -> None:
    platform = Platform((Dimension(Switch(8, 1), 8, 1, 50.0, 500.0),))
    before = platform.fabric()
    changes = [LinkChange(npu, "switch 0", bandwidth, latency) for npu in range(8)]
    changed = with_changed_links(platform, changes)
    after = (without_parts(changed, {"links": [[npu, "switch 0"] for npu in down]}, "here") if down else changed).fabric()
    kept = [link for link in before.links if not {link.source, link.target} & down]
    assert [(link.source, link.target) for link in after.links] == [(link.source, link.target) for link in kept]
    for link, was in zip(after.links, kept, strict=True):
        slower = was.target == 8
        assert link.bandwidth == was.bandwidth * (bandwidth if slower else 1.0)
        assert link.latency_ns == was.latency_ns * (latency if slower else 1.0)


@pytest.mark.parametrize("network", NETWORKS)
def test_an_npu_that_cannot_be_reached_is_an_error(network: str) -> None:
    with pytest.raises(InputError, match=r"no (route|path)|reach"):
        run(network, {"links": [[0, "switch 0"], [0, "switch 2"]]})


@pytest.mark.parametrize("network", ["plugin:analytical", "plugin:analytical?model=nccl", "plugin:auto"])
def test_a_network_without_links_refuses(network: str) -> None:
    with pytest.raises(InputError, match="does not simulate links"):
        run(network, {"links": [[0, "switch 2"]]})
    with pytest.raises(InputError, match="does not simulate links"):
        run(network, links=[{"from": 0, "to": "switch 2", "bandwidth": 0.5}])


@pytest.mark.parametrize(
    ("without", "message"),
    [
        ({"links": [[0, 99]]}, "99 is no node; expected an NPU by its number"),
        ({"links": [[0, 1e999]]}, "inf is no node"),
        ({"links": [[0, 1]]}, "no link leads from NPU 0 to NPU 1; expected one of switch 0, switch 2"),
        ({"links": [0]}, r"links\[0\] is 0; expected two nodes"),
        ({"links": 3}, "links is 3; expected a list"),
        ({"nodes": [3]}, "nodes has NPU 3; expected switches"),
        ({"cables": []}, "unknown key 'cables'"),
        ({}, "expected links"),
    ],
)
def test_an_error_names_the_key_and_the_value(without: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        run(without=without)


@pytest.mark.parametrize(
    ("link", "message"),
    [
        ({"to": 1}, r"links\[0\]: from is None"),
        ({"from": 0, "to": "switch 2", "bandwidth": 0}, "bandwidth is 0; expected a factor above 0"),
        ({"from": 0, "to": "switch 2", "latency": -1}, "latency is -1; expected a factor of at least 0"),
        ({"from": 0, "to": "leaf"}, "'leaf' is no node"),
        ({"from": 0, "to": "switch 2", "width": 2}, "unknown key 'width'"),
    ],
)
def test_an_error_of_a_slow_link_names_the_key_and_the_value(link: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        run(links=[link])


def test_text_names_links_as_on_a_command_line_and_a_rerun_has_them() -> None:
    result = run(without={"links": "0:switch 2, 1:switch 3"})
    assert result.finish_ns == run(without={"links": [[0, "switch 2"], [1, "switch 3"]]}).finish_ns
    assert result.experiment["platform"]["without"] == {"links": "0:switch 2, 1:switch 3"}
