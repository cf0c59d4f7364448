"""Orders of queues: rules against their meaning, functions, and what they cost."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import astra_sim
import pytest
from astra_sim import PluginError, SchedulerProvider, hookimpl
from astra_sim.engine.interface import COLLECTIVE, PhaseStep, PhaseStepRecord, Task
from astra_sim.engine.orders import Job, Order, Rule, RuleOrder
from astra_sim.engine.reference.queues import Queue, make_queue
from astra_sim.schedule import Collective
from astra_sim.setup.engines import find_engine
from astra_sim.setup.plugins import Plugins
from astra_sim_systems import queue_orders
from hypothesis import given, settings
from hypothesis import strategies as st
from support import ROOT

ENGINES = pytest.mark.parametrize("engine", ["python", "compiled"])
RING = "plugin:ring?size=16&links=2&link_bandwidth_gib_per_s=50&link_latency_ns=500"
PAIR = {Collective.REDUCE_SCATTER, Collective.ALL_GATHER}

# -- The orders of ASTRA-sim 1.0, which goes through the queue from its front ---------------------------------------------


def by_priority(jobs: Sequence[Job], started: int, job: Job) -> int:
    place = started
    while place < len(jobs) and jobs[place].priority >= job.priority:
        place += 1
    return place


def unless_fixed(goes_before: Callable[[Job, Job], bool]) -> Order:
    def order(jobs: Sequence[Job], started: int, job: Job) -> int:
        if job.kind not in PAIR:
            return by_priority(jobs, started, job)
        place = started
        while place < len(jobs) and goes_before(jobs[place], job):
            place += 1
        return place

    return order


def alternating(jobs: Sequence[Job], started: int, job: Job) -> int:
    if job.kind not in PAIR:
        return by_priority(jobs, started, job)
    place = started + 1 if started else 0
    while place < len(jobs):
        before = jobs[place - 1].kind if place else None
        if jobs[place].priority <= job.priority and {before, jobs[place].kind} != PAIR:
            break
        place += 1
    return min(place, len(jobs))


BUILT_IN: dict[str, tuple[RuleOrder, Order]] = {
    "fifo": (queue_orders.fifo(), by_priority),
    "smallest_first": (queue_orders.smallest_first(), unless_fixed(lambda waiting, job: waiting.bytes < job.bytes)),
    "less_remaining_phase_first": (
        queue_orders.less_remaining_phase_first(),
        unless_fixed(lambda waiting, job: waiting.remaining < job.remaining),
    ),
    "rg": (queue_orders.rg(), alternating),
}
KINDS = st.sampled_from(list(Collective))
JOBS = st.builds(Job, st.integers(-3, 3), KINDS, st.sampled_from([10, 20, 30]), st.integers(0, 2))
KEYS = st.sampled_from([None, lambda kind, size, remaining: size, lambda kind, size, remaining: remaining - size])
TURNS = st.one_of(st.none(), st.lists(KINDS, min_size=2, max_size=2, unique=True))
RULES = st.builds(Rule, KEYS, st.booleans(), TURNS)
ORDERS = st.builds(RuleOrder, RULES, st.dictionaries(KINDS, RULES, max_size=3))


def places(order: Order, slots: int, moves: Sequence[Job | int | tuple[int, int] | None]) -> list[int]:
    """The numbers of jobs as they start.

    A job enters, None starts the next, a key (its number, 0) that one if it waits, a number lets one of those that run go.
    """
    queue: Queue[int] = make_queue(slots, order)
    started: list[int] = []
    running: list[int] = []
    for number, move in enumerate(moves):
        if isinstance(move, Job):
            queue.enter(number, (number, 0), move)
        elif move is None or isinstance(move, tuple):
            next_one = queue.start(move)
            if next_one is not None:
                started.append(next_one)
                running.append(next_one)
        elif running:
            queue.leave(running.pop(move % len(running)))
    return started


WANTED = st.tuples(st.integers(0, 60), st.just(0))
MOVES = st.lists(st.one_of(JOBS, JOBS, st.none(), WANTED, st.integers(0, 3)), max_size=80)


@pytest.mark.parametrize("name", BUILT_IN)
@settings(max_examples=200, deadline=None)
@given(slots=st.integers(1, 3), moves=MOVES)
def test_a_built_in_order_is_that_of_astra_sim(name: str, slots: int, moves: list[Job | int | tuple[int, int] | None]) -> None:
    rules, scanned = BUILT_IN[name]
    assert places(rules, slots, moves) == places(scanned, slots, moves) == places(rules.__call__, slots, moves)


@settings(max_examples=300, deadline=None)
@given(order=ORDERS, slots=st.integers(1, 3), moves=MOVES)
def test_a_queue_of_rules_finds_the_place_that_the_rules_mean(
    order: RuleOrder, slots: int, moves: list[Job | int | tuple[int, int] | None]
) -> None:
    assert places(order, slots, moves) == places(order.__call__, slots, moves)


def run(engine: str, order: Order, jobs: Sequence[Job], slots: int = 1) -> list[PhaseStepRecord]:
    """Three collectives a while apart, each of these jobs, on an engine: when each phase step was queued, started and ended."""
    result = find_engine(engine)(1)
    result.add_queues([(slots, order)])
    tasks = [Task(1, 0), Task(1, 35), Task(1, 900), *(Task(COLLECTIVE, 0, (number,)) for number in range(3))]
    result.add_program(tasks, [0], lambda task, now: [[PhaseStep(job, 0, -1, 10 + job.bytes, (), 1)] for job in jobs])
    assert not result.run()
    return list(result.record.phase_steps(0))


@settings(max_examples=150, deadline=None)
@given(order=ORDERS, slots=st.integers(1, 3), jobs=st.lists(JOBS, min_size=1, max_size=90))
def test_rules_and_their_function_run_alike_on_both_engines(order: RuleOrder, slots: int, jobs: list[Job]) -> None:
    expected = run("python", order, jobs, slots)
    assert run("compiled", order, jobs, slots) == expected
    assert run("python", order.__call__, jobs, slots) == expected
    assert run("compiled", order.__call__, jobs, slots) == expected


# -- What orders cost ----------------------------------------------------------------------------------------------------


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A data-parallel workload of 577 layers in the text of ASTRA-sim 1.0."""
    rows = [f"layer{number} -1 5000 NONE 0 5000 NONE 0 5000 ALLREDUCE {(number % 97 + 1) * 65536} 100" for number in range(577)]
    file = tmp_path / "layers.txt"
    file.write_text("\n".join(["DATA", "577", *rows]) + "\n")
    return file


