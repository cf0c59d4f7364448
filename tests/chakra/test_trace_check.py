"""`astra trace check` and `repair`: errors of traces are found, and repaired traces run."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import astra_sim
import attrs
import pytest
from astra_sim import AstraError
from astra_sim_chakra import CollectiveType, Metadata, Node, NodeType, load_trace, write_nodes
from astra_sim_chakra.doctor.checking import check
from astra_sim_chakra.doctor.findings import KINDS, Severity, spans
from astra_sim_chakra.doctor.trace_set import open_traces
from astra_sim_chakra.messages import GlobalMetadata, NodeMessage
from astra_sim_chakra.wire import Attribute, delimited
from astra_sim_chakra.writer import encode_nodes
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import ROOT
from support.commands import Astra, command
from support.pytorch_traces import training_step
from support.traces import (
    PIPELINE_GROUPS,
    TEXT,
    collective,
    compute,
    converted_text,
    data_parallel,
    pipeline,
    receive,
    send,
    write_ranks,
)

Ranks = list[list[Node]]


@pytest.fixture
def astra(capsys: pytest.CaptureFixture[str]) -> Astra:
    return command(capsys)


def kinds(prefix: str, **options: Any) -> list[str]:
    """The kinds of findings, worst first."""
    return [finding.kind for finding in check(open_traces(prefix, **options)).findings]


def runs(prefix: str, **options: Any) -> bool:
    """Whether a run of the traces comes to an end."""
    try:
        astra_sim.simulate(
            workload=prefix,
            platform="plugin:switch?size=4&link_bandwidth_gb_per_s=50&link_latency_ns=500",
            memory="plugin:remote?latency_ns=1000&bandwidth_gb_per_s=100",
            **options,
        )
    except AstraError:
        return False
    return True


# -- One rank ----------------------------------------------------------------------------------------------------------

MEM = Node(id=1, type=NodeType.MEM_LOAD_NODE, tensor_size=1, data=(0,))


@pytest.mark.parametrize(
    ("nodes", "kind", "text"),
    [
        ([compute(0, 5000, 1), compute(1, 5000, 0)], "cycle", "node 0 'compute 0', which waits for node 1 'compute 1'"),
        ([compute(0, 5000, 0)], "cycle", "node 0 'compute 0', which waits for the first"),
        ([compute(0), attrs.evolve(compute(1, 5000, 0), id=0)], "duplicate_id", "2 nodes have this id; they are not equal"),
        ([compute(0), compute(0)], "duplicate_id", "they are equal in all fields"),
        ([compute(0, 5000, 7)], "missing_dependency", "data dependency 7 is no node of the file"),
        ([attrs.evolve(compute(0), control=(7,))], "missing_dependency", "control dependency 7"),
        ([compute(0), attrs.evolve(compute(1), control=(2,)), compute(2, 1, 1)], "control_cycle", "2 nodes can never begin"),
        ([attrs.evolve(compute(0), type=NodeType.INVALID_NODE)], "invalid_node", "INVALID_NODE"),
        ([attrs.evolve(collective(0, 64), comm_size=None)], "missing_field", "COMM_COLL_NODE needs comm_size"),
        ([attrs.evolve(collective(0, 64), comm_type=None)], "missing_field", "COMM_COLL_NODE needs comm_type"),
        ([attrs.evolve(MEM, id=0, data=(), tensor_size=None)], "missing_field", "MEM_LOAD_NODE needs tensor_size"),
        ([attrs.evolve(send(0, 1, 5), comm_dst=None)], "missing_field", "COMM_SEND_NODE needs comm_dst"),
        ([attrs.evolve(receive(0, 1, 5), comm_src=None)], "missing_field", "COMM_RECV_NODE needs comm_src"),
        ([collective(0, 64, kind=CollectiveType.BARRIER)], "unsupported_collective", "BARRIER"),
        ([collective(0, 0)], "empty_collective", "comm_size is 0"),
        ([], "no_nodes", "no nodes"),
    ],
)
def test_what_is_wrong_in_a_rank_is_found_and_stops_a_run(nodes: list[Node], kind: str, text: str, tmp_path: Path) -> None:
    prefix = write_ranks(tmp_path / "t", [nodes] * 4)
    (result,) = [finding for finding in check(open_traces(prefix)).findings if finding.kind == kind]
    assert text in result.text
    assert (result.severity, result.ranks) == (Severity.ERROR, (0, 1, 2, 3))
    assert not runs(prefix)


@pytest.mark.parametrize(
    ("nodes", "kind"),
    [
        ([collective(0, 64, kind=CollectiveType.BROADCAST)], "broadcast"),
        ([compute(0, 0, num_ops=None)], "zero_time"),
        ([compute(0, num_ops=None)], "no_work"),
        ([attrs.evolve(MEM, id=0, data=(), tensor_size=0)], "zero_size"),
        ([compute(0, 10**6, num_ops=10**6)], "unit_slip"),
        ([attrs.evolve(collective(0, 64), name="COMM_COLL_NODE_conv_NONE")], "none_as_all_reduce"),
    ],
)
def test_what_makes_figures_wrong_is_no_error(nodes: list[Node], kind: str, tmp_path: Path) -> None:
    prefix = write_ranks(tmp_path / "t", [nodes] * 4)
    assert kind in kinds(prefix)
    assert KINDS[kind].severity != Severity.ERROR
    assert runs(prefix)


def _with_duration(micros: int) -> bytes:
    return bytes(NodeMessage(id=1, type=4, duration_micros=micros).SerializeToString())


@pytest.mark.parametrize(
    ("message", "kind", "text"),
    [
        (_with_duration(2**64 - 5), "bad_value", "duration_micros is -5; expected 0 to"),
        (bytes(NodeMessage(id=1, type=11).SerializeToString()), "bad_value", "type is 11; expected 0 to 7"),
        (
            bytes(NodeMessage(id=1, type=7, attr=[{"name": "comm_size", "int64_val": -8}]).SerializeToString()),
            "bad_value",
            "comm_size is -8",
        ),
        (
            bytes(NodeMessage(id=1, type=7, attr=[{"name": "pg_name", "int64_val": 8}]).SerializeToString()),
            "bad_value",
            "pg_name is a int64",
        ),
        (b"\x0a\xff", "damaged_node", "message 1 of the file"),
    ],
)
def test_a_node_that_the_reader_refuses_is_named_and_the_others_are_read(message: bytes, kind: str, text: str, tmp_path: Path) -> None:
    head = delimited(bytes(GlobalMetadata(version="0.0.4").SerializeToString()))
    (tmp_path / "t.0.et").write_bytes(head + encode_nodes([compute(0)]) + delimited(message) + encode_nodes([compute(2)]))
    checked = check(open_traces(str(tmp_path / "t")))
    assert text in next(finding for finding in checked.findings if finding.kind == kind).text
    assert {0, 2} <= {node.id for node in checked.examined[0].trace.nodes}


def test_of_a_file_that_is_cut_off_what_is_before_the_cut_is_read(tmp_path: Path) -> None:
    write_ranks(tmp_path / "t", [data_parallel(0)])
    path = tmp_path / "t.0.et"
    path.write_bytes(path.read_bytes()[:-3])
    checked = check(open_traces(str(tmp_path / "t")))
    assert "the file ends in the middle of a message" in checked.findings[0].text
    assert [node.id for node in checked.examined[0].trace.nodes] == [0, 1, 2, 3, 4]


def test_control_dependencies_that_mlcommons_converter_leaves_are_a_note(tmp_path: Path) -> None:
    from_pytorch = Metadata("", (Attribute("schema", "string_val", "1.1.1-chakra.0.0.4"), Attribute("pid", "uint64_val", 3)))
    for rank in range(4):
        write_nodes(tmp_path / f"t.{rank}.et", [attrs.evolve(compute(0), control=(9,))], from_pytorch)
    assert kinds(str(tmp_path / "t")) == ["missing_control_dependency"]
    assert runs(str(tmp_path / "t"))


# -- Between ranks -----------------------------------------------------------------------------------------------------


def _changed(rank: int, make: Callable[[Node], Node | None], at: int) -> Ranks:
    ranks = [data_parallel(each) for each in range(4)]
    changed = make(ranks[rank][at])
    ranks[rank][at : at + 1] = [changed] if changed is not None else []
    return ranks


def _exchange(**fields: Any) -> Ranks:
    return [[send(0, 1, 64)], [receive(0, 0, **{"size": 64, **fields})], [compute(0)], [compute(0)]]


def _crossed(first: int, second: int) -> list[Node]:
    """Collectives in two groups, of which one waits for the other."""
    return [collective(0, 64, pg_name=str(first)), collective(1, 64, 0, pg_name=str(second))]


@pytest.mark.parametrize(
    ("ranks", "kind", "text"),
    [
        (_changed(2, lambda node: attrs.evolve(node, comm_size=7), 2), "collective_mismatch", "7 bytes (node 2 'all_reduce 2') on rank 2"),
        (
            _changed(2, lambda node: attrs.evolve(node, comm_type=CollectiveType.ALL_GATHER), 2),
            "collective_mismatch",
            "ALL_GATHER of 1048576",
        ),
        (
            _changed(3, lambda node: attrs.evolve(node, type=NodeType.COMP_NODE, duration_ns=1), 4),
            "collective_mismatch",
            "and none (it issues 1) on rank 3",
        ),
        (_exchange(size=65), "unmatched_send", "the nearest receive there has bytes 65 in place of 64"),
        (_exchange(comm_tag=3), "unmatched_receive", "the nearest send there has tag 0 in place of 3"),
        ([[send(0, 1, 64)], [compute(0)], [compute(0)], [compute(0)]], "unmatched_send", "rank 0 to 1, tag 0, 64 bytes"),
        ([[receive(0, 1, 64)], [compute(0)], [compute(0)], [compute(0)]], "unmatched_receive", "rank 1 to 0, tag 0, 64 bytes"),
        ([[send(0, 0, 64)], [compute(0)], [compute(0)], [compute(0)]], "message_to_itself", "comm_dst is the rank itself"),
        ([[send(0, 4, 64)], [compute(0)], [compute(0)], [compute(0)]], "peer_out_of_range", "comm_dst is 4; expected 0 to 3"),
        (
            [[receive(0, 1, 64), send(1, 1, 64, 0)], [receive(0, 0, 64), send(1, 0, 64, 0)], [compute(0)], [compute(0)]],
            "deadlock",
            "receive 0' of rank 0, which waits for node 1 'send 1' of rank 1",
        ),
    ],
)
def test_what_differs_between_ranks_is_found_and_stops_a_run(ranks: Ranks, kind: str, text: str, tmp_path: Path) -> None:
    prefix = write_ranks(tmp_path / "t", ranks)
    result = [finding for finding in check(open_traces(prefix)).findings if finding.kind == kind]
    assert text in result[0].text
    assert result[0].severity == Severity.ERROR
    assert not runs(prefix)


def test_collectives_of_two_groups_in_another_order_on_another_rank_are_a_deadlock(tmp_path: Path) -> None:
    ranks = [_crossed(1, 2), _crossed(2, 1), [collective(0, 64, pg_name="2")], [compute(0)]]
    prefix = write_ranks(tmp_path / "t", ranks)
    (tmp_path / "t.groups.json").write_text('{"1": [0, 1], "2": [0, 1, 2]}')
    assert kinds(prefix) == ["deadlock"]
    assert not runs(prefix, groups=f"{prefix}.groups.json")


def test_groups_are_read_beside_the_traces_and_say_who_must_take_part(tmp_path: Path) -> None:
    prefix = write_ranks(tmp_path / "t", pipeline)
    assert kinds(prefix) == ["groups_not_given", "groups_not_given"]
    assert not runs(prefix)
    (tmp_path / "t.groups.json").write_text(json.dumps(PIPELINE_GROUPS))
    assert kinds(prefix) == []
    assert runs(prefix, groups=f"{prefix}.groups.json")
    for table, expected in (
        ({"1": [0, 1, 2], "2": [2, 3]}, "collective_mismatch"),
        ({"1": [0, 2], "2": [2, 3]}, "not_a_member"),
        ({"1": [0, 1]}, "unknown_group"),
    ):
        (tmp_path / "g.json").write_text(json.dumps(table))
        assert expected in kinds(prefix, groups=str(tmp_path / "g.json"))
        assert not runs(prefix, groups=str(tmp_path / "g.json"))


def test_collectives_over_some_dimensions_are_compared_where_the_platform_is_known(tmp_path: Path) -> None:
    ranks = [[collective(0, 64 * (1 + rank // 2), involved_dim=(True, False))] for rank in range(4)]
    prefix = write_ranks(tmp_path / "t", ranks)
    assert kinds(prefix) == ["not_compared"]
    torus = "plugin:torus?sizes=2,2&link_bandwidth_gb_per_s=50&link_latency_ns=500"
    assert kinds(prefix, platform=torus) == []  # ranks 0 and 1 agree, and so do 2 and 3
    ranks[1] = [collective(0, 65, involved_dim=(True, False))]
    write_ranks(tmp_path / "t", ranks)
    assert kinds(prefix, platform=torus) == ["collective_mismatch"]


def test_missing_ranks_are_named(tmp_path: Path, astra: Astra) -> None:
    prefix = write_ranks(tmp_path / "t", data_parallel)
    (tmp_path / "t.2.et").unlink()
    findings = check(open_traces(prefix)).findings
    assert f"{prefix}.2.et is missing; there are 3 files, up to rank 3" in findings[0].text
    assert not runs(prefix)
    assert "there is no such trace" in astra("trace", "check", str(tmp_path / "none")).error


_BREAKS: tuple[Callable[[Node, int], Node], ...] = (
    lambda node, n: attrs.evolve(node, comm_size=None),
    lambda node, n: attrs.evolve(node, comm_size=(node.comm_size or 0) + n),
    lambda node, n: attrs.evolve(node, data=(n,)),
    lambda node, n: attrs.evolve(node, data=()),
    lambda node, n: attrs.evolve(node, id=n),
    lambda node, n: attrs.evolve(node, type=NodeType(n % 8)),
    lambda node, n: attrs.evolve(node, comm_type=n % 10),
    lambda node, n: attrs.evolve(node, control=(n,)),
    lambda node, n: attrs.evolve(node, comm_tag=n),
    lambda node, n: attrs.evolve(node, comm_dst=n % 5, comm_src=n % 5),
    lambda node, n: attrs.evolve(node, pg_name=("low", "high", "0", "none", None)[n % 5]),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_traces_have_errors_exactly_where_a_run_fails(tmp_path: Path, data: st.DataObject) -> None:
    """The judge is the simulator: whatever is broken in good traces, an error is found if, and only if, the run stops."""
    following = {rank: (rank + 1) % 4 for rank in range(4)}
    ranks = [
        [
            *data_parallel(rank),
            send(6, following[rank], 128, 5),
            receive(7, (rank - 1) % 4, 128, 0),
            attrs.evolve(MEM, id=8),
            collective(9, 512, 4, pg_name="low" if rank < 2 else "high"),
        ]
        for rank in range(4)
    ]
    (tmp_path / "t.groups.json").write_text('{"low": [0, 1], "high": [2, 3]}')
    for _ in range(data.draw(st.integers(0, 2))):
        rank, at = data.draw(st.integers(0, 3)), data.draw(st.integers(0, 9))
        ranks[rank][at] = data.draw(st.sampled_from(_BREAKS))(ranks[rank][at], data.draw(st.integers(0, 9)))
    prefix = write_ranks(tmp_path / "t", ranks)
    checked = check(open_traces(prefix))
    errors = [finding.text for finding in checked.findings if finding.severity == Severity.ERROR]
    in_doubt = {"order_by_time", "held_up"} & {finding.kind for finding in checked.findings}
    groups = f"{prefix}.groups.json"
    if errors or not in_doubt:  # else it depends on times
        assert runs(prefix, groups=groups) == (not errors), errors
    assert errors or in_doubt or runs(prefix, groups=groups, system="plugin:astra2")


def test_ranks_that_differ_in_ids_alone_are_told_together(tmp_path: Path) -> None:
    """Chakra's text converter counts ids through all ranks."""
    ranks = [[compute(10 * r, num_ops=None), collective(10 * r + 1, 64), collective(10 * r + 2, 128)] for r in range(4)]
    ranks = [[attrs.evolve(node, name="x") for node in nodes] for nodes in ranks]
    (result,) = check(open_traces(write_ranks(tmp_path / "t", ranks))).findings
    assert (result.kind, result.ranks, result.nodes) == ("no_work", (0, 1, 2, 3), (0,))


