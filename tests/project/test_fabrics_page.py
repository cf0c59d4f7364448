"""docs/platforms.md names the fabrics and their options, and shows results that runs give."""

from __future__ import annotations

import re
import tomllib

import astra_sim
import attrs
import pytest
from astra_sim_platforms.clos import ClosOptions
from astra_sim_platforms.dragonfly_plus import DragonflyPlusOptions
from astra_sim_platforms.hyperx import HyperXOptions
from astra_sim_platforms.servers import RailOptimizedOptions
from astra_sim_platforms.slim_fly import SlimFlyOptions
from astra_sim_platforms.topologies import DragonflyOptions, FatTreeOptions, LinkOptions, MeshOptions, TorusOptions
from support import ROOT
from support.platforms import LINK

PAGE = (ROOT / "docs" / "platforms.md").read_text(encoding="utf-8")
OPTIONS = {
    "clos": ClosOptions,
    "rail_optimized": RailOptimizedOptions,
    "dragonfly_plus": DragonflyPlusOptions,
    "hyperx": HyperXOptions,
    "slim_fly": SlimFlyOptions,
    "dragonfly": DragonflyOptions,
    "fat_tree": FatTreeOptions,
    "mesh": MeshOptions,
    "torus": TorusOptions,
}
LINK_OPTIONS = [field.name for field in attrs.fields(LinkOptions)]
NETWORKS = ("analytical?congestion=aware&switching=cut_through", "packet")
SHOWN = re.findall(r"^    plugin:(\S+) +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+)$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("name", OPTIONS)
def test_the_page_names_every_fabric_with_options_that_it_has(name: str) -> None:
    (row,) = re.findall(rf"^\| [^|]*`{name}`[^|]*\| [^|]+ \| ([^|]+) \|$", PAGE, re.MULTILINE)
    fields = {field.name for field in attrs.fields(OPTIONS[name])}
    named = re.findall(r"`([a-z_]+)`", row)
    assert named
    assert [each for each in named if each not in fields and each not in OPTIONS] == []


def test_the_page_shows_the_options_of_links() -> None:
    for field in attrs.fields(LinkOptions):
        assert f"`{field.name}`" in PAGE


def test_the_page_has_figures_of_every_fabric() -> None:
    assert {spec.partition("?")[0] for spec, *_ in SHOWN} == {*OPTIONS, "dgx_h100"}


@pytest.mark.parametrize("row", SHOWN, ids=lambda row: str(row[0]))
def test_runs_give_the_figures_of_the_page(row: tuple[str, ...]) -> None:
    spec, *figures = row
    link = "" if spec.startswith(("rail_optimized", "dgx")) else f"&{LINK}"
    result = [
        astra_sim.simulate(
            workload=f"plugin:collective?collective={collective}&bytes=1048576",
            platform=f"plugin:{spec}{link}",
            network=f"plugin:{network}",
        ).finish_ns
        for collective in ("all_reduce", "all_to_all")
        for network in NETWORKS
    ]
    assert [f"{time / 1000:.1f}" for time in result] == figures


def test_the_thousand_gpus_of_the_page() -> None:
    (block,) = re.findall(r"^astra --platform '(.*)' \\\n +--workload '(.*)' \\\n +--network '(.*)'$", PAGE, re.MULTILINE)
    platform, workload, network = block
    result = astra_sim.simulate(platform=platform, workload=workload, network=network)
    (total,) = re.findall(r"^ +total +([\d.]+)  us", PAGE, re.MULTILINE)
    (messages,) = re.findall(r"^ +messages +(\d+)  \(network: analytical\)", PAGE, re.MULTILINE)
    (algorithm,) = re.findall(r"^ +algorithm +(\w+)  \(auto, all_reduce in dimension 0\)", PAGE, re.MULTILINE)
    assert (f"{result.finish_ns / 1000:.3f}", str(result.messages)) == (total, messages)
    assert result.algorithms[0].algorithm == algorithm
    (reason,) = re.findall(r"^    (auto: .*)$", (ROOT / "docs" / "collectives.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert result.algorithms[0].reason == reason


def test_the_logical_dimensions_of_the_page() -> None:
    (block,) = (each for each in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL) if "logical_dims" in each)
    experiment = tomllib.loads(block)
    result = astra_sim.simulate(workload="plugin:collective?bytes=1048576", platform=experiment["platform"])
    assert [dimension.size for dimension in result.dimensions] == experiment["platform"]["logical_dims"]
