"""A sweep: its points are run, their outcomes go into the journal, and from there into a table."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import attrs
from astra_sim import InputError, RunError
from astra_sim.display import frame_of
from astra_sim.experiments import version_differences
from astra_sim.files import check_output, guarded_inputs

from astra_sim_sweep.cached_results import RESULT, CachedResults
from astra_sim_sweep.checks import check_plan
from astra_sim_sweep.journal import Journal, JournalRun
from astra_sim_sweep.outcomes import SweepOutcome
from astra_sim_sweep.packing import packed
from astra_sim_sweep.plan import Point, SweepPlan, read_plan
from astra_sim_sweep.processes import LARGEST_BATCH, Processes
from astra_sim_sweep.shards import Shard, shard_journals, shard_of_point
from astra_sim_sweep.tables import Columns, check_table, write_table
from astra_sim_sweep.words import counted

Row = dict[str, Any]
PASSED_AT_A_TIME = 200


class SweepScheduler(Protocol):
    """The machine that runs points."""

    def outcomes(self, numbers: Iterator[int | None]) -> Iterator[list[SweepOutcome]]:
        """The outcomes of points, as they arrive; `numbers` is read on when there is room for more. None: check for news."""


@attrs.define
class SweepCounts:
    """The progress of a sweep: points in all, those looked at, left out, known from the journal, run now, and rows with an error."""

    points: int = 0
    passed: int = 0
    skipped: int = 0
    known: int = 0
    run: int = 0
    failed: int = 0
    skipped_by: dict[str, int] = attrs.field(factory=dict)
    warnings: dict[str, None] = attrs.field(factory=dict)

    @property
    def done(self) -> int:
        """Points of which nothing more is to come."""
        return self.skipped + self.rows

    @property
    def rows(self) -> int:
        """Rows that are there."""
        return self.known + self.run


_MOST_WARNINGS = 1000


@attrs.frozen
class Files:
    """The outputs of a sweep: its table, if it has one, its journal, and `study`, the file in which a search keeps its proposals.

    `results` is the folder of whole results, if they are kept; shards of a sweep share it.
    """

    table: str | None
    journal: str
    study: str | None = None
    results: str | None = None

    @classmethod
    def of(cls, output: str | os.PathLike[str], has_study: bool = False, shard: Shard | None = None) -> Files:
        """Those of `--output`, or of a shard of it. Raises InputError for an ending that is unknown."""
        table = os.fspath(output)
        check_table(table)
        whole = os.path.splitext(table)[0]
        table = table if shard is None else shard.path(table)
        stem = os.path.splitext(table)[0]
        return cls(table, f"{stem}.journal.sqlite", f"{stem}.study.log" if has_study else None, f"{whole}.results")

    @classmethod
    def for_call(
        cls,
        output: str | os.PathLike[str] | None,
        what: str,
        resume: bool,
        overwrite: bool,
        has_study: bool = False,
        shard: Shard | None = None,
    ) -> Files:
        """Those of `output`; without it they are in a temporary folder, named after `what` runs, which goes with them.

        Raises InputError.
        """
        if output is not None:
            files = cls.of(output, has_study, shard)
            files.check(resume, overwrite)
            return files
        for name, value, expected in (
            ("resume", resume, "the table that has been begun"),
            ("overwrite", overwrite, "the table that has been begun"),
            ("shard", shard is not None, "the table of the whole sweep"),
        ):
            if value:
                raise InputError(f"{name} is given without output; expected {expected}")
        folder = tempfile.mkdtemp(prefix=f"astra-{what}-")
        files = cls(None, os.path.join(folder, "journal.sqlite"), os.path.join(folder, "study.log"))
        weakref.finalize(files, shutil.rmtree, folder, ignore_errors=True)
        return files

    def check(self, resume: bool, overwrite: bool) -> None:
        """Raise InputError if a file exists and neither --resume nor --overwrite was given, or if the sweep reads it."""
        assert self.table is not None
        if resume and overwrite:
            raise InputError("--resume and --overwrite are given; expected one of the two")
        here = [path for path in (self.table, self.journal, self.study) if path is not None and os.path.lexists(path)]
        for path in here:
            check_output(path)
        if overwrite:
            return
        if here and not resume:
            raise InputError(f"{' and '.join(here)}: there already; expected --resume to go on with it, or --overwrite to drop it")
        if here == [self.table]:
            raise InputError(f"{self.table}: its journal {self.journal} is not there; expected it, or --overwrite to run all points again")

    def drop(self) -> None:
        """Delete old files. Raises InputError if the journal is something else, or another sweep writes it."""
        if os.path.lexists(self.journal):
            with Journal(self.journal):
                os.unlink(self.journal)
        for path in (self.table, self.study, f"{self.journal}-wal", f"{self.journal}-shm"):
            if path is not None:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)


class ResultRows(ABC):
    """Rows on demand: an iterator in the order in which points finish."""

    def __init__(self, files: Files, columns: Columns) -> None:
        self._files = files
        self._columns = columns
        self._rows: Generator[Row] | None = None
        self._watch: Callable[[], None] = lambda: None

    def __iter__(self) -> Generator[Row]:
        if self._rows is None:
            self._rows = self._run()
        return self._rows

    def watch(self, turn: Callable[[], None]) -> None:
        """Call a function from time to time as long as rows come, when `counts` may have changed."""
        self._watch = turn

    def frame(self, library: str = "pandas") -> Any:
        """All rows in the order of points, as a DataFrame of pandas or polars. Raises InputError if the library is missing."""
        for _ in self:
            pass
        with Journal(self._files.journal) as journal:
            rows = list(self._table(journal))
        return frame_of([{name: row.get(name) for name in self._columns.names} for row in rows], library)

    @abstractmethod
    def _run(self) -> Generator[Row]:
        """Run the points, and write the table."""

    @abstractmethod
    def _table(self, journal: Journal) -> Iterator[Row]:
        """The rows in the order of points, out of the journal."""


class Sweep(ResultRows):
    """A sweep that runs while its rows are asked for: an iterator of rows, in the order in which they are done.

    A row has the parameters of a point and the figures of its run, or an `error`. When all are done, the table is written, in the order of
    points. Raises AstraError if nothing can be run or written; errors of points are in their rows. `counts` is its progress.
    """

    def __init__(
        self, plan: SweepPlan, scheduler: SweepScheduler, files: Files, retry_errors: bool = False, shard: Shard | None = None
    ) -> None:
        super().__init__(files, Columns(plan.columns, (RESULT,) if plan.keeps_results else ()))
        self.plan = plan
        self._shard = Shard(1, 1) if shard is None else shard
        self.counts = SweepCounts(points=self._shard.count(plan.points.count))
        self._scheduler = scheduler
        self._retry_errors = retry_errors
        self._results = cached_results(plan, files)
        self.first_error = ""

    @property
    def files(self) -> list[str]:
        """Its outputs: its table, and the folder of whole results."""
        return [path for path in (self._files.table, self._files.results if self._results is not None else None) if path is not None]

    def finish(self) -> SweepCounts:
        """Run the remaining points, and write the table."""
        for _ in self:
            pass
        return self.counts

    def _run(self) -> Generator[Row]:
        """Run points that the journal lacks, and write the table when all is there."""
        with Journal(self._files.journal) as journal:
            if self._retry_errors:
                journal.drop_errors()
            warn_of_other_packages(self.plan, journal, self.counts)
            flow = SweepFlow(self._points(), journal, self.counts, results=self._results)
            with contextlib.closing(self._scheduler.outcomes(flow.wanted())) as outcomes:  # type: ignore[type-var]
                for some in outcomes:
                    self._watch()
                    journal.settle()
                    for point, run in flow.take(some):
                        yield self._row(point, run)
            if self._files.table is not None:
                write_table(self._files.table, self._columns, self._table(journal))

    def _points(self) -> Iterator[Point]:
        """The points of its shard."""
        return map(self.plan.point, self._shard.numbers(self.plan.points.count))

    def _row(self, point: Point, run: JournalRun) -> Row:
        row = self._cells(point, run)
        self._columns.add(point.number, row)
        if run.error is not None and not self.first_error:
            self.first_error = run.error
        return row

    def _cells(self, point: Point, run: JournalRun) -> Row:
        row = self._columns.row(point.parameters, run.figures, run.error, run.wall_s)
        if self._results is not None:
            row[RESULT] = self._results.cell(run.key) if self._results.has(run.key) else None
        return row

    def _table(self, journal: Journal) -> Iterator[Row]:
        for point in self._points():
            run = None if point.skipped_by is not None else journal.get(point.key)
            if run is not None:
                yield self._cells(point, run)


class Merge(Sweep):
    """A sweep whose points shards have run: their journals are merged, and nothing is run.

    Raises InputError if there is no shard, RunError if points have not been run, and writes no table then; finished points are in the
    journal.
    """

    def __init__(self, plan: SweepPlan, files: Files) -> None:
        super().__init__(plan, _Nothing(), files)
        assert files.table is not None
        self._shards = shard_journals(files.table)
        if not self._shards:
            raise InputError(
                f"{Shard(1, 2).path(files.table)} and others like it: there is no journal of a shard; expected --shard i/n first"
            )

    def _run(self) -> Generator[Row]:
        """Merge the journals of shards, and write the table. Raises RunError if points are missing."""
        with Journal(self._files.journal) as journal:
            journal.add_packages(self.plan.versions)
            merged = 0
            for path in self._shards:
                with Journal(path) as shard:
                    merged += journal.merge(shard)
            flow = SweepFlow(self._points(), journal, self.counts, results=self._results)
            missing = [number for number in flow.wanted() if number is not None]
            for point, run in flow.take(()):
                yield self._row(point, run)
            if missing:
                raise RunError(self._why_missing(missing, merged, journal))
            assert self._files.table is not None
            write_table(self._files.table, self._columns, self._table(journal))

    def _why_missing(self, missing: list[int], merged: int, journal: Journal) -> str:
        """Explain why points are missing, as far as shards and packages tell, with advice."""
        points = self.plan.points.count
        counts = sorted({shard.of for shard in self._shards.values()})
        shards_text = counted(len(self._shards), "shard")
        text = f"{len(missing):,} of {self.counts.passed - self.counts.skipped:,} points have not been run by {shards_text}"
        if len(counts) == 1:
            shards = sorted({shard_of_point(number, points, counts[0]).number for number in missing})
            text += f": they belong to {', '.join(f'{number}/{counts[0]}' for number in shards[:8])}{', ...' if len(shards) > 8 else ''}"
        others = [versions for versions in journal.packages() if versions != self.plan.versions]
        if merged and others and len(missing) == self.counts.passed - self.counts.skipped:
            text += f"; the shards were run with other packages: {_named(version_differences(others[0], self.plan.versions))}"
        return f"{text}; expected all (--resume without --merge runs them here)"


class _Nothing:
    """A scheduler that runs nothing."""

    def outcomes(self, numbers: Iterator[int | None]) -> Iterator[list[SweepOutcome]]:
        """Nothing comes of any point."""
        return iter(())


def cached_results(plan: SweepPlan, files: Files) -> CachedResults | None:
    """The folder of whole results, if they are kept. Raises InputError if there is no table beside which they could be."""
    if not plan.keeps_results:
        return None
    if files.table is None or files.results is None:
        raise InputError("keep is given without output; expected the table beside which results are kept")
    return CachedResults(files.results, files.table)


def warn_of_other_packages(plan: SweepPlan, journal: Journal, counts: SweepCounts) -> None:
    """Say why runs are not known, if a journal has runs of other packages alone, and note those that run now."""
    known = journal.packages()
    if known and plan.versions not in known:
        different = version_differences(known[-1], plan.versions, ("then", "now"))
        if different:
            counts.warnings[f"{journal.path}: runs of other packages are not used: {_named(different)}"] = None
    journal.add_packages(plan.versions)


def _named(differences: list[str], most: int = 5) -> str:
    return "; ".join(differences[:most]) + (f"; {len(differences) - most} more" if len(differences) > most else "")


class SweepFlow:
    """Points that are to be run, and those that wait for a run: several may have the same."""

    def __init__(
        self,
        points: Iterable[Point],
        journal: Journal,
        counts: SweepCounts,
        passed_at_a_time: int = PASSED_AT_A_TIME,
        results: CachedResults | None = None,
    ) -> None:
        self._points, self._journal, self._counts, self._results = points, journal, counts, results
        self._passed_at_a_time = passed_at_a_time
        self._waiting: dict[bytes, list[Point]] = {}
        self._keys: dict[int, bytes] = {}
        self._done: list[tuple[Point, JournalRun]] = []

    def wanted(self) -> Iterator[int | None]:
        """The numbers of points to run, and repeatedly None, if many were passed."""
        passed = 0
        for point in self._points:
            self._counts.passed += 1
            if self._is_wanted(point):
                yield point.number
                continue
            passed += 1
            if passed % self._passed_at_a_time == 0:
                yield None
        yield None

    def _is_wanted(self, point: Point) -> bool:
        """Whether a point is to be run: not if it is skipped, has an error already, or its key is in the journal or under way."""
        if point.skipped_by is not None:
            self._counts.skipped += 1
            self._counts.skipped_by[point.skipped_by] = self._counts.skipped_by.get(point.skipped_by, 0) + 1
            return False
        if point.key in self._waiting:
            self._waiting[point.key].append(point)
            return False
        run = self._journal.get(point.key)
        if run is not None and run.error is None and self._results is not None and not self._results.has(point.key):
            run = None  # its figures are known, but not its whole result
        if run is None and point.error is not None:
            run = JournalRun(point.key, point.parameters, None, point.error, 0.0)
            self._journal.add([run])
            self._counts.run += 1
        elif run is not None:
            self._counts.known += 1
        if run is not None:
            self._done.append((point, run))
            self._counts.failed += run.error is not None
            return False
        self._waiting[point.key] = [point]
        self._keys[point.number] = point.key
        return True

    def take(self, outcomes: Iterable[SweepOutcome]) -> Iterator[tuple[Point, JournalRun]]:
        """Keep the outcomes, and return the points that have their runs now."""
        runs = []
        for outcome in outcomes:
            points = self._waiting[self._keys.pop(outcome.number)]
            if self._results is not None and outcome.document is not None:
                self._results.write(points[0].key, outcome.document)
            runs.append(JournalRun(points[0].key, points[0].parameters, outcome.figures, outcome.error, outcome.wall_s))
            for warning in outcome.warnings[: _MOST_WARNINGS - len(self._counts.warnings)]:
                self._counts.warnings[warning] = None
        if runs:
            self._journal.add(runs)
        done, self._done = self._done, []
        for run in runs:
            points = self._waiting.pop(run.key)
            self._counts.run += len(points)
            self._counts.failed += len(points) * (run.error is not None)
            done += [(point, run) for point in points]
        yield from done


def sweep(
    source: str | os.PathLike[str] | Mapping[str, Any],
    output: str | os.PathLike[str] | None = None,
    *,
    jobs: int | None = None,
    timeout: float | None = None,
    resume: bool = False,
    overwrite: bool = False,
    retry_errors: bool = False,
    scheduler: str | None = None,
    client: Any = None,
    worker_timeout: float | None = None,
    axes: Sequence[str] = (),
    shard: str | None = None,
    keep: bool = False,
) -> Sweep:
    """A sweep of the file `source`, or of tables as such a file has them; it runs while its rows are asked for.

    `output` is the table that is written at the end (*.parquet, *.csv, *.sqlite); its journal is beside it. Without it the journal is in
    a temporary folder. `resume` goes on with a journal, `overwrite` drops it and the table; `retry_errors` runs failed points again. Points
    are run in `jobs` processes of this machine (none: one for each processor), or by Dask: at the address `scheduler`, or that in its
    scheduler file, or by its `client`; no worker for `worker_timeout` seconds is an error. A point that takes more than `timeout` seconds
    is an error. `axes` have other values than in the file, as `NAME=VALUES`. `shard` "i/n" runs one of n parts of the points, and writes
    `output` with that in its name, for `merge`. `keep` writes the whole result of each point, too. Raises InputError.
    """
    check_numbers(jobs, timeout, worker_timeout)
    part = None if shard is None else Shard.parse(shard)
    with guarded_inputs():
        plan = read_plan(source, axes=axes, keeps_results=keep)
        check_plan(plan)
        if retry_errors and not resume:
            raise InputError("retry_errors is for a sweep that goes on; expected resume, too")
        files = Files.for_call(output, "sweep", resume, overwrite, shard=part)
    cached_results(plan, files)
    chosen = choose_scheduler(plan, jobs, timeout, scheduler, client, worker_timeout=worker_timeout)
    if overwrite:
        files.drop()
    return Sweep(plan, chosen, files, retry_errors, part)


def merge(
    source: str | os.PathLike[str] | Mapping[str, Any],
    output: str | os.PathLike[str],
    *,
    resume: bool = False,
    overwrite: bool = False,
    axes: Sequence[str] = (),
    keep: bool = False,
) -> Merge:
    """The sweep of the file `source` whose shards have been run with this `output`: their rows in one table, as if it had been run whole.

    `resume` adds to a journal that is there, `overwrite` drops it and the table first. `axes` and `keep` are those of the shards. Raises
    InputError if there are no shards.
    """
    with guarded_inputs():
        plan = read_plan(source, axes=axes, keeps_results=keep)
        check_plan(plan)
        files = Files.for_call(output, "sweep", resume, overwrite)
    result = Merge(plan, files)
    if overwrite:
        files.drop()
    return result


def check_numbers(jobs: int | None, timeout: float | None, worker_timeout: float | None = None) -> None:
    """Raise InputError for an invalid number of processes or seconds."""
    if jobs is not None and (isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1):
        raise InputError(f"jobs is {jobs!r}; expected a whole number of processes of at least 1")
    for name, seconds in (("timeout", timeout), ("worker_timeout", worker_timeout)):
        if seconds is not None and not seconds > 0:
            raise InputError(f"{name} is {seconds!r}; expected seconds above 0")


def choose_scheduler(
    plan: SweepPlan,
    jobs: int | None,
    timeout: float | None,
    address: str | None,
    client: Any,
    one_at_a_time: bool = False,
    worker_timeout: float | None = None,
) -> SweepScheduler:
    """The runner of points: processes of this machine, or Dask. A worker has several points, or `one_at_a_time`. Raises InputError."""
    if address is None and client is None:
        if worker_timeout is not None:
            raise InputError("worker_timeout is for the workers of Dask; expected scheduler or client, too")
        return Processes(packed(plan), jobs, timeout, batch=1 if one_at_a_time else LARGEST_BATCH)
    if address is not None and client is not None:
        raise InputError("scheduler and client are given; expected one of the two")
    if jobs is not None:
        raise InputError("jobs is for processes of this machine; the workers of Dask are those of its scheduler")
    from astra_sim_sweep import dask_workers

    batch = 1 if one_at_a_time else dask_workers.LARGEST_BATCH
    seconds = dask_workers.WORKER_TIMEOUT_S if worker_timeout is None else worker_timeout
    return dask_workers.Dask(plan=packed(plan), timeout=timeout, address=address, client=client, batch=batch, worker_timeout=seconds)
