"""Notices to authors of plugins: what they use will be gone (docs/plugins.md#what-stays-compatible)."""

from __future__ import annotations

import warnings


def deprecated(old: str, new: str, ends: str) -> None:
    """Warn whoever has called the caller that it uses something old, what takes its place, and in which series (X.Y) the old way ends."""
    warnings.warn(f"{old} is deprecated, and gone in astra {ends}; use {new}", DeprecationWarning, stacklevel=3)
