"""Numbers in messages for people."""

from __future__ import annotations


def counted(count: int, word: str) -> str:
    """A count with its noun: `1 row`, `2,000 rows`."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"
