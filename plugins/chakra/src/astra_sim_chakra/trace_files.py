"""Loads a trace from a file: protobuf (*.et) or JSON (*.json)."""

from __future__ import annotations

import os

from astra_sim.files import read_text

from astra_sim_chakra.reader import read_trace
from astra_sim_chakra.trace import Trace
from astra_sim_chakra.trace_json import from_json, parse_document

JSON = ".json"


def load_trace(path: str | os.PathLike[str], *, keep: bool = False, dependencies: str = "both", compiled: bool | None = None) -> Trace:
    """The trace in a file: JSON if its name ends in .json, else protobuf, gzipped or not.

    `keep`: keep fields and attributes without a column, so that they can be written again. `dependencies`: "both", or
    "data" to ignore control dependencies. `compiled`: use the compiled reader (None: where it is installed).
    Raises InputError, naming the file, the node and what was expected.
    """
    name = os.fspath(path)
    if not name.endswith(JSON):
        return read_trace(name, keep=keep, dependencies=dependencies, compiled=compiled)
    return from_json(parse_document(read_text(name), name), name, keep=keep, dependencies=dependencies, compiled=compiled)
