"""Reads the JSON of PyTorch, gzipped or not."""

from __future__ import annotations

import gzip
import json
import zlib
from typing import Any

from astra_sim import InputError
from astra_sim.files import note_input

_GZIP = b"\x1f\x8b"


def read_json(path: str) -> dict[str, Any]:
    """The table in a file. Raises InputError."""
    try:
        with open(path, "rb") as file:
            note_input(file.fileno())
            data = file.read()
        if data.startswith(_GZIP):
            data = gzip.decompress(data)
        table = json.loads(data)
    except json.JSONDecodeError as error:
        hint = "; execution traces of PyTorch 2.2 and before that were not closed (ExecutionTraceObserver.unregister_callback) end so"
        raise InputError(f"{path}:{error.lineno}: not JSON: {error.msg} (column {error.colno}){hint}") from None
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise InputError(f"{path}: the gzip file is damaged: {error}") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON: {error}") from None
    if not isinstance(table, dict):
        raise InputError(f"{path}: expected a table, as PyTorch writes it")
    return table
