"""Results in files, so that memory does not grow with runs: of one that is over only the figures are kept."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from astra_sim.engine.columns import Spans
from astra_sim.errors import RunError

if TYPE_CHECKING:
    from astra_sim.report.result import Result

_FIGURES, _PROVENANCE, _BUSY, _DETAILS = range(4)


@attrs.frozen(eq=False, repr=False)
class Spool:
    """The file of a result: its figures, its provenance, its busy times and its details, one pickle after another."""

    _path: str

    def write(self, figures: Result, provenance: Any, busy: Any, details: Any) -> None:
        """Fill the file. Raises RunError."""
        try:
            with open(self._path, "wb") as file:
                for part in ((figures, provenance is not None), provenance, busy, details):
                    pickle.dump(part, file, pickle.HIGHEST_PROTOCOL)
        except OSError as error:
            raise RunError(f"cannot write {self._path}: {error.strerror or error}") from None

    def result(self) -> Result:
        """The result with its figures; the rest of it is read whenever it is asked for. Raises RunError."""
        figures, has_provenance = self.part(_FIGURES)
        provenance = SpooledPart(self, _PROVENANCE) if has_provenance else None
        busy = SpooledBusy(self, len(figures.dimensions))
        whole: Result = attrs.evolve(figures, provenance=provenance, busy=busy, details=SpooledPart(self, _DETAILS))
        return whole

    def part(self, number: int) -> Any:
        """A part of the file. Raises RunError."""
        try:
            with open(self._path, "rb") as file:
                for _ in range(number):
                    pickle.load(file)
                return pickle.load(file)
        except OSError as error:
            raise RunError(f"cannot read {self._path}: {error.strerror or error}") from None


@attrs.frozen(eq=False, repr=False)
class SpooledPart:
    """A part of a result that is read whenever something of it is asked for: it has the attributes of that part. A copy is that part."""

    _spool: Spool
    _number: int

    def __reduce__(self) -> tuple[Any, ...]:
        return _itself, (self._spool.part(self._number),)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # of a protocol of Python, such as that of copies
            raise AttributeError(name)
        return getattr(self._spool.part(self._number), name)


@attrs.frozen(eq=False, repr=False)
class SpooledBusy(Sequence[Spans]):
    """Busy times that are read whenever they are asked for."""

    _spool: Spool
    _count: int

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, place: Any) -> Any:
        return self._spool.part(_BUSY)[place]

    def __iter__(self) -> Iterator[Spans]:
        return iter(self._spool.part(_BUSY))

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (self._spool.part(_BUSY),)


def _itself(thing: Any) -> Any:
    """Load the content of a spooled file when it is unpickled."""
    return thing
