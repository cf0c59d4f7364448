"""Results in files: the large parts of one, or all of those that are over, so that memory does not grow with runs."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

import attrs

from astra_sim.engine.columns import Spans
from astra_sim.errors import RunError
from astra_sim.report.details import Details, NpuTables, PathInterval, RunTimeline, Timeline
from astra_sim.setup.provenance import KnownProvenance, Origin, Provenance

if TYPE_CHECKING:
    from astra_sim.report.attribution import Attribution
    from astra_sim.report.audit import Finding
    from astra_sim.report.npu_shares import NpuUses
    from astra_sim.report.result import Result
    from astra_sim.report.unit_times import OperationTimes, UnitTimes


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
        figures, has_provenance = self._part(0)
        provenance = SpooledProvenance(self) if has_provenance else None
        busy = SpooledBusy(self, len(figures.dimensions))
        whole: Result = attrs.evolve(figures, provenance=provenance, busy=busy, details=SpooledDetails(self))
        return whole

    @property
    def origin(self) -> Origin:
        """The experiment, the versions, the inputs and the invocation."""
        provenance: Provenance = self._part(1)
        return provenance.origin

    @property
    def busy(self) -> list[Spans]:
        """When dimensions have something to do."""
        busy: list[Spans] = self._part(2)
        return busy

    @property
    def details(self) -> Details:
        """Details of a result on request."""
        details: Details = self._part(3)
        return details

    def _part(self, number: int) -> Any:
        """A part of the file. Raises RunError."""
        try:
            with open(self._path, "rb") as file:
                for _ in range(number):
                    pickle.load(file)
                return pickle.load(file)
        except OSError as error:
            raise RunError(f"cannot read {self._path}: {error.strerror or error}") from None


@attrs.frozen(eq=False, repr=False)
class SpooledProvenance:
    """Provenance that is read whenever it is asked for."""

    _spool: Spool

    def __reduce__(self) -> tuple[Any, ...]:
        return KnownProvenance, (self.origin,)

    @property
    def origin(self) -> Origin:
        """The experiment, the versions, the inputs and the invocation."""
        return self._spool.origin


@attrs.frozen(eq=False, repr=False)
class SpooledBusy(Sequence[Spans]):
    """Busy times that are read whenever they are asked for."""

    _spool: Spool
    _count: int

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> Spans: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Spans]: ...
    def __getitem__(self, place: int | slice) -> Spans | Sequence[Spans]:
        return self._spool.busy[place]

    def __iter__(self) -> Iterator[Spans]:
        return iter(self._spool.busy)

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (self._spool.busy,)


@attrs.frozen(eq=False, repr=False)
class SpooledDetails:
    """Details that are read whenever they are asked for."""

    _spool: Spool

    def __reduce__(self) -> tuple[Any, ...]:
        return _itself, (self._spool.details,)

    @property
    def npu_end_ps(self) -> Sequence[int]:
        """When each simulated NPU had done its last operation."""
        return self._spool.details.npu_end_ps

    @property
    def timelines(self) -> Sequence[Timeline | RunTimeline]:
        """The timelines of the observed NPUs, NPU 0 first."""
        return self._spool.details.timelines

    @property
    def path(self) -> Sequence[PathInterval] | None:
        """The critical path, in time; None if it was not asked for."""
        return self._spool.details.path

    @property
    def findings(self) -> list[Finding]:
        """Parts of the result that are faster than the wires allow."""
        return self._spool.details.findings

    @property
    def unit_times(self) -> list[UnitTimes] | None:
        """The busy time of the units of all NPUs; None if it was not requested."""
        return self._spool.details.unit_times

    @property
    def operation_times(self) -> list[OperationTimes] | None:
        """None: a copy does not have them."""
        return self._spool.details.operation_times

    @property
    def npu_uses(self) -> list[NpuUses] | None:
        """None: a copy does not have them."""
        return self._spool.details.npu_uses

    @property
    def attribution(self) -> Attribution | None:
        """The time of NPU 0 by use."""
        return self._spool.details.attribution

    @property
    def has_npu_tables(self) -> bool:
        """Whether the run has kept the times of all NPUs."""
        return self._spool.details.has_npu_tables

    def npu_tables(self, every: bool) -> NpuTables | None:
        """Tables of the time of all NPUs, with all rows or a few; None if they were not asked for."""
        return self._spool.details.npu_tables(every)

    def network_reports(self) -> dict[str, str]:
        """Files of the network, by name."""
        return self._spool.details.network_reports()


def _itself(thing: Any) -> Any:
    """Load the content of a spooled file when it is unpickled."""
    return thing


class SpooledResults(Sequence["Result"]):
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
