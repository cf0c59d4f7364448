"""The time of flash attention."""

from __future__ import annotations

import math

import attrs
from astra_sim.shapes import ELEMENT_BYTES, Attention

from astra_sim_compute_gpu.device import AttentionFit, PagedAttentionFit

_ROWS = 128
"""Queries that one multiprocessor works on at once."""

_HEAD_SIZES = (32, 64, 96, 128, 160, 192, 256)
"""Head sizes that kernels have: others are padded to the next (Dao-AILab/flash-attention, csrc/flash_attn/src/static_switch.h)."""

_SMALL_HEAD = 64

_FEW_QUERIES = 16
"""Queries of a sequence up to which one block of threads has all that share a key head."""


def flash_us(attention: Attention, element_type: str, fit: AttentionFit, share: float, multiprocessors: int, bytes_per_us: float) -> float:
    """Microseconds of a flash kernel, start-up time not included. `share`: factor on its rate.

    The rows that see most keys take longest. Multiprocessors wait for a part of that time at the end, and with few heads it is the least.
    Rows side by side calculate the windows of all of them. Heads are calculated as wide as kernels are, and read as wide as they are.
    """
    if attention.window is not None:
        attention = attrs.evolve(attention, window=attention.window + _ROWS - 1)
    size = attention.operand_bytes(ELEMENT_BYTES[element_type])
    attention = attrs.evolve(attention, head_size=_padded(attention.head_size), value_size=_padded(attention.values))
    keys = attention.most_keys
    ops_per_us = fit.peak_tera_ops_per_s * 1e6 * share * keys / (keys + fit.half_length)
    ops_per_us *= fit.small_head if attention.head_size <= _SMALL_HEAD else 1.0
    ops_per_us *= fit.backward if attention.backward else 1.0
    longest_us = _last_rows(attention) * multiprocessors / ops_per_us
    return max(attention.operations / ops_per_us + fit.tail * longest_us, longest_us, size / bytes_per_us)


def _padded(size: int) -> int:
    """The head size of the kernel for heads of a size; beyond all kernels their own."""
    return next((known for known in _HEAD_SIZES if size <= known), size)


def paged_us(
    attention: Attention,
    element_type: str,
    fits: tuple[AttentionFit, PagedAttentionFit],
    share: float,
    multiprocessors: int,
    bytes_per_us: float,
) -> float:
    """Microseconds of attention on the cache of an inference server, with its start-up time.

    It takes as long as its operations (as a flash kernel), the keys and values that it reads at a share of `bytes_per_us`, the bandwidth of
    the memory, or, if each sequence has one query or few, the waves of key heads on the multiprocessors.
    """
    flash, paged = fits
    computing = flash_us(attention, element_type, flash, share, multiprocessors, math.inf)
    reading = attention.operand_bytes(ELEMENT_BYTES[element_type]) / (paged.byte_efficiency * bytes_per_us)
    heads = attention.heads if attention.key_heads is None else attention.key_heads
    waves = -(-heads // multiprocessors) if attention.query_length <= _FEW_QUERIES else 0
    return paged.start_us + max(computing, reading, waves * paged.wave_us)


def _last_rows(attention: Attention) -> int:
    """Operations of the rows of a head that see most keys."""
    widths = attention.head_size + attention.values
    per_pair = widths + (2 * attention.head_size + attention.values if attention.backward else 0)
    return 2 * min(attention.query_length, _ROWS) * attention.most_keys * per_pair
