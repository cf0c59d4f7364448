"""Units of time and bytes: simulated time is counted in whole picoseconds, and ASTRA-sim's MB and GB are powers of two."""

from __future__ import annotations

import struct

from astra_sim._boundary import MAX_PICOSECONDS, picoseconds
from astra_sim.errors import InputError

__all__ = ["GIB", "MAX_PICOSECONDS", "MIB", "PS_PER_NS", "picoseconds", "scaled_float32"]

PS_PER_NS = 1000
"""Picoseconds of a nanosecond."""
MIB = 2**20
"""Bytes of a mebibyte, which ASTRA-sim calls MB."""
GIB = 2**30
"""Bytes of a gibibyte, which ASTRA-sim calls GB."""


def scaled_float32(value: float, factor: float) -> int:
    """trunc(float32(float32(value) * float32(factor))), as ASTRA-sim 1.0 scales what its files say, whatever its unit.

    24 bits of the value survive, also with a factor of 1. Raises InputError where the product is too large for 32 bits.
    """
    try:
        return int(_rounded(_rounded(value) * _rounded(factor)))
    except OverflowError:
        raise InputError(f"{value} * {factor} is too large for a 32-bit floating-point number") from None


def _rounded(value: float) -> float:
    rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    return rounded