@ENGINES
@pytest.mark.parametrize("policy", ["lifo", "fifo"])
def test_time_goes_with_the_chunks(text: Path, engine: str, policy: str) -> None:
    """64 splits took more than 45 s of CPU time where orders were asked about the whole queue."""
    chosen = ["system.all_reduce=ring", "system.splits=64", f"system.scheduling_policy={policy}"]
    begin = time.process_time()
    result = astra_sim.simulate(workload=text, platform=RING, engine=engine, set=chosen)
    assert time.process_time() - begin < 20
    assert result.messages == 577 * 64 * 16 * 30


@ENGINES
def test_a_key_is_asked_once_for_each_sort_of_job(engine: str) -> None:
    asked: list[tuple[str, int, int]] = []

    def key(kind: str, size: int, remaining: int) -> int:
        asked.append((kind, size, remaining))
        return size

    jobs = [Job(number % 7, "all_gather", number % 3, 0) for number in range(300)]
    run(engine, RuleOrder(Rule(key)), jobs)
    assert sorted(asked) == [("all_gather", size, 0) for size in range(3)]


def test_a_function_pays_for_the_jobs_it_looks_at() -> None:
    """A function that looks for its place by halves: the compiled engine does not make 15 000 jobs for it each time."""

    def by_halves(jobs: Sequence[Job], started: int, job: Job) -> int:
        low, high = started, len(jobs)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if jobs[middle].priority >= job.priority else (low, middle)
        return low

    jobs = [Job(number * 7919 % 1000, "all_gather", 0, 0) for number in range(5_000)]
    begin = time.process_time()
    records = run("compiled", by_halves, jobs)
    assert time.process_time() - begin < 15
    assert records == run("compiled", RuleOrder(), jobs)


# -- Functions -------------------------------------------------------------------------------------------------------------


@ENGINES
def test_a_function_is_shown_a_sequence_of_jobs(engine: str) -> None:
    seen: list[Sequence[Job]] = []

    def first_come(jobs: Sequence[Job], started: int, job: Job) -> int:
        if len(jobs) == 70 and not seen:
            seen.append(jobs[started:72:30])
            assert jobs[-1] == jobs[69] == list(jobs)[69] == Job(69, "all_gather", 10, 0)
            assert job not in jobs
            with pytest.raises(IndexError):
                jobs[70]
        return len(jobs)

    run(engine, first_come, [Job(number, "all_gather", 10, 0) for number in range(71)])
    assert [job.priority for job in seen[0]] == [1, 31, 61]


