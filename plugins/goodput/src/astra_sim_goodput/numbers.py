"""Files of numbers: one a line."""

from __future__ import annotations

from astra_sim import InputError
from astra_sim.files import finite_number, read_text


def read_numbers(path: str) -> list[float]:
    """The numbers of a file, one a line, at least one, all above 0. Raises InputError naming the line."""
    result = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if line.strip():
            result.append(finite_number(line, f"{path}: line {number}", above=0))
    if not result:
        raise InputError(f"{path}: no number; expected one a line")
    return result
