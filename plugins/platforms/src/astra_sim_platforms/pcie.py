"""Bandwidths of PCI Express."""

from __future__ import annotations

_ENCODING = ((64.0, 1.0), (8.0, 128 / 130), (0.0, 8 / 10))
"""The share of the bits on a lane that carry bytes, from a rate in GT/s on."""


def lane_bytes_per_ns(transfers: float) -> float:
    """Bytes/ns of a lane: 10^9 transfers of a bit per second, less the encoding's overhead (PCI Express Base Specification)."""
    return transfers * next(share for least, share in _ENCODING if transfers >= least) / 8
