"""Traces from Chakra's text converter: the text of ASTRA-sim 1.0 that they were made from, and errors of times in it.

The converter writes the times of the text, which are nanoseconds (cycles of 1 GHz), into `duration_micros`. It names a node that computes
`COMP_NODE_<layer>_<FWD | BWD_IG | BWD_WG>`, and keeps the text as `input_file` in the metadata: so a slip can be proved.
"""

from __future__ import annotations

import re

from astra_sim_chakra.doctor.lenient import LenientTrace
from astra_sim_chakra.schema import CollectiveType, NodeType
from astra_sim_chakra.trace import Node

_COMPUTES = re.compile(r"COMP_NODE_(.*)_(FWD|BWD_IG|BWD_WG)", re.DOTALL)
_COLUMN = {"FWD": 2, "BWD_IG": 5, "BWD_WG": 8}
"""The column of the compute time of a pass in a line of the text."""


def slipped(trace: LenientTrace) -> list[Node]:
    """The nodes whose microseconds are the nanoseconds of the text; none if the trace does not hold its text, or one differs from it."""
    times = _times(trace.metadata.get("input_file"))
    nodes = []
    for node in trace.nodes if times else ():
        matched = _COMPUTES.fullmatch(node.name)
        if node.type != NodeType.COMP_NODE or matched is None or (matched[1], matched[2]) not in times:
            continue
        if node.duration_ns != 1000 * times[matched[1], matched[2]]:
            return []
        if node.duration_ns:
            nodes.append(node)
    return nodes


def is_none_collective(node: Node) -> bool:
    """Whether the text has no collective here: its converter makes an all-reduce of NONE."""
    named = node.name.startswith("COMM_COLL_NODE_") and node.name.endswith("_NONE")
    return named and node.type == NodeType.COMM_COLL_NODE and node.comm_type == CollectiveType.ALL_REDUCE


def _times(text: object) -> dict[tuple[str, str], int]:
    """Nanoseconds of each layer and pass in a text; layers that are there twice with other times are left out."""
    times: dict[tuple[str, str], int] = {}
    twice = set()
    for line in text.split("\n")[2:] if isinstance(text, str) else ():
        columns = line.split()
        if len(columns) < max(_COLUMN.values()) + 1:
            continue
        for training_pass, column in _COLUMN.items():
            if columns[column].isdecimal() and len(columns[column]) < 16:
                key, value = (columns[0], training_pass), int(columns[column])
                if times.setdefault(key, value) != value:
                    twice.add(key)
    return {key: value for key, value in times.items() if key not in twice}
