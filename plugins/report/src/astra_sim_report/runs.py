"""Runs as `--output` leaves them: result.json, and the files beside it that pictures are made of."""

from __future__ import annotations

import csv
import gzip
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import attrs
from astra_sim.errors import InputError
from astra_sim.files import parse_json, read_text
from astra_sim.reports import file_name
from google.protobuf.message import DecodeError

from astra_sim_report.perfetto import EventType, packets
from astra_sim_report.timeline import SUFFIX, UTILISATION

MOST_SLICES = 12_000
"""How many slices of a timeline are kept: as many as a page shows quickly, and as fit in it. Several runs share twice as many."""

_EXPECTED: Mapping[str, type | tuple[type, ...]] = {
    "run_name": str,
    "finish_ns": (int, float),
    "compute_ns": (int, float),
    "exposed_comm_ns": (int, float),
    "npus": int,
    "network": dict,
    "layers": list,
    "dimensions": list,
}


class Slice(NamedTuple):
    """Something on a row of a timeline, in ns; or several things of one kind that follow each other so closely that they look like one."""

    row: int
    name: str
    kind: str
    begin_ns: float
    end_ns: float
    things: int = 1


class Series(NamedTuple):
    """A share in percent that holds from each time (ns) on."""

    name: str
    times_ns: Sequence[float]
    percent: Sequence[float]


class Link(NamedTuple):
    """A link between routers, and the share of the run in which it is busy."""

    source: int
    sink: int
    utilisation: float


@attrs.frozen(eq=False)
class TimelineFile:
    """A timeline that was read: its rows (group, lane), its slices by row and begin, and the utilisation of NPU 0's dimensions.

    Short slices of one kind that are no further apart than `joined_ns` are one slice; with 0 none are. `left_out` of the shortest ones
    are not here.
    """

    rows: Sequence[tuple[str, str]]
    slices: Sequence[Slice]
    utilisation: Sequence[Series]
    joined_ns: float
    left_out: int


@attrs.frozen(eq=False)
class Run:
    """A run: its name, the table of result.json, and what lies beside that."""

    name: str
    result: Mapping[str, Any]
    timeline: TimelineFile | None = None
    utilisation: Sequence[Series] = ()
    links: Sequence[Link] = ()


