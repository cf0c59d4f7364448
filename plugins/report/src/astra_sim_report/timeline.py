"""The report `timeline`: the work of the observed NPUs, as a trace for Perfetto or Chrome.

Every NPU is a group of tracks: its computing, each stream in which it communicates, and traffic on its way in each dimension, with the
utilisation of the dimension as a counter, and its memory by kind if the workload has a table `memory_over_time`. Intervals of one lane that
overlap are on several tracks of one name. Arrows (flows) lead from a send to its receive, and from a collective to the phases of each of
its chunks, one after another. If the run has kept its critical path, that is a group of its own, and labels its slices so.
"""

from __future__ import annotations

import contextlib
import gzip
import heapq
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import attrs
import numpy as np
from astra_sim.errors import warn
from astra_sim.files import FileSet
from astra_sim.reports import Interval, PathInterval, ReportFile, ReportFolder, Result

from astra_sim_report.merging import merged, shares
from astra_sim_report.trace_writers import Arguments, ChromeWriter, PerfettoWriter, SliceLabel, TraceWriter

MAX_SLICES = 200_000
"""The largest number of slices in a file of a report, if series are limited."""

WINDOWS = 1000
"""Windows of a run over which utilisation is a mean."""

UTILISATION = "utilisation of"
"""The prefix of a counter's name; the lane follows."""

TOTAL = "total_bytes"
"""The column of `memory_over_time` that is the sum of the others."""

SUFFIX = "_timeline.pftrace.gz"
"""The ending of a timeline's name in a folder of reports, behind that of the run."""

PATH = "critical path"
"""The name of the group and of the track of the critical path, and the category of its slices."""

MEMBERS, SPENT = "intervals", "time in them (ns)"
"""Arguments of a slice that represents several intervals: how many they are, and how long they take in all."""

PASSES = {"forward": "forward", "input_gradient": "backward (input gradient)", "weight_gradient": "backward (weight gradient)"}
"""The names of passes of training a layer in the names of slices."""

_FIRST = ("compute", "CPU", "recorded communication", "memory", "waiting")
_MOST_NAMED = 3


def write(results: Sequence[Result], folder: ReportFolder) -> None:
    """Write a trace of each run: Chrome's JSON if the name of the file ends so (.json), and gzipped if it does (.gz)."""
    if folder.series == "none":
        return
    for result in results:
        name = f"{result.run_name}{SUFFIX}"
        with folder.open(name, "wb") as file, _packed(file, folder.path(name)) as out:
            _write_trace(result, _writer(out, folder.path(name)), MAX_SLICES if folder.series == "limited" else None)


def write_file(result: Result, path: str, files: FileSet) -> None:
    """Write a trace of a run into a file, whole, in the format of its name. Raises RunError if it cannot be written."""
    write([result], ReportFile(path, files, "the timeline"))


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


def group_name(npu: int, npus: int) -> str:
    """The name of the group of tracks of an NPU that represents several with its program."""
    return f"NPU {npu}" + (f", as {npus} NPUs with its program" if npus > 1 else "")


def lane_order(lane: str) -> tuple[int, str]:
    """The order of lanes: computing, waits of an NPU, collectives, messages, dimensions; then by name."""
    if lane in _FIRST:
        return _FIRST.index(lane), lane
    ends = ("collectives", "send", "receive")
    return next((10 + place for place, end in enumerate(ends) if lane.endswith(end)), 20), lane


def slice_name(each: Interval) -> str:
    """The name of an interval: its layer or name, its action unless it computes, and the pass of training."""
    passes = PASSES.get(each.training_pass, "") if each.layer else PASSES.get(each.training_pass, "").partition(" (")[0]
    if each.chunk >= 0:
        base, _, chunk = each.name.rpartition(" chunk ")
        kind = "" if each.kind.startswith("message") else each.kind
        return " ".join(filter(None, (base, kind, passes, f"chunk {chunk}")))
    kind = "" if (each.kind == "compute" and each.name) or each.kind == "message" else each.kind
    return " ".join(filter(None, (each.name, kind, passes)))


