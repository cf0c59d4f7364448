"""A search: points are run, those that a sampler proposes or all, and the best of them are found."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs
from astra_sim.files import check_output, guarded_inputs

from astra_sim_sweep.cached_results import RESULT
from astra_sim_sweep.goals import Front, Judgement
from astra_sim_sweep.journal import Journal, JournalRun
from astra_sim_sweep.plan import Point
from astra_sim_sweep.proposals import Proposals
from astra_sim_sweep.running import (
    PASSED_AT_A_TIME,
    Files,
    ResultRows,
    Row,
    SweepCounts,
    SweepFlow,
    SweepScheduler,
    cached_results,
    check_numbers,
    choose_scheduler,
    warn_of_other_packages,
)
from astra_sim_sweep.search_files import BEST, BROKEN, FEASIBLE, SearchPlan, read_search
from astra_sim_sweep.tables import Columns, write_table


@attrs.define
class Found:
    """The result of a search: rows of the best design, or of the front of two objectives, and the number of points by outcome."""

    best: list[Row] = attrs.field(factory=list)
    run: int = 0
    feasible: int = 0
    infeasible: int = 0
    infeasible_by: dict[str, int] = attrs.field(factory=dict)
    failed: int = 0
    first_error: str = ""
    skipped: int = 0
    skipped_by: dict[str, int] = attrs.field(factory=dict)

    def add(self, judgement: Judgement) -> None:
        """Count a point that was run."""
        self.run += 1
        for name in judgement.broken:
            self.infeasible_by[name] = self.infeasible_by.get(name, 0) + 1
        if judgement.broken:
            self.infeasible += 1
        elif judgement.values is None:
            self.failed += 1
            self.first_error = self.first_error or judgement.error or ""
        else:
            self.feasible += 1


class Search(ResultRows):
    """A search that runs while its rows are asked for: an iterator of rows, in the order in which they are done.

    A row is that of a sweep, with the objectives, whether it is `feasible`, and `infeasible_by` which constraints it is not. `found` is
    its result when all are done. Raises AstraError if nothing can be run or written, or an objective has a name that no row has.
    """

    def __init__(self, search: SearchPlan, scheduler: SweepScheduler, files: Files, proposals: Proposals | None) -> None:
        super().__init__(files, _columns(search))
        self.search = search
        self.summary = Found()
        self.counts = SweepCounts(points=search.plan.points.count if proposals is None else search.options.trials)
        self._scheduler = scheduler
        self._proposals = proposals
        self._results = cached_results(search.plan, files)

    def finish(self) -> Found:
        """Run the remaining points, find the best, and write the table."""
        for _ in self:
            pass
        return self.summary

    def _run(self) -> Generator[Row]:
        """Ask for points, run them, and report the outcome of each, until the trials or the points are over."""
        with Journal(self._files.journal) as journal:
            others: list[Row] = []

            def absorb() -> None:
                others.extend(self._take_up(journal))

            absorb()
            points: Iterable[Point] = self.search.plan if self._proposals is None else self._proposals.points(absorb)
            # The sampler gets all known results before it proposes again.
            warn_of_other_packages(self.search.plan, journal, self.counts)
            flow = SweepFlow(points, journal, self.counts, 1 if self._proposals is not None else PASSED_AT_A_TIME, self._results)
            with contextlib.closing(self._scheduler.outcomes(flow.wanted())) as outcomes:  # type: ignore[type-var]
                for some in outcomes:
                    self._watch()
                    journal.settle()
                    while others:
                        yield others.pop(0)
                    for point, run in flow.take(some):
                        row, judgement = self._judged(point, run)
                        if self._proposals is not None:
                            self._proposals.tell(point, run, judgement)
                        self.counts.failed -= bool(judgement.broken) and run.error is not None  # it does not fit, which is no failure
                        yield row
            absorb()
            yield from others
            self._conclude(journal)

    def _take_up(self, journal: Journal) -> Iterator[Row]:
        """Take the study's earlier results, and those of other machines."""
        if self._proposals is None:
            return
        for point, run in self._proposals.known():
            if run.key not in journal:
                journal.add([run])
            row, judgement = self._judged(point, run)
            self._proposals.judged(point, judgement)
            self.counts.passed += 1
            self.counts.known += 1
            yield row

    def _judged(self, point: Point, run: JournalRun) -> tuple[Row, Judgement]:
        """The row of a run, and how it does."""
        row = self._columns.row(point.parameters, run.figures, run.error, run.wall_s)
        judgement = self.search.goal.judge(row)
        if judgement.values is not None:
            row |= dict(zip(self.search.goal.texts, judgement.values, strict=True))
        row["error"] = judgement.error
        if self._results is not None:
            row[RESULT] = self._results.cell(run.key) if self._results.has(run.key) else None
        return row | {FEASIBLE: judgement.is_feasible, BROKEN: ", ".join(judgement.broken) or None}, judgement

    def _conclude(self, journal: Journal) -> None:
        """Find the best of all points, and write the table."""
        self.summary = Found()
        front = Front(self.search.goal)
        self._columns = _columns(self.search)
        for point, run in self._points(journal):
            row, judgement = self._judged(point, run)
            self.summary.add(judgement)
            self._columns.add(point.number, row | {BEST: False})
            if judgement.is_feasible and judgement.values is not None:
                front.add(point.number, judgement.values)
        if self._proposals is None:
            self.summary.skipped_by = dict(self.counts.skipped_by)
        else:
            for name in self._proposals.skipped.values():
                self.summary.skipped_by[name] = self.summary.skipped_by.get(name, 0) + 1
        self.summary.skipped = sum(self.summary.skipped_by.values())
        self._best = front.numbers
        for number in self._best:
            point = self.search.plan.point(number)
            run_of_it = journal.get(point.key)
            assert run_of_it is not None
            self.summary.best.append(self._judged(point, run_of_it)[0])
        if self._files.table is not None:
            write_table(self._files.table, self._columns, self._table(journal))

    def _table(self, journal: Journal) -> Iterator[Row]:
        best = set(self._best)
        for point, run in self._points(journal):
            yield self._judged(point, run)[0] | {BEST: point.number in best}

    def _points(self, journal: Journal) -> Iterator[tuple[Point, JournalRun]]:
        """All points that have been run, in order."""
        points = iter(self.search.plan) if self._proposals is None else map(self.search.plan.point, self._proposals.numbers)
        for point in points:
            run = None if point.skipped_by is not None else journal.get(point.key)
            if run is not None:
                yield point, run


