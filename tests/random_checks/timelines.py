"""Timelines of random experiments: nothing overlaps on a track, arrows have both ends, no NPU is missing, and busy times are the result's.

A case writes the timeline of an experiment of layers, collectives, traces or a language model, whole or limited to few slices, and
reads it by the schema that Perfetto publishes; then what a page would draw of it.
"""

from __future__ import annotations

import gzip
import itertools
import math
import warnings
from collections import defaultdict
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import astra_sim
from astra_sim import AstraError
from astra_sim.report.result import Result
from astra_sim_report import runs, timeline
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent
from support import llm_experiments
from support.random_experiments import Experiment

IN_TESTS = 12
IN_NIGHTLY = 300


class Drawn(NamedTuple):
    """A slice of a trace: its group and lane, its track, when (ns), its arguments, and the arrows through it and those that end there."""

    group: str
    lane: str
    track: int
    name: str
    begin: int
    end: int
    arguments: dict[str, Any]
    through: tuple[int, ...]
    ending: tuple[int, ...]


def check(seed: int, folder: Path) -> list[str]:
    """What does not hold for the timeline of a random experiment."""
    random = Random(seed)
    options: dict[str, Any] = llm_experiments.experiment(random) if random.random() < 0.4 else Experiment(seed, folder).options
    if random.random() < 0.3:
        options = options | {"symmetry": False}
    kind = random.choice(["path", "path", True, "messages", "explain"])
    asked: dict[str, Any] = {"explain": "path"} if kind == "explain" else {"timelines": kind}
    limit = random.choice([None, None, 40, 300])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = astra_sim.simulate(**options, **asked)
        except AstraError:
            return []  # what cannot run is the subject of others
        before, timeline.MAX_SLICES = timeline.MAX_SLICES, limit or timeline.MAX_SLICES
        try:
            astra_sim.write_reports(result, folder / "out", reports="timeline", series="all" if limit is None else "limited")
        finally:
            timeline.MAX_SLICES = before
    path = folder / "out" / f"{result.run_name}{timeline.SUFFIX}"
    slices = read(path.read_bytes())
    results = [*overlapping(slices), *broken_arrows(slices), *missing(result, slices), *wrong_times(result, slices)]
    results += wrong_path(result) if kind is not True else []
    for most in (30, 1000):
        results += wrong_page(path, slices, most)
    return results


def read(data: bytes) -> list[Drawn]:
    """The slices of a Perfetto trace in the order in which a viewer has them: by whole nanoseconds, then as they are in the file."""
    trace: Any = Trace.FromString(gzip.decompress(data))
    groups: dict[int, str] = {}
    tracks: dict[int, tuple[str, str]] = {}
    texts: dict[str, dict[int, str]] = defaultdict(dict)
    events = []
    for packet in trace.packet:
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            if track.HasField("process"):
                groups[track.uuid] = track.process.process_name
            elif not track.HasField("counter"):
                tracks[track.uuid] = groups[track.parent_uuid], track.name
        for field in ("event_names", "debug_annotation_names"):
            texts[field].update((each.iid, each.name) for each in getattr(packet.interned_data, field))
        if packet.HasField("track_event") and packet.track_event.type != TrackEvent.TYPE_COUNTER:
            events.append((packet.timestamp, packet.track_event))
    open_: dict[int, tuple[int, int, Any]] = {}
    result: list[tuple[int, int, Drawn]] = []
    for number, (time, event) in enumerate(sorted(events, key=lambda each: each[0])):
        if event.type == TrackEvent.TYPE_SLICE_BEGIN:
            assert event.track_uuid not in open_, "a slice begins within another"
            open_[event.track_uuid] = number, time, event
            continue
        place, begin, began = open_.pop(event.track_uuid)
        results = {texts["debug_annotation_names"][each.name_iid]: each for each in began.debug_annotations}
        arguments = {name: getattr(each, each.WhichOneof("value")) for name, each in results.items()}
        name = texts["event_names"][began.name_iid]
        lane = tracks[began.track_uuid]
        arrows = tuple(began.flow_ids), tuple(began.terminating_flow_ids)
        result.append((begin, place, Drawn(*lane, began.track_uuid, name, begin, time, arguments, *arrows)))
    assert not open_, "a slice does not end"
    return [each for _, _, each in sorted(result, key=lambda each: each[:2])]


def overlapping(slices: list[Drawn]) -> list[str]:
    """Tracks with slices that overlap."""
    tracks: dict[int, list[Drawn]] = defaultdict(list)
    for each in slices:
        tracks[each.track].append(each)
    pairs = itertools.chain.from_iterable(itertools.pairwise(own) for own in tracks.values())
    return [f"{one.group} {one.lane}: {one} and {other} overlap" for one, other in pairs if one.end > other.begin]


