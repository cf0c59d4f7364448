"""The classes of Chakra's messages: they do not clash with those of other packages, and only traces need them."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import astra_sim_chakra
import pytest
from astra_sim import InputError
from astra_sim_chakra import Metadata, Node, NodeType, trace_of, write_nodes
from astra_sim_chakra.trace_json import from_json, to_json
from astra_sim_chakra.wire import Attribute
from astra_sim_chakra.writer import encode_metadata
from hypothesis import given, settings
from hypothesis import strategies as st

OTHERS_CLASSES = """
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import Default
import astra_sim_chakra.messages as ours
from google.protobuf.descriptor_pb2 import FieldDescriptorProto
file = FileDescriptorProto(name="astra/chakra.proto", package="astra.chakra", syntax="proto3")
file.message_type.add(name="Node").field.add(name="id", number=2, type="TYPE_STRING", label="LABEL_OPTIONAL")
Default().Add(file)
assert Default().FindMessageTypeByName("astra.chakra.Node").fields_by_name["id"].number == 2
assert ours.NodeMessage(id=3).SerializeToString() == bytes((8, 3))
"""
HOOKS = """
import sys
import astra_sim_chakra.plugin
assert not {"google.protobuf", "astra_sim_chakra.messages", "numpy"} & set(sys.modules), sys.modules
from astra_sim_chakra import load_trace
assert "google.protobuf" not in sys.modules
from astra_sim_chakra import write_trace
assert "google.protobuf" in sys.modules
"""


@pytest.mark.parametrize("script", [OTHERS_CLASSES, HOOKS], ids=["other classes of the same name", "hooks and readers need no protobuf"])
def test_in_a_process_of_its_own(script: str) -> None:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_what_the_package_does_not_have_is_said() -> None:
    assert all(getattr(astra_sim_chakra, name).__name__ == name for name in astra_sim_chakra.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'load_traces'"):
        _ = astra_sim_chakra.load_traces


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"num_ops": 2**63}, r"num_ops: int64_val cannot hold 9223372036854775808"),
        ({"comm_tag": "1"}, r"comm_tag: int32_val cannot hold '1'"),
        ({"id": -1}, r"node -1: "),
        ({"data": (2**64,)}, r"node 0: "),
        ({"duration_ns": -1}, r"node 0: duration_ns is -1"),
    ],
)
def test_what_a_node_cannot_hold_is_named(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        trace_of([Node(**{"id": 0, "type": NodeType.COMP_NODE, **values})])


names = st.sampled_from(["id", "name", "type", "ctrlDeps", "data_deps", "durationMicros", "inputs", "values", "attr", "x"])
members = st.sampled_from(["name", "int64Val", "int32_val", "floatVal", "boolVal", "stringVal", "bytesVal", "boolList", "values"])
plain = (
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=4) | st.sampled_from(["COMP_NODE", "AA=="])
)
values = st.recursive(plain, lambda items: st.lists(items, max_size=3) | st.dictionaries(names | members, items, max_size=3), max_leaves=6)
attributes = st.dictionaries(members, values, max_size=2)
tables = st.dictionaries(names, values | st.lists(attributes, max_size=2), max_size=4)


@settings(max_examples=200, deadline=None)
@given(st.lists(tables | values, max_size=2), st.dictionaries(st.sampled_from(["version", "attr"]), values | st.lists(attributes)) | values)
def test_any_json_is_a_trace_or_an_error(nodes: list[Any], metadata: Any) -> None:
    try:
        results = from_json({"nodes": nodes, "metadata": metadata}, "x.json")
    except InputError as error:
        result = str(error)
    else:
        result = "x.json: " + "".join(to_json(results))
    assert result.startswith("x.json: ")


def test_lists_and_bytes_come_back_from_json() -> None:
    metadata = Metadata(
        "1.0", (Attribute("l", "int64_list", (1, 2**62)), Attribute("b", "bytes_val", b"\xff\x00"), Attribute("e", None, None))
    )
    trace = trace_of([Node(id=2**63, type=NodeType.COMP_NODE, name="ä")], metadata)
    text = "".join(to_json(trace))
    assert json.loads(text)["metadata"]["attr"][0] == {"name": "l", "int64List": {"values": [1, 2**62]}}
    back = from_json(json.loads(text), "x.json")
    assert (back.metadata, list(back.nodes())) == (trace.metadata, list(trace.nodes()))
    assert encode_metadata(back.metadata) == encode_metadata(metadata)


def test_writing_a_number_out_of_range_leaves_no_file(tmp_path: Any) -> None:
    with pytest.raises(ValueError, match="comm_size"):
        write_nodes(tmp_path / "a.et", [Node(id=0, type=NodeType.COMM_COLL_NODE, comm_size=2**64)])
    assert not list(tmp_path.iterdir())