def test_orders_that_hang_on_time_are_a_warning(tmp_path: Path) -> None:
    """Rank 0 issues the second collective first, since its compute is longer."""
    ranks = [[compute(0, 900 if not rank else 9), collective(1, 64, 0), compute(2, 100), collective(3, 128, 2)] for rank in range(4)]
    ranks[0][2] = attrs.evolve(ranks[0][2], is_cpu_op=True)
    prefix = write_ranks(tmp_path / "t", ranks)
    assert set(kinds(prefix)) == {"order_by_time"}
    assert not runs(prefix)
    ordered = [[*nodes[:3], attrs.evolve(nodes[3], data=(1, 2))] for nodes in ranks]
    assert kinds(write_ranks(tmp_path / "t", ordered)) == []
    assert runs(prefix)


def test_an_operation_that_holds_up_what_it_needs_is_a_warning(tmp_path: Path) -> None:
    """Rank 1 begins the collective at once, and with it under way sends nothing; but rank 0 joins only with the message."""
    ranks = [[receive(0, 1, 64), collective(1, 64, 0)], [compute(0, 100), send(1, 0, 64, 0), collective(2, 64)], *[[collective(0, 64)]] * 2]
    prefix = write_ranks(tmp_path / "t", ranks)
    assert kinds(prefix) == ["held_up"]
    assert not runs(prefix, system="plugin:astra2")
    assert runs(prefix)
    assert runs(prefix, system="plugin:astra2?one_at_a_time=false")
    ranks[1][2] = collective(2, 64, 1)
    assert kinds(write_ranks(tmp_path / "t", ranks)) == []
    assert runs(prefix, system="plugin:astra2")


