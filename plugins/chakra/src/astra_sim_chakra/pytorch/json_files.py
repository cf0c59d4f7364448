"""Reads the JSON of PyTorch, gzipped or not."""

from __future__ import annotations

from typing import Any

from astra_sim import InputError
from astra_sim.errors import reworded
from astra_sim.files import parse_json, read_packed_text


def read_json(path: str) -> dict[str, Any]:
    """The table in a file. Raises InputError."""
    text = read_packed_text(path)
    try:
        table = parse_json(text, path, once=False)
    except InputError as error:
        if text.rstrip().endswith("}"):
            raise
        hint = "execution traces of PyTorch 2.2 and before that were not closed (ExecutionTraceObserver.unregister_callback) end so"
        raise reworded(error, f"{error}; {hint}") from None
    if not isinstance(table, dict):
        raise InputError(f"{path}: expected a table, as PyTorch writes it")
    return table
