"""Every algorithm moves the right pieces, and its messages are as large as they should be."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import astra_sim
import attrs
import pytest
from astra_sim.schedule import Collective, Peer, RankProgram, Request, Schedule, Step, exchange, lower, rank, receive, send, shift, xor
from astra_sim_collectives.direct import DirectOptions, direct
from astra_sim_collectives.double_binary_tree import double_binary_tree
from astra_sim_collectives.halving_doubling import halving_doubling
from astra_sim_collectives.ring import ring
from astra_sim_devkit.testing import check_schedule
from astra_sim_devkit.testing.collectives import check_collective
from hypothesis import given, settings
from hypothesis import strategies as st

Algorithm = Callable[[Request], Schedule]


def _direct(window: int | None) -> Algorithm:
    return partial(direct, options=DirectOptions(window=window))


ANY_SIZE = [ring, _direct(None), _direct(1), _direct(2), _direct(5)]


@pytest.mark.parametrize("algorithm", [*ANY_SIZE, halving_doubling, double_binary_tree])
def test_pieces_end_where_they_should(algorithm: Algorithm) -> None:
    check_collective(algorithm)


@settings(deadline=None)
@given(st.sampled_from(ANY_SIZE), st.sampled_from(Collective), st.integers(2, 24), st.sampled_from((1, -1)))
def test_pieces_end_where_they_should_on_any_number_of_ranks(algorithm: Algorithm, collective: Collective, n: int, way: int) -> None:
    request = Request(collective, n, 100 * n, way)
    check_schedule(algorithm(request), request)


def _sent(schedule: Schedule, index: int = 0) -> int:
    return sum(step.bytes * step.times for step in schedule.program(index).steps if step.send_to is not None)


@pytest.mark.parametrize("algorithm", [ring, _direct(None), _direct(3), halving_doubling])
def test_a_bandwidth_optimal_algorithm_sends_as_little_as_possible(algorithm: Algorithm) -> None:
    n, size = 8, 8000
    assert _sent(algorithm(Request(Collective.ALL_REDUCE, n, size))) == 2 * size * (n - 1) // n
    assert _sent(algorithm(Request(Collective.REDUCE_SCATTER, n, size))) == size * (n - 1) // n
    assert _sent(algorithm(Request(Collective.ALL_GATHER, n, size))) == size * (n - 1)


def test_halving_doubling_truncates_and_loses_the_last_bit_between_its_halves() -> None:
    schedule = halving_doubling(Request(Collective.ALL_REDUCE, 8, 1005))
    assert [step.bytes for step in schedule.programs[0].steps] == [502, 251, 125, 124, 248, 496]


@pytest.mark.parametrize(
    ("algorithm", "collective", "n"),
    [
        (halving_doubling, Collective.ALL_REDUCE, 6),
        (halving_doubling, Collective.ALL_TO_ALL, 8),
        (double_binary_tree, Collective.ALL_REDUCE, 5),
    ],
)
def test_what_an_algorithm_cannot_do_it_refuses(algorithm: Algorithm, collective: Collective, n: int) -> None:
    with pytest.raises(astra_sim.ScheduleError, match=str(n)):
        algorithm(Request(collective, n, 1000))


def test_the_two_trees_take_turns() -> None:
    even = double_binary_tree(Request(Collective.ALL_REDUCE, 8, 1000, instance=0))
    odd = double_binary_tree(Request(Collective.ALL_REDUCE, 8, 1000, instance=1))
    # Only the root sends nothing upwards: it posts one receive and sends one message, with no token of its own to start from.
    roots = [[i for i in range(8) if len(s.program(i).steps) == 2 and s.program(i).starts == 0] for s in (even, odd)]
    assert roots == [[7], [0]]


def _by_number(schedule: Schedule) -> Schedule:
    """The same, in which each rank has a program of its own, and names others by their numbers."""

    def of(peer: Peer | None, index: int) -> Peer | None:
        return peer and rank(peer.of(index, schedule.ranks))

    programs = [schedule.program(index) for index in range(schedule.ranks)]
    own = [
        attrs.evolve(
            program,
            steps=tuple(
                attrs.evolve(once, send_to=of(once.send_to, index), receive_from=of(once.receive_from, index), stride=0)
                for step in program.steps
                for once in step.unrolled()
            ),
        )
        for index, program in enumerate(programs)
    ]
    return attrs.evolve(schedule, programs=tuple(own))


def _lowered(schedule: Schedule) -> list[tuple[object, ...]]:
    """What ranks do, with the numbers of those that they send to and receive from."""

    def number(peer: Peer | None, index: int) -> int | None:
        return peer and peer.of(index, schedule.ranks)

    result: list[tuple[object, ...]] = []
    for index, program in enumerate(lower(schedule)):
        actions = [
            action._replace(send_to=number(action.send_to, index), receive_from=number(action.receive_from, index))  # type: ignore[arg-type]
            for action in program.actions
        ]
        handling = program.memory_bytes, program.compute_ps
        result.append((actions, program.starts, program.tokens, *handling, program.bus_transfers, program.in_turn))
    return result


@pytest.mark.parametrize("instance", [0, 1])
@pytest.mark.parametrize("n", [2, 4, 32, 128])
def test_ranks_of_a_tree_in_the_same_position_share_what_their_program_becomes(n: int, instance: int) -> None:
    schedule = double_binary_tree(Request(Collective.ALL_REDUCE, n, 1000, instance=instance))
    assert _lowered(schedule) == _lowered(_by_number(schedule))
    assert schedule.total_messages() == _by_number(schedule).total_messages() == 2 * (n - 1)
    assert schedule.reduced_bytes == _by_number(schedule).reduced_bytes
    assert len({id(program) for program in schedule.programs}) <= 2 * n.bit_length()
    assert len({id(program) for program in lower(schedule)}) <= 4 * n.bit_length()


@settings(deadline=None)
@given(st.data())
def test_programs_that_some_ranks_share_become_what_they_become_rank_by_rank(data: st.DataObject) -> None:
    """Any ranks may share programs: what a rank's messages meet is found from the programs of its own peers."""
    n = data.draw(st.integers(2, 9))
    kinds = []
    for _ in range(data.draw(st.integers(1, 3))):
        makers: list[Callable[..., Step]] = [exchange, exchange, send, receive]
        peers = st.tuples(st.sampled_from(makers), st.integers(1, n - 1), st.integers(1, 2))
        drawn = data.draw(st.lists(peers, max_size=3))
        kinds.append(RankProgram(tuple(step(shift(peer), 10 * size, after=0) for step, peer, size in drawn)))
    programs = [data.draw(st.sampled_from(kinds)) for _ in range(n)]
    schedule = Schedule.per_rank(_all_reduce(n), programs)
    assert _outcome(schedule) == _outcome(_by_number(schedule))


