"""Components that break the contract of their kind in ways that a run may not show. `astra plugins check` must find each of them.

`BROKEN` has, for each kind, a name, the component, and words of what the check says.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import attrs
import click
from astra_sim import CollectiveProvider, FileFormat, Provider, SchedulerProvider
from astra_sim.compute import Compute, MissingWork, Work
from astra_sim.engine import columns
from astra_sim.engine.orders import Job
from astra_sim.engine.reference import ReferenceEngine
from astra_sim.fabric import Wire
from astra_sim.fabric.links import UniformLinks
from astra_sim.graph import Communicate, ExecutionGraph, Pass
from astra_sim.graph import Compute as ComputeOperation
from astra_sim.layers import LayeredProgram
from astra_sim.memory import Memory
from astra_sim.models import ModelDescription
from astra_sim.network import EventNetwork, LinkLoad, Message, RouteDelayNetwork
from astra_sim.platform import Dimension, GroupShape, LogicalDimension, Platform
from astra_sim.schedule import Collective, Peer, RankProgram, Request, Schedule, exchange, rank, receive, send, shift
from astra_sim.serving import Policy, ServingState
from astra_sim.system import ChunkPlan, DimensionOrder, QueueAssignment, System, SystemSession
from astra_sim_devkit.testing import bench

HANG_S = 3600.0


class Broken(NamedTuple):
    """A component that breaks its contract, and words of what the check says of it."""

    component: Any
    words: str
    timeout_s: float = 120.0


def calls() -> Iterator[int]:
    """How often something was asked before."""
    return iter(range(10**9))


def provider(factory: Any, **fields: Any) -> Provider:
    return Provider("mine", "A component of the tests", factory, **fields)


def hangs(*_: Any) -> Any:
    time.sleep(HANG_S)


# -- Networks ----------------------------------------------------------------------------------------------------------


class Simple(bench.BenchNetwork):
    """The network of the bench, with some methods replaced."""

    def __init__(self, platform: Platform, **answers: Callable[..., Any]) -> None:
        super().__init__(platform)
        for name, answer in answers.items():
            setattr(self, name, answer)


def simple(**answers: Callable[..., Any]) -> Provider:
    return provider(lambda platform: Simple(platform, **answers))


def changes_the_platform(platform: Platform) -> RouteDelayNetwork:
    object.__setattr__(platform.dimensions[0], "link_bandwidth", 1e9)
    return Simple(platform)


class ChangesLater(bench.BenchNetwork):
    """Makes links shorter while it is asked."""

    def route_delay(self, dimension: int, hops: int, size: int) -> int:
        object.__setattr__(self.platform.dimensions[dimension], "link_latency_ns", 0.0)
        return super().route_delay(dimension, hops, size)


class Warms(bench.BenchNetwork):
    """Is slower for all that is not larger than what it has moved before."""

    largest = 0

    def route_delay(self, dimension: int, hops: int, size: int) -> int:
        self.largest = max(self.largest, size)
        return 1000 * hops + self.largest


class Post(EventNetwork):
    """Delivers each message 1 ns after it was sent, in order of time."""

    due: list[tuple[int, int]]

    def begin(self) -> int:
        self.due = []
        return 0

    def inject(self, time: int, messages: Sequence[Message]) -> None:
        self.due += [(self.arrival(time, message), message.number) for message in messages]

    def arrival(self, time: int, message: Message) -> int:
        return time + 1000

    def advance(self, until: int | None) -> tuple[int, list[int]] | None:
        if not self.due or (until is not None and self.due[0][0] > until):
            return None
        time, number = self.due.pop(0)
        return self.answer(time, number)

    def answer(self, time: int, number: int) -> tuple[int, list[int]]:
        return time, [number]


class Hangs(Post):
    """Never comes back."""

    def advance(self, until: int | None) -> tuple[int, list[int]] | None:
        hangs()
        return None


class Leaves(Post):
    """Ends the process."""

    def begin(self) -> int:
        os._exit(3)


class Crashes(Post):
    """Is killed, as by a wrong pointer."""

    def begin(self) -> int:
        os.kill(os.getpid(), signal.SIGSEGV)
        return 0


class LosesLarge(Post):
    """Loses the messages of an NPU that are large."""

    def inject(self, time: int, messages: Sequence[Message]) -> None:
        super().inject(time, [message for message in messages if message.bytes < 4096 or message.source != 7])


class FewAtOnce(Post):
    """Is faster where it has more to do."""

    def inject(self, time: int, messages: Sequence[Message]) -> None:
        self.due += [(time + 10**7 - max(message.bytes for message in messages), message.number) for message in messages]


class BusyLinks(Post):
    """Has a link of which it does not know how busy it was."""

    def links(self) -> Sequence[LinkLoad]:
        return [LinkLoad(0, "NPU 0", "NPU 1", 4096, float("nan"))]


def prices(answer: Callable[[Collective, int, GroupShape], Any]) -> Provider:
    return simple(collective_ps=answer)


PRICES = calls()

NETWORKS = {
    "prices by chance": Broken(prices(lambda collective, size, shape: 10**6 + size + next(PRICES)), "when asked for again"),
    "prices that shrink": Broken(prices(lambda collective, size, shape: 10**9 - size), "no less for more"),
    "figures that are NaN": Broken(simple(statistics=lambda: {"utilisation": float("nan")}), "expected finite figures"),
    "figures that are infinite, deep": Broken(simple(statistics=lambda: {"links": [{"load": float("inf")}]}), "expected finite figures"),
    "figures that are objects": Broken(simple(statistics=lambda: {"network": object()}), "expected finite figures"),
    "a changed platform": Broken(provider(changes_the_platform), "has changed the platform"),
    "a platform that changes": Broken(provider(ChangesLater), "has changed the platform"),
    "delays by what was before": Broken(provider(Warms), "when asked for again"),
    "no end": Broken(provider(Hangs), "network mine has not ended after 1 s", 1.0),
    "no end when it is made": Broken(provider(hangs), "network mine has not ended after 1 s", 1.0),
    "ends the process": Broken(provider(Leaves), "ended its process: exit status 3"),
    "crashes": Broken(provider(Crashes), "ended its process: signal SIGSEGV"),
    "loses large messages": Broken(provider(LosesLarge), "lost"),
    "faster with more": Broken(provider(FewAtOnce), "no less for more"),
    "a link that is busy for NaN": Broken(provider(BusyLinks), "utilisation=nan"),
    "not a network": Broken(provider(lambda platform: platform), "which is not a network"),
}


# -- Collectives -------------------------------------------------------------------------------------------------------


def pairwise(request: Request, size: int | None = None, starts: int = 1, lift: int = 0, **fields: Any) -> Schedule:
    """An all-reduce by pairwise exchange."""
    if request.collective is not Collective.ALL_REDUCE:
        raise request.unsupported("mine", "it is for all-reduce")
    n = request.ranks
    block = request.bytes // n if size is None else size
    steps = [exchange(shift(k), block, reduce=True, pieces=[(k + lift) % n]) for k in range(1, n)]
    return Schedule.shared(request, [*steps, *(exchange(shift(k), block, pieces=[0]) for k in range(1, n))], starts=starts, **fields)


def collective(factory: Callable[[Request], Any], **fields: Any) -> CollectiveProvider:
    return CollectiveProvider("mine", "A component of the tests", factory, **fields)


def where(wrong: Callable[[Request], bool], **fields: Any) -> CollectiveProvider:
    """An algorithm that is wrong for some requests."""
    return collective(lambda request: pairwise(request, **(fields if wrong(request) else {})))


def doubled(wrong: Callable[[Request], bool]) -> CollectiveProvider:
    """An algorithm that sends twice the bytes for some requests."""
    return collective(lambda request: pairwise(request, 2 * (request.bytes // request.ranks) if wrong(request) else None))


ASKED, TURNS = calls(), calls()


def either_way(request: Request, back: bool) -> Schedule:
    """Sends to the ranks in this order or that."""
    schedule = pairwise(request)
    steps = schedule.programs[0].steps
    half = len(steps) // 2
    return Schedule.shared(request, [*steps[:half][:: -1 if back else 1], *steps[half:]])


STEPS: dict[int, Any] = {}


def with_shared_steps(request: Request) -> Schedule:
    """Keeps its steps, and changes their bytes for the next schedule."""
    result = pairwise(request)
    steps = STEPS.setdefault(request.ranks, result.programs[0].steps)
    for step, other in zip(steps, result.programs[0].steps, strict=True):
        step.bytes, step.memory_bytes = other.bytes, other.memory_bytes
    return Schedule.shared(request, steps)


SEEN: list[int] = []


def by_what_was_before(request: Request) -> Schedule:
    """Has another order once it has served many ranks."""
    SEEN.append(request.ranks)
    return either_way(request, max(SEEN) > 8)


def unnamed(share: Any = None) -> CollectiveProvider:
    """One byte for all."""
    names = "unnamed" if share is None else ("unnamed", share)

    def make(request: Request) -> Schedule:
        return Schedule.shared(request, [exchange(shift(k), 1, pieces=[names]) for k in range(1, request.ranks)])

    return collective(make)


def unmatched(request: Request) -> Schedule:
    """On many ranks rank 0 posts a receive without a message."""
    if request.collective is not Collective.ALL_GATHER:
        raise request.unsupported("mine", "it is for all-gather")
    n = request.ranks
    programs = []
    for own in range(n):
        steps = [send(rank((own + k) % n), request.bytes, after=0, pieces=[own]) for k in range(1, n)]
        steps += [receive(rank((own - k) % n), request.bytes, after=0) for k in range(1, n)]
        programs.append(RankProgram(tuple(steps + ([receive(rank(1), 8, after=0)] if n > 13 and not own else [])), starts=0))
    return Schedule.per_rank(request, programs)


def no_bytes_for_one(request: Request) -> Schedule:
    return pairwise(request, request.bytes // request.ranks // (1 if request.bytes > 1 else 0))


COLLECTIVES = {
    "by turns": Broken(collective(lambda request: either_way(request, bool(next(TURNS) % 2))), "in another order"),
    "pure, and by chance": Broken(collective(lambda request: either_way(request, next(ASKED) % 3 > 1), pure=True), "another schedule"),
    "by what was asked before": Broken(collective(by_what_was_before), "another schedule"),
    "shared steps": Broken(collective(with_shared_steps), "has changed since"),
    "one byte for all": Broken(unnamed(), "expected at least"),
    "a share of nothing": Broken(unnamed(0), "a share above 0"),
    "a share of two": Broken(unnamed(2.0), "at most 1"),
    "wrong on 6 ranks": Broken(where(lambda request: request.ranks == 6, lift=1), "all_reduce on 6 ranks"),
    "wrong on 7 ranks": Broken(doubled(lambda request: request.ranks == 7), "all_reduce on 7 ranks"),
    "wrong on 13 ranks": Broken(where(lambda request: request.ranks == 13, starts=0), "all_reduce on 13 ranks"),
    "wrong bytes where there are many": Broken(doubled(lambda request: request.bytes > 1 << 20), "in a message of"),
    "wrong in groups": Broken(doubled(lambda request: request.in_group), "in a message of"),
    "wrong one way round": Broken(where(lambda request: request.direction < 0, lift=1), "contribution"),
    "wrong the second time": Broken(where(lambda request: request.instance == 1, lift=1), "contribution"),
    "fails for one byte": Broken(collective(no_bytes_for_one), "ZeroDivisionError"),
    "other bytes at the end": Broken(where(lambda request: True, output_bytes=1), "output_bytes is 1"),
    "a receive that nobody meets": Broken(collective(unmatched), "all_gather on 14 ranks"),
    "waits for itself": Broken(where(lambda request: True, starts=0), "stops at step 1"),
    "no schedule": Broken(collective(lambda request: None), "which is not a Schedule"),
    "refuses everything": Broken(
        collective(lambda request: pairwise(attrs.evolve(request, collective=Collective.ALL_TO_ALL))), "no collective"
    ),
    "no end": Broken(collective(hangs), "collective mine has not ended after 1 s", 1.0),
}


# -- Platforms ---------------------------------------------------------------------------------------------------------


@attrs.frozen
class Around:
    """Six NPUs in a ring, with wrong results of some methods."""

    answers: dict[str, Callable[..., Any]] = attrs.field(factory=dict, eq=False)
    name: str = "around"

    def __getattribute__(self, name: str) -> Any:
        answers = object.__getattribute__(self, "answers")
        return answers[name] if name in answers else object.__getattribute__(self, name)

    def hops(self, source: int, destination: int) -> int:
        return min((destination - source) % 6, (source - destination) % 6)

    def is_symmetric(self, peer: Peer) -> bool:
        return peer.operator == "shift"

    def wires(self) -> list[Any]:
        return [Wire(npu, (npu + way) % 6) for npu in range(6) for way in (1, -1)]

    def links_per_message(self) -> int:
        return 1

    def links_per_npu(self) -> int:
        return 2


def around(bandwidth: Any = 25.0, latency: float = 10.0, **answers: Callable[..., Any]) -> Provider:
    return provider(lambda: [Dimension(Around(answers), 6, 2, bandwidth, latency)])


def wires(change: Callable[[list[Any]], list[Any]]) -> Provider:
    return around(wires=lambda: change(Around().wires()))


ANSWERS = {name: calls() for name in ("wires", "symmetric", "bandwidth", "hops")}

PLATFORMS = {
    "wires that do not reach all": Broken(wires(lambda given: [each for each in given if 3 not in each[:2]]), "does not reach NPU 3"),
    "wires one way": Broken(wires(lambda given: given[::2]), "and by its wires() it is"),
    "wires of another graph": Broken(wires(lambda given: [*given, Wire(0, 3), Wire(3, 0)]), "and by its wires() it is 1 links"),
    "a wire without width": Broken(wires(lambda given: [*given, Wire(0, 1, 0.0)]), "0.0 times the width"),
    "a wire of NaN": Broken(wires(lambda given: [*given, Wire(0, 1, float("nan"))]), "expected finite numbers"),
    "a wire of negative length": Broken(wires(lambda given: [*given, Wire(0, 1, 1.0, -1.0)]), "-1.0 times the length"),
    "a wire to itself": Broken(wires(lambda given: [*given, Wire(2, 2)]), "from a node to itself"),
    "a wire to nowhere": Broken(wires(lambda given: [*given, Wire(2, -1)]), "the end -1"),
    "a wire of cost 0": Broken(wires(lambda given: [*given, Wire(2, 4, cost=0)]), "of cost 0"),
    "a wire that is none": Broken(wires(lambda given: [*given, 3]), "wires() gives 3"),
    "wires that change": Broken(
        wires(lambda given: [*given, Wire(0, 1, 1.0 + next(ANSWERS["wires"]))]), "other links when it is asked again"
    ),
    "more links than wires": Broken(around(links_per_npu=lambda: 1000), "links_per_npu() is 1000"),
    "links of an NPU without end": Broken(around(links_per_npu=lambda: float("inf")), "links_per_npu is inf"),
    "symmetric by turns": Broken(around(is_symmetric=lambda peer: next(ANSWERS["symmetric"]) % 2 == 0), "when asked again"),
    "symmetric is a number": Broken(around(is_symmetric=lambda peer: 1), "expected True or False"),
    "bandwidth of NaN": Broken(around(bandwidth=float("nan")), "link_bandwidth is nan"),
    "infinite bandwidth": Broken(around(bandwidth=float("inf")), "link_bandwidth is inf"),
    "another one each time": Broken(
        provider(lambda: [Dimension(Around(), 6, 2, 25.0 + next(ANSWERS["bandwidth"]), 10.0)]), "link_bandwidth is 25.0, and made anew"
    ),
    "hops of no graph": Broken(around(hops=lambda source, destination: 1), "and by its wires() it is"),
    "a ring that says it is a switch": Broken(around(uniform_links=lambda: UniformLinks("switch", 6)), "wires() lists other links"),
    "no end": Broken(around(hops=hangs), "platform mine has not ended after 1 s", 1.0),
}


# -- Schedulers --------------------------------------------------------------------------------------------------------


def scheduler(factory: Any, orders: str) -> SchedulerProvider:
    return SchedulerProvider("mine", "A component of the tests", factory, orders=orders)


def by_how_many_before() -> Callable[[Sequence[Job], int, Job], int]:
    before = calls()

    def place(jobs: Sequence[Job], started: int, job: Job) -> int:
        return len(jobs) if next(before) >= 600 else started

    return place


class InTurn(DimensionOrder):
    """One chunk through all dimensions in order, and a change on the way."""

    has_memory = False

    def __init__(self, change: Callable[[list[LogicalDimension], list[bool]], object]) -> None:
        self._change = change

    def chunk(
        self, collective: Collective, rest: int, size: int, dimensions: Sequence[LogicalDimension], usable: Sequence[bool]
    ) -> tuple[int, Sequence[int]]:
        count = len(dimensions)
        self._change(dimensions, usable)  # type: ignore[arg-type]
        return min(rest, size), range(count)


SCHEDULERS = {
    "by what was before": Broken(scheduler(by_how_many_before, "queue"), "after others"),
    "no end": Broken(scheduler(lambda: hangs, "queue"), "scheduler mine has not ended after 1 s", 1.0),
    "before what runs": Broken(scheduler(lambda: lambda jobs, started, job: max(0, started - 1), "queue"), "it gave place"),
    "changes what is usable": Broken(
        scheduler(lambda platform: InTurn(lambda dimensions, usable: usable.reverse()), "dimensions"), "changed the lists"
    ),
    "changes the dimensions": Broken(
        scheduler(lambda platform: InTurn(lambda dimensions, usable: dimensions.clear()), "dimensions"), "changed the lists"
    ),
    "not an order": Broken(scheduler(lambda platform: 3, "dimensions"), "which is not a DimensionOrder"),
}


# -- Compute and memory ------------------------------------------------------------------------------------------------


class Times(Compute):
    """Times as a function of the recorded one."""

    def __init__(self, time_of: Callable[[float], Any] = float, figures: Callable[[], Any] = dict) -> None:
        self._time_of, self.statistics = time_of, figures  # type: ignore[method-assign]

    def duration_ns(self, work: Work) -> float:
        if work.recorded_ns is None:
            raise MissingWork("there is no recorded time")
        time: float = self._time_of(work.recorded_ns)
        return time


def largest_so_far() -> Callable[[float], float]:
    seen = [0.0]

    def answer(value: float) -> float:
        seen.append(value)
        return max(seen)

    return answer


def whole_largest_so_far() -> Callable[[int], int]:
    answer = largest_so_far()
    return lambda value: int(answer(value))


COMPUTES = {
    "by what was before": Broken(provider(lambda: Times(largest_so_far())), "after others"),
    "figures that are NaN": Broken(provider(lambda: Times(figures=lambda: {"peak": float("nan")})), "expected finite figures"),
    "figures without names": Broken(provider(lambda: Times(figures=lambda: {1: 2})), "figures by name"),
    "times of NaN": Broken(provider(lambda: Times(lambda time: float("nan"))), "a time of at least 0"),
    "infinite times": Broken(provider(lambda: Times(lambda time: float("inf"))), "can be simulated"),
    "no end": Broken(provider(lambda: Times(hangs)), "compute mine has not ended after 1 s", 1.0),
}


class Store(Memory):
    """Accesses and additions as given."""

    def __init__(self, access: Callable[[int], Any] = int, add: Callable[[int], Any] = int, capacity: Any = None) -> None:
        self._access, self._add, self._capacity = access, add, capacity

    def access_ps(self, size: int, write: bool) -> int:
        time: int = self._access(size)
        return time

    def reduce_ps(self, size: int) -> int:
        time: int = self._add(size)
        return time

    def capacity_bytes(self) -> float | None:
        capacity: float | None = self._capacity
        return capacity


MEMORIES = {
    "by what was before": Broken(provider(lambda: Store(whole_largest_so_far())), "after others"),
    "additions by what was before": Broken(provider(lambda: Store(add=whole_largest_so_far())), "after others"),
    "times of NaN": Broken(provider(lambda: Store(lambda size: float("nan"))), "a time of at least 0"),
    "a capacity of NaN": Broken(provider(lambda: Store(capacity=float("nan"))), "capacity_bytes returned nan"),
    "no end": Broken(provider(lambda: Store(hangs)), "memory mine has not ended after 1 s", 1.0),
}


# -- Systems -----------------------------------------------------------------------------------------------------------


Change = Callable[[Communicate, list[ChunkPlan], int], list[ChunkPlan]]


class Changed(bench.BenchSystem):
    """The system of the bench, with plans that a function changes; it gets the number of earlier collectives of the session."""

    def __init__(self, change: Change, place: Any = None) -> None:
        self._change, self._place = change, place

    def session(self, dimensions: Sequence[LogicalDimension]) -> SystemSession:
        inner = super().session(dimensions)
        plan, number = inner.issue, calls()
        inner.issue = lambda operation, now_ps: self._change(operation, list(plan(operation, now_ps)), next(number))  # type: ignore[method-assign]
        if self._place is not None:
            inner.assign_queue = lambda operation, dimension, logical: self._place  # type: ignore[method-assign]
        return inner


def system(change: Change = lambda operation, chunks, number: chunks, place: Any = None) -> Provider:
    return provider(lambda context: Changed(change, place))


def urgent(chunks: list[ChunkPlan]) -> list[ChunkPlan]:
    """The same chunks before all others."""
    return [attrs.evolve(chunk, priority=-1) for chunk in chunks]


def changes_the_dimensions(context: Any) -> System:
    object.__setattr__(context.platform.dimensions[1], "packaging", "pod")
    return bench.BenchSystem()


SESSIONS = calls()

SYSTEMS = {
    "nothing for the second": Broken(system(lambda operation, chunks, number: chunks if number < 1 else []), "planned nothing"),
    "nothing for odd bytes": Broken(system(lambda operation, chunks, number: [] if operation.bytes % 2 else chunks), "planned nothing"),
    "nothing in dimension 0": Broken(
        system(lambda operation, chunks, number: [] if operation.dimensions == (0,) else chunks), "planned nothing"
    ),
    "twice where there is much": Broken(
        system(lambda operation, chunks, number: chunks * (2 if operation.bytes > 1 << 20 else 1)), "bytes in total"
    ),
    "a phase less later": Broken(
        system(lambda operation, chunks, number: [attrs.evolve(c, phases=c.phases[: 1 if number > 5 else 9]) for c in chunks]),
        "does not hold the result",
    ),
    "by chance": Broken(
        system(lambda operation, chunks, number: urgent(chunks) if next(SESSIONS) % 2 else chunks), "a second session plans it"
    ),
    "prices in a queue that is not there": Broken(system(place=QueueAssignment(9, None)), "assign_queue gives queue 9"),
    "a changed platform": Broken(provider(changes_the_dimensions), "has changed the platform"),
    "no end": Broken(system(lambda operation, chunks, number: hangs() or chunks), "system mine has not ended after 1 s", 1.0),
}


# -- Workloads and training loops --------------------------------------------------------------------------------------


def figures(value: Any) -> Provider:
    """A workload with a figure of its own."""

    def make(context: Any) -> ExecutionGraph:
        graph = ExecutionGraph([ComputeOperation((), 10)], context.platform.logical_dimensions(), ())
        return attrs.evolve(graph, figures=lambda ends, finish: {"loss": value})

    return provider(make)


def changes_the_platform_of(context: Any) -> ExecutionGraph:
    object.__setattr__(context.platform, "name", "another")
    return ExecutionGraph([ComputeOperation((), 10)], context.platform.logical_dimensions(), ())


WORKLOADS = {
    "figures that are NaN": Broken(figures(float("nan")), "expected finite figures"),
    "a changed platform": Broken(provider(changes_the_platform_of), "has changed the platform"),
    "leaves Python": Broken(provider(lambda context: sys.exit("enough")), "SystemExit"),
    "is interrupted": Broken(provider(lambda context: (_ for _ in ()).throw(KeyboardInterrupt())), "KeyboardInterrupt"),
    "no end": Broken(provider(hangs), "workload mine has not ended after 1 s", 1.0),
}


def loop(
    awaited: Pass, issued: Sequence[Pass], blocking: bool = True, layers: Callable[[int], int] = int
) -> Callable[[LayeredProgram], None]:
    """A loop that waits for one pass of a layer, and issues others."""

    def write(program: LayeredProgram) -> None:
        for _ in program.iterations():
            for layer in range(len(program.layers)):
                program.wait(layers(layer), awaited)
                program.compute(layer, Pass.FORWARD)
                for each in issued:
                    program.communicate(layer, each, program.all_dimensions(), blocking=blocking)

    return write


def only_of_two(program: LayeredProgram) -> None:
    if program.passes > 1:
        loop(Pass.FORWARD, [Pass.FORWARD])(program)


TRAINING_LOOPS = {
    "waits for what is never issued": Broken(provider(loop(Pass.WEIGHT_GRADIENT, [Pass.FORWARD])), "which it never issues"),
    "waits for another pass": Broken(provider(loop(Pass.INPUT_GRADIENT, [Pass.WEIGHT_GRADIENT], False)), "which it never issues"),
    "waits for layers that are not there": Broken(
        provider(loop(Pass.FORWARD, [Pass.FORWARD], layers=lambda layer: layer + 1)), "there are 4 layers"
    ),
    "waits for one layer alone": Broken(
        provider(loop(Pass.FORWARD, [Pass.FORWARD], False, layers=lambda layer: 9 * layer)),
        "which it never issues",
    ),
    "nothing in a run of one pass": Broken(provider(only_of_two), "it wrote no operation"),
    "no end": Broken(provider(hangs), "training_loop mine has not ended after 1 s", 1.0),
}


# -- Reports, formats and commands -------------------------------------------------------------------------------------


def report(besides: Callable[[list[Any]], object]) -> Provider:
    """A report that does something besides."""

    def write(results: list[Any], folder: Any) -> None:
        besides(results)
        folder.write("mine.txt", "".join(f"{result.run_name} {result.finish_ns}\n" for result in results))

    return provider(write)


def elsewhere(results: list[Any]) -> None:
    (Path(tempfile.gettempdir()) / "left_by_a_report.txt").write_text("here")


def shortened(results: list[Any]) -> None:
    results[0].finish_ns /= 2


REPORTS = {
    "writes elsewhere": Broken(report(elsewhere), "outside of its folder"),
    "changes the time of the run": Broken(report(shortened), "it changes finish_ns"),
    "changes figures of the network": Broken(report(lambda results: results[0].network.clear()), "it changes network"),
    "changes dimensions": Broken(report(lambda results: setattr(results[0].dimensions[0], "bytes", 0)), "it changes dimensions"),
    "no end": Broken(report(hangs), "report mine has not ended after 1 s", 1.0),
}


def file_format(recognises: Callable[[str], Any], kinds: tuple[str, ...] = ("network",), summary: str = "A format") -> FileFormat:
    return FileFormat("mine", summary, kinds, recognises, lambda text, path: {})


FORMATS = {
    "takes every file": Broken(file_format(bool), "as its own"),
    "takes every table": Broken(file_format(lambda text: "," in text), "as its own"),
    "fails on other files": Broken(file_format(lambda text: text.splitlines()[0] == "mine"), "IndexError"),
    "fills what is not there": Broken(file_format(lambda text: False, ("netwrok",)), "its kinds are"),
    "fills nothing": Broken(file_format(lambda text: False, ()), "its kinds are"),
    "says nothing": Broken(file_format(lambda text: False, summary=""), "no summary"),
    "no end": Broken(file_format(hangs), "format mine has not ended after 1 s", 1.0),
}


class WithoutHelp(click.Command):
    """A command that fails when it is asked for help."""

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        raise RuntimeError("there is no help")


COMMANDS = {
    "fails for --help": Broken(provider(WithoutHelp("mine")), "--help ends with exit status 1"),
    "not a command": Broken(provider(lambda: None), "which is not a click command"),
}


class LateEngine(ReferenceEngine):
    """Every message and token takes a picosecond longer."""

    def __init__(self, npus: int, network: Any = None, endpoint_ps: int = 0, **options: Any) -> None:
        super().__init__(npus, network, endpoint_ps + 1, **options)


class CountsTwice(ReferenceEngine):
    """It counts the time of tasks twice."""

    @staticmethod
    def computing(rows: Any, durations: Sequence[int], ended: Sequence[int]) -> tuple[int, int]:
        taken, covered = columns.computing(rows, durations, ended)
        return 2 * taken, covered


ENGINES = {
    "other times": Broken(provider(LateEngine), "differs from the engine in Python"),
    "counts twice": Broken(provider(CountsTwice), "expected"),
    "no engine": Broken(provider(int), "has no function computing"),
}


class PlansNothing(Policy):
    """It plans nothing, whoever waits."""

    def plan(self, state: ServingState) -> list[tuple[int, int]]:
        return []


class PlansTooMuch(Policy):
    """It plans every token of every request."""

    def plan(self, state: ServingState) -> list[tuple[int, int]]:
        return [(each.number, each.missing) for each in (*state.running, *state.waiting)]


MODELS = {
    "no description": Broken(provider(dict), "which is not a ModelDescription"),
    "another one each time": Broken(
        provider(lambda: ModelDescription(layers=time.perf_counter_ns() % 90_000 + 1, hidden=8, heads=1, vocab=8)), "and then"
    ),
}
ACCOUNTS = {
    "no figures": Broken(provider(lambda result, platform: None), "expected figures by name"),
    "no names": Broken(provider(lambda result, platform: {1: 2}), "expected names that are text"),
    "not a number": Broken(provider(lambda result, platform: {"paid": math.nan}), "not ready for JSON"),
    "changes the result": Broken(provider(lambda result, platform: {"paid": result.network.pop("plugin")}), "it changes the result"),
}
ASKED = calls()
VARIATIONS = {
    "no function": Broken(provider(lambda platform: 1), "or a function of an operation that starts"),
    "a fraction": Broken(provider(lambda platform: lambda started: started.duration_ps * 1.5), "expected a whole number of picoseconds"),
    "by the order": Broken(provider(lambda platform: lambda started: next(ASKED)), "expected that each has its own"),
}
PLACEMENTS = {
    "no function": Broken(provider(lambda: 1), "expected a function of the free NPUs and a number"),
    "too few": Broken(provider(lambda: lambda free, count: free[:1]), "expected 2 of these"),
    "others": Broken(provider(lambda: lambda free, count: range(count)), "expected 1 of these"),
    "twice": Broken(provider(lambda: lambda free, count: [free[0]] * count), "expected 2 of these"),
    "no place": Broken(provider(lambda: lambda free, count: [].index(count)), "it found no place for one NPU"),
}
POLICIES = {
    "plans nothing": Broken(provider(PlansNothing), "it planned nothing"),
    "plans too much": Broken(provider(PlansTooMuch), "expected at most 64"),
    "no policy": Broken(provider(dict), "which is not a Policy"),
}

BROKEN: dict[str, dict[str, Broken]] = {
    "network": NETWORKS,
    "collective": COLLECTIVES,
    "platform": PLATFORMS,
    "scheduler": SCHEDULERS,
    "compute": COMPUTES,
    "memory": MEMORIES,
    "system": SYSTEMS,
    "workload": WORKLOADS,
    "training_loop": TRAINING_LOOPS,
    "report": REPORTS,
    "format": FORMATS,
    "command": COMMANDS,
    "engine": ENGINES,
    "model": MODELS,
    "serving_policy": POLICIES,
    "variation": VARIATIONS,
    "account": ACCOUNTS,
    "placement": PLACEMENTS,
}
