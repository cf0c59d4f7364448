"""Algorithms in the XML format of MSCCL."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest
from astra_sim import InputError, ScheduleError
from astra_sim.schedule import Collective, Request, Schedule, lower
from astra_sim_collectives.msccl import MscclOptions, msccl
from astra_sim_devkit.testing import check_schedule
from hypothesis import given
from hypothesis import strategies as st
from support import msccl_files

Write = Callable[[str], str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(text: str) -> str:
        path = tmp_path / "algorithm.xml"
        path.write_text(text)
        return str(path)

    return write_file


def make(write: Write, text: str, collective: Collective, ranks: int, size: int = 4800) -> Schedule:
    request = Request(collective, ranks, size)
    schedule = msccl(request, MscclOptions(file=write(text)))
    lower(schedule)
    check_schedule(schedule, request)
    return schedule


def sizes(schedule: Schedule, rank: int = 0) -> list[int]:
    return [step.bytes for step in schedule.program(rank).steps if step.send_to is not None]


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize(("n", "each"), [(4, 1), (4, 3), (2, 1), (5, 2)])
def test_a_ring_all_reduce(write: Write, n: int, each: int, fused: bool) -> None:
    schedule = make(write, msccl_files.ring_all_reduce(n, each, fused), Collective.ALL_REDUCE, n)
    assert sizes(schedule) == [4800 // n] * (2 * n - 2)
    assert [step.reduce for step in schedule.program(1).steps if step.receive_from] == [True] * (n - 1) + [False] * (n - 1)


def test_all_pairs_sends_everything_at_once(write: Write) -> None:
    schedule = make(write, msccl_files.all_pairs_all_gather(4), Collective.ALL_GATHER, 4)
    assert sizes(schedule) == [4800] * 3
    assert [step.after for step in schedule.program(2).steps if step.send_to] == [1, 1, 1]
    assert schedule.output_bytes == 4 * 4800


def test_an_all_to_all_sends_several_chunks_in_a_message(write: Write) -> None:
    assert sizes(make(write, msccl_files.all_to_all(4, 2), Collective.ALL_TO_ALL, 4)) == [1200] * 3


def test_thread_blocks_wait_for_each_other(write: Write) -> None:
    schedule = make(write, msccl_files.all_pairs_all_reduce(4), Collective.ALL_REDUCE, 4)
    assert [step.after for step in schedule.program(3).steps if step.send_to] == [1, 1, 1, 4, 4, 4]
    assert sum(step.memory_bytes for step in schedule.program(3).steps) == 3 * 1200


def test_a_reduce_scatter(write: Write) -> None:
    schedule = make(write, msccl_files.direct_reduce_scatter(5), Collective.REDUCE_SCATTER, 5)
    assert schedule.output_bytes == 960


def test_fewer_chunks_than_ranks(write: Write) -> None:
    n, step = 3, msccl_files.step
    gpus: list[msccl_files.Gpu] = [
        {0: (1, 2, [step("s", "i0"), step("r", "i0")])},
        {0: (2, 0, [step("rrs", "i0"), step("nop")]), 1: (-1, 2, [step("r", "i0", after=(0, 0))])},
        {0: (0, 1, [step("rrcs", "i0", "i0")]), 1: (1, -1, [step("s", "i0", after=(0, 0))])},
    ]
    schedule = make(write, msccl_files.algorithm("allreduce", 1, gpus), Collective.ALL_REDUCE, n)
    assert sizes(schedule, 2) == [4800, 4800]


def test_independent_thread_blocks_wait_for_each_other_too(write: Write) -> None:
    # Two chunks go around a ring of three, one either way: an all-reduce by passing a sum on.
    n, kinds = 3, [["s", "rcs"], ["rrs", "r"], ["rrcs"]]

    def block(rank: int, way: int, chunk: int) -> tuple[int, int, list[str]]:
        steps = [msccl_files.step(kind, f"i{chunk}", f"i{chunk}") for kind in kinds[rank * way % n]]
        return (rank + way) % n, (rank - way) % n, steps

    text = msccl_files.algorithm("allreduce", 2, ({0: block(rank, 1, 0), 1: block(rank, -1, 1)} for rank in range(n)), 1)
    schedule = make(write, text, Collective.ALL_REDUCE, n)
    # Rank 1 passes on what came from rank 0, then what came from rank 2, and waits for both messages then.
    steps = [(step.send_to.value, step.after) for step in schedule.program(1).steps if step.send_to is not None]
    assert steps == [(2, 2), (0, 3)]


RING = msccl_files.ring_all_reduce(4)
GATHER = msccl_files.all_pairs_all_gather(3)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ":1: not XML: no element found"),
        (RING.replace("</algo>", ""), "not XML: no element found"),
        ("<!DOCTYPE algo [<!ENTITY a 'b'>]>" + RING, ":1: a document type declaration"),
        (RING.replace("algo", "algorithm"), ":1: unknown element 'algorithm'; did you mean 'algo'?"),
        ("<algo coll='allreduce' ngpus='2' nchunksperloop='2'><tb/></algo>", ":1: element tb is in algo; expected in gpu"),
        (RING.replace('coll="allreduce"', ""), ":1: algo: coll is missing; expected allreduce"),
        (RING.replace('coll="allreduce"', 'coll="custom"'), "algo: coll is 'custom'; expected allreduce"),
        (RING.replace('ngpus="4"', 'ngpus="5"'), "algo: gpus are 0, 1, 2, 3; expected 0 to 4 (ngpus is 5)"),
        (GATHER.replace('nchunksperloop="3"', 'nchunksperloop="4"'), ":1: algo: nchunksperloop is 4; expected a multiple of ngpus (3)"),
        (RING.replace('gpu id="1"', 'gpu id="0"'), "gpu: id 0 is given twice"),
        (RING.replace('gpu id="1"', 'gpu id="9"'), ":13: gpu: id is '9'; expected a whole number from 0 to 3"),
        (RING.replace('send="1"', 'send="0"'), ":3: tb: send is 0, which is the gpu itself"),
        (RING.replace('send="1"', 'send="-1"'), ":4: step: type is 's', but send of its tb (line 3) is -1"),
        (RING.replace('send="1"', 'send="x"'), ":3: tb: send is 'x'; expected a whole number from -1 to 3"),
        (RING.replace('<step s="2"', '<step s="3"', 1), ":6: step: s is 3; expected 2"),
        (RING.replace('type="rrcs"', 'type="rsc"', 1), ":7: step: type is 'rsc'; expected s, r,"),
        (RING.replace('srcbuf="i"', 'srcbuf="x"', 1), ":4: step: srcbuf is 'x'; expected i, o or s"),
        (RING.replace('srcoff="0"', 'srcoff="4"', 1), ":4: step: srcoff is 4 and cnt 1; buffer i has 4 chunks"),
        (RING.replace('cnt="1"', 'cnt="0"', 1), ":4: step: cnt is '0'; expected a whole number from 1"),
        (RING.replace('depid="-1" deps="-1"', 'depid="7" deps="0"', 1), ":4: step: depid is 7; known: 0"),
        (RING.replace('depid="-1" deps="-1"', 'depid="0" deps="9"', 1), ":4: step: deps is 9; expected 0 to 6"),
        (RING.replace('depid="-1" deps="-1"', 'depid="0" deps="3"', 1), "waits here for ever"),
        (RING.replace('type="r" ', 'type="nop" ', 1), "sends to gpu 0 on channel 0, which never receives that there"),
        (RING.replace('type="s"', 'type="nop"', 1), "receives from gpu 0 on channel 0, which never sends that there"),
        (RING.replace('cnt="1"', 'cnt="2"', 1), "step: cnt is 1; expected 2, what gpu 0 sends (line 4)"),
        (
            RING.replace('type="rrcs"', 'type="rcs"'),
            "at the end gpu 0 has chunk 0 of gpu 0, 1, 2 in chunk 0 of its output; expected chunk 0 of gpu 0, 1, 2, 3",
        ),
        (RING.replace('srcoff="3"', 'srcoff="2"', 1), "adds chunk"),
        (GATHER.replace('type="cpy"', 'type="nop"'), "at the end gpu 0 has nothing in chunk 0 of its output"),
        (GATHER.replace('srcoff="0"', 'srcoff="1"', 1), "reads chunk 1 of buffer i, which is empty"),
        ("<algo coll='allreduce' ngpus='1' nchunksperloop='1'><gpu id='0'/></algo>", "gpu 0 sends and receives nothing"),
    ],
)
def test_what_is_wrong_is_said(write: Write, text: str, words: str) -> None:
    ranks = 1 if "ngpus='1'" in text else 3 if 'ngpus="3"' in text else 4
    collective = Collective.ALL_GATHER if "allgather" in text else Collective.ALL_REDUCE
    with pytest.raises(InputError) as caught:
        msccl(Request(collective, ranks, 4800), MscclOptions(file=write(text)))
    assert words in str(caught.value)
    assert "algorithm.xml" in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nosuch\.xml"):
        msccl(Request(Collective.ALL_REDUCE, 4, 4800), MscclOptions(file=str(tmp_path / "nosuch.xml")))


@pytest.mark.filterwarnings("ignore::astra_sim.InputWarning")
@given(st.data())
def test_a_spoilt_file_gives_an_algorithm_or_an_error(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    text = bytearray(data.draw(st.sampled_from([RING, GATHER])).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        first = data.draw(st.integers(0, len(text) - 1))
        text[first : first + data.draw(st.integers(0, 30))] = data.draw(
            st.sampled_from([b"", b"9", b"-1", b"<", b'"', b"\xff", b"<tb>", b"rrc"])
        )
    path = tmp_path_factory.getbasetemp() / "spoilt.xml"
    path.write_bytes(text)
    with contextlib.suppress(InputError):
        lower(msccl(Request(Collective.ALL_REDUCE, 4, 4800), MscclOptions(file=str(path))))


@pytest.mark.parametrize(("collective", "ranks"), [(Collective.ALL_GATHER, 4), (Collective.ALL_REDUCE, 5)])
def test_an_algorithm_is_for_one_collective_and_number_of_ranks(write: Write, collective: Collective, ranks: int) -> None:
    with pytest.raises(ScheduleError, match=r"msccl cannot do .* is for"):
        msccl(Request(collective, ranks, 4800), MscclOptions(file=write(RING)))
