"""Algorithms in the JSON format of MSCCL++."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import astra_sim
import pytest
from astra_sim import InputError, ScheduleError
from astra_sim.schedule import Collective, Request, Schedule, lower
from astra_sim_collectives.mscclpp import MscclppOptions, mscclpp
from astra_sim_devkit.testing import check_schedule
from hypothesis import given, settings
from hypothesis import strategies as st
from support import mscclpp_files
from support.mscclpp_files import GpuPlan, plan

Write = Callable[[str], str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(text: str) -> str:
        path = tmp_path / "plan.json"
        path.write_text(text)
        return str(path)

    return write_file


def make(write: Write, text: str, collective: Collective, ranks: int, size: int = 4800, **options: Any) -> Schedule:
    request = Request(collective, ranks, size)
    schedule = mscclpp(request, MscclppOptions(file=write(text), **options))
    lower(schedule)
    check_schedule(schedule, request)
    return schedule


def sizes(schedule: Schedule, rank: int = 0) -> list[int]:
    return [step.bytes for step in schedule.program(rank).steps if step.send_to is not None]


@pytest.mark.parametrize("n", [2, 3, 5])
def test_a_ring_puts_and_signals(write: Write, n: int) -> None:
    schedule = make(write, mscclpp_files.ring_all_reduce(n), Collective.ALL_REDUCE, n, 4800 * n)
    assert sizes(schedule) == [4800, 8] * (n - 1) + [4800] * (n - 1)
    assert [step.reduce for step in schedule.program(1).steps if step.receive_from].count(True) == n - 1


def test_what_is_read_is_asked_for(write: Write) -> None:
    schedule = make(write, mscclpp_files.ring_all_reduce(4, how="get"), Collective.ALL_REDUCE, 4, 4800)
    assert sorted(sizes(schedule)) == [8] * 6 + [1200] * 6  # three signals and three requests; three that are read, three that are put
    wide = make(write, mscclpp_files.ring_all_reduce(4, how="get"), Collective.ALL_REDUCE, 4, 4800, signal_bytes=128)
    assert sorted(sizes(wide)) == [128] * 6 + [1200] * 6


@pytest.mark.parametrize("how", ["put", "get"])
def test_all_pairs_gather(write: Write, how: str) -> None:
    schedule = make(write, mscclpp_files.all_pairs_all_gather(4, how), Collective.ALL_GATHER, 4)
    assert sorted(sizes(schedule)) == ([8] * 3 if how == "put" else [8] * 6) + [4800] * 3
    assert schedule.output_bytes == 4 * 4800


def test_packets_take_twice_the_bytes_and_no_signals(write: Write) -> None:
    schedule = make(write, mscclpp_files.packet_all_reduce(3), Collective.ALL_REDUCE, 3)
    assert sizes(schedule) == [9600, 9600]


def test_a_reduce_scatter_reads_and_adds(write: Write) -> None:
    schedule = make(write, mscclpp_files.direct_reduce_scatter(4), Collective.REDUCE_SCATTER, 4)
    assert sorted(sizes(schedule)) == [8] * 6 + [1200] * 3
    assert schedule.output_bytes == 1200


def exchange(blocks: int = 1) -> list[GpuPlan]:
    """Two GPUs that are to gather."""
    return [GpuPlan(rank, 2, (1, 2), blocks) for rank in range(2)]


def test_thread_blocks_share_an_operation(write: Write) -> None:
    gpus = exchange(3)
    for rank, gpu in enumerate(gpus):
        for block in range(3):
            share = {"tb_id": block, "tbg_size": 3}
            gpu.add(block, "put", [("o", rank, 1)], [(1 - rank, "o", rank, 1)], to=[1 - rank], tbg_info=share)
            gpu.add(block, "signal", to=[1 - rank])
            gpu.add(block, "wait", to=[1 - rank])
    assert sorted(sizes(make(write, plan("allgather", gpus), Collective.ALL_GATHER, 2, 900))) == [8, 8, 8, 300, 300, 300]


@pytest.mark.parametrize("what", ["barrier", "semaphore"])
def test_thread_blocks_wait_for_each_other(write: Write, what: str) -> None:
    """The second block passes on what the first has received."""
    gpus = [GpuPlan(rank, 3, (1, 3), 2) for rank in range(3)]
    for rank, gpu in enumerate(gpus):
        after, before, far = (rank + 1) % 3, (rank - 1) % 3, (rank - 1) % 3
        gpu.semaphores = [0]
        gpu.add(0, "pws", [("o", rank, 1)], [(after, "o", rank, 1)], to=[after])
        gpu.add(0, "wait", to=[before])
        if what == "barrier":
            gpu.add(0, "barrier", barrier_id=0, num_threadblocks=2)
            gpu.add(1, "barrier", barrier_id=0, num_threadblocks=2)
        else:
            gpu.add(0, "sem_release", semaphore_ids=[0])
            gpu.add(1, "sem_acquire", semaphore_ids=[0])
        gpu.add(1, "pws", [("o", far, 1)], [(after, "o", far, 1)], to=[after])
        gpu.add(1, "wait", to=[before])
    schedule = make(write, plan("allgather", gpus), Collective.ALL_GATHER, 3)
    assert [step.after for step in schedule.program(0).steps if step.send_to] == [1, 2]


def test_copies_and_scratch_carry_data(write: Write) -> None:
    gpus = [GpuPlan(rank, 2, (2, 2)) for rank in range(2)]
    for rank, gpu in enumerate(gpus):
        gpu.add(0, "copy", [("i", 1 - rank, 1)], [("s", 0, 1)])
        gpu.add(0, "nop")
        gpu.add(0, "put", [("s", 0, 1)], [(1 - rank, "s", 1, 1)], to=[1 - rank])
        gpu.add(0, "signal", to=[1 - rank])
        gpu.add(0, "flush", to=[1 - rank])
        gpu.add(0, "wait", to=[1 - rank])
        gpu.add(0, "copy", [("s", 1, 1)], [("o", 1 - rank, 1)])
        gpu.add(0, "copy", [("i", rank, 1)], [("o", rank, 1)])
    assert sizes(make(write, plan("alltoall", gpus, in_place=False), Collective.ALL_TO_ALL, 2)) == [2400, 8]


def test_sums_are_sent_on(write: Write) -> None:
    """The first adds what both have, and writes it to both."""
    gpus = [GpuPlan(rank, 2, (1, 1)) for rank in range(2)]
    gpus[0].add(0, "wait", to=[1])
    gpus[0].add(0, "rres", [("i", 0, 1), (1, "i", 0, 1)], [("i", 0, 1), (1, "i", 0, 1)])
    gpus[0].add(0, "signal", to=[1])
    gpus[1].add(0, "signal", to=[0])
    gpus[1].add(0, "wait", to=[0])
    schedule = make(write, plan("allreduce", gpus), Collective.ALL_REDUCE, 2)
    assert (sizes(schedule, 0), sizes(schedule, 1)) == ([8, 4800, 8], [8, 4800])


def test_sums_are_kept_as_packets_and_sent_on(write: Write) -> None:
    """The second adds packets of the first, keeps the sum and sends it back; the first unpacks it."""
    gpus = [GpuPlan(rank, 2, (1, 1)) for rank in range(2)]
    gpus[0].add(0, "ppkt", [("i", 0, 1)], [(1, "s", 0, 1)], to=[1])
    gpus[0].add(0, "upkt", [("s", 1, 1)], [("i", 0, 1)])
    gpus[1].add(0, "recspkt", [("i", 0, 1), ("s", 0, 1)], [("i", 0, 1), ("s", 2, 1), (0, "s", 1, 1)], to=[0])
    schedule = make(write, plan("allreduce", gpus, protocol="LL"), Collective.ALL_REDUCE, 2)
    assert (sizes(schedule, 0), sizes(schedule, 1)) == ([9600], [9600])


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_random_trees_reach_everybody(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """An all-gather in which each rank's chunk goes to the others along a tree, by puts or gets: the kit proves each of them."""
    n = data.draw(st.integers(2, 5))
    gpus = [GpuPlan(rank, n, (1, n), n) for rank in range(n)]  # a thread block for each tree
    for root in range(n):
        there = [root]
        for rank in data.draw(st.permutations([each for each in range(n) if each != root])):
            parent = data.draw(st.sampled_from(there))
            there.append(rank)
            if data.draw(st.booleans()):
                gpus[parent].add(root, "put", [("o", root, 1)], [(rank, "o", root, 1)], to=[rank])
                gpus[parent].add(root, "signal", to=[rank])
                gpus[rank].add(root, "wait", to=[parent])
            else:
                gpus[parent].add(root, "signal", to=[rank])
                gpus[rank].add(root, "wait", to=[parent])
                gpus[rank].add(root, "get", [(parent, "o", root, 1)], [("o", root, 1)], to=[parent])
    path = tmp_path_factory.mktemp("plans") / "plan.json"
    path.write_text(plan("allgather", gpus))
    request = Request(Collective.ALL_GATHER, n, 1000)
    schedule = mscclpp(request, MscclppOptions(file=str(path)))
    lower(schedule)
    check_schedule(schedule, request)