# -- Units -------------------------------------------------------------------------------------------------------------


def test_nanoseconds_that_the_text_converter_wrote_as_microseconds_are_proved_by_its_text(tmp_path: Path, astra: Astra) -> None:
    prefix = converted_text(tmp_path / "t", 2)
    assert "unit_slip" in kinds(prefix)
    done = astra("trace", "repair", prefix, "--output", str(tmp_path / "out"))
    assert "duration of compute divided by 1000, as the text in the metadata proves" in " ".join(done.out.split())
    # 100 us in the trace are 100 ns in the text.
    assert list(load_trace(tmp_path / "out" / "t.1.et").duration_ns) == [100, 400, 600, 500, 300]
    assert "unit_slip" not in kinds(str(tmp_path / "out" / "t"))


def test_what_mlcommons_text_converter_writes_is_mended_and_runs(tmp_path: Path, astra: Astra, monkeypatch: pytest.MonkeyPatch) -> None:
    """With MLCommons' own programs: the text converter, whose times slip and whose NONE is an all-reduce, and chakra_jsonizer."""
    converter = pytest.importorskip("chakra.src.converter.text_converter", exc_type=ImportError)
    jsonizer = pytest.importorskip("chakra.src.jsonizer.jsonizer", exc_type=ImportError)
    (tmp_path / "w.txt").write_text(TEXT.replace("DATA", "HYBRID_DATA_MODEL").replace("100 NONE 0", "100 ALLGATHER 64"))
    prefix = str(tmp_path / "w")
    converter.TextConverter(f"{prefix}.txt", prefix, 4, 2).convert()
    assert {"unit_slip", "none_as_all_reduce", "empty_collective"} <= set(kinds(prefix))
    assert astra("trace", "repair", prefix, "--output", str(tmp_path / "out")).status == 0
    assert runs(str(tmp_path / "out" / "w"))
    slipped, mended = (sum(load_trace(folder / "w.3.et").duration_ns) for folder in (tmp_path, tmp_path / "out"))
    assert slipped == 1000 * mended > 0
    monkeypatch.setattr("sys.argv", ["chakra_jsonizer", "--input_filename", f"{prefix}.1.et", "--output_filename", f"{prefix}.json"])
    jsonizer.main()
    assert list(load_trace(f"{prefix}.json").nodes()) == list(load_trace(f"{prefix}.1.et").nodes())


