"""Loads a trace from a file: protobuf (*.et) or JSON (*.json), gzipped (*.et.gz, *.json.gz, or by any of these names) or not."""

from __future__ import annotations

import gzip
import os
import zlib
from typing import Any

from astra_sim import InputError
from astra_sim.files import read_text

from astra_sim_chakra.reader import read_trace
from astra_sim_chakra.trace import Trace
from astra_sim_chakra.trace_json import from_json, parse_document

JSON = ".json"
GZIP = ".gz"
"""What the name of a gzipped file may end in, behind its own extension."""
_GZIPPED = b"\x1f\x8b"


def is_json(path: str) -> bool:
    """Whether a trace is JSON, by the name of its file."""
    return path.removesuffix(GZIP).endswith(JSON)


def read_document(path: str) -> Any:
    """What a file of JSON holds, gzipped or not. Raises InputError."""
    try:
        with open(path, "rb") as file:
            packed = file.read(2) == _GZIPPED
        if not packed:
            return parse_document(read_text(path), path)
        with gzip.open(path, "rt", encoding="utf-8-sig") as text:
            return parse_document(text.read(), path)
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise InputError(f"{path}: the gzip file is damaged: {error}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not a text file") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None


def load_trace(path: str | os.PathLike[str], *, keep: bool = False, dependencies: str = "both", compiled: bool | None = None) -> Trace:
    """The trace in a file: JSON if its name ends in .json or .json.gz, else protobuf; gzipped or not.

    `keep`: keep fields and attributes without a column, so that they can be written again. `dependencies`: "both", or
    "data" to ignore control dependencies. `compiled`: use the compiled reader (None: where it is installed).
    Raises InputError, naming the file, the node and what was expected.
    """
    name = os.fspath(path)
    if not is_json(name):
        return read_trace(name, keep=keep, dependencies=dependencies, compiled=compiled)
    return from_json(read_document(name), name, keep=keep, dependencies=dependencies, compiled=compiled)
