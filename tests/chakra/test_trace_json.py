"""Traces in JSON of other programs: what chakra_jsonizer prints, and what Chakra's feeder takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import astra_sim
import pytest
from astra_sim import InputError
from astra_sim_chakra import NodeType, load_ranks, load_trace
from astra_sim_chakra.messages import GlobalMetadata, NodeMessage
from astra_sim_chakra.trace_json import parse_document
from astra_sim_chakra.writer import encode_node
from google.protobuf.json_format import MessageToJson
from support.commands import Astra, command
from support.traces import compute, data_parallel, write_ranks

SWITCH = "plugin:switch?size=4&link_bandwidth_gb_per_s=50&link_latency_ns=500"


@pytest.fixture
def astra(capsys: pytest.CaptureFixture[str]) -> Astra:
    return command(capsys)


def jsonized(path: Path, rank: int) -> None:
    """Write a trace as chakra_jsonizer does: protobuf's own JSON of each message, one after the other."""
    messages = [GlobalMetadata(version="0.0.4"), *(NodeMessage.FromString(encode_node(node)) for node in data_parallel(rank))]
    path.write_text("".join(map(MessageToJson, messages)))


def test_what_chakra_jsonizer_prints_is_the_same_trace(tmp_path: Path) -> None:
    prefix = write_ranks(tmp_path / "t", data_parallel)
    for rank in range(4):
        jsonized(tmp_path / f"j.{rank}.json", rank)
    other = load_ranks(tmp_path / "j")
    assert [other.path(rank) for rank in (0, 3)] == [f"{tmp_path}/j.0.json", f"{tmp_path}/j.3.json"]
    assert other.programs[0].digest == load_ranks(prefix).programs[0].digest
    assert load_trace(tmp_path / "j.0.json").metadata.version == "0.0.4"


def test_traces_in_json_run_as_workload_by_their_prefix(tmp_path: Path) -> None:
    prefix = write_ranks(tmp_path / "t", data_parallel)
    for rank in range(4):
        jsonized(tmp_path / f"j.{rank}.json", rank)
    runs = [astra_sim.simulate(workload=str(each), platform=SWITCH) for each in (prefix, tmp_path / "j")]
    assert runs[0].finish_ns == runs[1].finish_ns


def test_traces_in_json_are_checked_and_converted(tmp_path: Path, astra: Astra) -> None:
    for rank in range(4):
        jsonized(tmp_path / f"j.{rank}.json", rank)
    assert astra("trace", "check", str(tmp_path / "j")).status == 0
    assert astra("trace", "check", str(tmp_path / "j.2.json")).status == 0
    assert astra("convert", str(tmp_path / "j"), str(tmp_path / "e.et"), "--to", "chakra").status == 0
    assert list(load_trace(tmp_path / "e.3.et").nodes()) == data_parallel(3)
    assert astra("convert", str(tmp_path / "j.1.json"), str(tmp_path / "own.json")).status == 0
    assert [node["id"] for node in json.loads((tmp_path / "own.json").read_text())["nodes"]] == [0, 1, 2, 3, 4, 5]
    done = astra("convert", str(tmp_path / "j"), str(tmp_path / "w.toml"))
    assert (done.status, "cannot be expressed as layers" in done.error) == (2, True)


def test_protobuf_goes_before_json_of_the_same_prefix(tmp_path: Path) -> None:
    write_ranks(tmp_path / "t", [[compute(0)]])
    jsonized(tmp_path / "t.0.json", 0)
    assert len(load_ranks(tmp_path / "t").programs[0]) == 1


FEEDER = {
    "workload_graph": [
        {"Id": 3, "Name": "forward", "NodeType": 4, "runtime": 318, "data_deps": [], "is_cpu_op": True},
        {"Id": 7, "Name": "reduce", "NodeType": 7, "data_deps": [3], "is_cpu_op": False, "comm_type": 0, "comm_size": 64, "comm_tag": 2},
    ],
    "workload_name": "w",
    "ngpus": 1,
}


def test_the_json_of_chakras_feeder_has_runtimes_in_microseconds(tmp_path: Path) -> None:
    (tmp_path / "f.0.json").write_text(json.dumps(FEEDER))
    first, second = load_trace(tmp_path / "f.0.json").nodes()
    assert (first.id, first.name, first.type, first.duration_ns, first.is_cpu_op) == (3, "forward", NodeType.COMP_NODE, 318_000, True)
    assert (second.data, second.comm_type, second.comm_size, second.comm_tag) == ((3,), 0, 64, 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{\n"version": ""\n}{\n"id": "1",\n}', "j.0.json:5: not JSON"),
        ('{\n}{\n"id": 1\n}x', "j.0.json:4: 'x' follows an object"),
        ('{\n}{\n"ids": 1\n}', 'node number 0: Message type "astra.chakra.Node" has no field named "ids"'),
        ('{"workload_graph": [{"Id": 1, "Duration": 3}]}', "workload_graph: node number 0: unknown key 'Duration'; known: Id, Name"),
        ('{"workload_graph": [3]}', "workload_graph: node number 0 is 3; expected a table"),
        ("[]", "expected a table with nodes"),
    ],
)
def test_what_is_wrong_in_json_of_others_is_named(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "j.0.json").write_text(text)
    with pytest.raises(InputError) as caught:
        load_trace(tmp_path / "j.0.json")
    assert message in str(caught.value)


def test_a_file_of_one_object_stays_one(tmp_path: Path) -> None:
    document: Any = {"nodes": [], "metadata": {"version": "}\n{"}}
    assert parse_document(json.dumps(document, indent=1), "x") == document
