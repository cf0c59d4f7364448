"""Loads a trace from a file: protobuf (*.et) or JSON (*.json), gzipped (*.et.gz, *.json.gz, or by any of these names) or not."""

from __future__ import annotations

import os
from typing import Any

from astra_sim.files import read_packed_text

from astra_sim_chakra.reader import read_trace
from astra_sim_chakra.trace import Trace

JSON = ".json"
GZIP = ".gz"
"""Possible endings of the name of a gzipped file, behind its own extension."""


def is_json(path: str) -> bool:
    """Whether a trace is JSON, by the name of its file."""
    return path.removesuffix(GZIP).endswith(JSON)


def read_document(path: str) -> Any:
    """The value of a JSON file, gzipped or not. Raises InputError."""
    from astra_sim_chakra.trace_json import parse_document

    return parse_document(read_packed_text(path), path)


def load_trace(path: str | os.PathLike[str], *, keep: bool = False, dependencies: str = "both", compiled: bool | None = None) -> Trace:
    """The trace in a file: JSON if its name ends in .json or .json.gz, else protobuf; gzipped or not.

    `keep`: keep fields and attributes without a column, so that they can be written again. `dependencies`: "both", or
    "data" to ignore control dependencies. `compiled`: use the compiled reader (None: if it is installed).
    Raises InputError, naming the file, the node and the expected value.
    """
    name = os.fspath(path)
    if not is_json(name):
        return read_trace(name, keep=keep, dependencies=dependencies, compiled=compiled)
    from astra_sim_chakra.trace_json import from_json

    return from_json(read_document(name), name, keep=keep, dependencies=dependencies, compiled=compiled)