def broken_arrows(slices: list[Drawn]) -> list[str]:
    """Arrows that do not begin or end, that end before they begin, or that lead a message to another NPU than its send says."""
    arrows: dict[int, list[tuple[Drawn, bool]]] = defaultdict(list)
    for each in slices:
        for number in each.through:
            arrows[number].append((each, False))
        for number in each.ending:
            arrows[number].append((each, True))
    result = []
    for number, own in arrows.items():
        if len(own) < 2 or [ends for _, ends in own] != [False] * (len(own) - 1) + [True]:
            result.append(f"arrow {number} leads through {[(each.lane, each.name, ends) for each, ends in own]}")
            continue
        first, last = own[0][0], own[-1][0]
        if "receive" in last.lane:
            sender = next((each for each, _ in own if "to NPU" in each.arguments), first)
            ends = [each.group.split(",")[0].removeprefix("NPU ") for each in (sender, last)]
            results = [str(last.arguments.get("from NPU")), str(sender.arguments.get("to NPU"))]
            if ends != results or sender.arguments.get("bytes") != last.arguments.get("bytes"):
                result.append(f"arrow {number} leads from NPU {ends[0]} to {ends[1]}; the slices say {results}: {sender} {last}")
        elif first.group != last.group:
            result.append(f"arrow {number} leads from {first.group} to {last.group}")
    return result


def missing(result: Result, slices: list[Drawn]) -> list[str]:
    """NPUs of which something happened, and that are not drawn; and lanes of theirs."""
    drawn = {(each.group, each.lane) for each in slices}
    results = []
    for own in result.timelines():
        group = timeline.group_name(own.npu, own.npus)
        lanes = {each.lane for each in own if each.end_ns > each.begin_ns and each.kind != "receive"}
        results += [f"{group}: {lane} is not drawn" for lane in sorted(lanes) if (group, lane) not in drawn]
    return results


def wrong_times(result: Result, slices: list[Drawn]) -> list[str]:
    """Lanes whose drawn times do not add up to those of the result, to the nanoseconds that a trace cuts off."""
    drawn: dict[tuple[str, str], float] = defaultdict(float)
    counts: dict[tuple[str, str], int] = defaultdict(int)
    for each in slices:
        spent = each.arguments.get(timeline.SPENT)
        drawn[each.group, each.lane] += each.end - each.begin if spent is None else spent
        counts[each.group, each.lane] += each.arguments.get(timeline.MEMBERS, 1)
    results = []
    compute = 0.0
    for own in result.timelines():
        group = timeline.group_name(own.npu, own.npus)
        sums: dict[str, float] = defaultdict(float)
        numbers: dict[str, int] = defaultdict(int)
        for interval in own:
            if interval.kind != "receive":  # it is drawn while its message is on the way
                sums[interval.lane] += interval.end_ns - interval.begin_ns
                numbers[interval.lane] += 1
        for lane, ns in sums.items():
            if counts[group, lane] != numbers[lane] or abs(drawn[group, lane] - ns) > 1 + counts[group, lane]:
                results.append(f"{group} {lane}: {counts[group, lane]} intervals of {drawn[group, lane]} ns, not {numbers[lane]} of {ns}")
        if own.npu == 0:
            compute = drawn[group, "compute"] + drawn[group, "CPU"]
    if abs(compute - result.compute_ns) > 1 + len(slices):
        results.append(f"NPU 0 computes {result.compute_ns} ns; {compute} ns are drawn")
    return results


def wrong_path(result: Result) -> list[str]:
    """A critical path that does not lead from the start to the end of the run, one part after another."""
    path = list(result.critical_path())
    ends = [0.0, *(each.end_ns for each in path)]
    results = [f"the path has a gap before {each}" for each, end in zip(path, ends, strict=False) if not math.isclose(each.begin_ns, end)]
    if result.finish_ns and not math.isclose(ends[-1], result.finish_ns):
        results.append(f"the path ends at {ends[-1]} ns, the run at {result.finish_ns}")
    return results


def wrong_page(path: Path, slices: list[Drawn], most: int) -> list[str]:
    """What a page draws of a timeline with a limit of slices: no row and no end of one is missing, nothing overlaps, all is counted."""
    drawn = runs.read_timeline(path, most)
    result = []
    rows: dict[tuple[str, str], list[Drawn]] = defaultdict(list)
    for each in slices:
        rows[each.group, each.lane].append(each)
    if {group for group, _ in drawn.rows} != {group for group, _ in rows} and len({group for group, _ in rows}) <= runs.MOST_ROWS:
        result.append(f"a page shows {sorted({group for group, _ in drawn.rows})} of {sorted({group for group, _ in rows})}")
    if len(drawn.slices) > max(most, len(drawn.rows)):
        result.append(f"a page draws {len(drawn.slices)} slices of {len(drawn.rows)} rows; expected at most {most}")
    for number, row in enumerate(drawn.rows):
        own = [each for each in drawn.slices if each.row == number]
        if any(one.end_ns > other.begin_ns for one, other in itertools.pairwise(own)):
            result.append(f"{row}: slices of a page overlap")
        if sum(each.intervals_merged for each in own) != sum(each.arguments.get(timeline.MEMBERS, 1) for each in rows[row]):
            result.append(f"{row}: a page draws {sum(each.intervals_merged for each in own)} intervals")
        if (own[0].begin_ns, own[-1].end_ns) != (rows[row][0].begin, max(each.end for each in rows[row])):
            result.append(f"{row}: a page draws {own[0].begin_ns} to {own[-1].end_ns} ns")
    return result
