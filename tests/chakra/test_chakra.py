"""Chakra traces: what is written is read, in C++ and in Python alike, and what is broken is named."""

from __future__ import annotations

import copy
import gzip
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from astra_sim import InputError, InputWarning
from astra_sim_chakra import (
    Feeder,
    Metadata,
    Node,
    NodeType,
    Trace,
    load_ranks,
    load_trace,
    parse_trace,
    trace_of,
    write_nodes,
    write_trace,
)
from astra_sim_chakra.messages import AttributeProto, NodeMessage, attribute_message, attribute_of
from astra_sim_chakra.program import program_columns
from astra_sim_chakra.reader import has_compiled
from astra_sim_chakra.schema import ATTRIBUTES, MEMBERS, VERSION
from astra_sim_chakra.wire import Attribute, delimited
from astra_sim_chakra.writer import encode_metadata, encode_node, encode_nodes
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from support import ROOT

COMP, SEND, RECV, COLL = NodeType.COMP_NODE, NodeType.COMM_SEND_NODE, NodeType.COMM_RECV_NODE, NodeType.COMM_COLL_NODE
READERS = [pytest.param(False, id="python"), pytest.param(True, id="compiled", marks=pytest.mark.skipif(not has_compiled(), reason="pure"))]


def varint(value: int) -> bytes:
    """A number as protobuf writes it, seven bits a byte."""
    return bytes((value,)) if value < 0x80 else bytes((value & 0x7F | 0x80,)) + varint(value >> 7)


