"""Presets of machines: what they are made of, that they run, and that docs/platforms.md shows their data."""

from __future__ import annotations

import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import astra_sim
import pytest
from astra_sim import InputError, Provider, hookimpl
from astra_sim.fabric.paths import UNREACHABLE
from astra_sim.platform import Platform, Preset
from astra_sim.setup.components import build_platform
from astra_sim.setup.experiment import Experiment
from astra_sim.setup.plugins import Plugins, shared_plugins
from astra_sim_platforms.machines import machines
from support import ROOT

PAGE = (ROOT / "docs" / "platforms.md").read_text(encoding="utf-8")
NODES = [name for name, machine in machines().items() if "pod_chips" not in machine]
PODS = [name for name, machine in machines().items() if "pod_chips" in machine]
SMALL = {name: f"plugin:{name}?nodes=2" for name in NODES} | {name: f"plugin:{name}?chips=64" for name in PODS}
ALL_REDUCE = "plugin:collective?collective=all_reduce&bytes={}"


def platform_of(value: Any, plugins: Plugins | None = None, **overrides: Any) -> Platform:
    plugins = plugins or shared_plugins()
    experiment = Experiment()
    experiment.use("platform", value, plugins)
    experiment.sections["platform"] = {**experiment.sections["platform"], **overrides}
    return build_platform(experiment, plugins)


def all_reduce_ns(platform: str, size: int, system: str = "plugin:astra2", **choices: Any) -> float:
    finish: float = astra_sim.simulate(workload=ALL_REDUCE.format(size), platform=platform, system=system, **choices).finish_ns
    return finish


# -- Their dimensions --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NODES)
def test_a_machine_of_nodes_is_a_node_and_a_switch_of_nodes(name: str) -> None:
    machine = machines()[name]
    platform = platform_of(f"plugin:{name}?nodes=5")
    node, network = platform.dimensions
    assert (node.topology.name, node.size, node.links) == (machine["topology"], machine["gpus"], machine["nvlinks"])
    assert node.link_bandwidth * node.topology.links_per_npu() == machine["nvlinks"] * machine["nvlink_link_gb_s"]
    assert node.link_latency_ns * node.topology.hops(0, 1) == machine["nvlink_latency_ns"]
    assert (network.topology.name, network.size, network.packaging) == ("switch", 5, "pod")
    assert network.link_bandwidth * network.topology.links_per_message() == machine["nic_gb_s"]
    assert network.link_latency_ns * network.topology.hops(0, 1) == machine["nic_latency_ns"]
    assert (platform.name, platform.device, platform.npus) == (machine["title"], machine["device"], 5 * machine["gpus"])
    assert len(platform_of(f"plugin:{name}").dimensions) == 1


@pytest.mark.parametrize("name", NODES)
def test_nodes_are_wired_as_the_page_says(name: str) -> None:
    machine = machines()[name]
    (most,) = re.findall(rf"(?m)^\| `{name}` \|(?: \d+ \|){{3}} (\d+) \|$", PAGE) or [None]
    if most is None:
        assert machine["topology"] == "ring"
        assert platform_of(f"plugin:{name}?nodes=2").physical is None
        return
    for nodes, levels in ((2, 2), (int(most), 2), (int(most) + 1, 3)):
        platform = platform_of(f"plugin:{name}?nodes={nodes}")
        assert platform.physical is not None
        assert platform.physical.topology.scale_out.levels == levels  # type: ignore[attr-defined]
    fabric = platform_of(f"plugin:{name}?nodes=2").fabric()
    rates = Counter(link.bandwidth for link in fabric.links if link.source < fabric.npus)
    nvlink = machine["nvlinks"] * machine["nvlink_link_gb_s"]
    nic = machine["nic_gb_s"] * machine["gpus"] / machine["nics"]
    assert rates == {nvlink: 2 * machine["gpus"], nic: 2 * machine["gpus"]}
    assert all(fabric.distances(npu, through_npus=False)[0] == 2 for npu in range(1, machine["gpus"]))
    assert UNREACHABLE not in fabric.distances(0, through_npus=False)[: fabric.npus]


