"""Several jobs on one platform: what `shared/reference/jobs.md`, section 1, says must hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import astra_sim
import pytest
from astra_sim import InputError
from astra_sim.command import cli
from astra_sim_goodput.jobs import JobFile, run_jobs
from astra_sim_goodput.placement import placed, ranks_of
from click.testing import CliRunner
from support import ROOT
from support.job_files import write_jobs

RING = "plugin:ring?size=8&links=2&link_bandwidth_gb_per_s=50&link_latency_ns=500"
DGX = "plugin:dgx_h100?nodes=2"
TORUS = "plugin:torus?sizes=4,4&links=4&link_bandwidth_gb_per_s=50&link_latency_ns=500"
ALL_REDUCE = "plugin:collective?collective=all_reduce&bytes=1048576"
LLM = "plugin:llm?model=llama3-8b&global_batch=16&check_memory=false&tensor_parallel=4"
PIPELINE = f"{LLM}&pipeline_parallel=2&detail=kernel&overlap.p2p=true&overlap.dp=true"
KERNELS = "plugin:gpu?device=h100&stack=kernels"


def write(folder: Path, jobs: list[dict[str, Any]], platform: str = RING, network: str = "plugin:flow") -> Path:
    return write_jobs(folder, jobs, platform=platform, network=network, compute=KERNELS)


def job(name: str, ranks: Any, workload: Any = ALL_REDUCE, **more: Any) -> dict[str, Any]:
    return {"name": name, "workload": workload, "ranks": ranks, **more}


@pytest.mark.parametrize("network", ["plugin:analytical", "plugin:analytical?congestion=aware", "plugin:flow"])
@pytest.mark.parametrize("platform", [DGX, TORUS])
@pytest.mark.parametrize("workload", [ALL_REDUCE, PIPELINE, f"{LLM}&zero=1&detail=layer"])
def test_a_job_on_all_npus_is_the_plain_run(tmp_path: Path, workload: str, platform: str, network: str) -> None:
    """To the picosecond, whenever it starts."""
    plain = astra_sim.simulate(platform=platform, network=network, compute=KERNELS, system="plugin:astra2", workload=workload)
    for start_ns in (0, 777):
        (only,) = run_jobs(write(tmp_path, [job("a", "0:16", workload, start_ns=start_ns)], platform, network)).jobs
        assert round(1000 * only.duration_ns) == round(1000 * plain.finish_ns)
        assert round(1000 * only.finish_ns) == round(1000 * (plain.finish_ns + start_ns))


def test_jobs_on_links_of_their_own_do_not_see_each_other(tmp_path: Path) -> None:
    jobs = [job("a", "0:8", PIPELINE, start_ns=5000), job("b", "8:16", f"{LLM}&zero=1&detail=layer", passes=2)]
    result = run_jobs(write(tmp_path, jobs, DGX), alone=True).jobs
    assert [each.slowdown for each in result] == [1.0, 1.0]
    assert result[0].finish_ns == pytest.approx((result[0].alone_ns or 0) + 5000, abs=1e-3)
    once = run_jobs(write(tmp_path, [job("b", "8:16", f"{LLM}&zero=1&detail=layer")], DGX)).jobs[0]
    assert result[1].duration_ns > 1.9 * once.duration_ns


@pytest.mark.parametrize("network", ["plugin:analytical?congestion=aware", "plugin:flow", "plugin:packet", "plugin:roce"])
def test_the_order_in_the_file_does_not_matter(tmp_path: Path, network: str) -> None:
    jobs = [job("a", "0:8:2"), job("b", "1:8:2", start_ns=1000)]
    first = run_jobs(write(tmp_path, jobs, network=network), alone=True).jobs
    second = run_jobs(write(tmp_path, jobs[::-1], network=network), alone=True).jobs
    assert {each.name: each for each in first} == {each.name: each for each in second}
    assert max(each.slowdown or 0 for each in first) > 1.01  # they do meet


def test_two_messages_share_a_first_in_first_out_link(tmp_path: Path) -> None:
    """Messages go hop by hop: that of job a comes to NPU 2 when job b sends its own from there. The later one waits for m / b."""
    two = "plugin:collective?collective=all_to_all&bytes=8000000"
    platform = "plugin:ring?size=16&links=2&link_bandwidth_gb_per_s=50&link_latency_ns=0"
    once = 4e6 / 50
    jobs = [job("a", [0, 5], two), job("b", [2, 7], two, start_ns=2 * once)]
    result = run_jobs(write(tmp_path, jobs, platform, "plugin:analytical?congestion=aware"), alone=True).jobs
    assert [each.alone_ns for each in result] == pytest.approx([5 * once] * 2, rel=0.001)
    waited = sorted(each.duration_ns - (each.alone_ns or 0) for each in result)
    assert waited == pytest.approx([0, once], rel=0.01, abs=100)


def test_without_a_job_the_other_is_alone(tmp_path: Path) -> None:
    result = run_jobs(write(tmp_path, [job("a", "0:8:2"), job("b", "1:8:2")]), alone=True, without=["a"])
    first, second = result.jobs
    assert (first.without, second.without) == ({}, {"a": second.alone_ns})
    assert result.fairness is not None
    slowdowns = [each.slowdown or 0 for each in result.jobs]
    assert result.fairness["worst_slowdown"] == max(slowdowns)
    assert result.fairness["jain"] == pytest.approx(sum(1 / s for s in slowdowns) ** 2 / (2 * sum(1 / s**2 for s in slowdowns)))


def test_placements() -> None:
    free = range(2, 14)
    assert placed("packed", 3, free, "") == (2, 3, 4)
    assert placed("striped:4", 3, free, "") == (2, 6, 10)
    drawn = placed("random?seed=1", 5, free, "")
    assert drawn == tuple(sorted(set(drawn)))
    assert set(drawn) <= set(free)
    assert drawn == placed("random?seed=1", 5, free, "") != placed("random?seed=2", 5, free, "")
    assert ranks_of("0:8:4,9", 10, "") == (0, 4, 9)
    assert ranks_of("2-4,8", 10, "") == ranks_of("2:5,8:9", 10, "") == (2, 3, 4, 8)
    assert ranks_of([3, 1], 4, "") == (3, 1)


def test_placements_take_what_no_job_names(tmp_path: Path) -> None:
    jobs = [{"name": "a", "workload": ALL_REDUCE, "npus": 2, "placement": "striped:3"}, job("b", "0:2"), job("c", [7])]
    file = JobFile(write(tmp_path, jobs))
    assert [each.ranks for each in file.jobs] == [(2, 5), (0, 1), (7,)]


@pytest.mark.parametrize(
    ("jobs", "words"),
    [
        ([], r"expected tables \[\[jobs\]\]"),
        ([job("a", "0:9")], "job 'a': ranks is '0:9'; expected ranks such as"),
        ([job("a", [8])], "ranks has NPU 8; expected 0 to 7"),
        ([job("a", [1, 1])], "ranks has NPU 1 twice"),
        ([job("a", "0:4"), job("b", "3:6")], "job 'b': NPU 3 is one of job 'a'"),
        ([job("a", "0:4"), job("a", "4:8")], "jobs are named 'a', 'a'"),
        ([{"name": "a", "workload": ALL_REDUCE}], "job 'a': expected ranks such as"),
        ([{"name": "a", "workload": ALL_REDUCE, "npus": 9}], "npus is 9, and 8 NPUs are free"),
        ([{"name": "a", "workload": ALL_REDUCE, "npus": 2, "placement": "spread"}], "placement is 'spread'"),
        ([{"name": "a", "workload": ALL_REDUCE, "npus": 2, "placement": "striped:x"}], "placement is 'striped:x'"),
        (
            [job("a", "0:4", "plugin:llm?model=llama3-8b&detail=pass&check_memory=false&global_batch=4")],
            "simulates a pass as one operation",
        ),
        ([job("a", "0:4", 5)], "job 'a': workload is 5; expected plugin:NAME, a path, or a table"),
        ([job("a", "0:4", start_ns=1e17)], "job 'a': start_ns"),
        ([job("a", "0:4", rank=3)], "unknown key 'rank'; did you mean 'ranks'"),
        ([job("a", "0:4", "plugin:nothing")], "there is no workload plugin 'nothing'"),
    ],
)
def test_wrong_jobs_are_errors(tmp_path: Path, jobs: list[dict[str, Any]], words: str) -> None:
    with pytest.raises(InputError, match=words):
        run_jobs(write(tmp_path, jobs))


def test_a_system_whose_phases_end_together_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path, [job("a", "0:4")])
    file.write_text('system = "plugin:astra1"\n' + file.read_text())
    with pytest.raises(InputError, match="ends each phase on all NPUs of the platform at once"):
        run_jobs(file)


def test_the_command(tmp_path: Path) -> None:
    file = str(write(tmp_path, [job("a", "0:8:2"), job("b", "1:8:2")], network="plugin:analytical"))
    result = json.loads(CliRunner().invoke(cli.astra, ["jobs", file, "--json", "--alone", "--without", "b"]).output)
    assert [each["slowdown"] for each in result["jobs"]] == [1.0, 1.0]
    assert result["messages_wait"] is False
    printed = CliRunner().invoke(cli.astra, ["jobs", file]).output
    assert "jobs cannot slow each other" in " ".join(printed.split())
    assert "slowdown" not in printed
    wrong = CliRunner().invoke(cli.astra, ["jobs", file, "--without", "c"])
    assert wrong.exit_code
    assert "--without is 'c'; expected one of a, b" in str(wrong.exception)


def test_the_example_prints_what_the_page_shows() -> None:
    command = "astra jobs examples/goodput/two_jobs.toml --alone --without a"
    shown = (ROOT / "docs" / "goodput.md").read_text().split(f"$ {command}\n")[1].split("```")[0]
    assert "slowdown" in shown
    result = run_jobs(ROOT / "examples" / "goodput" / "two_jobs.toml", alone=True, without=["a"])
    for each in result.jobs:
        assert f"{each.slowdown:.4f}" in shown
        assert f"{each.duration_ns / 1e6:.3f}" in shown


@pytest.mark.parametrize(
    ("example", "message"),
    [
        ("goodput/two_jobs.toml", "unknown key 'jobs'; this is a file of several jobs: astra jobs FILE"),
        ("goodput/cluster.toml", "unknown key 'schedule'; this is a file of the jobs of a cluster: astra jobs FILE"),
        ("goodput/llama3_405b.toml", "unknown key 'goodput'; this is a file of months of training: astra goodput FILE"),
        ("sweeps/cheapest_network.toml", "unknown key 'base'; this is a file of a sweep or a search: astra sweep FILE, astra search FILE"),
        ("serving/by_hand.toml", "unknown key 'serving'; this is a file of servers: astra serve FILE"),
    ],
)
def test_the_file_of_another_command_is_no_experiment(example: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        astra_sim.load_experiment(ROOT / "examples" / example)


# -- Systems of their own ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [("0:4", "4:8"), ("0:8:2", "1:8:2")])
@pytest.mark.parametrize("network", ["plugin:analytical?congestion=aware", "plugin:flow"])
def test_a_job_with_a_system_of_its_own_is_the_job_in_a_file_with_that_system(tmp_path: Path, network: str, ranks: tuple[str, str]) -> None:
    """Alone; and with the system of the file named for each job nothing changes."""
    direct, ring = "plugin:astra2?all_reduce=direct", "plugin:astra2?all_reduce=ring&splits=2"
    jobs = [job("a", ranks[0], system=direct), job("b", ranks[1], system=ring)]
    alone = {each.name: each.alone_ns for each in run_jobs(write(tmp_path, jobs, network=network), alone=True).jobs}
    for place, (name, system) in enumerate({"a": direct, "b": ring}.items()):
        file = write(tmp_path, [job(name, ranks[place])], network=network)
        file.write_text(f'system = "{system}"\n' + file.read_text())
        (only,) = run_jobs(file).jobs
        assert only.duration_ns == alone[name]
    same = [job("a", ranks[0], system="plugin:astra2"), job("b", ranks[1], system="plugin:astra2", start_ns=500)]
    plain = [job("a", ranks[0]), job("b", ranks[1], start_ns=500)]
    own, shared = (run_jobs(write(tmp_path, each, network=network)).jobs for each in (same, plain))
    assert [each.finish_ns for each in own] == [each.finish_ns for each in shared]


def test_systems_that_want_another_machine_are_refused(tmp_path: Path) -> None:
    jobs = [job("a", "0:4"), job("b", "4:8", system="plugin:astra2?endpoint_delay_ns=500")]
    with pytest.raises(InputError, match=r"endpoint_ps of systems: .* expected one value, since jobs share the machine"):
        run_jobs(write(tmp_path, jobs))