def test_times_that_differ_from_the_text_prove_nothing(tmp_path: Path) -> None:
    prefix = converted_text(tmp_path / "t", 2, (("conv", "FWD", 100), ("fc", "FWD", 401)))
    assert "unit_slip" not in kinds(prefix)


def test_times_are_divided_where_the_user_says_so(tmp_path: Path, astra: Astra) -> None:
    prefix = write_ranks(tmp_path / "t", data_parallel)
    astra("trace", "repair", prefix, "--output", str(tmp_path / "out"), "--times", "ns")
    assert list(load_trace(tmp_path / "out" / "t.3.et").duration_ns) == [5, 7, 0, 9, 0, 1]


# -- Repair ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "done", "left"),
    [
        ([compute(0), compute(0), compute(1, 5, 0)], "node removed that was there already", [compute(0), compute(1, 5, 0)]),
        ([attrs.evolve(compute(0), control=(9,))], "control dependency removed on a node that is not", [compute(0)]),
        ([compute(0, 5, 0)], "dependency of a node on itself removed", [compute(0, 5)]),
        (
            [compute(0), Node(id=1, type=NodeType.INVALID_NODE, data=(0,)), compute(2, 5, 1)],
            "INVALID_NODE without duration and size removed",
            [compute(0), compute(2, 5, 0)],
        ),
        (
            [compute(0), attrs.evolve(collective(1, 0, 0), name="COMM_COLL_NODE_fc_NONE"), compute(2, 5, 1)],
            "collective of 0 bytes that is NONE in the text",
            [compute(0), compute(2, 5, 0)],
        ),
        (
            [compute(0), attrs.evolve(compute(1), control=(0, 2)), compute(2, 5, 1)],
            "control dependency removed that closed a circle",
            [compute(0), attrs.evolve(compute(1), control=(0,)), compute(2, 5, 1)],
        ),
    ],
)
def test_what_is_safe_is_mended_and_then_runs(nodes: list[Node], done: str, left: list[Node], tmp_path: Path, astra: Astra) -> None:
    prefix = write_ranks(tmp_path / "t", [nodes] * 4)
    before = (tmp_path / "t.0.et").read_bytes()
    result = json.loads(astra("trace", "repair", prefix, "--output", str(tmp_path / "out"), "--json").out)
    assert [done in what for what in result["done"]["2"]] == [True]
    assert result["left"]["counts"]["error"] == 0
    assert list(load_trace(tmp_path / "out" / "t.2.et").nodes()) == left
    assert not runs(prefix)
    assert runs(str(tmp_path / "out" / "t"))
    assert (tmp_path / "t.0.et").read_bytes() == before


