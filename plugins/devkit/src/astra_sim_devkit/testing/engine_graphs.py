"""Random programs, schedules, queues and networks on which engines are compared: all that can be seen of a run comes back.

`python -m astra_sim_devkit.testing.engine_graphs FIRST COUNT` compares the compiled engine with the readable one on the graphs of these
seeds.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Sequence
from random import Random
from typing import Any

from astra_sim import AstraError
from astra_sim.engines import (
    ACCESS,
    COLLECTIVE,
    COMPUTE,
    JOIN,
    RECEIVE,
    SEND,
    TIMER,
    BusOptions,
    Engine,
    EngineType,
    Job,
    Order,
    PathEdge,
    PhaseStep,
    ReferenceEngine,
    Rule,
    RuleOrder,
    Task,
    UnlikeCollectivesError,
)
from astra_sim.network import EventNetwork, Message, RouteDelayNetwork
from astra_sim.platform import Dimension, LogicalDimension, Platform
from astra_sim.rows import Dependencies, Rows, column
from astra_sim.schedule import (
    Collective,
    Peer,
    RankProgram,
    Request,
    Schedule,
    exchange,
    lower,
    rank,
    receive,
    send,
    shift,
    xor,
)


class Replayed(EventNetwork):
    """An event network that delivers messages just when a network without contention would."""

    def __init__(self, inner: RouteDelayNetwork) -> None:
        super().__init__(inner.platform)
        self._inner = inner
        self._heap: list[tuple[int, int]] = []

    def inject(self, time: int, messages: Sequence[Message]) -> None:
        """Take messages."""
        for message in messages:
            delay = self._inner.message_delay(message.source, message.destination, message.bytes)
            heapq.heappush(self._heap, (time + delay, message.number))

    def advance(self, until: int | None) -> tuple[int, list[int]] | None:
        """The next delivery."""
        if not self._heap or (until is not None and self._heap[0][0] > until):
            return None
        time = self._heap[0][0]
        numbers = []
        while self._heap and self._heap[0][0] == time:
            numbers.append(heapq.heappop(self._heap)[1])
        return time, numbers


class OneWire(EventNetwork):
    """All messages share one wire: each takes size picoseconds, one after another."""

    def __init__(self, platform: Platform) -> None:
        super().__init__(platform)
        self._free_at = 0
        self._under_way: list[tuple[int, int]] = []

    def inject(self, time: int, messages: Sequence[Message]) -> None:
        """Take messages."""
        for message in messages:
            self._free_at = max(self._free_at, time) + message.bytes
            self._under_way.append((self._free_at, message.number))

    def advance(self, until: int | None) -> tuple[int, list[int]] | None:
        """The next delivery."""
        if not self._under_way or (until is not None and self._under_way[0][0] > until):
            return None
        time, number = self._under_way.pop(0)
        return time, [number]


class Uneven:
    """A topology whose hops depend on the source of a message."""

    name = "uneven"

    def __init__(self, size: int, even: bool) -> None:
        self._size = size
        self._even = even

    def hops(self, source: int, destination: int) -> int:
        """Hops from one position to another."""
        distance = (destination - source) % self._size
        return distance if self._even else distance + source % 2

    def is_symmetric(self, peer: Peer) -> bool:
        """Whether the route to a peer is the same from every position."""
        return self._even and peer.operator == "shift"

    def links_per_message(self) -> int:
        """One."""
        return 1

    def links_per_npu(self) -> int:
        """One."""
        return 1


class Coarse(RouteDelayNetwork):
    """Delays of few different values, so that much happens at the same time."""

    def __init__(self, platform: Platform, step: int) -> None:
        super().__init__(platform)
        self._step = step

    def route_delay(self, dimension: int, hops: int, size: int) -> int:
        """Picoseconds of a message."""
        return self._step * (hops + size // 50 + 3 * dimension)


def first_come(jobs: Sequence[Job], started: int, job: Job) -> int:
    """The place behind all others."""
    return len(jobs)


def last_come(jobs: Sequence[Job], started: int, job: Job) -> int:
    """The place before all that have not started."""
    return started


def by_priority(jobs: Sequence[Job], started: int, job: Job) -> int:
    """The place before the first job of lower priority."""
    return next((i for i in range(started, len(jobs)) if jobs[i].priority < job.priority), len(jobs))


def smallest_first(jobs: Sequence[Job], started: int, job: Job) -> int:
    """The place before the first larger job."""
    return next((i for i in range(started, len(jobs)) if jobs[i].bytes > job.bytes), len(jobs))


RULES = [
    RuleOrder(),
    RuleOrder(Rule(lambda kind, size, remaining: size, before_equal=True)),
    RuleOrder(by_kind={"all_gather": Rule(lambda kind, size, remaining: -remaining)}),
    RuleOrder(by_kind={"all_gather": Rule(before_equal=True, in_turn=("all_reduce", "all_gather"))}),
]


def in_columns(tasks: Sequence[Task], random: Random) -> Rows[Task]:
    """Tasks of which those that are alike are of one kind; some programs have priorities."""
    likes = [task._replace(after=(), delay=1) if task.kind == TIMER else task._replace(after=()) for task in tasks]
    times = [task.delay if task.kind == TIMER else -1 for task in tasks]
    kinds = list(dict.fromkeys(likes))
    after = Dependencies.of([task.after for task in tasks])

    def make(kind: Task, row: int, after: tuple[int, ...]) -> Task:
        return kind._replace(after=after, delay=kind.delay if times[row] < 0 else times[row])

    priorities = None if random.random() < 0.4 else column((random.randrange(2 * len(tasks)) for _ in tasks), "I")
    return Rows(kinds, column(map(kinds.index, likes), "I"), after, make, column(times, "q"), priorities=priorities)


class RandomProcessors:
    """Whether messages take time of processors, and whether an engine asks for compute times; drawn from random numbers of their own."""

    def __init__(self, seed: int) -> None:
        self._random = random = Random(f"overheads {seed}")
        self.has_overheads = random.random() < 0.35
        self._overheads = [(random.choice([0, 0, 5, 10, 100]), random.choice([0, 0, 1])) for _ in range(2)]
        self.is_shared = random.random() < 0.7
        self._asks_compute = random.random() < 0.3

    def changed(self, task: Task) -> Task:
        """A task of a program: most timers compute, if that makes a difference."""
        computes = (self.has_overheads or self._asks_compute) and task.kind == TIMER and self._random.random() < 0.8
        return task._replace(kind=COMPUTE) if computes else task

    def set_up(self, engine: Engine) -> None:
        """Tell an engine."""
        if self.has_overheads:
            engine.set_overheads(self._overhead_ps, self.is_shared)
        if self._asks_compute:
            engine.set_compute_times(lambda npu, task, begin: 7 * npu + task + begin % 50)

    def _overhead_ps(self, size: int, receives: bool) -> int:
        fixed, per_byte = self._overheads[receives]
        return fixed + per_byte * size


class RandomGraph:
    """A random graph: `run` puts it into an engine."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random = Random(seed)
        sizes = random.choice([(2,), (3,), (4,), (8,), (2, 2), (2, 3), (4, 2), (2, 2, 2)])
        strides = [1]
        for size in sizes:
            strides.append(strides[-1] * size)
        self.npus = strides[-1]
        self.dimensions = [LogicalDimension(size, strides[i], i) for i, size in enumerate(sizes)]
        if len(sizes) > 1 and random.random() < 0.3:
            self.dimensions.append(LogicalDimension(self.npus, 1, None))
        even = random.random() < 0.5
        self.platform = Platform(tuple(Dimension(Uneven(size, even), size, 1, 1.0, 1.0) for size in sizes))
        self.step = random.choice([0, 1, 10, 10, 1000])
        self.network_kind = random.choice(["delays", "delays", "delays", "replayed", "one wire"])
        self.options: dict[str, Any] = {"endpoint_ps": random.choice([0, 0, 5, 10, 1000]), "rendezvous": random.random() < 0.25}
        factor = random.choice([0, 1, 3])
        self.options["memory_ps"] = lambda size: size * factor
        if random.random() < 0.15:
            rates = random.choice([0.0, 0.004, 0.5])
            self.options["bus"] = BusOptions(random.randrange(3), random.randrange(3), random.randrange(4), rates, random.randrange(2))
        self.together = random.random() < 0.7
        self.shares = random.random() < 0.3  # programs share collectives
        self.repeating = random.random() < 0.4  # some collectives are alike
        self.columns = random.random() < 0.5  # programs are given in columns
        orders: list[Order] = [first_come, first_come, last_come, by_priority, smallest_first, *RULES]
        self.queues = [(random.choice([1, 1, 2, 3]), random.choice(orders)) for _ in range(random.randrange(4))]
        self.ports = [random.randrange(-1, self.npus) % 3 - 1 for _ in range(self.npus)]
        self.programs = self._programs()
        self.schedules = [(self._schedule(dimension), dimension) for dimension in random.choices(self.dimensions, k=random.randrange(1, 4))]
        self.endpoints = [random.choice([None, None, 0, 7]) for _ in self.schedules]
        self.plans = [[self._plan() for _ in tasks] for tasks, _ in self.programs]

        self.processors = RandomProcessors(seed)
        for tasks, _ in self.programs:
            tasks[:] = map(self.processors.changed, tasks)

    def _programs(self) -> list[tuple[list[Task], list[int]]]:
        """One or two random programs with the NPUs that run each; if it is two, NPUs take turns."""
        random = self.random
        units = random.choice([[-1], [-1], [-1, 0, 1], [0], [0, 7]])
        letters = random.random() < 0.4
        peers = [shift(1), shift(-1)] + ([xor(1)] if self.npus % 2 == 0 else [])
        count = random.choice([1, 1, 1, 2]) if not self.together or self.shares else 1
        programs = []
        for number in range(count):
            tasks: list[Task] = []
            for index in range(random.randrange(1, 9)):
                kind = random.choice([JOIN, TIMER, ACCESS, COLLECTIVE, COLLECTIVE])
                after = random.sample(range(len(tasks)), k=min(index, random.choice([0, 1, 1, 2])))
                unit = random.choice(units)
                tasks.append(self._task(kind, tuple(after), unit))
                if letters and random.random() < 0.5:
                    # A message and its receive, in either order and not always in units that let both go on.
                    peer, size, tag = random.choice(peers), random.choice([0, 50, 100]), random.randrange(2)
                    both = [(SEND, peer), (RECEIVE, peer.inverse())]
                    random.shuffle(both)
                    for one, other in both[: random.choice([2, 2, 2, 2, 1])]:
                        after = random.sample(range(len(tasks)), k=random.choice([0, 1]))
                        tasks.append(Task(one, 0, tuple(after), random.choice([-1, unit]), other, size, tag))
            programs.append((tasks, list(range(self.npus))[number::count]))
        return programs

    def _task(self, kind: int, after: tuple[int, ...], unit: int) -> Task:
        random = self.random
        task = Task(kind, random.choice([0, 0, 10, 20, 1000]), after, unit)
        if kind != COLLECTIVE:
            return task
        number = random.randrange(2) if self.repeating and random.random() < 0.7 else -1
        group = random.choice([0, 0, 0, 1]) if self.shares else -1
        return task._replace(group=group, collective=number, repeats=number == 1)

    def _schedule(self, dimension: LogicalDimension) -> Schedule:
        """A random schedule: steps that all ranks share, or messages between any two of them."""
        random, ranks = self.random, dimension.size
        request = Request(Collective.ALL_TO_ALL, ranks, 100)
        size = random.choice([0, 10, 60, 100])
        if random.random() < 0.6:
            steps = []
            for _ in range(random.randrange(1, 5)):
                peers = [shift(distance) for distance in range(1, ranks)] + [shift(-1)]
                if ranks & (ranks - 1) == 0:
                    peers += [xor(mask) for mask in range(1, ranks)]
                late = random.choice([None, None, None, None, 0, 1, 2])
                waiting = random.choice([0, 0, 0, 0, 1])
                steps.append(
                    exchange(
                        random.choice(peers),
                        size,
                        times=random.choice([1, 1, 2, 5]),
                        after=late,
                        after_arrivals=waiting,
                        reduce=random.random() < 0.4,
                    )
                )
            starts = random.choice([1, 1, 2, 4])
            return Schedule.shared(request, steps, starts=starts, cycle=random.choice([None, (starts, random.randrange(1, 4))]))
        # Messages between any two ranks, in one order that all keep, so that most schedules can finish.
        steps_of: list[list[Any]] = [[] for _ in range(ranks)]
        for _ in range(random.randrange(1, 3 * ranks)):
            source, destination = random.sample(range(ranks), 2)
            sent, received = (random.choice([0, 0, 1, None]) for _ in range(2))
            steps_of[source].append(send(rank(destination), size, after=sent))
            reduced, returned = random.random() < 0.3, random.random() < 0.2
            computing = random.choice([0, 0, 0, 7])
            steps_of[destination].append(
                receive(rank(source), size, after=received, reduce=reduced, returned=returned, compute_ps=computing)
            )
        starts = random.choice([0, 1, 1, 2])
        programs = [RankProgram(tuple(steps), starts) for steps in steps_of]
        if any(not steps for steps in steps_of):  # a program needs a step for the size of its tokens
            return Schedule.shared(request, [exchange(shift(1), size)])
        return Schedule.per_rank(request, programs)

    def _plan(self) -> list[list[tuple[Job, int, int, int, tuple[int, ...], int]]]:
        """The chunks of a collective, each with the phases that it passes through."""
        random = self.random
        chunks = []
        for _ in range(random.choice([0, 1, 2, 2, 5])):
            parts = []
            for place in range(random.randrange(1, 4)):
                job = Job(random.randrange(3), random.choice(["all_reduce", "all_gather"]), random.choice([10, 20]), 3 - place)
                queue = random.randrange(-1, len(self.queues))
                together = len(self.programs) == 1 or self.shares
                schedule = random.randrange(len(self.schedules)) if together and random.random() < 0.7 else -1
                delay = random.choice([0, 10, 10, 20, 500])
                causal_key = tuple(sorted(random.choices(range(delay + 1), k=random.randrange(9)))) if random.random() < 0.5 else ()
                parts.append((job, queue, schedule, delay, causal_key, random.choice([0, 0, -1, 1])))
            chunks.append(parts)
        return chunks

    def network(self) -> RouteDelayNetwork | EventNetwork:
        """The network, made anew."""
        delays = Coarse(self.platform, self.step)
        if self.network_kind == "replayed":
            return Replayed(delays)
        return OneWire(self.platform) if self.network_kind == "one wire" else delays

    def run(self, engine_type: EngineType) -> list[Any]:
        """Everything that can be seen of a run on an engine."""
        engines: list[Engine] = []
        try:
            return self._run(engine_type, engines)
        except (AstraError, UnlikeCollectivesError) as error:
            return [type(error).__name__, str(error), *((engine.now, engine.messages) for engine in engines)]

    def _run(self, engine_type: EngineType, created: list[Engine]) -> list[Any]:
        """All results of an engine for the graph. It is in `made` as soon as it exists, so that one that fails can still be asked."""
        engine = engine_type(self.npus, self.network(), **self.options)
        created.append(engine)
        if self.seed % 2:
            engine.record.keep_causes()
        engine.add_queues(self.queues)
        engine.add_ports(self.ports)
        self.processors.set_up(engine)
        groups = {
            dimension: engine.add_groups(dimension.groups(self.npus), dimension if dimension.physical is not None else None)
            for dimension in self.dimensions
        }
        schedules = [engine.add_schedule(lower(schedule), groups[dimension]) for schedule, dimension in self.schedules]
        phases: dict[tuple[int, int], int] = {}
        issued: list[Any] = []

        def issuer(program: int) -> Any:
            def issue(task: int, now: int) -> list[list[PhaseStep]]:
                issued.append((program, task, now))
                chunks = []
                for parts in self.plans[program][task]:
                    chunk = []
                    for job, queue, schedule, delay, causal_key, age in parts:
                        if schedule < 0:
                            chunk.append(PhaseStep(job, queue, -1, delay, causal_key, age))
                        else:
                            if (schedule, queue) not in phases or not self.repeating:
                                phase = engine.add_phase(schedules[schedule], queue, self.together, self.endpoints[schedule])
                                phases[schedule, queue] = phase
                            chunk.append(PhaseStep(job, queue, phases[schedule, queue], age=age))
                    chunks.append(chunk)
                return chunks

            return issue

        random = Random(self.seed)
        for number, (tasks, npus) in enumerate(self.programs):
            agreement = number if self.seed % 3 == 0 else -1
            engine.add_program(in_columns(tasks, random) if self.columns else tasks, npus, issuer(number), agreement)
        while engine.run(50):
            pass
        states = [
            tuple(state._replace(program=None, posted=tuple(state.posted), members=tuple(state.members)))  # type: ignore[arg-type]
            for state in engine.record.blocked_ranks()
        ]
        return [
            engine.now,
            engine.events,
            engine.messages,
            issued,
            [list(times) for times in engine.record.times(0)],
            engine.record.ended_at(),
            list(engine.record.phase_steps(0)),
            engine.record.uses(),
            [engine.record.causal_key(phase) for phase in phases.values()],
            engine.record.unfinished(),
            states,
            _checked(engine.record.critical_path(), engine.now),
        ]


def _checked(path: Sequence[PathEdge], end: int) -> Sequence[PathEdge]:
    """A critical path, whose links follow each other to the end of a run."""
    ends = [0, *(link.end for link in path)]
    assert [link.begin for link in path] == ends[:-1]
    assert not path or ends[-1] == end
    return path


def differing(engine: EngineType, first: int, count: int) -> list[int]:
    """The seeds of graphs on which an engine differs from the readable one."""
    return [seed for seed in range(first, first + count) if RandomGraph(seed).run(ReferenceEngine) != RandomGraph(seed).run(engine)]


if __name__ == "__main__":
    from astra_sim.engines import find_engine

    bad = differing(find_engine(), int(sys.argv[1]), int(sys.argv[2]))
    print(f"{sys.argv[2]} graphs, {len(bad)} differ: {bad[:20]}")
    sys.exit(bool(bad))