@pytest.mark.parametrize("gpus", [1, 3, 5, 7])
@pytest.mark.parametrize("name", ["dgx_2", "dgx_h100", "gb200_nvl72"])
def test_any_number_of_nodes_and_gpus_is_wired(name: str, gpus: int) -> None:
    for nodes in (2, 37, 131):
        fabric = platform_of(f"plugin:{name}?nodes={nodes}&gpus={gpus}").fabric()
        assert fabric.npus == nodes * gpus
        assert UNREACHABLE not in fabric.distances(fabric.npus - 1, through_npus=False)[: fabric.npus]


def test_nodes_may_be_joined_by_a_switch_for_each_place() -> None:
    assert platform_of("plugin:dgx_h100?nodes=2&between_nodes=switches").physical is None
    assert platform_of("plugin:dgx_h100?nodes=20000").physical is None  # more than three levels of switches of 64 ports
    for spec, message in (
        ("dgx_h100?between_nodes=rails", "between_nodes is 'rails', and there is one node"),
        ("dgx_1?nodes=2&between_nodes=rails", "between_nodes is 'rails', and the GPUs of a node are on rings"),
        ("dgx_h100?nodes=20000&between_nodes=rails", "ports is 64, and the"),
    ):
        with pytest.raises(InputError, match=re.escape(message)):
            platform_of(f"plugin:{spec}")


@pytest.mark.parametrize("name", PODS)
def test_a_pod_is_a_torus_of_three_dimensions(name: str) -> None:
    machine = machines()[name]
    platform = platform_of(f"plugin:{name}?shape=4x8x12")
    assert [dimension.size for dimension in platform.dimensions] == [4, 8, 12]
    for dimension in platform.dimensions:
        assert (dimension.topology.name, dimension.links, dimension.link_bandwidth) == ("ring", 2, machine["link_gb_s"])
        assert dimension.link_latency_ns == machine["link_latency_ns"]
    assert (platform.name, platform.device) == (machine["title"], machine["device"])
    assert platform_of(f"plugin:{name}").npus == 64


def test_options_of_nodes_change_what_they_name() -> None:
    spec = (
        "plugin:dgx_h100?nodes=3&gpus=4&nvlink_gb_s=360&nvlink_efficiency=0.5&nvlink_latency_ns=100"
        "&nic_gb_s=100&nic_efficiency=0.25&nic_latency_ns=50"
    )
    node, network = platform_of(spec).dimensions
    assert (node.size, node.links, node.link_bandwidth, node.link_latency_ns) == (4, 18, 10, 50)
    assert (network.size, network.link_bandwidth, network.link_latency_ns) == (3, 25, 25)


def test_options_of_pods_change_what_they_name() -> None:
    (first, *_) = platform_of("plugin:tpu_v4?chips=64&link_gb_s=40&efficiency=0.9&link_latency_ns=7").dimensions
    assert (first.link_bandwidth, first.link_latency_ns) == (36, 7)


