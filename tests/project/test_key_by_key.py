"""plugins/compat/KEYS.md has every key of the files that are read, each with the option that it becomes."""

from __future__ import annotations

import re
from typing import Any

import pytest
from astra_sim.command.cli import astra
from astra_sim_memory import astra2_file as memory_file
from astra_sim_network_analytical import astra1_file as network1_file
from astra_sim_network_analytical import astra2_file as network2_file
from astra_sim_network_packet import garnet_file
from astra_sim_systems import astra1_file, astra2_file, names
from astra_sim_training_loops import astra1_file as workload_file
from click.testing import CliRunner
from support import ROOT


def table(heading: str) -> dict[str, tuple[str, str]]:
    """The rows of the table below a heading: by key the option and the remark."""
    page = (ROOT / "plugins" / "compat" / "KEYS.md").read_text()
    section = re.split(r"\n##+ ", page.partition(f"\n## {heading}\n")[2])[0]
    result: dict[str, tuple[str, str]] = {}
    for line in section.splitlines():
        if line.startswith("| `"):
            keys, option, remark = (cell.strip() for cell in line.strip("|").split("|", 2))
            for key in re.findall(r"`([^`]+)`", keys):
                assert key not in result
                result[key] = option.strip("`"), remark
    return result


def options(rows: dict[str, tuple[str, str]]) -> dict[str, str]:
    return {key: option for key, (option, _) in rows.items()}


def test_the_system_file_of_1() -> None:
    converted = {key: option for key, (option, _) in astra1_file._KEYS.items()}
    converted.update({"gap-denominator": "gap_denominator", "boost-mode": "-", "seprate-log": "-"})
    assert options(table("System file of 1.0")) == converted


def test_the_network_file_of_1() -> None:
    numbers = {key: option for key, option, _ in (*network1_file._REQUIRED, *network1_file._OPTIONAL)}
    others = dict(zip(network1_file._OTHER, ("-", "-", "topology", "packaging"), strict=True))
    assert options(table("Network file of the analytical backend")) == numbers | others


def test_the_network_file_of_garnet() -> None:
    numbers = {key: f"{section}.{option}" for key, (section, option, _) in garnet_file._NUMBERS.items()}
    others = {"topology": "platform.plugin", "routing-algorithm": "-", **dict.fromkeys(garnet_file._WITHOUT_EFFECT, "-")}
    assert options(table("Network file of Garnet")) == numbers | others


def test_the_policies_of_workloads() -> None:
    assert options(table("Workload file of 1.0")) == workload_file._POLICIES


def test_the_system_file_of_2() -> None:
    converted = {key: option for key, (option, _) in astra2_file._KEYS.items()} | astra2_file._CUSTOM
    others = {
        "per-node-custom-implementation": "node_algorithms",
        "peak-perf": "compute.peak_tera_ops_per_s",
        "roofline-enabled": "compute.plugin",
        "replay-only": "replay_only",
        **dict.fromkeys(("trace-enabled", "track-local-mem", *astra2_file._SCHEDULING, *astra2_file._WITHOUT_EFFECT), "-"),
    }
    assert set(astra2_file._OTHERS) <= set(others)
    assert options(table("System file of 2.x")) == converted | others


def test_the_network_file_of_2() -> None:
    dimension: dict[str, Any] = network2_file._dimension("Ring", 3, 5.0, 7.0, "network.yml")
    result = options(table("Network file of 2.x"))
    assert list(result) == list(network2_file._KEYS)
    assert [dimension[option] for option in result.values()] == ["ring", 3, 5.0, 7.0]


def test_the_memory_file_of_2() -> None:
    expected = {"memory-type": "arrangement", **memory_file._KEYS, **memory_file._PER_NODE}
    assert options(table("Memory file of 2.x")) == expected


VALUES = [
    ("System file of 1.0", "scheduling-policy", names.POLICIES),
    ("System file of 1.0", "collective-optimization", names.OPTIMIZATIONS),
    ("System file of 1.0", "intra-dimension-scheduling", names.QUEUE_ORDERS),
    ("System file of 1.0", "inter-dimension-scheduling", names.DIMENSION_ORDERS),
    ("Network file of the analytical backend", "topologies-per-dim", network1_file._TOPOLOGIES),
    ("Network file of the analytical backend", "dimension-type", network1_file._PACKAGING),
    ("Network file of 2.x", "topology", network2_file._TOPOLOGIES),
    ("Memory file of 2.x", "memory-type", memory_file._ARRANGEMENTS),
]


@pytest.mark.parametrize(("heading", "key", "values"), VALUES, ids=lambda value: str(value) if isinstance(value, str) else None)
def test_values_and_what_they_become(heading: str, key: str, values: dict[str, str]) -> None:
    _, remark = table(heading)[key]
    result: dict[str, str] = {}
    for part in re.split("[;|]", remark):
        matches = re.findall(r"`([^`]+)`", part)
        if ":" in re.sub(r"`[^`]+`", "", part):
            result.update(dict.fromkeys(matches[:-1], matches[-1]))
        else:
            result.update({name: name for name in matches})
    for name, value in values.items():
        assert result.get(name) == value, name


@pytest.mark.parametrize("version", ["1.0", "2.x"])
def test_options_of_the_command_line_exist(version: str) -> None:
    helped = CliRunner().invoke(astra, ["run", "--help"]).output
    for option, _ in table(f"Options of {version}").values():
        for name in re.findall(r"--[a-z-]+", option):
            assert name in helped
