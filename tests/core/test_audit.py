"""The physics audit: results that are faster than the wires allow are named, and no others."""

from __future__ import annotations

import json
import math
import subprocess
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import astra_sim
import pytest
from astra_sim import AstraError, InputWarning, RunError
from astra_sim.api import run_components
from astra_sim.fabric.graph import wires_of
from astra_sim.network import EventNetwork
from astra_sim.report import audit
from astra_sim.report.audit import TOLERANCE
from astra_sim_devkit.testing.bench import PLATFORM as BENCH
from hypothesis import given, settings
from hypothesis import strategies as st
from support import warm
from support.experiment_checks import components_of
from support.networks import Later
from support.random_experiments import Experiment

SWITCH = "plugin:switch?size=64&link_bandwidth_gb_per_s=50&link_latency_ns=0"
RING = "plugin:ring?size=16&links=2&link_bandwidth_gb_per_s=50&link_latency_ns=500"
SIZE = 64_000_000


def simulate(algorithm: str = "direct", platform: Any = SWITCH, network: str = "plugin:analytical", **more: Any) -> astra_sim.Result:
    more.setdefault("workload", f"plugin:collective?bytes={SIZE}")
    system = more.pop("system", "astra1")
    return astra_sim.simulate(platform=platform, network=network, system=f"plugin:{system}?all_reduce={algorithm}", **more)


@pytest.mark.parametrize("system", ["astra1", "astra2"])
@pytest.mark.parametrize("engine", ["compiled", "python"])
def test_direct_on_a_switch_is_far_too_fast_without_contention(system: str, engine: str) -> None:
    result = simulate(system=system, engine=engine)
    (finding,) = result.audit
    wire_ns = 2 * SIZE * 63 / 64 / 50
    assert (finding.dimension, finding.topology, finding.collective) == (0, "switch of 64", "all_reduce")
    assert finding.wire_ns == pytest.approx(wire_ns)
    assert finding.ratio == pytest.approx(wire_ns / result.finish_ns, rel=0.01) == pytest.approx(62, abs=1.5)
    assert "congestion=aware" in finding.remedy
    assert "--network plugin:packet" in finding.message


@pytest.mark.parametrize("algorithm", ["direct", "ring", "halving_doubling", "direct?window=1"])
@pytest.mark.parametrize("platform", [SWITCH, RING])
def test_what_the_remedy_gives_needs_none(algorithm: str, platform: str) -> None:
    aware = simulate(algorithm, platform, "plugin:analytical?congestion=aware")
    assert aware.audit == []
    for finding in simulate(algorithm, platform).audit:
        assert aware.finish_ns >= finding.wire_ns * (1 - TOLERANCE)


@pytest.mark.parametrize(
    ("algorithm", "platform"), [("ring", SWITCH), ("halving_doubling", SWITCH), ("direct?window=1", SWITCH), ("ring", RING)]
)
def test_algorithms_that_fill_their_links_once_are_right(algorithm: str, platform: str) -> None:
    assert simulate(algorithm, platform).audit == []
    assert simulate(algorithm, platform, system="astra2").audit == []


def test_links_of_a_ring_carry_what_is_forwarded() -> None:
    # Each half of the data goes as far as the ring is wide, so no NPU sends too much, but the links between would carry it all.
    (finding,) = simulate("halving_doubling", f"{RING}&both_ways=true").audit
    assert finding.of_fabric
    assert finding.bytes > 2 * SIZE * 15 / 16
    assert 1.5 < finding.ratio < 2.5
    assert "both_ways=false" in finding.remedy
    (finding,) = simulate("halving_doubling", RING).audit
    assert 1.0 < finding.ratio < 1.25
    assert "both_ways" not in finding.remedy


def test_chunks_beside_each_other_share_the_links_of_a_dimension() -> None:
    alone = simulate("ring", set=["system.splits=8"])
    beside = simulate("ring", set=["system.splits=8", "system.active_chunks_per_dimension=8"])
    assert alone.audit == []
    (finding,) = beside.audit
    assert (finding.scope, finding.collective) == ("run", None)
    assert finding.ratio == pytest.approx(alone.finish_ns / beside.finish_ns, rel=0.05)


def test_messages_between_stages_are_no_reason() -> None:
    # The dimensions of this program are those of its groups, in which messages between stages do not count.
    for parts, stages in ((4, 2), (1, 4), (2, 2)):
        result = astra_sim.simulate(
            workload="plugin:llm?model=llama2-7b&sequence=512&global_batch=8&check_memory=false&precision=fp16&detail=pass"
            f"&tensor_parallel={parts}&pipeline_parallel={stages}",
            platform="plugin:dgx_a100?nodes=1",
            system="plugin:astra2?all_reduce=ring&reduce_scatter=ring&all_gather=ring",
            compute="plugin:roofline?peak_tera_ops_per_s=30000&memory_bandwidth_gb_per_s=200000",
        )
        assert result.audit == []


@pytest.mark.parametrize("algorithm", ["one_ring", "one_direct?window=1", "one_halving_doubling"])
def test_an_algorithm_over_all_dimensions_is_no_reason(algorithm: str) -> None:
    platform = [{"topology": "switch", "size": 4, "link_bandwidth_gb_per_s": bandwidth, "link_latency_ns": 500} for bandwidth in (50, 10)]
    assert simulate(algorithm, {"dimensions": platform}).audit == []


def test_a_short_phase_is_found_in_a_long_run() -> None:
    layer = {
        "name": "one",
        "forward": {"compute_ns": 10**9},
        "input_gradient": {"compute_ns": 0},
        "weight_gradient": {"compute_ns": 0, "collective": "all_reduce", "collective_bytes": SIZE},
    }
    assert [finding.scope for finding in simulate(workload={"loop": "data", "layers": [layer]}).audit] == ["phase"]


