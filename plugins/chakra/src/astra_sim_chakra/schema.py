"""The MLCommons Chakra schema (et_def.proto): numbers of types, collectives, and attributes."""

from __future__ import annotations

import enum
import itertools

VERSION = "0.0.4"
"""The schema version that is written; 0.0.4 and all of 1 can be read, they are encoded alike."""


class NodeType(enum.IntEnum):
    """The action of a node."""

    INVALID_NODE = 0
    METADATA_NODE = 1
    MEM_LOAD_NODE = 2
    MEM_STORE_NODE = 3
    COMP_NODE = 4
    COMM_SEND_NODE = 5
    COMM_RECV_NODE = 6
    COMM_COLL_NODE = 7


class CollectiveType(enum.IntEnum):
    """The collective of a COMM_COLL_NODE: its attribute `comm_type`."""

    ALL_REDUCE = 0
    REDUCE = 1
    ALL_GATHER = 2
    GATHER = 3
    SCATTER = 4
    BROADCAST = 5
    ALL_TO_ALL = 6
    REDUCE_SCATTER = 7
    REDUCE_SCATTER_BLOCK = 8
    BARRIER = 9


_SCALARS = "double float int32 int64 uint32 uint64 sint32 sint64 fixed32 fixed64 sfixed32 sfixed64 bool string bytes".split()
MEMBERS = {3 + place: f"{scalar}_{form}" for place, (scalar, form) in enumerate(itertools.product(_SCALARS, ("val", "list")))}
"""The members of AttributeProto's oneof, by field number: double_val is 3, double_list 4, ..., bytes_list 32."""

ATTRIBUTES = {
    "is_cpu_op": "bool_val",
    "num_ops": "int64_val",
    "tensor_size": "uint64_val",
    "comm_type": "int64_val",
    "comm_priority": "int32_val",
    "comm_size": "int64_val",
    "comm_src": "int32_val",
    "comm_dst": "int32_val",
    "comm_tag": "int32_val",
    "pg_name": "string_val",
    "involved_dim": "bool_list",
    "astra_duration_rest_ns": "int32_val",
}
"""Attributes with a column of their own, and the member in which each is written (the one that ASTRA-sim 2.x reads).

`astra_duration_rest_ns` is ours: nanoseconds to add to `duration_micros`, which is whole microseconds.
"""

MIN_32, MAX_32, MAX_64 = -(2**31), 2**31 - 1, 2**63 - 1
LIMITS = {
    "is_cpu_op": (0, 1),
    "num_ops": (0, MAX_64),
    "tensor_size": (0, MAX_64),
    "comm_type": (0, max(CollectiveType)),
    "comm_priority": (MIN_32, MAX_32),
    "comm_size": (0, MAX_64),
    "comm_src": (0, MAX_32),
    "comm_dst": (0, MAX_32),
    "comm_tag": (MIN_32, MAX_32),
    "astra_duration_rest_ns": (-999, 999),
}
"""Smallest and largest value of each attribute that is a whole number."""

MAX_MESSAGE_BYTES = 1 << 26
"""No message of a trace may be longer."""

MAX_MICROSECONDS = MAX_64 // 1000