def test_an_example_runs_and_puts_beat_gets_where_latency_counts(tmp_path: Path) -> None:
    """A get waits for its request; where many bytes are on the way that hardly shows."""
    times = {}
    for how in ("put", "get"):
        path = tmp_path / f"{how}.json"
        path.write_text(mscclpp_files.all_pairs_all_gather(8, how))
        for size in (1 << 10, 1 << 26):
            result = astra_sim.simulate(
                workload=f"plugin:collective?collective=all_gather&bytes={size}",
                platform="plugin:switch?size=8&link_bandwidth_gb_per_s=50&link_latency_ns=500",
                network="plugin:analytical?congestion=aware",
                system={"plugin": "astra1", "all_gather": f"mscclpp?file={path}", "endpoint_delay_ns": 0},
            )
            times[how, size] = result.finish_ns
    assert times["put", 1 << 10] < times["get", 1 << 10]
    assert times["get", 1 << 26] / times["put", 1 << 26] == pytest.approx(1, rel=0.01)


def broken(text: str, path: list[Any], value: Any) -> str:
    """A plan with another value somewhere."""
    table = json.loads(text)
    place = table
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return json.dumps(table)


OP = ["gpus", 0, "threadblocks", 0, "ops", 0]


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (["collective"], "broadcast", 'collective is \'broadcast\'; expected allreduce'),
        (["gpus"], [], "gpus is []; expected a list of at least 1"),
        (["gpus", 1, "id"], 0, "gpus[1]: id is 0; expected 1, since gpus are in order"),
        (["gpus", 1, "output_chunks"], 3, "gpus[1] has input_chunks 1 and output_chunks 3; expected a multiple of the 4 gpus"),
        (["gpus", 1, "output_chunks"], 8, "gpus have 4, 8 chunks; expected the same of all"),
        (["gpus", 0, "input_chunks"], "1", 'gpus[0].input_chunks is "1"; expected a whole number from 0'),
        ([*OP, "name"], "putt", "gpus[0].threadblocks[0].ops[0].name is \"putt\"; did you mean 'put'"),
        ([*OP, "name"], "glres", "gpus[0].threadblocks[0].ops[0]: name is 'glres': it reduces in the switch"),
        ([*OP, "name"], "pipeline", "its loops depend on the size"),
        ([*OP, "name"], "copy", "copy has 1 sources and 3 targets; expected one target for each source"),
        ([*OP, "src_buff"], [], "put has 0 sources and 3 targets; expected a source and a target"),
        ([*OP, "src_buff", 0, "index"], 4, "index and size are 4 and 1 chunks; buffer o has 4"),
        ([*OP, "src_buff", 0, "size"], 2, "buffers have 1, 2 chunks; expected as many each"),
        ([*OP, "dst_buff", 0, "buffer_id"], 99, "dst_buff[0].buffer_id is 99; expected a whole number from 0 to 8"),
        ([*OP, "src_buff", 0, "type"], "x", 'src_buff[0].type is "x"; '),
        (["gpus", 0, "channels", 0, "connected_to"], [0, 1, 2], "connected_to has 0, which is the gpu itself"),
        (["gpus", 0, "channels", 0, "channel_type"], "switch", "channel_type is 'switch'"),
        (["gpus", 0, "threadblocks", 0, "ops", 1, "channel_ids"], [0], "waits for gpu 0, which signals less often there"),
        (["gpus", 0, "threadblocks", 0, "ops", 1, "channel_ids"], [], "signal has 0 sources and 0 targets; expected channels"),
        ([*OP, "src_buff", 0, "index"], 1, "reads chunk 1 of buffer o of gpu 0, which is empty"),
        (["gpus", 0, "threadblocks"], [], "waits for gpu 0, which signals less often there"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(write: Write, path: list[Any], value: Any, words: str) -> None:
    file = write(broken(mscclpp_files.all_pairs_all_gather(4), path, value))
    with pytest.raises(InputError) as caught:
        mscclpp(Request(Collective.ALL_GATHER, 4, 1000), MscclppOptions(file=file))
    assert str(caught.value).startswith(f"{file}: ")
    assert words in str(caught.value)


def test_wrong_results_and_circles_are_errors(write: Write) -> None:
    gpus = exchange()
    for rank, gpu in enumerate(gpus):
        gpu.add(0, "wait", to=[1 - rank])
        gpu.add(0, "pws", [("o", rank, 1)], [(1 - rank, "o", rank, 1)], to=[1 - rank])
    with pytest.raises(InputError, match="wait waits here for ever"):
        make(write, plan("allgather", gpus), Collective.ALL_GATHER, 2)
    gpus = exchange()
    for rank, gpu in enumerate(gpus):
        gpu.add(0, "pws", [("o", rank, 1)], [(1 - rank, "s", 0, 1)], to=[1 - rank])
        gpu.add(0, "wait", to=[1 - rank])
    with pytest.raises(InputError, match="at the end gpu 0 has nothing in chunk 1 of its output; expected chunk 1 of gpu 1"):
        make(write, plan("allgather", gpus), Collective.ALL_GATHER, 2)
    with pytest.raises(InputError, match="not JSON"):
        make(write, "{", Collective.ALL_GATHER, 2)


def test_other_collectives_and_ranks_are_refused(write: Write) -> None:
    text = mscclpp_files.all_pairs_all_gather(4)
    with pytest.raises(ScheduleError, match="is for all_gather"):
        make(write, text, Collective.ALL_REDUCE, 4)
    with pytest.raises(ScheduleError, match="is for 4 ranks"):
        make(write, text, Collective.ALL_GATHER, 8)
