"""The file format: a table of layers as a workload of astra."""

from __future__ import annotations

from typing import Any

from astra_sim import InputError

FIRST_LINE = "# before_format"
COLUMNS = "name,operations,gradient_bytes"


def recognises(text: str) -> bool:
    """Whether a text is of this format: by its first line."""
    return text.split("\n", 1)[0].strip() == FIRST_LINE


def read(text: str, path: str) -> dict[str, dict[str, Any]]:
    """The sections of an experiment that a file holds. Raises InputError, which names the line and the value."""
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1) if line.strip() and not line.startswith("#")]
    if not lines or lines[0][1] != COLUMNS:
        raise InputError(f"{path}: the heading is {lines[0][1] if lines else 'missing'!r}; expected {COLUMNS!r}")
    return {"workload": {"plugin": "layers", "loop": "data", "layers": [_layer(line, f"{path}:{number}") for number, line in lines[1:]]}}


def _layer(line: str, where: str) -> dict[str, Any]:
    cells = [cell.strip() for cell in line.split(",")]
    if len(cells) != len(COLUMNS.split(",")):
        raise InputError(f"{where}: {line!r} has {len(cells)} values; expected {COLUMNS}")
    name = cells[0]
    time, size = (_number(cell, column, where) for cell, column in zip(cells[1:], COLUMNS.split(",")[1:], strict=True))
    computed = {"operations": time}
    exchanged = {"collective": "all_reduce", "collective_bytes": size} if size else {}
    return {"name": name, "forward": computed, "input_gradient": computed, "weight_gradient": {**computed, **exchanged}}


def _number(cell: str, column: str, where: str) -> int:
    if not (cell.isascii() and cell.isdecimal()):
        raise InputError(f"{where}: {column} is {cell!r}; expected a whole number of at least 0")
    return int(cell)
