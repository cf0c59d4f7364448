"""Warnings that come before a program has a log, such as those of its options: they are kept until it has one."""

from __future__ import annotations

import warnings
from typing import Any

_texts: list[str] = []


def _keep(message: Warning | str, *_: Any, **__: Any) -> None:
    _texts.append(str(message))


def keep() -> None:
    """Keep warnings from now on, and forget those of a program before."""
    _texts.clear()
    warnings.showwarning = _keep


def take() -> list[str]:
    """The texts of the warnings so far, which are then forgotten."""
    texts = list(_texts)
    _texts.clear()
    return texts
