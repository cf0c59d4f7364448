"""The timeline of a run, for Perfetto and Chrome: what is in it, and that others can read it."""

from __future__ import annotations

import gzip
import itertools
import json
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import astra_sim
import pytest
from astra_sim.errors import InputError, InputWarning, PluginError
from astra_sim.graph import Compute, ExecutionGraph, NpuProgram, Operation, Receive, Send
from astra_sim.platform import LogicalDimension
from astra_sim.report.result import Result
from astra_sim.report.writing import Reports
from astra_sim.reports import ReportFile
from astra_sim.schedule import rank
from astra_sim_report import runs, timeline
from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TracePacket, TrackEvent
from random_checks.timelines import Drawn, broken_arrows, read
from support import ROOT, warm

VGG16 = str(ROOT / "examples" / "vgg16_dgx2_pod.toml")
RING = "plugin:ring?size=8&links=2&link_bandwidth_gib_per_s=50&link_latency_ns=500"


class Thing(NamedTuple):
    """What a trace says of an interval: its group of tracks, its track, name and category, and when it begins and ends (ns)."""

    group: str
    track: str
    name: str
    category: str
    begin: float
    end: float


def pipeline(**options: Any) -> Result:
    """NPU 0 sends to NPU 4; the others compute for a moment."""
    first: list[Operation] = [
        Compute((), 3_000_000, name="forward"),
        Send((0,), rank(4), 100_000, 0),
        Compute((0,), 9_000_000, name="next"),
    ]
    second: list[Operation] = [Receive((), rank(0), 100_000, 0), Compute((0,), 5_000_000, name="forward")]
    idle: list[Operation] = [Compute((), 1_000, name="idle")]
    others = (NpuProgram(tuple(second), (4,)), NpuProgram(tuple(idle), (1, 2, 3, 5, 6, 7)))
    graph = ExecutionGraph(tuple(first), (LogicalDimension(8, 1, 0),), (), others=others)
    return astra_sim.simulate(workload=graph, platform=RING, timelines=True, **options)


def expected(result: Result, digits: int | None = 0) -> set[Thing]:
    """The intervals of a result as a trace has them: in whole nanoseconds, or with all `digits` (None)."""
    results = set()
    sent = {each.message: each.sent_ns for own in result.timelines() for each in own if each.sent_ns is not None}
    for own in result.timelines():
        group = f"NPU {own.npu}" + (f", as {own.npus} NPUs with its program" if own.npus > 1 else "")
        for each in own:
            if each.kind == "receive" and each.end_ns == each.begin_ns:
                continue
            name = timeline.slice_name(each)
            begin = each.begin_ns if each.kind != "receive" else sent[each.message]  # it is drawn while its message is on the way
            assert begin is not None
            times = (begin, each.end_ns) if digits is None else (int(begin), int(each.end_ns))
            results.add(Thing(group, each.lane, name, each.kind, *times))
    return results


def written(result: Result, path: Path) -> bytes:
    Reports((), timeline=str(path)).write(result, None)
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


def things_of(trace: Any) -> list[Thing]:
    """The slices of a Perfetto trace, as its schema says they are to be read. Those of a track must be apart."""
    groups: dict[int, str] = {}
    tracks: dict[int, tuple[str, str]] = {}
    names: dict[int, str] = {}
    categories: dict[int, str] = {}
    events = []
    for packet in trace.packet:
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            if track.HasField("process"):
                groups[track.uuid] = track.process.process_name
            elif not track.HasField("counter"):
                tracks[track.uuid] = groups[track.parent_uuid], track.name
        if packet.HasField("interned_data"):
            names.update((each.iid, each.name) for each in packet.interned_data.event_names)
            categories.update((each.iid, each.name) for each in packet.interned_data.event_categories)
        if packet.HasField("track_event") and packet.track_event.type != TrackEvent.TYPE_COUNTER:
            event = packet.track_event
            assert packet.sequence_flags == TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
            named = (names[event.name_iid], categories[event.category_iids[0]]) if event.name_iid else ()
            events.append((packet.timestamp, event.type, event.track_uuid, named))
    result = []
    began: dict[int, tuple[int, Any]] = {}
    for time, kind, track, named in sorted(events, key=lambda event: event[0]):  # a stable sort, as Perfetto's is
        if kind == TrackEvent.TYPE_SLICE_BEGIN:
            assert track not in began
            began[track] = time, named
        else:
            assert kind == TrackEvent.TYPE_SLICE_END
            begin, named = began.pop(track)
            result.append(Thing(*tracks[track], named[0], named[1], begin, time))
    assert not began
    return result


