"""Schedules that cannot be run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import astra_sim
import pytest
from astra_sim import (
    CollectiveProvider,
    InputError,
    PluginError,
    Result,
    ScheduleError,
)
from astra_sim.errors import DeadlockError
from astra_sim.schedule import RankProgram, Request, Schedule, exchange, rank, receive, send, shift, xor

from errors.inputs import Words, cases, holds, network, offering, raises, write


def with_algorithm(inputs: dict[str, Any], algorithm: Callable[[Request], Any], symmetry: bool) -> Result:
    """Run with a collective algorithm of the test."""
    plugins = offering(collectives=lambda: [CollectiveProvider("mine", "An algorithm of the tests", algorithm)])
    return astra_sim.simulate(**inputs, set=["system.all_reduce=mine"], plugins=plugins, symmetry=symmetry)


def everybody(*steps: Any, **more: Any) -> Callable[[Request], Schedule]:
    """An algorithm in which all ranks do the same."""
    return lambda request: Schedule.shared(request, steps, **more)


def in_a_ring(program: Callable[[int, int], RankProgram]) -> Callable[[Request], Schedule]:
    """An algorithm in which every rank has a program: of its next rank and the one before."""
    return lambda request: Schedule.per_rank(
        request, [program((i + 1) % request.ranks, (i - 1) % request.ranks) for i in range(request.ranks)]
    )


FLOAT_SIZE: Any = 8.5
TEXT_SIZE: Any = "8"
SOME = [("unnamed", 1e-9)]
"""Data of which only the bytes are known, that represent many more."""


@pytest.mark.parametrize("symmetry", [True, False], ids=["one for all", "every NPU"])
@cases(
    {
        "receives what nobody sends": (in_a_ring(lambda up, down: RankProgram((receive(rank(down), 8),))), "rank 0", "sends 0 bytes"),
        "sends what nobody receives": (in_a_ring(lambda up, down: RankProgram((send(rank(up), 8),))), "rank 0", "sends"),
        "sends to itself": (everybody(exchange(shift(0), 8)), "itself"),
        "sends to itself around the ring": (everybody(exchange(shift(4), 8)), "itself"),
        "sends out of the group": (everybody(exchange(xor(8), 8)), "xor(8)", "4"),
        "sends another size than is received": (
            in_a_ring(lambda up, down: RankProgram((send(rank(up), 8, pieces=SOME), receive(rank(down), 16)))),
            "8 bytes",
            "16 bytes",
        ),
        "sends less than nothing": (everybody(exchange(shift(1), -8)), "-8"),
        "sends half a byte": (everybody(exchange(shift(1), FLOAT_SIZE)), "8.5"),
        "sends text": (everybody(exchange(shift(1), TEXT_SIZE)), "'8'"),
        "repeats a step less than never": (everybody(exchange(shift(1), 8, times=-1)), "-1"),
        "starts with less than nothing": (everybody(exchange(shift(1), 8), starts=-1), "-1"),
        "leaves less than nothing": (everybody(exchange(shift(1), 8), output_bytes=-1), "-1"),
        "has steps of another kind": (everybody(3), "3"),
        "is for another number of ranks": (lambda request: Schedule(99, (RankProgram((exchange(shift(1), 8),)),), 8), "99", "4"),
        "has too few programs": (lambda request: Schedule.per_rank(request, [RankProgram(())] * 3), "3 programs", "4"),
    }
)
def test_a_schedule_that_contradicts_itself_is_refused(
    inputs: dict[str, Any], given: Callable[[Request], Any], words: Words, symmetry: bool
) -> None:
    with pytest.raises(InputError) as caught:
        with_algorithm(inputs, given, symmetry)
    holds(str(caught.value), words)


@pytest.mark.parametrize("symmetry", [True, False], ids=["one for all", "every NPU"])
@cases(
    {
        "too many tokens": (everybody(exchange(shift(1), 8, after=99, pieces=SOME)), "NPU 0", "99 tokens", "step 1 of 1"),
        "too many messages": (everybody(exchange(shift(1), 8, after_arrivals=99, pieces=SOME)), "NPU 0", "99 messages", "step 1 of 1"),
        "no token at the start": (everybody(exchange(shift(1), 8, pieces=SOME), starts=0), "NPU 0", "1 tokens", "step 1 of 1"),
        "each other": (
            in_a_ring(lambda up, down: RankProgram((receive(rank(down), 8, after=0), send(rank(up), 8, after=2, pieces=SOME)))),
            "NPU 0 waits for a message of 8 bytes from NPU",
        ),
    }
)
@pytest.mark.parametrize("units", [4, 32])
def test_a_schedule_that_waits_for_ever_fails_the_run_and_says_for_what(
    inputs: dict[str, Any], tmp_path: Path, given: Callable[[Request], Any], words: Words, symmetry: bool, units: int
) -> None:
    write(tmp_path, network=network(units_count=[units]))
    with pytest.raises(DeadlockError) as caught:
        with_algorithm(inputs, given, symmetry)
    holds(str(caught.value), ["cannot finish", *words])
    holds(str(caught.value), [("mine", "dense")])
    assert caught.value.exit_status == 1


@pytest.mark.parametrize("symmetry", [True, False], ids=["one for all", "every NPU"])
def test_an_algorithm_that_fails_is_named_with_its_error(inputs: dict[str, Any], symmetry: bool) -> None:
    with pytest.raises(PluginError) as caught:
        with_algorithm(inputs, raises(ZeroDivisionError("no luck")), symmetry)
    holds(str(caught.value), ["mine", "ZeroDivisionError", "no luck"])


def test_an_algorithm_that_is_not_what_it_should_be_says_so_once(inputs: dict[str, Any]) -> None:
    with pytest.raises(ScheduleError, match="not today"):
        with_algorithm(inputs, raises(ScheduleError("not today")), True)