class _Key(NamedTuple):
    """The path of an arrow: a message, or a chunk on an NPU."""

    kind: str
    of: Any


@attrs.define(eq=False)
class _Lane:
    """The intervals of a lane of an NPU in columns: their labels (`labels`), when, their place in the program, and their message."""

    name: str
    label: array[int] = attrs.field(factory=lambda: array("I"))
    begin: array[float] = attrs.field(factory=lambda: array("d"))
    end: array[float] = attrs.field(factory=lambda: array("d"))
    operation: array[int] = attrs.field(factory=lambda: array("q"))
    chunk: array[int] = attrs.field(factory=lambda: array("q"))
    phase: array[int] = attrs.field(factory=lambda: array("q"))
    message: array[int] = attrs.field(factory=lambda: array("q"))

    @property
    def is_receiving(self) -> bool:
        """Whether arrows end here."""
        return self.name.endswith(("receive", "received"))

    def sort(self) -> None:
        """Put the intervals in the order of their begins."""
        order = np.lexsort((np.frombuffer(self.end), np.frombuffer(self.begin)))
        for column in ("label", "begin", "end", "operation", "chunk", "phase", "message"):
            values = getattr(self, column)
            setattr(self, column, array(values.typecode, np.frombuffer(values, values.typecode)[order].tobytes()))


class _IntervalTable:
    """All that is drawn: lanes of NPUs, with every text and every message once."""

    def __init__(self, timelines: Iterable[Any]) -> None:
        self.labels: list[SliceLabel] = []
        self.npus: list[tuple[int, int, dict[str, _Lane]]] = []
        self._known: dict[Any, int] = {}
        self._messages: dict[Any, int] = {}
        self._flights: dict[int, tuple[float, float]] = {}
        receives: list[tuple[dict[str, _Lane], Interval]] = []
        for timeline in timelines:
            lanes: dict[str, _Lane] = {}
            self.npus.append((timeline.npu, timeline.npus, lanes))
            for each in timeline:
                if each.kind == "receive" and each.message is not None:
                    receives.append((lanes, each))
                    continue
                message = -1
                if each.message is not None:
                    message = self._messages.setdefault(each.message, len(self._messages))
                    if each.sent_ns is not None:
                        self._flights[message] = each.sent_ns, each.end_ns
                self._add(lanes, each, message, each.begin_ns, each.end_ns)
        # A receive is drawn while its message is on the way, if its sender is drawn, too, whenever it was posted.
        for lanes, each in receives:
            message = self._messages.setdefault(each.message, len(self._messages))
            begin, end = self._flights.get(message, (each.begin_ns, each.end_ns))
            if end > begin:
                self._add(lanes, each, message, begin, end)
        for _, _, lanes in self.npus:
            for lane in lanes.values():
                lane.sort()

    def _add(self, lanes: dict[str, _Lane], each: Interval, message: int, begin: float, end: float) -> None:
        """Add an interval to its lane, under a label that those like it share."""
        lane = lanes.get(each.lane)
        if lane is None:
            lane = lanes[each.lane] = _Lane(each.lane)
        key = each.kind, each.name, each.training_pass, each.group, each.bytes, each.peer
        label = self._known.get(key)
        if label is None:
            label = self._known[key] = len(self.labels)
            self.labels.append(SliceLabel(slice_name(each), each.kind, tuple(_arguments(each))))
        lane.label.append(label)
        lane.begin.append(begin)
        lane.end.append(end)
        lane.operation.append(each.operation)
        lane.chunk.append(each.chunk)
        lane.phase.append(each.phase)
        lane.message.append(message)


def _arguments(each: Interval) -> Iterator[tuple[str, str | int]]:
    """The details of an interval besides its name."""
    texts = {"layer": each.layer, "pass": PASSES.get(each.training_pass, ""), "group": each.group}
    yield from ((name, text) for name, text in texts.items() if text)
    if each.bytes is not None:
        yield "bytes", each.bytes
    if each.peer is not None:
        yield "from NPU" if each.kind in ("receive", "message received") else "to NPU", each.peer