def number_field(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def bytes_field(number: int, value: bytes) -> bytes:
    return varint(number << 3 | 2) + delimited(value)


def attribute(name: str, member: str, value: Any) -> bytes:
    return bytes(attribute_message(name, member, value).SerializeToString())


HEAD = delimited(bytes_field(1, VERSION.encode()))


def file_of(*messages: bytes, head: bytes = HEAD) -> bytes:
    """A trace file of node messages."""
    return head + b"".join(map(delimited, messages))


def node(id: int, *deps: int, name: str = "", **values: Any) -> Node:
    return Node(id=id, name=name, type=values.pop("type", COMP), data=deps, **values)


def outcome(data: bytes, compiled: bool) -> Any:
    """What a reader makes of a file: everything in the trace, or the message."""
    try:
        trace = parse_trace(data, "t.et", keep=True, compiled=compiled)
    except InputError as error:
        return str(error)
    return trace.metadata, list(trace.nodes()), list(trace.order)


# -- Round trips -------------------------------------------------------------------------------------------------------

sizes = st.none() | st.integers(0, 2**63 - 1)
ranks = st.none() | st.integers(0, 2**31 - 1)
small = st.integers(-(2**31), 2**31 - 1)


@st.composite
def node_lists(draw: st.DrawFn) -> list[Node]:
    ids = draw(st.lists(st.integers(0, 40) | st.integers(0, 2**64 - 1), unique=True, max_size=8))
    order = draw(st.permutations(ids))
    result = {}
    for place, id in enumerate(order):
        earlier = st.lists(st.sampled_from(order[:place]), max_size=3).map(tuple) if place else st.just(())
        result[id] = Node(
            id=id,
            name=draw(st.text(max_size=8)),
            type=draw(st.sampled_from(NodeType)),
            duration_ns=draw(st.integers(0, 2**62)),
            control=draw(earlier),
            data=draw(earlier),
            is_cpu_op=draw(st.none() | st.booleans()),
            num_ops=draw(sizes),
            tensor_size=draw(sizes),
            comm_type=draw(st.none() | st.integers(0, 9)),
            comm_priority=draw(small),
            comm_size=draw(sizes),
            comm_src=draw(ranks),
            comm_dst=draw(ranks),
            comm_tag=draw(small),
            pg_name=draw(st.none() | st.text(max_size=4)),
            involved_dim=draw(st.none() | st.lists(st.booleans(), max_size=4).map(tuple)),
        )
    return [result[id] for id in ids]


@settings(max_examples=60, deadline=None)
@given(node_lists())
def test_what_is_written_is_read(nodes: list[Node]) -> None:
    data = file_of(*(encode_node(each) for each in nodes))
    for compiled in {False, has_compiled()}:
        trace = parse_trace(data, "t", keep=True, compiled=compiled)
        assert list(trace.nodes()) == nodes
        assert [trace.row(each.id) for each in nodes] == list(range(len(nodes)))
        places = {row: place for place, row in enumerate(trace.order)}
        assert sorted(places) == list(range(len(nodes)))
        assert all(places[other] < places[row] for row in places for other in trace.dependencies(row))


@pytest.mark.skipif(not has_compiled(), reason="pure")
@settings(max_examples=100, deadline=None)
@given(node_lists(), st.booleans(), st.sampled_from([{COMP}, {COMP, SEND, COLL}, set()]))
def test_programs(nodes: list[Node], repeated: bool, computing: set[NodeType]) -> None:
    """Nodes as a program, in Python and compiled: in an order that works, with priorities by id; what is alike is of one kind."""
    last = max((each.id for each in nodes), default=0)
    again = [evolve(each, id=(last + place + 1) % 2**64, name="again") for place, each in enumerate(nodes)]
    nodes = nodes + [each for each in again if repeated and each.id > last]
    trace = trace_of(nodes)
    does = bytes(kind in computing for kind in trace.type)
    result, compiled = program_columns(trace, does, compiled=False), program_columns(trace, does)
    for name in ("rows", "kinds", "kind_of", "works", "work_of"):
        assert list(getattr(result, name)) == list(getattr(compiled, name))
    after = [list(result.after[place]) for place in range(len(nodes))]
    assert after == [list(compiled.after[place]) for place in range(len(nodes))]
    assert sorted(result.rows) == list(range(len(nodes)))
    assert all(other < place for place, waits in enumerate(after) for other in waits)
    assert [[result.rows[other] for other in waits] for waits in after] == [trace.dependencies(row) for row in result.rows]
    nothing: dict[str, Any] = {"id": 0, "name": "", "control": (), "data": (), "comm_priority": 0}
    seen: dict[str, tuple[int, int]] = {}
    for place, row in enumerate(result.rows):
        each = trace.node(row)
        if each.type in computing:
            like = repr((each.type, each.is_cpu_op))
            work = repr((each.type, each.is_cpu_op, each.duration_ns, each.num_ops, each.tensor_size))
            assert seen.setdefault(f"work {work}", (result.work_of[place], row)) == (
                result.work_of[place],
                result.works[result.work_of[place]],
            )
        else:
            like = repr(evolve(each, duration_ns=0, num_ops=0, **nothing))
            assert result.work_of[place] == len(result.works)
        assert seen.setdefault(like, (result.kind_of[place], row)) == (result.kind_of[place], result.kinds[result.kind_of[place]])
    assert len(seen) == len(result.kinds) + len(result.works)
    by_id = sorted(range(len(nodes)), key=lambda row: nodes[row].id)
    in_order = all(nodes[other].id < nodes[row].id for row in by_id for other in trace.dependencies(row))
    assert (result.priorities is None) == (compiled.priorities is None) == in_order
    if result.priorities is None or compiled.priorities is None:
        assert list(result.rows) == by_id
    else:
        assert list(result.priorities) == list(compiled.priorities) == [by_id.index(row) for row in result.rows]


@pytest.mark.parametrize("kind", [SEND, RECV])
def test_messages_always_have_a_tag(kind: NodeType) -> None:
    """ASTRA-sim 2.x stops at a send or receive without one."""
    peers: dict[str, Any] = {"comm_dst": 1} if kind is SEND else {"comm_src": 1}
    assert b"comm_tag" in encode_node(Node(id=1, type=kind, comm_size=8, **peers))
    assert b"comm_tag" not in encode_node(Node(id=1, type=COLL, comm_size=8))


VALUES: dict[str, Any] = {
    "double": [0.5, -1e300],
    "float": [0.5, -2.0],
    "bool": [True, False],
    "string": ["", "a ä"],
    "bytes": [b"", b"\x00\xff"],
    **{name: [0, 1, -1, -(2**31), 2**31 - 1] for name in ("int32", "sint32", "sfixed32")},
    **{name: [0, 1, -1, -(2**63), 2**63 - 1] for name in ("int64", "sint64", "sfixed64")},
    **{name: [0, 2**32 - 1] for name in ("uint32", "fixed32")},
    **{name: [0, 2**64 - 1] for name in ("uint64", "fixed64")},
}


@pytest.mark.parametrize("member", MEMBERS.values())
def test_every_member_of_an_attribute_is_kept(member: str) -> None:
    values: list[Any] = VALUES[member.rpartition("_")[0]]
    for value in [tuple(values), ()] if member.endswith("_list") else values:
        assert attribute_of(AttributeProto.FromString(attribute("a", member, value))) == Attribute("a", member, value)


def test_fields_without_a_column_are_kept_when_asked(tmp_path: Path) -> None:
    others = number_field(6, 77) + bytes_field(8, bytes_field(1, b"[1]")) + bytes_field(10, attribute("stream", "int64_val", 7))
    write_nodes(tmp_path / "a.et", [node(0, others=others), node(1, 0)])
    trace = load_trace(tmp_path / "a.et", keep=True)
    assert [trace.others(row) for row in (0, 1)] == [others, b""]
    write_trace(tmp_path / "b.et", trace)
    assert (tmp_path / "b.et").read_bytes() == (tmp_path / "a.et").read_bytes()
    assert load_trace(tmp_path / "a.et").node(0).others == b""


def test_columns_of_communication_have_the_names_of_nodes_too() -> None:
    trace: Any = trace_of([Node(id=1, name="sum", type=NodeType.COMM_COLL_NODE, comm_type=0, comm_size=64)])
    assert (trace.comm_size[0], trace.comm_type[0], trace.comm_priority[0]) == (64, 0, trace.comm.priority[0])
    assert (trace.group, trace.groups, trace.involved, trace.relative_peers) == (
        trace.comm.group,
        trace.comm.groups,
        trace.comm.involved,
        trace.comm.relative,
    )
    with pytest.raises(AttributeError, match="'Trace' object has no attribute 'comm_bytes'"):
        _ = trace.comm_bytes
    assert copy.copy(trace).comm_size[0] == 64


def test_gzip_and_metadata(tmp_path: Path) -> None:
    metadata = Metadata("1.1", (Attribute("schema", "string_val", "1.1.0-chakra.0.0.4"), Attribute("pid", "uint64_val", 3)))
    write_nodes(tmp_path / "a.et", [node(0)], metadata, compress=True)
    assert (tmp_path / "a.et").read_bytes()[:2] == b"\x1f\x8b"
    trace = load_trace(tmp_path / "a.et")
    assert (trace.metadata, trace.metadata.get("pid"), len(trace)) == (metadata, 3, 1)


@pytest.mark.parametrize("compiled", READERS)
@pytest.mark.parametrize("member", [name for name in MEMBERS.values() if "int" in name or "fixed" in name])
def test_any_integer_member_is_read(member: str, compiled: bool) -> None:
    message = number_field(3, COLL) + bytes_field(10, attribute("comm_size", member, (1,) if member.endswith("_list") else 90))
    result = outcome(file_of(message), compiled)
    if member.endswith("_list"):
        assert result == f"t.et: node 0 '': comm_size is a {member}; expected a whole number"
    else:
        assert result[1][0].comm_size == 90


def test_attributes_are_written_in_the_members_that_astra_sim_2_reads() -> None:
    full = node(1, num_ops=1, tensor_size=1, comm_type=1, comm_priority=1, comm_size=1, comm_src=1, comm_dst=1, comm_tag=1, duration_ns=1)
    message = encode_node(full) + encode_node(node(1, is_cpu_op=True, pg_name="1", involved_dim=(True,)))
    for name, member in ATTRIBUTES.items():
        value: Any = {"bool_val": True, "string_val": "1", "bool_list": (True,)}.get(member, 1)
        assert attribute(name, member, value) in message


@pytest.mark.parametrize("compiled", READERS)
def test_durations_are_whole_microseconds_and_a_rest(compiled: bool) -> None:
    for duration in (0, 1, 499, 500, 999, 1000, 1499, 1500, 123456789):
        assert outcome(file_of(encode_node(node(0, duration_ns=duration))), compiled)[1][0].duration_ns == duration
    assert number_field(7, 2) in encode_node(node(0, duration_ns=1500))


@pytest.mark.parametrize("compiled", READERS)
def test_dependencies_may_be_packed_or_not_and_point_forward(compiled: bool) -> None:
    first = number_field(1, 5) + number_field(5, 9) + bytes_field(5, varint(7) + varint(9)) + number_field(4, 7)
    _, nodes, order = outcome(file_of(first, number_field(1, 9), number_field(1, 7)), compiled)
    assert (nodes[0].data, nodes[0].control) == ((9, 7, 9), (7,))
    assert order == [2, 1, 0]


# -- Damage ------------------------------------------------------------------------------------------------------------

NAMED = number_field(1, 3) + bytes_field(2, b"conv")


def attr(name: str, member: str, value: Any) -> bytes:
    return bytes_field(10, attribute(name, member, value))


BROKEN = {
    "empty": (b"", "the file is empty"),
    "length": (b"\xff" * 10, "varint of more than 64 bits"),
    "huge": (HEAD + varint(2**40), f"byte 8: a message of {2**40} bytes; expected at most {2**26}"),
    "huge head": (varint(2**40), f"a message of {2**40} bytes"),
    "truncated": (file_of(NAMED)[:-1], "byte 8: the file ends in the middle of a message, of which it has 8 bytes"),
    "no metadata": (file_of(NAMED, head=b""), "byte 0: the first message is no GlobalMetadata: "),
    "version": (file_of(head=varint(4) + bytes_field(1, b"23")), "version is '23'; expected Chakra 0.0.4 to 1"),
    "type": (file_of(NAMED + number_field(3, 8)), "node 3 'conv': type is 8; expected 0 to 7"),
    "twice": (file_of(NAMED, NAMED), "node 3 'conv': its id is that of an earlier node, node 3 'conv'"),
    "missing": (file_of(NAMED + number_field(5, 8)), "node 3 'conv': data dependency 8 is no node of the file"),
    "itself": (file_of(NAMED + number_field(4, 3)), "dependencies in a circle: node 3 'conv', which waits for the first"),
    "name": (file_of(number_field(2, 1)), "name is a varint; expected bytes with a length"),
    "utf8": (file_of(bytes_field(2, b"\xed\xa0\x80")), "name is not text in UTF-8"),
    "wire type": (file_of(varint(1 << 3 | 3)), "field 1 has wire type 3; expected 0, 1, 2 and 5"),
    "field 0": (file_of(varint(2)), "a field of number 0"),
    "beyond": (file_of(varint(2 << 3 | 2) + varint(2**40)), f"a field of {2**40} bytes where its message has 0 left"),
    "negative": (file_of(NAMED + attr("comm_size", "int64_val", -4)), "comm_size is -4; expected 0 to 9223372036854775807"),
    "large": (file_of(NAMED + attr("tensor_size", "uint64_val", 2**63)), "tensor_size is 9223372036854775808; expected 0 to"),
    "rank": (file_of(NAMED + attr("comm_dst", "int64_val", 2**31)), "comm_dst is 2147483648; expected 0 to 2147483647"),
    "collective": (file_of(NAMED + attr("comm_type", "int64_val", 10)), "node 3 'conv': comm_type is 10; expected 0 to 9"),
    "group": (file_of(NAMED + attr("pg_name", "int64_val", 1)), "pg_name is a int64_val; expected a string_val"),
    "dims": (file_of(NAMED + attr("involved_dim", "int32_list", (1,))), "involved_dim is a int32_list; expected a bool_list"),
    "text": (file_of(NAMED + attr("num_ops", "string_val", "9")), "num_ops is a string_val; expected a whole number"),
    "again": (file_of(NAMED + attr("num_ops", "int64_val", 9) * 2), "num_ops is given twice"),
    "duration": (file_of(NAMED + number_field(7, 2**63)), "duration_micros is 9223372036854775808; expected at most"),
    "rest": (file_of(NAMED + attr("astra_duration_rest_ns", "int32_val", -1)), "makes the duration negative"),
}


DAMAGED = ("utf8", "wire type", "field 0", "beyond")
"""Damage inside a message, of which the reader in Python says where it is, and what protobuf says."""


@pytest.mark.parametrize("compiled", READERS)
@pytest.mark.parametrize("name", BROKEN)
def test_what_is_wrong_is_named(name: str, compiled: bool) -> None:
    data, message = BROKEN[name]
    if not compiled and name in DAMAGED:
        message = f"byte 8: node of {len(data) - 9} bytes: protobuf cannot read it: "
    result = outcome(data, compiled)
    assert isinstance(result, str)
    assert result.startswith("t.et: ")
    assert message in result


@pytest.mark.parametrize("compiled", READERS)
def test_a_circle_is_named(compiled: bool) -> None:
    nodes = [node(0, name="start"), node(1, 0, 3, name="a"), node(2, 1, name="b"), node(3, 2, name="c"), node(4, 3, name="after")]
    result = outcome(file_of(*map(encode_node, nodes)), compiled)
    assert (
        result
        == "t.et: dependencies in a circle: node 1 'a', which waits for node 3 'c', which waits for node 2 'b', which waits for the first"
    )
    ring = [node(i, (i + 1) % 100) for i in range(100)]
    assert ", and 90 more, which waits for the first" in outcome(file_of(*map(encode_node, ring)), compiled)


def test_broken_gzip_is_named(tmp_path: Path) -> None:
    packed = gzip.compress(file_of(*(encode_node(node(i)) for i in range(50))))
    for data, message in ((packed[:-30], "was cut off"), (packed[:-8] + bytes(8), "damaged")):
        (tmp_path / "a.et").write_bytes(data)
        with pytest.raises(InputError, match=message):
            load_trace(tmp_path / "a.et")
    with pytest.raises(InputError, match="No such file"):
        load_trace(tmp_path / "b.et")


SAMPLE = file_of(
    *(
        encode_node(each)
        for each in [
            node(0, name="ä conv", duration_ns=1234, is_cpu_op=False, num_ops=2**40, tensor_size=300),
            node(1, 0, name="all_reduce", type=COLL, comm_type=0, comm_size=2**33, involved_dim=(True, False), pg_name="1"),
            node(2, 0, name="send", type=SEND, comm_src=0, comm_dst=1, comm_tag=-5, comm_size=9, comm_priority=-1),
            node(9, 1, 2, control=(7,), others=number_field(6, 5)),
            node(7, 1),
        ]
    )
)


DAMAGE = re.compile(r"t\.et: byte (\d+): (node of \d+ bytes|the first message is no GlobalMetadata): ")
"""How messages begin that say a message cannot be read."""


def agree(data: bytes) -> None:
    """Both readers make the same of a file: the same trace, or the same InputError.

    Where a message cannot be read, the compiled reader says more, or skips damage in a field that has no column.
    """
    python, compiled = outcome(data, False), outcome(data, has_compiled())
    damage, also = (DAMAGE.match(result) if isinstance(result, str) else None for result in (python, compiled))
    if damage is None:
        assert plain(compiled) == plain(python)
    elif also is not None:
        assert also[0] == damage[0] or int(also[1]) > int(damage[1])


def plain(found: Any) -> Any:
    """An outcome, with kept fields in the order in which protobuf writes them."""
    if isinstance(found, str):
        return found
    metadata, nodes, order = found
    return metadata, [evolve(each, others=NodeMessage.FromString(each.others).SerializeToString()) for each in nodes], order


def test_every_truncation_but_that_after_a_message_is_an_input_error() -> None:
    ends, at = [len(HEAD)], len(HEAD)
    for each in parse_trace(SAMPLE, "sample", keep=True).nodes():
        at += len(delimited(encode_node(each)))
        ends.append(at)
    assert ends.pop() == len(SAMPLE)
    for size in range(len(SAMPLE)):
        agree(SAMPLE[:size])
        assert size in ends or isinstance(outcome(SAMPLE[:size], False), str)


def test_bit_flips_give_the_same_everywhere() -> None:
    for place in range(len(SAMPLE) * 8):
        data = bytearray(SAMPLE)
        data[place // 8] ^= 1 << place % 8
        agree(bytes(data))


def test_random_bytes_give_the_same_everywhere() -> None:
    source = random.Random(7)
    for _ in range(1500):
        agree(HEAD + varint(40) + source.randbytes(40))
        agree(source.randbytes(source.randrange(30)))
        data = bytearray(SAMPLE)
        for _ in range(4):
            data[source.randrange(len(data))] = source.randrange(256)
        agree(bytes(data))


@pytest.mark.parametrize("compiled", READERS)
def test_traces_of_pytorch_may_forget_nodes_in_control_dependencies(compiled: bool) -> None:
    pytorch = encode_metadata(Metadata("", (Attribute("schema", "string_val", "1.1.1-chakra.0.0.4"), Attribute("pid", "uint64_val", 3))))
    nodes = [encode_node(node(1, control=(0,))), encode_node(node(2, 1, control=(1, 0, 1)))]
    assert "control dependency 0 is no node" in outcome(file_of(*nodes), compiled)
    trace = parse_trace(file_of(*nodes, head=delimited(pytorch)), "t", compiled=compiled)
    assert (trace.left_out, trace.node(0).control, trace.node(1).control, trace.node(1).data) == (2, (), (1, 1), (1,))
    missing = encode_node(node(3, 4))
    assert "data dependency 4" in outcome(file_of(missing, head=delimited(pytorch)), compiled)


# -- Feeder ------------------------------------------------------------------------------------------------------------


def test_a_feeder_gives_ready_nodes_in_ascending_ids() -> None:
    feeder = Feeder(trace_of([node(5), node(3), node(8, 5, 3), node(1, 5, control=(5,)), node(9, 8)]))
    assert feeder.ready() == [3, 5]
    assert (feeder.take(), feeder.take()) == (3, 5)
    with pytest.raises(ValueError, match="no node is ready; 2 are taken"):
        feeder.take()
    assert feeder.waiting_for(8) == [3, 5]
    assert feeder.done(5) == [1]
    assert feeder.waiting_for(8) == [3]
    assert feeder.done(3) == [8]
    assert feeder.ready() == [1, 8]
    with pytest.raises(ValueError, match="node 9 is not ready"):
        feeder.take(9)
    assert feeder.node(feeder.take(8)).data == (5, 3)
    assert feeder.done(8) == [9]
    with pytest.raises(ValueError, match="node 8 is not taken"):
        feeder.done(8)
    for id in (feeder.take(), feeder.take()):
        assert not feeder.finished
        feeder.done(id)
    assert feeder.finished


@settings(max_examples=30, deadline=None)
@given(node_lists())
def test_a_feeder_gives_every_node_once_after_its_dependencies(nodes: list[Node]) -> None:
    feeder = Feeder(trace_of(nodes))
    done: list[int] = []
    while not feeder.finished:
        id = feeder.take()
        assert set(feeder.node(id).data + feeder.node(id).control) <= set(done)
        feeder.done(id)
        done.append(id)
    assert sorted(done) == sorted(each.id for each in nodes)


# -- Ranks -------------------------------------------------------------------------------------------------------------


def pipeline(rank: int, stages: int, replicas: int) -> list[Node]:
    """A rank of a pipeline: receive from the stage before, compute, send to the stage after, reduce among replicas."""
    ranks, stage, nodes = stages * replicas, rank // replicas, []
    if stage:
        nodes.append(node(0, type=RECV, comm_src=(rank - replicas) % ranks, comm_size=8))
    nodes.append(node(1, *(each.id for each in nodes), duration_ns=5000 + stage))
    if stage < stages - 1:
        nodes.append(node(2, 1, type=SEND, comm_dst=(rank + replicas) % ranks, comm_size=8))
    return [*nodes, node(3, 1, type=COLL, comm_type=0, comm_size=64, pg_name=str(1 + stage))]


def test_ranks_that_do_the_same_share_a_program(tmp_path: Path) -> None:
    for rank in range(8):
        write_nodes(tmp_path / f"p.{rank}.et", pipeline(rank, 4, 2))
    traces = load_ranks(tmp_path / "p")
    assert traces.program_of == (0, 0, 1, 1, 2, 2, 3, 3)
    assert [traces.members(program) for program in range(4)] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert traces.programs[1].node(0).comm_src == 6
    assert traces.programs[1].node(2).comm_dst == 2
    assert traces.groups_of[5] == ("3",)
    for rank in range(8):
        assert list(traces.trace(rank).nodes()) == pipeline(rank, 4, 2)


def test_the_pipeline_of_the_examples_can_run_and_has_a_program_for_each_stage(tmp_path: Path) -> None:
    script = ROOT / "examples" / "make_pipeline_traces.py"
    subprocess.run([sys.executable, script, tmp_path / "new" / "p", "--microbatches", "5"], check=True)
    traces = load_ranks(tmp_path / "new" / "p", 8)
    assert traces.program_of == (0, 0, 1, 1, 2, 2, 3, 3)
    assert traces.groups_of[6:] == (("4",), ("4",))
    feeders = [Feeder(traces.trace(rank)) for rank in range(8)]
    sent: set[tuple[int, int | None, int, int | None]] = set()
    going = True
    while going:
        going = False
        for rank, feeder in enumerate(feeders):
            for each in map(feeder.node, feeder.ready()):
                if each.type is SEND:
                    sent.add((rank, each.comm_dst, each.comm_tag, each.comm_size))
                if each.type is not RECV or (each.comm_src, rank, each.comm_tag, each.comm_size) in sent:
                    feeder.done(feeder.take(each.id))
                    going = True
    assert all(feeder.finished for feeder in feeders)


def test_groups_and_peers_of_ranks_with_one_program_are_their_own(tmp_path: Path) -> None:
    for rank in range(4):
        ring = node(1, type=SEND, comm_dst=(rank + 1) % 4, comm_size=8)
        write_nodes(tmp_path / f"p.{rank}.et", [node(0, type=COLL, comm_type=0, comm_size=8, pg_name=str(rank // 2)), ring])
    traces = load_ranks(tmp_path / "p", 4)
    assert (len(traces.programs), traces.groups_of) == (1, (("0",), ("0",), ("1",), ("1",)))
    assert [traces.trace(rank).node(1).comm_dst for rank in range(4)] == [1, 2, 3, 0]
    assert traces.trace(3).node(0).pg_name == "1"


def test_files_with_the_same_bytes_share_everything_but_peers(tmp_path: Path) -> None:
    for rank in range(3):
        write_nodes(tmp_path / f"p.{rank}.et", [node(0)])
        write_nodes(tmp_path / f"q.{rank}.et", [node(0, type=SEND, comm_dst=2)])
    assert len(load_ranks(tmp_path / "p").programs) == 1
    assert [program.node(0).comm_dst for program in load_ranks(tmp_path / "q").programs] == [2, 1, 0]


def test_missing_ranks_and_wrong_peers_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"p: there are no traces; .*p\.0\.et"):
        load_ranks(tmp_path / "p")
    for rank in (0, 1, 3):
        write_nodes(tmp_path / f"p.{rank}.et", [node(4, name="s", type=SEND, comm_dst=3)])
    with pytest.raises(InputError, match=r"p\.2\.et is missing; expected ranks 0 to 3"):
        load_ranks(tmp_path / "p")
    with (
        pytest.warns(InputWarning, match=r"p\.3\.et: there are traces for 4 ranks; only those of ranks 0 to 1 run"),
        pytest.raises(InputError, match=r"p\.0\.et: node 4 's': comm_dst is 3; expected 0 to 1"),
    ):
        load_ranks(tmp_path / "p", 2)
    (tmp_path / "p.3.et").unlink()
    with pytest.raises(InputError, match=r"p\.0\.et: node 4 's': comm_dst is 3; expected 0 to 1"):
        load_ranks(tmp_path / "p")


# -- MLCommons' own package --------------------------------------------------------------------------------------------


def schema() -> Any:
    """The protobuf classes of mlc-chakra."""
    return pytest.importorskip("chakra.schema.protobuf.et_def_pb2", exc_type=ImportError)


@settings(max_examples=30, deadline=None)
@given(node_lists())
def test_what_is_written_here_is_what_protobuf_writes(nodes: list[Node]) -> None:
    classes = schema()
    for each in nodes:
        message = classes.Node.FromString(encode_node(each))
        assert (message.id, message.name, message.type) == (each.id, each.name, each.type)
        assert (tuple(message.ctrl_deps), tuple(message.data_deps)) == (each.control, each.data)
        for result in message.attr:
            assert result.WhichOneof("value") == ATTRIBUTES[result.name]
            if result.name not in ("involved_dim", "astra_duration_rest_ns"):
                assert getattr(result, ATTRIBUTES[result.name]) == getattr(each, result.name)
        again = message.SerializeToString()
        assert outcome(file_of(again), False) == outcome(file_of(encode_node(each)), False) or each.data or each.control


def test_what_protobuf_writes_is_read_here_and_the_other_way_round(tmp_path: Path) -> None:
    classes = schema()
    protolib = pytest.importorskip("chakra.src.third_party.utils.protolib", exc_type=ImportError)
    with open(tmp_path / "a.et", "wb") as file:
        protolib.encodeMessage(file, classes.GlobalMetadata(version="0.0.4"))
        first = classes.Node(id=1, name="x", type=classes.COMM_COLL_NODE, duration_micros=3)
        first.attr.append(classes.AttributeProto(name="comm_size", sint64_val=70))
        first.attr.append(classes.AttributeProto(name="involved_dim", bool_list=classes.BoolList(values=[True, False])))
        protolib.encodeMessage(file, first)
        protolib.encodeMessage(file, classes.Node(id=2, data_deps=[1], ctrl_deps=[1]))
    trace = load_trace(tmp_path / "a.et")
    assert trace.node(0) == node(1, name="x", type=COLL, duration_ns=3000, comm_size=70, involved_dim=(True, False))
    assert trace.node(1) == node(2, 1, control=(1,), type=NodeType.INVALID_NODE)
    write_trace(tmp_path / "b.et", trace)
    with open(tmp_path / "b.et", "rb") as file:
        metadata, message = classes.GlobalMetadata(), classes.Node()
        assert protolib.decodeMessage(file, metadata)
        assert metadata.version == "0.0.4"
        ids = []
        while protolib.decodeMessage(file, message):
            ids.append(message.id)
    assert ids == [1, 2]


def test_metadata_is_what_protobuf_writes() -> None:
    message = schema().GlobalMetadata(version="1.0")
    message.attr.add(name="n", int64_val=-3)
    assert encode_metadata(Metadata("1.0", (Attribute("n", "int64_val", -3),))) == message.SerializeToString()


def test_a_trace_made_of_nodes_is_checked() -> None:
    trace = trace_of([node(0), node(1, 0)], name="mine")
    assert isinstance(trace, Trace)
    assert encode_nodes(trace.nodes()) == encode_nodes([node(0), node(1, 0)])
    with pytest.raises(InputError, match="mine: node 1 '': data dependency 5"):
        trace_of([node(1, 5)], name="mine")
