"""Scaling in 32-bit floating point, as ASTRA-sim scales the endpoint delay."""

from __future__ import annotations

from astra_sim import InputError
from astra_sim.units import single_precision


def scaled(value: float, factor: float) -> int:
    """trunc(float32(float32(value) * float32(factor))); 24 bits of the value survive, also with a factor of 1. Raises InputError."""
    try:
        return int(single_precision(single_precision(value) * single_precision(factor)))
    except OverflowError:
        raise InputError(f"{value} * {factor} is too large for a 32-bit floating-point number") from None
