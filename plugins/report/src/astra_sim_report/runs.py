"""Runs as `--output` leaves them: result.json, and the files beside it that pictures are made of."""

from __future__ import annotations

import gzip
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import attrs
from astra_sim.errors import InputError
from astra_sim.fabric.graph import node_number
from astra_sim.files import csv_rows, csv_table, limited, naming_gzip, note_input, read_text
from astra_sim.reports import file_name
from astra_sim.results import read_results
from google.protobuf.message import DecodeError

from astra_sim_report.merging import merged, shares
from astra_sim_report.perfetto import EventType, packets
from astra_sim_report.timeline import MEMBERS, PATH, SPENT, SUFFIX, UTILISATION

MOST_SLICES = 12_000
"""The number of timeline slices that are kept: as many as a page shows quickly, and as fit in it. Several runs share twice as many."""

MOST_ROWS = 150
"""Rows of a timeline that a page shows."""

_EXPECTED = ("run_name", "finish_ns", "compute_ns", "exposed_comm_ns", "npus", "network", "layers", "dimensions")


class TimelineSlice(NamedTuple):
    """Something on a row of a timeline, in ns; or several things that overlap, or are so close that they look like one.

    They are under way for `busy_ns` of the time. `group` is that which communicates, "" if there is none.
    """

    row: int
    name: str
    kind: str
    group: str
    begin_ns: float
    end_ns: float
    intervals_merged: int
    busy_ns: float


class Series(NamedTuple):
    """A share in percent that holds from each time (ns) on."""

    name: str
    times_ns: Sequence[float]
    percent: Sequence[float]


class LinkRow(NamedTuple):
    """A link between nodes, and the share of the run in which it is busy."""

    source: int
    target: int
    utilisation: float


@attrs.frozen(eq=False)
class TimelineFile:
    """A timeline that was read: its rows (group, lane), its slices by row and begin, and the utilisation of NPU 0's dimensions.

    Overlapping intervals in a row are one slice. So are those no longer than `joined_ns` and no further apart, if a row has too many; with
    0 no row has. `groups` counts the NPUs of the file, `lanes` their rows; `rows` has at least one of each NPU unless there are more than
    MOST_ROWS of them.
    """

    rows: Sequence[tuple[str, str]]
    slices: Sequence[TimelineSlice]
    utilisation: Sequence[Series]
    joined_ns: float
    groups: int
    lanes: int


@attrs.frozen(eq=False)
class ReportRun:
    """A run: its name, the table of result.json, and the other files beside it."""

    name: str
    result: Mapping[str, Any]
    timeline: TimelineFile | None = None
    utilisation: Sequence[Series] = ()
    links: Sequence[LinkRow] = ()


