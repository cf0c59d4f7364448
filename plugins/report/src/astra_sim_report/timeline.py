"""The report `timeline`: what happened on the NPUs that were observed, as a trace for Perfetto or Chrome.

Every NPU is a group of tracks: its program, its collectives, and what is on its way in each dimension, with the utilisation of the
dimension as a counter. Things of one lane that overlap lie on several tracks of one name.
"""

from __future__ import annotations

import contextlib
import gzip
import heapq
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from astra_sim.errors import warn
from astra_sim.reports import Interval, ReportFolder, Result

from astra_sim_report.trace_writers import ChromeWriter, PerfettoWriter, TraceWriter

MAX_SLICES = 200_000
"""How many slices a file of a report has at most, where series are to be limited."""

WINDOWS = 1000
"""Windows of a run over which utilisation is a mean."""

UTILISATION = "utilisation of"
"""What the name of a counter begins with; the lane follows."""

SUFFIX = "_timeline.pftrace.gz"
"""How the name of a timeline in a folder of reports ends, behind that of the run."""


def write(results: Sequence[Result], folder: ReportFolder) -> None:
    """Write a trace of each run: Chrome's JSON where the name of the file says so (.json), and gzipped where it does (.gz)."""
    if folder.series == "none":
        return
    for result in results:
        name = f"{result.run_name}{SUFFIX}"
        with folder.open(name, "wb") as file, _packed(file, folder.path(name)) as out:
            _write_trace(result, _writer(out, folder.path(name)), MAX_SLICES if folder.series == "limited" else None)


@contextlib.contextmanager
def _packed(file: IO[bytes], path: Path) -> Iterator[IO[bytes]]:
    if path.suffix != ".gz":
        yield file
        return
    with gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0) as packed:
        yield packed  # type: ignore[misc]


def _writer(file: IO[bytes], path: Path) -> TraceWriter:
    endings = [suffix for suffix in path.suffixes if suffix != ".gz"]
    return ChromeWriter(file) if endings[-1:] == [".json"] else PerfettoWriter(file)


def _write_trace(result: Result, writer: TraceWriter, limit: int | None) -> None:
    left = limit
    for timeline in result.timelines():
        lanes = Lanes(timeline)
        end = result.finish_ns if left is None else lanes.end_of(left, result.finish_ns)
        if end < result.finish_ns:
            warn(f"the timeline of {result.run_name} ends after its first {limit} intervals; --series all writes all of them")
        alike = f", as {timeline.npus} NPUs with its program" if timeline.npus > 1 else ""
        group = writer.group(f"NPU {timeline.npu}{alike}")
        for name in lanes.names():
            lanes.write(name, writer, group, end, result.finish_ns)
        if left is not None:
            left -= lanes.count
            if left <= 0:
                break
    writer.close()


class Lanes:
    """The intervals of an NPU by lane, in columns: some 24 bytes each, and every text once."""

    def __init__(self, intervals: Iterable[Interval]) -> None:
        self._texts: list[str] = []
        self._known: dict[str, int] = {}
        self._columns: dict[str, tuple[array[int], array[int], array[float], array[float]]] = {}
        for interval in intervals:
            columns = self._columns.get(interval.lane)
            if columns is None:
                columns = self._columns[interval.lane] = array("I"), array("I"), array("d"), array("d")
            text = interval.name if interval.lane.startswith("dimension") else f"{interval.name} {interval.kind}".lstrip()
            columns[0].append(self._number(text))
            columns[1].append(self._number(interval.kind))
            columns[2].append(interval.begin_ns)
            columns[3].append(interval.end_ns)

    def _number(self, text: str) -> int:
        number = self._known.get(text)
        if number is None:
            number = self._known[text] = len(self._texts)
            self._texts.append(text)
        return number

    @property
    def count(self) -> int:
        """How many intervals there are."""
        return sum(len(columns[0]) for columns in self._columns.values())

    def names(self) -> list[str]:
        """The lanes: the program, its collectives, then dimensions."""
        order = {"program": 0, "collectives": 1}
        return sorted(self._columns, key=lambda name: (order.get(name, 2), name))

    def end_of(self, count: int, finish_ns: float) -> float:
        """When the first so many intervals have begun (ns); where there are no more, the end of the run."""
        if self.count <= count:
            return finish_ns
        begins = np.concatenate([np.frombuffer(columns[2]) for columns in self._columns.values()])
        return float(np.partition(begins, count)[count])

    def write(self, name: str, writer: TraceWriter, group: int, end_ns: float, finish_ns: float) -> None:
        """Write the intervals of a lane that begin before `end_ns`, and the utilisation of a dimension until then."""
        texts, kinds, begins, ends = self._columns[name]
        begin, end = np.frombuffer(begins), np.frombuffer(ends)
        if name.startswith("dimension"):
            counter = writer.counter(group, f"{UTILISATION} {name}", "%")
            edges, shares = utilisation(begin, end, finish_ns)
            for at, share in zip(edges.tolist(), [*(100 * shares).tolist(), 0.0], strict=True):
                if at <= end_ns:
                    writer.value(counter, at, share)
        order: Any = np.lexsort((end, begin))
        rows: list[int] = []  # the track of each row in use
        for place, row in zip(order.tolist(), _rows(begin[order], end[order]), strict=True):
            if begins[place] > end_ns or (begins[place] == end_ns and end_ns < finish_ns):
                break
            if row == len(rows):
                rows.append(writer.track(group, name))
            writer.slice(rows[row], self._texts[texts[place]], self._texts[kinds[place]], begins[place], ends[place])


def _rows(begins: Any, ends: Any) -> Iterator[int]:
    """For intervals in order of their begin the lowest row in which each overlaps no earlier one."""
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    count = 0
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        while busy and busy[0][0] <= begin:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            row = heapq.heappop(free)
        else:
            row, count = count, count + 1
        heapq.heappush(busy, (end, row))
        yield row


def utilisation(begins: Any, ends: Any, finish_ns: float) -> tuple[Any, Any]:
    """The edges of the windows of a run (ns), and the share of each window in which at least one of some intervals is under way."""
    edges = np.linspace(0.0, finish_ns, WINDOWS + 1) if finish_ns else np.zeros(1)
    if len(edges) == 1:
        return edges, np.zeros(0)
    order = np.argsort(begins, kind="stable")
    begin, reach = begins[order], np.maximum.accumulate(ends[order])
    first = np.concatenate([[True], begin[1:] > reach[:-1]])
    starts, stops = begin[first], reach[np.concatenate([np.flatnonzero(first)[1:] - 1, [len(reach) - 1]])]
    covered = np.concatenate([[0.0], np.cumsum(stops - starts)])
    place = np.searchsorted(starts, edges, side="right")
    last = np.maximum(place - 1, 0)
    until = covered[last] + np.clip(edges - starts[last], 0.0, (stops - starts)[last])
    return edges, np.diff(np.where(place > 0, until, 0.0)) / np.diff(edges)
