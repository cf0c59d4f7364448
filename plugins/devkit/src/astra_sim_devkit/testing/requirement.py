"""A requirement of a contract."""

from __future__ import annotations

import json


def require(condition: object, message: str) -> None:
    """As assert, also if Python runs with -O: raise AssertionError with the message unless the condition holds."""
    if not condition:
        raise AssertionError(message)


def require_figures(figures: object, what: str) -> None:
    """Raise AssertionError unless these are figures by name that can be written as JSON, which has no NaN and no infinity."""
    right = isinstance(figures, dict) and all(isinstance(name, str) for name in figures)
    require(right, f"{what} {figures!r}; expected figures by name")
    try:
        json.dumps(figures, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise AssertionError(f"{what} {figures!r}; expected finite figures, and texts ({error})") from None