def load_runs(paths: Sequence[str]) -> list[ReportRun]:
    """The runs of files `result.json`, or of folders that hold one. Runs of one name get that of their folder, too. Raises InputError."""
    results = [(path, result) for path in map(_result_file, paths) for result in _results(path)]
    names = Counter(result["run_name"] for _, result in results)
    per_folder = Counter(path for path, _ in results)
    most = min(MOST_SLICES, 2 * MOST_SLICES // len(results))
    runs = []
    for path, result in results:
        name = result["run_name"]
        label = name if names[name] == 1 else f"{name} ({path.parent.name or path.parent})"
        runs.append(_run(label, path.parent, result, alone=per_folder[path] == 1, most=most))
    again = [name for name, count in Counter(run.name for run in runs).items() if count > 1]
    if again:
        raise InputError(f"two runs are called {again[0]!r}; expected runs or folders of different names")
    return runs


def _result_file(path: str) -> Path:
    result = Path(path)
    return result / "result.json" if result.is_dir() else result


def _results(path: Path) -> Sequence[Mapping[str, Any]]:
    _, results = read_results(str(path))
    for place, result in enumerate(results):
        missing = next((key for key in _EXPECTED if result.get(key) is None), None)
        if missing is not None:
            where = f"{path}: run {place + 1}" if len(results) > 1 else str(path)
            raise InputError(f"{where}: {missing} is missing; expected the result of a run, as astra --output writes it")
    return results


def _run(label: str, folder: Path, result: Mapping[str, Any], alone: bool, most: int) -> ReportRun:
    name = file_name(result["run_name"])
    timeline_file, csv_file = folder / f"{name}{SUFFIX}", folder / f"{name}_dimension_utilization.csv"
    links_file = folder / ("links.csv" if alone else f"{name}_links.csv")
    timeline = read_timeline(timeline_file, most) if timeline_file.is_file() else None
    utilisation: Sequence[Series] = _utilisation_of_csv(csv_file) if timeline is None and csv_file.is_file() else []
    utilisation = utilisation if timeline is None else timeline.utilisation
    return ReportRun(label, result, timeline, utilisation, _links(links_file, result["npus"]) if links_file.is_file() else [])


def read_timeline(path: Path, most: int = MOST_SLICES) -> TimelineFile:
    """A timeline as the report `timeline` writes it, in at most `most` slices, of which every row has its share. Raises InputError."""
    reader = _TimelineReader(most)
    note_input(path)
    try:
        with naming_gzip(str(path)), gzip.open(path) as file:
            for packet in packets(limited(file, str(path))):  # type: ignore[arg-type]
                reader.take(packet)
        return reader.read()
    except (OSError, ValueError, LookupError, OverflowError, StopIteration, DecodeError) as error:
        raise InputError(f"{path}: not a timeline of astra: {error}") from None


@attrs.define(eq=False)
class _Row:
    """The slices of a row in columns; `label` is the number of a slice's label."""

    begin: array[float] = attrs.field(factory=lambda: array("d"))
    end: array[float] = attrs.field(factory=lambda: array("d"))
    label: array[int] = attrs.field(factory=lambda: array("I"))
    intervals_merged: array[int] = attrs.field(factory=lambda: array("I"))
    spent: array[float] = attrs.field(factory=lambda: array("d"))


class _TimelineReader:
    """Takes the packets of a timeline, one after another."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._groups: dict[int, str] = {}
        self._rows: dict[tuple[str, str], _Row] = {}
        self._row_of: dict[int, _Row] = {}
        self._series: dict[int, Series] = {}
        self._of_first: list[Series] = []
        self._names: dict[int, str] = {}
        self._kinds: dict[int, str] = {}
        self._arguments: dict[int, str] = {}
        self._labels: list[tuple[str, str, str]] = []
        self._known: dict[tuple[str, str, str], int] = {}
        self._open: dict[int, Any] = {}
        self._end_ns = 0.0

    def take(self, packet: Any) -> None:
        """Take a packet. Raises KeyError if it refers to something that was not described."""
        if packet.HasField("track_descriptor"):
            self._describe(packet.track_descriptor)
        if packet.HasField("interned_data"):
            data = packet.interned_data
            self._names.update((text.iid, text.name) for text in data.event_names)
            self._kinds.update((text.iid, text.name) for text in data.event_categories)
            self._arguments.update((text.iid, text.name) for text in data.debug_annotation_names)
        if not packet.HasField("track_event"):
            return
        event, track = packet.track_event, packet.track_event.track_uuid
        if event.type == EventType.SLICE_BEGIN:
            self._open[track] = packet
        elif event.type == EventType.SLICE_END:
            self._slice(self._row_of[track], self._open.pop(track), packet.timestamp)
        elif event.type == EventType.COUNTER:
            series = self._series[track]
            series.times_ns.append(packet.timestamp)  # type: ignore[attr-defined]
            series.percent.append(event.double_counter_value)  # type: ignore[attr-defined]

    def _slice(self, row: _Row, began: Any, end: int) -> None:
        """Add a slice of a trace to its row."""
        event = began.track_event
        annotations = {self._arguments[each.name_iid]: each for each in event.debug_annotations}
        int_value = annotations[MEMBERS].int_value if MEMBERS in annotations else 1
        group = annotations["group"].string_value if "group" in annotations else ""
        label = self._names[event.name_iid], self._kinds[event.category_iids[0]], group
        number = self._known.get(label)
        if number is None:
            number = self._known[label] = len(self._labels)
            self._labels.append(label)
        row.begin.append(began.timestamp)
        row.end.append(end)
        row.label.append(number)
        row.intervals_merged.append(int_value)
        row.spent.append(annotations[SPENT].double_value if SPENT in annotations else end - began.timestamp)
        self._end_ns = max(self._end_ns, end)

    def _describe(self, track: Any) -> None:
        if track.HasField("process"):
            self._groups[track.uuid] = track.process.process_name
        elif track.HasField("counter"):
            self._series[track.uuid] = Series(track.name.removeprefix(f"{UTILISATION} "), [], [])
            if self._groups[track.parent_uuid] == next(name for name in self._groups.values() if name != PATH):
                self._of_first.append(self._series[track.uuid])
        else:
            self._row_of[track.uuid] = self._rows.setdefault((self._groups[track.parent_uuid], track.name), _Row())

    def read(self) -> TimelineFile:
        """The slices received so far."""
        rows = chosen_rows(list(self._rows), MOST_ROWS)
        slices: list[TimelineSlice] = []
        coarsest = 0.0
        limits = shares([len(self._rows[row].begin) for row in rows], self._most)
        for number, (row, most) in enumerate(zip(rows, limits, strict=True)):
            pixel = self._draw(number, self._rows[row], most, slices)
            coarsest = max(coarsest, pixel)
        groups = len({group for group, _ in self._rows if group != PATH})
        return TimelineFile(rows=rows, slices=slices, utilisation=self._of_first, joined_ns=coarsest, groups=groups, lanes=len(self._rows))

    def _draw(self, number: int, row: _Row, most: int, slices: list[TimelineSlice]) -> float:
        """Add the slices of a row; returns the pixel that this takes (ns)."""
        order = sorted(range(len(row.begin)), key=lambda place: (row.begin[place], row.end[place]))
        clusters, pixel = merged([row.begin[place] for place in order], [row.end[place] for place in order], self._end_ns, most, apart=True)
        for cluster in clusters:
            members = [order[place] for place in cluster.members]
            name, kind, group = self._labels[row.label[members[0]]]
            total = sum(row.intervals_merged[place] for place in members)
            if len(members) > 1:
                spent: dict[tuple[str, str], float] = {}
                counts: dict[str, int] = {}
                for place in members:
                    _, own, of = self._labels[row.label[place]]
                    spent[own, of] = spent.get((own, of), 0.0) + row.spent[place]
                    counts[own] = counts.get(own, 0) + row.intervals_merged[place]
                kind, group = max(spent, key=lambda each: spent[each])
                order_of = sorted(counts, key=lambda each: -counts[each])
                name = ", ".join(f"{counts[each]:,} x {each}" for each in order_of[:3]) + (", ..." if len(order_of) > 3 else "")
            slices.append(TimelineSlice(number, name, kind, group, cluster.begin_ns, cluster.end_ns, total, _covered(row, members)))
        return pixel


def _covered(row: _Row, members: Sequence[int]) -> float:
    """The time covered by at least one of some slices, given in the order of their begins (ns)."""
    reach = covered = 0.0
    for place in members:
        begin, end, spent = row.begin[place], row.end[place], row.spent[place]
        new = max(0.0, end - max(begin, reach))
        covered += new if end - begin <= spent else new * spent / (end - begin)
        reach = max(reach, end)
    return covered


def chosen_rows(rows: Sequence[tuple[str, str]], most: int) -> list[tuple[str, str]]:
    """At most `most` rows: of each group as many of its first ones as all can have; if there are more groups, some, evenly spread."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for row in rows:
        groups.setdefault(row[0], []).append(row)
    if len(groups) > most:
        names = [name for name in groups if name != PATH]
        room = most - (PATH in groups)
        chosen = {names[place * len(names) // room] for place in range(room)} | {PATH}
        groups = {name: own for name, own in groups.items() if name in chosen}
    result = dict(zip(groups, shares([len(own) for own in groups.values()], most), strict=True))
    return [row for name, own in groups.items() for row in own[: result[name]]]


def _utilisation_of_csv(path: Path) -> list[Series]:
    """The utilisation that the report `astra1` writes: each line holds the end of a window of 10 us, and a share for each dimension."""
    times, shares = [0.0], []
    try:
        for _, cells in list(csv_rows(read_text(str(path)), str(path)))[1:]:
            if cells[0]:
                times.append(1000 * finite(cells[0]))
                shares.append([finite(cell) for cell in cells[1:] if cell])
        dimensions = len(shares[0]) if shares else 0
        if any(len(each) != dimensions for each in shares):
            raise ValueError("rows of different numbers of dimensions")
    except ValueError as error:
        raise InputError(f"{path}: {error}; expected a time and shares, as astra1 writes them") from None
    return [Series(f"dimension {number}", times[:-1], [share[number] for share in shares]) for number in range(dimensions)]


def finite(text: str) -> float:
    """A number of a table that a picture can hold. Raises ValueError."""
    number = float(text)
    if not abs(number) < _LARGEST:
        raise ValueError(f"{text!r} is no number that can be drawn")
    return number


_LARGEST = 1e300
_MOST_NODES = 1 << 24


def _links(path: Path, npus: int) -> list[LinkRow]:
    """The loads of links that a run writes; nodes are NPUs, then switches."""
    links = []
    for where, row in csv_table(read_text(str(path)), str(path), ("source", "target", "utilisation"), None):
        try:
            ends = node_number(row["source"], npus), node_number(row["target"], npus)
            links.append(LinkRow(*ends, finite(row["utilisation"])))
        except ValueError as error:
            raise InputError(f"{where}: not the links of a run: {error}") from None
        if not all(0 <= number < _MOST_NODES for number in ends):
            raise InputError(f"{where}: the link joins {row['source']} and {row['target']}; expected less than {_MOST_NODES} nodes")
    return links
