"""What `schedule.lower` makes of programs: the short way for exchanges is the long one, and a step with a stride is its repetitions."""

from __future__ import annotations

from typing import Any
from unittest import mock

import attrs
import pytest
from astra_sim import schedule as schedules
from astra_sim.errors import ScheduleError
from astra_sim.schedule import LoweredProgram, Peer, PeerRun, RankProgram, Schedule, Step, lower
from hypothesis import given
from hypothesis import strategies as st


def listed(program: LoweredProgram) -> tuple[Any, ...]:
    """All values of a program."""
    handling = program.memory_bytes, program.compute_ps
    return program.starts, program.actions, program.tokens, *handling, program.bus_transfers, program.in_turn


def outcome(schedule: Schedule) -> Any:
    """The lowered schedule, or its error."""
    try:
        return [listed(program) for program in lower(schedule)]
    except ScheduleError as error:
        return str(error)


@st.composite
def programs(draw: st.DrawFn) -> Schedule:
    """Exchanges of all ranks, some of which do not fit together; repeated steps may have another peer each time."""
    ranks = draw(st.sampled_from((2, 4, 5, 8)))
    operators = st.sampled_from(("shift",) if ranks == 5 else ("shift", "shift", "xor"))
    steps = []
    for _ in range(draw(st.integers(0, 5))):
        to = Peer(draw(operators), draw(st.integers(-ranks, ranks)))
        source = draw(st.sampled_from((to.inverse(), to.inverse(), to.inverse().normal(ranks), to, None)))
        if draw(st.integers(0, 9)) == 0:
            to, source = source or to, to
        after = draw(st.sampled_from((None, None, 0, 2)))
        size, times, memory = draw(st.integers(1, 3)), draw(st.sampled_from((1, 1, 1, 2, 3))), draw(st.sampled_from((0, 0, 7)))
        stride = draw(st.sampled_from((0, 0, 1, -1, 2, 3)))
        steps.append(Step(to, source, size, times, after, memory_bytes=memory, returned=draw(st.booleans()), stride=stride))
    cycle = draw(st.sampled_from((None, (1, 1), (2, 3))))
    return Schedule(ranks, (RankProgram(tuple(steps), draw(st.integers(0, 3)), cycle),), 0)


@given(schedule=programs())
def test_the_short_way_is_the_long_one(schedule: Schedule) -> None:
    result = outcome(schedule)
    with mock.patch.object(schedules, "_only_exchanges", return_value=False):
        assert outcome(schedule) == result


@given(schedule=programs())
def test_the_peers_of_a_program_are_those_of_its_steps_in_order(schedule: Schedule) -> None:
    (program,) = schedule.programs
    twice = attrs.evolve(program, steps=program.steps + program.steps[::-1])
    assert list(twice.peers) == list(dict.fromkeys(run for step in program.steps for run in step.peers()))
    assert len(twice.different_steps) <= len(program.steps)


def accepted(schedule: Schedule) -> bool:
    """Whether it passes its own check."""
    try:
        schedule.check(schedule.ranks)
    except ScheduleError:
        return False
    return True


def taken_once(schedule: Schedule) -> Schedule:
    """The same schedule, in which each repetition of a step is a step."""
    programs = (
        attrs.evolve(program, steps=tuple(once for step in program.steps for once in step.unrolled())) for program in schedule.programs
    )
    return attrs.evolve(schedule, programs=tuple(programs))


@given(schedule=programs())
def test_a_step_with_a_stride_is_its_repetitions(schedule: Schedule) -> None:
    once = taken_once(schedule)
    assert outcome(schedule) == outcome(once)
    assert accepted(schedule) == accepted(once)
    assert schedule.total_messages() == once.total_messages()
    assert schedule.bytes_sent_by_first == once.bytes_sent_by_first == sum(run.length * size for run, size in schedule.sent_by_first)
    assert (schedule.exchanges is None) == (once.exchanges is None)
    pairs = {pair for to, source in schedule.exchanges or () for pair in zip(to.each(), source.each(), strict=True)}
    assert pairs == {(to.first, source.first) for to, source in once.exchanges or ()}


@given(value=st.integers(-30, 30), count=st.integers(1, 30), stride=st.integers(-9, 9), ranks=st.integers(1, 24))
def test_peers_one_after_another(value: int, count: int, stride: int, ranks: int) -> None:
    run = PeerRun(Peer("shift", value), count, stride)
    each = list(run.each())
    assert [peer.value for peer in each] == [value + number * stride for number in range(count)]
    assert run.first_back(ranks) == next((peer for peer in each if peer.value % ranks == 0), None)
    for operator in ("shift", "xor", "rank"):
        peers = run._replace(first=Peer(operator, value))
        assert list(peers.ranks_from(3, ranks)) == [peer.of(3, ranks) for peer in peers.each()]


@pytest.mark.parametrize("starts", [0, 2])
def test_a_program_without_steps(starts: int) -> None:
    (program,) = lower(Schedule(2, (RankProgram((), starts),), 0))
    assert (program.actions, program.tokens, len(program.bus_transfers)) == ((), starts, starts)