class _Drawn(NamedTuple):
    """A lane with its drawn rows: each the places of one interval, or of several that are drawn as one."""

    lane: _Lane
    npu: int
    rows: Sequence[tuple[Sequence[int], float, float]]
    tracks: Sequence[int]


class _Marks:
    """The time of the critical path in operations and phases of NPUs (ns)."""

    def __init__(self, path: Iterable[PathInterval]) -> None:
        self._spent: dict[tuple[int, int, int, int], float] = {}
        for each in path:
            spent = each.end_ns - each.begin_ns
            self._add((each.npu, each.operation, -1, -1), spent)
            if each.chunk >= 0:
                self._add((each.npu, each.operation, each.chunk, each.phase), spent)

    def _add(self, key: tuple[int, int, int, int], spent: float) -> None:
        self._spent[key] = self._spent.get(key, 0.0) + spent

    def of(self, drawn: _Drawn, places: Sequence[int]) -> float:
        """The time of the path in intervals of a lane."""
        lane, npu, known = drawn.lane, drawn.npu, self._spent
        return sum(known.get((npu, lane.operation[place], lane.chunk[place], lane.phase[place]), 0.0) for place in places) if known else 0.0


def _write_trace(result: Result, writer: TraceWriter, limit: int | None) -> None:
    """Write all tracks; slices that are shorter than a pixel become one if there are more than `limit`."""
    table = _IntervalTable(result.timelines())
    path = list(result.critical_path()) if result.has_critical_path else []
    lanes = [(npu, lanes[name]) for npu, _, lanes in table.npus for name in sorted(lanes, key=lane_order)]
    counts = [len(lane.label) for _, lane in lanes]
    outcome = counts if limit is None else shares([*counts, len(path)], limit)
    coarsest = 0.0
    rows = []
    for (_, lane), most in zip(lanes, outcome, strict=False):
        results, pixel = merged(lane.begin, lane.end, result.finish_ns, most)
        rows.append([(cluster.members, cluster.begin_ns, cluster.end_ns) for cluster in results])
        coarsest = max(coarsest, pixel)
    if path:
        _write_path(path, writer, result.finish_ns, len(path) if limit is None else outcome[-1])
    drawn = _write_tracks(table, rows, writer, result)
    flows = _Flows(drawn)
    marks = _Marks(path)
    # A receive begins with its message, and an arrow leads from the earlier slice in the file: so receives come last.
    for each in sorted(drawn, key=lambda each: each.lane.is_receiving):
        _write_slices(each, table.labels, writer, flows, marks)
    writer.close()
    if coarsest:
        warn(
            f"the timeline of {result.run_name} has {sum(counts):,} intervals: those shorter than {coarsest:,.6g} ns that follow each "
            "other closely are drawn as one; --series all writes each of them"
        )


def _write_tracks(
    table: _IntervalTable, rows: Sequence[Sequence[tuple[Sequence[int], float, float]]], writer: TraceWriter, result: Result
) -> list[_Drawn]:
    """Write groups, counters and tracks; a lane whose rows overlap gets several tracks."""
    drawn = []
    memory = result.figures.get("memory_over_time", ())
    of_lanes = iter(rows)
    for npu, npus, lanes in table.npus:
        group = writer.group(group_name(npu, npus))
        _write_memory([row for row in memory if row["npu"] == npu], group, writer)
        for name in sorted(lanes, key=lane_order):
            lane, rows_of_lane = lanes[name], next(of_lanes)
            if name.startswith("dimension"):
                counter = writer.counter(group, f"{UTILISATION} {name}", "%")
                edges, part = utilisation(np.frombuffer(lane.begin), np.frombuffer(lane.end), result.finish_ns)
                for at, share in zip(edges.tolist(), [*(100 * part).tolist(), 0.0], strict=True):
                    writer.value(counter, at, share)
            places = list(_rows([begin for _, begin, _ in rows_of_lane], [end for _, _, end in rows_of_lane]))
            tracks = [writer.track(group, name) for _ in range(max(places, default=-1) + 1)]
            drawn.append(_Drawn(lane, npu, rows_of_lane, [tracks[place] for place in places]))
    return drawn


