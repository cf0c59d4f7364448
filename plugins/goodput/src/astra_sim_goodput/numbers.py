"""Files of numbers: one a line."""

from __future__ import annotations

import math

from astra_sim import InputError
from astra_sim.files import read_text


def read_numbers(path: str) -> list[float]:
    """The numbers of a file, one a line, at least one, all above 0. Raises InputError naming the line."""
    result = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if line.strip():
            try:
                value = float(line)
            except ValueError:
                value = math.nan
            if not 0 < value < math.inf:
                raise InputError(f"{path}: line {number} is {line.strip()!r}; expected a number above 0")
            result.append(value)
    if not result:
        raise InputError(f"{path}: no number; expected one a line")
    return result
