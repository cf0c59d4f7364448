"""Scaling in 32-bit floating point, as ASTRA-sim 1.0 scales what its files say."""

from __future__ import annotations

import struct

from astra_sim.errors import InputError


def scaled(value: float, factor: float) -> int:
    """trunc(float32(float32(value) * float32(factor))); 24 bits of the value survive, also with a factor of 1."""
    try:
        return int(_rounded(_rounded(value) * _rounded(factor)))
    except OverflowError:
        raise InputError(f"{value} * {factor} is too large for a 32-bit floating-point number") from None


def _rounded(value: float) -> float:
    rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    return rounded