@pytest.mark.parametrize("experiment", ["vgg16", "pipeline"])
@pytest.mark.parametrize("name", ["run.pftrace", "run.perfetto-trace.gz"])
def test_a_trace_has_every_interval_by_the_schema_that_perfetto_publishes(experiment: str, name: str, tmp_path: Path) -> None:
    result = astra_sim.simulate(VGG16, timelines=True) if experiment == "vgg16" else pipeline()
    trace = Trace.FromString(written(result, tmp_path / name))
    assert trace.packet[0].sequence_flags == TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
    assert {packet.trusted_packet_sequence_id for packet in trace.packet} == {1}
    assert not any(len(UnknownFieldSet(packet)) for packet in trace.packet)
    results = things_of(trace)
    assert len(results) == sum(each.end_ns > each.begin_ns for own in result.timelines() for each in own)
    assert set(results) == expected(result)


@pytest.mark.parametrize("name", ["run.json", "run.json.gz"])
def test_chromes_format_has_every_interval(name: str, tmp_path: Path) -> None:
    result = pipeline()
    events = json.loads(written(result, tmp_path / name))["traceEvents"]
    groups = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    tracks = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    results = [
        Thing(groups[each["pid"]], tracks[each["tid"]], each["name"], each["cat"], 1000 * each["ts"], 1000 * (each["ts"] + each["dur"]))
        for each in events
        if each["ph"] == "X"
    ]
    rounded = {each._replace(begin=round(each.begin, 3), end=round(each.end, 3)) for each in results}
    assert rounded == {each._replace(begin=round(each.begin, 3), end=round(each.end, 3)) for each in expected(result, None)}
    by_track = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            by_track[event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    assert all(end <= begin + 1e-9 for spans in by_track.values() for (_, end), (begin, _) in itertools.pairwise(spans))


def test_every_program_has_a_group_of_its_own() -> None:
    assert [(own.npu, own.npus) for own in pipeline().timelines()] == [(0, 1), (4, 1), (1, 6)]
    assert [(own.npu, own.npus) for own in astra_sim.simulate(VGG16, timelines=True).timelines()] == [(0, 256)]


def test_only_npu_0_has_one_where_nobody_asked() -> None:
    result = astra_sim.simulate(workload="plugin:collective?bytes=4096", platform=RING)
    (own,) = result.timelines()
    assert list(own) == list(result.timeline())


@pytest.mark.parametrize("engine", ["python", "compiled"])
@pytest.mark.parametrize("symmetry", [True, False])
def test_timelines_are_the_same_on_both_engines_with_and_without_symmetry(engine: str, symmetry: bool) -> None:
    def all_of(result: Result) -> dict[int, list[Any]]:
        return {own.npu: list(own) for own in result.timelines()}

    assert all_of(pipeline(engine=engine, symmetry=symmetry)) == all_of(pipeline())


def test_a_message_is_in_the_dimension_that_it_takes() -> None:
    sender, receiver, _ = pipeline().timelines()
    (message,) = [each for each in sender if each.lane == "dimension 0"]
    (send,) = [each for each in sender if each.kind == "send"]
    assert (message.kind, message.begin_ns, message.end_ns) == ("message", 3000, send.end_ns)
    assert [each.kind for each in receiver] == ["receive", "compute"]


def test_computing_begins_when_its_unit_is_free() -> None:
    operations: tuple[Operation, ...] = (Compute((), 3_000_000, name="a"), Compute((), 2_000_000, name="b"))
    graph = ExecutionGraph(operations, (LogicalDimension(8, 1, 0),), ())
    result = astra_sim.simulate(workload=graph, platform=RING, system="plugin:astra2")
    assert [(each.name, each.begin_ns, each.end_ns) for each in result.timeline()] == [("a", 0, 3000), ("b", 3000, 5000)]


def test_the_mean_of_the_counter_is_the_utilisation_of_the_result(tmp_path: Path) -> None:
    result = astra_sim.simulate(VGG16)
    path = tmp_path / f"x{timeline.SUFFIX}"
    written(result, path)
    series = runs.read_timeline(path).utilisation
    assert [each.name for each in series] == ["dimension 0", "dimension 1"]
    for each, dimension in zip(series, result.dimensions, strict=True):
        assert len(each.percent) == timeline.WINDOWS + 1
        assert sum(each.percent) / timeline.WINDOWS == pytest.approx(100 * dimension.utilisation, rel=1e-9)


def test_a_result_is_the_same_after_pickling() -> None:
    import pickle

    result = pipeline()
    again = pickle.loads(pickle.dumps(result))
    assert [(own.npu, own.npus, list(own)) for own in again.timelines()] == [(own.npu, own.npus, list(own)) for own in result.timelines()]


def reports(folder: Path, result: Result, series: str = "limited") -> list[str]:
    astra_sim.write_reports(result, folder, reports="timeline", series=series)
    return sorted(path.name for path in folder.iterdir())


def test_the_report_is_a_file_of_each_run_and_goes_by_series(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = astra_sim.simulate(VGG16)
    file = f"{result.run_name}{timeline.SUFFIX}"
    assert reports(tmp_path / "none", result, "none") == ["result.json"]
    assert reports(tmp_path / "all", result, "all") == ["result.json", file]
    monkeypatch.setattr(timeline, "MAX_SLICES", 100)
    with pytest.warns(InputWarning, match=r"follow each other closely are drawn as one; --series all writes each of them"):
        reports(tmp_path / "limited", result)
    few = things_of(Trace.FromString(gzip.decompress((tmp_path / "limited" / file).read_bytes())))
    every = things_of(Trace.FromString(gzip.decompress((tmp_path / "all" / file).read_bytes())))
    assert 0 < len(few) <= 100
    assert {each.track for each in few} == {each.track for each in every}
    assert max(each.end for each in few) == max(each.end for each in every)


def test_the_same_run_gives_the_same_bytes(tmp_path: Path) -> None:
    assert written(pipeline(), tmp_path / "a.pftrace") == written(pipeline(), tmp_path / "b.pftrace")
    assert (tmp_path / "a.pftrace").stat().st_size > 0


def astra(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [warm.astra(), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_command_writes_a_timeline_with_and_without_a_folder(tmp_path: Path) -> None:
    done = astra(VGG16, "--timeline", tmp_path / "alone.pftrace")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, f"timeline in {tmp_path / 'alone.pftrace'}")
    done = astra(VGG16, "--timeline", tmp_path / "out" / "inside.json", "--output", tmp_path / "out", "--report", "timeline", "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["inside.json", "result.json", f"vgg16_dgx2_pod{timeline.SUFFIX}"]


def test_what_cannot_be_written_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = astra(VGG16, "--timeline", tmp_path / "file" / "such.json", "--quiet")
    assert (done.returncode, done.stderr) == (1, f"astra: error: cannot write {tmp_path}/file/such.json: Not a directory\n")


def test_a_timeline_may_not_take_the_name_of_another_file(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match=r"astra writes result\.json, which report timeline has written"):
        Reports((), timeline=str(tmp_path / "result.json")).write(pipeline(), tmp_path)
    assert list(tmp_path.iterdir()) == []


BROKEN = [
    (gzip.compress(b"nothing", mtime=0), "byte 0x6e where a packet should begin"),
    (gzip.compress(b"\x12\x00", mtime=0), "byte 0x12 where a packet should begin"),
    (gzip.compress(b"\x0a\x7fabc", mtime=0), "the last packet is not complete"),
    (gzip.compress(b"\x0a", mtime=0), "a packet without its length"),
]


@pytest.mark.parametrize(("data", "words"), BROKEN)
def test_what_is_no_timeline_is_told(data: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / f"x{timeline.SUFFIX}"
    path.write_bytes(data)
    with pytest.raises(InputError, match=f"{path.name}: not a timeline of astra: .*{words}"):
        runs.read_timeline(path)


def test_a_named_file_stands_for_every_name(tmp_path: Path) -> None:
    from astra_sim.files import FileSet

    with FileSet() as files:
        folder = ReportFile(tmp_path / "mine.bin", files, "me")
        assert folder.path("other") == tmp_path / "mine.bin"
        with folder.open("other", "wb") as file:
            file.write(b"x")
    assert (tmp_path / "mine.bin").read_bytes() == b"x"


def test_a_comparison_has_the_timelines_of_every_program(tmp_path: Path) -> None:
    experiment = tmp_path / "pipeline.toml"
    experiment.write_text(
        'network = "plugin:analytical"\ncompute = "plugin:gpu?device=h100"\n'
        f'platform = "{RING}"\n[workload]\nplugin = "llm"\nglobal_batch = 8\npipeline_parallel = 4\n'
        "model = {layers = 4, hidden = 256, heads = 4, vocab = 1024, sequence = 128}\n"
    )
    done = astra("compare", experiment, "--set", "run.passes=1", "--set", "run.passes=2", "--report", "timeline", "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    for run in runs.load_runs([str(tmp_path / "out")]):
        assert run.timeline is not None
        groups = {group for group, _ in run.timeline.rows} - {timeline.PATH}
        assert groups == {f"NPU {npu}, as 2 NPUs with its program" for npu in (0, 2, 4, 6)}


def test_a_run_that_takes_no_time_has_an_empty_timeline(tmp_path: Path) -> None:
    graph = ExecutionGraph((Compute((), 0),), (LogicalDimension(8, 1, 0),), ())
    result = astra_sim.simulate(workload=graph, platform=RING)
    assert result.finish_ns == 0
    assert things_of(Trace.FromString(written(result, tmp_path / "x.pftrace"))) == []
    assert [event["ph"] for event in json.loads(written(result, tmp_path / "x.json"))["traceEvents"]] == ["M", "M"]


MODEL = {"layers": 8, "hidden": 256, "heads": 4, "vocab": 1024, "sequence": 128}
MODEL_ON_STAGES: dict[str, Any] = {
    "workload": {"plugin": "llm", "model": MODEL, "global_batch": 64, "micro_batch": 1, "pipeline_parallel": 4, "tensor_parallel": 2},
    "compute": "plugin:gpu?device=h100",
    "network": "plugin:analytical",
    "platform": RING,
}


def drawn(result: Result, path: Path) -> list[Drawn]:
    astra_sim.write_reports(result, path, reports="timeline", series="all")
    return read((path / f"{result.run_name}{timeline.SUFFIX}").read_bytes())


def test_a_limited_file_and_a_page_have_every_stage_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = astra_sim.simulate(**MODEL_ON_STAGES, timelines=True)
    monkeypatch.setattr(timeline, "MAX_SLICES", 2000)
    with pytest.warns(InputWarning, match="closely are drawn as one"):
        astra_sim.write_reports(result, tmp_path, reports="timeline")
    path = tmp_path / f"{result.run_name}{timeline.SUFFIX}"
    page = runs.read_timeline(path, 500)
    stages = {timeline.group_name(own.npu, own.npus): own for own in result.timelines()}
    assert len(stages) == 4
    assert {group for group, _ in page.rows} == set(stages)
    for group, own in stages.items():
        row = page.rows.index((group, "compute"))
        last = max(each.end_ns for each in own if each.lane == "compute")
        assert max(each.end_ns for each in page.slices if each.row == row) == int(last)
        lanes = [lane for of, lane in page.rows if of == group]
        assert len(lanes) == len(set(lanes)) <= 8  # one row for compute and one for each stream, however many receives are posted
    assert len(page.slices) <= 500


def test_arrows_lead_from_sends_to_receives_and_through_the_phases_of_chunks(tmp_path: Path) -> None:
    result = astra_sim.simulate(**MODEL_ON_STAGES, timelines=True)
    slices = drawn(result, tmp_path)
    assert broken_arrows(slices) == []
    receives = [each for each in slices if each.lane == "pp receive"]
    assert len(receives) == 2 * 3 * 64  # forward and backward, between four stages
    assert all(len(each.ending) == 1 for each in receives)
    sends = {number: each for each in slices if each.lane == "pp send" for number in each.through}
    for each in receives:
        send = sends[each.ending[0]]
        assert (f"NPU {send.arguments['to NPU']}", send.arguments["bytes"]) == (each.group.partition(",")[0], each.arguments["bytes"])
    collectives = [each for each in slices if each.lane == "tp collectives"]
    assert all(each.through for each in collectives)
    assert {each.arguments["group"] for each in collectives} == {"tp"}


def test_slices_say_their_layer_pass_and_bytes(tmp_path: Path) -> None:
    slices = drawn(astra_sim.simulate(VGG16), tmp_path)
    (reduced,) = [each for each in slices if each.lane == "collectives" and each.name.startswith("fc1 all_reduce")]
    assert reduced.name == "fc1 all_reduce backward (weight gradient)"
    assert {key: reduced.arguments[key] for key in ("layer", "pass")} == {"layer": "fc1", "pass": "backward (weight gradient)"}
    assert reduced.arguments["bytes"] > 0
    assert {"fc1 forward", "fc1 backward (input gradient)"} <= {each.name for each in slices if each.lane == "compute"}


def test_the_critical_path_is_a_track_and_marks_what_lies_on_it(tmp_path: Path) -> None:
    result = astra_sim.simulate(**MODEL_ON_STAGES, timelines="path")
    slices = drawn(result, tmp_path)
    path = [each for each in slices if each.lane == timeline.PATH]
    assert (path[0].begin, path[-1].end) == (0, int(result.finish_ns))
    assert all(one.end == other.begin for one, other in itertools.pairwise(path))
    marked = sum(each.arguments.get("critical path (ns)", 0.0) for each in slices if each.lane == "compute")
    computed = sum(each.end_ns - each.begin_ns for each in result.critical_path() if each.kind == "compute")
    assert marked == pytest.approx(computed)
    with pytest.raises(InputError, match="this run has not kept its critical path"):
        astra_sim.simulate(VGG16).critical_path()


def test_an_explained_run_has_a_timeline_of_every_npu() -> None:
    result = astra_sim.simulate(**MODEL_ON_STAGES, explain="path", symmetry=False)
    assert [(own.npu, own.npus) for own in result.timelines()] == [(npu, 1) for npu in range(8)]
    alike = astra_sim.simulate(**MODEL_ON_STAGES, explain="path")
    assert [(own.npu, own.npus) for own in alike.timelines()] == [(npu, 2) for npu in (0, 2, 4, 6)]


@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_messages_of_collectives_are_drawn_where_they_are_asked_for(engine: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"workload": "plugin:collective?bytes=4096", "platform": RING, "engine": engine, "symmetry": False}
    result = astra_sim.simulate(**options, timelines="messages")
    sent = [each for each in result.timeline() if each.kind == "message sent"]
    assert len(sent) * 8 == result.messages
    assert sum(each.bytes or 0 for each in sent) == result.network["payload_bytes"]
    slices = drawn(result, tmp_path)
    assert broken_arrows(slices) == []
    assert {each.lane for each in slices} == {timeline.PATH, "collectives", "dimension 0", "messages sent", "messages received"}


def test_both_engines_keep_the_same_messages() -> None:
    options: dict[str, Any] = {"workload": "plugin:collective?bytes=4096&collective=all_to_all", "platform": RING, "symmetry": False}
    first, second = (
        list(astra_sim.simulate(**options, timelines="messages", engine=engine).timeline()) for engine in ("python", "compiled")
    )
    assert sorted(map(repr, first)) == sorted(map(repr, second))


def test_a_run_that_is_over_has_a_timeline(tmp_path: Path) -> None:
    assert astra(VGG16, "--output", tmp_path / "out", "--quiet").returncode == 0
    done = astra("timeline", tmp_path / "out", "-o", tmp_path / "x.pftrace", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["files"] == [str(tmp_path / "x.pftrace")]
    astra(VGG16, "--timeline", tmp_path / "y.pftrace", "--quiet")
    assert (tmp_path / "x.pftrace").read_bytes() == (tmp_path / "y.pftrace").read_bytes()
    result = tmp_path / "out" / "result.json"
    table = json.loads(result.read_text())
    result.write_text(json.dumps({**table, "finish_ns": table["finish_ns"] + 10}))
    done = astra("timeline", result, "-o", tmp_path / "x.pftrace", "--no-path")
    assert done.returncode == 0
    assert "astra: warning: " in done.stderr
    assert "the versions are the same: a file of the experiment, or the source of a plugin, has changed" in done.stderr


def test_a_result_that_cannot_be_simulated_again_is_told(tmp_path: Path) -> None:
    astra_sim.write_reports(pipeline(), tmp_path / "object", reports=())
    done = astra("timeline", tmp_path / "object", "-o", tmp_path / "x.pftrace")
    assert done.returncode == 2
    assert "workload was given as an object of Python (ExecutionGraph), which is not in the file" in done.stderr
    both = [astra_sim.simulate(VGG16, run_name=name) for name in ("a", "b")]
    astra_sim.write_reports(both, tmp_path / "two", reports=())
    done = astra("timeline", tmp_path / "two", "-o", tmp_path / "x.pftrace")
    assert (done.returncode, "holds 2 runs ('a', 'b'); expected --run NAME, which names one of them" in done.stderr) == (2, True)
    done = astra("timeline", tmp_path / "two", "-o", tmp_path / "x.pftrace", "--run", "c")
    assert (done.returncode, "--run is 'c', which is no run of" in done.stderr) == (2, True)
    assert not (tmp_path / "x.pftrace").exists()
    assert astra("timeline", tmp_path / "two", "-o", tmp_path / "x.pftrace", "--run", "b", "--quiet").returncode == 0
