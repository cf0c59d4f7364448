"""Timelines of instances: a table, and a trace that Perfetto opens."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from astra_sim_serving import serve
from astra_sim_serving.timeline import TraceTimeline, timeline_for
from support.commands import command

from serving.cases import RING, case

REQUESTS = {"rate": 300.0, "count": 60, "input": 40, "output": 30}


def trace_of(table: dict[str, Any]) -> tuple[list[dict[str, Any]], Any]:
    timeline = TraceTimeline()
    result = serve(table, timeline=timeline)
    return json.loads(timeline.text(result.sequences))["traceEvents"], result


def slices(events: list[dict[str, Any]]) -> dict[int, list[tuple[float, float]]]:
    """Begin and end of the slices of each track, in order."""
    result: dict[int, list[tuple[float, float]]] = {}
    for event in events:
        if event["ph"] == "X":
            result.setdefault(event["tid"], []).append((event["ts"], event["ts"] + event["dur"]))
    return {track: sorted(own) for track, own in result.items()}


@pytest.mark.parametrize("stages", [1, 3])
def test_slices_of_a_track_do_not_overlap_and_count_all_iterations(stages: int) -> None:
    table = case(requests=REQUESTS, pool=[{"instances": 2, "pipeline_parallel": stages}] if stages == 1 else [{"pipeline_parallel": 2}])
    table["platform"] = {**RING, "size": 4}
    events, result = trace_of(table)
    for own in slices(events).values():
        assert all(end <= begin + 1e-6 for (_, end), (begin, _) in itertools.pairwise(own))
    exact = case(**{**table["serving"], "jumps": False})
    exact["platform"] = table["platform"]
    events, result = trace_of(exact)
    iterations = sum(event["args"]["iterations"] for event in events if event["ph"] == "X")
    assert iterations == sum(each.totals.iterations for each in result.instances)


def test_requests_have_phases_and_arrows_into_iterations() -> None:
    events, result = trace_of(case(requests=REQUESTS))
    tracks = slices(events)
    for kind in "stf":
        arrows = [event for event in events if event["ph"] == kind]
        assert [event["id"] for event in arrows] == [each.request.index for each in result.sequences]
        for arrow in arrows:
            assert any(begin <= arrow["ts"] <= end for begin, end in tracks[arrow["tid"]])
    begins = [event for event in events if event["ph"] == "b"]
    ends = [event for event in events if event["ph"] == "e"]
    assert len(begins) == len(ends) == 4 * len(result.sequences)
    answer = next(event for event in begins if event["name"] == "answer" and event["id"] == 7)
    assert answer["ts"] == pytest.approx(result.sequences[7].first_token * 1e6)


def test_the_ending_of_a_file_chooses() -> None:
    assert isinstance(timeline_for("a.json"), TraceTimeline)
    assert timeline_for("a.csv").text([]).startswith("time_s,instance")


def test_the_command_writes_a_trace_and_tables_of_sweeps(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    server, trace, table = (str(tmp_path / name) for name in ("server.toml", "out.json", "out.csv"))
    served = '[serving]\nkv_blocks = 100\nmodel.name = "qwen3-8b"\nrequests = { rate = 2.0, count = 5 }\n'
    Path(server).write_text(served + '[compute]\nplugin = "gpu"\ndevice = "h100"\n')
    run = command(capsys)
    done = run("serve", server, "--timeline", trace, "--quiet")
    assert (done.status, done.error, done.out) == (0, "", "")
    assert {"b", "e", "X", "M", "C"} <= {event["ph"] for event in json.loads(Path(trace).read_text())["traceEvents"]}
    assert run("serve", server, "--sweep", "serving.requests.rate=1,2", "-o", table, "--quiet").error == ""
    heading, *rows = Path(table).read_text().splitlines()
    assert heading.startswith("serving.requests.rate,schema,requests.arrived")
    assert [row.split(",")[0] for row in rows] == ["1", "2"]
    refused = run("serve", server, "-o", table)
    assert (refused.status, f"--output is {table}; expected FILE.json" in refused.error) == (2, True)