def test_what_cannot_be_mended_without_guessing_is_left_and_said(tmp_path: Path, astra: Astra) -> None:
    ranks = [[compute(0, 5, 7)], [compute(0), compute(0, 6)], [compute(0, 5, 1), compute(1, 5, 0)], [compute(0)]]
    prefix = write_ranks(tmp_path / "t", ranks)
    path = tmp_path / "t.3.et"
    path.write_bytes(path.read_bytes()[:-1])
    result = astra("trace", "repair", prefix, "--output", str(tmp_path / "out"))
    assert result.status == 1
    words = " ".join(result.out.split())
    assert "done: nothing" in words
    assert "not written: rank 3, of which something could not be read and would be lost" in words
    for kind in ("unreadable", "missing_dependency", "duplicate_id", "cycle"):
        assert f"error: {kind}." in words
    assert not (tmp_path / "out" / "t.3.et").exists()


def test_traces_are_not_mended_in_place(tmp_path: Path, astra: Astra) -> None:
    prefix = write_ranks(tmp_path / "t", data_parallel)
    assert "they are not changed in place" in astra("trace", "repair", prefix, "--output", str(tmp_path)).error


def test_good_traces_stay_as_they_are(tmp_path: Path, astra: Astra) -> None:
    prefix = write_ranks(tmp_path / "t", pipeline)
    (tmp_path / "t.groups.json").write_text(json.dumps(PIPELINE_GROUPS))
    astra("trace", "repair", prefix, "--output", str(tmp_path / "out"))
    for name in ("t.0.et", "t.1.et", "t.2.et", "t.3.et"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / name).read_bytes()
    assert json.loads((tmp_path / "out" / "t.groups.json").read_text()) == PIPELINE_GROUPS