def _write_memory(rows: Sequence[Mapping[str, Any]], group: int, writer: TraceWriter) -> None:
    """Write counters of an NPU's memory: of all, and of each kind."""
    names = [name for name in (rows[0] if rows else ()) if name.endswith("_bytes")]
    for name in sorted(names, key=lambda name: name != TOTAL):
        counter = writer.counter(group, f"memory: {name.removesuffix('_bytes')}", "bytes")
        for row in rows:
            writer.value(counter, row["at_ns"], row[name])


_BEGINS, _UNDER_WAY, _ENDS = 1, 2, 3


class _Flows:
    """The arrows of a trace: numbers of those that lead through a slice, and of those that end there. Each has two slices at least."""

    def __init__(self, drawn: Sequence[_Drawn]) -> None:
        through: dict[_Key, list[tuple[int, int, int, int]]] = {}
        sends: dict[int, tuple[int, int, int, int]] = {}  # the phase to which a message of a collective belongs
        phases: dict[tuple[int, int, int, int], tuple[int, int, int, int]] = {}
        for number, each in enumerate(drawn):
            lane = each.lane
            for row, (places, _, _) in enumerate(each.rows):
                if len(places) > 1:
                    continue  # several as one: arrows would lead to none of them
                place = places[0]
                if lane.message[place] >= 0:
                    step = _ENDS if lane.is_receiving else _UNDER_WAY if lane.name.startswith("dimension") else _BEGINS
                    steps = through.setdefault(_Key("message", lane.message[place]), [])
                    steps.append((step, 0, number, row))
                    if lane.chunk[place] >= 0 and step == _BEGINS:
                        sends[lane.message[place]] = each.npu, lane.operation[place], lane.chunk[place], lane.phase[place]
                elif lane.chunk[place] >= 0:
                    key = _Key("chunk", (each.npu, lane.operation[place], lane.chunk[place]))
                    through.setdefault(key, []).append((1, lane.phase[place], number, row))
                    phases[each.npu, lane.operation[place], lane.chunk[place], lane.phase[place]] = 0, lane.phase[place], number, row
                elif lane.name.endswith("collectives"):
                    through.setdefault(_Key("collective", (each.npu, lane.operation[place])), []).append((0, 0, number, row))
        self._of: dict[tuple[int, int], tuple[list[int], list[int]]] = {}
        self._number_of = {id(each): number for number, each in enumerate(drawn)}
        count = 0
        for key, slices in through.items():
            if key.kind == "chunk":
                slices = [*through.get(_Key("collective", key.of[:2]), ()), *slices]
            if key.kind == "collective" or len(slices) < 2:
                continue
            if key.kind == "message":
                if not {_BEGINS, _ENDS} <= {step for step, *_ in slices}:
                    continue
                phase = phases.get(sends.get(key.of, (-1, -1, -1, -1)))
                slices = slices if phase is None else [phase, *slices]
            ordered = sorted(slices)
            # Viewers order slices by whole nanoseconds, then as they are in the file.
            begins = [(int(drawn[lane].rows[row][1]), drawn[lane].lane.is_receiving, lane) for _, _, lane, row in ordered]
            if begins != sorted(begins):
                continue
            count += 1
            for _, _, lane_number, row in ordered[:-1]:
                self._of.setdefault((lane_number, row), ([], []))[0].append(count)
            self._of.setdefault(ordered[-1][2:], ([], []))[1].append(count)

    def of(self, drawn: _Drawn, row: int) -> tuple[Sequence[int], Sequence[int]]:
        """The arrows that lead through a slice, or begin there, and those that end there."""
        return self._of.get((self._number_of[id(drawn)], row), ((), ()))


