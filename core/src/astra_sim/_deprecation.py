"""Warnings to authors of plugins about features that will be removed (docs/plugins.md#what-stays-compatible)."""

from __future__ import annotations

import warnings


def deprecated(old: str, new: str, ends: str) -> None:
    """Warn the caller's caller about an old feature, with its replacement, and the series (X.Y) in which it ends."""
    warnings.warn(f"{old} is deprecated, and gone in astra {ends}; use {new}", DeprecationWarning, stacklevel=3)
