"""Random checks: one module for each class of defects that was found once, so that its siblings are found, too.

A module defines `check(seed, folder)`, which builds one random case from the seed, writes what it needs to the empty `folder`, and returns
a line for each property that does not hold (an empty list if all hold). The same seed always gives the same case. `IN_TESTS` is how many
seeds `tests/core/test_random_checks.py` runs; `IN_NIGHTLY` is how many `bash .ci/nightly` runs.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, cast


class RandomCheck(Protocol):
    """What a module of this package defines."""

    IN_TESTS: int
    IN_NIGHTLY: int

    def check(self, seed: int, folder: Path) -> list[str]:
        """Run the case of a seed, and list the properties that do not hold."""
        ...


def names() -> list[str]:
    """The names of all random checks."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))


def load(name: str) -> RandomCheck:
    """The random check of that name."""
    return cast(RandomCheck, importlib.import_module(f"{__name__}.{name}"))


def violations(check: RandomCheck, seeds: range, folder: Path) -> Iterator[tuple[int, list[str]]]:
    """Run the cases of some seeds, and give each seed with what does not hold."""
    for seed in seeds:
        place = folder / str(seed)
        place.mkdir()
        yield seed, check.check(seed, place)
