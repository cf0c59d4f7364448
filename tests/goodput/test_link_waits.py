"""Loads of links by job, and waits of jobs for each other: `astra jobs --link-figures`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from astra_sim import InputError
from astra_sim.command import cli
from astra_sim.network import Message
from astra_sim.platform import Dimension, Platform
from astra_sim_goodput.jobs import run_jobs
from astra_sim_network_analytical.congestion import CompiledFifoNetwork, FifoNetwork
from astra_sim_network_analytical.link_map import LinkMap
from astra_sim_network_analytical.options import AnalyticalOptions
from astra_sim_network_analytical.topologies import Ring
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from support.job_files import write_jobs

AWARE = "plugin:analytical?congestion=aware"
RING = "plugin:ring?size=8&links=2&link_bandwidth_gb_per_s=50&link_latency_ns=500"
ALL_REDUCE = "plugin:collective?collective=all_reduce&bytes=1048576"


def write(folder: Path, jobs: list[dict[str, Any]], network: str = AWARE) -> Path:
    return write_jobs(folder, jobs, platform=RING, network=network, compute="plugin:recorded", system="plugin:astra2?all_reduce=ring")


def network_of(compiled: bool, options: AnalyticalOptions | None = None) -> Any:
    links = LinkMap(Platform((Dimension(Ring(6, 2), 6, 2, 1.0, 0.0),)))
    given_ = options or AnalyticalOptions(congestion="aware")
    return CompiledFifoNetwork(given_, links) if compiled else FifoNetwork(given_, links)


def loads(network: Any, sends: list[tuple[int, int, int, int]], owners: list[int]) -> Any:
    """The loads of links by owner, of messages (time in ps, source, destination, bytes)."""
    network.owners = owners
    network.begin()
    for number, (time, source, destination, size) in enumerate(sorted(sends)):
        network.inject(time, [Message(number, source, destination, size, 0)])
    while network.advance(None) is not None:
        pass
    return network.owner_loads()


@pytest.mark.parametrize("compiled", [False, True])
def test_two_messages_on_one_link(compiled: bool) -> None:
    """Messages of 500, 1000 and 1000 bytes on one link of 1 byte/ns at once: the second waits for 500 ns, the third for 1500 ns."""
    (link, *_) = [
        each
        for each in loads(network_of(compiled), [(0, 0, 1, 1000), (0, 0, 1, 1000), (0, 0, 1, 500)], [0, 0, 0, 0, 0, 0])
        if each.bytes != (0,)
    ]
    assert (link.bytes, link.busy_ns, link.wait_ns) == ((2500,), (2500.0,), ((2000.0,),))
    # From NPU 5 over NPU 0 to NPU 1, behind one of NPU 0 that is half sent when it comes.
    first, second = loads(network_of(compiled), [(500_000, 0, 1, 1000), (0, 5, 1, 1000)], [0, 0, 0, 0, 0, 1])
    assert (first.source, first.target, first.wait_ns) == ("NPU 0", "NPU 1", ((0.0, 0.0), (500.0, 0.0)))
    assert (second.source, second.target, second.wait_ns) == ("NPU 5", "NPU 0", ((0.0, 0.0), (0.0, 0.0)))


@given(
    st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 5), st.integers(1, 5), st.integers(1, 2000)), min_size=1, max_size=30),
    st.lists(st.integers(0, 2), min_size=6, max_size=6),
    st.sampled_from(["store_and_forward", "cut_through"]),
)
def test_both_languages_count_the_same_and_waits_add_up(sends: list[tuple[int, int, int, int]], owners: list[int], switching: Any) -> None:
    messages = [(1000 * time, source, (source + step) % 6, size) for time, source, step, size in sends]
    options = AnalyticalOptions(congestion="aware", switching=switching)
    python, compiled = (network_of(each, options) for each in (False, True))
    by_owner = loads(python, messages, owners)
    assert by_owner == loads(compiled, messages, owners)
    whole = loads(network_of(True, options), messages, [0] * 6)
    for own, together in zip(by_owner, whole, strict=True):
        assert (own.source, own.target) == (together.source, together.target)
        assert sum(own.bytes) == together.bytes[0]
        assert sum(own.busy_ns) == pytest.approx(together.busy_ns[0])
        assert sum(map(sum, own.wait_ns)) == pytest.approx(together.wait_ns[0][0])


def test_jobs_that_share_links_wait_for_each_other(tmp_path: Path) -> None:
    jobs: Any = [
        {"name": "a", "workload": ALL_REDUCE, "ranks": "0:8:2"},
        {"name": "b", "workload": ALL_REDUCE, "ranks": "1:8:2", "start_ns": 3000},
    ]
    result = run_jobs(write(tmp_path, jobs), alone=True, link_figures=True)
    assert result.links
    assert result.wait_ns is not None
    assert result.wait_ns[0][1] + result.wait_ns[1][0] > 0
    assert max(each.slowdown or 0 for each in result.jobs) > 1
    for link in result.links:
        assert link.busy_ns == pytest.approx(sum(each["busy_ns"] for each in link.by_job.values()))
    plain = run_jobs(write(tmp_path, jobs))
    assert plain.links is None
    assert [each.finish_ns for each in plain.jobs] == [each.finish_ns for each in result.jobs]


def test_jobs_on_links_of_their_own_wait_for_themselves_alone(tmp_path: Path) -> None:
    jobs = [{"name": "a", "workload": ALL_REDUCE, "ranks": "0:2"}, {"name": "b", "workload": ALL_REDUCE, "ranks": "4:6"}]
    result = run_jobs(write(tmp_path, jobs), link_figures=True)
    assert result.wait_ns is not None
    assert (result.wait_ns[0][1], result.wait_ns[1][0]) == (0, 0)


def test_passes_add_up_to_the_duration(tmp_path: Path) -> None:
    text = (
        "plugin = 'layers'\nloop = 'data'\n[[layers]]\nname = 'l'\nforward = { compute_ns = 5000 }\ninput_gradient = { compute_ns = 0 }\n"
    )
    (tmp_path / "w.toml").write_text(
        text + "weight_gradient = { compute_ns = 1000, collective = 'all_reduce', collective_bytes = 65536 }\n"
    )
    jobs = [{"name": "a", "workload": "w.toml", "ranks": "0:4", "passes": 4, "start_ns": 700}]
    (only,) = run_jobs(write(tmp_path, jobs)).jobs
    assert len(only.passes_ns) == 4
    assert sum(only.passes_ns) == pytest.approx(only.duration_ns)
    assert min(only.passes_ns) >= 6000  # its computing


def test_a_network_that_cannot_count_is_refused(tmp_path: Path) -> None:
    jobs = [{"name": "a", "workload": ALL_REDUCE, "ranks": "0:4"}]
    for network in ("plugin:analytical", "plugin:flow"):
        with pytest.raises(InputError, match="--link-figures: the network counts no waits by job"):
            run_jobs(write(tmp_path, jobs, network), link_figures=True)


def test_the_command_prints_who_waits_for_whom(tmp_path: Path) -> None:
    jobs: Any = [
        {"name": "a", "workload": ALL_REDUCE, "ranks": "0:8:2"},
        {"name": "b", "workload": ALL_REDUCE, "ranks": "1:8:2", "start_ns": 3000},
    ]
    file = str(write(tmp_path, jobs))
    printed = CliRunner().invoke(cli.astra, ["jobs", file, "--link-figures"]).output
    assert "waits for a" in printed
    assert "Links at which jobs wait longest for others" in printed
    document = json.loads(CliRunner().invoke(cli.astra, ["jobs", file, "--link-figures", "--json"]).output)
    assert len(document["wait_ns"]) == 2
    assert {"busy_ns", "by_job", "wait"} <= set(document["links"][0])