@pytest.mark.parametrize("collective", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"])
@pytest.mark.parametrize("platform", ["dgx_h100?nodes=1", "dgx_h100?nodes=4", "dgx_a100?nodes=2"])
def test_measured_times_of_the_machine_itself_are_right(collective: str, platform: str) -> None:
    # Switches that add up halve the bytes of an all-reduce, whose bus bandwidth by the ring's count is over that of the links.
    for size in (10**6, 10**9, 10**11):
        result = simulate(
            platform=f"plugin:{platform}",
            network="plugin:analytical?model=nccl",
            workload=f"plugin:collective?collective={collective}&bytes={size}",
        )
        assert result.audit == []


def test_measured_times_of_another_machine_are_found(tmp_path: Path) -> None:
    """Where it is known on which links times were measured, they follow those of the platform."""
    slow = "plugin:switch?size=8&link_bandwidth_gb_per_s=10&link_latency_ns=500"
    assert simulate(platform=slow, network="plugin:analytical?model=nccl&device=h100").audit == []
    file = tmp_path / "mine.toml"
    fit = '[[fits]]\noperation = "all_reduce"\nranks = 8\nsimple = { latency_us = 1, gb_per_s = 300 }\n'
    file.write_text(f'title = "mine"\ncalibrated = true\n{fit}')
    with pytest.warns(InputWarning, match="mine: the links of its measurement are unknown"):
        (finding,) = simulate(platform=slow, network=f"plugin:analytical?model=nccl&parameters={file}").audit
    assert "network.device" in finding.remedy
    assert "congestion" not in finding.message


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_networks_with_contention_and_packets_are_never_accused(seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        experiment = Experiment(seed, Path(folder))
        try:
            components = components_of(experiment.options, "auto", True)
            result = run_components(components, "run", 0.0)
        except AstraError:
            return
    if isinstance(components.network, EventNetwork):
        assert result.audit == []
    for finding in result.audit:
        assert finding.ratio > 1
        assert math.isfinite(finding.ratio)


def test_what_is_found_takes_as_long_as_said_on_links_that_carry_one_message_at_a_time(tmp_path: Path) -> None:
    compared = 0
    for seed in range(20_000, 20_120):
        experiment = Experiment(seed, tmp_path)
        aware = {"plugin": "analytical", "congestion": "aware", "switching": "cut_through", "rounding": "picosecond"}
        try:
            if experiment.network == "unaware" and (findings := astra_sim.simulate(**experiment.options).audit):
                finish_ns = astra_sim.simulate(**{**experiment.options, "network": aware}).finish_ns
                assert all(finish_ns >= finding.wire_ns * (1 - TOLERANCE) for finding in findings)
                compared += 1
        except AstraError:
            continue  # memory behind the links, say, which congestion does not have
    assert compared > 5


class Instant(Later):
    """Delivers every message a picosecond after it was sent, and says that its links were used twice over."""

    def statistics(self) -> dict[str, object]:
        return {"highest_link_utilisation": 2.0}


def test_a_network_of_others_is_judged_too() -> None:
    result = astra_sim.simulate(workload=f"plugin:collective?bytes={SIZE}", network=Instant(BENCH))
    assert {finding.scope for finding in result.audit} == {"run", "link"}
    assert any("200.0 %" in finding.message for finding in result.audit)


def test_strict_makes_findings_an_error() -> None:
    with pytest.raises(RunError, match=r"faster than the wires allow; dimension 0 \(switch of 64\).*congestion=aware"):
        simulate(strict=True)
    assert simulate("ring", strict=True).audit == []


def astra(*arguments: str) -> tuple[int, str, str]:
    run = ["--platform", SWITCH, "--workload", f"plugin:collective?bytes={SIZE}"]
    command = [warm.astra(), *arguments, *run]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    return done.returncode, done.stdout, done.stderr


def test_the_command_says_each_finding_in_a_line() -> None:
    direct = ("--system", "plugin:astra1?all_reduce=direct")
    status, out, err = astra("run", *direct, "--json")
    table = json.loads(out)["audit"]
    assert status == 0
    assert err == f"astra: audit: {table[0]['message']}\n"
    assert table[0]["scope"] == "phase"
    assert astra("run", *direct, "--quiet") == (0, "", err)
    assert astra("explain", *direct, "--quiet") == (0, "", err)
    status, out, err = astra("run", *direct, "--strict", "--quiet")
    assert (status, out) == (1, "")
    assert "faster than the wires allow" in err


def test_compare_says_which_run_it_is() -> None:
    status, _, err = astra("compare", "--set", "system.all_reduce=direct", "--set", "system.all_reduce=ring")
    assert status == 0
    assert len(err.splitlines()) == 1
    assert err.startswith("astra: audit of all_reduce=direct: dimension 0")


@pytest.mark.parametrize(("most", "lists"), [(30, 1), (29, 0)])
def test_many_links_are_not_listed(most: int, lists: int) -> None:
    """Those of a large graph may be many: an audit must not cost more than the run."""
    platform = f"plugin:mesh?sizes=16&link_bandwidth_gb_per_s={40 + most / 10}&link_latency_ns=0"  # one that no other test has listed
    with mock.patch.object(audit, "MOST_LISTED", most), mock.patch.object(audit, "wires_of", side_effect=wires_of) as listing:
        (finding,) = simulate(platform=platform).audit
    assert finding.scope == "phase"
    assert listing.call_count == lists


def test_links_that_look_the_same_from_all_npus_are_not_listed() -> None:
    with mock.patch.object(audit, "wires_of", side_effect=wires_of) as listing:
        assert simulate().audit
        assert simulate(platform=RING).audit
    assert listing.call_count == 0
