"""MLCommons Chakra execution traces: reading, writing, feeding, and converting them.

from astra_sim_chakra import Feeder, load_ranks, load_trace

traces = load_ranks("traces/gpt3")      # traces/gpt3.0.et, traces/gpt3.1.et, ...
traces.programs, traces.program_of      # ranks that do the same share a program
trace = load_trace("traces/gpt3.0.et")
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from astra_sim_chakra.feeder import Feeder
    from astra_sim_chakra.ranks import RankTraces, load_ranks
    from astra_sim_chakra.reader import parse_trace
    from astra_sim_chakra.schema import CollectiveType, NodeType
    from astra_sim_chakra.trace import Metadata, Node, Trace
    from astra_sim_chakra.trace_files import load_trace
    from astra_sim_chakra.writer import trace_of, write_nodes, write_trace

_MODULES = {
    "feeder": ("Feeder",),
    "ranks": ("RankTraces", "load_ranks"),
    "reader": ("parse_trace",),
    "schema": ("CollectiveType", "NodeType"),
    "trace": ("Metadata", "Node", "Trace"),
    "trace_files": ("load_trace",),
    "writer": ("trace_of", "write_nodes", "write_trace"),
}
"""Modules are imported at the first use of one of their names: the hooks are in this package too, and `astra --help` needs no protobuf."""

__all__ = [
    "CollectiveType",
    "Feeder",
    "Metadata",
    "Node",
    "NodeType",
    "RankTraces",
    "Trace",
    "load_ranks",
    "load_trace",
    "parse_trace",
    "trace_of",
    "write_nodes",
    "write_trace",
]


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
