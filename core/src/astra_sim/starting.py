"""Fast start of short programs: programs of plugins run in it, as the command `astra` does."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

_OBJECTS_BEFORE_A_SEARCH = 100_000
"""New objects after which Python looks for circles among them. Modules make many that stay; runs leave no circles behind."""


@contextlib.contextmanager
def started_quickly() -> Iterator[None]:
    """Run a program, whose modules are imported in the block: garbage is sought rarely."""
    gc.set_threshold(_OBJECTS_BEFORE_A_SEARCH)
    yield


def end_quickly() -> None:
    """End without a garbage collection. After an error there is one: it leaves circles, with objects that warn if they stay."""
    gc.freeze()