def test_the_jobs_are_gone_when_the_order_has_answered() -> None:
    result: list[Sequence[Job]] = []

    def curious(jobs: Sequence[Job], started: int, job: Job) -> int:
        result.append(jobs)
        return len(result[0]) if len(result) > 1 else 0

    with pytest.raises(PluginError, match="while its order is asked, not later"):
        run("compiled", curious, [Job(0, "all_gather", 10, 0), Job(1, "all_gather", 10, 0)])


# -- Plugins -----------------------------------------------------------------------------------------------------------------


def offering(order: Callable[[], Order]) -> Plugins:
    """The installed plugins, and a scheduler `mine`."""

    class Mine:
        @staticmethod
        @hookimpl
        def astra_schedulers() -> list[SchedulerProvider]:
            return [SchedulerProvider("mine", "An order of the tests", order, orders="queue")]

    plugins = Plugins()
    plugins.register(Mine(), "mine")
    return plugins


def with_order(engine: str, order: Callable[[], Order]) -> dict[str, Any]:
    chosen = ["system.splits=9", "system.intra_dimension_scheduling=mine"]
    platform = "plugin:torus?sizes=4,4,4&link_bandwidth_gib_per_s=50&link_latency_ns=500"
    workload = ROOT / "examples" / "workloads" / "vgg16.toml"
    result = astra_sim.simulate(workload=workload, platform=platform, engine=engine, set=chosen, plugins=offering(order))
    return {**result.to_dict(), "wall_s": 0}


@ENGINES
def test_a_plugin_may_order_by_rules_or_by_a_function(engine: str) -> None:
    largest = Rule(lambda kind, size, remaining: -size)

    def scanned(jobs: Sequence[Job], started: int, job: Job) -> int:
        return next((place for place in range(started, len(jobs)) if jobs[place].bytes < job.bytes), len(jobs))

    assert with_order(engine, lambda: RuleOrder(largest)) == with_order(engine, lambda: scanned)


def test_the_order_of_the_plugin_page_works() -> None:
    page = (ROOT / "docs" / "plugins.md").read_text()
    (code,) = [block for block in re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL) if "RuleOrder" in block]
    names: dict[str, Any] = {}
    exec(code, names)
    (provider,) = names["astra_schedulers"]()
    assert (provider.name, provider.orders) == ("largest_first", "queue")
    order = names["largest_first"]()
    jobs = [Job(0, "all_gather", size, 0) for size in (10, 30, 20, 30)]
    assert places(order, 1, [*jobs, None, 0, None, 0, None, 0, None]) == [1, 3, 2, 0]


@ENGINES
@pytest.mark.parametrize(
    ("key", "words"),
    [
        (
            lambda kind, size, remaining: size / 2,
            "the key of a queue's order .*of test_queue_orders. is .* for .* bytes; expected a whole number of 64 bits",
        ),
        (lambda kind, size, remaining: 2**63, "expected a whole number of 64 bits"),
        (lambda kind, size, remaining: size > 3, "is True for"),
        (lambda kind, size, remaining: 1 // 0, "the key of a queue's order .*of test_queue_orders. failed: ZeroDivisionError"),
    ],
    ids=["a fraction", "too large", "a truth", "raises"],
)
def test_a_key_that_is_none_is_an_error(engine: str, key: Any, words: str) -> None:
    with pytest.raises(PluginError, match=words):
        with_order(engine, lambda: RuleOrder(Rule(key)))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: RuleOrder(by_kind={"all-gather": Rule()}), "'all-gather' is not a valid Collective"),
        (lambda: RuleOrder(Rule(in_turn=("all_gather", "gather"))), "'gather' is not a valid Collective"),
        (lambda: RuleOrder(Rule(in_turn=("all_gather", "all_gather"))), "expected two different ones"),
        (lambda: RuleOrder(Rule(in_turn=("all_gather",))), "expected two different ones"),
    ],
)
def test_rules_that_cannot_be_name_what_is_wrong(make: Callable[[], Order], words: str) -> None:
    with pytest.raises(PluginError, match=words):
        with_order("python", make)
