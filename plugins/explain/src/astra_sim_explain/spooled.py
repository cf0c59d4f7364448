"""Results of runs that are over, in files of a folder, so that memory does not grow with runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import overload

from astra_sim import Result
from astra_sim.experiments import Spool


class SpooledResults(Sequence[Result]):
    """Results in files of a folder, each read whenever it is asked for, so that memory does not grow with their number."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._count = 0

    def append(self, result: Result) -> None:
        """Put a result behind the others. Raises RunError."""
        result.spooled(self._path(self._count))
        self._count += 1

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> Result: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Result]: ...
    def __getitem__(self, place: int | slice) -> Result | Sequence[Result]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(self._count))]
        return Spool(self._path(range(self._count)[place])).result()

    def _path(self, number: int) -> str:
        return os.path.join(self._folder, str(number + 1))
