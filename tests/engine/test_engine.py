"""The primitives of both engines: tasks, queues, phases, messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from astra_sim.engine.interface import ACCESS, COLLECTIVE, JOIN, RECEIVE, SEND, TIMER, Engine, PhaseStep, Task
from astra_sim.engine.orders import Job
from astra_sim.network import RouteDelayNetwork
from astra_sim.platform import Dimension, Platform
from astra_sim.schedule import Collective, RankProgram, Request, Schedule, exchange, lower, rank, receive, send, shift
from astra_sim.setup.engines import compiled_engine, find_engine

Make = Callable[..., Engine]


@pytest.fixture(params=["python", "compiled"])
def make(request: pytest.FixtureRequest) -> Make:
    return find_engine(request.param)


def test_the_compiled_engine_is_installed() -> None:
    assert compiled_engine() is not None


def first_come(jobs: Sequence[Job], started: int, job: Job) -> int:
    return len(jobs)


def by_priority(jobs: Sequence[Job], started: int, job: Job) -> int:
    return next((i for i in range(started, len(jobs)) if jobs[i].priority < job.priority), len(jobs))


def job(priority: int = 0) -> Job:
    return Job(priority, "all_reduce", 0, 0)


def timed(delay: int, *, queue: int = -1, priority: int = 0, causal_key: tuple[int, ...] = ()) -> PhaseStep:
    return PhaseStep(job(priority), queue, -1, delay, causal_key)


def nothing(task: int, now: int) -> list[list[PhaseStep]]:
    raise AssertionError("no collective is there to be issued")


def test_a_task_starts_when_all_it_waits_for_has_ended(make: Make) -> None:
    engine = make(1)
    engine.add_program([Task(TIMER, 5), Task(TIMER, 7), Task(TIMER, 1, (0, 1))], [0], nothing)
    assert not engine.run()
    assert engine.now == 8
    assert [list(times) for times in engine.record.times(0)] == [[0, 0, 7], [5, 7, 8]]


def test_a_join_ends_at_once_and_a_collective_is_told_the_time(make: Make) -> None:
    engine = make(1)
    result: list[tuple[int, int]] = []

    def issue(task: int, now: int) -> list[list[PhaseStep]]:
        result.append((task, now))
        return []

    engine.add_program([Task(TIMER, 3), Task(COLLECTIVE, 99, (0,)), Task(JOIN, 0, (1,))], [0], issue)
    engine.run()
    assert result == [(1, 3)]
    assert engine.record.times(0)[1][2] == 3


def test_a_collective_ends_its_delay_after_its_last_chunk(make: Make) -> None:
    engine = make(1)
    engine.add_program([Task(COLLECTIVE, 7)], [0], lambda task, now: [[timed(5), timed(5)], [timed(3)]])
    engine.run()
    assert engine.record.times(0)[1][0] == 17
    assert [(step.step, step.queued_at, step.started_at, step.ended_at) for step in engine.record.phase_steps(0)] == [
        (0, 0, 0, 5),
        (1, 5, 5, 10),
        (2, 0, 0, 3),
    ]


def test_a_collective_is_planned_once_for_all_npus(make: Make) -> None:
    engine = make(3)
    planned: list[int] = []

    def issue(task: int, now: int) -> list[list[PhaseStep]]:
        planned.append(task)
        return [[timed(4)]]

    engine.add_program([Task(COLLECTIVE, 0), Task(COLLECTIVE, 0, (0,))], range(3), issue)
    engine.run()
    assert planned == [0, 1]
    assert engine.now == 8
    assert not engine.record.unfinished()


def test_accesses_at_one_port_take_turns(make: Make) -> None:
    engine = make(4)
    engine.add_ports([0, 0, 1, -1])
    engine.add_program([Task(ACCESS, 10), Task(ACCESS, 5, (0,)), Task(TIMER, 1, (1,))], range(4), nothing)
    engine.run()
    # NPU 0: 0 to 10, then after the 10 of NPU 1: 20 to 25; NPU 1: 10 to 20, then 25 to 30.
    assert [list(times) for times in engine.record.times(0)] == [[0, 10, 25], [10, 25, 26]]
    assert engine.now == 31


def test_a_unit_does_one_task_at_a_time_lowest_number_first(make: Make) -> None:
    engine = make(1)
    tasks = [Task(TIMER, 10, (), 0), Task(TIMER, 5, (0,), 0), Task(TIMER, 10, (), 0), Task(TIMER, 3, (), 1), Task(TIMER, 1)]
    engine.add_program(tasks, [0], nothing)
    engine.run()
    # When the first ends, the second becomes ready and goes before the third, which has waited.
    assert list(engine.record.times(0)[1]) == [10, 15, 25, 3, 1]
    assert engine.record.ended_at() == [25]


def test_a_send_ends_when_its_message_arrives_and_so_does_the_receive(make: Make) -> None:
    platform = Platform((Dimension(Line(), 3, 1, 1.0, 1.0),))
    engine = make(3, Fixed(platform))
    to, source = shift(1), shift(-1)
    engine.add_program([Task(SEND, 0, (), -1, to, 50), Task(TIMER, 400), Task(RECEIVE, 0, (1,), -1, source, 50)], range(2), nothing)
    engine.add_program([Task(RECEIVE, 0, (), -1, source, 50), Task(SEND, 0, (0,), -1, to, 50)], [2], nothing)
    engine.run()
    assert [list(times) for times in engine.record.times(0)] == [[0, 0, 400], [150, 400, 400]]
    assert engine.record.ended_at() == [400, 400, 300]
    assert engine.messages == 3


def test_messages_between_tasks_wait_for_requests_under_rendezvous(make: Make) -> None:
    platform = Platform((Dimension(Line(), 2, 1, 1.0, 1.0),))
    engine = make(2, Fixed(platform), rendezvous=True)
    engine.add_program([Task(SEND, 0, (), -1, shift(1), 50)], [0], nothing)
    engine.add_program([Task(TIMER, 1000), Task(RECEIVE, 0, (0,), -1, shift(-1), 50)], [1], nothing)
    engine.run()
    assert engine.now == 1000 + (100 + 8192) + (100 + 50)


def test_a_receive_of_other_bytes_or_tag_does_not_get_the_message(make: Make) -> None:
    platform = Platform((Dimension(Line(), 2, 1, 1.0, 1.0),))
    engine = make(2, Fixed(platform))
    engine.add_program([Task(SEND, 0, (), -1, shift(1), 50, 3)], [0], nothing)
    engine.add_program([Task(RECEIVE, 0, (), -1, shift(-1), 50, 4), Task(RECEIVE, 0, (), -1, shift(-1), 51, 3)], [1], nothing)
    engine.run()
    assert engine.record.unfinished() == [(1, 0, True), (1, 1, True)]


def test_long_chains_of_joins_need_no_deep_stack(make: Make) -> None:
    engine = make(1)
    engine.add_program([Task(JOIN, 0, (number - 1,) if number else ()) for number in range(50_000)], [0], nothing)
    engine.run()
    assert not engine.record.unfinished()


@pytest.mark.parametrize(("slots", "ends"), [(1, [10, 20, 30]), (2, [10, 10, 20]), (3, [10, 10, 10])])
def test_a_queue_runs_as_many_chunks_as_it_has_slots(make: Make, slots: int, ends: list[int]) -> None:
    engine = make(1)
    engine.add_queues([(slots, first_come)])
    engine.add_program([Task(COLLECTIVE, 0)], [0], lambda task, now: [[timed(10, queue=0)]] * 3)
    engine.run()
    assert [step.ended_at for step in engine.record.phase_steps(0)] == ends
    assert [step.queued_at for step in engine.record.phase_steps(0)] == [0, 0, 0]


def test_a_queue_keeps_its_order_among_those_that_wait(make: Make) -> None:
    engine = make(1)
    engine.add_queues([(1, by_priority)])
    engine.add_program([Task(COLLECTIVE, 0)], [0], lambda task, now: [[timed(10, queue=0, priority=p)] for p in (1, 2, 3)])
    engine.run()
    assert [step.ended_at for step in engine.record.phase_steps(0)] == [10, 30, 20]


def test_a_part_enters_its_queue_before_the_slot_that_the_one_before_it_leaves_is_given_away(make: Make) -> None:
    engine = make(1)
    engine.add_queues([(1, by_priority)])
    first = [timed(10, queue=0, priority=5), timed(10, queue=0, priority=5)]
    engine.add_program([Task(COLLECTIVE, 0)], [0], lambda task, now: [first, [timed(10, queue=0, priority=1)]])
    engine.run()
    assert [step.started_at for step in engine.record.phase_steps(0)] == [0, 10, 20]


def test_an_order_that_gives_no_place_is_an_error(make: Make) -> None:
    from astra_sim import PluginError

    engine = make(1)
    engine.add_queues([(1, lambda jobs, started, job: 7)])
    engine.add_program([Task(COLLECTIVE, 0)], [0], lambda task, now: [[timed(1, queue=0)]])
    with pytest.raises(PluginError, match="gave the place 7; expected 0 to 0"):
        engine.run()


def test_tasks_that_end_together_end_in_the_order_of_their_trails(make: Make) -> None:
    engine = make(1)
    causal_keys = [(1, 2), (1, 9), (4,)]
    order: list[int] = []

    def issue(task: int, now: int) -> list[list[PhaseStep]]:
        if task < 3:
            return [[timed(10, causal_key=causal_keys[task])]]
        order.append(task - 3)
        return []

    engine.add_program([Task(COLLECTIVE, 0)] * 3 + [Task(COLLECTIVE, 0, (number,)) for number in range(3)], [0], issue)
    engine.run()
    assert order == [2, 1, 0]


class Fixed(RouteDelayNetwork):
    """Every message takes 100 ps, and 1 ps a byte."""

    def route_delay(self, dimension: int, hops: int, size: int) -> int:
        return 100 + size


class Line:
    name = "line"

    def hops(self, source: int, destination: int) -> int:
        return 1

    def is_symmetric(self, peer: object) -> bool:
        return False

    def links_per_message(self) -> int:
        return 1

    def links_per_npu(self) -> int:
        return 1


def phase(make: Make, schedule: Schedule, together: bool = True, **options: Any) -> Engine:
    """An engine that runs one phase on every rank of a platform of one dimension."""
    platform = Platform((Dimension(Line(), schedule.ranks, 1, 1.0, 1.0),))
    engine = make(schedule.ranks, Fixed(platform), **options)
    for npu in range(schedule.ranks):
        engine.record.observe(npu)
    groups = engine.add_groups([range(schedule.ranks)])
    number = engine.add_phase(engine.add_schedule(lower(schedule), groups), together=together)
    engine.add_program([Task(COLLECTIVE, 0)], range(schedule.ranks), lambda task, now: [[PhaseStep(job(), phase=number)]])
    return engine


def test_a_step_waits_for_the_credit_of_the_message_before_it(make: Make) -> None:
    request = Request(Collective.ALL_GATHER, 3, 50)
    engine = phase(make, Schedule.shared(request, [exchange(shift(1), 50, times=2)]), endpoint_ps=10)
    engine.run()
    (step,) = engine.record.phase_steps(0)
    assert step.ended_at == 10 + 2 * (150 + 10)
    assert engine.messages == 6
    assert (step.delay_sum, step.received) == (2 * 150, 2)


@pytest.mark.skipif(compiled_engine() is None, reason="the compiled engine is not installed")
@pytest.mark.parametrize(("size", "groups"), [(70_000, 1), (3, 500), (500, 3), (1100, 3)])
def test_ranks_in_step_end_together_however_many_they_are(size: int, groups: int) -> None:
    """Ranks of several groups are NPUs that are apart, and there are more in step than one run of events holds."""
    npus = size * groups
    engine = find_engine("compiled")(npus, Fixed(Platform((Dimension(Line(), npus, 1, 1.0, 1.0),))), endpoint_ps=10)
    number = engine.add_groups([range(first, npus, groups) for first in range(groups)])
    schedule = Schedule.shared(Request(Collective.ALL_GATHER, size, 50), [exchange(shift(1), 50, times=3)])
    kind = engine.add_phase(engine.add_schedule(lower(schedule), number), together=False)
    for npu in range(npus):
        engine.record.observe(npu)
    engine.add_program([Task(COLLECTIVE, 0)], range(npus), lambda task, now: [[PhaseStep(job(), phase=kind)]])
    engine.run()
    assert engine.messages == 3 * npus
    assert {(step.ended_at, step.delay_sum) for npu in range(npus) for step in engine.record.phase_steps(npu)} == {(10 + 3 * 160, 450)}


def test_reduced_bytes_cost_time_in_memory(make: Make) -> None:
    request = Request(Collective.REDUCE_SCATTER, 2, 100)
    schedule = Schedule.shared(request, [exchange(shift(1), 50, reduce=True)])
    engine = phase(make, schedule, endpoint_ps=10, memory_ps=lambda size: 3 * size)
    engine.run()
    assert engine.now == 10 + 150 + 10 + 150


def test_under_rendezvous_a_message_waits_for_its_request(make: Make) -> None:
    request = Request(Collective.ALL_GATHER, 2, 50)
    engine = phase(make, Schedule.shared(request, [exchange(shift(1), 50)]), rendezvous=True)
    engine.run()
    assert engine.now == (100 + 8192) + (100 + 50)
    assert engine.messages == 4


def test_a_message_may_come_before_its_receive_is_posted(make: Make) -> None:
    request = Request(Collective.ALL_GATHER, 2, 0)
    programs = [
        RankProgram((receive(rank(1), 0, after=1), receive(rank(1), 0, after=1)), starts=1),
        RankProgram((send(rank(0), 0, after=0), send(rank(0), 0, after=0)), starts=0),
    ]
    engine = phase(make, Schedule.per_rank(request, programs), endpoint_ps=500)
    engine.run()
    assert engine.record.phase_steps(0)[0].ended_at == 1000
    assert engine.record.phase_steps(0)[0].delay_sum == 0


@pytest.mark.parametrize(("together", "end"), [(True, 1100), (False, 500)])
def test_the_parts_of_a_phase_end_together_or_each_by_itself(make: Make, together: bool, end: int) -> None:
    request = Request(Collective.ALL_GATHER, 2, 0)
    programs = [RankProgram((send(rank(1), 0),)), RankProgram((receive(rank(0), 0),))]
    engine = phase(make, Schedule.per_rank(request, programs), together, endpoint_ps=500)
    engine.run()
    assert engine.record.phase_steps(0)[0].ended_at == end
    assert engine.now == 1100


def test_what_cannot_finish_is_left_over(make: Make) -> None:
    request = Request(Collective.ALL_GATHER, 2, 50)
    engine = phase(make, Schedule.shared(request, [exchange(shift(1), 50, after=2)]))
    assert not engine.run()
    assert engine.record.unfinished() == [(0, 0, True), (1, 0, True)]
    assert [(state.npu, state.tokens, state.next_action, list(state.posted)) for state in engine.record.blocked_ranks()] == [
        (0, 1, 0, []),
        (1, 1, 0, []),
    ]


def test_a_rank_without_steps_ends_with_its_token(make: Make) -> None:
    pair = [RankProgram((exchange(rank(peer), 50),)) for peer in (1, 0)]
    programs = [*pair, RankProgram(())]
    engine = phase(make, Schedule.per_rank(Request(Collective.ALL_GATHER, 3, 50), programs), together=False, endpoint_ps=10)
    engine.run()
    assert [engine.record.phase_steps(npu)[0].ended_at for npu in range(3)] == [10 + 150 + 10, 10 + 150 + 10, 10]


def test_a_receive_whose_message_does_not_come_is_named(make: Make) -> None:
    request = Request(Collective.ALL_GATHER, 2, 0)
    programs = [RankProgram((receive(rank(1), 0, after=0),), starts=0), RankProgram((send(rank(0), 0, after=1),), starts=0)]
    engine = phase(make, Schedule.per_rank(request, programs))
    engine.run()
    assert [(state.npu, list(state.posted)) for state in engine.record.blocked_ranks()] == [(0, [0]), (1, [])]


def test_a_run_may_be_cut_into_slices(make: Make) -> None:
    engine = make(1)
    engine.add_program([Task(TIMER, 5), Task(TIMER, 7)], [0], nothing)
    assert engine.run(1)
    assert (engine.now, engine.events) == (5, 1)
    assert not engine.run(1)
    assert engine.now == 7


def test_time_that_does_not_fit_is_an_error(make: Make) -> None:
    from astra_sim import RunError

    engine = make(1)
    engine.add_program([Task(TIMER, 2**63 - 1), Task(TIMER, 1, (0,))], [0], nothing)
    with pytest.raises(RunError, match="longer than can be simulated"):
        engine.run()


def test_an_endpoint_delay_that_does_not_fit_is_an_error(make: Make) -> None:
    from astra_sim import RunError

    request = Request(Collective.ALL_GATHER, 2, 50)
    with pytest.raises(RunError, match="longer than can be simulated"):
        phase(make, Schedule.shared(request, [exchange(shift(1), 50)]), endpoint_ps=10**20).run()


def test_a_part_that_takes_too_long_is_an_error(make: Make) -> None:
    from astra_sim import RunError

    engine = make(1)
    engine.add_program([Task(COLLECTIVE, 0)], [0], lambda task, now: [[timed(2**63, causal_key=(1,))]])
    with pytest.raises(RunError, match="longer than can be simulated"):
        engine.run()


def test_what_a_plan_raises_comes_out(make: Make) -> None:
    def issue(task: int, now: int) -> list[list[PhaseStep]]:
        raise KeyError("no plan")

    engine = make(1)
    engine.add_program([Task(COLLECTIVE, 0)], [0], issue)
    with pytest.raises(KeyError, match="no plan"):
        engine.run()


@pytest.mark.parametrize(
    "wrong",
    [
        lambda engine: engine.add_queues([(0, first_come)]),
        lambda engine: engine.add_program([Task(7, 0)], [0], nothing),
        lambda engine: engine.add_program([Task(JOIN, 0, (0,))], [0], nothing),
        lambda engine: engine.add_program([Task(JOIN, 0)], [2], nothing),
        lambda engine: engine.add_program([Task(JOIN, 0)], [0, 0], nothing),
        lambda engine: engine.add_program([Task(JOIN, 0, (), 8)], [0], nothing),
        lambda engine: engine.add_ports([0]),
        lambda engine: engine.add_ports([0, 2]),
        lambda engine: engine.add_groups([]),
        lambda engine: engine.add_groups([[0, 1], [0, 1]]),
        lambda engine: engine.add_groups([[0, 1], [0]]),
        lambda engine: engine.add_groups([[-1]]),
    ],
)
def test_what_cannot_be_is_a_value_error(make: Make, wrong: Callable[[Engine], object]) -> None:
    engine = make(2)
    with pytest.raises(ValueError):  # noqa: PT011 -- each is about something else
        wrong(engine)
