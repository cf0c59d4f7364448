"""Energy and cost of runs: states of NPUs, what overlaps, links, hosts and switches, and what of it symmetry must not change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import astra_sim
import pytest
from astra_sim.command import cli
from astra_sim.errors import InputError
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from support import ROOT

FILE = """
[workload]
plugin = "collective"
bytes = 4096

[platform]
dimensions = [{ topology = "ring", size = 4, links = 2, link_bandwidth_gb_per_s = 1, link_latency_ns = 100 }]
"""
PASS = {"compute_ns": 700, "collective": "all_reduce", "collective_bytes": 4096}
LAYERS = {
    "plugin": "layers",
    "loop": "data",
    "layers": [
        {"name": name, "forward": {"compute_ns": 300}, "input_gradient": {"compute_ns": 300}, "weight_gradient": PASS} for name in "ab"
    ],
}
RING = {"dimensions": [{"topology": "ring", "size": 4, "links": 2, "link_bandwidth_gb_per_s": 1, "link_latency_ns": 100}]}
POWERS = {"idle_w": 100, "compute_w": 650, "communicating_w": 300}


def run(energy: dict[str, Any], cost: dict[str, Any] | None = None, **given_: Any) -> Any:
    """The result of layers on a ring, with these sections."""
    accounts = {"energy": energy} if energy else {}
    experiment = astra_sim.Experiment(plugin_sections=accounts | ({"cost": cost} if cost else {}))
    components: dict[str, Any] = {"workload": LAYERS, "platform": RING}
    return astra_sim.simulate(experiment, **(components | given_))


def npus(result: Any) -> float:
    return float(sum(result.energy["npu"].values()))


def test_a_constant_power_takes_power_times_time() -> None:
    result = run({"idle_w": 500, "compute_w": 500})
    assert result.energy["total"] == pytest.approx(4 * 500 * result.finish_ns * 1e-9)
    assert result.energy["mean_w"] == pytest.approx(4 * 500) == result.energy["peak_w"]


def test_states_take_their_power_for_their_time() -> None:
    result = run(POWERS)
    (row,) = result.npu_tables()["npu_times"]
    hidden = row["communication_ns"] - row["exposed_ns"]
    assert 0 < hidden < row["compute_ns"]
    results, ns = result.energy["npu"], 1e-9 * 4
    assert results["idle"] == pytest.approx(100 * result.finish_ns * ns)
    assert results["compute"] == pytest.approx(550 * row["compute_ns"] * ns)
    assert results["communication"] == pytest.approx(200 * row["communication_ns"] * ns)
    assert result.energy["peak_w"] == pytest.approx(4 * (100 + 550 + 200))


def test_a_cap_holds_where_an_npu_computes_and_communicates_at_once() -> None:
    free, capped = run(POWERS), run({**POWERS, "cap_w": 700})
    (row,) = free.npu_tables()["npu_times"]
    hidden = row["communication_ns"] - row["exposed_ns"]
    assert npus(free) - npus(capped) == pytest.approx(4 * 150 * hidden * 1e-9)
    assert capped.energy["peak_w"] == pytest.approx(4 * 700)
    assert capped.energy["npu"]["compute"] == free.energy["npu"]["compute"]


def test_the_share_of_the_thermal_design_power_is_what_was_measured() -> None:
    assert run({"idle_w": 100, "tdp_w": 1000}).energy == run({"idle_w": 100, "compute_w": 760}).energy


def test_twice_the_time_of_the_same_work_changes_idle_energy_alone() -> None:
    fast, slow = run(POWERS), run(POWERS, platform={"dimensions": [{**RING["dimensions"][0], "link_latency_ns": 40000}]})
    assert slow.finish_ns > 2 * fast.finish_ns
    assert slow.energy["npu"]["compute"] == pytest.approx(fast.energy["npu"]["compute"])
    assert slow.energy["npu"]["idle"] == pytest.approx(fast.energy["npu"]["idle"] * slow.finish_ns / fast.finish_ns)


def test_links_take_energy_for_every_bit_that_crosses_them() -> None:
    aware: dict[str, Any] = {"network": "plugin:analytical?congestion=aware"}
    result = run({**POWERS, "link_pj_per_bit": 10}, **aware)
    assert result.energy["links"] == pytest.approx(sum(row["bytes"] for row in result.npu_tables()["links"]) * 8 * 10e-12)
    for table in ({"0": 10}, {"ring": 10}):
        assert run({**POWERS, "link_pj_per_bit": table}, **aware).energy == result.energy
    with pytest.raises(InputError, match="link_pj_per_bit has 1, mesh; expected 0 or ring, for dimension 0"):
        run({**POWERS, "link_pj_per_bit": {"1": 1, "mesh": 2}}, **aware)
    with pytest.raises(InputError, match="this network does not count the loads of links"):
        run({**POWERS, "link_pj_per_bit": 10})


def test_hosts_switches_and_the_data_centre_take_theirs() -> None:
    platform = {"dimensions": [{"topology": "switch", "size": 4, "link_bandwidth_gb_per_s": 1, "link_latency_ns": 100}] * 2}
    result = run({**POWERS, "host_w": 1000, "switch_w": 70, "pue": 1.25}, platform=platform)
    seconds = result.finish_ns * 1e-9
    assert result.energy["host"] == pytest.approx(4 * 1000 * seconds)
    assert result.energy["switches"] == pytest.approx(8 * 70 * seconds)
    assert result.energy["total"] == pytest.approx(npus(result) + (4000 + 560) * seconds)
    assert result.energy["pue_total"] == pytest.approx(1.25 * result.energy["total"])
    assert result.energy["kwh"] == pytest.approx(result.energy["pue_total"] / 3.6e6)
    assert run({**POWERS, "host_w": 1000, "npus_per_node": 8}, platform=platform).energy["host"] == pytest.approx(2 * 1000 * seconds)


def test_tokens_of_a_model_are_counted() -> None:
    result = astra_sim.simulate(
        str(ROOT / "examples/gpt3_175b_megatron.toml"), set=["energy.idle_w=100", "energy.compute_w=300", "cost.gpu_hour_usd=2"]
    )
    tokens = result.tokens_per_s * result.finish_ns * 1e-9
    assert result.energy["tokens_per_joule"] == pytest.approx(tokens / result.energy["pue_total"])
    assert result.cost["usd"] == pytest.approx(2 * 64 * result.finish_ns * 1e-9 / 3600)
    assert run({**POWERS, "tokens": 50}).energy["tokens_per_joule"] == pytest.approx(50 / run(POWERS).energy["pue_total"])


def test_cost_is_that_of_time_and_energy() -> None:
    result = run(POWERS, {"gpu_hour_usd": 2.5, "energy_usd_per_kwh": 0.08}, passes=2)
    hours = result.finish_ns * 1e-9 / 3600
    assert result.cost["usd"] == pytest.approx(4 * 2.5 * hours + 0.08 * result.energy["kwh"])
    assert result.cost["usd_per_step"] == pytest.approx(result.cost["usd"] / 2)
    with pytest.raises(InputError, match="cost: energy_usd_per_kwh: the experiment has no section energy"):
        run({}, {"energy_usd_per_kwh": 0.08})
    with pytest.raises(InputError, match="no price is given"):
        astra_sim.simulate(astra_sim.Experiment(plugin_sections={"cost": {}}), workload=LAYERS, platform=RING)


@given(
    size=st.integers(2, 6),
    powers=st.tuples(*[st.integers(0, 1000)] * 4),
    cap=st.none() | st.integers(1000, 2000),
    passes=st.integers(1, 3),
    topology=st.sampled_from(["ring", "switch"]),
    slow=st.booleans(),
)
def test_symmetry_and_engines_change_no_joule(
    size: int, powers: tuple[int, ...], cap: int | None, passes: int, topology: str, slow: bool
) -> None:
    idle, *more = powers
    names = ("compute_w", "communicating_w", "memory_w")
    energy = {"idle_w": idle, **{name: idle + each for name, each in zip(names, more, strict=True)}}
    energy |= {} if cap is None else {"cap_w": cap}
    links = {"links": 2} if topology == "ring" else {}
    given_: dict[str, Any] = {
        "platform": {"dimensions": [{"topology": topology, "size": size, **links, "link_bandwidth_gb_per_s": 1, "link_latency_ns": 100}]},
        "passes": passes,
        "slow_npus": "0:1.5" if slow else None,
    }
    first = run(energy, **given_).energy
    for other in ({"symmetry": False}, {"engine": "python"}):
        again = run(energy, **given_, **other).energy
        nested = ("npu", "power")
        flat, flat_first = ({key: value for key, value in each.items() if key not in nested} for each in (again, first))
        assert flat == pytest.approx(flat_first)
        assert again["npu"] == pytest.approx(first["npu"])
        assert again["power"]["mean_w"] == pytest.approx(first["power"]["mean_w"])


@pytest.mark.parametrize("windows", [1, 7, 100])
def test_power_in_windows_is_the_energy(windows: int) -> None:
    more = {"host_w": 50, "npus_per_node": 2, "pue": 1.25, "windows": windows, "npus_per_rack": 3, "cap_w": 700}
    result = run(POWERS | more, slow_npus="0:1.5")
    power = result.energy["power"]
    assert len(power["mean_w"]) == windows
    assert sum(power["mean_w"]) * power["window_ns"] * 1e-9 == pytest.approx(result.energy["pue_total"])
    assert power["peak_w"] == max(power["mean_w"]) <= result.energy["peak_w"] * (1 + 1e-12)
    assert [rack["rack"] for rack in power["racks"]] == [0, 1]  # of three NPUs and one
    assert sum(rack["mean_w"] for rack in power["racks"]) == pytest.approx(result.energy["mean_w"] / 1.25)
    assert all(rack["mean_w"] <= rack["peak_w"] for rack in power["racks"])


def test_a_window_in_which_all_compute_takes_the_power_of_computing() -> None:
    """The forward pass of the first layer comes first: for 300 ns all NPUs compute, and nothing is sent."""
    result = run(POWERS | {"windows": 1000})
    first = result.energy["power"]["mean_w"][: int(299 / result.energy["power"]["window_ns"])]
    assert first == pytest.approx([4 * 650] * len(first))


# -- Sections in files, on the command line and in results


def test_sections_are_read_changed_and_run_again(tmp_path: Path) -> None:
    text = FILE + "\n[energy]\nidle_w = 100\ncompute_w = 650\n\n[cost]\ngpu_hour_usd = 2.5\n"
    (tmp_path / "run.toml").write_text(text)
    done = CliRunner().invoke(cli.astra, ["run", str(tmp_path / "run.toml"), "--set", "energy.pue=1.2", "-o", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert " energy " in done.output
    assert " mean power " in done.output
    written = json.loads((tmp_path / "out/result.json").read_text())
    assert written["experiment"]["energy"]["pue"] == 1.2
    assert written["experiment"]["cost"]["gpu_hour_usd"] == 2.5
    again = astra_sim.simulate(str(tmp_path / "out"))
    assert again.energy == written["energy"]
    assert again.cost == written["cost"]


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ("[energi]\nidle_w = 1", "unknown key 'energi'; did you mean 'energy'"),
        ("energy = 3", "energy is 3; expected a table"),
        ("[energy]\nidle_w = 100", "energy: compute_w and tdp_w: expected one of the two"),
        ("[energy]\nidle_w = 100\ncompute_w = 1\ntdp_w = 2", "energy: compute_w and tdp_w: expected one of the two"),
        ("[energy]\ncompute_w = 100", "energy: idle_w"),
        ("[energy]\nidle_w = 100\ncompute_w = 50", "energy: compute_w is 50; expected at least idle_w, which is 100"),
        ("[energy]\nidle_w = 100\ncompute_w = 150\ncap_w = 90", "energy: cap_w is 90; expected at least idle_w"),
        ("[energy]\nidle_w = 100\ncompute_w = 150\npue = 0.5", "energy: pue is 0.5"),
        ("[energy]\nidle_w = 100\ncompute_w = 150\nwatts = 5", "energy: unknown key 'watts'"),
    ],
)
def test_a_wrong_section_is_an_error(section: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(f"{section}\n" * ("=" in section.partition("\n")[0]) + FILE)
    if section.startswith("["):
        with (tmp_path / "run.toml").open("a") as file:
            file.write(f"\n{section}\n")
    with pytest.raises(InputError, match=r"run\.toml: ") as caught:
        astra_sim.simulate(str(tmp_path / "run.toml"))
    assert message in str(caught.value)