def search(
    source: str | os.PathLike[str] | Mapping[str, Any],
    output: str | os.PathLike[str] | None = None,
    *,
    jobs: int | None = None,
    timeout: float | None = None,
    resume: bool = False,
    overwrite: bool = False,
    scheduler: str | None = None,
    client: Any = None,
    worker_timeout: float | None = None,
    axes: Sequence[str] = (),
    keep: bool = False,
) -> Search:
    """The search of the file `source`, or of tables as such a file has them; it runs while its rows are asked for.

    `output` is the table of all points that were run, which is written at the end (*.parquet, *.csv, *.sqlite); journal and study are
    beside it. Without it they are in a temporary folder. `resume` goes on with them, `overwrite` drops them and the table. Points are run
    in `jobs` processes of this machine (none: one for each processor), or by Dask: at the address `scheduler`, or that in its scheduler
    file, or by its `client`; no worker for `worker_timeout` seconds is an error. A point that takes more than `timeout` seconds is an
    error. `axes` have other values than in the file, as `NAME=VALUES`. `keep` writes the whole result of each point, too. Raises
    InputError.
    """
    check_numbers(jobs, timeout, worker_timeout)
    with guarded_inputs():
        read = read_search(source, axes, keep)
        has_study = not read.is_exhaustive and read.options.storage is None
        files = Files.for_call(output, "search", resume, overwrite, has_study)
        if read.options.storage is not None and "://" not in read.options.storage:
            check_output(read.options.storage)
    # With a sampler one point at a time: its outcome changes the next proposal.
    chosen = choose_scheduler(
        read.plan, jobs, timeout, scheduler, client, one_at_a_time=not read.is_exhaustive, worker_timeout=worker_timeout
    )
    return Search(read, chosen, files, _proposals(read, files, overwrite))


def _columns(search: SearchPlan) -> Columns:
    """The columns of its table."""
    known = search.plan.columns
    objectives = [text for text in search.goal.texts if text not in known]
    return Columns(known, (*objectives, *((RESULT,) if search.plan.keeps_results else ()), FEASIBLE, BROKEN, BEST))


def _proposals(read: SearchPlan, files: Files, overwrite: bool) -> Proposals | None:
    """The sampler of points, if not all are run; `overwrite` drops an earlier study. Raises InputError."""
    if read.is_exhaustive:
        if overwrite:
            files.drop()
        return None
    machine = f"{socket.gethostname()}:{os.path.abspath(files.journal)}"
    storage = read.options.storage or files.study
    assert storage is not None
    if overwrite:
        if read.options.storage is not None:
            Proposals(read, storage, machine).drop()
        files.drop()
    proposals = Proposals(read, storage, machine)
    proposals.give_up()
    return proposals
