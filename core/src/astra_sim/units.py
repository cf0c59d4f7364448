"""Units and numbers: simulated time is counted in picoseconds, and ASTRA-sim's MB and GB are powers of two."""

from __future__ import annotations

import struct

PS_PER_NS = 1000
MIB = 2**20
GIB = 2**30


def single_precision(value: float) -> float:
    """The nearest 32-bit floating-point number, which has 24 bits. Raises OverflowError where the value is too large for one."""
    rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    return rounded