# -- Output ------------------------------------------------------------------------------------------------------------


def test_findings_are_printed_and_written_as_json(tmp_path: Path, astra: Astra, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    prefix = write_ranks(tmp_path / "t", [[attrs.evolve(collective(0, 64), comm_size=None)]] * 4)
    done = astra("trace", "check", prefix, "--json")
    table = json.loads(done.out)
    assert (done.status, table["ranks"], table["nodes"]) == (1, 4, 4)
    assert table["counts"] == {"error": 1, "warning": 0, "note": 0}
    (finding,) = table["findings"]
    assert (finding["kind"], finding["severity"], finding["ranks"], finding["nodes"]) == ("missing_field", "error", [0, 1, 2, 3], [0])
    printed = astra("trace", "check", prefix)
    assert printed.status == 1
    assert max(map(len, printed.out.splitlines())) <= 80
    assert "ranks 0-3: node 0 'all_reduce 0': a COMM_COLL_NODE needs comm_size" in " ".join(printed.out.split())
    assert astra("trace", "check", prefix, "--quiet").out == ""
    good = write_ranks(tmp_path / "g", data_parallel)
    assert astra("trace", "check", good)[:2] == (0, "4 ranks, 24 nodes: no errors, no warnings, no notes\n")
    one = astra("trace", "check", f"{good}.3.et")
    assert (one.status, "one file: nothing was compared" in " ".join(one.out.split())) == (0, True)


def test_the_page_names_every_kind_and_how_bad_it_is() -> None:
    rows = [line for line in (ROOT / "docs" / "traces.md").read_text().splitlines() if line.startswith("| `")]
    for name, kind in KINDS.items():
        row = next(line for line in rows if f"`{name}`" in line)
        assert f"({kind.severity}" in row if kind.severity != Severity.ERROR else "(" not in row.split("|")[1]


def test_ranks_in_words() -> None:
    assert spans([3]) == "rank 3"
    assert spans([0, 1, 2, 8]) == "ranks 0-2, 8"


# -- Names of files ----------------------------------------------------------------------------------------------------


def gzipped(path: Path) -> None:
    """Put a gzipped file in the place of a file."""
    Path(f"{path}.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()


@pytest.mark.parametrize("extension", [".et", ".json"])
def test_gzipped_traces_are_looked_at_as_others_are(extension: str, tmp_path: Path, astra: Astra) -> None:
    prefix = write_ranks(tmp_path / "t", data_parallel)
    plain = json.loads(astra("trace", "check", prefix, "--json").out)
    stats = astra("trace", "stats", prefix).out
    for rank in range(plain["ranks"]):
        file = tmp_path / f"t.{rank}.et"
        if extension == ".json":
            assert astra("convert", str(file), str(file.with_suffix(".json"))).status == 0
            file.unlink()
        gzipped(file.with_suffix(extension))
    for name in (prefix, f"{prefix}{extension}.gz"):
        done = astra("trace", "check", name, "--json")
        assert {**json.loads(done.out), "trace": ""} == {**plain, "trace": ""}
        assert astra("trace", "stats", name).out == stats
    single = open_traces(f"{prefix}.1{extension}.gz")
    assert (single.prefix, list(single.traces), single.single) == (prefix, [1], True)
    assert not [each for each in check(single).findings if each.severity is Severity.ERROR]
    assert runs(prefix) == (plain["counts"]["error"] == 0)


def test_a_gzipped_trace_of_pytorch_is_called_one(tmp_path: Path, astra: Astra) -> None:
    host, _ = training_step(tmp_path)
    plain = astra("trace", "check", host)
    gzipped(Path(host))
    packed = astra("trace", "check", f"{host}.gz")
    assert "this is an execution trace of PyTorch" in " ".join(packed.out.split())
    assert (packed.status, packed.out) == (plain.status, plain.out)
    Path(f"{host}.gz").write_bytes(Path(f"{host}.gz").read_bytes()[:-20])
    assert "the gzip file was cut off" in " ".join(astra("trace", "check", f"{host}.gz").out.split())


@pytest.mark.parametrize(
    ("name", "prefix", "rank"),
    [
        ("t.4.et", "t", 4),
        ("t.4.json", "t", 4),
        ("t.4.et.gz", "t", 4),
        ("et-1.1.1-chakra.0.0.4.json", "et-1.1.1-chakra.0.0.4", 0),
        ("torch-2.4.json", "torch-2.4", 0),
        ("torch-2.4.json.gz", "torch-2.4", 0),
        ("step12.0.json", "step12", 0),
        ("step12.3.json", "step12", 3),  # rank 0 is beside it
        ("t.json", "t", 0),
        ("t.04.json", "t.04", 0),
    ],
)
def test_a_number_in_a_name_is_a_rank_only_where_it_is_one(name: str, prefix: str, rank: int, tmp_path: Path) -> None:
    for file in {name, "step12.0.json"}:
        (tmp_path / file).write_text("{}")
    opened = open_traces(str(tmp_path / name))
    assert (opened.prefix, list(opened.traces)) == (str(tmp_path / prefix), [rank])
