"""The time of flash attention."""

from __future__ import annotations

from astra_sim.shapes import ELEMENT_BYTES, Attention

from astra_sim_compute_gpu.device import AttentionFit

_ROWS = 128
"""Queries that one multiprocessor works on at once."""

_SMALL_HEAD = 64


def flash_us(attention: Attention, element_type: str, fit: AttentionFit, share: float, multiprocessors: int, bytes_per_us: float) -> float:
    """Microseconds of a flash kernel, start-up time not included. `share`: factor on its rate.

    The rows that see all keys take longest. Multiprocessors wait for a part of that time at the end, and with few heads it is the least.
    """
    ops_per_us = fit.peak_tera_ops_per_s * 1e6 * share * attention.key_length / (attention.key_length + fit.half_length)
    ops_per_us *= fit.small_head if attention.head_size <= _SMALL_HEAD else 1.0
    ops_per_us *= fit.backward if attention.backward else 1.0
    size = attention.operand_bytes(ELEMENT_BYTES[element_type])
    longest_us = _last_rows(attention) * multiprocessors / ops_per_us
    return max(attention.operations / ops_per_us + fit.tail * longest_us, longest_us, size / bytes_per_us)


def _last_rows(attention: Attention) -> int:
    """Operations of the rows of a head that see all keys."""
    widths = attention.head_size + attention.values
    per_pair = widths + (2 * attention.head_size + attention.values if attention.backward else 0)
    return 2 * min(attention.query_length, _ROWS) * attention.key_length * per_pair
