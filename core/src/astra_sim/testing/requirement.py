"""What a contract asks for."""

from __future__ import annotations


def require(condition: object, message: str) -> None:
    """As assert, also where Python runs with -O: raise AssertionError with the message unless the condition holds."""
    if not condition:
        raise AssertionError(message)
