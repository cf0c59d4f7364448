"""Replacing functions of torch."""

from __future__ import annotations

import sys
from typing import Any


def replace(function: Any, other: Any) -> None:
    """Replace a function of torch in all modules of torch that have it by its name."""
    own: str = function.__name__
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "torch" and vars(module).get(own) is function:
            setattr(module, own, other)
