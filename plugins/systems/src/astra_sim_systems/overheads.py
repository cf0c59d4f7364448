"""The time of a processor for a message that it sends or receives, by the options of a system layer: LogGP's overhead o."""

from __future__ import annotations

from collections.abc import Callable

from astra_sim.units import PS_PER_NS


def overhead_of(fixed_ns: int, per_byte_ns: float) -> Callable[[int], int] | None:
    """A function of the bytes of a message: picoseconds spent on it, rounded; None if none takes any."""
    if not fixed_ns and not per_byte_ns:
        return None
    return lambda size: fixed_ns * PS_PER_NS + round(size * per_byte_ns * PS_PER_NS)