def _write_slices(drawn: _Drawn, labels: Sequence[SliceLabel], writer: TraceWriter, flows: _Flows, marks: _Marks) -> None:
    """Write the slices of a track, with their labels and the arrows through them."""
    lane = drawn.lane
    for row, ((places, begin, end), track) in enumerate(zip(drawn.rows, drawn.tracks, strict=True)):
        more: Arguments = {}
        if len(places) == 1:
            label = labels[lane.label[places[0]]]
            more["operation"] = lane.operation[places[0]]
        else:
            spent = sum(lane.end[place] - lane.begin[place] for place in places)
            label = _label_of([(labels[lane.label[place]], lane.end[place] - lane.begin[place]) for place in places])
            more |= {MEMBERS: len(places), SPENT: round(spent, 3)}
        on_path = marks.of(drawn, places)
        if on_path:
            more[f"{PATH} (ns)"] = round(on_path, 3)
        writer.slice(track, label, begin, end, more, *flows.of(drawn, row), category=PATH if on_path else "")


def _label_of(members: Sequence[tuple[SliceLabel, float]]) -> SliceLabel:
    """The name of several merged intervals: the count of each kind; its kind is that which takes the most time."""
    counts: dict[str, int] = {}
    spent: dict[str, float] = {}
    for label, ns in members:
        counts[label.kind] = counts.get(label.kind, 0) + 1
        spent[label.kind] = spent.get(label.kind, 0.0) + ns
    order = sorted(spent, key=lambda kind: -spent[kind])
    name = ", ".join(f"{counts[kind]} x {kind}" for kind in order[:_MOST_NAMED]) + (", ..." if len(order) > _MOST_NAMED else "")
    common = set(members[0][0].arguments).intersection(*(label.arguments for label, _ in members[1:]))
    return SliceLabel(name, order[0], tuple(each for each in members[0][0].arguments if each in common and isinstance(each[1], str)))


def _write_path(path: Sequence[PathInterval], writer: TraceWriter, finish_ns: float, most: int) -> None:
    """Write the critical path: one part after another, with the NPU on which each is."""
    track = writer.track(writer.group(PATH), PATH)
    known: dict[tuple[Any, ...], SliceLabel] = {}
    clusters, _ = merged([each.begin_ns for each in path], [each.end_ns for each in path], finish_ns, most)
    for cluster in clusters:
        parts = [path[place] for place in cluster.members]
        labels = []
        for part in parts:
            key = part.kind, part.name, part.npu, part.layer, part.training_pass, part.collective, part.group, part.dimension
            if key not in known:
                known[key] = _path_label(part)
            labels.append((known[key], part.end_ns - part.begin_ns))
        more: Arguments = {}
        label = labels[0][0]
        if len(parts) == 1:
            if parts[0].operation >= 0:
                more["operation"] = parts[0].operation
        else:
            label = _label_of(labels)
            more = {MEMBERS: len(parts), SPENT: round(sum(ns for _, ns in labels), 3)}
        writer.slice(track, label, cluster.begin_ns, cluster.end_ns, more, category=PATH)


def _path_label(part: PathInterval) -> SliceLabel:
    """The name of a part of the critical path."""
    passes = PASSES.get(part.training_pass, "") if part.layer else PASSES.get(part.training_pass, "").partition(" (")[0]
    what = part.collective or ("" if part.kind == "compute" and part.name else part.kind)
    spends = part.kind if part.collective else ""
    name = " ".join(filter(None, (part.name, what, passes, f"({spends})" if spends else "")))
    texts: Mapping[str, str] = {"kind": part.kind, "layer": part.layer, "pass": PASSES.get(part.training_pass, "")}
    texts = {**texts, "collective": part.collective, "group": part.group}
    arguments: list[tuple[str, str | int]] = [("NPU", part.npu), *((key, text) for key, text in texts.items() if text)]
    if part.dimension is not None:
        arguments.append(("dimension", part.dimension))
    return SliceLabel(f"NPU {part.npu}: {name}", part.kind, tuple(arguments))


def _rows(begins: Sequence[float], ends: Sequence[float]) -> Iterator[int]:
    """For intervals in order of their begin the lowest row in which each overlaps no earlier one."""
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    count = 0
    for begin, end in zip(begins, ends, strict=True):
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
