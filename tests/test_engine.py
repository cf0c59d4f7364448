"""The primitives of the engine: tasks, queues, messages, barriers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from astra_sim.engine import CALL, JOIN, PHASE, TIMER, Barrier, Engine, Job, PhaseRun
from astra_sim.network import RouteDelayNetwork
from astra_sim.platform import Dimension, Platform
from astra_sim.schedule import Collective, RankProgram, Request, Schedule, exchange, lower, rank, receive, send, shift


def first_come(jobs: Sequence[Job], started: int, job: Job) -> int:
    return len(jobs)


def by_priority(jobs: Sequence[Job], started: int, job: Job) -> int:
    return next((i for i in range(started, len(jobs)) if jobs[i].priority < job.priority), len(jobs))


def job(priority: int = 0) -> Job:
    return Job(priority, "all_reduce", 0, 0)


def test_a_task_starts_when_all_it_waits_for_has_ended() -> None:
    engine = Engine()
    short, long, both = engine.add_task(TIMER, 5), engine.add_task(TIMER, 7), engine.add_task(TIMER, 1)
    engine.precede(short, both)
    engine.precede(long, both)
    engine.start(short)
    engine.start(long)
    assert engine.run() is None
    assert (engine.ready_at[both], engine.finished_at[both], engine.now) == (7, 8, 8)


def test_a_join_ends_at_once_and_a_call_is_told_the_time() -> None:
    engine = Engine()
    told: list[int] = []
    timer = engine.add_task(TIMER, 3)
    call = engine.add_task(CALL, payload=told.append)
    join = engine.add_task(JOIN)
    engine.precede(timer, call)
    engine.precede(call, join)
    engine.start(timer)
    engine.run()
    assert told == [3]
    assert engine.finished_at[join] == 3


def test_long_chains_of_joins_need_no_deep_stack() -> None:
    engine = Engine()
    tasks = [engine.add_task(JOIN) for _ in range(50_000)]
    for before, after in pairwise(tasks):
        engine.precede(before, after)
    engine.start(tasks[0])
    engine.run()
    assert not engine.unfinished()


@pytest.mark.parametrize(("slots", "ends"), [(1, [10, 20, 30]), (2, [10, 10, 20]), (3, [10, 10, 10])])
def test_a_queue_runs_as_many_tasks_as_it_has_slots(slots: int, ends: list[int]) -> None:
    engine = Engine()
    queue = engine.add_queue(slots, first_come)
    tasks = [engine.add_task(TIMER, 10, queue=queue, payload=job()) for _ in range(3)]
    for task in tasks:
        engine.start(task)
    engine.run()
    assert [engine.finished_at[task] for task in tasks] == ends
    assert [engine.ready_at[task] for task in tasks] == [0, 0, 0]


def test_a_queue_keeps_its_order_among_those_that_wait() -> None:
    engine = Engine()
    queue = engine.add_queue(1, by_priority)
    tasks = [engine.add_task(TIMER, 10, queue=queue, payload=job(priority)) for priority in (1, 2, 3)]
    for task in tasks:
        engine.start(task)
    engine.run()
    assert [engine.finished_at[task] for task in tasks] == [10, 30, 20]


def test_a_successor_enters_its_queue_before_the_slot_that_its_predecessor_leaves_is_given_away() -> None:
    engine = Engine()
    queue = engine.add_queue(1, by_priority)
    first = engine.add_task(TIMER, 10, queue=queue, payload=job(5))
    waiting = engine.add_task(TIMER, 10, queue=queue, payload=job(1))
    following = engine.add_task(TIMER, 10, queue=queue, payload=job(5))
    engine.precede(first, following)
    engine.start(first)
    engine.start(waiting)
    engine.run()
    assert (engine.started_at[following], engine.started_at[waiting]) == (10, 20)


def test_tasks_that_end_together_end_in_the_order_of_their_trails() -> None:
    engine = Engine()
    order: list[str] = []
    for name, trail in (("late", (1, 2)), ("early", (1, 9)), ("earliest", (4,))):
        timer = engine.add_task(TIMER, 10, trail=trail)
        call = engine.add_task(CALL, payload=lambda now, name=name: order.append(name))
        engine.precede(timer, call)
        engine.start(timer)
    engine.run()
    assert order == ["earliest", "early", "late"]


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


def phases(schedule: Schedule, together: bool = True, **options: object) -> tuple[Engine, list[int], Barrier]:
    """An engine with a phase on every rank of a platform of one dimension, started at 0."""
    platform = Platform((Dimension(Line(), schedule.ranks, 1, 1.0, 1.0),))
    engine = Engine(Fixed(platform), **options)  # type: ignore[arg-type]
    barrier, programs = Barrier(together), lower(schedule)
    tasks = []
    for npu in range(schedule.ranks):
        run = PhaseRun(npu, npu, range(schedule.ranks), programs[npu % len(programs)], barrier)
        tasks.append(engine.add_task(PHASE, payload=(job(), run)))
    for task in tasks:
        engine.start(task)
    return engine, tasks, barrier


def test_a_step_waits_for_the_credit_of_the_message_before_it() -> None:
    request = Request(Collective.ALL_GATHER, 3, 50)
    engine, tasks, barrier = phases(Schedule.shared(request, [exchange(shift(1), 50, times=2)]), endpoint_ps=10)
    engine.run()
    assert [engine.finished_at[task] for task in tasks] == [10 + 2 * (150 + 10)] * 3
    assert engine.messages == 6
    assert barrier.parts[0].delay_sum == 2 * 150


def test_reduced_bytes_cost_time_in_memory() -> None:
    request = Request(Collective.REDUCE_SCATTER, 2, 100)
    schedule = Schedule.shared(request, [exchange(shift(1), 50, reduce=True)])
    engine, tasks, _ = phases(schedule, endpoint_ps=10, memory_ps=lambda size: 3 * size)
    engine.run()
    assert engine.finished_at[tasks[0]] == 10 + 150 + 10 + 150


def test_under_rendezvous_a_message_waits_for_its_request() -> None:
    request = Request(Collective.ALL_GATHER, 2, 50)
    engine, tasks, _ = phases(Schedule.shared(request, [exchange(shift(1), 50)]), rendezvous=True)
    engine.run()
    assert engine.finished_at[tasks[0]] == (100 + 8192) + (100 + 50)
    assert engine.messages == 4


def test_a_message_may_come_before_its_receive_is_posted() -> None:
    request = Request(Collective.ALL_GATHER, 2, 0)
    programs = [
        RankProgram((send(rank(1), 0, after=0), send(rank(1), 0, after=0)), starts=0),
        RankProgram((receive(rank(0), 0, after=1), receive(rank(0), 0, after=1)), starts=1),
    ]
    engine, tasks, barrier = phases(Schedule.per_rank(request, programs), endpoint_ps=500)
    engine.run()
    assert engine.finished_at[tasks[1]] == 1000
    assert barrier.parts[1].delay_sum == 0


@pytest.mark.parametrize(("together", "ends"), [(True, [1100, 1100]), (False, [500, 1100])])
def test_a_barrier_ends_the_parts_of_a_phase_together(together: bool, ends: list[int]) -> None:
    request = Request(Collective.ALL_GATHER, 2, 0)
    programs = [RankProgram((send(rank(1), 0),)), RankProgram((receive(rank(0), 0),))]
    engine, tasks, _ = phases(Schedule.per_rank(request, programs), together, endpoint_ps=500)
    engine.run()
    assert [engine.finished_at[task] for task in tasks] == ends


def test_what_cannot_finish_is_left_over() -> None:
    request = Request(Collective.ALL_GATHER, 2, 50)
    engine, tasks, barrier = phases(Schedule.shared(request, [exchange(shift(1), 50, after=2)]))
    assert engine.run() is None
    assert engine.unfinished() == tasks
    assert barrier.open == 2


def test_a_run_may_be_cut_into_slices() -> None:
    engine = Engine()
    for delay in (5, 7):
        engine.start(engine.add_task(TIMER, delay))
    assert engine.run(until=1) == 7
    assert engine.run(until=1) is None
