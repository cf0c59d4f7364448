"""`astra traffic`: patterns, rates, measurement, files and errors."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from astra_sim import InputError
from click.testing import CliRunner

pytest.importorskip("astra_sim_network_packet")

from astra_sim_network_packet import patterns
from astra_sim_network_packet.load import LoadMeasurement
from astra_sim_network_packet.options import PacketOptions
from astra_sim_network_packet.traffic import parse_rates, read_platform, sweep, traffic

MESH = "plugin:mesh?sizes=4,4&link_bandwidth_gb_per_s=32&link_latency_ns=1"
BOOKSIM = PacketOptions(preset="booksim")


def run(*arguments: str) -> dict[str, Any]:
    done = CliRunner().invoke(traffic, ["--platform", MESH, "--json", *arguments], catch_exceptions=False)
    assert done.exit_code == 0
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_a_seed_fixes_the_answer_and_another_changes_it() -> None:
    first, second = (run("--rate", "0.2,0.4", "--seed", "7") for _ in range(2))
    assert first == second
    assert run("--rate", "0.2,0.4", "--seed", "8")["rates"] != first["rates"]


def test_latency_grows_with_the_rate_until_the_network_saturates() -> None:
    answer = run("--rate", "0.1:0.9:0.2", "--drain-limit", "3000")
    latencies = [entry["packet_latency"] for entry in answer["rates"]]
    assert latencies == sorted(latencies)
    assert 0.7 <= answer["saturation_rate"] <= 0.9
    for entry in answer["rates"]:
        if entry["stable"]:
            assert entry["accepted_rate"] == pytest.approx(entry["rate"], rel=0.03)


@pytest.mark.parametrize(("pattern", "hops"), [("neighbour", None), ("bit_complement", 4.0), ("transpose", None)])
def test_an_almost_empty_network_has_the_latency_of_the_formula(pattern: str, hops: float | None) -> None:
    entry = run("--rate", "0.002", "--pattern", pattern, "--period", "20000")["rates"][0]
    if hops is not None:
        assert entry["hops"] == pytest.approx(hops, rel=0.02)
    # A router takes 4 cycles, a link 1, interfaces 3 (BookSim).
    assert entry["packet_latency"] == pytest.approx((entry["hops"] + 1) * 4 + entry["hops"] + 3, abs=0.1)


def test_one_virtual_channel_streams_a_third_of_a_flit_a_cycle() -> None:
    platform = read_platform("plugin:ring?size=8&links=2&link_bandwidth_gb_per_s=32&link_latency_ns=2")
    how = LoadMeasurement(drain_limit=100)
    accepted = [
        sweep(platform, PacketOptions(preset="booksim", vcs=vcs, buffers=8), "neighbour", [1.0], how)[0].accepted_rate for vcs in (2, 4, 8)
    ]
    assert accepted == [pytest.approx(share, rel=0.02) for share in (1 / 3, 2 / 3, 1)]


def test_patterns_send_where_they_say() -> None:
    platform = read_platform(MESH)
    assert patterns.targets("tornado", platform)[:5] == [5, 6, 7, 4, 9]
    assert patterns.targets("neighbor", platform)[15] == 0
    assert patterns.targets("bitcomp", platform)[0] == 15
    assert patterns.targets("transpose", platform)[6] == 9
    assert patterns.targets("uniform", platform) == [None] * 16


def test_a_hot_spot_gets_its_share() -> None:
    arguments = ("--rate", "0.05", "--pattern", "hot_spot", "--hot-node", "5", "--hot-share", "0.5")
    hot, uniform = run(*arguments)["rates"][0], run("--rate", "0.05")["rates"][0]
    assert hot["hops"] < uniform["hops"]
    assert hot["packet_latency"] > 0


def test_a_permutation_comes_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text("# reversed\n" + "\n".join(str(15 - source) for source in range(16)))
    with_file = run("--rate", "0.1", "--pattern", "permutation", "--permutation", str(tmp_path / "p.txt"))
    assert with_file["rates"] == run("--rate", "0.1", "--pattern", "bit_complement")["rates"]


def test_files_hold_what_was_measured(tmp_path: Path) -> None:
    answer = run("--rate", "0.1,0.2", "--output", str(tmp_path))
    assert json.loads((tmp_path / "traffic.json").read_text()) == answer
    with (tmp_path / "traffic.csv").open() as file:
        assert [float(row["rate"]) for row in csv.DictReader(file)] == [0.1, 0.2]
    with (tmp_path / "links.csv").open() as file:
        links = list(csv.DictReader(file))
    assert len(links) == 48
    carried = answer["rates"][1]["flit_hops"]
    assert sum(int(link["flits"]) for link in links) == carried


def test_a_table_and_a_picture_in_text() -> None:
    done = CliRunner().invoke(traffic, ["--platform", MESH, "--rate", "0.1"], catch_exceptions=False)
    assert "uniform traffic on 16 NPUs" in done.output
    assert "load of links by router" in done.output


@pytest.mark.parametrize(
    ("text", "rates"), [("0.1", [0.1]), ("0.1,0.25", [0.1, 0.25]), ("0.1:0.3:0.1", [0.1, 0.2, 0.3]), ("1e-2:0.02:1e-2", [0.01, 0.02])]
)
def test_rates(text: str, rates: list[float]) -> None:
    assert parse_rates(text) == rates


@pytest.mark.parametrize("text", ["", "x", "0", "0.1,", "0.3:0.1:0.1", "0.1:0.2:0", "-1", "0:1:1e-9"])
def test_bad_rates_are_errors(text: str) -> None:
    with pytest.raises(InputError, match="--rate"):
        parse_rates(text)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--rate", "2"], "at most 1 flits"),
        (["--rate", "0.1", "--pattern", "tornadoes"], "did you mean 'tornado'"),
        (["--rate", "0.1", "--pattern", "permutation"], "needs --permutation FILE"),
        (["--rate", "0.1", "--packet-flits", "0"], "packet_flits is 0"),
        (["--rate", "0.1", "--periods", "0"], "periods is 0"),
        (["--rate", "0.1", "--pattern", "hot_spot", "--hot-node", "99"], "the hot spot is NPU 99"),
        (["--rate", "0.1", "--network", "plugin:analytical"], "only the packet network can run traffic"),
        (["--rate", "0.1", "--network", "plugin:packet?preset=booksim&vcs=0"], "vcs is 0"),
        (["--rate", "0.1", "--platform", "plugin:torus3d?npus=8&packages=4"], "traffic"),
    ],
)
def test_bad_options_are_errors(arguments: list[str], words: str) -> None:
    with pytest.raises(InputError, match=words):
        CliRunner().invoke(traffic, ["--platform", MESH, *arguments], catch_exceptions=False)


def test_bit_patterns_need_powers_of_two() -> None:
    platform = read_platform("plugin:mesh?sizes=3,2&link_bandwidth_gb_per_s=32")
    with pytest.raises(InputError, match="power of two of NPUs, not 6"):
        patterns.targets("bit_complement", platform)
    with pytest.raises(InputError, match="even number of bits"):
        patterns.targets("transpose", read_platform("plugin:mesh?sizes=8&link_bandwidth_gb_per_s=32"))


def test_any_topology_takes_traffic() -> None:
    wires = "link_bandwidth_gb_per_s=32&link_latency_ns=1"
    for spec in (f"plugin:fat_tree?arity=2&levels=3&{wires}", f"plugin:dragonfly?routers=2&{wires}", f"plugin:switch?size=4&{wires}"):
        load = sweep(read_platform(spec), BOOKSIM, "uniform", [0.1], LoadMeasurement())[0]
        assert load.stable
        assert load.packets > 0
