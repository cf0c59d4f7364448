"""The command `astra flows`: files and patterns of messages, on every network."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import astra_sim
import pytest
from astra_sim_flows.flow_files import parse_flows
from astra_sim_flows.patterns import SIZES, PatternOptions, draw_size, make_flows, mean_size, size_table
from astra_sim_flows.running import Flow, check_order
from support.commands import Astra, command

STAR = ["--platform", "plugin:switch?size=4&link_bandwidth_gb_per_s=12.5&link_latency_ns=1000"]
ROCE = [*STAR, "--network", "plugin:roce"]
FILE = "id,src,dst,bytes,start_ns,after,pg\n0,0,1,1000,0,,3\nb,1,2,500,250,0,\n2,2,3,1,0,0 b,\n"


@pytest.fixture
def astra(capsys: pytest.CaptureFixture[str]) -> Astra:
    return command(capsys)


@pytest.fixture
def flows(tmp_path: Path) -> str:
    path = tmp_path / "flows.csv"
    path.write_text(FILE)
    return str(path)


def answer(astra: Astra, *arguments: str) -> Any:
    done = astra("flows", *arguments, "--json")
    assert done.status == 0, done.error
    return json.loads(done.out)


def test_flows_start_when_those_before_them_have_ended(astra: Astra, flows: str) -> None:
    result = answer(astra, *ROCE, "--flows", flows)
    first, second, third = result["flows"]
    assert [flow["id"] for flow in result["flows"]] == [0, "b", 2]
    assert first["start_ns"] == 0
    assert second["start_ns"] == first["end_ns"] + 250
    assert third["start_ns"] == second["end_ns"]
    assert set(first) == {"id", "start_ns", "received_ns", "end_ns", "packets", "acks", "nacks", "marked_acks"}
    assert (first["packets"], first["acks"], first["nacks"], first["marked_acks"]) == (1, 1, 0, 0)
    assert {key: result[key] for key in ("drops", "pfc_frames", "finish_ns")} == {"drops": 0, "pfc_frames": 0, "finish_ns": third["end_ns"]}


@pytest.mark.parametrize("network", ["analytical", "analytical?congestion=aware", "packet"])
def test_fields_that_a_network_does_not_have_are_null(network: str, astra: Astra, flows: str) -> None:
    result = answer(astra, *STAR, "--network", f"plugin:{network}", "--flows", flows)
    first, second, _ = result["flows"]
    assert first["received_ns"] == first["end_ns"] > 1000
    assert second["start_ns"] == first["end_ns"] + 250
    assert [first[key] for key in ("packets", "acks", "nacks", "marked_acks")] == [None] * 4
    assert (result["drops"], result["pfc_frames"]) == (None, None)


def test_json_lines_are_the_same_as_csv(astra: Astra, flows: str, tmp_path: Path) -> None:
    lines = [
        {"id": 0, "src": 0, "dst": 1, "bytes": 1000, "pg": 3},
        {"id": "b", "src": 1, "dst": 2, "bytes": 500, "start_ns": 250, "after": [0]},
        {"id": 2, "src": 2, "dst": 3, "bytes": 1, "after": [0, "b"]},
    ]
    path = tmp_path / "flows.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    assert answer(astra, *ROCE, "--flows", str(path)) == answer(astra, *ROCE, "--flows", flows)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("src,dst\n0,1\n", ":1: the column bytes is missing; expected src, dst, bytes"),
        ("src,dst,bytes,pq\n0,1,5,3\n", ":1: unknown column 'pq'; known: after"),
        ("src,dst,bytes\n0,4,5\n", ":2: dst is 4; expected a whole number from 0 to 3"),
        ("src,dst,bytes\n0,1\n", ":2: 2 cells under 3 headings"),
        ("src,dst,bytes\n1,1,5\n", ":2: src and dst are both 1; expected two NPUs"),
        ("src,dst,bytes\n0,1,-5\n", ":2: bytes is '-5'; expected a whole number from 0 to"),
        ("id,src,dst,bytes\n7,0,1,5\n7,0,1,5\n", ":3: id 7 is given again"),
        ("id,src,dst,bytes,after\n7,0,1,5,8\n", ":2: after names 8, which is no id of a flow"),
        ("src,dst,bytes,start_ns\n0,1,5,x\n", ":2: start_ns is 'x'; expected a number of at least 0, in ns"),
        ('{"src": 0, "dst": 1, "bytes": 5', ":1: not JSON"),
        ('{"src": 0, "dst": 1, "bytes": true}', ":1: bytes is True; expected a whole number"),
        ('{"src": 0, "dst": 1, "bytes": 1, "after": 3}', ":1: after is 3; expected a list of ids"),
        ("", "there is no flow; expected CSV with a heading of id, src"),
        (
            "id,src,dst,bytes,after\na,0,1,5,b\nb,0,1,5,a\n",
            ":2: flows wait for each other in a circle: 'a', which waits for 'b', which waits for the first",
        ),
    ],
)
def test_what_is_wrong_in_a_file_is_named(text: str, message: str, astra: Astra, tmp_path: Path) -> None:
    path = tmp_path / "flows.csv"
    path.write_text(text)
    done = astra("flows", *ROCE, "--flows", str(path))
    assert done.status == 2
    assert message in done.error


def test_either_a_file_or_a_pattern_is_needed(astra: Astra, flows: str) -> None:
    for arguments in ([], ["--flows", flows, "--pattern", "incast"]):
        done = astra("flows", *ROCE, *arguments)
        assert (done.status, "needs either --flows FILE or --pattern NAME" in done.error) == (2, True)


@pytest.mark.parametrize("pattern", ["incast", "permutation", "all_to_all", "poisson"])
def test_patterns_run_and_print_a_table(pattern: str, astra: Astra) -> None:
    done = astra("flows", *ROCE, "--pattern", pattern, "--bytes", "4K", "--count", "20", "--distribution", "1K:0.5,8K:1")
    assert done.status == 0, done.error
    assert "time to arrival (" in done.out
    assert "highest queue (bytes)" in done.out


def test_patterns_are_what_they_say() -> None:
    options = PatternOptions(bytes=7, target=2)
    assert {(flow.source, flow.destination) for flow in make_flows("incast", options, 4, 1.0)} == {(0, 2), (1, 2), (3, 2)}
    permutation = make_flows("permutation", options, 9, 1.0)
    assert sorted(flow.source for flow in permutation) == sorted(flow.destination for flow in permutation) == list(range(9))
    assert all(flow.source != flow.destination for flow in permutation)
    assert len({(flow.source, flow.destination) for flow in make_flows("all_to_all", options, 5, 1.0)}) == 20


def test_poisson_arrivals_load_the_interfaces() -> None:
    options = PatternOptions(flows=20_000, load=0.4, sizes="websearch")
    flows = make_flows("poisson", options, 16, 12.5)
    offered = sum(flow.bytes for flow in flows) / (flows[-1].start_ps / 1000) / (16 * 12.5)
    assert abs(offered / 0.4 - 1) < 0.05
    assert [flow.start_ps for flow in flows] == sorted(flow.start_ps for flow in flows)


def test_sizes_follow_their_distribution() -> None:
    table = size_table("1K:0.5,8K:1")
    assert (draw_size(table, 0.2), draw_size(table, 0.5), draw_size(table, 0.75), draw_size(table, 1.0)) == (1024, 1024, 4608, 8192)
    assert mean_size(table) == 1024 * 0.5 + (1024 + 8192) / 2 * 0.5
    assert size_table("websearch") == SIZES["websearch"]


def test_files_of_a_run(astra: Astra, flows: str, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    assert astra("flows", *ROCE, "--set", "network.pfc_log=true", "--flows", flows, "--output", str(folder), "--quiet").status == 0
    assert {path.name for path in folder.iterdir()} == {"flows.json", "flows.csv", "fct.txt", "pfc.txt", "links.csv"}
    rows = list(csv.DictReader((folder / "flows.csv").read_text().splitlines()))
    assert [row["id"] for row in rows] == ["0", "b", "2"]
    assert float(rows[0]["slowdown"]) == pytest.approx((float(rows[0]["received_ns"])) / (2000 + 1000 / 12.5))
    assert json.loads((folder / "flows.json").read_text())["finish_ns"] == float(rows[-1]["end_ns"])
    assert (folder / "fct.txt").read_text().splitlines()[0].split()[:6] == ["0b000001", "0b000101", "10000", "100", "1000", "0"]


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_other_separators_are_told(separator: str) -> None:
    text = "\n".join(separator.join(row) for row in (("src", "dst", "bytes"), ("0", "1", "5")))
    with pytest.raises(astra_sim.InputError, match=rf"f.csv:1: cells are separated by {re.escape(repr(separator))}; expected commas"):
        parse_flows(text, "f.csv", 4)


def test_flows_that_wait_for_each_other_are_named() -> None:
    """The circle alone, not what waits for it."""
    text = "id,src,dst,bytes,after\nx,0,1,5,c\na,0,1,5,c\nb,0,1,5,a\nc,1,2,5,b y\ny,0,1,5,\n"
    with pytest.raises(
        astra_sim.InputError, match=r"f.csv:5: .* in a circle: 'c', which waits for 'b', which waits for 'a', which waits for"
    ):
        parse_flows(text, "f.csv", 4)
    with pytest.raises(astra_sim.InputError, match=r"in a circle: number 2, which waits for the first"):
        check_order([Flow(0, 1, 5), Flow(0, 1, 5, 0, (1,))])
