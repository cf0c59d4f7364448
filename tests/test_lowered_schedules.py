"""What `schedule.lower` makes of programs that all ranks share: the short way for exchanges is the long one."""

from __future__ import annotations

from typing import Any
from unittest import mock

import attrs
import pytest
from astra_sim import schedule as schedules
from astra_sim.errors import ScheduleError
from astra_sim.schedule import Peer, RankProgram, Schedule, Step, lower
from hypothesis import given
from hypothesis import strategies as st


def outcome(schedule: Schedule) -> Any:
    """What a schedule becomes, or its error."""
    try:
        return [attrs.astuple(program, recurse=False) for program in lower(schedule)]
    except ScheduleError as error:
        return str(error)


@st.composite
def programs(draw: st.DrawFn) -> Schedule:
    """Exchanges of all ranks, some of which do not fit together."""
    ranks = draw(st.sampled_from((2, 4, 5, 8)))
    operators = st.sampled_from(("shift",) if ranks == 5 else ("shift", "shift", "xor"))
    steps = []
    for _ in range(draw(st.integers(0, 5))):
        to = Peer(draw(operators), draw(st.integers(-ranks, ranks)))
        source = draw(st.sampled_from((to.inverse(), to.inverse(), to.inverse().normal(ranks), to, None)))
        if draw(st.integers(0, 9)) == 0:
            to, source = source or to, to
        after = draw(st.sampled_from((None, None, 0, 2)))
        size, times, memory = draw(st.integers(1, 3)), draw(st.sampled_from((1, 1, 1, 2))), draw(st.sampled_from((0, 0, 7)))
        steps.append(Step(to, source, size, times, after, memory_bytes=memory, returned=draw(st.booleans())))
    cycle = draw(st.sampled_from((None, (1, 1), (2, 3))))
    return Schedule(ranks, (RankProgram(tuple(steps), draw(st.integers(0, 3)), cycle),), 0)


@given(schedule=programs())
def test_the_short_way_is_the_long_one(schedule: Schedule) -> None:
    found = outcome(schedule)
    with mock.patch.object(schedules, "_exchanges_once", return_value=False):
        assert outcome(schedule) == found


@pytest.mark.parametrize("starts", [0, 2])
def test_a_program_without_steps(starts: int) -> None:
    (program,) = lower(Schedule(2, (RankProgram((), starts),), 0))
    assert (program.actions, program.tokens, len(program.carriages)) == ((), starts, starts)