# Those that Google's page on TPU v5p lists, and the whole pod (jax-ml/scaling-book, tpus.md).
@pytest.mark.parametrize("shape", "4x4x4 4x4x8 4x8x8 8x8x8 8x8x16 8x16x16 16x16x16 16x16x24 16x20x28".split())
def test_a_number_of_chips_is_the_shape_that_is_nearest_to_a_cube(shape: str) -> None:
    sizes = [int(size) for size in shape.split("x")]
    platform = platform_of(f"plugin:tpu_v5p?chips={math.prod(sizes)}")
    assert [dimension.size for dimension in platform.dimensions] == sizes


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("dgx_1?gpus=4", "gpus is 4; expected 8, for its rings go over all GPUs of a node"),
        ("dgx_h100?gpus=9", "gpus is 9; expected at most 8"),
        ("dgx_h100?nodes=0", "nodes is 0; expected at least 1"),
        ("tpu_v4?shape=4x4", "shape is '4x4'; expected three numbers, such as 4x4x8"),
        ("tpu_v4?shape=4x4x6", "shape is '4x4x6'; expected multiples of 4"),
        ("tpu_v4?shape=0x4x4", "shape is '0x4x4'; expected multiples of 4"),
        ("tpu_v4?shape=16x16x20", "shape is '16x16x20'; expected at most the 4096 chips of a pod"),
        ("tpu_v4?chips=100", "chips is 100; expected cubes of 4x4x4 chips"),
        ("tpu_v4?chips=4160", "chips is 4160; expected at most the 4096 of a pod"),
        ("tpu_v4?shape=4x4x4&chips=64", "shape is '4x4x4' and chips is 64; expected one of the two"),
        ("dgx_h10", "did you mean 'dgx_h100'?"),
    ],
)
def test_what_a_machine_has_not_is_an_error(spec: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        platform_of(f"plugin:{spec}")


# -- That they run -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("network", ["analytical", "packet"])
@pytest.mark.parametrize("name", sorted(SMALL))
def test_an_all_reduce_runs_on_every_preset(name: str, network: str) -> None:
    """No faster than its bytes over the slowest dimension, and both networks agree: nothing waits for anything else here."""
    size, ring = 1 << 18, "plugin:astra2?all_reduce=ring"
    finish = all_reduce_ns(SMALL[name], size, ring, network=f"plugin:{network}")
    last = platform_of(SMALL[name]).dimensions[-1]
    share = size / platform_of(SMALL[name]).npus * last.size  # what is left of the bytes in the last dimension
    assert finish > 2 * (last.size - 1) / last.size * share / (last.link_bandwidth * last.topology.links_per_message())
    assert finish == pytest.approx(all_reduce_ns(SMALL[name], size, ring, network="plugin:analytical?rounding=picosecond"), rel=0.02)


def test_a_large_all_reduce_reaches_the_bandwidth_of_nvlink() -> None:
    size = 1 << 33
    for name, gb_s in (("dgx_1", 150), ("dgx_a100", 300), ("dgx_h100", 450), ("gb200_nvl72", 900)):
        ranks = machines()[name]["gpus"]
        bus_gb_s = 2 * (ranks - 1) / ranks * size / all_reduce_ns(f"plugin:{name}", size)
        assert bus_gb_s == pytest.approx(gb_s, rel=0.02)


@pytest.mark.parametrize("name", NODES)
def test_nodes_reduce_in_the_switch_where_nvswitch_does(name: str) -> None:
    if machines()[name].get("in_network_reduction"):
        ring = all_reduce_ns(f"plugin:{name}", 1 << 26)
        assert all_reduce_ns(f"plugin:{name}", 1 << 26, set=["system.all_reduce=in_network"]) < 0.6 * ring
    else:
        with pytest.raises(InputError, match="in_network needs a topology with in_network_reduction"):
            all_reduce_ns(f"plugin:{name}", 1 << 26, set=["system.all_reduce=in_network"])


@pytest.mark.parametrize("network", ["analytical?congestion=aware&switching=cut_through", "packet"])
@pytest.mark.parametrize("platform", ["dgx_1?nodes=2", "dgx_h100?nodes=2&gpus=4", "tpu_v4?chips=64"])
def test_one_npu_stands_for_all_and_changes_nothing(platform: str, network: str) -> None:
    with_symmetry, without = (
        all_reduce_ns(f"plugin:{platform}", 100_000, network=f"plugin:{network}", symmetry=symmetry) for symmetry in (True, False)
    )
    assert with_symmetry == without


# -- Presets as a contract of the kernel -------------------------------------------------------------------------------


def test_an_experiment_may_name_the_platform_and_its_device() -> None:
    named = platform_of("plugin:dgx_h100", name="mine", device="h200")
    assert (named.name, named.device) == ("mine", "h200")
    dimension = {"topology": "ring", "size": 4, "links": 2, "link_bandwidth_gb_per_s": 25}
    assert platform_of({"dimensions": [dimension], "device": "h100"}).device == "h100"
    assert platform_of({"dimensions": [dimension]}).device == ""
    for key in ("name", "device"):
        with pytest.raises(InputError, match=f"platform: {key} is 7, not text"):
            platform_of({"dimensions": [dimension], key: 7})


def test_a_preset_may_be_one_of_several_dimensions() -> None:
    network = {"topology": "switch", "size": 3, "link_bandwidth_gb_per_s": 25}
    platform = platform_of({"dimensions": [{"topology": "dgx_a100"}, network]})
    assert [dimension.size for dimension in platform.dimensions] == [8, 3]
    assert (platform.name, platform.device) == ("", "a100-80")


def test_presets_of_presets_and_of_unknown_topologies_are_errors() -> None:
    class Own:
        @hookimpl
        def astra_platforms(self) -> list[Provider]:
            return [
                Provider("nested", "A preset of a preset", lambda: Preset(({"topology": "dgx_h100"},), "nested")),
                Provider("unknown", "A preset of what there is not", lambda: Preset(({"topology": "moebius"},), "unknown")),
            ]

    plugins = Plugins()
    plugins.register(Own(), "own")
    with pytest.raises(astra_sim.PluginError, match="preset 'nested' is made of preset 'NVIDIA DGX H100'; expected topologies"):
        platform_of("plugin:nested", plugins)
    with pytest.raises(astra_sim.PluginError, match="there is no platform plugin 'moebius'"):
        platform_of("plugin:unknown", plugins)


# -- The page ----------------------------------------------------------------------------------------------------------


def rows() -> Iterator[str]:
    """The tables of the page, as the data has them."""
    for name in NODES:
        machine = machines()[name]
        nvlink = machine["nvlinks"] * machine["nvlink_link_gb_s"]
        yield (
            f"| `{name}` | {machine['gpus']} ({machine['topology']}) x nodes (switch) | `{machine['device']}` | {nvlink:g} |"
            f" {machine['nvlink_latency_ns']} | {machine['nic_gb_s']:g} | {machine['nic_latency_ns']} |"
        )
    for name in PODS:
        machine = machines()[name]
        yield (
            f"| `{name}` | a x b x c (rings), {machine['pod_chips']} chips at most | `{machine['device']}` | {machine['link_gb_s']:g} |"
            f" {machine['link_latency_ns']} |"
        )
    for name in NODES:
        machine = machines()[name]
        if "rails" in machine:
            # On each rail leaves have as many ports for NICs as for spines, and a spine has a port for each leaf.
            down = machine["ports"] // 2 * machine["gpus"] // machine["nics"]
            most = machine["ports"] // machine["rails"] * down * machine["rails"] // machine["gpus"]
            yield f"| `{name}` | {machine['nics']} | {machine['rails']} | {machine['ports']} | {most} |"


def test_the_page_shows_the_data() -> None:
    lines = PAGE.splitlines()
    missing = [row for row in rows() if row not in lines]
    assert not missing, "docs/platforms.md lacks:\n" + "\n".join(missing)
    of_machines = tuple(f"| `{name}` |" for name in machines())
    shown = [line for line in lines if line.startswith(of_machines)]
    assert set(shown) <= set(rows()), "docs/platforms.md has rows that the data has not"


def test_every_number_has_a_source_with_an_address() -> None:
    for name, machine in machines().items():
        numbers = set(machine) - {"title", "device", "sources"}
        assert set(machine["sources"]) == numbers, name
        assert all(re.search(r"https://\S+", source) for source in machine["sources"].values()), name


def test_the_network_of_ones_own_on_the_page_is_a_platform() -> None:
    (block,) = re.findall(r"^    \[platform\]\n(    .*)$", PAGE, re.MULTILINE)
    assert [dimension.size for dimension in platform_of(tomllib.loads(block.strip())).dimensions] == [8, 16]


def test_the_example_of_the_page_gives_the_figures_of_the_page(tmp_path: Path) -> None:
    (block,) = (each for each in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL) if "all_reduce" in each)
    tomllib.loads(block)
    experiment = tmp_path / "all_reduce.toml"
    experiment.write_text(block)
    shown = re.findall(r"^    (plugin:\S+) +([0-9.]+) us$", PAGE, re.MULTILINE)
    assert len(shown) == 4
    for platform, figure in shown:
        assert f"{astra_sim.simulate(experiment, platform=platform).finish_ns / 1000:.0f}" == figure
