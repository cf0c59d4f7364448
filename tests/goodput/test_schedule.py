"""Clusters whose jobs come from a trace: queues, placements, and the formats of traces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from astra_sim import InputError
from astra_sim.command import cli
from astra_sim_goodput.cluster_trace import ClusterTrace, TraceJob, read_trace
from astra_sim_goodput.jobs import run_jobs
from astra_sim_goodput.placement import placed
from astra_sim_goodput.schedule import QUEUES, ClusterSchedule, ScheduleOptions, simulate_schedule
from astra_sim_goodput.schedule_file import run_schedule
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from support import ROOT

EXAMPLE = ROOT / "examples" / "goodput" / "cluster.toml"


def schedule(jobs: list[tuple[float, int, float]], queue: str, npus: int = 8) -> ClusterSchedule:
    """The schedule of jobs (submission, NPUs, duration) on a cluster whose lowest NPUs are taken first."""
    trace = ClusterTrace([TraceJob(str(number), *job) for number, job in enumerate(jobs)], 0)
    return simulate_schedule(trace, ScheduleOptions(trace="-", queue=queue), npus, lambda free, count: free[:count], "test")


def starts(result: ClusterSchedule) -> dict[str, float]:
    return {job.name: job.start_s for job in result.jobs}


JOBS = [(0.0, 6, 100.0), (1.0, 8, 50.0), (2.0, 2, 99.0), (3.0, 2, 20.0), (4.0, 1, 1000.0)]


def test_first_come_first_served() -> None:
    assert starts(schedule(JOBS, "fifo")) == {"0": 0, "1": 100, "2": 150, "3": 150, "4": 150}


def test_backfilling_delays_the_first_of_the_queue_by_nothing() -> None:
    """Job 2 would end at 101, after job 1 can start, and job 4 much later; job 3 ends before."""
    assert starts(schedule(JOBS, "backfill")) == {"0": 0, "1": 100, "3": 3, "2": 150, "4": 150}
    assert starts(schedule([(0.0, 6, 100.0), (1.0, 7, 50.0), (2.0, 1, 1000.0)], "backfill"))["2"] == 2  # on the NPU that job 1 leaves


def test_the_shortest_job_first() -> None:
    """Job 3 comes when two NPUs are free, and is the shortest; the next one then is job 1, for which the others wait."""
    assert starts(schedule(JOBS, "shortest")) == {"0": 0, "3": 3, "1": 100, "2": 150, "4": 150}


@given(
    st.lists(st.tuples(st.floats(0, 1000), st.integers(1, 8), st.floats(1, 500)), min_size=1, max_size=40),
    st.sampled_from(QUEUES),
)
def test_each_job_runs_once_as_long_as_it_takes_on_npus_of_its_own(jobs: list[tuple[float, int, float]], queue: str) -> None:
    ordered = sorted(jobs)
    result = schedule(ordered, queue)
    assert sorted(int(job.name) for job in result.jobs) == list(range(len(jobs)))
    for job in result.jobs:
        submit, npus, duration = ordered[int(job.name)]
        assert job.start_s >= submit
        assert job.end_s == job.start_s + duration
        assert len(set(job.npus)) == npus
    for job in result.jobs:
        others = [each for each in result.running_at(job.start_s) if each is not job and each.end_s > job.start_s]
        assert all(not set(each.npus) & set(job.npus) for each in others)
    assert 0 < result.utilisation <= 1 + 1e-9
    if queue == "fifo":
        begun = [starts(result)[str(number)] for number in range(len(jobs))]
        assert begun == sorted(begun)


def test_racks_are_as_few_as_possible() -> None:
    assert placed("racks?npus=4", 4, [0, 1, 2, 4, 5, 6, 7, 9], "") == (4, 5, 6, 7)
    assert placed("racks?npus=4", 2, [0, 1, 2, 4, 5, 6, 7, 8, 9], "") == (8, 9)
    assert placed("racks?npus=4", 6, [0, 1, 4, 5, 6, 7, 9], "") == (0, 1, 4, 5, 6, 7)


def test_a_load_of_two_is_submissions_twice_as_close() -> None:
    trace = ClusterTrace([TraceJob("a", 0.0, 1, 10.0), TraceJob("b", 100.0, 1, 10.0)], 0)
    result = simulate_schedule(trace, ScheduleOptions(trace="-", load=2.0), 4, lambda free, count: free[:count], "test")
    assert starts(result) == {"a": 0, "b": 50}


def test_formats_of_traces(tmp_path: Path) -> None:
    helios = tmp_path / "helios.csv"
    helios.write_text(
        "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
        "7,u,v,4,16,1,FAILED,2020-06-09 18:41:27,2020-06-09 18:41:27,2020-06-09 18:45:36,249,0\n"
        "6,u,v,1,1,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-10 04:55:09,36848,0\n"
        "8,u,v,0,1,1,COMPLETED,2020-06-09 18:42:01,2020-06-09 18:41:01,2020-06-10 04:55:09,36848,0\n"
    )
    assert read_trace(str(helios)) == ClusterTrace([TraceJob("6", 0.0, 1, 36848.0), TraceJob("7", 26.0, 4, 249.0)], 1)
    acme = tmp_path / "acme.csv"
    acme.write_text("job_id,gpu_num,submit_time,duration\na,8,2023-03-01 00:18:22+08:00,117\nb,64,2023-02-28 16:18:52+00:00,18\n")
    assert [(job.submit_s, job.npus) for job in read_trace(str(acme)).jobs] == [(0.0, 8), (30.0, 64)]
    philly = tmp_path / "philly.json"
    attempt = {"start_time": "2017-10-07 01:16:06", "end_time": "2017-10-07 01:17:06", "detail": [{"ip": "m1", "gpus": ["g0", "g1"]}]}
    jobs: list[dict[str, Any]] = [
        {"status": "Pass", "vc": "v", "jobid": "x", "submitted_time": "2017-10-07 01:15:00", "user": "u", "attempts": [attempt, attempt]},
        {"status": "Killed", "vc": "v", "jobid": "y", "submitted_time": "2017-10-07 01:15:00", "user": "u", "attempts": []},
    ]
    philly.write_text(json.dumps(jobs))
    assert read_trace(str(philly)) == ClusterTrace([TraceJob("x", 0.0, 2, 120.0)], 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("job_id,gpus\n1,2\n", "the column submit_time is missing"),
        ("gpu_num,submit_time,duration\nmany,2020-01-01 00:00:00,3\n", "gpu_num is 'many'; expected a number of at least 0"),
        ("gpu_num,submit_time,duration\n1,soon,3\n", "submit_time is 'soon'; expected a number"),
        ("gpu_num,submit_time,duration\n0,2020-01-01 00:00:00,3\n", "no job with NPUs and a duration"),
        ('[{"jobid": 1}]', "job 1"),
        ("[1]", "'1'; expected a table"),
        ('[{"attempts": null}]', "job 1: attempts: 'None'; expected a list"),
        ('[{"attempts": [{"start_time": "2017-10-07", "end_time": "2017-10-08", "detail": null}]}]', "detail: 'None'; expected a list"),
    ],
)
def test_an_error_names_file_line_and_value(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "trace"
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        read_trace(str(file))


def test_jobs_of_a_moment_run_on_the_network() -> None:
    """Jobs packed by racks hardly meet; drawn at random they share the links between leaves."""
    result, options = run_schedule(EXAMPLE)
    running = result.running_at(36_000.0)
    assert options.workload is not None
    command = ["jobs", str(EXAMPLE), "--at", "10h", "--alone", "--json"]
    racks = json.loads(CliRunner().invoke(cli.astra, command).output)
    spread = json.loads(CliRunner().invoke(cli.astra, [*command, "--set", "schedule.placement=random"]).output)
    assert [each["name"] for each in racks["jobs"]] == [job.name for job in running]
    assert racks["fairness"]["worst_slowdown"] == pytest.approx(1)
    assert spread["fairness"]["worst_slowdown"] > 1.5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--at", "soon"], "--at is 'soon'; expected a time"),
        (["--at", "9000h"], "no job runs"),
        (["--alone"], r"--alone: .* has a table \[schedule\]; expected --at"),
        (["--set", "schedule.queue=lifo"], "queue is 'lifo'"),
        (["--set", "schedule.placement=racks"], "racks: npus is missing"),
        (["--set", "schedule.placement=heap"], "there is no placement plugin 'heap'"),
    ],
)
def test_wrong_arguments_are_errors(arguments: list[str], message: str) -> None:
    outcome = CliRunner().invoke(cli.astra, ["jobs", str(EXAMPLE), *arguments])
    assert isinstance(outcome.exception, InputError)
    with pytest.raises(InputError, match=message):
        raise outcome.exception


def test_jobs_larger_than_the_cluster_are_counted(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("gpu_num,submit_time,duration\n64,2020-01-01 00:00:00,3\n2,2020-01-01 00:00:01,3\n")
    (tmp_path / "c.toml").write_text(
        'platform = "plugin:ring?size=4&links=2&link_bandwidth_gb_per_s=1&link_latency_ns=1"\n[schedule]\ntrace = "t.csv"\n'
    )
    result, _ = run_schedule(tmp_path / "c.toml")
    assert (len(result.jobs), result.too_large) == (1, 1)
    with pytest.raises(InputError, match="expected tables"):
        run_jobs(tmp_path / "c.toml")