def load_runs(paths: Sequence[str]) -> list[Run]:
    """The runs of files `result.json`, or of folders that hold one. Runs of one name get that of their folder, too. Raises InputError."""
    found = [(path, result) for path in map(_result_file, paths) for result in _results(path)]
    names = Counter(result["run_name"] for _, result in found)
    per_folder = Counter(path for path, _ in found)
    most = min(MOST_SLICES, 2 * MOST_SLICES // len(found))
    runs = []
    for path, result in found:
        name = result["run_name"]
        label = name if names[name] == 1 else f"{name} ({path.parent.name or path.parent})"
        runs.append(_run(label, path.parent, result, alone=per_folder[path] == 1, most=most))
    again = [name for name, count in Counter(run.name for run in runs).items() if count > 1]
    if again:
        raise InputError(f"two runs are called {again[0]!r}; expected runs or folders of different names")
    return runs


def _result_file(path: str) -> Path:
    found = Path(path)
    return found / "result.json" if found.is_dir() else found


def _results(path: Path) -> list[Mapping[str, Any]]:
    read = parse_json(read_text(str(path)), str(path))
    results = read if isinstance(read, list) else [read]
    for place, result in enumerate(results):
        where = f"{path}: run {place + 1}" if isinstance(read, list) else str(path)
        if not isinstance(result, dict):
            raise InputError(f"{where} is {type(result).__name__}; expected the result of a run, as astra --output writes it")
        for key, kind in _EXPECTED.items():
            if not isinstance(result.get(key), kind):
                raise InputError(f"{where}: {key} is {result.get(key)!r}; expected the result of a run, as astra --output writes it")
    if not results:
        raise InputError(f"{path} holds no runs; expected one at least")
    return results


def _run(label: str, folder: Path, result: Mapping[str, Any], alone: bool, most: int) -> Run:
    name = file_name(result["run_name"])
    timeline_file, csv_file = folder / f"{name}{SUFFIX}", folder / f"{name}_dimension_utilization.csv"
    links_file = folder / ("links.csv" if alone else f"{name}_links.csv")
    timeline = read_timeline(timeline_file, most) if timeline_file.is_file() else None
    utilisation: Sequence[Series] = _utilisation_of_csv(csv_file) if timeline is None and csv_file.is_file() else []
    utilisation = utilisation if timeline is None else timeline.utilisation
    return Run(label, result, timeline, utilisation, _links(links_file, result["finish_ns"]) if links_file.is_file() else [])


def read_timeline(path: Path, most: int = MOST_SLICES) -> TimelineFile:
    """A timeline as the report `timeline` writes it; where there are more than so many slices, short ones are joined. Raises InputError."""
    reader = _TimelineReader(most)
    try:
        with gzip.open(path) as file:
            for packet in packets(file):  # type: ignore[arg-type]
                reader.take(packet)
        return reader.read()
    except (OSError, EOFError, ValueError, KeyError, DecodeError) as error:
        raise InputError(f"{path}: not a timeline of astra: {error}") from None


class _TimelineReader:
    """Takes the packets of a timeline, one after another."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._groups: dict[int, str] = {}
        self._rows: list[tuple[str, str]] = []
        self._row_of: dict[int, int] = {}
        self._series: dict[int, Series] = {}
        self._of_first: list[Series] = []
        self._names: dict[int, str] = {}
        self._kinds: dict[int, str] = {}
        self._open: dict[int, Slice] = {}
        self._slices: list[Slice] = []
        self._joined_ns = 0.0
        self._join_at = 8 * most

    def take(self, packet: Any) -> None:
        """Take a packet. Raises KeyError where it speaks of what was not described."""
        if packet.HasField("track_descriptor"):
            self._describe(packet.track_descriptor)
        if packet.HasField("interned_data"):
            self._names.update((text.iid, text.name) for text in packet.interned_data.event_names)
            self._kinds.update((text.iid, text.name) for text in packet.interned_data.event_categories)
        if not packet.HasField("track_event"):
            return
        event, track = packet.track_event, packet.track_event.track_uuid
        if event.type == EventType.SLICE_BEGIN:
            name, kind = self._names[event.name_iid], self._kinds[event.category_iids[0]]
            self._open[track] = Slice(self._row_of[track], name, kind, packet.timestamp, 0)
        elif event.type == EventType.SLICE_END:
            self._slices.append(self._open.pop(track)._replace(end_ns=packet.timestamp))
            if len(self._slices) > self._join_at:
                self._join()
                self._join_at = max(self._join_at, 2 * len(self._slices))  # where few could be joined, not again for each slice
        elif event.type == EventType.COUNTER:
            series = self._series[track]
            series.times_ns.append(packet.timestamp)  # type: ignore[attr-defined]
            series.percent.append(event.double_counter_value)  # type: ignore[attr-defined]

    def _describe(self, track: Any) -> None:
        if track.HasField("process"):
            self._groups[track.uuid] = track.process.process_name
        elif track.HasField("counter"):
            self._series[track.uuid] = Series(track.name.removeprefix(f"{UTILISATION} "), [], [])
            if track.parent_uuid == min(self._groups):
                self._of_first.append(self._series[track.uuid])
        else:
            self._row_of[track.uuid] = len(self._rows)
            self._rows.append((self._groups[track.parent_uuid], track.name))

    def _join(self) -> None:
        """Join slices that are close, for longer and longer distances, until there are few; up to a distance that one could see.

        Those that came since the last time are joined for the distance of then first.
        """
        end = max(each.end_ns for each in self._slices)
        if self._joined_ns:
            self._slices = _joined(self._slices, self._joined_ns)
        for parts in (4096, 2048, 1024, 512):
            if len(self._slices) > self._most and end / parts > self._joined_ns:
                self._joined_ns = end / parts
                self._slices = _joined(self._slices, self._joined_ns)

    def read(self) -> TimelineFile:
        """What has come."""
        if len(self._slices) > self._most:
            self._join()
        kept = longest(self._slices, self._most)
        return TimelineFile(self._rows, kept, self._of_first, self._joined_ns, len(self._slices) - len(kept))


def longest(slices: Sequence[Slice], most: int) -> list[Slice]:
    """At most so many slices, in order of rows and time: where there are more, the longest of each row, all rows alike."""
    rows: dict[int, list[Slice]] = {}
    for each in slices:
        rows.setdefault(each.row, []).append(each)
    room, kept = most, list[Slice]()
    for left, own in zip(range(len(rows), 0, -1), sorted(rows.values(), key=len), strict=True):
        chosen = sorted(own, key=lambda each: each.begin_ns - each.end_ns)[: room // left]
        room -= len(chosen)
        kept += chosen
    return sorted(kept, key=lambda each: (each.row, each.begin_ns))


def _joined(slices: Sequence[Slice], distance_ns: float) -> list[Slice]:
    """Slices, of which short ones of a kind and row that are no further apart than a distance are one."""
    found: list[Slice] = []
    for each in sorted(slices, key=lambda each: (each.row, each.begin_ns)):
        last = found[-1] if found else None
        if (
            last is not None
            and (last.row, last.kind) == (each.row, each.kind)
            and each.begin_ns - last.end_ns <= distance_ns
            and all(one.things > 1 or one.end_ns - one.begin_ns <= distance_ns for one in (last, each))
        ):
            things = last.things + each.things
            found[-1] = last._replace(name=f"{things} x {each.kind}", end_ns=each.end_ns, things=things)
        else:
            found.append(each)
    return found


def _utilisation_of_csv(path: Path) -> list[Series]:
    """The utilisation that the report `astra1` writes: each line holds the end of a window of 10 us, and a share for each dimension."""
    rows = list(csv.reader(io.StringIO(read_text(str(path)))))[1:]
    times, shares = [0.0], []
    try:
        for row in rows:
            if row and row[0]:
                times.append(1000 * float(row[0]))
                shares.append([float(cell) for cell in row[1:] if cell])
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None
    dimensions = len(shares[0]) if shares else 0
    return [Series(f"dimension {number}", times[:-1], [share[number] for share in shares]) for number in range(dimensions)]


def _links(path: Path, finish_ns: float) -> list[Link]:
    """The loads of links that a network writes: shares of the run, or times. Routers of several domains are numbered one after another."""
    rows = list(csv.DictReader(io.StringIO(read_text(str(path)))))
    try:
        links = [(int(row.get("domain", 0)), int(row["source"]), int(row["sink"]), _share(row, finish_ns)) for row in rows]
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: not the links of a run: {error}") from None
    routers = 1 + max((max(source, sink) for _, source, sink, _ in links), default=0)
    return [Link(source + domain * routers, sink + domain * routers, share) for domain, source, sink, share in links]


def _share(link: Mapping[str, str], finish_ns: float) -> float:
    """How much of the run a link was busy."""
    return float(link["utilisation"]) if "utilisation" in link else float(link["busy_ns"]) / max(1.0, finish_ns)