def _outcome(schedule: Schedule) -> object:
    """The lowered schedule, or its error."""
    try:
        return _lowered(schedule)
    except astra_sim.ScheduleError:
        return None


def test_a_rank_may_have_no_steps() -> None:
    """Ranks 0 and 1 exchange; rank 2 has nothing to do but the token that it starts with."""
    pair = [RankProgram((exchange(rank(peer), 1000),)) for peer in (1, 0)]
    lowered = lower(Schedule.per_rank(_all_reduce(3), [*pair, RankProgram(())]))
    assert [len(program.actions) for program in lowered] == [1, 1, 0]
    assert [program.tokens for program in lowered] == [2, 2, 1]
    assert [transfer.bytes for transfer in lowered[2].bus_transfers] == [0]


@settings(deadline=None)
@given(st.integers(3, 9), st.integers(0, 8), st.sampled_from(("sends", "receives", "bytes")))
def test_messages_of_shared_programs_that_do_not_match_are_refused(n: int, odd: int, what: str) -> None:
    alike = RankProgram((exchange(shift(1), 1000),))
    steps = {"sends": (receive(shift(-1), 1000),), "receives": (send(shift(1), 1000),), "bytes": (exchange(shift(1), 999),)}
    programs = [alike] * n
    programs[odd % n] = RankProgram(steps[what])
    with pytest.raises(astra_sim.ScheduleError, match="rank"):
        lower(Schedule.per_rank(_all_reduce(n), programs))


def _all_reduce(n: int) -> Request:
    return Request(Collective.ALL_REDUCE, n, 1000)


def test_a_schedule_that_reduces_twice_is_caught() -> None:
    request = _all_reduce(4)
    steps = [exchange(shift(1), 1000, times=4, reduce=True, pieces=range(4))]
    with pytest.raises(AssertionError, match=r"times of piece|holds the contribution"):
        check_schedule(Schedule.shared(request, steps), request)


def test_a_schedule_that_sends_what_it_does_not_hold_is_caught() -> None:
    request = Request(Collective.ALL_GATHER, 4, 1000)
    with pytest.raises(AssertionError, match="does not hold"):
        check_schedule(Schedule.shared(request, [exchange(shift(1), 1000, pieces=[2])]), request)


def test_a_schedule_that_never_finishes_is_caught() -> None:
    request = _all_reduce(2)
    with pytest.raises(AssertionError, match="stops at step"):
        check_schedule(Schedule.shared(request, [exchange(xor(1), 1000, after=7, pieces=[0])]), request)


@pytest.mark.parametrize(
    ("programs", "words"),
    [
        ([[send(rank(1), 8)], []], "rank 0 sends 1 messages to rank"),
        ([[], [receive(rank(0), 8)]], "rank 1 posts 1 receives from rank 0"),
        ([[send(rank(1), 8)], [receive(rank(0), 9)]], "expects 9 bytes"),
        ([[send(rank(2), 8)], []], "rank 0 of 2 has rank"),
        ([[send(rank(0), 8)], []], "rank 0 of 2 has rank"),
    ],
)
def test_programs_that_do_not_match_are_errors(programs: list[list[object]], words: str) -> None:
    schedule = Schedule.per_rank(_all_reduce(2), [RankProgram(tuple(steps)) for steps in programs])  # type: ignore[arg-type]
    with pytest.raises(astra_sim.ScheduleError) as caught:
        lower(schedule)
    assert words in str(caught.value)
