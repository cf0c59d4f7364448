"""Units of time and bytes: simulated time is counted in whole picoseconds, and ASTRA-sim's MB and GB are powers of two.

Example:

    >>> from astra_sim.units import GIB, MAX_PICOSECONDS, MIB, PS_PER_NS, parse_size, picoseconds
    >>> parse_size("64MiB", "bytes") == 64 * MIB, parse_size("1G", "bytes") == GIB
    (True, True)
    >>> parse_size("64 MX", "bytes")
    Traceback (most recent call last):
        ...
    astra_sim.errors.InputError: bytes: '64 MX' is no size; expected at least 1 byte, such as 8B, 64KiB or 1GiB
    >>> picoseconds(2.5 * PS_PER_NS, "network bus: the delay")
    2500
    >>> picoseconds(float("nan"), "network bus: the delay")
    Traceback (most recent call last):
        ...
    astra_sim.errors.PluginError: network bus: the delay is nan; expected a time of at least 0
    >>> round(MAX_PICOSECONDS / 1e12 / 86400)  # days that a run can simulate
    107
"""

from __future__ import annotations

import re
import struct

from astra_sim._boundary import MAX_PICOSECONDS, picoseconds
from astra_sim.errors import InputError

__all__ = [
    "GIB",
    "MAX_PICOSECONDS",
    "MIB",
    "PS_PER_NS",
    "parse_size",
    "picoseconds",
]

PS_PER_NS = 1000
"""Picoseconds of a nanosecond."""
MIB = 2**20
"""Bytes of a mebibyte, which ASTRA-sim calls MB."""
GIB = 2**30
"""Bytes of a gibibyte, which ASTRA-sim calls GB."""


_SIZES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def parse_size(text: str, where: str) -> int:
    """A size in bytes, such as 8B, 64KiB, 1M, 8 GiB, if K, M, G and T are powers of 1024. Raises InputError, naming `where`."""
    match = re.fullmatch(r"\s*(\d{1,18})\s*([KMGT]?)(?:i?B)?\s*", text, re.IGNORECASE | re.ASCII)
    size = int(match[1]) * _SIZES[match[2].upper()] if match else 0
    if not 1 <= size < 1 << 60:
        raise InputError(f"{where}: {text.strip()!r} is no size; expected at least 1 byte, such as 8B, 64KiB or 1GiB")
    return size


def scaled_float32(value: float, factor: float) -> int:
    """trunc(float32(float32(value) * float32(factor))), as ASTRA-sim 1.0 scales numbers of its files, whatever their unit.

    24 bits of the value survive, also with a factor of 1. Raises InputError if the product is too large for 32 bits.
    """
    try:
        return int(_rounded(_rounded(value) * _rounded(factor)))
    except OverflowError:
        raise InputError(f"{value} * {factor} is too large for a 32-bit floating-point number") from None


def _rounded(value: float) -> float:
    rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    return rounded
