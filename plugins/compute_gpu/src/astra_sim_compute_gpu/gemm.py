"""The time of products of matrices: tiles, and waves of them over a device's multiprocessors."""

from __future__ import annotations

from collections.abc import Sequence

from astra_sim.shapes import ELEMENT_BYTES, Gemm

from astra_sim_compute_gpu.device import GemmFit

TILES = ((256, 128), (128, 256), (128, 128), (256, 64), (64, 256), (128, 64), (64, 128), (64, 64))
"""Rows and columns of the product that one multiprocessor calculates at once."""

ALIGNMENT = ((64, 1.0), (32, 1.1), (16, 1.25), (8, 1.5), (1, 3.0))
"""The slowdown of a product if n or k is a multiple of no more than this. Guesses."""

NARROW_TILES = ((64, 32), (32, 64), (16, 64), (16, 128))
"""Further tiles of kernels for few rows."""

_PARTIAL_SUM_BYTES = 8
_LARGE, _MEDIUM = 256 * 128, 128 * 128


def output_bytes(gemm: Gemm, element_type: str) -> float:
    """Bytes read and written for an element of the product; products of narrow elements are written with 16 bits."""
    return _PARTIAL_SUM_BYTES if gemm.accumulate_fp32 else max(2, ELEMENT_BYTES[element_type])


def gemm_us(
    gemm: Gemm,
    element_type: str,
    fit: GemmFit,
    ops_per_us: float,
    multiprocessors: int,
    bytes_per_us: float,
    tiles: Sequence[tuple[int, int]] = TILES,
) -> float:
    """Microseconds of a product, start-up time not included. `ops_per_us` is the peak of the whole device."""
    out = output_bytes(gemm, element_type)
    depth = gemm.k + fit.k0 * out / 2
    wave_unit_us = 2 * depth * multiprocessors / ops_per_us
    computing = min(
        _waves(gemm.batch * -(-gemm.m // rows) * -(-gemm.n // columns) / multiprocessors, fit.tail)
        * (rows * columns * wave_unit_us / _efficiency(rows * columns, fit))
        for rows, columns in tiles
    )
    factors = gemm.input_elements + gemm.batch * gemm.k * gemm.n
    size = factors * ELEMENT_BYTES[element_type] + gemm.batch * gemm.m * gemm.n * out
    return max(computing * _alignment(gemm), size / (bytes_per_us * fit.byte_efficiency))


def _waves(filled: float, tail: float) -> float:
    """The number of waves of tiles: a last wave that is partly filled counts in part."""
    return max(1.0, filled + tail * (-(-filled // 1) - filled))


def _efficiency(tile: int, fit: GemmFit) -> float:
    if tile == _LARGE:
        return fit.large
    return fit.medium if tile == _MEDIUM else fit.small


def _alignment(gemm: Gemm) -> float:
    return next(factor for multiple, factor in ALIGNMENT if gemm.n % multiple == 0 and gemm.k % multiple == 0)
